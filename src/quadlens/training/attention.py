"""Softmax attention of a training step on a CPU, forward and backward by hand."""

from typing import TYPE_CHECKING

from quadlens.network.config import Config, Softmax

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class SoftmaxAttention:
    """Gates of softmax from weights, and gradients back.

    Arrays have one row per token of a, then of b, then '=' if there is one.

    Attributes:
        gates: scale · softmax, [position, head, a, b].
        values: What each head takes from the tokens of a and b, less what it takes from '=', [head,
            2p, d_head].
        d_gates: Gradients by the gates of a and b, [through the neurons or the skip path, position,
            head, a, b].
    """

    def __init__(self, config: Config, softmax: Softmax, dtype: "torch.dtype") -> None:
        import torch

        p, heads = config.p, config.n_heads
        self._config, self._softmax = config, softmax
        self._scores = torch.zeros(len(config.attention), heads, p, p, dtype=dtype)
        self.gates, self._d_scores = torch.zeros_like(self._scores), torch.zeros_like(self._scores)
        self.values = torch.zeros(heads, 2 * p, config.d_head, dtype=dtype)
        # Pairs that are not trained on keep a gradient of 0.
        self.d_gates = torch.zeros(2, 2, heads, p, p, dtype=dtype)

    def _by_head(self, rows: "Tensor") -> list["Tensor"]:
        """Split rows of tokens and positions by position: [head, token, d_head] each."""
        p, config = self._config.p, self._config
        by_head = rows.view(-1, config.n_heads, config.d_head).transpose(0, 1)
        of_operands = [by_head[:, :p] + by_head[:, p + side : p + side + 1] for side in range(2)]
        return [*of_operands, by_head[:, p + 2 :]] if config.has_equals else of_operands

    def _rows(self, by_head: list["Tensor"]) -> "Tensor":
        """Join gradients by position into rows: the transpose of `_by_head`."""
        import torch

        of_a, of_b = by_head[0], by_head[1]
        sums = [side.sum(dim=1, keepdim=True) for side in (of_a, of_b)]
        rows = torch.cat([of_a + of_b, *sums, *by_head[2:]], dim=1).transpose(0, 1)
        return rows.reshape(len(rows), -1)

    def forward(self, X: "Tensor", V: "Tensor", w: dict[str, "Tensor"]) -> None:
        """Set `gates` and `values`, from tokens and positions and what W_V makes of them."""
        import torch

        p, values = self._config.p, self._by_head(V)
        for side in range(2):
            to = self.values[:, side * p : (side + 1) * p]
            to.copy_(values[side])
            if self._config.has_equals:
                to -= values[2]
        self._keys, self._query = self._by_head(X @ w["W_K"]), self._by_head(X @ w["W_Q"])[-1]
        self._scores[0] = self._keys[0] @ self._query.transpose(1, 2)
        for position, key in enumerate(self._keys[1:], start=1):
            self._scores[position] = (key * self._query).sum(dim=2)[:, None]
        self._scores /= self._softmax.divisor
        torch.softmax(self._scores, dim=0, out=self.gates)
        self.gates *= self._softmax.scale

    def backward(
        self, d_values: "Tensor", X: "Tensor", w: dict[str, "Tensor"], dw: dict[str, "Tensor"]
    ) -> tuple["Tensor", "Tensor"]:
        """Set the gradients of W_Q and W_K; returns what V and X get through softmax."""
        import torch

        p, query, d_gates = self._config.p, self._query, self.d_gates.sum(dim=0)
        # The gate of '=' is in neither table: its gradient is 0.
        mean = (self.gates[:2] * d_gates).sum(dim=0) / self._softmax.scale
        torch.sub(d_gates, mean, out=self._d_scores[:2])
        if self._config.has_equals:
            torch.neg(mean, out=self._d_scores[2])
        self._d_scores *= self.gates
        self._d_scores /= self._softmax.divisor
        of_a = (
            self._d_scores[0] if query.shape[1] == p else self._d_scores[0].sum(dim=2, keepdim=True)
        )
        d_keys, d_query = [of_a @ query], of_a.transpose(1, 2) @ self._keys[0]
        for position, key in enumerate(self._keys[1:], start=1):
            by_token = self._d_scores[position].sum(dim=1)
            by_token = (by_token if key.shape[1] == p else by_token.sum(dim=1, keepdim=True))[
                ..., None
            ]
            d_keys.append(by_token * query)
            d_query += (
                (by_token * key).sum(dim=1, keepdim=True)
                if query.shape[1] < key.shape[1]
                else by_token * key
            )
        nothing = [torch.zeros_like(key) for key in self._keys[:-1]]
        dX = torch.zeros_like(X)
        for name, gradients in (("W_K", d_keys), ("W_Q", [*nothing, d_query])):
            rows = self._rows(gradients)
            torch.mm(X.t(), rows, out=dw[name])
            dX.addmm_(rows, w[name].t())
        of_operands = [d_values[:, :p], d_values[:, p:]]
        of_equals = [-d_values.sum(dim=1, keepdim=True)] if self._config.has_equals else []
        return self._rows([*of_operands, *of_equals]), dX
