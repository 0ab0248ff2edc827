"""The tables of one hidden layer, over any arithmetic: the collapse of a network.

    pre_i(a,b)   = U_a[a,i] + U_b[b,i] + Σ_h Σ_t γ_ht(a,b) U_ht[x_t, i]
    logit(a,b,c) = Σ_i W_L[c,i] σ(pre_i(a,b)) + S_a[a,c] + S_b[b,c] + Σ_h Σ_t γ_ht(a,b) S_ht[x_t, c]

x_t is the token at position t: a, b or the constant '='. U_ht and S_ht are the OV path of head h
from position t through W_in and W_U; γ_ht is the softmax of head h, times its scale. Everything
that no softmax multiplies, the residual stream itself, biases and the constant part of attention,
is in U_a, U_b, S_a, S_b (`docs/math.md` §1). It is exact. Of a network of several blocks these are
the tables of its last hidden layer, and what the blocks before it bring is computed by the forward
pass.

With norms, r(a,b) > 0 before the hidden layer and f(a,b) > 0 before the unembedding multiply what
they read:

    pre_i(a,b)   = r(a,b) (U_a[a,i] + …) + bias_i
    logit(a,b,c) = f(a,b) (Σ_i W_L[c,i] σ(pre_i(a,b)) + S_a[a,c] + …) + constant_c

A norm's weight, and the mean that a LayerNorm takes off, are in the tables. A norm before attention
is in the tables of each position and token altogether.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic

import numpy as np
from jaxtyping import Float, Int

from quadlens.base.display import Displayed
from quadlens.base.errors import BadConfig, BadWeights
from quadlens.network.activation import Activation, apply_activation
from quadlens.network.config import Softmax
from quadlens.network.ring import Array, Heads, R
from quadlens.network.task import Task, task_by_name

# What earlier blocks bring is kept for all inputs while that is no more than this many floats.
KEPT_FLOATS = 1 << 24

Pairs = Int[np.ndarray, "n 2"]
Before = Callable[[Pairs], tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class Gated(Generic[R]):
    """One position that attention weighs, with one matrix per head.

    Attributes:
        position: 0 for a, 1 for b, 2 for '='.
        scores: Query · key, not yet divided, [a, b]; one row or one column where they do not depend
            on a or b.
        U: What the position's token adds to pre-activations at full attention, [token, neuron].
        S: What it adds to the logits past the MLP, [token, c].
    """

    position: int
    scores: Heads[R]
    U: Heads[R]
    S: Heads[R]


@dataclass(frozen=True, eq=False)
class Sizes:
    """The factors and constants of norms; see the module's formulas.

    Attributes:
        factors: Pairs (a, b) to (r, f), each one number per pair; 1 where there is no norm.
        bias: What pre-activations get after r.
        constant: What logits get after f.
    """

    factors: Callable[[Pairs], tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]]
    bias: Float[np.ndarray, " d_mlp"]
    constant: Float[np.ndarray, " p"]


@dataclass(frozen=True, eq=False, repr=False)
class Tables(Displayed, Generic[R]):
    """The whole model as tables and gates; see the module's formulas.

    The methods that compute are for tables of floats: `collapse(weights, FLOATS)`, or
    `Weights.collapse()`.

    Attributes:
        task: What the model is asked.
        activation: σ.
        U_a: What a adds to pre-activations without any gate.
        U_b: The same for b, with every constant.
        W_L: Neuron-to-logit map.
        S_a: What a adds to the logits past the MLP, without any gate.
        S_b: The same for b, with every constant.
        gated: One table per position that softmax sees; none where attention is constant.
        softmax: Scale and divisor of the gates; None where there are none.
        before: Pairs (a, b) to what earlier blocks add, (to pre-activations, to logits); None for
            one block.
        sizes: What norms divide by; None where there is none but before attention.
    """

    task: Task
    activation: Activation
    U_a: R
    U_b: R
    W_L: R
    S_a: R
    S_b: R
    gated: tuple[Gated[R], ...] = ()
    softmax: Softmax | None = None
    before: Before | None = None
    sizes: Sizes | None = None

    def __post_init__(self) -> None:
        arrays: dict[str, Any] = {
            name: getattr(self, name) for name in ("U_a", "U_b", "W_L", "S_a", "S_b")
        }
        if not isinstance(self.W_L, np.ndarray):
            return
        wide, square = (self.p, self.d_mlp), (self.p, self.p)
        for name, shape in {
            "U_a": wide,
            "U_b": wide,
            "W_L": wide,
            "S_a": square,
            "S_b": square,
        }.items():
            if arrays[name].shape != shape:
                raise BadWeights(
                    f"{name} of the collapsed model has shape {arrays[name].shape}, expected "
                    f"{shape}"
                )
        for table in self.gated:
            arrays |= {
                f"{name} of position {table.position}": getattr(table, name)
                for name in ("scores", "U", "S")
            }
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise BadWeights(
                    f"{name} of the collapsed model overflows: the weights are too large for "
                    "float64"
                )
            array.flags.writeable = False

    def _facts(self) -> dict[str, object]:
        return {"p": self.p, "d_mlp": self.d_mlp, "": self.activation}

    @property
    def p(self) -> int:
        """Number of elements."""
        return self.task.n

    @property
    def d_mlp(self) -> int:
        """Number of neurons."""
        shape: tuple[int, int] = self.W_L.shape  # type: ignore[attr-defined]
        return shape[1]

    @property
    def scale(self) -> float:
        """The factor of softmax; 0 without softmax."""
        return self.softmax.scale if self.softmax else 0.0

    @property
    def divisor(self) -> float:
        """The divisor of the attention scores."""
        return self.softmax.divisor if self.softmax else 1.0

    @property
    def heads(self) -> int:
        """Number of attention heads that look at the tokens."""
        return len(self.gated[0].scores) if self.gated else 0

    @property
    def is_additive(self) -> bool:
        """Whether pre-activations are a part of a plus a part of b.

        They are without gates, earlier blocks and the factors of norms.
        """
        return not self.gated and self.before is None and self.sizes is None

    def additive(self) -> "Tables[R]":
        """Return these tables, if they are additive.

        Raises:
            BadConfig: when they are not, so that what asks for U_a and U_b alone has no meaning.
        """
        if self.is_additive:
            return self
        why = "its attention depends on the tokens" if self.gated else "it has a norm"
        why = "it has several layers" if self.before is not None else why
        raise BadConfig(
            "what reaches a neuron of this model is not a part of a plus a part of b, which this "
            f"needs: {why}; "
            "`explain`, `lens`, `certify` and `report` work"
        )

    def gates(
        self: "Tables[Array]", a: Int[np.ndarray, " n"], b: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, "positions heads n"]:
        """Return γ of each pair (a, b): scale times softmax, on each position seen."""
        if not self.gated:
            return np.zeros((0, 0, len(a)))
        tables = [np.asarray(table.scores) for table in self.gated]
        scores = np.stack([x[:, a % x.shape[1], b % x.shape[2]] for x in tables]) / self.divisor
        powers = np.exp(scores - scores.max(axis=0))
        return self.scale * powers / powers.sum(axis=0)

    def gate_range(self: "Tables[Array]") -> Float[np.ndarray, "positions heads 2"]:
        """Return the smallest and the largest value of each gate, over all inputs."""
        rows = [self.gates(*self._with_all_b(a).T) for a in range(self.p)]
        return np.stack(
            [
                np.min([x.min(axis=2) for x in rows], axis=0),
                np.max([x.max(axis=2) for x in rows], axis=0),
            ],
            axis=2,
        )

    def mean_gates(self: "Tables[Array]") -> Float[np.ndarray, "positions heads"]:
        """Return the mean of every gate over all inputs."""
        sums = [self.gates(*self._with_all_b(a).T).sum(axis=2) for a in range(self.p)]
        return np.sum(sums, axis=0) / self.p**2

    @cached_property
    def size_table(self) -> Float[np.ndarray, "2 p p"]:
        """The factors r(a,b) and f(a,b) of the norms over all inputs; 1 without norms."""
        if self.sizes is None:
            return np.ones((2, self.p, self.p))
        return np.stack([self.sizes.factors(self._with_all_b(a)) for a in range(self.p)], axis=1)

    def with_mean_gates(self: "Tables[Array]") -> "Tables[Array]":
        """Return the model in which every gate has its mean over all inputs.

        Raises:
            BadConfig: when earlier blocks decide what they read.
        """
        if self.before is not None:
            self.additive()
        added = {name: getattr(self, name).copy() for name in ("U_a", "U_b", "S_a", "S_b")}
        for table, gate in zip(self.gated, self.mean_gates(), strict=True):
            operand = "a" if table.position == 0 else "b"
            for name in ("U", "S"):
                added[f"{name}_{operand}"] += np.einsum("h,htm->tm", gate, getattr(table, name))
        if self.sizes is None:
            return Tables(self.task, self.activation, W_L=self.W_L, **added)
        r, f = self.size_table.mean(axis=(1, 2))
        U_b, S_b = r * added["U_b"] + self.sizes.bias, f * added["S_b"] + self.sizes.constant
        return Tables(
            self.task, self.activation, r * added["U_a"], U_b, f * self.W_L, f * added["S_a"], S_b
        )

    def pre(self: "Tables[Array]", a: int) -> Float[np.ndarray, "p d_mlp"]:
        """Return the pre-activations of every neuron for one a and all b, [b, i]."""
        return self._normed(a, self._through(a, self.gates(*self._with_all_b(a).T), "U"))

    def skip(self: "Tables[Array]", a: int) -> Float[np.ndarray, "p p"]:
        """Return what reaches the logits past the neurons, for one a and all b, [b, c].

        A norm's factor does not multiply it yet.
        """
        return self._through(a, self.gates(*self._with_all_b(a).T), "S")

    def logits(self: "Tables[Array]", a: int) -> Float[np.ndarray, "p p"]:
        """Return the logits for one a and all b, [b, c].

        A slice at a time keeps memory at p·(p + d_mlp).
        """
        gates = self.gates(*self._with_all_b(a).T)
        hidden = apply_activation(self.activation, self._normed(a, self._through(a, gates, "U")))
        logits = hidden @ self.W_L.T + self._through(a, gates, "S")
        return (
            logits
            if self.sizes is None
            else self.size_table[1, a][:, None] * logits + self.sizes.constant
        )

    def _normed(
        self: "Tables[Array]", a: int, pre: Float[np.ndarray, "p d_mlp"]
    ) -> Float[np.ndarray, "p d_mlp"]:
        return pre if self.sizes is None else self.size_table[0, a][:, None] * pre + self.sizes.bias

    def _with_all_b(self, a: int) -> Pairs:
        return np.stack([np.full(self.p, a), np.arange(self.p)], axis=1)

    def _through(
        self: "Tables[Array]", a: int, gates: Float[np.ndarray, "positions heads p"], name: str
    ) -> Float[np.ndarray, "p _"]:
        """Return the sum of all tables of one kind, U or S, for one a and all b."""
        total = getattr(self, f"{name}_a")[a] + getattr(self, f"{name}_b")
        for table, gate in zip(self.gated, gates, strict=True):
            # Per b one product [1, head] @ [head, neuron], by numpy's loop: as one product of
            # matrices BLAS would wake its threads for almost nothing.
            rows = np.asarray(getattr(table, name))
            of_each_b = (
                rows.swapaxes(0, 1)
                if table.position == 1
                else rows[:, a if table.position == 0 else 0]
            )
            total += np.matmul(np.ascontiguousarray(gate.T)[:, None], of_each_b)[:, 0]
        if self.before is not None:
            total = total + self._before(a)[name == "S"]
        return total

    @cached_property
    def _kept(self) -> dict[int, tuple[Array, Array]]:
        return {}

    def _before(self, a: int) -> tuple[Array, Array]:
        """Return what earlier blocks add for one a and all b.

        It is kept where that of all inputs is small.
        """
        if self.before is None:
            raise ValueError("there is no earlier block")
        if a in self._kept:
            return self._kept[a]
        brought = self.before(self._with_all_b(a))
        if sum(x.size for x in brought) * self.p <= KEPT_FLOATS:
            self._kept[a] = brought
        return brought

    def pair_logits(self: "Tables[Array]", pairs: Pairs) -> Float[np.ndarray, "n p"]:
        """Return the logits of these pairs."""
        pre, skip = self._of_pairs(pairs)
        if self.sizes is None:
            return apply_activation(self.activation, pre) @ self.W_L.T + skip
        r, f = (x[:, None] for x in self.sizes.factors(pairs))
        hidden = apply_activation(self.activation, r * pre + self.sizes.bias)
        return f * (hidden @ self.W_L.T + skip) + self.sizes.constant

    def _of_pairs(
        self: "Tables[Array]", pairs: Pairs
    ) -> tuple[Float[np.ndarray, "n d_mlp"], Float[np.ndarray, "n p"]]:
        """Return pre-activations and skip terms of these pairs, before any norm's factor."""
        a, b = pairs.T
        gates = self.gates(a, b)
        pre, skip = self.U_a[a] + self.U_b[b], self.S_a[a] + self.S_b[b]
        for table, gate in zip(self.gated, gates, strict=True):
            token = (a, b, np.zeros_like(a))[table.position]
            for head, U, S in zip(gate, table.U, table.S, strict=True):
                pre += head[:, None] * U[token]
                skip += head[:, None] * S[token]
        if self.before is not None:
            more = self.before(pairs)
            pre, skip = pre + more[0], skip + more[1]
        return pre, skip

    def as_addition(self: "Tables[Array]") -> "Tables[Array]":
        """Return the model with its elements renamed so that its task is addition.

        Raises:
            BadConfig: when the task has no cyclic relabelling, or the tables are not additive.
        """
        self.additive()
        if self.task.is_addition:
            return self
        new = self.task.cyclic
        if new is None:
            raise BadConfig(
                f"the task {self.task.name} ({self.task.words}) has no cyclic relabelling: no "
                "renaming of its elements "
                "makes it addition, so there are no frequencies to speak of; `quadlens explain`, "
                "`certify` and "
                "`report` work"
            )
        old_a, old_b, old_c = (np.argsort(x) for x in (new.of_a, new.of_b, new.of_c))
        return Tables(
            task_by_name("add", self.p),
            self.activation,
            U_a=self.U_a[old_a],
            U_b=self.U_b[old_b],
            W_L=self.W_L[old_c],
            S_a=self.S_a[np.ix_(old_a, old_c)],
            S_b=self.S_b[np.ix_(old_b, old_c)],
        )


FloatTables = Tables[Array]
