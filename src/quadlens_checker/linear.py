"""Count the words of a `linear` leaf: attention alone, one head and no final norm.

The lead over each other token is a ratio.

logit(r) - logit(c) = Σ_j w_j g_j / Σ_j w_j over the positions seen, g = L_j(v)[r] - L_j(v)[c] with
L what value, stream and biases write into the logits. It is at least μ exactly when Σ_j f_j ≥ 0 for
f = w (g - μ), and negative exactly when Σ_j w_j g_j is. A leaf names rivals c, each with a step δ =
n 2^e in units of e^score: those of no group are never within μ of r; words on which one of a group
is have a negative Σ_l min_c ⌊f_cl/δ_c⌋, and words on which `wrong` leads are at least those with a
negative Σ_l ⌈w g/δ⌉. What is claimed of them is compared with what is counted here.
"""

from dataclasses import dataclass, field
from functools import cached_property
from operator import sub
from typing import Any

from quadlens_checker import limits
from quadlens_checker.cells import Cell, HeadView
from quadlens_checker.histogram import WordPaths, words
from quadlens_checker.norms import Vector
from quadlens_checker.reading import integers, keys, require, ticking
from quadlens_checker.sequence_tables import LinearMap, P, SequenceTables, at_bits, weight_error

Terms = list[list[int]]  # by letter and symbol
Rival = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Logits:
    """What each token at each position writes into the logits, and the words of cells."""

    tables: SequenceTables
    paths: dict[Any, WordPaths] = field(default_factory=dict)

    @cached_property
    def written(self) -> list[dict[int, Vector]]:
        """Return the logits L without what the query's own stream writes, over 2^P."""
        out = LinearMap.of(self.tables.network.tensors["W_U"])
        return [
            {v: out(row) for v, row in here.items()}
            for here in ticking(self.tables.written[0], self.tables.clock)
        ]

    def own(self, query: int, token: int) -> Vector:
        """Return what the stream of the query's position and the biases write.

        The stream is rounded down three times.
        """
        network = self.tables.network
        bias, shift = network.tensors["b_O"]
        stream = map(int.__add__, self.tables.streams[query][token], at_bits(bias[0], shift, P))
        return LinearMap.of(network.tensors["W_U"], network.tensors["b_U"])((list(stream), 3))

    def words(self, view: HeadView, query: int, cell: Cell, states: frozenset[int]) -> WordPaths:
        """Return the words that pass one of these states and the letters of a cell.

        Symbols are those seen from the query's position.
        """
        task = self.tables.network.task
        below, above = (query, cell.low, states), (query, cell.high, cell.after)
        if below not in self.paths:
            self.paths[below] = words(task.next[: cell.low], view.index[: cell.low], 0, states)
        if above not in self.paths:
            self.paths[above] = words(
                task.next[cell.high :], view.index[cell.high :], cell.after, None
            )
        before, behind = self.paths[below], self.paths[above]
        fixed = [[{0: [n]}] for n in view.symbols(task, cell)]
        fixed[-1] = [{behind.start: fixed[-1][0][0]}]
        return WordPaths(before.start, before.levels + fixed + behind.levels)


@dataclass(frozen=True, eq=False)
class Leads:
    """Leads seen from one position with its own token.

    w is known to δ(w) and g to 2 error; with |g - μ| ≤ most, f ≥ w̃ (g̃ - 2 error - μ) - δ(w) most,
    and w g ≤ w̃ (g̃ + 2 error) + δ(w) most.
    """

    logits: Logits
    view: HeadView
    query: int
    own: int
    margin: int  # over 2^P, rounded up

    @cached_property
    def weights(self) -> tuple[dict[int, dict[int, int]], int]:
        """Return w̃, and A with w̃ ≈ 2^A e^score."""
        return self.logits.tables.scaled_weights(0, self.query, self.own)

    @cached_property
    def known(self) -> tuple[list[Terms], Terms, Terms, int]:
        """Return sums per letter and symbol, and the error 2 error over 2^P.

        The sums are Σ_j w̃ L[c] for each token c, Σ_j w̃, and Σ_j δ(w) most.
        """
        base, error = self.logits.own(self.query, self.own)
        rows = {j: self.logits.written[j] for j in self.weights[0]}
        error += max(e for here in rows.values() for _, e in here.values())
        reach = max(max(map(abs, row)) for here in rows.values() for row, _ in here.values()) + max(
            map(abs, base)
        )
        most = 2 * (reach + error) + self.margin
        weights = self.weights[0]
        each = [
            self.summed(
                {
                    j: {v: w * (rows[j][v][0][c] + x) for v, w in here.items()}
                    for j, here in weights.items()
                }
            )
            for c, x in enumerate(base)
        ]
        unknown = {
            j: {v: weight_error(w) * most for v, w in here.items()} for j, here in weights.items()
        }
        return each, self.summed(weights), self.summed(unknown), 2 * error

    def summed(self, terms: Any) -> Terms:
        """Add up terms by letter and symbol; the first letter has the constant positions' too."""
        constant, (first, *rest) = self.view.sums(terms)
        return [[x + constant for x in first], *rest]

    @cached_property
    def slack(self) -> tuple[Terms, Terms]:
        """Return what lower bounds lose, the margin included, and what upper bounds gain."""
        _, weights, unknown, error = self.known

        def each(factor: int) -> Terms:
            return [
                [factor * w + z for w, z in zip(*both, strict=True)]
                for both in zip(weights, unknown, strict=True)
            ]

        return each(error + self.margin), each(error)

    def below(self, token: int) -> Terms:
        """Return terms from which a rival's are subtracted to bound f from below."""
        return [
            list(map(sub, *both)) for both in zip(self.known[0][token], self.slack[0], strict=True)
        ]

    def above(self, token: int, other: int) -> Terms:
        """Return terms that bound w g from above."""
        all_terms = zip(self.known[0][token], self.known[0][other], self.slack[1], strict=True)
        return [[x - y + z for x, y, z in zip(*three, strict=True)] for three in all_terms]

    def steps(self, terms: Terms, rival: Rival) -> Terms:
        """Return ⌊f/δ⌋, with f over 2^(P + A) in units of e^score."""
        _, factor, exponent = rival
        shift = P + self.weights[1] + exponent
        if shift >= 0:
            return [[(x >> shift) // factor for x in here] for here in terms]
        return [[(x << -shift) // factor for x in here] for here in terms]


def rivals(value: Any, most: int, right: int) -> list[Rival]:
    """Read the rivals of a leaf: tokens other than the right one."""
    require(isinstance(value, list), "rivals are not a list")
    rivals_of_leaf = []
    for rival in value:
        token, factor, exponent = integers(
            rival, "a rival", 3, -limits.MAX_EXPONENT, limits.MAX_EXPONENT
        )
        require(
            0 <= token < most and token != right and 1 <= factor <= limits.MAX_FACTOR,
            "a rival that is none",
        )
        rivals_of_leaf.append((token, factor, exponent))
    return rivals_of_leaf


def linear(
    leads: Leads, leaf: Any, right: frozenset[int], cells: list[Cell], total: int
) -> tuple[int, int] | None:
    """Count a leaf's words: (at least wrong, at most not right by the margin).

    It is None where the counts that the leaf claims are not proved.
    """
    network, tables = leads.logits.tables.network, leads.logits.tables
    alone = network["d_mlp"] == 0 and network["n_heads"] == 1 and network.norms["final"] is None
    require(alone and len(right) == 1, "a linear leaf of another network")
    keys(leaf, ("kind", "own", "answer", "groups", "wrong", "words"), "a leaf")
    (token,), size = right, network["d_vocab_out"]
    require(isinstance(leaf["groups"], list), "groups are not a list")
    groups = [rivals(group, size, token) for group in leaf["groups"]]
    (wrong,) = rivals([leaf["wrong"]], size, token) if leaf["wrong"] is not None else (None,)
    require(all(groups), "a group of no rivals")
    named = {c for group in groups for c, _, _ in group} | {token}
    parts: dict[Any, dict[int, Cell]] = {}
    for cell in cells:
        # Cells of one state that are seen alike are counted each by itself: a part has no state
        # twice.
        key, again = (tuple(leads.view.symbols(network.task, cell)), cell.low, cell.after), 0
        while cell.state in parts.setdefault((key, again), {}):
            again += 1
        parts[key, again][cell.state] = cell
    bits, least, most, base = network.task.inputs.bit_length() + 1, 0, 0, leads.below(token)

    def behind(c: int) -> Terms:
        return [list(map(sub, *both)) for both in zip(base, leads.known[0][c], strict=True)]

    for here in parts.values():
        cell = next(iter(here.values()))
        inside = leads.logits.words(leads.view, leads.query, cell, frozenset(here))
        for c in ticking(range(size), tables.clock):
            if c not in named and inside.least(behind(c)) < 0:
                return None
        for group in ticking(groups, tables.clock):
            steps = [leads.steps(behind(rival[0]), rival) for rival in group]
            together = steps[0]
            for steps_of_rival in steps[1:]:
                together = [
                    list(map(min, *both)) for both in zip(together, steps_of_rival, strict=True)
                ]
            most += inside.negative(together, bits)
        if wrong:
            minus = [[-x for x in here] for here in leads.above(token, wrong[0])]
            least += inside.negative(
                [[-x for x in here] for here in leads.steps(minus, wrong)], bits
            )
    claimed = integers(leaf["words"], "words", 2, 0, total)
    return (
        (claimed[0], claimed[1]) if claimed[0] <= least and min(most, total) <= claimed[1] else None
    )
