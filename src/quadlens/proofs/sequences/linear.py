"""Leads of networks of attention alone with one head: ratios, whose signs are counted.

Without an MLP and a final norm, logit(r) - logit(c) = Σ_j w_j g_cj / Σ_j w_j with g_cj = (u_j + x_t
+ b_O) · D_c + b_c, D_c = W_U[:,r] - W_U[:,c] and b_c = b_U[r] - b_U[c]. The lead is at least μ
exactly when Σ_j f_cj ≥ 0, f = w (g - μ): one term per letter, no box. A leaf is some cells with one
own token and answer:

- a rival c whose smallest sum is not negative never leads (`histogram.least`);
- of the others, words with Σ_l ⌈f_cl / δ⌉ < 0, μ = 0, are wrong, and words on which one of a group
  of rivals may be above r - μ have Σ_l min_c ⌊f_cl / δ_c⌋ < 0, whatever the δ_c > 0: both are
  counted exactly (`count_negative`).

δ = n 2^e in units of e^score, n and e being integers. Where the two counts differ most, cells are
refined by one more letter.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heapify, heappop, heappush
from math import floor, log, log2, prod
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from quadlens.proofs.long_work import is_over
from quadlens.proofs.sequences.attack import ROUNDS, FoundWord, shortest_word, word_margin
from quadlens.proofs.sequences.cells import check_window, places_of, reached, window
from quadlens.proofs.sequences.decide import ATTACKED, SMALLEST
from quadlens.proofs.sequences.histogram import WordAutomaton, count_negative, least, word_automaton
from quadlens.proofs.sequences.interval import Interval, down, up
from quadlens.proofs.sequences.leaves import OPEN
from quadlens.proofs.sequences.tables import Network, check_finite
from quadlens.proofs.sequences.union import Fixed

LINEAR = "linear"
# Every letter's term is rounded by up to a bin: long words need more of them.
BINS, BINS_PER_LETTER = 600, 60
# Of a bin: what roundings of f, here and in a checker, may be off by, and far more.
SLACK = 1e-6
# More steps than that make a sum positive, whatever the other letters are.
FAR = 1 << 50
# The share of all words that may stay undecided before cells are refined, and leaves that
# refinement may come to, times the letters that each is counted by.
GAP, MOST_LEAVES = 2.0**-11, 80_000
# Of the lead aimed at: what is tried where no word is known to be wrong.
LOWER = 1.0, 0.9, 0.75, 0.5, 0.125, 2.0**-20
# What is too little to count, as a share of what is undecided already.
NEGLIGIBLE = 0.05


Sides = list[Float[np.ndarray, "_ _"]]


class Rival(NamedTuple):
    """A token and its δ = factor · 2^exponent."""

    token: int
    factor: int
    exponent: int


@dataclass(frozen=True, eq=False)
class LinearLeaf:
    """Cells of one own token and answer, and what is counted of their words.

    Attributes:
        kind: linear, or open where counting was not worth it.
        own: Their own token.
        answer: Their right answer.
        groups: Rivals that may lead, those of a group counted at once.
        wrong: The rival whose words are counted as wrong; None where none are.
        words: At least and at most so many words are wrong, or not proved right.
        margin: By which the others are right.
    """

    kind: str
    own: int
    answer: int
    groups: tuple[tuple[Rival, ...], ...]
    wrong: Rival | None
    words: tuple[int, int]
    margin: float

    def hints(self) -> dict[str, Any]:
        """Return the leaf as a certificate writes it."""
        leaf_hints = {"kind": self.kind, "own": self.own, "answer": self.answer}
        if self.kind == OPEN:
            return leaf_hints
        return {**leaf_hints, "groups": self.groups, "wrong": self.wrong, "words": self.words}


@dataclass(eq=False)
class Bundle:
    """Cells whose words differ in beginnings alone.

    Attributes:
        own: Index of the own token.
        answer: The right answer.
        first: The first letter of the window.
        symbols: The symbol of each of the window's letters.
        after: The state after the window.
        cells: Of each, its state before the window, its letters, and where its entry is: a list and
            an index.
        leaf: What is proved of it; None before that.
    """

    own: int
    answer: int
    first: int
    symbols: tuple[int, ...]
    after: int
    cells: list[tuple[int, tuple[int, ...], list[Any], int]] = field(default_factory=list)
    leaf: LinearLeaf | None = None

    @property
    def proved_leaf(self) -> LinearLeaf:
        """Return the leaf that decides the bundle."""
        if self.leaf is None:
            raise RuntimeError(f"nothing was proved of the cells of {self.symbols}")
        return self.leaf

    @property
    def last(self) -> int:
        """The letter after the window."""
        return self.first + len(self.symbols)

    @property
    def states(self) -> frozenset[int]:
        """Return the states before the window of the bundle's cells."""
        return frozenset(state for state, *_ in self.cells)


def _add_to_bundle(bundles: dict[Any, Bundle], key: Any, cell: Any) -> None:
    """Put a cell into a bundle.

    No two cells of one bundle have the same state, so that its words are those of its states.
    """
    again = 0
    while (key, again) in bundles and cell[0] in bundles[key, again].states:
        again += 1
    bundles.setdefault((key, again), Bundle(*key)).cells.append(cell)


class LeadCounter:
    """Counts the words of one bundle by the leads of some rivals.

    The step δ_c of a rival is its mean |f_c| over the number of bins.
    """

    def __init__(
        self, words: WordAutomaton, low: Sides, high: Sides, bits: int, shift: float
    ) -> None:
        """Take terms by letter, [symbol, rival], in units of e^shift."""
        self.words, self.low, self.high, self.bits, self.shift = (
            words,
            low,
            high,
            bits,
            shift / log(2),
        )
        self.used = words.used()
        sizes = [
            np.abs(terms[used]).mean(axis=0) for terms, used in zip(low, self.used, strict=True)
        ]
        with np.errstate(divide="ignore"):
            self.sizes = np.log2(np.mean(sizes, axis=0)) + self.shift

    def steps(self, group: list[int]) -> list[tuple[int, int]]:
        """Return (n, e) with δ = n 2^e for each rival of a group, n having eight bits."""
        terms = self._joined(self.low, group, np.exp2(self.shift - self.sizes[group]))
        reach = -sum(float(term[used].min()) for term, used in zip(terms, self.used, strict=True))
        # Terms are about 1 here: no finer than what rounding leaves of them.
        bins = max(BINS, BINS_PER_LETTER * len(self.words.levels))
        logs = (self.sizes[group] - log2(bins / max(reach, 2.0**-30))).tolist()
        return [(round(2.0 ** (x - floor(x) + 7)), floor(x) - 7) for x in logs]

    def _joined(
        self, terms: Sides, group: list[int], scale: Float[np.ndarray, " _"]
    ) -> list[Float[np.ndarray, " _"]]:
        return [(of_letter[:, group] * scale).min(axis=1) for of_letter in terms]

    def _count(self, terms: Sides, group: list[int], towards: Any, slack: float) -> int:
        scale = np.array([2.0 ** (self.shift - e) / n for n, e in self.steps(group)])
        joined = self._joined(terms, group, scale)
        steps = [
            np.clip(towards(term + slack), -FAR, FAR).astype(np.int64).tolist() for term in joined
        ]
        return count_negative(self.words, steps, self.bits)

    def most(self, group: list[int]) -> int:
        """Bound from above how many words have a rival of the group within the margin, or ahead."""
        return self._count(self.low, group, np.floor, -SLACK)

    def least(self, c: int) -> int:
        """Bound from below how many words have this rival ahead."""
        return self._count(self.high, [c], np.ceil, SLACK)


class Terms(NamedTuple):
    """Terms of each letter's symbols and each rival, [symbol, rival].

    What constant positions add is in the last letter's terms.

    Attributes:
        low: No more than f with the margin.
        high: No less than f without.
    """

    low: Sides
    high: Sides


def is_linear(network: Network) -> bool:
    """Say whether the leads are ratios.

    They are for attention alone with one head, no final norm, and one right token in each answer.
    """
    config = network.config
    alone = not config.d_mlp and config.n_heads == 1 and config.norms.final is None
    return alone and bool((network.task.answers.sum(axis=1) == 1).all())


class LinearStep:
    """One step of a network whose leads are ratios."""

    def __init__(self, network: Network, number: int) -> None:
        """Read the tables and bundle the cells whose words differ in beginnings alone."""
        self.network, self.number, self.task = network, number, network.task
        check_window(self.task, number)
        self.tables = network.direct(number)
        tables, occurs = self.tables, network.occurs[: self.task.steps[number][0] + 1].T
        check_finite(self.task.name, number, (tables.w, tables.base, tables.logits[occurs]))
        self.query = self.task.steps[number][0]
        self._lowest = np.inf
        self._prefixes: dict[tuple[int, frozenset[int]], WordAutomaton] = {}
        self.bits = self.task.inputs.bit_length() + 1
        self.entries: list[Any] = [None] * prod(places_of(self.task, number))
        self.bundles = self._bundles()
        self.size = sum(len(bundle.cells) for bundle in self.bundles)

    @cached_property
    def _seen(self) -> list[list[tuple[int, Int[np.ndarray, "_ _"]]]]:
        """For each letter, list the positions that attention may see, with their tokens."""
        positions: list[list[tuple[int, Int[np.ndarray, "_ _"]]]] = [[] for _ in self.task.next]
        for j, fed in enumerate(self.task.positions[: self.query + 1]):
            if not isinstance(fed, int):
                positions[fed[0]].append((j, fed[1]))
        return positions

    @cached_property
    def _symbols(self) -> list[tuple[Int[np.ndarray, "_ _"], Int[np.ndarray, "_ _"]]]:
        """For each letter, list the distinct tuples of tokens at its positions.

        The second table has the number of each state's and letter's tuple.
        """
        symbols = []
        for table, here in zip(self.task.next, self._seen, strict=True):
            none = np.zeros((*table.shape, 0), dtype=np.int64)
            tokens = np.stack([fed for _, fed in here], axis=2) if here else none
            rows, which = np.unique(tokens.reshape(table.size, -1), axis=0, return_inverse=True)
            symbols.append((rows, which.reshape(table.shape)))
        return symbols

    @cached_property
    def _numbers(self) -> tuple[Int[np.ndarray, "_ _"], ...]:
        return tuple(which for _, which in self._symbols)

    def _bundles(self) -> list[Bundle]:
        """Bundle all cells of the step, with an entry in the certificate for each."""
        bundles: dict[Any, Bundle] = {}
        first, every = window(self.task, self.number)[0], reached(self.task, self.number)
        numbers = self._numbers[first : first + every.letters.shape[1]]
        columns = zip(numbers, every.states.T, every.letters.T, strict=False)
        symbols = np.stack([which[states, letters] for which, states, letters in columns], axis=1)
        rows = (every.place, every.states, every.letters, symbols, every.own, every.answer)
        for place, states, letters, row, token, answer in zip(
            *(part.tolist() for part in rows), strict=True
        ):
            key = (self.tables.own.index(token), answer, first, tuple(row), states[-1])
            _add_to_bundle(bundles, key, (states[0], tuple(letters), self.entries, place))
        return list(bundles.values())

    def _refined(self, bundle: Bundle) -> list[Bundle]:
        """Fix one more letter of a bundle's cells; the list is empty where none is free."""
        task, children = self.task, dict[Any, Bundle]()
        below = bundle.first > 0
        if not below and bundle.last == task.letters:
            return []
        for state, letters, entries, place in bundle.cells:
            if below:
                letter, states = (
                    bundle.first - 1,
                    np.argwhere(task.next[bundle.first - 1] == state).tolist(),
                )
            else:
                letter, states = (
                    bundle.last,
                    [[bundle.after, a] for a in range(task.alphabets[bundle.last])],
                )
            entries[place] = ["-" if below else "+", inner := [None] * len(states)]
            for at, (s, a) in enumerate(states):
                symbol, after = int(self._numbers[letter][s, a]), int(task.next[letter][s, a])
                if below and not task.words_to[letter][s]:
                    continue
                if below:
                    key = (
                        bundle.own,
                        bundle.answer,
                        letter,
                        (symbol, *bundle.symbols),
                        bundle.after,
                    )
                    cell = (s, (a, *letters), inner, at)
                else:
                    key = (
                        bundle.own,
                        bundle.answer,
                        bundle.first,
                        (*bundle.symbols, symbol),
                        after,
                    )
                    cell = (state, (*letters, a), inner, at)
                _add_to_bundle(children, key, cell)
        return list(children.values())

    def _paths(self, bundle: Bundle) -> WordAutomaton:
        """Return all words of a bundle."""
        task, key = self.task, (bundle.first, bundle.states)
        if key not in self._prefixes:
            self._prefixes[key] = word_automaton(
                task, self._numbers, 0, bundle.first, 0, bundle.states
            )
        before = self._prefixes[key]
        behind = word_automaton(task, self._numbers, bundle.last, task.letters, bundle.after, None)
        ends = [*[0] * (len(bundle.symbols) - 1), behind.start]
        fixed = tuple((((to, np.array([n])),),) for to, n in zip(ends, bundle.symbols, strict=True))
        return WordAutomaton(before.start, before.levels + fixed + behind.levels)

    def _words(self, bundle: Bundle) -> int:
        begun = sum(self.task.words_to[bundle.first][state] for state, *_ in bundle.cells)
        return begun * self.task.words_from[bundle.last]

    def _terms(self, own: int, token: int, margin: float) -> Terms:
        """Return what each letter adds to the leads of a token, given the own token's index."""
        tables = self.tables
        lead = tables.logits[..., token : token + 1] - tables.logits
        lead = lead + (tables.base[own, token] - tables.base[own])
        w = tables.w[own][..., None]
        by_position = ((w * Interval(down(lead.lo - margin), lead.hi)).lo, (w * lead).hi)
        ends: list[list[Any]] = []
        for values, towards in zip(by_position, (down, up), strict=True):
            letters = []
            for (rows, _), here in zip(self._symbols, self._seen, strict=True):
                total = np.zeros((len(rows), values.shape[2]))
                for column, (j, _) in enumerate(here):
                    total = towards(total + values[rows[:, column], j])
                letters.append(total)
            for j, fed in enumerate(self.task.positions[: self.query + 1]):
                if isinstance(fed, int):
                    letters[0] = towards(letters[0] + values[fed, j])
            ends.append(letters)
        return Terms(*ends)

    def decide(self, target: float) -> None:
        """Count the words of every bundle, a lead of `target` being right.

        Bundles with the most undecided words are refined.

        Where no word that was found is wrong, a smaller lead will do if all words have it.
        """
        for share in LOWER if self._lowest > 0 else ():
            if is_over():
                break
            if not any(True for _ in self._contested(self.bundles, max(share * target, SMALLEST))):
                return
        queue: list[tuple[int, int, Bundle, Any]] = []
        gap = 0
        for bundle, terms in self._contested(self.bundles, target):
            queue.append((self._words(bundle), len(queue), bundle, terms))
        queue.sort(key=lambda waiting: -waiting[0])
        left = sum(words for words, *_ in queue)
        undecided: list[tuple[int, int, Bundle]] = []
        for words, number, bundle, terms in queue:
            left -= words
            negligible = left + words <= NEGLIGIBLE * gap
            leaf = (
                self._open(bundle, words)
                if negligible or is_over()
                else self._counted(bundle, terms, words, target)
            )
            self._settle(bundle, leaf)
            gap += leaf.words[1] - leaf.words[0]
            undecided.append((leaf.words[0] - leaf.words[1], number, bundle))
        self._refine(undecided, gap, target)

    def _contested(self, bundles: list[Bundle], target: float) -> Iterator[tuple[Bundle, Any]]:
        """Yield the bundles in which a rival may lead, with these rivals' terms.

        The other bundles get their leaves here.
        """
        known: dict[tuple[int, int], Terms] = {}
        for bundle in sorted(bundles, key=attrgetter("own", "answer")):
            (token,) = np.flatnonzero(self.task.answers[bundle.answer]).tolist()
            if (bundle.own, token) not in known:
                known = {(bundle.own, token): self._terms(bundle.own, token, target)}
            terms = known[bundle.own, token]
            sums = least(self._paths(bundle), terms.low)
            sums[token] = np.inf
            rivals = np.flatnonzero(~(sums >= 0))
            if len(rivals):
                yield (
                    bundle,
                    (rivals, *([of_letter[:, rivals] for of_letter in side] for side in terms)),
                )
            else:
                leaf = LinearLeaf(
                    LINEAR, self.tables.own[bundle.own], bundle.answer, (), None, (0, 0), target
                )
                self._settle(bundle, leaf)

    def _settle(self, bundle: Bundle, leaf: LinearLeaf) -> None:
        bundle.leaf = leaf
        for _, _, entries, place in bundle.cells:
            entries[place] = bundle

    def _open(self, bundle: Bundle, words: int) -> LinearLeaf:
        return LinearLeaf(
            OPEN, self.tables.own[bundle.own], bundle.answer, (), None, (0, words), np.inf
        )

    def _counted(self, bundle: Bundle, terms: Any, words: int, target: float) -> LinearLeaf:
        """Bound from both sides how many words of a bundle have one of these rivals ahead."""
        rivals, low, high = terms
        counter = LeadCounter(
            self._paths(bundle), low, high, self.bits, self.tables.shift[bundle.own]
        )
        if not (counter.sizes - counter.shift > -900).all():  # hardly any weight of attention
            return self._open(bundle, words)
        ranked_rivals = sorted(((counter.most([c]), c) for c in range(len(rivals))), reverse=True)
        least, wrong = 0, 0
        for count, c in ranked_rivals:
            # No more words are wrong than may be.
            if count <= least:
                break
            least, wrong = max((least, wrong), (counter.least(c), c))
        groups, most = [], 0
        while ranked_rivals:
            (count, c), rest, ranked_rivals = ranked_rivals[0], ranked_rivals[1:], []
            group = [c]
            for other, rival in rest:
                joined = counter.most([*group, rival])
                if joined < count + other:
                    group, count = [*group, rival], joined
                else:
                    ranked_rivals.append((other, rival))
            groups.append(
                tuple(
                    Rival(int(rivals[c]), *step)
                    for c, step in zip(group, counter.steps(group), strict=True)
                )
            )
            most += count
        if most >= words and not least:
            return self._open(bundle, words)
        best = Rival(int(rivals[wrong]), *counter.steps([wrong])[0]) if least else None
        own, counts = self.tables.own[bundle.own], (least, min(most, words))
        return LinearLeaf(LINEAR, own, bundle.answer, tuple(groups), best, counts, target)

    def attacks(self) -> Iterator[FoundWord]:
        """Yield words with small margins.

        The first has the smallest sum; Dinkelbach's iteration improves it, with the margin found as
        μ.
        """
        ranked: list[tuple[float, int, int, Bundle, int]] = []
        for bundle in self.bundles:
            (token,) = np.flatnonzero(self.task.answers[bundle.answer]).tolist()
            sums = least(self._paths(bundle), self._terms(bundle.own, token, 0.0).low)
            sums[token] = np.inf
            ranked.append(
                (float(sums.min(initial=np.inf)), int(sums.argmin()), len(ranked), bundle, token)
            )
        for _, rival, _, bundle, token in sorted(ranked)[:ATTACKED]:
            word = self._attack(bundle, token, rival)
            self._lowest = min(self._lowest, word.margin)
            yield word

    def _attack(self, bundle: Bundle, token: int, rival: int) -> FoundWord:
        best, margin = FoundWord(np.inf, self.number, ()), 0.0
        for _ in range(ROUNDS):
            terms = self._terms(bundle.own, token, margin).low
            costs = [
                of_letter[which, rival]
                for of_letter, which in zip(terms, self._numbers, strict=True)
            ]
            word = shortest_word(
                self.task, costs, bundle.first, [cell[:2] for cell in bundle.cells]
            )
            margin = word_margin(self.network, word, self.number)
            if best.word and margin >= best.margin:
                break
            best = FoundWord(margin, self.number, tuple(word[0].tolist()))
        return best

    @cached_property
    def leaves(self) -> list[LinearLeaf]:
        """Return all leaves in the order of their first cells."""
        return [bundle.proved_leaf for bundle in self._numbered]

    @cached_property
    def _numbered(self) -> dict[Bundle, int]:
        stack, numbers = list(reversed(self.entries)), dict[Bundle, int]()
        while stack:
            entry = stack.pop()
            if isinstance(entry, list):
                stack += reversed(entry[1])
            elif entry is not None:
                numbers.setdefault(entry, len(numbers))
        return numbers

    def counted(self) -> tuple[int, int]:
        """Return bounds (at least, at most) of the number of words wrong at this step."""
        least, most = (sum(leaf.words[end] for leaf in self.leaves) for end in (0, 1))
        return least, most

    def wrong_cells(self) -> Iterator[Fixed]:
        """Yield nothing: leaves count words, not cells."""
        yield from ()

    def hints(self) -> dict[str, Any]:
        """Return the leaves and cells as a certificate writes them."""

        def named(entry: Any) -> Any:
            if isinstance(entry, list):
                return [entry[0], [named(child) for child in entry[1]]]
            return None if entry is None else self._numbered[entry]

        return {
            "leaves": [leaf.hints() for leaf in self.leaves],
            "cells": [named(of_cell) for of_cell in self.entries],
        }

    def _refine(self, undecided: list[tuple[int, int, Bundle]], gap: int, target: float) -> None:
        """Fix one more letter where most words are undecided, until few are."""
        heapify(undecided)
        number, leaves, most = len(undecided), len(self.bundles), MOST_LEAVES // self.task.letters
        while undecided and gap > GAP * self.task.inputs and leaves < most and not is_over():
            wide, _, bundle = heappop(undecided)
            children = self._refined(bundle)
            if not children:
                continue
            gap, leaves = gap + wide, leaves + len(children)
            for child, terms in self._contested(children, target):
                leaf = self._counted(child, terms, self._words(child), target)
                self._settle(child, leaf)
                wide, number = leaf.words[0] - leaf.words[1], number + 1
                gap -= wide
                if wide:
                    heappush(undecided, (wide, number, child))
