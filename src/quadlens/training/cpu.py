"""One full-batch step on a CPU: three large matrix products, and as little as possible beside them.

Every linear map is applied to p tokens instead of p² pairs: weights → tables (U, W_L, S) → pairs →
gradients of the tables → gradients of the weights. Only the middle touches (training pairs × d_mlp)
numbers. It takes the pairs a few hundred at a time, from tables to loss and back, so that a block's
numbers stay in the second-level cache. Threads share out the pairs in the middle and, where the
tables are large, the neurons before and after it.

Constant attention has one table per operand. Softmax adds one per operand and head, which its gates
γ multiply (`network/tables.py`). The last position is read and sees all, and gates sum to `scale`:
with '=' its own gate is what the others leave, so that a table of head h is what it brings of a
token minus what it brings of '=', and '=' counts as if it had all the attention.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from quadlens.network.config import Config
from quadlens.network.task import Task
from quadlens.training import kernels
from quadlens.training.attention import SoftmaxAttention
from quadlens.training.config import TrainConfig
from quadlens.training.engine import Measure, OptimiserState, StepMeasures
from quadlens.training.layout import PairLayout
from quadlens.training.team import Team, share_out

if TYPE_CHECKING:
    from torch import Tensor

# Logits are stored this wide, with zero columns after p: BLAS is much faster on whole vector
# registers (59 → 64).
PADDING = 8
# Pairs taken from tables to gradients at a time: with 512 neurons in float32 a block has 1 MB.
ROWS = 256
# Rows of the tables from which sharing out the neurons saves more than the threads' meeting costs.
SHARED_ROWS = 400


def has_fused_step(config: TrainConfig) -> bool:
    """Whether `CpuEngine` trains this run.

    It trains transformers with ReLU, one vocabulary, cross-entropy and no norm, on any task.
    """
    plain = (config.architecture, config.activation, config.loss) == (
        "transformer",
        "relu",
        "cross-entropy",
    )
    return plain and config.vocabularies == 1 and config.norm == "none"


class _Desk:
    """One thread's pairs in blocks of `ROWS`, its buffers for one block, and its sums.

    Attributes:
        dU, dW_L, dS: Gradients of the tables, summed over the thread's training pairs.
        loss, correct: Of the pairs of the last pass, summed.
    """

    def __init__(self, tables: tuple["Tensor", "Tensor", "Tensor"], gated: bool) -> None:
        import torch

        self.dU, self.dW_L, self.dS = (torch.zeros_like(table) for table in tables)
        neurons, width, dtype = self.dU.shape[1], self.dS.shape[1], self.dU.dtype
        self._hidden, self._d_hidden = (torch.zeros(ROWS, neurons, dtype=dtype) for _ in range(2))
        # Where there are gates, the second slice is the skip path.
        self._logits = torch.zeros(2 if gated else 1, ROWS, width, dtype=dtype)
        self._gradient = torch.zeros(ROWS, width, dtype=dtype)
        self.loss, self.correct = 0.0, 0

    def blocks(self, pairs: Int[np.ndarray, "n 2"], task: Task) -> list["_Block"]:
        """The thread's pairs, in runs of `ROWS` that share the buffers."""
        made = []
        for first in range(0, len(pairs), ROWS):
            a, b = (np.ascontiguousarray(pairs[first : first + ROWS, side]) for side in range(2))
            k = len(a)
            gradient = self._gradient[:k]
            buffers = (
                self._hidden[:k],
                self._d_hidden[:k],
                self._logits[:, :k],
                gradient,
                gradient[:, : task.n],
            )
            made.append(_Block(a, b, task.answer(a, b), *buffers))
        return made


@dataclass(frozen=True)
class _Block:
    """At most `ROWS` pairs with their answers, and the part of a desk's buffers that is theirs."""

    a: Int[np.ndarray, " rows"]
    b: Int[np.ndarray, " rows"]
    right: Int[np.ndarray, " rows"]
    hidden: "Tensor"
    d_hidden: "Tensor"
    logits: "Tensor"
    gradient: "Tensor"
    by_logits: "Tensor"  # `gradient` without the columns after p


class _Share:
    """One thread's neurons: views of their weights, gradients and columns of the tables."""

    def __init__(
        self,
        neurons: slice,
        w: dict[str, "Tensor"],
        dw: dict[str, "Tensor"],
        tables: tuple["Tensor", ...],
    ) -> None:
        import torch

        self.neurons = neurons
        self.W_in, self.dW_in = w["W_in"][:, neurons], dw["W_in"][:, neurons]
        self.b_in, self.db_in = w["b_in"][neurons], dw["b_in"][neurons]
        self.W_out, self.dW_out = w["W_out"][neurons], dw["W_out"][neurons]
        U, W_L, by_neuron = tables
        self.U, self.W_L, self.W_L_by_neuron = U[:, neurons], W_L[:, neurons], by_neuron[neurons]
        # This share's part of gradients that are sums over neurons.
        d, dtype = len(self.W_in), U.dtype
        self.dW_U, self.dR = (
            torch.zeros(d, len(W_L), dtype=dtype),
            torch.zeros(len(U), d, dtype=dtype),
        )


class CpuEngine:
    """The weights being trained, their gradient, and every buffer a step needs, allocated once.

    Attributes:
        theta: The flat weights (`PairLayout`), updated in place.
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
        self._config, layout = config, PairLayout.of(config)
        p, d = config.p, config.d_model
        threads = min(threads, config.d_mlp)
        rows = 2 * p * (1 + (config.n_heads if config.softmax is not None else 0))
        width = -(-p // PADDING) * PADDING
        dtype = torch.float64 if state.theta.dtype == np.float64 else torch.float32
        self._theta = torch.zeros(layout.size, dtype=dtype)
        self._gradient = torch.zeros(layout.size, dtype=dtype)
        self.theta, self.gradient = self._theta.numpy(), self._gradient.numpy()
        self.theta[:] = state.theta[0]
        self._first, self._second = state.first[0].copy(), state.second[0].copy()
        self._w, self._dw = layout.views(self._theta), layout.views(self._gradient)
        self._attention, self._alpha = None, list(config.attention)
        if config.softmax is not None:
            self._attention = SoftmaxAttention(config, config.softmax, dtype)
            self._no_skip = np.zeros((2 * p, width), dtype=state.theta.dtype)
            if config.has_equals:
                self._alpha[2] += config.softmax.scale
        m = config.d_mlp
        self._U, self._S = torch.zeros(rows, m, dtype=dtype), torch.zeros(rows, width, dtype=dtype)
        # W_L twice, each way as one of the products reads it fastest.
        self._W_L, self._W_L_by_neuron = (
            torch.zeros(p, m, dtype=dtype),
            torch.zeros(m, width, dtype=dtype),
        )
        gated = self._attention is not None
        self._desks = [_Desk((self._U, self._W_L, self._S), gated) for _ in range(threads)]
        self._train, self._validation = (
            self._shared_out(pairs, config.task) for pairs in (train, validation)
        )
        self._counts = len(train), len(validation)
        tables = (self._U, self._W_L, self._W_L_by_neuron)
        parts = threads if rows >= SHARED_ROWS else 1
        self._shares = [_Share(part, self._w, self._dw, tables) for part in share_out(m, parts)]
        self._team = Team(threads)
        # Streams are the p tokens, then position 0, position 1 and (with '=') its token and
        # position.
        streams, heads = p + len(config.attention), config.n_heads * config.d_head
        self._X, self._dX = (
            torch.zeros(streams, d, dtype=dtype),
            torch.zeros(streams, d, dtype=dtype),
        )
        self._V, self._dV = (
            torch.zeros(streams, heads, dtype=dtype),
            torch.zeros(streams, heads, dtype=dtype),
        )
        self._A, self._dA = (
            torch.zeros(streams, d, dtype=dtype),
            torch.zeros(streams, d, dtype=dtype),
        )
        # R, the residual stream before the MLP, as U and S: rows 0 … p-1 for a, p … 2p-1 for b;
        # then 2p of each head.
        self._R = torch.zeros(rows, d, dtype=dtype)
        self._W_U = torch.zeros(d, width, dtype=dtype)

    def _shared_out(self, pairs: Int[np.ndarray, "n 2"], task: Task) -> list[list[_Block]]:
        runs = share_out(len(pairs), len(self._desks))
        return [desk.blocks(pairs[run], task) for desk, run in zip(self._desks, runs, strict=True)]

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
        return OptimiserState(
            self.theta[None].copy(), self._first[None].copy(), self._second[None].copy()
        )

    def close(self) -> None:
        """End the threads."""
        self._team.close()

    def step_gradient(self) -> Measure:
        """Set `gradient` to that of the mean training loss at `theta`.

        Returns loss and accuracy there.
        """
        for phase in self.phases().values():
            phase()
        return self._measure(self._counts[0])

    def phases(self) -> dict[str, Callable[[], object]]:
        """List the parts of `step_gradient` by name, so that a benchmark can time each."""
        return {
            "tokens through attention": self._streams_from_weights,
            "tables of the neurons": lambda: self._by_share(self._tables_of_share),
            "pairs, there and back": lambda: self._team.run(self._pairs_of_desk),
            "gradients of the neurons": lambda: self._by_share(self._gradient_of_share),
            "tokens backwards": self._streams_gradient,
        }

    def validate(self) -> Measure | None:
        """Measure validation pairs at the last step's weights; None without pairs."""
        if not self._counts[1]:
            return None
        self._team.run(self._validation_of_desk)
        return self._measure(self._counts[1])

    def _by_share(self, task: Callable[[int], None]) -> None:
        if len(self._shares) == 1:
            task(0)
        else:
            self._team.run(task)

    def _measure(self, count: int) -> Measure:
        return Measure(
            sum(d.loss for d in self._desks) / count, sum(d.correct for d in self._desks) / count
        )

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
            torch.bmm(
                self._attention.values,
                self._by_head(w["W_O"]),
                out=R[2 * p :].view(config.n_heads, 2 * p, -1),
            )
        self._W_U[:, :p] = w["W_U"]
        torch.mm(R, self._W_U, out=self._S)
        self._S[p : 2 * p] += w["b_out"] @ self._W_U

    def _by_head(self, W_O: "Tensor") -> "Tensor":
        return W_O.view(self._config.n_heads, self._config.d_head, -1)

    def _tables_of_share(self, member: int) -> None:
        """One share's columns of U and W_L."""
        import torch

        share, p = self._shares[member], self._config.p
        torch.mm(self._R, share.W_in, out=share.U)
        share.U[p : 2 * p] += share.b_in
        torch.mm(share.W_out, self._W_U, out=share.W_L_by_neuron)
        share.W_L.copy_(share.W_L_by_neuron[:, :p].t())

    def _loss_of_block(self, desk: _Desk, block: _Block, count: int) -> None:
        """Compute hidden units, logits, loss and logit gradients of one block of pairs."""
        import torch

        p, attention, a, b = self._config.p, self._attention, block.a, block.b
        hidden, logits, S = block.hidden.numpy(), block.logits.numpy(), self._S.numpy()
        if attention is None:
            kernels.hidden(self._U.numpy(), a, b, p, hidden)
        else:
            gates = attention.gates.numpy()
            kernels.gated(self._U.numpy(), gates, a, b, p, True, hidden)
            kernels.gated(S, gates, a, b, p, False, logits[1])
            S = self._no_skip
        torch.mm(block.hidden, self._W_L_by_neuron, out=block.logits[0])
        loss, correct = kernels.loss_gradient(
            logits, S, a, b, block.right, p, block.gradient.numpy(), count
        )
        desk.loss, desk.correct = desk.loss + loss, desk.correct + correct

    def _validation_of_desk(self, member: int) -> None:
        desk = self._desks[member]
        desk.loss, desk.correct = 0.0, 0
        for block in self._validation[member]:
            self._loss_of_block(desk, block, self._counts[1])

    def _pairs_of_desk(self, member: int) -> None:
        """Loss of one thread's training pairs, and the gradients of the tables summed over them."""
        import torch

        desk, p, attention = self._desks[member], self._config.p, self._attention
        desk.loss, desk.correct = 0.0, 0
        for table in (desk.dU, desk.dW_L, desk.dS):
            table.zero_()
        U, S, dU, dS = (table.numpy() for table in (self._U, self._S, desk.dU, desk.dS))
        for block in self._train[member]:
            self._loss_of_block(desk, block, self._counts[0])
            desk.dW_L.addmm_(block.by_logits.t(), block.hidden)
            torch.mm(block.by_logits, self._W_L, out=block.d_hidden)
            a, b = block.a, block.b
            hidden, d_hidden, by_logits = (
                block.hidden.numpy(),
                block.d_hidden.numpy(),
                block.gradient.numpy(),
            )
            if attention is None:
                kernels.scatter(d_hidden, hidden, a, b, p, dU)
                kernels.scatter_all(by_logits, a, b, p, dS)
            else:
                gates, d_gates = attention.gates.numpy(), attention.d_gates.numpy()
                kernels.gated_scatter(d_hidden, hidden, True, U, gates, a, b, p, dU, d_gates[0])
                kernels.gated_scatter(
                    by_logits, by_logits, False, S, gates, a, b, p, dS, d_gates[1]
                )

    def _gradient_of_share(self, member: int) -> None:
        """Turn gradients of tables into one share's gradients and its sums over neurons."""
        import torch

        share, p = self._shares[member], self._config.p
        dU, dW_L = self._desks[0].dU[:, share.neurons], self._desks[0].dW_L[:, share.neurons]
        for desk in self._desks[1:]:
            dU += desk.dU[:, share.neurons]
            dW_L += desk.dW_L[:, share.neurons]
        torch.mm(dW_L.t(), self._w["W_U"].t(), out=share.dW_out)
        torch.mm(share.W_out.t(), dW_L.t(), out=share.dW_U)
        torch.mm(self._R.t(), dU, out=share.dW_in)
        torch.sum(dU[p : 2 * p], dim=0, out=share.db_in)
        torch.mm(dU, share.W_in.t(), out=share.dR)

    def _streams_gradient(self) -> None:
        """Turn gradients of R and S into those of embeddings, attention and unembedding."""
        import torch

        w, dw, config, p = self._w, self._dw, self._config, self._config.p
        alpha, dA, dX, dS = self._alpha, self._dA, self._dX, self._desks[0].dS
        for desk in self._desks[1:]:
            dS += desk.dS
        dR, dW_U = self._shares[0].dR, self._shares[0].dW_U
        for share in self._shares[1:]:
            dR += share.dR
            dW_U += share.dW_U
        by_logits = dS[:, :p]
        dW_U.addmm_(self._R.t(), by_logits)
        constant = by_logits[p : 2 * p].sum(dim=0)
        torch.addr(dW_U, w["b_out"], constant, out=dw["W_U"])
        torch.mv(w["W_U"], constant, out=dw["b_out"])
        dR.addmm_(dS, self._W_U.t())
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
