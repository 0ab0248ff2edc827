"""The checker on other tasks, softmax and activations: against Arb and tampering."""

import hashlib
import json
import os
import random
import re
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from hypothesis import given
from hypothesis import strategies as st

from any_model import networks
from examples import examples
from network.test_token_tables import softmax_transformers
from quadlens.network.activation import ACTIVATIONS, NONLINEARITIES, Activation
from quadlens.network.config import Config
from quadlens.network.groups import chughtai_table, group_table
from quadlens.network.native import to_bytes
from quadlens.network.task import Task, task_by_name, task_from_table
from quadlens.network.weights import Weights
from quadlens.proofs.pairs import certify
from quadlens_checker.activations import CUBICS, enclosed
from quadlens_checker.direct import by_brute_force, by_moments, read_layers
from quadlens_checker.exponential import BITS, exponential
from quadlens_checker.model_file import read_model
from quadlens_checker.reading import Rejected
from quadlens_checker.tasks import by_formula, check_task, group, read_task
from quadlens_checker.verdict import statement, verify
from strategies import seeds

pytestmark = pytest.mark.slow

LONG = os.environ.get("QUADLENS_HYPOTHESIS") == "long"


def no_clock(operations: int) -> None:
    """As much time as it takes."""


@pytest.fixture(autouse=True)
def _precision() -> Any:
    before, ctx.prec = ctx.prec, 300
    yield
    ctx.prec = before


# Tasks.


@pytest.mark.parametrize(
    "name", ["add", "subtract", "multiply", "divide", "multiply0", "linear:3,-7", "linear:1,1"]
)
def test_formulas_are_the_same_tasks_as_ever(name: str) -> None:
    for n in [*range(2, 41), 58, 59, 60, 112, 113]:
        try:
            task = task_by_name(name, n)
        except Exception:
            with pytest.raises(Rejected):
                by_formula(name, n)
            continue
        assert by_formula(name, n).answers == task.answers.tolist()


@pytest.mark.parametrize(
    "name",
    [
        *(f"{kind}{n}" for kind in "CD" for n in (1, 2, 3, 4, 7, 59, 60)),
        *(f"{kind}{n}" for kind in "SA" for n in (1, 2, 3, 4, 5)),
        *("C5xC5", "C2xC3xC4", "S3xD4", "A4xC2xS3"),
    ],
)
def test_groups_have_their_documented_order(name: str) -> None:
    table = group_table(name)
    assert group(name, len(table)) == table.tolist()
    if len(table) >= 2:
        task = task_by_name(name)
        read = read_task(task.to_json(), task.n, task.answers.ravel().tolist())
        check_task(read, task.to_json(), None, no_clock)
        with pytest.raises(Rejected, match="follows from the task's name"):
            check_task(read, task.to_json(), task.answers.tolist(), no_clock)
        assert read.words == f"the product a·b in {name} (table with SHA-256 {task.sha256})"


@pytest.mark.parametrize("name", ["S3", "S4", "S5", "A5", "D7", "C5xC5"])
def test_a_group_may_have_its_elements_in_any_order(name: str) -> None:
    order = np.random.default_rng(0).permutation(task_by_name(name).n)
    shuffled = np.argsort(order)[task_by_name(name).answers[np.ix_(order, order)]]
    for table in (shuffled, chughtai_table(name)):
        task = task_from_table(table, name)
        read = read_task(task.to_json(), task.n, table.ravel().tolist())
        if not np.array_equal(table, task_by_name(name).answers):
            check_task(read, task.to_json(), table.tolist(), no_clock)
            with pytest.raises(Rejected, match="lacks the table"):
                check_task(read, task.to_json(), None, no_clock)


@pytest.mark.parametrize(
    ("name", "other"), [("S3", "C6"), ("D60", "S5"), ("C8", "C2xC4"), ("C2xC2xC2", "D4")]
)
def test_a_table_under_a_false_name_is_rejected(name: str, other: str) -> None:
    """Our own reader refuses it already; the checker does not lean on that."""
    task = task_by_name(other)
    said = {"name": name, "sha256": task.sha256}
    read = read_task(said, task.n, task.answers.ravel().tolist())
    with pytest.raises(Rejected, match=f"not one of the group {name}"):
        check_task(read, said, task.answers.tolist(), no_clock)


# What is not rational.


def test_the_exponential_is_as_close_as_it_says() -> None:
    """10^5 arguments here, 10^6 with QUADLENS_HYPOTHESIS=long; no tolerance."""
    draw, bound, ctx.prec = random.Random(0), arb(2) ** -110, 200
    for count in range(1_000_000 if LONG else 100_000):
        denominator = draw.getrandbits(draw.randint(1, 90)) + 1
        size = draw.choice((1, 40, 40, 40, 2000, 10**9))
        numerator = (
            draw.randint(-size * denominator, size * denominator)
            if count % 7
            else count * denominator // 97
        )
        m, k = exponential(numerator, denominator)
        if size > 10**6:
            ctx.prec = 300
        exact = arb(fmpq(numerator, denominator)).exp()
        assert abs(arb(m) * arb(2) ** (k - BITS) / exact - 1) <= bound
        assert 1 << (BITS - 1) <= m < 1 << (BITS + 1)
        ctx.prec = 200


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_as_close_as_they_say(name: Activation) -> None:
    draw = random.Random(0)
    for q in (12, 30, 50, 57):
        most = min(1 << (62 - q), 100)
        sigma = enclosed(name, q, most)
        edges = [
            sign * ((end << q) + d)
            for end in (0, 12, 24, 48, most)
            for d in (-1, 0, 1)
            for sign in (1, -1)
        ]
        drawn = [
            draw.randint(-size << q, size << q)
            for size in (1, 6, most)
            for _ in range(20_000 if LONG else 300)
        ]
        places = [x for x in edges + drawn if abs(x) <= most << q]
        bound = arb(fmpq(sigma.error.numerator, sigma.error.denominator))
        for x, found in zip(places, sigma.apply(places), strict=True):
            truth = NONLINEARITIES[name].enclose(arb(x) / arb(2) ** q)
            assert abs(arb(found) / arb(2) ** q - truth) <= bound
            assert abs(found) <= sigma.largest << q


def test_cubics_hold_their_slope_and_curvature() -> None:
    """Neighbouring places differ by no more than the slope and the errors of both."""
    for name in CUBICS:
        sigma, step = enclosed(name, 30, 60), 1 << 22
        values = sigma.apply(range(-60 << 30, 60 << 30, step))
        most = sigma.slope * step + 2 * float(sigma.error) * 2**30
        assert max(abs(x - y) for x, y in pairwise(values)) <= most


# The whole model, enclosed to 300 bits.


def arb_logits(model: Weights) -> list[list[list[arb]]]:
    """Logits of every input, from the definition, in balls."""
    config, p, sigma = model.config, model.config.p, NONLINEARITIES[model.config.activation].enclose
    w = {
        name: np.vectorize(lambda x: arb(float(x)), otypes=[object])(x)
        for name, x in model.tensors.items()
    }
    act = np.vectorize(sigma, otypes=[object])
    if not config.has_stream:
        return [
            [list(act(w["W_a"][a] + w["W_b"][b]) @ w["W_out"]) for b in range(p)] for a in range(p)
        ]
    softmax, offset = config.softmax, config.b_token_offset
    found: list[list[list[arb]]] = []
    for a in range(p):
        found.append([])
        for b in range(p):
            tokens = [a, b + offset, offset + p][: len(config.attention)]
            x = [w["W_E"][token] + w["W_pos"][place] for place, token in enumerate(tokens)]
            stream = x[config.read_position] + w["b_O"]
            for h in range(config.n_heads):
                weights = [arb(alpha) for alpha in config.attention]
                if softmax is not None:
                    seen = config.read_position + 1 if softmax.causal else len(x)
                    query = x[config.read_position] @ w["W_Q"][h] + w["b_Q"][h]
                    keys = [y @ w["W_K"][h] + w["b_K"][h] for y in x[:seen]]
                    powers = [((query @ key) / arb(softmax.divisor)).exp() for key in keys]
                    for t, power in enumerate(powers):
                        weights[t] += arb(softmax.scale) * power / sum(powers, arb(0))
                for weight, y in zip(weights, x, strict=True):
                    stream = stream + ((y @ w["W_V"][h] + w["b_V"][h]) @ w["W_O"][h]) * weight
            hidden = act(stream @ w["W_in"] + w["b_in"])
            out = (stream + hidden @ w["W_out"] + w["b_out"]) @ w["W_U"] + w["b_U"]
            found[-1].append(list(out)[:p])
    return found


@st.composite
def mlp_models(draw: st.DrawFn) -> Weights:
    config = Config.mlp(
        draw(st.integers(2, 5)), draw(st.integers(1, 6)), draw(st.sampled_from(ACTIVATIONS))
    )
    rng, scale = np.random.default_rng(draw(seeds)), draw(st.sampled_from([0.3, 2.0, 20.0]))
    shapes = config.shapes
    return Weights(
        config,
        **{n: (scale * rng.standard_normal(s)).astype(np.float32) for n, s in shapes.items()},
    )


def check_bounds(bounds: Any, truth: list[list[list[arb]]]) -> None:
    """Every difference of two logits is that of the scores up to the loss, without tolerance."""
    p, one, inputs = len(truth), arb(2) ** -bounds.shift, 0
    for n, (scores, loss) in enumerate(bounds.rows):
        logits = truth[n // p][n % p]
        for c in range(p):
            for d in range(c):
                assert (
                    not abs(logits[c] - logits[d] - arb(scores[c] - scores[d]) * one)
                    > arb(loss) * one
                )
        inputs += 1
    assert inputs == p * p


def hints_for(layers: Any, rank: int, rng: np.random.Generator, bits: int) -> dict[str, Any]:
    """Any basis, and the coefficients that fit W_L best."""
    W = np.array([[float(Fraction(x, 1 << layers.shift_w)) for x in row] for row in layers.W_L])
    B = np.rint(256 * rng.standard_normal((rank, layers.p)))
    M = np.linalg.lstsq(B.T, W, rcond=None)[0] if rank else np.zeros((0, layers.d_mlp))
    return {
        "basis": B.astype(int).tolist(),
        "coefficients": np.rint(M * 2.0**bits).astype(int).tolist(),
        "shift": bits,
    }


@examples(60)
@given(st.one_of(softmax_transformers(), softmax_transformers(np.float64), mlp_models()), st.data())
def test_bounds_hold_against_arb(model: Weights, data: st.DataObject) -> None:
    layers = read_layers(*read_model(to_bytes(model)), {}, no_clock)
    truth = arb_logits(model)
    check_bounds(by_brute_force(layers, {}, no_clock), truth)
    rank = data.draw(st.integers(0, layers.p))
    hints = hints_for(
        layers, rank, np.random.default_rng(0), data.draw(st.sampled_from([4, 20, 30]))
    )
    check_bounds(by_moments(layers, hints, no_clock), truth)


# Certificates written by hand.


def answering_itself(model: Weights) -> Weights:
    """The model with its own answers for a task, so that it is right everywhere."""
    p = model.config.p
    answers = np.array(
        [[max(range(p), key=lambda c: float(row[c])) for row in rows] for rows in arb_logits(model)]
    )
    return model.asked(task_from_table(answers))


def true_margin(model: Weights) -> arb:
    task, margins = model.config.task, []
    for a, rows in enumerate(arb_logits(model)):
        for b, row in enumerate(rows):
            right = row.pop(int(task.answers[a, b]))
            margins += [right - other for other in row]
    smallest = margins[0]
    for margin in margins[1:]:
        smallest = smallest.min(margin)
    return smallest


def written(
    model: Weights, margin: Fraction, strategy: str = "brute", hints: Any = None
) -> dict[str, Any]:
    """A certificate that claims this margin for all inputs."""
    config, task, p = model.config, model.config.task, model.config.p
    content = to_bytes(model)
    about = {"sha256": hashlib.sha256(content).hexdigest(), "p": p, "d_mlp": config.d_mlp}
    about |= {"activation": config.activation, "task": task.to_json()}
    about |= {"attention": config.attention_kind}
    about |= {} if task.by_formula else {"answers": task.answers.tolist()}
    claims = {
        "inputs": p * p,
        "certified_inputs": p * p,
        "margin": f"{margin.numerator}/{margin.denominator}",
    }
    claims |= {"float32_error": None, "float32_certified": False}
    return {
        "format": "quadlens-certificate",
        "version": 3,
        "statement": statement(p, p * p, margin, None, read_model(content)[0].task.words),
        "verdict": "CERTIFIED",
        "strategy": strategy,
        "model": about,
        "claims": claims,
        "uncertified": [],
        "witnesses": [],
        "hints": {} if hints is None else hints,
        "cost": {"flops": 0, "collapse_flops": 0, "brute_force_flops": 0},
    }


def slightly(x: arb, offset: Fraction) -> Fraction:
    """The middle of a ball that is far smaller than any offset, plus the offset, over 2^60."""
    middle = x.mid().man_exp()
    value = Fraction(int(middle[0])) * Fraction(2) ** int(middle[1]) + offset
    return Fraction(int(value * 2**60), 2**60)


@examples(50)
@given(networks, st.sampled_from(["auto", "brute", "moments"]))
def test_what_the_producer_proves_of_any_network_the_checker_verifies(
    model: Weights, strategy: str
) -> None:
    """Claims and words, of two programs that share a list of limits alone."""
    certificate = certify(model, strategy)
    if certificate.proof.margin is not None and certificate.checkable:
        verify(json.loads(certificate.to_bytes()), to_bytes(model), no_clock)


@examples(30)
@given(st.one_of(softmax_transformers(), mlp_models()))
def test_true_margins_are_verified_and_larger_ones_rejected(model: Weights) -> None:
    model = answering_itself(model)
    margin, content = true_margin(model), to_bytes(model)
    near = Fraction(1, 1 << 20)
    if slightly(margin, -near) > 0 and max(map(abs, slope_sizes(model))) < 10**4:
        verify(written(model, slightly(margin, -near)), content, no_clock)
    raised = slightly(margin, Fraction(1, 1 << 40))
    with pytest.raises(Rejected, match=r"margin claimed is not proved|not a positive rational"):
        verify(written(model, raised), content, no_clock)


def slope_sizes(model: Weights) -> list[float]:
    """Pre-activations, roughly: a quartic of large ones has no digits left."""
    layers = read_layers(*read_model(to_bytes(model)), {}, no_clock)
    return (
        [layers.loss / 2.0**layers.shift * 2.0**21, 1.0]
        if layers.loss / 2.0**layers.shift < 2.0**-21
        else [1e9]
    )


def small_softmax(task: Task, activation: Activation = "gelu", seed: int = 0) -> Weights:
    """A random transformer with two heads that reads '='."""
    from quadlens.network.config import Softmax

    p = task.n
    config = Config(
        p=p, d_model=6, d_mlp=9, n_heads=2, d_head=3, d_vocab=p + 1, d_vocab_out=p, n_ctx=3,
        attention=(0.0, 0.0, 0.0),
        read_position=2, activation=activation, softmax=Softmax(1.0, 3**0.5), task=task,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    shapes = config.shapes
    return Weights(
        config=config, **{n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    )


@pytest.fixture(scope="module")
def proved() -> tuple[Weights, dict[str, Any], dict[str, Any]]:
    """A model with certificates by brute force and by moments."""
    ctx.prec = 300
    model = answering_itself(small_softmax(task_by_name("add", 5)))
    margin = true_margin(model)
    layers = read_layers(*read_model(to_bytes(model)), {}, no_clock)
    hints = hints_for(layers, 5, np.random.default_rng(1), 30)
    assert isinstance(model, Weights)
    brute = written(model, slightly(margin, -Fraction(1, 1 << 20)))
    return (
        model,
        brute,
        written(model, slightly(margin * arb("0.99"), Fraction(0)), "moments", hints),
    )


def test_hand_written_certificates_are_verified(
    proved: tuple[Weights, dict[str, Any], dict[str, Any]],
) -> None:
    model, *certificates = proved
    for certificate in certificates:
        verify(json.loads(json.dumps(certificate)), to_bytes(model), no_clock)


Tamper = Callable[[Any], Any]


def put(*path: str | int, value: Any) -> Tamper:
    def tamper(certificate: Any) -> None:
        place = certificate
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value(place[path[-1]]) if callable(value) else value

    return tamper


def raised_margin(certificate: Any) -> None:
    margin = Fraction(certificate["claims"]["margin"]) * Fraction(102, 100)
    certificate["claims"]["margin"] = f"{margin.numerator}/{margin.denominator}"
    words = re.search("the logit of (.*) exceeds", certificate["statement"])
    assert words is not None
    certificate["statement"] = statement(5, 25, margin, None, words[1])


def other_answer(table: Any) -> Any:
    return [[(table[0][0] + 1) % 5, *table[0][1:]], *table[1:]]


TAMPERED: dict[str, tuple[Tamper, str]] = {
    "version 1": (put("version", value=1), "model has keys"),
    "another attention": (
        put("model", "attention", value="constant"),
        "attention is not the model's",
    ),
    "another task by name": (put("model", "task", value="add"), "task is not the model's"),
    "a relabelled task": (put("model", "task", "name", value="C5"), "task is not the model's"),
    "another table's hash": (
        put("model", "task", "sha256", value="0" * 64),
        "task is not the model's",
    ),
    "another table": (
        put("model", "answers", value=other_answer),
        "table of answers is not the model's",
    ),
    "a short table": (
        put("model", "answers", value=lambda x: x[1:]),
        "table of answers is not the model's",
    ),
    "an answer out of range": (put("model", "answers", 0, 0, value=5), "outside"),
    "no table": (lambda c: c["model"].pop("answers"), "lacks the table"),
    "a margin raised by 2 %": (raised_margin, "margin claimed is not proved"),
    "other words": (
        put("statement", value=lambda x: x.replace("a·b by", "b·a by")),
        "statement does not fit",
    ),
    "a float32 line": (put("claims", "float32_error", value="1/1000"), "float32 error claimed"),
    "an unknown hint": (put("hints", value={"gates": []}), "hints has keys"),
    "arcs": (put("strategy", value="arcs"), "unknown strategy for this model"),
    "thin": (put("strategy", value="thin"), "unknown strategy for this model"),
    "moments by arcs": (
        lambda c: c.update(strategy="moments", hints={"arcs": []}),
        "unknown strategy for this model",
    ),
    "a false witness": (put("witnesses", value=[[1, 2, 3]]), "not shown"),
    "another activation": (
        put("model", "activation", value="silu"),
        "activation is not the model's",
    ),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_tampering_is_rejected(
    proved: tuple[Weights, dict[str, Any], dict[str, Any]], what: str
) -> None:
    tamper, reason = TAMPERED[what]
    certificate = json.loads(json.dumps(proved[1]))
    tamper(certificate)
    with pytest.raises(Rejected, match=reason):
        verify(certificate, to_bytes(proved[0]), no_clock)


TAMPERED_MOMENTS: dict[str, Tamper] = {
    "R": put("hints", "basis", 0, 0, value=lambda x: 3 * x + 200),
    "M": put("hints", "coefficients", 1, 2, value=lambda x: x + 2**32),
    "a function left out": lambda c: [c["hints"][key].pop() for key in ("basis", "coefficients")],
    "shift": put("hints", "shift", value=29),
    "margin": raised_margin,
}


@pytest.mark.parametrize("what", TAMPERED_MOMENTS)
def test_tampered_moments_are_rejected(
    proved: tuple[Weights, dict[str, Any], dict[str, Any]], what: str
) -> None:
    certificate = json.loads(json.dumps(proved[2]))
    TAMPERED_MOMENTS[what](certificate)
    with pytest.raises(Rejected, match="margin claimed is not proved"):
        verify(certificate, to_bytes(proved[0]), no_clock)


def in_file(old: str, new: str) -> Callable[[bytes], bytes]:
    """A change of the same length in the model file's config."""
    assert len(old) == len(new)

    def change(content: bytes) -> bytes:
        found = old.replace('"', '\\"').encode()
        assert content.count(found) == 1
        return content.replace(found, new.replace('"', '\\"').encode())

    return change


CHANGED_FILES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "scale": (in_file('"scale": 1.0', '"scale": 1.5'), "attention is not the model's"),
    "scale 0": (in_file('"scale": 1.0', '"scale": 0.0'), "softmax times 0"),
    "divisor": (in_file('"divisor": 1.7', '"divisor": 0.2'), "margin claimed is not proved"),
    "negative divisor": (in_file('"divisor": 1.7', '"divisor": -.7'), "malformed|JSON"),
    "causal": (in_file('"causal": true', '"causal": 1234'), "softmax is malformed"),
    "a constant part": (
        in_file('"attention": [0.0', '"attention": [0.5'),
        "attention is not the model's",
    ),
    "task": (in_file('"name": "table"', '"name": "D1xC5"'), "does not have 5 elements"),
    "activation": (
        in_file('"activation": "gelu"', '"activation": "tanh"'),
        "activation is not the model's",
    ),
}


@pytest.mark.parametrize("what", CHANGED_FILES)
def test_a_changed_file_is_another_model(
    proved: tuple[Weights, dict[str, Any], dict[str, Any]], what: str
) -> None:
    change, reason = CHANGED_FILES[what]
    content = change(to_bytes(proved[0]))
    certificate = json.loads(json.dumps(proved[1]))
    with pytest.raises(Rejected, match="about another model file"):
        verify(certificate, content, no_clock)
    certificate["model"]["sha256"] = hashlib.sha256(content).hexdigest()
    with pytest.raises(Rejected, match=reason):
        verify(certificate, content, no_clock)


def test_gates_come_from_the_weights(
    proved: tuple[Weights, dict[str, Any], dict[str, Any]],
) -> None:
    """Each query and key weight changes the scores; b_K changes no gate."""

    def first_scores(model: Weights) -> list[int]:
        layers = read_layers(*read_model(to_bytes(model)), {}, no_clock)
        return list(next(by_brute_force(layers, {}, no_clock).rows)[0])

    before = first_scores(proved[0])
    for name in ("W_Q", "W_K", "b_Q", "b_K"):
        after = first_scores(proved[0].replace(**{name: -2 * getattr(proved[0], name)}))
        assert (max(abs(x - y) for x, y in zip(before, after, strict=True)) > 1 << 90) == (
            name != "b_K"
        )
