"""One full-batch step on a CPU: three large matrix products, and as little as possible beside them.

Every linear map is applied to p tokens instead of p² pairs: weights → tables (U, W_L, S) → pairs → gradients of the
tables → gradients of the weights. Only the middle touches (training pairs × d_mlp) numbers. Neurons are shared out over
the threads: each thread owns a share of W_in, W_out and everything between, and the threads meet three times a step: to
add up logits, to share the loss, and at the end.

Constant attention has one table per operand. Softmax adds one per operand and head, which its gates γ multiply
(`networks.md` §2). The last position is read and sees all, and gates sum to `scale`: with '=' its own gate is what the
others leave, so that a table of head h is what it brings of a token minus what it brings of '=', and '=' counts as if
it had all the attention.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from quadlens.model.config import Config
from quadlens.model.task import Task
from quadlens.training import kernels
from quadlens.training.attention import SoftmaxAttention
from quadlens.training.config import TrainConfig
from quadlens.training.engine import Measure, OptimiserState, StepMeasures
from quadlens.training.layout import Layout
from quadlens.training.team import Team, share_out

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# Logits are stored this wide, with zero columns after p: BLAS is much faster on whole vector registers (59 → 64).
PADDING = 8


def has_fused_step(config: TrainConfig) -> bool:
    """Whether `CpuEngine` trains it: a transformer with ReLU, one vocabulary and cross-entropy, on any task."""
    plain = (config.architecture, config.activation, config.loss) == ("transformer", "relu", "cross-entropy")
    return plain and config.vocabularies == 1


class _Pairs:
    """A set of pairs with the buffers that have a row per pair: logits (a slice per thread) and their gradient.

    Where there are gates, the last slice is the skip path.
    """

    def __init__(
        self, pairs: Int[np.ndarray, "n 2"], task: Task, sizes: tuple[int, int, int], dtype: "torch.dtype"
    ) -> None:
        import torch

        width, threads, slices = sizes
        self.a, self.b = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
        self.right = task.answer(self.a, self.b)
        self.rows = share_out(len(pairs), threads)
        self.logits = torch.zeros(slices, len(pairs), width, dtype=dtype)
        self.gradient = torch.zeros(len(pairs), width, dtype=dtype)


class _Share:
    """One thread's neurons: their weights and gradients (views), and the buffers that have a column per neuron."""

    def __init__(self, neurons: slice, w: dict[str, "Tensor"], dw: dict[str, "Tensor"], sizes: tuple[int, ...]) -> None:
        import torch

        rows, width, d, train, validation = sizes
        count, dtype = neurons.stop - neurons.start, w["W_in"].dtype
        self.W_in, self.dW_in = w["W_in"][:, neurons], dw["W_in"][:, neurons]
        self.b_in, self.db_in = w["b_in"][neurons], dw["b_in"][neurons]
        self.W_out, self.dW_out = w["W_out"][neurons], dw["W_out"][neurons]
        self.U, self.dU = torch.zeros(rows, count, dtype=dtype), torch.zeros(rows, count, dtype=dtype)
        self.W_L, self.dW_L = torch.zeros(width, count, dtype=dtype), torch.zeros(width, count, dtype=dtype)
        self.hidden = torch.zeros(train, count, dtype=dtype)
        self.d_hidden = torch.zeros(train, count, dtype=dtype)
        self.validation_hidden = torch.zeros(validation, count, dtype=dtype)
        # This share's part of gradients that are sums over neurons.
        self.dW_U, self.dR = torch.zeros(d, width, dtype=dtype), torch.zeros(rows, d, dtype=dtype)


class CpuEngine:
    """The weights being trained, their gradient, and every buffer a step needs, allocated once.

    Attributes:
        theta: The flat weights (`Layout`), updated in place.
        gradient: The flat gradient of the mean training loss, as of the last `step_gradient`.
    """

    def __init__(
        self,
        config: Config,
        state: OptimiserState,
        train: Int[np.ndarray, "n 2"],
        validation: Int[np.ndarray, "m 2"],
        threads: int = 1,
    ) -> None:
        import torch

        # The team is the only parallelism: see `Team`.
        torch.set_num_threads(1)
        self._config, self._layout = config, Layout.of(config)
        p, d = config.p, config.d_model
        threads = min(threads, config.d_mlp)
        rows = 2 * p * (1 + (config.n_heads if config.softmax is not None else 0))
        width = -(-p // PADDING) * PADDING
        dtype = torch.float64 if state.theta.dtype == np.float64 else torch.float32
        self._theta = torch.zeros(self._layout.size, dtype=dtype)
        self._gradient = torch.zeros(self._layout.size, dtype=dtype)
        self.theta, self.gradient = self._theta.numpy(), self._gradient.numpy()
        self.theta[:] = state.theta[0]
        self._first, self._second = state.first[0].copy(), state.second[0].copy()
        self._w, self._dw = self._views(self._theta), self._views(self._gradient)
        self._attention, self._alpha = None, list(config.attention)
        if config.softmax is not None:
            self._attention = SoftmaxAttention(config, config.softmax, threads, dtype)
            self._no_skip = np.zeros((2 * p, width), dtype=state.theta.dtype)
            if config.has_equals:
                self._alpha[2] += config.softmax.scale
        slices = threads + (self._attention is not None)
        self._train = _Pairs(train, config.task, (width, threads, slices), dtype)
        self._validation = _Pairs(validation, config.task, (width, threads, slices), dtype)
        sizes = (rows, width, d, len(train), len(validation))
        self._shares = [_Share(part, self._w, self._dw, sizes) for part in share_out(config.d_mlp, threads)]
        self._team = Team(threads)
        # Streams are the p tokens, then position 0, position 1 and (with '=') its token and position.
        streams, heads = p + len(config.attention), config.n_heads * config.d_head
        self._X, self._dX = torch.zeros(streams, d, dtype=dtype), torch.zeros(streams, d, dtype=dtype)
        self._V, self._dV = torch.zeros(streams, heads, dtype=dtype), torch.zeros(streams, heads, dtype=dtype)
        self._A, self._dA = torch.zeros(streams, d, dtype=dtype), torch.zeros(streams, d, dtype=dtype)
        # R, the residual stream before the MLP, and S: rows 0 … p-1 for a, rows p … 2p-1 for b; then 2p of each head.
        self._R = torch.zeros(rows, d, dtype=dtype)
        self._S, self._dS = torch.zeros(rows, width, dtype=dtype), torch.zeros(rows, width, dtype=dtype)
        self._W_U = torch.zeros(d, width, dtype=dtype)

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
        self.update(epoch, config)
        return [measures]

    def update(self, epoch: int, config: TrainConfig) -> None:
        """Let AdamW move `theta` along `gradient`."""
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

    def state(self) -> OptimiserState:
        """A copy of weights and moments."""
        return OptimiserState(self.theta[None].copy(), self._first[None].copy(), self._second[None].copy())

    def close(self) -> None:
        """End the threads."""
        self._team.close()

    def step_gradient(self) -> Measure:
        """Set `gradient` to that of the mean training loss at `theta`; returns loss and accuracy there."""
        self._streams_from_weights()
        self._team.run(self._logits_of_share)
        measure = self._loss(self._train)
        self._team.run(self._gradient_of_share)
        self._streams_gradient()
        return measure

    def phases(self) -> dict[str, Callable[[], object]]:
        """The parts of `step_gradient` in order, by name, so that a benchmark can say where the time goes."""
        return {
            "tokens through attention": self._streams_from_weights,
            "hidden units and logits": lambda: self._team.run(self._logits_of_share),
            "loss and its gradient": lambda: self._loss(self._train),
            "gradients of the neurons": lambda: self._team.run(self._gradient_of_share),
            "tokens backwards": self._streams_gradient,
        }

    def validate(self) -> Measure | None:
        """Loss and accuracy on the validation pairs at the weights of the last `step_gradient`; None without pairs."""
        if not len(self._validation.a):
            return None
        self._team.run(lambda member: self._hidden(member, self._validation, self._shares[member].validation_hidden))
        return self._loss(self._validation)

    def _streams_from_weights(self) -> None:
        """Weights → the residual stream R before the MLP, and S."""
        import torch

        w, config, p = self._w, self._config, self._config.p
        X, A, R = self._X, self._A, self._R
        X[:p] = w["W_E"][:p]
        X[p : p + 2] = w["W_pos"][:2]
        if config.has_equals:
            torch.add(w["W_E"][config.equals_token], w["W_pos"][2], out=X[p + 2])
        torch.mm(X, w["W_V"], out=self._V)
        torch.mm(self._V, w["W_O"], out=A)
        for side in range(2):
            rows = R[side * p : (side + 1) * p]
            torch.add(A[:p], A[p + side], out=rows)
            rows *= self._alpha[side]
            if config.read_position == side:
                rows += X[:p]
                rows += X[p + side]
        if config.has_equals:
            R[p : 2 * p] += self._alpha[2] * A[p + 2] + X[p + 2]
        if self._attention is not None:
            self._attention.forward(X, self._V, w)
            torch.bmm(self._attention.values, self._by_head(w["W_O"]), out=R[2 * p :].view(config.n_heads, 2 * p, -1))
        self._W_U[:, :p] = w["W_U"]
        torch.mm(R, self._W_U, out=self._S)
        self._S[p : 2 * p] += w["b_out"] @ self._W_U

    def _by_head(self, W_O: "Tensor") -> "Tensor":
        return W_O.view(self._config.n_heads, self._config.d_head, -1)

    def _hidden(self, member: int, pairs: _Pairs, hidden: "Tensor") -> None:
        """One share's hidden units on every pair, and what they add to the logits; one member adds the skip path."""
        import torch

        share, p, attention = self._shares[member], self._config.p, self._attention
        if attention is None:
            kernels.hidden(share.U.numpy(), pairs.a, pairs.b, p, hidden.numpy())
        else:
            gates = attention.gates.numpy()
            kernels.gated(share.U.numpy(), gates, pairs.a, pairs.b, p, True, hidden.numpy())
            if member == 0:
                kernels.gated(self._S.numpy(), gates, pairs.a, pairs.b, p, False, pairs.logits[-1].numpy())
        torch.mm(hidden, share.W_L.t(), out=pairs.logits[member])

    def _logits_of_share(self, member: int) -> None:
        """One share's U and W_L, its hidden units on every training pair, and what they add to the logits."""
        import torch

        share, p = self._shares[member], self._config.p
        torch.mm(self._R, share.W_in, out=share.U)
        share.U[p : 2 * p] += share.b_in
        torch.mm(self._W_U.t(), share.W_out.t(), out=share.W_L)
        self._hidden(member, self._train, share.hidden)

    def _loss(self, pairs: _Pairs) -> Measure:
        """Logits → loss, accuracy and the gradient by the logits; each thread takes a run of rows."""
        found: list[tuple[float, int]] = [(0.0, 0)] * len(pairs.rows)
        logits, gradient = pairs.logits.numpy(), pairs.gradient.numpy()
        S = self._S.numpy() if self._attention is None else self._no_skip
        count, p = len(pairs.a), self._config.p

        def task(member: int) -> None:
            rows = pairs.rows[member]
            found[member] = kernels.loss_gradient(
                logits, S, pairs.a, pairs.b, pairs.right, p, gradient, rows.start, rows.stop, count
            )

        self._team.run(task)
        return Measure(sum(loss for loss, _ in found) / count, sum(correct for _, correct in found) / count)

    def _gradient_of_share(self, member: int) -> None:
        """Gradient by the logits → one share's gradients, and its part of what is summed over neurons."""
        import torch

        share, pairs, p, attention = self._shares[member], self._train, self._config.p, self._attention
        torch.mm(pairs.gradient.t(), share.hidden, out=share.dW_L)
        torch.mm(pairs.gradient, share.W_L, out=share.d_hidden)
        gradient, hidden, dU = share.d_hidden.numpy(), share.hidden.numpy(), share.dU.numpy()
        last = member == len(self._shares) - 1
        by_logits, dS, a, b = pairs.gradient.numpy(), self._dS.numpy(), pairs.a, pairs.b
        if attention is None:
            kernels.scatter(gradient, hidden, a, b, p, dU)
            if last:
                kernels.scatter_all(by_logits, a, b, p, dS)
        else:
            gates, d_gates = attention.gates.numpy(), [one.numpy() for one in attention.d_gates]
            kernels.gated_scatter(gradient, hidden, True, share.U.numpy(), gates, a, b, p, dU, d_gates[member])
            if last:
                S = self._S.numpy()
                kernels.gated_scatter(by_logits, by_logits, False, S, gates, a, b, p, dS, d_gates[-1])
        torch.mm(share.dW_L.t(), self._W_U.t(), out=share.dW_out)
        torch.mm(share.W_out.t(), share.dW_L.t(), out=share.dW_U)
        torch.mm(self._R.t(), share.dU, out=share.dW_in)
        torch.sum(share.dU[p : 2 * p], dim=0, out=share.db_in)
        torch.mm(share.dU, share.W_in.t(), out=share.dR)

    def _streams_gradient(self) -> None:
        """Gradients of R and S → gradients of embeddings, attention and unembedding: backwards through the streams."""
        import torch

        w, dw, config, p = self._w, self._dw, self._config, self._config.p
        alpha, dA, dX = self._alpha, self._dA, self._dX
        dR, dW_U = self._shares[0].dR, self._shares[0].dW_U
        for share in self._shares[1:]:
            dR += share.dR
            dW_U += share.dW_U
        dW_U.addmm_(self._R.t(), self._dS)
        constant = self._dS[p : 2 * p].sum(dim=0)
        dW_U.addr_(w["b_out"], constant)
        dw["W_U"].copy_(dW_U[:, :p])
        torch.mv(self._W_U, constant, out=dw["b_out"])
        dR.addmm_(self._dS, self._W_U.t())
        sums = [dR[:p].sum(dim=0), dR[p : 2 * p].sum(dim=0)]
        torch.mul(dR[:p], alpha[0], out=dA[:p])
        dA[:p].add_(dR[p : 2 * p], alpha=alpha[1])
        dX.zero_()
        for side in range(2):
            torch.mul(sums[side], alpha[side], out=dA[p + side])
            if config.read_position == side:
                dX[:p] += dR[side * p : (side + 1) * p]
                dX[p + side] = sums[side]
        if config.has_equals:
            torch.mul(sums[1], alpha[2], out=dA[p + 2])
            dX[p + 2] = sums[1]
        torch.mm(self._V.t(), dA, out=dw["W_O"])
        torch.mm(dA, w["W_O"].t(), out=self._dV)
        if self._attention is not None:
            by_head, values = dR[2 * p :].view(config.n_heads, 2 * p, -1), self._attention.values
            self._by_head(dw["W_O"]).baddbmm_(values.transpose(1, 2), by_head)
            d_values = by_head @ self._by_head(w["W_O"]).transpose(1, 2)
            through_values, through_scores = self._attention.backward(d_values, self._X, w, dw)
            self._dV += through_values
            dX += through_scores
        torch.mm(self._X.t(), self._dV, out=dw["W_V"])
        dX.addmm_(self._dV, w["W_V"].t())
        dw["W_E"][:p] = dX[:p]
        dw["W_pos"][:2] = dX[p : p + 2]
        if config.has_equals:
            dw["W_E"][config.equals_token] = dX[p + 2]
            dw["W_pos"][2] = dX[p + 2]
