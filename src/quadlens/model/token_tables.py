"""The collapse for any attention of one layer: tables of what each token adds, times attention weights (gates).

    pre_i(a,b)   = U_a[a,i] + U_b[b,i] + Σ_h Σ_t γ_ht(a,b) U_ht[x_t, i]
    logit(a,b,c) = Σ_i W_L[c,i] σ(pre_i(a,b)) + S_a[a,c] + S_b[b,c] + Σ_h Σ_t γ_ht(a,b) S_ht[x_t, c]

x_t is the token at position t: a, b or the constant '='. U_ht and S_ht are the OV path of head h from position t
through W_in and W_U; γ_ht is the softmax of head h. Everything that no softmax multiplies, the residual stream itself,
biases and the constant part of attention, is in U_a, U_b, S_a, S_b (`networks.md` §2). It is exact.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from quadlens.errors import BadWeights
from quadlens.model.activation import Activation, apply_activation
from quadlens.model.collapsed import Collapsed
from quadlens.model.task import Task

# Gates that differ by no more than this over all inputs count as constant.
CONSTANT_WITHIN = 1e-12
KEPT_FLOATS = 1 << 24


@dataclass(frozen=True, eq=False)
class GatedTable:
    """One position that attention weighs.

    Attributes:
        position: 0 for a, 1 for b, 2 for '='.
        scores: Attention scores before softmax, [head, a, b]; a length of 1 where they do not depend on a or b.
        U: What the position's token adds to pre-activations at full attention, [head, token, neuron].
        S: What it adds to logits past the MLP, [head, token, c].
    """

    position: int
    scores: Float[np.ndarray, "heads rows columns"]
    U: Float[np.ndarray, "heads tokens d_mlp"]
    S: Float[np.ndarray, "heads tokens p"]


@dataclass(frozen=True, eq=False)
class TokenTables:
    """The whole model as tables and gates; see the module's formulas.

    Attributes:
        task: What the model is asked.
        activation: σ.
        scale: What softmax is multiplied by.
        U_a: What a adds without any gate.
        U_b: The same for b, with every constant.
        W_L: Neuron-to-logit map.
        S_a: What a adds to the logits past the MLP, without any gate.
        S_b: The same for b, with every constant.
        gated: One table per position that attention sees.
    """

    task: Task
    activation: Activation
    scale: float
    U_a: Float[np.ndarray, "p d_mlp"]
    U_b: Float[np.ndarray, "p d_mlp"]
    W_L: Float[np.ndarray, "p d_mlp"]
    S_a: Float[np.ndarray, "p p"]
    S_b: Float[np.ndarray, "p p"]
    gated: tuple[GatedTable, ...]

    def __post_init__(self) -> None:
        arrays = {name: getattr(self, name) for name in ("U_a", "U_b", "W_L", "S_a", "S_b")}
        for table in self.gated:
            arrays |= {f"{name} of position {table.position}": getattr(table, name) for name in ("scores", "U", "S")}
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise BadWeights(f"{name} of the collapsed model overflows: the weights are too large for float64")
            array.flags.writeable = False

    @property
    def p(self) -> int:
        """Number of elements."""
        return self.task.n

    @property
    def d_mlp(self) -> int:
        """Number of neurons."""
        return int(self.U_a.shape[1])

    @property
    def heads(self) -> int:
        """Number of attention heads."""
        return len(self.gated[0].scores)

    def gates(self, a: Int[np.ndarray, " n"], b: Int[np.ndarray, " n"]) -> Float[np.ndarray, "positions heads n"]:
        """γ of each pair (a, b): what softmax, times its scale, puts on each position that a head sees."""
        scores = np.stack([one.scores[:, a % one.scores.shape[1], b % one.scores.shape[2]] for one in self.gated])
        powers = np.exp(scores - scores.max(axis=0))
        return self.scale * powers / powers.sum(axis=0)

    def gate_range(self) -> Float[np.ndarray, "positions heads 2"]:
        """Smallest and largest gate over all inputs."""
        rows = [self.gates(np.full(self.p, a), np.arange(self.p)) for a in range(self.p)]
        return np.stack(
            [np.min([x.min(axis=2) for x in rows], axis=0), np.max([x.max(axis=2) for x in rows], axis=0)], axis=2
        )

    def pre(self, a: int) -> Float[np.ndarray, "p d_mlp"]:
        """Pre-activations of every neuron for one a and all b, [b, i]."""
        return self._through(a, self.gates(np.full(self.p, a), np.arange(self.p)), "U")

    def logits(self, a: int) -> Float[np.ndarray, "p p"]:
        """Logits for one a and all b, [b, c]."""
        gates = self.gates(np.full(self.p, a), np.arange(self.p))
        hidden = apply_activation(self.activation, self._through(a, gates, "U"))
        return hidden @ self.W_L.T + self._through(a, gates, "S")

    def skip(self, a: int) -> Float[np.ndarray, "p p"]:
        """What passes by the neurons on its way to the logits, for one a and all b, [b, c]."""
        return self._through(a, self.gates(np.full(self.p, a), np.arange(self.p)), "S")

    def _through(self, a: int, gates: Float[np.ndarray, "positions heads p"], name: str) -> Float[np.ndarray, "p _"]:
        """All tables of one kind, U or S, for one a and all b."""
        total = getattr(self, f"{name}_a")[a] + getattr(self, f"{name}_b")
        for table, gate in zip(self.gated, gates, strict=True):
            # Per b one product [1, head] @ [head, neuron], by numpy's loop: as one product of matrices BLAS would wake
            # its threads for almost nothing.
            rows = getattr(table, name)
            of_each_b = rows.swapaxes(0, 1) if table.position == 1 else rows[:, a if table.position == 0 else 0]
            total += np.matmul(np.ascontiguousarray(gate.T)[:, None], of_each_b)[:, 0]
        return total

    def pair_logits(self, pairs: Int[np.ndarray, "n 2"]) -> Float[np.ndarray, "n p"]:
        """Logits of the pairs given."""
        a, b = pairs[:, 0], pairs[:, 1]
        hidden = apply_activation(self.activation, self.pair_pre(pairs))
        return hidden @ self.W_L.T + self._of_pairs(a, b, self.gates(a, b), "S")

    def pair_pre(self, pairs: Int[np.ndarray, "n 2"]) -> Float[np.ndarray, "n d_mlp"]:
        """Pre-activations of every neuron on the pairs given."""
        a, b = pairs[:, 0], pairs[:, 1]
        return self._of_pairs(a, b, self.gates(a, b), "U")

    def _of_pairs(
        self,
        a: Int[np.ndarray, " n"],
        b: Int[np.ndarray, " n"],
        gates: Float[np.ndarray, "positions heads n"],
        name: str,
    ) -> Float[np.ndarray, "n _"]:
        total = getattr(self, f"{name}_a")[a] + getattr(self, f"{name}_b")[b]
        for table, gate in zip(self.gated, gates, strict=True):
            token = (a, b, np.zeros_like(a))[table.position]
            for head, rows in zip(gate, getattr(table, name), strict=True):
                total += head[:, None] * rows[token]
        return total

    def mean_gates(self) -> Float[np.ndarray, "positions heads"]:
        """The mean of every gate over all inputs."""
        sums = [self.gates(np.full(self.p, a), np.arange(self.p)).sum(axis=2) for a in range(self.p)]
        return np.sum(sums, axis=0) / self.p**2

    def with_mean_gates(self) -> Collapsed:
        """The model in which every gate is at its mean over all inputs: what its neurons read, on average."""
        means = self.mean_gates()
        added = {name: getattr(self, name).copy() for name in ("U_a", "U_b", "S_a", "S_b")}
        for table, gate in zip(self.gated, means, strict=True):
            side = "a" if table.position == 0 else "b"
            for name in ("U", "S"):
                added[f"{name}_{side}"] += np.einsum("h,htm->tm", gate, getattr(table, name))
        return Collapsed(self.p, self.activation, W_L=self.W_L, task=self.task, **added)


@dataclass(frozen=True, eq=False)
class LastMLP:
    """The last MLP of a model with several layers; all that comes before it is one function.

        pre(a,b) = x(a,b) W_in + b_in,     logits(a,b) = W_L σ(pre) + x(a,b) W_S + b_S

    Attributes:
        task: What the model is asked.
        activation: σ.
        stream: x: pairs (a, b) to the residual stream that the MLP reads.
        W_in: Into the neurons.
        b_in: Their biases.
        W_L: Neuron-to-logit map.
        W_S: From the stream to the logits, past the neurons.
        b_S: Constants of the logits.
    """

    task: Task
    activation: Activation
    stream: Callable[[Int[np.ndarray, "n 2"]], Float[np.ndarray, "n d_model"]]
    W_in: Float[np.ndarray, "d_model d_mlp"]
    b_in: Float[np.ndarray, " d_mlp"]
    W_L: Float[np.ndarray, "p d_mlp"]
    W_S: Float[np.ndarray, "d_model p"]
    b_S: Float[np.ndarray, " p"]

    @property
    def p(self) -> int:
        """Number of elements."""
        return self.task.n

    @property
    def d_mlp(self) -> int:
        """Number of neurons."""
        return int(self.W_in.shape[1])

    @cached_property
    def _streams(self) -> dict[int, Float[np.ndarray, "p d_model"]]:
        return {}

    def _stream(self, a: int) -> Float[np.ndarray, "p d_model"]:
        """The stream of one a and all b; kept where that of all inputs is small, for it takes all the layers before."""
        if a in self._streams:
            return self._streams[a]
        x = self.stream(np.stack([np.full(self.p, a), np.arange(self.p)], axis=1))
        if x.size * self.p <= KEPT_FLOATS:
            self._streams[a] = x
        return x

    def pre(self, a: int) -> Float[np.ndarray, "p d_mlp"]:
        """Pre-activations of every neuron for one a and all b, [b, i]."""
        return self._stream(a) @ self.W_in + self.b_in

    def logits(self, a: int) -> Float[np.ndarray, "p p"]:
        """Logits for one a and all b, [b, c]."""
        return self._logits(self._stream(a))

    def skip(self, a: int) -> Float[np.ndarray, "p p"]:
        """What passes by these neurons on its way to the logits, for one a and all b, [b, c]."""
        return self._stream(a) @ self.W_S + self.b_S

    def pair_logits(self, pairs: Int[np.ndarray, "n 2"]) -> Float[np.ndarray, "n p"]:
        """Logits of the pairs given."""
        return self._logits(self.stream(pairs))

    def _logits(self, x: Float[np.ndarray, "n d_model"]) -> Float[np.ndarray, "n p"]:
        return apply_activation(self.activation, x @ self.W_in + self.b_in) @ self.W_L.T + x @ self.W_S + self.b_S


# What evaluation and the lens need of a model: task, activation, p, d_mlp, W_L, pre(a), logits(a), skip(a),
# pair_logits(pairs).
HiddenLayer = Collapsed | TokenTables | LastMLP


def attention_scores(
    queries: Float[np.ndarray, "heads tokens d_head"],
    read: int,
    keys: Float[np.ndarray, "heads others d_head"],
    position: int,
) -> Float[np.ndarray, "heads rows columns"]:
    """Query · key of the position read and another, as [head, a, b], of length 1 along what they do not depend on."""
    return np.einsum("habk,habk->hab", _over_a_and_b(queries, read), _over_a_and_b(keys, position))


def _over_a_and_b(
    rows: Float[np.ndarray, "heads tokens k"], position: int
) -> Float[np.ndarray, "heads rows columns k"]:
    """One row per token of a position, along the axis of a or of b; '=' has one row only, so either will do."""
    return rows[:, None] if position == 1 else rows[:, :, None]
