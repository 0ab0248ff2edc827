"""Words counted by hyperplanes, over several steps: prover and checker against every word."""

import copy
import hashlib
import json
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from checker.sequence_certificates import network_of, no_clock
from quadlens.network.native import to_bytes
from quadlens.proofs.sequences import counting, decide
from quadlens.proofs.sequences.certificate import SequenceCertificate, certify_sequence
from quadlens.proofs.sequences.decide import StepProof
from quadlens.proofs.sequences.tables import Network
from quadlens.proofs.sequences.union import Fixed, in_union
from quadlens_checker import limits
from quadlens_checker.cells import cells_of
from quadlens_checker.counting import BinHistogram
from quadlens_checker.reading import Rejected
from quadlens_checker.sequence_verdict import statement
from quadlens_checker.union import in_some
from quadlens_checker.verdict import verify
from sequence_oracle import all_words, any_network, check, true_margins

REFUSALS = Rejected, ValueError, TypeError, LookupError, AttributeError, ArithmeticError


@pytest.fixture(autouse=True)
def _hardly_refined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count cells that a real proof would rather refine to single words."""
    monkeypatch.setattr(decide, "ROOM_WHERE_WRONG", 0)
    monkeypatch.setattr(decide, "MOST_CELLS", 0)
    monkeypatch.setattr(counting, "MOST_COUNTED", 0)
    monkeypatch.setattr(limits, "MAX_CUTS", 100_000)


def steps_of(certificate: SequenceCertificate) -> list[StepProof]:
    """Its steps, none of which is of attention alone."""
    found = [step for step in certificate.steps if isinstance(step, StepProof)]
    assert len(found) == len(certificate.steps)
    return found


def check_leaves(certificate: SequenceCertificate) -> int:
    """Every counted leaf against its words in 200 bits; how many there are."""
    network, found = certificate.network, 0
    (low, high), words = true_margins(network), all_words(network)
    trace = network.task.trace(words)
    for number, step in enumerate(steps_of(certificate)):
        for index, leaf in enumerate(step.leaves):
            if leaf.plane is None:
                continue
            inside = np.zeros(len(words), dtype=bool)
            for group in step.all_groups():
                cells = group.cells
                for i in np.flatnonzero(group.leaf == index):
                    here = (words[:, cells.first : cells.last] == cells.letters[i]).all(axis=1)
                    inside |= here & (trace[:, cells.first] == cells.state[i])
            (top, bottom), (least, most) = (
                (certificate.margin or Fraction(0)).as_integer_ratio(),
                leaf.plane.words,
            )
            assert least <= sum(x < 0 for x in high[inside, number])
            assert sum(not x * bottom >= top for x in low[inside, number]) <= most <= inside.sum()
            found += 1
    return found


@pytest.mark.slow
def test_nothing_is_counted_beyond_the_truth() -> None:
    """Networks of every kind: what is counted holds, and the checker agrees."""
    leaves = decided = 0
    for seed in (0, 1, 7, 9, 14, 29):
        weights = any_network(seed)
        certificate = certify_sequence(weights)
        check(certificate)
        leaves += check_leaves(certificate)
        decided += sum(
            leaf.plane.words[0] > 0
            for step in steps_of(certificate)
            for leaf in step.leaves
            if leaf.plane
        )
        if seed % 7 != 2:  # of scores of 10^4 the checker knows too little
            verify(json.loads(json.dumps(certificate.to_json())), to_bytes(weights), no_clock)
    assert leaves >= 12
    assert decided >= 12


def a_counted_one() -> tuple[Any, Any, SequenceCertificate]:
    """A network with a certificate that counts both right and wrong words."""
    certificate = certify_sequence(weights := any_network(29))
    leaves = [
        (leaf.plane, step.words_by_leaf()[i])
        for step in steps_of(certificate)
        for i, leaf in enumerate(step.leaves)
    ]
    assert any(plane and 0 < plane.words[0] <= plane.words[1] < words for plane, words in leaves)
    assert certificate.margin is not None
    return weights, json.loads(json.dumps(certificate.to_json())), certificate


def sum_of_words(certificate: SequenceCertificate, step: int, leaf: int) -> int:
    """The words of a leaf's cells."""
    return steps_of(certificate)[step].words_by_leaf()[leaf]


def restated(value: Any) -> Any:
    """A certificate with totals, verdict and words that fit its leaves' counts.

    Cells of one leaf are counted once.
    """
    claims = value["claims"]
    margin = None if claims["margin"] is None else Fraction(claims["margin"])
    least, most = claims["wrong_inputs"]
    value["statement"] = statement(value["model"]["task"], claims["inputs"], least, most, margin)
    return value


@pytest.mark.slow
def test_what_a_leaf_counts_is_not_believed() -> None:
    """Counts, ends, slopes and bins a little better than the truth are rejected."""
    weights, honest, certificate = a_counted_one()
    content, tried = to_bytes(weights), 0
    verify(copy.deepcopy(honest), content, no_clock)
    for number, step in enumerate(honest["hints"]["steps"]):
        for index, leaf in enumerate(step["leaves"]):
            if leaf["kind"] != "counted":
                continue
            least, most = leaf["words"]
            for words in ([least + 1, most], [least, most - 1]):
                mutant = copy.deepcopy(honest)
                mutant["hints"]["steps"][number]["leaves"][index]["words"] = words
                claims, change = mutant["claims"], words[1] - most
                claims["wrong_inputs"][1] += change
                claims["certified_inputs"] -= change
                with pytest.raises(Rejected, match=r"is not proved|not counted"):
                    verify(restated(mutant), content, no_clock)
                tried += 1
            all_of_it = sum_of_words(certificate, number, index)
            ends = (
                [("right", -(1 << 100))] * (least > 0)
                + [("wrong", 1 << 100)] * (most < all_of_it)
                + [("bin", 0)]
            )
            for name, value in ends:
                mutant = copy.deepcopy(honest)
                mutant["hints"]["steps"][number]["leaves"][index][name] = value
                with pytest.raises(Rejected, match=r"is not proved|bins"):
                    verify(mutant, content, no_clock)
                tried += 1
    assert tried >= 20


@pytest.mark.slow
def test_mutants_of_planes_are_rejected_or_true() -> None:
    """Change fields of counted leaves at random: what is still verified is true."""
    weights, honest, certificate = a_counted_one()
    content, draw, survived = to_bytes(weights), random.Random(0), 0
    check(certificate)
    leaves = [
        leaf
        for step in honest["hints"]["steps"]
        for leaf in step["leaves"]
        if leaf["kind"] == "counted"
    ]
    for _ in range(40):
        leaf = draw.choice(leaves)
        name = draw.choice(("slope", "at", "right", "wrong", "bin", "words", "box"))
        before = copy.deepcopy(leaf[name])
        if isinstance(before, list):
            place = draw.randrange(len(before))
            row = before[place]
            leaf[name][place] = (
                row[::-1] if isinstance(row, list) else row + draw.choice((-row, 1, -1, 1 << 36))
            )
        else:
            leaf[name] = before + draw.choice((-before, 1, -1, 1 << 36, -(1 << 36)))
        try:
            verify(copy.deepcopy(honest), content, no_clock)
            survived += 1  # totals are the claims', which are true: `check`
        except REFUSALS:
            pass
        leaf[name] = before
    assert survived < 35
    assert hashlib.sha256(content).hexdigest() == honest["model"]["sha256"]


def test_words_are_spread_over_bins_as_they_are() -> None:
    """Both programmes, forwards and backwards, against every word."""
    rng = np.random.default_rng(0)
    for seed in (0, 3, 4, 5):
        network = Network(weights := any_network(seed))
        task, words = network.task, all_words(network)
        trace = task.trace(words)
        bins = [rng.integers(-4, 5, table.shape) for table in task.next]
        for first in range(task.letters):
            last = int(rng.integers(first, task.letters)) + 1
            free = [n for n in range(task.letters) if not first <= n < last]
            sums = sum(
                (bins[n][trace[:, n], words[:, n]] for n in free),
                np.zeros(len(words), dtype=np.int64),
            )
            one = counting.BinHistogram(
                task, {n: bins[n].astype(float) for n in free}, first, last, 16
            )
            other = BinHistogram(
                network_of(weights).task, [table.tolist() for table in bins], first, last
            )
            at = rng.integers(len(words), size=8)
            for word in at.tolist():
                inside = (words[:, first:last] == words[word, first:last]).all(axis=1)
                inside &= trace[:, first] == trace[word, first]
                after = int(task.next[last - 1][trace[word, last - 1], words[word, last - 1]])
                for least in (-100, -3, 0, 2, 100):
                    truth = int((inside & (sums >= least)).sum())
                    assert one.from_on(int(trace[word, first]), after, least) == truth
                    assert other.from_on(int(trace[word, first]), after, least) == truth


def test_the_union_over_steps_is_no_larger_than_it_is() -> None:
    """Random cells of random windows at three steps; of two steps the union is exact."""
    rng = np.random.default_rng(1)
    for seed in (0, 2, 3, 5, 12):
        weights = any_network(seed)
        network, other = Network(weights), network_of(weights)
        task, words = network.task, all_words(network)
        trace = task.trace(words)
        cells, fixed, sets = [], [], []
        for _ in range(3):
            first = int(rng.integers(task.letters))
            last = int(rng.integers(first, task.letters)) + 1
            reached = other.task.words_to[first]
            all_here = [cell for cell in cells_of(other.task, first, last) if reached[cell.state]]
            here = [all_here[i] for i in np.flatnonzero(rng.random(len(all_here)) < 0.4)]
            cells.append(here)
            states = [[cell.state] for cell in here]
            for cell, row in zip(here, states, strict=True):
                for n, a in enumerate(cell.letters, first):
                    row.append(int(task.next[n][row[-1], a]))
            fixed.append(
                [
                    Fixed(first, tuple(row), cell.letters)
                    for cell, row in zip(here, states, strict=True)
                ]
            )
            keys = {(cell.state, cell.letters) for cell in here}
            tuples = zip(
                trace[:, first].tolist(), map(tuple, words[:, first:last].tolist()), strict=True
            )
            sets.append({i for i, key in enumerate(tuples) if key in keys})
        for n in (2, 3):
            found = in_union(task, fixed[:n])
            assert found == in_some(other.task, cells[:n])
            assert found <= len(set.union(*sets[:n]))
        assert in_union(task, fixed[:2]) == len(sets[0] | sets[1])
