"""The checker on sequences: against Arb, against every input, and tampering."""

import copy
import hashlib
import itertools
import json
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx, fmpq

from checker.sequence_certificates import (
    BITS,
    basis_of,
    certificate_of,
    counts,
    network_of,
    no_clock,
    taught,
    true_margins,
    words_of,
)
from quadlens.network.native import to_bytes
from quadlens.network.sequence import Automaton, Fed, SequenceConfig, Step, TaskSpec
from quadlens.network.sequence_forward import sequence_config
from quadlens.network.weights import Weights
from quadlens.proofs.sequences import expand
from quadlens.proofs.sequences.certificate import certify_sequence
from quadlens_checker import limits
from quadlens_checker.automata import read_automaton
from quadlens_checker.cells import Envelope
from quadlens_checker.curves import Q, activation, inverse_root
from quadlens_checker.reading import Rejected
from quadlens_checker.sequence_tables import P, SequenceTables, weight_error
from quadlens_checker.sequence_verdict import statement
from quadlens_checker.tail import ReadDirections, TailOnBox, Undecided
from quadlens_checker.verdict import check_here, verify
from sequences_truth import Truth, activated
from small_sequences import PARITY, addition_task, random_config, random_network

pytestmark = pytest.mark.slow

LONG = os.environ.get("QUADLENS_HYPOTHESIS") == "long"
NETWORKS = 2000 if LONG else 60
MUTANTS = 1000 if LONG else 150


@pytest.fixture(autouse=True)
def _precise_and_brief(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before, ctx.prec = ctx.prec, 300
    monkeypatch.setattr(limits, "MAX_CUTS", 60)
    yield
    ctx.prec = before


# Tasks.

TASKS = [
    *(
        addition_task(digits, base, stop, highest_first)
        for digits, base in ((1, 2), (2, 3), (3, 10))
        for stop in (False, True)
        for highest_first in (False, True)
    ),
    replace(addition_task(stop=True), stop="zero"),
    *(TaskSpec(f"cumsum-sign:{n}", largest=m) for n, m in ((1, 1), (4, 2), (20, 5))),
    *(TaskSpec(f"max:{n}", tokens=m) for n, m in ((1, 2), (3, 4), (10, 64))),
    PARITY,
]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_names_mean_the_same_tasks(task: TaskSpec) -> None:
    tokens = 64 if task.tokens else 12
    config = random_config(0, task, tokens, max(len(task.template), 20), mask="causal")
    expected, found = (
        expand(config),
        read_automaton(json.loads(json.dumps(task.to_json())), tokens, tokens, config.n_ctx),
    )
    assert found.inputs == expected.inputs
    assert found.next == [table.tolist() for table in expected.next]
    fed = [one if isinstance(one, int) else (one[0], one[1].tolist()) for one in expected.positions]
    assert found.fed == fed
    assert found.steps == [
        (query, letter, right.tolist()) for query, letter, right in expected.steps
    ]
    assert found.answers == [frozenset(np.flatnonzero(row).tolist()) for row in expected.answers]
    assert [tuple(row) for row in found.words_to] == list(expected.words_to)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "add:x"}, "no number of letters"),
        ({"name": "add:3"}, "the template"),
        ({"name": "add"}, "no number of letters"),
        ({"digits": [0, 1, 1]}, "not at least two"),
        ({"digits": [0, 1, 9]}, "outside"),
        ({"template": ["x0", "x1", "z0", "z1", "z2", 3]}, "the template"),
        ({"template": ["z0", "z1", "z1"]}, "the template"),
        ({"template": [99, "x0", "z0", "z1", "z2"]}, "a position"),
        ({"stop": "never"}, "unknown stop"),
        ({"automaton": {}}, "keys"),
        ({"name": "sum"}, "keys"),
        ({"name": "sum. On all inputs of adding two numbers"}, "one word"),
        ({"name": "\u0430dd:2"}, "one word"),
        ({"name": "sum\n"}, "one word"),
    ],
)
def test_a_name_with_other_tables_is_refused(change: dict[str, Any], reason: str) -> None:
    value = json.loads(json.dumps(addition_task().to_json()))
    with pytest.raises(Rejected, match=reason):
        read_automaton(value | change, 5, 5, 9)


# What is not rational.


def test_lines_are_as_close_as_they_say() -> None:
    draw, unit = random.Random(0), arb(2) ** Q
    for _ in range(20_000 if LONG else 1_000):
        name = draw.choice(["relu", "gelu", "silu", "gelu_tanh", "root"])
        radius, centre = (
            2.0 ** draw.uniform(-30, 5),
            draw.uniform(-1, 1) * 2.0 ** draw.uniform(-8, 6),
        )
        low, high = int((centre - radius) * 2**Q), int((centre + radius) * 2**Q)
        if name == "root":
            low = max(1 << draw.randint(1, Q), low)
            high = max(low, high)
        slope, p, v, delta = (
            inverse_root(low, high) if name == "root" else activation(name, low, high)
        )
        for place in [
            low,
            high,
            min(high, max(low, p)),
            *(draw.randint(low, high) for _ in range(6)),
        ]:
            x = arb(place) / unit
            truth = 1 / x.sqrt() if name == "root" else activated(name, x)
            assert abs(truth - (arb(slope) * (place - p) / unit + v) / unit) <= arb(delta) / unit


def drawn_box(parts: ReadDirections, draw: random.Random) -> list[tuple[int, int]]:
    """A box of any size within reach."""
    size, box = 2.0 ** draw.choice([-40, -10, -3, -1, 0]), []
    for most in parts.reach:
        centre, radius = int(draw.uniform(-1, 1) * most), int(draw.random() * size * 2**Q)
        low, high = max(-most, centre - radius), min(most, centre + radius)
        box.append(((low + high) // 2, high - (low + high) // 2))
    return box


@pytest.mark.parametrize("seed", range(NETWORKS))
def test_tables_and_tails_enclose_the_truth(seed: int) -> None:
    """Attention weights, values and leads on boxes of random networks, without tolerance."""
    draw = random.Random(seed)
    config = random_config(seed, addition_task(), 5, 9)
    weights = random_network(config, seed, scale=[1, 0.3, 3, 30][seed % 4])
    network, truth, basis = network_of(weights), Truth(weights), basis_of(weights)
    if seed % 5 == 0:  # a basis that spans too little: what is left is enclosed all the same
        basis = [rows[:-1] for rows in basis]
    tables = SequenceTables(network, basis, BITS, no_clock)
    parts, unit = ReadDirections(tables), arb(2) ** P
    query = network.task.steps[seed % 3][0]
    own = draw.choice(tables.tokens[query])
    for head in range(network["n_heads"]):
        found = tables.weights(head, query, own)
        power = {(j, v): truth.score(head, query, own, j, v).exp() for j in found for v in found[j]}
        j, v = max(power, key=lambda one: found[one[0]][one[1]])
        w, error = found[j][v], weight_error(found[j][v])
        for (i, u), x in power.items():  # some common factor makes all of them w̃ ± error
            low, high = (
                found[i][u] - weight_error(found[i][u]),
                found[i][u] + weight_error(found[i][u]),
            )
            assert not (w + error) * x / power[j, v] < low
            assert not (w - error) * x / power[j, v] > high
        for j in found:
            middle, error = tables.written[head][j][own if j == query else tables.tokens[j][0]]
            there = truth.written(head, j, own if j == query else tables.tokens[j][0])
            assert all(
                abs(arb(m) / unit - x) <= arb(error) / unit
                for m, x in zip(middle, there, strict=True)
            )
    tail = parts.at(query, own)
    for _ in range(2):
        box = drawn_box(parts, draw)
        try:
            pieces = TailOnBox(tail, box)
            first, second = draw.sample(range(network["d_vocab_out"]), 2)
            low = pieces.lead(first, second)[0]
            assert pieces.lead(first, second, floor=-(1 << 200))[0] <= low
            assert pieces.lead(first, second, floor=1 << 200)[0] == low
        except Undecided:
            continue
        for _ in range(4):
            place = [
                arb(c + draw.choice([-r, r, draw.randint(-r, r)])) / arb(2) ** Q for c, r in box
            ]
            x = truth.stream(query, own) + truth.of["b_O"]
            for head, rows in enumerate(basis):
                values = [
                    tables.written[head][j][v][0]
                    for j in range(query + 1)
                    for v in tables.tokens[j]
                ]
                left = draw.choice(values)  # what no coordinate has, of some position and token
                for row in rows:
                    exact = np.array([arb(fmpq(n, 1 << BITS)) for n in row], dtype=object)
                    inner = sum(arb(fmpq(a, 1 << P)) * b for a, b in zip(left, exact, strict=True))
                    x = x + (place.pop(0) - inner) * exact
                x = x + np.array([arb(fmpq(n, 1 << P)) for n in left], dtype=object)
            scores = truth.tail(x)
            assert not scores[first] - scores[second] < arb(low) / arb(2) ** Q


@pytest.mark.parametrize("seed", range(20))
def test_an_envelope_is_the_least_of_its_lines(seed: int) -> None:
    """Compared with the minimum over all lines, at every τ around each meeting of two lines."""
    draw = random.Random(seed)
    for _ in range(100):
        size = draw.choice([2, 10, 1 << 90])
        lines = [
            (draw.randint(-size, size), draw.randint(-size, size))
            for _ in range(draw.randint(1, 12))
        ]
        places = {0, size, -size, 1 << 200, -(1 << 200)}
        for (a, w), (b, x) in itertools.combinations(lines, 2):
            if w != x:
                places |= {(a - b) // (w - x) + off for off in (-1, 0, 1)}
        envelope = Envelope.of(lines)
        assert set(envelope.lines) <= set(lines)
        for tau in places:
            assert envelope.least(tau) == min(a - tau * w for a, w in lines)


# Whole certificates.


def check_against_truth(
    certificate: dict[str, Any], margins: list[dict[tuple[int, ...], Any]]
) -> None:
    """Counts and margin of a verified certificate hold in Arb on every input."""
    claims, words = certificate["claims"], list(margins[0])
    wrong = sum(any(not here[word] > 0 for here in margins) for word in words)
    assert claims["wrong_inputs"][0] <= wrong <= claims["wrong_inputs"][1]
    if claims["margin"] is not None:
        margin = arb(fmpq(*map(int, claims["margin"].split("/"))))
        above = sum(all(not here[word] < margin for here in margins) for word in words)
        assert above >= claims["certified_inputs"]


@pytest.mark.parametrize("seed", range(NETWORKS))
def test_certificates_agree_with_every_input(seed: int) -> None:
    tasks = [
        addition_task(2, 2),
        addition_task(1, 3, highest_first=True),
        addition_task(1, 3, stop=True),
        PARITY,
    ]
    weights = taught(seed)
    if seed % 4 == 0:
        weights = random_network(random_config(seed, tasks[seed // 4 % 4], 5, 9), seed)
    margins = true_margins(weights, network_of(weights))
    certificate = certificate_of(weights, margins)
    verify(certificate, to_bytes(weights), no_clock)
    check_against_truth(certificate, margins)


@pytest.mark.parametrize("seed", range(200 if LONG else 12))
def test_what_certify_writes_is_verified_and_true(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_CUTS", 100_000)
    weights = taught(seed)
    certificate = json.loads(json.dumps(certify_sequence(weights).to_json()))
    verify(certificate, to_bytes(weights), no_clock)
    check_against_truth(certificate, true_margins(weights, network_of(weights)))


def right_example() -> tuple[Weights, dict[str, Any], list[dict[tuple[int, ...], Any]]]:
    """A network that is right everywhere, with an MLP, norms and two coordinates."""
    weights = taught(103)
    margins = true_margins(weights, network_of(weights))
    return weights, certificate_of(weights, margins), margins


def rejected(certificate: Any, content: bytes) -> bool:
    try:
        verify(certificate, content, no_clock)
    except (
        Rejected,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ):
        return True
    return False


def test_false_claims_are_rejected() -> None:
    """Margins, boxes and counts that are a little better than the truth."""
    weights, certificate, margins = right_example()
    content, claims = to_bytes(weights), certificate["claims"]
    assert certificate["verdict"] == "CERTIFIED"
    least = min(float(x) for here in margins for x in here.values())

    def changed(path: list[Any], value: Any) -> dict[str, Any]:
        found = copy.deepcopy(certificate)
        inner = found
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        numbers = found["claims"]
        margin = Fraction(numbers["margin"])
        least_wrong, most_wrong = numbers["wrong_inputs"]
        found["statement"] = statement(
            found["model"]["task"], numbers["inputs"], least_wrong, most_wrong, margin
        )
        return found

    assert not rejected(changed(["verdict"], "CERTIFIED"), content)
    above = Fraction(least * (1 + 1e-9)).limit_denominator(10**15)
    with pytest.raises(Rejected, match="is not proved"):
        verify(
            changed(["claims", "margin"], f"{above.numerator}/{above.denominator}"),
            content,
            no_clock,
        )
    for name, value in (
        ("inputs", 17),
        ("certified_inputs", 19),
        ("wrong_inputs", [0, 1]),
        ("wrong_inputs", [1, 0]),
    ):
        with pytest.raises(Rejected, match="counted"):
            verify(changed(["claims", name], value), content, no_clock)
    assert claims["certified_inputs"] == claims["inputs"] == 18
    small = 0
    for number, step in enumerate(certificate["hints"]["steps"]):
        for index, leaf in enumerate(step["leaves"]):
            for k, (low, high) in enumerate(leaf["box"]):
                path = ["hints", "steps", number, "leaves", index, "box", k]
                for ends in ([low + (1 << 14), high], [low, high - (1 << 14)]):
                    with pytest.raises(Rejected, match="is not proved"):
                        verify(changed(path, ends), content, no_clock)
                    small += 1
        with pytest.raises(Rejected, match="cells, expected"):
            verify(
                changed(["hints", "steps", number, "cells"], step["cells"][:-1]), content, no_clock
            )
        with pytest.raises(Rejected, match="in no leaf"):
            verify(
                changed(["hints", "steps", number, "cells"], [None, *step["cells"][1:]]),
                content,
                no_clock,
            )
    assert small > 20
    with pytest.raises(Rejected, match="one list of leaves per step"):
        verify(changed(["hints", "steps"], certificate["hints"]["steps"][:-1]), content, no_clock)


def test_a_refined_cell_is_whole() -> None:
    """Children of a cell take its place; one less, or one of the wrong side, does not."""
    weights, certificate, _ = right_example()
    content, tried = to_bytes(weights), 0
    for step in certificate["hints"]["steps"]:
        for index, entry in enumerate(step["cells"]):
            if entry is None:
                continue
            for sign in "+-":
                for count in range(1, 8):
                    step["cells"][index] = [sign, [entry] * count]
                    tried += not rejected(certificate, content)
            step["cells"][index] = entry
    cells = sum(
        entry is not None for step in certificate["hints"]["steps"] for entry in step["cells"]
    )
    assert 0 < tried <= 2 * cells  # at most one number of children is right for each side
    verify(certificate, content, no_clock)


def test_a_weight_changed_is_rejected_with_the_hash_put_right() -> None:
    """Whatever is verified of the changed network is true of it."""
    weights, certificate, margins = right_example()
    least = min(float(x) for here in margins for x in here.values())
    draw, refused = np.random.default_rng(0), 0
    for _ in range(40):
        name = str(
            draw.choice([n for n in weights.tensors if n not in ("mask", "rope_cos", "rope_sin")])
        )
        array = weights.tensors[name].copy()
        array.flat[draw.integers(array.size)] *= np.float32(1 + draw.choice([1e-3, 0.3, -2.0]))
        other = Weights(weights.config, **{**weights.tensors, name: array})
        found = copy.deepcopy(certificate)
        found["model"]["sha256"] = hashlib.sha256(to_bytes(other)).hexdigest()
        if rejected(found, to_bytes(other)):
            refused += 1
        else:
            check_against_truth(found, true_margins(other, network_of(other)))
    assert refused > 20
    assert least > 0
    with pytest.raises(Rejected, match="another model file"):
        verify(certificate, to_bytes(weights.replace(W_U=-weights.W_U)), no_clock)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a JSON value."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, child in inner:
        yield (*path, key)
        yield from places(child, (*path, key))


def mutated(value: Any, draw: random.Random) -> Any:
    """Something else of this kind, or of none."""
    if isinstance(value, bool) or value is None:
        return draw.choice([not value, 0, 1, []])
    if isinstance(value, int):
        return value + draw.choice([-1, 1, 2, -value, 1 << 30, -(1 << 30), 1 << 60])
    if isinstance(value, str):
        return draw.choice([value + "0", value[:-1], "right", "wrong", "open", "linear", "1/1", ""])
    if isinstance(value, list) and value:
        return draw.choice([value[:-1], [*value, value[0]], value[::-1], None])
    return draw.choice([None, {}, [], 0])


def restated(certificate: dict[str, Any]) -> dict[str, Any]:
    """With the words that fit its claims, where they are such that words fit."""
    try:
        claims, margin = certificate["claims"], certificate["claims"]["margin"]
        least, most = claims["wrong_inputs"]
        margin = None if margin is None else Fraction(margin)
        words = statement(certificate["model"]["task"], claims["inputs"], least, most, margin)
        return certificate | {"statement": words}
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
        return certificate


@pytest.mark.parametrize("seed", [103, 108, 109, 113])
def test_mutants_are_rejected_or_true(seed: int) -> None:
    """Every field in turn, and fields at random: what is still verified holds on every input."""
    weights = taught(seed)
    network, content = network_of(weights), to_bytes(weights)
    margins = true_margins(weights, network)
    certificate, draw = certificate_of(weights, margins), random.Random(seed)
    every = list(places(certificate))
    fields = [path for path in every if len(path) <= 2]
    chosen = fields + [draw.choice(every) for _ in range(MUTANTS - len(fields))]
    survived = 0
    for path in chosen:
        mutant = copy.deepcopy(certificate)
        inner = mutant
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = mutated(inner[path[-1]], draw)
        if mutant == certificate or rejected(
            mutant if draw.random() < 0.5 else restated(mutant), content
        ):
            continue
        survived += 1
        assert mutant["strategy"] == "cells"
        check_against_truth(mutant, margins)
        if not any(
            isinstance(entry, list) for step in mutant["hints"]["steps"] for entry in step["cells"]
        ):
            wrong, most = counts(network, mutant["hints"])
            assert (
                max(wrong, int(mutant["counter_example"] is not None))
                == mutant["claims"]["wrong_inputs"][0]
            )
            assert most == mutant["claims"]["wrong_inputs"][1]
    assert survived < len(chosen) / 2


def test_a_counter_example_must_go_wrong() -> None:
    weights = taught(113)
    network, content = network_of(weights), to_bytes(weights)
    margins = true_margins(weights, network)
    certificate = certificate_of(weights, margins)
    truth, accepted = Truth(weights), 0
    for step, (query, letter, right) in enumerate(network.task.steps):
        for word in words_of(network):
            states = network.task.states(list(word))
            answer = network.task.answers[right[states[letter]][word[letter]]]
            scores = truth.logits(network.task.tokens(list(word)), query)
            for token in range(network["d_vocab_out"]):
                certificate["counter_example"] = {
                    "input": list(word),
                    "step": step,
                    "answered": token,
                }
                if not rejected(certificate, content):
                    assert token not in answer
                    assert all(scores[token] > scores[other] for other in answer)
                    accepted += 1
    assert accepted >= sum(x < -1e-9 for here in margins for x in here.values())


def only_attention(seed: int) -> Weights:
    """A network whose leads are ratios, on one of three tasks with wrong words."""
    spec = (
        TaskSpec(f"max:{3 + seed % 2}", tokens=4)
        if seed % 3
        else sequence_config(taught(seed)).task
    )
    if spec.automaton is not None:
        spec = replace(spec, automaton=replace(spec.automaton, answers=((0,), (1,), (2,), (3,))))
    config = random_config(seed, spec, 5, 4, d_mlp=0, gated=False, n_heads=1)
    config = replace(config, d_vocab_out=4 + seed % 2, norms=replace(config.norms, final=None))
    return random_network(config, seed, scale=float(np.random.default_rng(seed).choice([0.5, 1])))


@pytest.mark.parametrize("seed", range(200 if LONG else 18))
def test_linear_leaves_are_verified_true_and_near(seed: int) -> None:
    """Counts hold on every input; one word less, or a leaf without rivals, is rejected."""
    weights = only_attention(seed)
    content, margins = to_bytes(weights), true_margins(weights, network_of(weights))
    found = certify_sequence(weights)
    certificate = json.loads(json.dumps(found.to_json()))
    verify(certificate, content, no_clock)
    check_against_truth(certificate, margins)
    least, most = found.wrong_inputs
    wrong = sum(any(not here[word] > 0 for here in margins) for word in margins[0])
    assert most == least or len(margins) > 1
    kinds = [leaf["kind"] for step in certificate["hints"]["steps"] for leaf in step["leaves"]]
    assert "linear" in kinds
    for number, step in enumerate(certificate["hints"]["steps"]):
        for index, leaf in enumerate(step["leaves"]):
            if leaf["kind"] != "linear":
                continue
            low, high = leaf["words"]
            changes: list[dict[str, Any]] = (
                [{"groups": leaf["groups"][1:]}] if leaf["groups"] else []
            )
            changes += (
                [{"words": [low, high - 1]}, {"words": [low + 1, high]}]
                if low == high and high
                else []
            )
            changes += [{"wrong": None}] if low else []
            for change in changes:
                one = copy.deepcopy(certificate)
                one["hints"]["steps"][number]["leaves"][index] |= change
                with pytest.raises(Rejected, match=r"is not proved|outside"):
                    verify(one, content, no_clock)
    assert least <= wrong <= most


def test_what_no_coordinate_has_is_not_too_large_for_directions() -> None:
    """Values of ±2^170 are read by a weight of 2^-161, which is 0 over 2^160.

    The answer is theirs, not the bias's.
    """
    next_, fed, step = (((0, 0),),), (Fed(0, ((0, 1),)), 2), Step(1, 0, ((0, 0),))
    config = SequenceConfig(
        3, 2, 2, 1, 1, 1, 1, 0, TaskSpec("large", automaton=Automaton(next_, fed, (step,), ((0,),)))
    )
    one, zero = np.ones((1, 1, 1)), np.zeros((1, 1, 1))
    for value, read, verified in ((2.0**170, 2.0**-161, False), (2.0**39, 2.0**-161, True)):
        weights = Weights(
            config, W_E=np.array([[1.0], [-1.0], [0.0]]), W_Q=zero, W_K=zero, W_V=one * value,
            W_O=one,
            W_U=np.array([[read, 0.0]]), b_U=np.array([1.0, 0.0]),
        )  # fmt: skip
        network, content = network_of(weights), to_bytes(weights)
        margins, task = true_margins(weights, network), network.task.value
        right = {"kind": "right", "own": 2, "answer": 0, "box": []}
        certificate = {
            "format": "quadlens-certificate", "version": 4, "strategy": "cells",
            "verdict": "CERTIFIED",
            "statement": statement(task, 2, 0, 0, Fraction(1, 2)), "counter_example": None,
            "model": {"sha256": hashlib.sha256(content).hexdigest(), "task": task},
            "claims": {"inputs": 2, "certified_inputs": 2, "wrong_inputs": [0, 0], "margin": "1/2"},
            "hints": {"bits": BITS, "basis": [[]], "steps": [{"leaves": [right], "cells": [0, 0]}]},
        }  # fmt: skip
        assert all(x > arb(0.5) for x in margins[0].values()) == verified
        assert rejected(certificate, content) != verified


def test_files_are_checked_in_words(tmp_path: Any) -> None:
    weights, certificate, _ = right_example()
    (tmp_path / "certificate.json").write_text(json.dumps(certificate))
    (tmp_path / "model.safetensors").write_bytes(to_bytes(weights))
    report = check_here(
        str(tmp_path / "certificate.json"), str(tmp_path / "model.safetensors"), 600.0
    )
    assert (report.verdict, report.exit_code, report.inputs) == ("VERIFIED", 0, "18 of 18 inputs")
    assert report.statement == certificate["statement"]
    report = check_here(
        str(tmp_path / "certificate.json"), str(tmp_path / "model.safetensors"), 0.0
    )
    assert report.verdict == "TIMEOUT"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mask": np.ones((1, 4, 4), dtype=np.float32)}, "not there yet"),
        ({"mask": np.zeros((1, 4, 4), dtype=np.float32)}, "sees nothing"),
        ({"mask": np.full((1, 4, 4), 0.5, dtype=np.float32)}, "mask"),
    ],
)
def test_masks_that_look_ahead_are_refused(change: dict[str, Any], reason: str) -> None:
    weights = taught(3, mask="tensor", n_heads=1)
    margins = true_margins(weights, network_of(weights))
    certificate, other = certificate_of(weights, margins), weights.replace(**change)
    certificate["model"]["sha256"] = hashlib.sha256(to_bytes(other)).hexdigest()
    with pytest.raises(Rejected, match=reason):
        verify(certificate, to_bytes(other), no_clock)
