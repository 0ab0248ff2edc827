"""The page's JavaScript and the Python packages compute the same numbers, to 1e-9, for many random
states.
"""

import base64
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any_model import any_model, usual_weights
from explorer_chromium import pages, small_model, visit  # noqa: F401
from quadlens.analysis.infinite_width.inputs import inputs_of
from quadlens.analysis.infinite_width.integral import shared_function
from quadlens.analysis.infinite_width.waves import (
    MAX_DEGREE,
    cluster_of,
    find_plane_clusters,
    plane_spectrum,
)
from quadlens.analysis.logits.closed_form import closed_forms
from quadlens.analysis.logits.parts import logit_parts
from quadlens.analysis.quadrature import (
    NoBound,
    Scheme,
    bound_abs_full,
    bound_angle,
    bound_relu_full,
    cos_baseline,
    exact_errors,
    scheme_of,
)
from quadlens.analysis.quadrature.paper_bounds import bound_abs_half, bound_relu_half
from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.analysis.spectrum.cluster import (
    Cluster,
    NeuronRoles,
    find_clusters,
    find_roles,
    key_frequencies,
    neuron_spectra,
)
from quadlens.analysis.spectrum.harmonics import multiples_of
from quadlens.network.activation import ACTIVATIONS, NONLINEARITIES, apply_activation
from quadlens.network.bundled import load
from quadlens.network.config import Config
from quadlens.network.evaluate import margins
from quadlens.network.native import save, to_bytes
from quadlens.network.tables import FloatTables, Tables
from quadlens.network.task import task_by_name
from quadlens.network.weights import Weights

pytestmark = pytest.mark.slow

TOLERANCE = 1e-9
# What the page's own engine says at a state, reached from whatever state it was in before.
READ = """(fragment) => {
  const engine = Q.app.engine(), info = engine.info, state = Q.state.fromFragment(fragment, info);
  engine.sync(state);
  engine.work(Infinity);
  const rule = state.k === null ? null : engine.scheme(state.k),
    claims = rule && Q.quadrature.claims(rule);
  if (claims) [claims.shifts, claims.full, claims.half] =
    [[claims.full.shift, claims.half.shift], null, null];
  const split = engine.split(state.a, state.b), row = state.a * info.p + state.b;
  const point = rule && Q.quadrature.at(rule, state.part, state.a, state.b, state.c);
  return {
    state, claims, keys: info.keys, margin: [...engine.margin], answer: [...engine.answer],
      verdict: engine.verdict(),
    logits: [...engine.logits.subarray(row * info.p, (row + 1) * info.p)],
    delta: [...engine.delta], gain: [...engine.gain],
      share: [...engine.share(state.n, state.a, state.b)],
    total: [...split.total], identity: [...split.identity], skip: [...split.skip],
    byCluster: split.byCluster.map((x) => [...x]), point: point && [point.sum, point.integral],
  };
}"""


def mulberry(seed: int) -> Any:
    """The page's generator, written again."""
    state = seed & 0xFFFFFFFF

    def imul(x: int, y: int) -> int:
        return (x * y) & 0xFFFFFFFF

    def following() -> float:
        nonlocal state
        state = (state + 0x6D2B79F5) & 0xFFFFFFFF
        t = imul(state ^ (state >> 15), state | 1)
        t ^= (t + imul(t ^ (t >> 7), t | 61)) & 0xFFFFFFFF
        return ((t ^ (t >> 14)) & 0xFFFFFFFF) / 2**32

    return following


def edits(roles: NeuronRoles, state: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Phase shift and gain of each neuron."""
    d = len(roles.phi)
    following = mulberry(state["seed"])
    delta, gain = np.zeros(d), np.ones(d)
    for i in range(d):
        radius, angle = np.sqrt(-2 * np.log(1 - following())), 2 * np.pi * following()
        dropped = (
            following() < state["drop"] or (roles.phi[i] + np.pi) / (2 * np.pi) % 1 < state["arc"]
        )
        if state["scope"] == "all" or roles.k_in[i] == state["k"]:
            delta[i] = state["jitter"] * radius * np.cos(angle)
            gain[i] = 0.0 if dropped else np.exp(state["uneven"] * radius * np.sin(angle))
        delta[i] += state["moves"].get(str(i), 0.0)
        gain[i] *= state["gains"].get(str(i), 1.0)
        gain[i] = 0.0 if i in state["off"] else gain[i]
    return delta, gain


def edited(
    one: "Checked", state: dict[str, Any], delta: np.ndarray, gain: np.ndarray
) -> FloatTables:
    """Every frequency j = ±m·k of neuron i turned by ±mδ (twice that in W_L), some kept, W_L times
    the gain.
    """
    collapsed, roles = one.collapsed, one.roles
    p = collapsed.p
    tables = {int(k): multiples_of(int(k), p) for k in np.unique(roles.k_in)}
    turns = np.stack(
        [np.where(tables[k][1], -1, 1) * tables[k][0] for k in roles.k_in.tolist()], axis=1
    )
    frequency = np.arange((p + 1) // 2)[:, None]

    def bent(x: np.ndarray, own: np.ndarray, rate: float) -> np.ndarray:
        waves = np.fft.rfft(x, axis=0)
        waves[1:] *= np.exp(1j * rate * turns * delta)
        second = np.minimum(2 * own % p, p - 2 * own % p)
        primary = frequency == own
        kept = {"primary": primary, "secondary": primary | (frequency == second)}.get(
            state["keep"], True
        )
        return np.fft.irfft(waves * kept, n=p, axis=0)

    return Tables(
        task_by_name("add", p),
        collapsed.activation,
        bent(collapsed.U_a, roles.k_in, 1.0),
        bent(collapsed.U_b, roles.k_in, 1.0),
        bent(collapsed.W_L, roles.k_out, 2.0 if state["carry"] else 0.0) * gain,
        collapsed.S_a,
        collapsed.S_b,
    )


def hidden(activation: str, part: str, x: np.ndarray) -> np.ndarray:
    if activation == "relu":
        return {"relu": np.maximum(x, 0), "abs": np.abs(x) / 2, "identity": x / 2}[part]
    return {"abs": np.abs(x), "square": np.square(x)}[activation] * (part != "identity")


@dataclass
class Checked:
    """A model with its page and its unedited analysis."""

    collapsed: FloatTables
    roles: NeuronRoles
    clusters: tuple[Cluster, ...]


def checked(model: Weights) -> Checked:
    collapsed = model.collapse()
    spectra = neuron_spectra(collapsed)
    return Checked(collapsed, find_roles(spectra), find_clusters(spectra))


def check(found: dict[str, Any], one: Checked) -> None:
    """Compare everything the page said with the Python packages."""
    state, p = found["state"], one.collapsed.p
    delta, gain = edits(one.roles, state)
    close(found["delta"], delta)
    close(found["gain"], gain)
    model, part, a, b = edited(one, state, delta, gain), state["part"], state["a"], state["b"]
    pre = model.U_a[:, None, :] + model.U_b[None, :, :]
    logits = (
        hidden(model.activation, part, pre) @ model.W_L.T + model.S_a[:, None, :] + model.S_b[None]
    )
    right = (np.arange(p)[:, None] + np.arange(p)) % p
    best = np.take_along_axis(logits, right[:, :, None], axis=2)[:, :, 0]
    np.put_along_axis(logits, right[:, :, None], -np.inf, axis=2)
    margin = best - logits.max(axis=2)
    np.put_along_axis(logits, right[:, :, None], best[:, :, None], axis=2)
    close(found["margin"], margin.ravel())
    close(found["logits"], logits[a, b])
    close(found["total"], logits[a, b])
    # A tie within rounding may be called either way; everything else must be called alike.
    assert (margin < -TOLERANCE).sum() <= found["verdict"]["wrong"] <= (margin <= TOLERANCE).sum()
    sure, answers = np.abs(margin) > TOLERANCE, np.where(margin > 0, right, logits.argmax(axis=2))
    assert (np.array(found["answer"]).reshape(p, p)[sure] == answers[sure]).all()
    even, odd = (
        hidden(model.activation, "abs", pre[a, b]),
        hidden(model.activation, "identity", pre[a, b]),
    )
    even, odd = even * (part != "identity"), odd * (part != "abs")
    close(found["identity"], model.W_L @ odd)
    close(found["skip"], model.S_a[a] + model.S_b[b])
    for values, cluster in zip(found["byCluster"], one.clusters, strict=False):
        close(values, model.W_L[:, cluster.neurons] @ even[cluster.neurons])
    n = state["n"]
    close(found["share"], model.W_L[:, n] * hidden(model.activation, part, pre[a, b])[n])
    check_rule(found, one, delta, gain)


def check_rule(found: dict[str, Any], one: Checked, delta: np.ndarray, gain: np.ndarray) -> None:
    """Exact errors, the paper's rows and the sum at one (a, b, c)."""
    state = found["state"]
    cluster = next((c for c in one.clusters if c.k == state["k"]), None)
    if cluster is None:
        assert found["claims"] is None
        return
    kept = gain[cluster.neurons] != 0
    i = cluster.neurons[kept]
    carried = 2.0 if state["carry"] else 0.0
    bent = Cluster(
        cluster.p,
        cluster.k,
        i,
        cluster.phi[kept] + delta[i],
        cluster.psi[kept] + carried * delta[i],
        cluster.rho[kept],
        cluster.omega[kept] * gain[i],
    )
    rule = scheme_of(bent)
    if isinstance(rule, NoBound):
        assert found["claims"] is None
        return
    claims, exact, psi = found["claims"], exact_errors(rule), exact_errors(rule, with_psi=True)
    angle = bound_angle(rule).value
    for part, full, half in (
        ("Abs", bound_abs_full(rule).value, bound_abs_half(rule).value),
        ("Relu", bound_relu_full(rule).value, bound_relu_half(rule).value),
    ):
        close(claims[f"{part.lower()}Full"], full)
        close(claims[f"{part.lower()}Half"], half)
        close(claims[f"total{part}Full"], full + angle)
        close(claims[f"total{part}Half"], 2 * half + angle)
    close(claims["angle"], angle)
    for name, errors in (("exact", exact), ("exactPsi", psi)):
        values = [errors.absolute.middle, errors.identity.middle, errors.relu.middle]
        close([claims[name][part] for part in ("abs", "identity", "relu")], values)
    close(claims["baseline"], cos_baseline(rule).middle)
    check_point(found, rule)


def check_point(found: dict[str, Any], rule: Scheme) -> None:
    state = found["state"]
    s, u = (np.pi * rule.k * (state["a"] + sign * state["b"]) / rule.p for sign in (1, -1))
    x = np.sign(np.cos(u)) * np.cos(s + rule.phi)
    shape = {"relu": np.maximum(x, 0), "abs": np.abs(x), "identity": x}[state["part"]]
    angle = 2 * np.pi * rule.k / rule.p
    integral = {"relu": 2 / 3, "abs": 4 / 3, "identity": 0.0}[state["part"]]
    close(
        found["point"],
        [
            float((rule.w * shape * np.cos(angle * state["c"] + rule.psi)).sum()),
            integral * np.cos(angle * (state["a"] + state["b"] - state["c"])),
        ],
    )


def close(found: Any, mine: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), mine, rtol=TOLERANCE, atol=TOLERANCE)


def fragment(rng: np.random.Generator, one: Checked, few: bool) -> str:
    """A random state as an address; with `few` only single neurons are bent."""
    p, d = one.collapsed.p, one.collapsed.d_mlp

    def neurons(n: int) -> list[int]:
        return [int(i) for i in rng.choice(d, size=min(n, d), replace=False)]

    words = {key: int(rng.integers(p)) for key in "abc"} | {
        "n": int(rng.integers(d)),
        "seed": int(rng.integers(99)),
    }
    if one.clusters:
        words["k"] = int(rng.choice([c.k for c in one.clusters]))
    choices = {"part": ["relu", "abs", "identity"], "carry": ["0", "1"], "scope": ["all", "k"]}
    choices["keep"] = ["all", "secondary", "primary"]
    said = [f"{key}={value}" for key, value in words.items()]
    said += [f"{key}={rng.choice(options)}" for key, options in choices.items() if not few]
    for key, most in {"jitter": 0.5, "drop": 0.6, "arc": 0.4, "uneven": 1.0}.items():
        if not few and rng.random() < 0.5:
            said.append(f"{key}={rng.uniform(0, most):.4f}")
    said.append("moves=" + ",".join(f"{i}:{rng.uniform(-3, 3):.4f}" for i in neurons(4)))
    said.append("gains=" + ",".join(f"{i}:{rng.uniform(0, 3):.4f}" for i in neurons(3)))
    said.append("off=" + ",".join(map(str, neurons(2))))
    return "&".join(said)


def random_transformer(equals: bool, offset: bool, read: int) -> Weights:
    """Every bias, three positions, own tokens for b: nothing about collapsing is left out."""
    p, rng = 15, np.random.default_rng(5)
    config = Config(
        p=p,
        d_model=7,
        d_mlp=20,
        n_heads=2,
        d_head=3,
        d_vocab=2 * p + 2,
        d_vocab_out=p + 1,
        n_ctx=3,
        attention=(0.5, 0.25, 0.3) if equals else (0.5, 0.7),
        read_position=read,
        b_token_offset=p if offset else 0,
    )
    shapes = config.shapes
    return Weights(
        config=config, **{n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    )


def random_mlp(activation: Any) -> Weights:
    rng = np.random.default_rng(8)
    shapes = Config.mlp(15, 24, activation).shapes
    return Weights(
        Config.mlp(15, 24, activation), **{n: rng.standard_normal(s) for n, s in shapes.items()}
    )


def opened_in(page: Any, model: Weights, path: Path) -> None:
    """Give the page a model file as a reader does."""
    save(model, path)
    page.page.locator("#open-file").set_input_files(str(path))
    page.page.wait_for_selector(f"html[data-model='{path.name}']", state="attached")
    page.settle()


MODELS: dict[str, tuple[Callable[[], Weights], int]] = {
    "pizza": (lambda: load("pizza"), 6),
    "mismatched": (lambda: load("mismatched"), 5),
    "small": (small_model, 16),
    "equals": (lambda: random_transformer(equals=True, offset=True, read=2), 16),
    "read at a": (lambda: random_transformer(equals=False, offset=False, read=0), 12),
    "abs": (lambda: random_mlp("abs"), 8),
    "square": (lambda: random_mlp("square"), 8),
}


@pytest.mark.parametrize("name", list(MODELS))
def test_numbers_equal_pythons(visit: Any, tmp_path: Path, name: str) -> None:  # noqa: F811
    make, count = MODELS[name]
    model = make()
    one = checked(model)
    page = visit("small")
    opened_in(page, model, tmp_path / "model.safetensors")
    rng = np.random.default_rng(len(name))
    keys = key_frequencies(one.clusters)
    for turn in range(count):
        found = page.page.evaluate(READ, fragment(rng, one, few=turn % 3 == 2))
        assert tuple(found["keys"]) == keys
        check(found, one)


@pytest.mark.parametrize("name", ["pizza", "small", "abs", "square"])
def test_interpretation_equals_pythons(visit: Any, tmp_path: Path, name: str) -> None:  # noqa: F811
    model = MODELS[name][0]()
    collapsed = model.collapse()
    clusters = find_clusters(neuron_spectra(collapsed))
    keys, shifts = key_frequencies(clusters), {one.k: one.common_shift for one in clusters}
    page = visit("small")
    opened_in(page, model, tmp_path / "model.safetensors")
    found = page.page.evaluate(
        "(() => { const f = Q.closedForm.fit(Q.app.engine().model, Q.app.info()).relu;"
        " return {C: f.C, D: f.D, margin: Math.min(...f.margins)}; })()"
    )
    form = closed_forms(logit_parts(collapsed, keys, tuple(shifts[k] for k in keys))).by_parts
    close(found["C"], form.C)
    close(found["D"], form.D)
    close(found["margin"], form.min_margin)


# Everything the page's engine computes of a model as it came.
COMPUTE = """(files) => files.map((text) => {
  const model = Q.collapse.collapse(Q.safetensors.read(Uint8Array.from(atob(text),
    (x) => x.charCodeAt(0))));
  const engine = new Q.engine.Engine(model), { info } = engine, { cyclic } = model.task;
  engine.sync(Q.state.defaults(info));
  engine.work(Infinity);
  const form = info.waves ? Q.closedForm.fit(model, info).relu : { C: [], D: [], margins: [] };
  const inputs = Array.from({ length: model.p ** 2 }, (_, at) => [Math.floor(at / model.p),
    at % model.p]);
  const rules = info.clusters.map(({ k }) => {
    const rule = engine.scheme(k), claims = rule && Q.quadrature.claims(rule);
    if (claims) [claims.full, claims.half] = [null, null];
    return { k, phi: rule && [...rule.phi], psi: rule && [...rule.psi], w: rule && [...rule.w],
      claims,
      total: claims &&
        ["Abs", "Relu"].map((part) => Q.numbers.atMost(claims[`total${part}Full`])) };
  });
  return {
    Ua: [...model.Ua], Ub: [...model.Ub], WL: [...model.WL], Sa: [...model.Sa], Sb: [...model.Sb],
    answers: [...model.task.answers], symbols: model.task.symbols, words: model.task.words,
      place: model.task.place,
    sentence: Q.task.sentence(model.task, 0, 1, 1), identity: cyclic && cyclic.isIdentity,
      waves: info.waves,
    cyclic: cyclic && ["ofA", "ofB", "ofC"].map((x) => [...cyclic[x]]),
    gates: model.gated.map(({ gates }) => [...gates]),
    pre: Array.from({ length: model.d }, (_, i) => inputs.map(([a, b]) => engine.pre(i, a, b))),
    split: inputs.slice(0, 3).map(([a, b]) => {
      const { byCluster, identity, skip, total } = engine.split(a, b);
      const even = byCluster.reduce((x, part) => x.map((y, c) => y + part[c]),
        new Float64Array(model.p));
      return [even, identity, skip, total].map((x) => [...x]);
    }),
    logits: [...engine.logits], margin: [...engine.margin], keys: info.keys,
    kIn: [...info.kIn], kOut: [...info.kOut], rho: [...info.rho], omega: [...info.omega],
      phi: [...info.phi],
    psi: [...info.psi], clusters: info.clusters.map(({ k, neurons }) => [k, neurons]), rules,
    C: form.C, D: form.D, margins: [...form.margins],
  };
})"""


def near(found: Any, mine: Any) -> None:
    """Equal to 1e-9 of the largest entry."""
    mine = np.asarray(mine)
    largest = float(np.abs(mine).max(initial=0.0))
    np.testing.assert_allclose(
        np.asarray(found).reshape(mine.shape), mine, rtol=0, atol=TOLERANCE * max(1.0, largest)
    )


def near_angles(found: Any, mine: np.ndarray) -> None:
    """Equal on the circle, where -π is π."""
    near(np.exp(1j * np.asarray(found)), np.exp(1j * mine))


def compare(found: dict[str, Any], model: Weights) -> None:
    """Every part of what the page computed with the same in Python."""
    layer, task, p = model.collapse(), model.config.task, model.config.p
    assert layer.before is None
    near(found["Ua"], layer.U_a.T)
    near(found["Ub"], layer.U_b.T)
    near(found["WL"], layer.W_L.T)
    near(found["Sa"], layer.S_a)
    near(found["Sb"], layer.S_b)
    near(
        found["pre"],
        np.stack([layer.pre(a) for a in range(p)]).transpose(2, 0, 1).reshape(layer.d_mlp, -1),
    )
    near(found["logits"], np.stack([layer.logits(a) for a in range(p)]))
    near(found["margin"], margins(layer).ravel())
    assert found["answers"] == task.answers.ravel().tolist()
    assert [found[name] for name in ("symbols", "words", "place")] == [
        task.symbols,
        task.words,
        task.place,
    ]
    assert found["sentence"] == task.sentence(0, 1, 1)
    new = task.cyclic
    assert found["cyclic"] == (
        None if new is None else [x.tolist() for x in (new.of_a, new.of_b, new.of_c)]
    )
    assert found["identity"] == (None if new is None else new.is_identity)
    assert found["waves"] == (layer.is_additive and new is not None)
    if layer.gated:
        inputs = np.arange(p)
        gates = np.stack([layer.gates(np.full(p, a), inputs) for a in range(p)], axis=2)
        near(found["gates"], gates.reshape(len(layer.gated), -1))
    compare_split(found["split"], layer)
    if found["waves"]:
        compare_waves(found, Anatomy(model))


def compare_split(found: list[Any], layer: FloatTables) -> None:
    """Even part, odd part, skip and whole of the first inputs."""
    sigma = NONLINEARITIES[layer.activation]
    for at, parts in enumerate(found):
        a, b = divmod(at, layer.p)
        pre = layer.pre(a)[b]
        mine = [
            layer.W_L @ sigma.even(pre),
            layer.W_L @ sigma.odd(pre),
            layer.skip(a)[b],
            layer.logits(a)[b],
        ]
        near(parts, np.stack(mine))


def compare_waves(found: dict[str, Any], anatomy: Anatomy) -> None:
    """Frequencies, phases, clusters, rules and the interpretation."""
    collapsed, roles = anatomy.collapsed, anatomy.roles
    assert found["kIn"] == roles.k_in.tolist()
    assert found["kOut"] == roles.k_out.tolist()
    near(found["rho"], roles.rho)
    near(found["omega"], roles.omega)
    near_angles(found["phi"], roles.phi)
    near_angles(found["psi"], roles.psi)
    assert found["clusters"] == [[one.k, one.neurons.tolist()] for one in anatomy.clusters]
    assert tuple(found["keys"]) == anatomy.key_frequencies
    for rule, cluster in zip(found["rules"], anatomy.clusters, strict=True):
        compare_rule(rule, cluster)
    if NONLINEARITIES[collapsed.activation].odd_slope is None:
        return  # Python has no closed form where the odd part is not linear.
    shifts = {one.k: one.common_shift for one in anatomy.clusters}
    of_keys = tuple(shifts[k] for k in anatomy.key_frequencies)
    form = closed_forms(logit_parts(collapsed, anatomy.key_frequencies, of_keys)).by_parts
    near(found["C"], form.C)
    near(found["D"], form.D)
    near(min(found["margins"]), form.min_margin)


def compare_rule(found: dict[str, Any], cluster: Cluster) -> None:
    rule = scheme_of(cluster)
    if isinstance(rule, NoBound):
        assert found["claims"] is None
        return
    claims, angle = found["claims"], bound_angle(rule).value
    near(found["w"], rule.w)
    near_angles(found["phi"], rule.phi)
    near_angles(found["psi"], rule.psi)
    near(claims["angle"], angle)
    near(
        [claims["absFull"], claims["absHalf"]],
        [bound_abs_full(rule).value, bound_abs_half(rule).value],
    )
    near(
        [claims["reluFull"], claims["reluHalf"]],
        [bound_relu_full(rule).value, bound_relu_half(rule).value],
    )
    for name, errors in (
        ("exact", exact_errors(rule)),
        ("exactPsi", exact_errors(rule, with_psi=True)),
    ):
        values = [errors.absolute.middle, errors.identity.middle, errors.relu.middle]
        near([claims[name][part] for part in ("abs", "identity", "relu")], values)
    near(claims["baseline"], cos_baseline(rule).middle)
    # What is read as a bound is one: not below the proved bound, nor below the error it bounds.
    psi = exact_errors(rule, with_psi=True)
    for read, bound, exact in zip(
        map(Decimal, found["total"]),
        (bound_abs_full(rule) + bound_angle(rule), bound_relu_full(rule) + bound_angle(rule)),
        (psi.absolute, psi.relu),
        strict=True,
    ):
        assert Decimal(exact.upper) <= read
        assert Decimal(bound.value) <= read
        # Three digits are kept.
        assert float(read) <= bound.value * 1.011 + 1e-9


def test_engine_agrees_with_python_on_400_random_models_of_every_kind(
    visit: Any,  # noqa: F811
) -> None:
    models = []
    for number in range(400):
        rng = np.random.default_rng([21, number])
        scale = float(rng.choice([0.1, 1.0, 2.0]))
        models.append(any_model(rng, usual_weights(scale)))
    assert {type(model) for model in models} == {Weights, Weights}
    assert {model.config.activation for model in models} == set(ACTIVATIONS)
    assert {model.config.p for model in models} >= set(range(2, 16))
    assert {model.config.task.cyclic is None for model in models} == {True, False}
    assert {bool(model.collapse().gated) for model in models} == {True, False}
    page = visit("small")
    for start in range(0, len(models), 20):
        some = models[start : start + 20]
        files = [base64.b64encode(to_bytes(model)).decode() for model in some]
        for at, (found, model) in enumerate(
            zip(page.page.evaluate(COMPUTE, files), some, strict=True)
        ):
            try:
                compare(found, model)
            except AssertionError as error:
                raise AssertionError(f"model {start + at}, {model!r}: {error}") from None


# F_0, F_1, F_2 of every cluster of the plane, shares of products, logits of one input; attention at
# t.
BLEND = """(t) => {
  const engine = Q.app.engine(), { p } = engine.model;
  engine.sync({ ...Q.state.defaults(engine.info), attention: t });
  engine.work(Infinity);
  const found = engine.keysOfPlane().map((one) => ({ ...Q.lens.at(one, t), k: one.k,
    neurons: one.neurons }));
  return {
    logits: [...engine.logits.subarray(7 * p, 8 * p)],
    clusters: found.map(({ k, neurons, F, shares }) => (
      { k, neurons, product: shares.product, F: F.map((x) => [[...x.re], [...x.im]]) })),
  };
}"""


@pytest.mark.parametrize("name", ["clock", "multiply"])
def test_attention_between_constant_and_softmax_equals_pythons(
    visit: Any,  # noqa: F811
    tmp_path: Path,
    name: str,
) -> None:
    """Waves of the blend are the blend of waves: against the plane spectrum of the blended
    pre-activations.
    """
    model = load("clock") if name == "clock" else softmax_times()
    layer = model.collapse()
    assert layer.gated
    mean, inputs = layer.with_mean_gates(), inputs_of(layer)
    flat = inputs_of(mean)
    own = find_plane_clusters(plane_spectrum(inputs.pre, inputs.W_L))
    page = visit("small")
    opened_in(page, model, tmp_path / "model.safetensors")
    for t in (1.0, 0.35, 0.0):
        found = page.page.evaluate(BLEND, t)
        spectrum = plane_spectrum((1 - t) * flat.pre + t * inputs.pre, inputs.W_L)
        assert [one["k"] for one in found["clusters"]] == [one.k for one in own]
        for mine, its in zip(own, found["clusters"], strict=True):
            assert its["neurons"] == mine.neurons.tolist()
            cluster = cluster_of(spectrum, mine.k, mine.neurons, MAX_DEGREE)
            F = np.array(its["F"])
            np.testing.assert_allclose(
                F[:, 0] + 1j * F[:, 1], shared_function(cluster).F[:3], atol=TOLERANCE
            )
            assert its["product"] == pytest.approx(cluster.fourier["product_waves"], abs=TOLERANCE)
        # Input (0, 7), elements numbered as in the file.
        pre = (1 - t) * mean.pre(0)[7] + t * layer.pre(0)[7]
        skip = (1 - t) * mean.skip(0)[7] + t * layer.skip(0)[7]
        near(found["logits"], apply_activation(layer.activation, pre) @ layer.W_L.T + skip)


def softmax_times() -> Weights:
    """The weights of `clock` on 58 elements, asked for products: another order of the elements, and
    an even n.
    """
    model = load("clock")
    assert isinstance(model, Weights)
    config = dataclasses.replace(model.config, task=task_by_name("multiply", 58), p=58)
    return Weights(config, **model.tensors)


def test_bounds_are_written_rounded_up_and_lower_bounds_down(visit: Any) -> None:  # noqa: F811
    rng = np.random.default_rng(6)
    values = [
        *(10.0 ** rng.uniform(-12, 8, 2000)).tolist(),
        0.1,
        0.26341,
        0.9995,
        9.995,
        99.95,
        999.4,
        999.6,
        1e-4,
        1234.5,
    ]
    page = visit("small")
    written = page.page.evaluate(
        "(all) => all.map((x) => ['atMost', 'atLeast', 'short'].map((how) => Q.numbers[how](x)))",
        values,
    )
    for value, (up, down, near_by) in zip(values, written, strict=True):
        assert Decimal(down) <= Decimal(value) <= Decimal(up) or float(up) == value
        assert float(near_by) in (float(up), float(down))
        # Neighbours: three digits, two below 1e-4, whole numbers from 1,000 on.
        assert float(up) - float(down) <= max(
            (0.12 if value < 1.1e-4 else 0.0101) * value, 1.0 if value > 999 else 0.0
        )
