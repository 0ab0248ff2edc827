"""Attention as tables: what every letter adds to numerators and denominators.

At a step the query's position t and its token z are fixed. With w_j(v) = e^{score(t,z; j,v) -
shift} and u_j(v) what the value of token v at position j writes, head h brings Σ_j w_j u_j / Σ_j
w_j. Its coordinates are u·B_k for the rows B_k of a basis of what values differ by; what the basis
leaves out of u is enclosed, and joins the residual stream. A letter sits at a few positions, so
that it adds N_l[s,a] = Σ_j w_j u_j(token_j[s,a]) and E_l[s,a] = Σ_j w_j. All weights are taken as
they are stored; scores, exponentials and values are Arb's, then rounded outwards once.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from quadlens.base.errors import BadConfig, BadWeights
from quadlens.base.numbers import precision
from quadlens.network.sequence_forward import (
    balls,
    parts,
    seen,
    sequence_config,
    tensor,
    written_by_heads,
)
from quadlens.network.sequence_task import SequenceTask, expand
from quadlens.network.weights import Weights
from quadlens.proofs.sequences.interval import Interval

ARB_BITS = 128
# Of the basis, and of the boxes in certificates.
HINT_BITS = 40
# Directions in which values differ by less than this share of their size are left to the remainder.
FAINT = 1e-7
# Of what values write; its square is a float.
LARGEST = 1e150


def check_finite(task: str, step: int, parts: Iterable[Interval]) -> None:
    """Refuse tables with numbers that float64 cannot hold: nothing could be proved from them.

    Raises:
        BadWeights: where there are such.
    """
    if not all(np.isfinite(part.lo).all() and np.isfinite(part.hi).all() for part in parts):
        raise too_large(f"task {task!r}, step {step}: what attention reads")


def too_large(what: str) -> BadWeights:
    """Numbers that float64 cannot hold."""
    return BadWeights(
        f"{what} is beyond float64, so that nothing can be proved; scale the weights down"
    )


@dataclass(frozen=True, eq=False)
class StepTables:
    """One step's tables, [own token, state before, letter, …], one entry of the lists per letter.

    Attributes:
        own: The tokens that the query's position may have.
        N: What a letter adds to the numerators, one per coordinate.
        E: What it adds to the denominators, one per head.
        N_constant: What positions of constant tokens add, [own token, coordinate].
        E_constant: The same for the denominators, [own token, head].
        stream: The query's own stream with b_O and what the basis leaves out, [own token, d_model].
    """

    own: tuple[int, ...]
    N: tuple[Interval, ...]
    E: tuple[Interval, ...]
    N_constant: Interval
    E_constant: Interval
    stream: Interval


@dataclass(frozen=True, eq=False)
class DirectTables:
    """One step's tables where attention's output and the query's stream alone make the logits.

    Attributes:
        own: The tokens that the query's position may have.
        w: e^{score - shift}, [own token, token, position].
        shift: [own token].
        logits: What each token at each position would write into the logits, [token, position,
            logit].
        base: What the query's own stream and the biases write, [own token, logit].
    """

    own: tuple[int, ...]
    w: Interval
    shift: Float[np.ndarray, " z"]
    logits: Interval
    base: Interval


class Network:
    """A network on sequences with its task, and everything that is computed of it once."""

    def __init__(self, weights: Weights) -> None:
        """Refuse a network whose attention sees what is not decoded yet, or nothing at all."""
        self.weights, self.config = weights, sequence_config(weights)
        self.task: SequenceTask = expand(self.config)
        for query, _, _ in self.task.steps:
            for head in range(self.config.n_heads):
                positions = seen(weights, query, head)
                if not positions or max(positions) > query:
                    raise BadConfig(
                        f"head {head} sees the positions {positions[:3]}… from position {query}; "
                        "expected at least one, and none after it, which is not decoded yet"
                    )

    @cached_property
    def occurs(self) -> Bool[np.ndarray, "t v"]:
        """Which tokens a position may have."""
        positions = self.task.positions[: self.config.n_ctx]
        occurs = np.zeros((len(positions), self.config.d_vocab), dtype=bool)
        for row, fed in zip(occurs, positions, strict=True):
            row[fed if isinstance(fed, int) else np.unique(fed[1])] = True
        return occurs

    @cached_property
    def _balls(self) -> tuple[Any, Any, Any, Any, list[Any]]:
        """Return stream, its norm, queries and keys, [token, position, …], and head outputs."""
        config, length = self.config, len(self.occurs)
        tokens = np.tile(np.arange(config.d_vocab)[:, None], (1, length))
        with precision(ARB_BITS):
            x, n, q, k = parts(self.weights, tokens, True)
            written = written_by_heads(self.weights, n)
        return x, n, q, k, written

    @cached_property
    def basis(self) -> tuple[Int[np.ndarray, "k d"], ...]:
        """For each head, rows that span what its values differ by, times 2^40."""
        bases = []
        for written in self._balls[4]:
            values = np.array(
                [float(ball.mid()) for ball in written.transpose(1, 0, 2)[self.occurs].ravel()]
            )
            values = values.reshape(-1, self.config.d_model)
            size = np.abs(values).max(initial=0.0)
            if not size < LARGEST:
                raise too_large(
                    f"what values write, or its square (the largest has a size of {size:.3g}),"
                )
            _, strength, rows = np.linalg.svd(values - values.mean(axis=0), full_matrices=False)
            strong = rows[strength > FAINT * size * np.sqrt(len(values))]
            bases.append(np.rint(strong * 2.0**HINT_BITS).astype(np.int64))
        return tuple(bases)

    @cached_property
    def rows(self) -> Float[np.ndarray, "k d"]:
        """The basis of all heads, one after the other, as the floats that it is."""
        return np.concatenate(self.basis).astype(np.float64) / 2.0**HINT_BITS

    @cached_property
    def heads(self) -> Int[np.ndarray, " k"]:
        """The head of each coordinate."""
        return np.repeat(np.arange(self.config.n_heads), [len(rows) for rows in self.basis])

    @cached_property
    def _values(self) -> tuple[Interval, Interval]:
        """Return coordinates, [token, position, coordinate], and what the basis leaves out.

        The second is a bound on the sum over all heads.
        """
        coordinates, low, high = [], 0.0, 0.0
        with precision(ARB_BITS):
            for written, integers in zip(self._balls[4], self.basis, strict=True):
                rows = _exact(integers.astype(np.float64) / 2.0**HINT_BITS)
                product = written @ rows.T if len(rows) else written[..., :0]
                coordinates.append(Interval.of_balls(product))
                rest = Interval.of_balls(written - product @ rows if len(rows) else written)
                low += rest.lo.transpose(1, 0, 2)[self.occurs].min(axis=0)
                high += rest.hi.transpose(1, 0, 2)[self.occurs].max(axis=0)
        joined = (
            np.concatenate([getattr(part, end) for part in coordinates], axis=2)
            for end in ("lo", "hi")
        )
        slack = self.config.n_heads * 2.0**-50 * (np.abs(low) + np.abs(high))
        return Interval(*joined), Interval(low - slack, high + slack)

    def step(self, number: int) -> StepTables:
        """The tables of one step."""
        config, task = self.config, self.task
        query = task.steps[number][0]
        own = np.flatnonzero(self.occurs[query])
        weight = [self._softmax(query, own, h)[0] for h in range(config.n_heads)]
        E = Interval.stack(weight, axis=3)
        values, rest = self._values
        # [own, token, position, …]
        N = E[..., self.heads] * values[None, :, : query + 1]
        sums_N = [Interval.zeros(len(own), *table.shape, len(self.heads)) for table in task.next]
        sums_E = [Interval.zeros(len(own), *table.shape, config.n_heads) for table in task.next]
        N_constant, E_constant = (
            Interval.zeros(len(own), len(self.heads)),
            Interval.zeros(len(own), config.n_heads),
        )
        for j, fed in enumerate(task.positions[: query + 1]):
            if isinstance(fed, int):
                N_constant, E_constant = N_constant + N[:, fed, j], E_constant + E[:, fed, j]
            else:
                letter, tokens = fed
                sums_N[letter] = sums_N[letter] + N[:, tokens, j]
                sums_E[letter] = sums_E[letter] + E[:, tokens, j]
        stream = self._stream(query, own) + rest
        return StepTables(
            tuple(own.tolist()), tuple(sums_N), tuple(sums_E), N_constant, E_constant, stream
        )

    def _stream(self, query: int, own: Int[np.ndarray, " z"]) -> Interval:
        """The query's own stream with b_O, [own token, d_model]."""
        with precision(ARB_BITS):
            return Interval.of_balls(self._balls[0][own, query] + balls(self.weights, "b_O"))

    def direct(self, number: int) -> DirectTables:
        """Return one step's tables for a network whose one head writes directly to the logits."""
        query = self.task.steps[number][0]
        own = np.flatnonzero(self.occurs[query])
        w, shift = self._softmax(query, own, 0)
        with precision(ARB_BITS):
            written = Interval.of_balls(self._balls[4][0][:, : query + 1])
        W, b = tensor(self.weights, "W_U"), Interval.exactly(tensor(self.weights, "b_U"))
        return DirectTables(
            tuple(own.tolist()), w, shift, written @ W, self._stream(query, own) @ W + b
        )

    def _softmax(
        self, query: int, own: Int[np.ndarray, " z"], head: int
    ) -> tuple[Interval, Float[np.ndarray, " z"]]:
        """Return w_j(v) = e^{score - shift}, [own, token, position], and the shift.

        A weight is 0 where the head does not see the position. The largest that may occur is about
        1.
        """
        config, (_, _, q, k, _) = self.config, self._balls
        at = seen(self.weights, query, head)
        with precision(ARB_BITS):
            keys = k[:, at, head] / config.divisor
            scores = (q[own][:, None, None, query, head] * keys[None]).sum(axis=3)
            scores = scores + _exact(tensor(self.weights, "score_bias")[head, query, at])
            middle = np.vectorize(lambda ball: float(ball.mid()), otypes=[np.float64])(scores)
            shift = np.where(self.occurs[at].T, middle, -np.inf).max(axis=(1, 2), keepdims=True)
            # A token that never occurs may have any score.
            scores = np.where(self.occurs[at].T, scores - _exact(shift), _exact(np.zeros(())))
            powers = Interval.of_balls(np.exp(scores))
        w = Interval.zeros(len(own), config.d_vocab, query + 1)
        w.lo[:, :, at], w.hi[:, :, at] = np.maximum(powers.lo, 0.0), powers.hi
        return w, shift[:, 0, 0]


def _exact(x: Float[np.ndarray, "..."]) -> Any:
    from flint import arb

    return np.array([arb(float(number)) for number in x.ravel()], dtype=object).reshape(x.shape)
