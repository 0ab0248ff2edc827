"""Certificates about small networks on sequences, made by trying every input.

Boxes are what all words of a cell reach in float64, a little wider; kinds of leaves are what the
checker can prove.
"""

import copy
import hashlib
import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb

from quadlens.network.native import to_bytes
from quadlens.network.sequence import Automaton, Fed, Step, TaskSpec
from quadlens.network.weights import Weights
from quadlens.proofs.sequences import expand, forward
from quadlens_checker.cells import Cell, cells_of
from quadlens_checker.model_file import read_tensors
from quadlens_checker.sequence_file import Network, read_network
from quadlens_checker.sequence_tables import P, SequenceTables
from quadlens_checker.sequence_verdict import statement
from quadlens_checker.sequences import CellProver, Seen
from quadlens_checker.tail import ReadDirections
from sequences_truth import Truth
from small_sequences import random_config, random_network

BITS = 50


def no_clock(operations: int) -> None:
    """As much time as it takes."""


def network_of(weights: Weights) -> Network:
    """As the checker reads it."""
    return read_network(*read_tensors(to_bytes(weights)))


def words_of(network: Network) -> list[tuple[int, ...]]:
    """Every input."""
    return list(itertools.product(*(range(len(table[0])) for table in network.task.next)))


def taught(seed: int, **fixed: object) -> Weights:
    """A random network whose task is its own most frequent answer per state and letter.

    Three letters of three or two symbols, two states; the last two letters' tokens depend on the
    state, and the second step is asked before the third letter's token is read but sees the first
    two.
    """
    rng = np.random.default_rng(seed)
    sizes = [3, 3, 2]
    after = [rng.integers(0, 2, (1 if n == 0 else 2, size)) for n, size in enumerate(sizes)]
    for table in after:
        table[0, :2] = 0, 1
    fed = [rng.integers(0, 4, table.shape) for table in after]
    order = [int(n) for n in rng.permutation(3)]
    places = {letter: place for place, letter in enumerate(order, 1)}
    steps = [(3, int(rng.integers(3))), (places[order[1]], order[1])]

    def rows(table: np.ndarray) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(int(x) for x in row) for row in table)

    def task(right: list[np.ndarray]) -> TaskSpec:
        positions: tuple[int | Fed, ...] = (
            4,
            *(Fed(letter, rows(fed[letter])) for letter in order),
        )
        asked = tuple(
            Step(query, letter, rows(table))
            for (query, letter), table in zip(steps, right, strict=True)
        )
        automaton = Automaton(tuple(map(rows, after)), positions, asked, ((0,), (1,), (2,), (3, 4)))
        return TaskSpec("taught", automaton=automaton)

    right = [np.zeros(after[letter].shape, dtype=np.int64) for _, letter in steps]
    config = random_config(seed, task(right), 5, 4, **fixed)
    weights = random_network(config, seed, scale=float(rng.choice([0.3, 1, 3])))
    words, states = np.array(words_of(network_of(weights))), expand(config)
    for (query, letter), table in zip(steps, right, strict=True):
        said = np.minimum(forward(weights, states.tokens(words), query).argmax(axis=1), 3)
        before = states.trace(words)[:, letter]
        for s, a in np.ndindex(table.shape):
            here = said[(before == s) & (words[:, letter] == a)]
            table[s, a] = np.bincount(here).argmax() if len(here) else 0
    return weights.replace(replace(config, task=task(right)))


def basis_of(weights: Weights) -> list[list[list[int]]]:
    """For each head nearly orthonormal rows that span what it can write."""
    found = []
    for W in weights.W_O.astype(np.float64):
        _, sizes, rows = np.linalg.svd(W, full_matrices=False)
        found.append(
            [
                [round(float(x) * 2**BITS) for x in row]
                for row in rows[sizes > 1e-9 * max(sizes[0], 1e-30)]
            ]
        )
    return found


def true_margins(weights: Weights, network: Network) -> list[dict[tuple[int, ...], Any]]:
    """For each step and word: the best right token's logit less the best other one, in Arb."""
    truth, known, found = Truth(weights), dict[Any, Any](), []
    for query, letter, right in network.task.steps:
        here = {}
        for word in words_of(network):
            tokens, states = network.task.tokens(list(word)), network.task.states(list(word))
            key = query, tuple(tokens[: query + 1])
            if key not in known:
                known[key] = truth.logits(tokens, query)
            answer = network.task.answers[right[states[letter]][word[letter]]]
            scores = known[key]
            best = [
                max((x for n, x in enumerate(scores) if (n in answer) == want), key=float)
                for want in (True, False)
            ]
            here[word] = best[0] - best[1]
        found.append(here)
    return found


def reached(prover: CellProver, query: int, word: tuple[int, ...]) -> list[float]:
    """The coordinates of one word in float64, from the checker's tables."""
    network, tables = prover.network, prover.tables
    tokens, found = network.task.tokens(list(word)), list[float]()
    for head, basis in enumerate(tables.basis):
        weights = tables.weights(head, query, tokens[query])
        most = max(weights[j][tokens[j]] for j in weights)
        w = np.array([float(Fraction(weights[j][tokens[j]], most)) for j in weights])
        for k in range(len(basis)):
            u = [tables.coordinates[head][j][tokens[j]][0][k] / 2**P for j in weights]
            found.append(float(w @ u / w.sum()))
    return found


def step_hints(prover: CellProver, number: int) -> dict[str, Any]:
    """Leaves, one per cell, and cells of a step."""
    task, step = prover.network.task, prover.network.task.steps[number]
    query, letter, right = step
    fed = task.fed[query]
    low, high = (
        (letter, letter) if isinstance(fed, int) else (min(letter, fed[0]), max(letter, fed[0]))
    )
    inside: dict[Cell, list[list[float]]] = {}
    for word in words_of(prover.network):
        states = task.states(list(word))
        cell = Cell(low, states[low], word[low : high + 1], states[high + 1])
        inside.setdefault(cell, []).append(reached(prover, query, word))
    leaves: list[dict[str, Any]] = []
    entries: list[Any] = []
    for cell in cells_of(task, low, high + 1):
        if cell not in inside:
            entries.append(None)
            continue
        own = fed if isinstance(fed, int) else cell.look_up(task, fed[0], fed[1])
        places = np.array(inside[cell]).reshape(len(inside[cell]), -1)
        ends = np.stack([places.min(axis=0), places.max(axis=0)], axis=1)
        slack = 1 + np.abs(ends).max(initial=0) * 2.0 ** (BITS - 40)
        box = [
            [int(np.floor(x * 2.0**BITS - slack)), int(np.ceil(y * 2.0**BITS + slack))]
            for x, y in ends
        ]
        leaf = {
            "kind": "right",
            "own": own,
            "answer": cell.look_up(task, letter, right),
            "box": box,
        }
        seen = Seen(prover, query, own, prover.views(query))
        if not prover.leaf(seen, leaf, [cell], 1):
            leaf["kind"] = "wrong"
            if not prover.leaf(seen, leaf, [cell], 1):
                leaf = {name: leaf[name] for name in ("own", "answer")} | {"kind": "open"}
        entries.append(len(leaves))
        leaves.append(leaf)
    return {"leaves": leaves, "cells": entries}


def certificate_of(weights: Weights, margins: list[dict[tuple[int, ...], Any]]) -> dict[str, Any]:
    """A certificate with half the smallest positive margin, each cell by itself."""
    content, network = to_bytes(weights), network_of(weights)
    least = min(
        (float(x) for here in margins for x in here.values() if float(x) > 1e-9), default=1.0
    )
    margin: Fraction | None = Fraction(least / 2).limit_denominator(10**12) or Fraction(1, 10**12)
    basis = basis_of(weights)
    prover = CellProver(
        ReadDirections(SequenceTables(network, basis, BITS, no_clock)),
        margin or Fraction(0),
        BITS,
        no_clock,
    )
    steps = [step_hints(prover, number) for number in range(len(network.task.steps))]
    bad = [
        (number, word)
        for number, here in enumerate(margins)
        for word, x in here.items()
        if x < arb(-1e-6)
    ]
    example = None
    if bad:
        number, word = bad[0]
        tokens = network.task.tokens(list(word))
        states = network.task.states(list(word))
        query, letter, right = network.task.steps[number]
        scores = Truth(weights).logits(tokens, query)
        answer = network.task.answers[right[states[letter]][word[letter]]]
        answered = max(
            (n for n in range(len(scores)) if n not in answer), key=lambda n: float(scores[n])
        )
        example = {"input": list(word), "step": number, "answered": answered}
    hints = {"bits": BITS, "basis": basis, "steps": steps}
    wrong, most = counts(network, hints)
    if most == network.task.inputs:
        margin = None
    wrong = max(wrong, int(example is not None))
    claims = {
        "inputs": network.task.inputs,
        "certified_inputs": network.task.inputs - most,
        "wrong_inputs": [wrong, most],
        "margin": None if margin is None else f"{margin.numerator}/{margin.denominator}",
    }
    return {
        "format": "quadlens-certificate",
        "version": 4,
        "strategy": "cells",
        "statement": statement(network.task.value, network.task.inputs, wrong, most, margin),
        "verdict": "WRONG"
        if example
        else "CERTIFIED"
        if not most
        else "PARTLY"
        if margin
        else "UNPROVED",
        "model": {
            "sha256": hashlib.sha256(content).hexdigest(),
            "task": copy.deepcopy(network.task.value),
        },
        "claims": claims,
        "hints": hints,
        "counter_example": example,
    }


def counts(network: Network, hints: dict[str, Any]) -> tuple[int, int]:
    """Wrong words at least and at most, one by one, for a certificate without refined cells."""
    wrong: list[set[int]] = []
    left = 0
    for (query, letter, _), step in zip(network.task.steps, hints["steps"], strict=True):
        fed = network.task.fed[query]
        low, high = (
            (letter, letter) if isinstance(fed, int) else (min(letter, fed[0]), max(letter, fed[0]))
        )
        kind = {
            (cell.state, cell.letters): None if entry is None else step["leaves"][entry]["kind"]
            for cell, entry in zip(
                cells_of(network.task, low, high + 1), step["cells"], strict=True
            )
        }
        kinds = []
        for word in words_of(network):
            kinds.append(kind[network.task.states(list(word))[low], word[low : high + 1]])
        wrong.append({place for place, one in enumerate(kinds) if one == "wrong"})
        left += kinds.count("open")
    chosen, least = list[set[int]](), 0
    for here in sorted(wrong, key=len, reverse=True):
        more = len(here) - sum(len(here & other) for other in chosen)
        if more > 0:
            chosen, least = [*chosen, here], least + more
    return least, min(network.task.inputs, sum(map(len, wrong)) + left)
