"""Steps for every model on pairs, on any device, many seeds at once.

Token tables go through PyTorch's automatic differentiation.

Pre-activations come from tables with one row per token and gates (`network/tables.py`), so that no
product has a row per pair on one side and d_model on the other:

    pre(a,b) = Σ_h γ_h0(a,b) U_h0[a] + U_a[a]  +  Σ_h γ_h1(a,b) U_h1[b] + U_b[b]

On a CPU the sums over pairs and the loss are compiled (`pair_functions`). With norms the same sums
give the residual stream x, the tables being those of W_in = C diag(w) W_in and of the stream itself
(`network/collapse.py`):

    pre = r(x) (U_a[a] + …) + b W_in + b_in,      logits = norm(x + σ(pre) W_out + b_out) W_U
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Int

from quadlens.base.errors import BadConfig
from quadlens.network.config import Config, Softmax
from quadlens.network.norm import Norm
from quadlens.training.config import TrainConfig
from quadlens.training.engine import Measure, OptimiserState, StepMeasures
from quadlens.training.layout import Layout

if TYPE_CHECKING:
    from torch import Tensor

DEVICES = ("auto", "cpu", "cuda", "mps")


def choose_device(name: str) -> str:
    """`auto` is the best that is there; a device that is not there is refused."""
    import torch

    available = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if name == "auto":
        return next(device for device in ("cuda", "mps", "cpu") if available[device])
    if name not in available:
        raise BadConfig(f"device {name!r}; expected one of {', '.join(DEVICES)}")
    if not available[name]:
        here = ", ".join(device for device, there in available.items() if there)
        raise BadConfig(f"device {name!r} is not available; here there is: {here}")
    return name


def _activation(name: str) -> Any:
    """σ of tensors.

    Raises:
        BadConfig: for an activation that PyTorch's functions here do not have.
    """
    import torch

    known = {
        "relu": torch.relu,
        "abs": torch.abs,
        "square": torch.square,
        "quartic": lambda x: x.square().square(),
        "gelu": torch.nn.functional.gelu,
        "tanh": torch.tanh,
        "silu": torch.nn.functional.silu,
        # Not torch's softplus, which is the identity from 20 on.
        "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
    }
    if name not in known:
        raise BadConfig(
            f"activation {name!r} cannot be trained yet; expected one of {', '.join(known)}"
        )
    return known[name]


def adamw(
    theta: "Tensor",
    first: "Tensor",
    second: "Tensor",
    gradient: "Tensor",
    step: int,
    config: TrainConfig,
) -> None:
    """AdamW's step with this number, from 1, in place; as `kernels.adamw`."""
    rate = config.learning_rate(step - 1)
    first.mul_(config.beta_1).add_(gradient, alpha=1 - config.beta_1)
    second.mul_(config.beta_2).addcmul_(gradient, gradient, value=1 - config.beta_2)
    root = (second.sqrt() / (1 - config.beta_2**step) ** 0.5).add_(config.epsilon)
    theta.mul_(1 - rate * config.weight_decay)
    theta.addcdiv_(first, root, value=-rate / (1 - config.beta_1**step))


class _Chosen(NamedTuple):
    """Pairs and their right answers, each [seed, pair]."""

    a: "Tensor"
    b: "Tensor"
    right: "Tensor"


class _Side(NamedTuple):
    """What one operand brings in one or more heads.

    It has gates and the tables of pre-activations and of the skip path.

    Attributes:
        gates: [seed, pair, head].
        U: [seed, token, head, d_mlp].
        S: [seed, token, head, c]; None without a skip path.
    """

    gates: "Tensor"
    U: "Tensor"
    S: "Tensor | None"


class DeviceEngine:
    """Full-batch steps of any trainable model on pairs, batched over seeds."""

    def __init__(
        self,
        config: TrainConfig,
        state: OptimiserState,
        train: Int[np.ndarray, "seeds n 2"],
        validation: Int[np.ndarray, "seeds m 2"],
        device: str,
        threads: int | None = None,
    ) -> None:
        import torch

        if device == "cpu" and threads is not None:
            torch.set_num_threads(threads)
        self._config, self._layout, self._device = (
            config.model_config(),
            Layout.of_run(config),
            device,
        )
        self._activation, self._squares = _activation(config.activation), config.loss == "squares"
        self._compiled = device == "cpu" and len(train) == 1
        self._theta = torch.tensor(state.theta, device=device, requires_grad=True)
        self._first, self._second = (
            torch.tensor(state.first, device=device),
            torch.tensor(state.second, device=device),
        )
        self._train, self._validation = self._chosen(train), self._chosen(validation)

    def _chosen(self, pairs: Int[np.ndarray, "seeds n 2"]) -> "_Chosen":
        import torch

        a, b = pairs[..., 0], pairs[..., 1]
        return _Chosen(
            *(torch.tensor(x, device=self._device) for x in (a, b, self._config.task.answer(a, b)))
        )

    def step(self, epoch: int, config: TrainConfig, validate: bool) -> list[StepMeasures]:
        """Take the step with index `epoch` for every seed; returns what was measured before it."""
        import torch

        trained, gradient = self._gradient()
        validation = None
        with torch.no_grad():
            if validate and self._validation.a.shape[1]:
                validation = self._answer(self._validation)
            adamw(self._theta, self._first, self._second, gradient, epoch + 1, config)
        if validation is None:
            return [StepMeasures(measure, None) for measure in trained]
        return [StepMeasures(t, v) for t, v in zip(trained, _measures(*validation), strict=True)]

    def _gradient(self) -> tuple[list[Measure], "Tensor"]:
        """Measure the training pairs, and the flat gradient of the mean loss, by seed."""
        import torch

        losses, correct = self._answer(self._train)
        # Seeds do not meet: the gradient of the sum is each seed's own gradient.
        (gradient,) = torch.autograd.grad(losses.sum(), self._theta)
        return _measures(losses, correct), gradient

    def state(self) -> OptimiserState:
        """A copy of weights and moments."""
        flat = (self._theta.detach(), self._first, self._second)
        return OptimiserState(*(tensor.cpu().numpy().copy() for tensor in flat))

    def close(self) -> None:
        """Nothing to let go of: memory goes with the value."""

    def _answer(self, pairs: _Chosen) -> tuple["Tensor", "Tensor"]:
        """Mean loss and share of right answers of each seed on its pairs."""
        import torch

        logits, right = self._logits(pairs), pairs.right
        if self._compiled and not self._squares:
            from quadlens.training.pair_functions import CrossEntropy

            loss, share = CrossEntropy.apply(logits[0], right[0])  # type: ignore[no-untyped-call]
            return loss[None], share[None]
        # Metal has no float64; its stable log-softmax in float32 is the nearest there is.
        scores = logits if self._device == "mps" else logits.double()
        if self._squares:
            one_hot = torch.nn.functional.one_hot(right, self._config.p)
            losses = (scores - one_hot).square().sum(dim=-1).mean(dim=1)
        else:
            losses = (
                -torch.log_softmax(scores, dim=-1).gather(-1, right[..., None])[..., 0].mean(dim=1)
            )
        return losses, (logits.argmax(dim=-1) == right).double().mean(dim=1)

    def _logits(self, pairs: _Chosen) -> "Tensor":
        """Logits, [seed, pair, c]."""
        import torch

        w, config = self._layout.views(self._theta), self._config
        if not config.has_stream:
            ungated = torch.ones_like(pairs.a, dtype=w["W_a"].dtype)[..., None]
            of_a, of_b = (
                _Side(ungated, w[name][:, :, None], None)
                for name in ("W_a", "W_b" if "W_b" in w else "W_a")
            )
            W_L = w["W_out"]
        elif config.norms:
            return self._normed_logits(w, config, pairs)
        else:
            of_a, of_b = self._sides(w, config, pairs)
            W_L = torch.bmm(w["W_out"], w["W_U"])
        pre = self._sum(pairs, of_a.gates, of_a.U, of_b.gates, of_b.U)
        logits = torch.bmm(self._activation(pre), W_L)
        if of_a.S is None or of_b.S is None:
            return logits
        return logits + self._sum(pairs, of_a.gates, of_a.S, of_b.gates, of_b.S)

    def _normed_logits(self, w: dict[str, "Tensor"], config: Config, pairs: _Chosen) -> "Tensor":
        """Logits of a network with norms, [seed, pair, c]; see the module's formulas."""
        import torch

        norms, W_in = config.norms, w["W_in"]
        bias, d = w["b_in"], config.d_model
        if norms.mlp is not None:
            W_in = w["ln2_w"][:, :, None] * W_in
            W_in = W_in - W_in.mean(dim=1, keepdim=True) if norms.mlp.takes_mean else W_in
            bias = bias + (w["ln2_b"][:, None] @ w["W_in"])[:, 0] if "ln2_b" in w else bias
        identity = torch.eye(d, dtype=W_in.dtype, device=self._device).expand(len(W_in), d, d)
        unbiased = {name: torch.zeros_like(w[name]) for name in ("b_in", "b_out")}
        of_a, of_b = self._sides({**w, **unbiased, "W_in": W_in, "W_U": identity}, config, pairs)
        pre = self._sum(pairs, of_a.gates, of_a.U, of_b.gates, of_b.U)
        x = self._sum(pairs, of_a.gates, of_a.S, of_b.gates, of_b.S)  # type: ignore[arg-type]
        pre = (pre if norms.mlp is None else _inverse_size(norms.mlp, x)[1] * pre) + bias[:, None]
        x = x + torch.bmm(self._activation(pre), w["W_out"]) + w["b_out"][:, None]
        return torch.bmm(_normed(norms.final, x, w, "ln_final"), w["W_U"])

    def _sum(
        self,
        pairs: _Chosen,
        gate_a: "Tensor",
        table_a: "Tensor",
        gate_b: "Tensor",
        table_b: "Tensor",
    ) -> "Tensor":
        """Sum both operands' rows, weighed by gates, over heads: [seed, pair, column]."""
        import torch

        if self._compiled:
            from quadlens.training.pair_functions import GatedSum

            tensors = (gate_a, table_a, gate_b, table_b, pairs.a, pairs.b)
            return GatedSum.apply(*(tensor[0] for tensor in tensors))[None]  # type: ignore[no-untyped-call]
        seed = torch.arange(len(gate_a), device=self._device)[:, None]
        of_a = torch.einsum("snh,snhm->snm", gate_a, table_a[seed, pairs.a])
        return of_a + torch.einsum("snh,snhm->snm", gate_b, table_b[seed, pairs.b])

    def _sides(self, w: dict[str, "Tensor"], config: Config, pairs: _Chosen) -> tuple[_Side, _Side]:
        """Compute what a and b bring; '=' belongs to b's side.

        What has no gate is one more head, whose gate is 1.
        """
        import torch

        p, first_b, equals = config.p, config.b_token_offset, config.equals_token
        tokens = [
            w["W_E"][:, :p],
            w["W_E"][:, first_b : first_b + p],
            w["W_E"][:, equals : equals + 1],
        ]
        streams = [tokens[t] + w["W_pos"][:, t : t + 1] for t in range(len(config.attention))]
        read = [_normed(config.norms.attention, stream, w, "ln1") for stream in streams]
        parts = []
        for position, (alpha, stream) in enumerate(zip(config.attention, streams, strict=True)):
            attended = alpha * torch.bmm(torch.bmm(read[position], w["W_V"]), w["W_O"])
            parts.append(attended + stream if position == config.read_position else attended)
        from_a, from_b = parts[0], sum(parts[2:], start=parts[1])
        ungated = torch.ones_like(pairs.a, dtype=from_a.dtype)[..., None]
        gates = [[ungated], [ungated]]
        U = [
            [(from_a @ w["W_in"])[:, :, None]],
            [(from_b @ w["W_in"] + w["b_in"][:, None])[:, :, None]],
        ]
        S = [
            [(from_a @ w["W_U"])[:, :, None]],
            [((from_b + w["b_out"][:, None]) @ w["W_U"])[:, :, None]],
        ]
        if config.softmax is not None:
            by_position = self._gates(w, read, config, config.softmax)
            seed = torch.arange(len(pairs.a), device=self._device)[:, None]
            for position, stream in enumerate(read):
                side = min(position, 1)
                gates[side].append(by_position[position][seed, pairs.a, pairs.b])
                U[side].append(_written(w, stream, w["W_in"], config).expand(-1, p, -1, -1))
                S[side].append(_written(w, stream, w["W_U"], config).expand(-1, p, -1, -1))
        of_a, of_b = (
            _Side(torch.cat(gates[i], dim=2), torch.cat(U[i], dim=2), torch.cat(S[i], dim=2))
            for i in range(2)
        )
        return of_a, of_b

    def _gates(
        self, w: dict[str, "Tensor"], streams: list["Tensor"], config: Config, softmax: Softmax
    ) -> "Tensor":
        """Compute scale · softmax of the scores, [position, seed, a, b, head].

        The last position is read and sees all.
        """
        import torch

        heads, read = (config.n_heads, config.d_head), config.read_position
        query = (streams[read] @ w["W_Q"]).view(len(streams[0]), -1, *heads)
        scores = []
        for position, stream in enumerate(streams):
            key = (stream @ w["W_K"]).view(len(stream), -1, *heads)
            if (position, read) == (0, 1):
                score = torch.einsum("sahk,sbhk->sabh", key, query)
            else:  # one of both is constant, or both are of b
                score = (key * query).sum(dim=-1)
                score = score[:, None] if position == 1 else score[:, :, None]
            scores.append(score / softmax.divisor)
        of_all = [score.expand(-1, config.p, config.p, -1) for score in scores]
        return softmax.scale * torch.softmax(torch.stack(of_all), dim=0)


def _inverse_size(norm: Norm, x: "Tensor") -> tuple["Tensor", "Tensor"]:
    """Rows of x, less their mean where the norm takes it off, and 1 / √(mean x² + eps) of each."""
    x = x - x.mean(dim=-1, keepdim=True) if norm.takes_mean else x
    return x, (x.square().mean(dim=-1, keepdim=True) + norm.eps).rsqrt()


def _normed(norm: Norm | None, x: "Tensor", w: dict[str, "Tensor"], name: str) -> "Tensor":
    """The norm of rows of x, [seed, row, d_model]; x itself where there is none."""
    if norm is None:
        return x
    x, size = _inverse_size(norm, x)
    scaled = x * size * w[f"{name}_w"][:, None]
    return scaled + w[f"{name}_b"][:, None] if f"{name}_b" in w else scaled


def _written(w: dict[str, "Tensor"], stream: "Tensor", into: "Tensor", config: Config) -> "Tensor":
    """Compute what each head brings of each token at full attention.

    The array is [seed, token, head, column of `into`].
    """
    heads = (config.n_heads, config.d_head)
    values = (stream @ w["W_V"]).view(len(stream), -1, *heads)
    onward = w["W_O"].view(len(stream), *heads, -1) @ into[:, None]
    return (values.transpose(1, 2) @ onward).transpose(1, 2)


def _measures(losses: "Tensor", correct: "Tensor") -> list[Measure]:
    return [
        Measure(loss, share) for loss, share in zip(losses.tolist(), correct.tolist(), strict=True)
    ]
