"""One full-batch step on a CPU: three large matrix products, and as little as possible beside them.

Attention is constant, so every linear map is applied to p tokens instead of p² pairs: weights → tables
(U_a, U_b, W_L, S_a, S_b) → pairs → gradients of the tables → gradients of the weights. Only the middle touches
(training pairs × d_mlp) numbers: two products that make logits and gradients of hidden units, and one for W_L.
"""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from quadlens.model.config import Config
from quadlens.training import kernels
from quadlens.training.config import TrainConfig
from quadlens.training.engine import Measure, OptimiserState, StepMeasures
from quadlens.training.layout import Layout

if TYPE_CHECKING:
    from torch import Tensor

# Logits are stored this wide, with zero columns after p: BLAS is much faster on whole vector registers (59 → 64).
PADDING = 8


class _Rows:
    """Buffers for one set of pairs."""

    def __init__(self, pairs: Int[np.ndarray, "n 2"], p: int, width: int, d_mlp: int, dtype: "object") -> None:
        import torch

        self.a, self.b = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
        self.right = (self.a + self.b) % p
        self.hidden = torch.zeros(len(pairs), d_mlp, dtype=dtype)  # type: ignore[call-overload]
        self.logits = torch.zeros(len(pairs), width, dtype=dtype)  # type: ignore[call-overload]
        self.gradient = torch.zeros(len(pairs), width, dtype=dtype)  # type: ignore[call-overload]


class CpuEngine:
    """The weights being trained, their gradient, and every buffer a step needs, allocated once.

    Attributes:
        theta: The flat weights (`Layout`), updated in place by the optimiser.
        gradient: The flat gradient of the mean training loss, as of the last `step_gradient`.
    """

    def __init__(
        self,
        config: Config,
        state: OptimiserState,
        train: Int[np.ndarray, "n 2"],
        validation: Int[np.ndarray, "m 2"],
    ) -> None:
        import torch

        self._config, self._layout = config, Layout.of(config)
        p, d, m = config.p, config.d_model, config.d_mlp
        width = -(-p // PADDING) * PADDING
        dtype = torch.float64 if state.theta.dtype == np.float64 else torch.float32
        self._theta = torch.zeros(self._layout.size, dtype=dtype)
        self._gradient = torch.zeros(self._layout.size, dtype=dtype)
        self.theta, self.gradient = self._theta.numpy(), self._gradient.numpy()
        self.theta[:] = state.theta[0]
        self._first, self._second = state.first[0].copy(), state.second[0].copy()
        self._w, self._dw = self._views(self._theta), self._views(self._gradient)
        self._train = _Rows(train, p, width, m, dtype)
        self._validation = _Rows(validation, p, width, m, dtype)
        self._d_hidden = torch.zeros(len(train), m, dtype=dtype)
        # Streams are the p tokens, then position 0, position 1 and (with '=') its token and position.
        streams, heads = p + len(config.attention), config.n_heads * config.d_head
        self._X, self._dX = torch.zeros(streams, d, dtype=dtype), torch.zeros(streams, d, dtype=dtype)
        self._V, self._dV = torch.zeros(streams, heads, dtype=dtype), torch.zeros(streams, heads, dtype=dtype)
        self._A, self._dA = torch.zeros(streams, d, dtype=dtype), torch.zeros(streams, d, dtype=dtype)
        # R, U, S: rows 0 … p-1 for a, rows p … 2p-1 for b.
        self._R, self._dR = torch.zeros(2 * p, d, dtype=dtype), torch.zeros(2 * p, d, dtype=dtype)
        self._U, self._dU = torch.zeros(2 * p, m, dtype=dtype), torch.zeros(2 * p, m, dtype=dtype)
        self._S, self._dS = torch.zeros(2 * p, width, dtype=dtype), torch.zeros(2 * p, width, dtype=dtype)
        self._W_U, self._dW_U = torch.zeros(d, width, dtype=dtype), torch.zeros(d, width, dtype=dtype)
        self._W_L, self._dW_L = torch.zeros(width, m, dtype=dtype), torch.zeros(width, m, dtype=dtype)
        self._powers = np.zeros(p)
        self._exponents = self._powers.view(np.int64)

    def _views(self, flat: "Tensor") -> dict[str, "Tensor"]:
        views = {}
        for name, shape in self._layout.shapes.items():
            start = self._layout.offsets[name]
            views[name] = flat[start : start + int(np.prod(shape))].view(shape)
        return views

    def step(self, epoch: int, config: TrainConfig, validate: bool) -> list[StepMeasures]:
        """Take the step with index `epoch`; returns what was measured before it."""
        train = self.step_gradient()
        measures = StepMeasures(train, self.validate() if validate else None)
        kernels.adamw(
            self.theta,
            self.gradient,
            self._first,
            self._second,
            epoch + 1,
            config.learning_rate(epoch),
            config.beta_1,
            config.beta_2,
            config.epsilon,
            config.weight_decay,
        )
        return [measures]

    def state(self) -> OptimiserState:
        """A copy of weights and moments."""
        return OptimiserState(self.theta[None].copy(), self._first[None].copy(), self._second[None].copy())

    def step_gradient(self) -> Measure:
        """Set `gradient` to that of the mean training loss at `theta`; returns loss and accuracy there."""
        self._tables_from_weights()
        measure = self._answer(self._train)
        self._tables_gradient()
        self._weights_gradient()
        return measure

    def validate(self) -> Measure | None:
        """Loss and accuracy on the validation pairs at the weights of the last `step_gradient`; None without pairs."""
        return self._answer(self._validation) if len(self._validation.a) else None

    def _tables_from_weights(self) -> None:
        """Weights → U, S, W_L."""
        import torch

        w, config, p = self._w, self._config, self._config.p
        X, A, R = self._X, self._A, self._R
        alpha, read = config.attention, config.read_position
        X[:p] = w["W_E"][:p]
        X[p : p + 2] = w["W_pos"][:2]
        if config.has_equals:
            torch.add(w["W_E"][config.equals_token], w["W_pos"][2], out=X[p + 2])
        torch.mm(X, w["W_V"], out=self._V)
        torch.mm(self._V, w["W_O"], out=A)
        for side in range(2):
            rows = R[side * p : (side + 1) * p]
            torch.add(A[:p], A[p + side], out=rows)
            rows *= alpha[side]
            if read == side:
                rows += X[:p]
                rows += X[p + side]
        if config.has_equals:
            R[p:] += alpha[2] * A[p + 2] + X[p + 2]
        torch.mm(R, w["W_in"], out=self._U)
        self._U[p:] += w["b_in"]
        self._W_U[:, :p] = w["W_U"]
        torch.mm(R, self._W_U, out=self._S)
        self._S[p:] += w["b_out"] @ self._W_U
        torch.mm(self._W_U.t(), w["W_out"].t(), out=self._W_L)

    def _answer(self, rows: _Rows) -> Measure:
        """Tables → logits of the pairs → loss, accuracy and the gradient by the logits."""
        import torch

        p = self._config.p
        U, S = self._U.numpy(), self._S.numpy()
        kernels.hidden(U[:p], U[p:], rows.a, rows.b, rows.hidden.numpy())
        torch.mm(rows.hidden, self._W_L.t(), out=rows.logits)
        total, correct = kernels.loss_gradient(
            rows.logits.numpy(),
            S[:p],
            S[p:],
            rows.a,
            rows.b,
            rows.right,
            p,
            rows.gradient.numpy(),
            self._exponents,
            self._powers,
        )
        return Measure(total / len(rows.a), correct / len(rows.a))

    def _tables_gradient(self) -> None:
        """Gradient by the logits → gradients of U, S, W_L."""
        import torch

        rows = self._train
        torch.mm(rows.gradient.t(), rows.hidden, out=self._dW_L)
        torch.mm(rows.gradient, self._W_L, out=self._d_hidden)
        kernels.scatter(
            self._d_hidden.numpy(),
            rows.hidden.numpy(),
            rows.gradient.numpy(),
            rows.a,
            rows.b,
            self._config.p,
            self._dU.numpy(),
            self._dS.numpy(),
        )

    def _weights_gradient(self) -> None:
        """Gradients of U, S, W_L → gradients of the weights: the transpose of `_tables_from_weights`."""
        import torch

        w, dw, config, p = self._w, self._dw, self._config, self._config.p
        alpha, read = config.attention, config.read_position
        dR, dA, dX, dW_U = self._dR, self._dA, self._dX, self._dW_U
        torch.mm(self._dW_L.t(), self._W_U.t(), out=dw["W_out"])
        torch.mm(w["W_out"].t(), self._dW_L.t(), out=dW_U)
        dW_U.addmm_(self._R.t(), self._dS)
        constant = self._dS[p:].sum(dim=0)
        dW_U.addr_(w["b_out"], constant)
        dw["W_U"].copy_(dW_U[:, :p])
        torch.mv(self._W_U, constant, out=dw["b_out"])
        torch.mm(self._R.t(), self._dU, out=dw["W_in"])
        torch.sum(self._dU[p:], dim=0, out=dw["b_in"])
        torch.mm(self._dU, w["W_in"].t(), out=dR)
        dR.addmm_(self._dS, self._W_U.t())
        sums = [dR[:p].sum(dim=0), dR[p:].sum(dim=0)]
        torch.mul(dR[:p], alpha[0], out=dA[:p])
        dA[:p].add_(dR[p:], alpha=alpha[1])
        dX.zero_()
        for side in range(2):
            torch.mul(sums[side], alpha[side], out=dA[p + side])
            if read == side:
                dX[:p] += dR[side * p : (side + 1) * p]
                dX[p + side] = sums[side]
        if config.has_equals:
            torch.mul(sums[1], alpha[2], out=dA[p + 2])
            dX[p + 2] = sums[1]
        torch.mm(self._V.t(), dA, out=dw["W_O"])
        torch.mm(dA, w["W_O"].t(), out=self._dV)
        torch.mm(self._X.t(), self._dV, out=dw["W_V"])
        dX.addmm_(self._dV, w["W_V"].t())
        dw["W_E"][:p] = dX[:p]
        dw["W_pos"][:2] = dX[p : p + 2]
        if config.has_equals:
            dw["W_E"][config.equals_token] = dX[p + 2]
            dw["W_pos"][2] = dX[p + 2]
