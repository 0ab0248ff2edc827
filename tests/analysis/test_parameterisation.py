"""A trained network written with few numbers answers as it does, and is a network for every
verb."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import quadlens
from cli_runner import quadlens as command
from ladder import formula
from noise_terms import all_logits, expand, terms_of
from places import ROOT
from quadlens.analysis.parameterisation.groups import fit_groups, logit_r2
from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.base.errors import BadConfig
from quadlens.network import Config, Recipe, Weights, build_mlp
from quadlens.network.evaluate import evaluate

# Numbers without planes and groups; margin and R² of the formula; margin (at least) and R² of the
# network, which has the skip too.
PIZZA = {
    (False, False, False): (1539, 3.13, 0.794),
    (True, False, False): (1542, 1.26, 0.768),
    (False, True, False): (1542, 9.52, 0.968),
    (True, True, False): (1545, 14.33, 0.994),
    (True, True, True): (1554, 13.49, 0.995),
}


@pytest.mark.parametrize("options", PIZZA)
def test_each_ingredient_adds_what_it_adds(options: tuple[bool, bool, bool]) -> None:
    anatomy = Anatomy(quadlens.load("pizza"))
    small = quadlens.parameterise(
        anatomy, **dict(zip(("constant", "double", "embedding"), options, strict=True))
    )
    numbers, margin, r2 = PIZZA[options]
    assert small.numbers.total - small.numbers.planes - small.numbers.groups == numbers
    layer = formula(anatomy.collapsed, small.groups)
    found = evaluate(layer)
    assert found.correct == found.pairs
    assert margin <= found.min_margin < margin + 0.01
    assert r2 <= logit_r2(layer, anatomy.collapsed) < r2 + 0.001


@pytest.mark.parametrize(
    ("name", "r2"), [("pizza", 0.996), ("original", 0.99), ("mismatched", 0.99), ("times", 0.98)]
)
def test_the_network_of_few_numbers_answers_every_input(name: str, r2: float) -> None:
    network = quadlens.study(name)
    small = quadlens.parameterise(network)
    assert quadlens.evaluate(small).correct == network.evaluation.pairs
    assert logit_r2(small.model.collapse(), network.anatomy.layer) >= r2
    assert 20 * small.numbers.total < 1.2 * small.weights


def test_nothing_but_the_numbers_is_in_the_file() -> None:
    """Matrices have the rank that the planes give them, and the tables are those of the formula."""
    anatomy = Anatomy(quadlens.load("pizza"))
    small = quadlens.parameterise(anatomy)
    model, lines, waves = small.model, 2, 12
    ranks = {
        name: np.linalg.matrix_rank(model.tensors[name], tol=1e-4)
        for name in ("W_E", "W_in", "W_out", "W_U")
    }
    assert ranks == {"W_E": waves, "W_in": waves + 1, "W_out": waves // 2, "W_U": waves // 2}
    assert np.linalg.matrix_rank(np.concatenate(list(model.W_O)), tol=1e-3) == waves + lines
    assert not any(np.any(x) for name, x in model.tensors.items() if name.startswith("b_"))
    assert small.numbers.planes == 128 * (3 * (waves + lines) + waves // 2)
    # W_in leaves weak directions alone, so that waves are those of the formula up to a few per
    # cent.
    ours, theory = model.collapse(), formula(anatomy.collapsed, small.groups)
    order = np.concatenate([group.cluster.neurons for group in small.groups])
    for name, near in (("U_a", 0.05), ("U_b", 0.05), ("W_L", 1e-5)):
        found, said = getattr(ours, name)[:, order], getattr(theory, name)
        if name != "W_L":
            found, said = found - found.mean(axis=0), said - said.mean(axis=0)
        assert np.linalg.norm(found - said) <= near * np.linalg.norm(said), name


def test_a_network_by_hand_is_found_again() -> None:
    """Where there is nothing but waves, few numbers are all of it: frequencies, phases and
    logits."""
    model = quadlens.build(p=13, keys=(2, 5), neurons=60, jitter=0.1)
    small = quadlens.parameterise(model)
    assert [group.cluster.k for group in small.groups] == [2, 5]
    assert logit_r2(small.model.collapse(), model.collapse()) >= 1 - 1e-9


def test_evenly_spread_nodes_are_the_lens_integral() -> None:
    study = quadlens.study("pizza")
    even = formula(
        study.anatomy.collapsed, [group.evenly(512) for group in fit_groups(study.anatomy)]
    )
    parts = study.lens.parts
    logits = np.stack([even.logits(a) for a in range(even.p)])
    integral = parts.values(parts.shared)
    left = logits - logits.mean(axis=2, keepdims=True) - integral
    assert np.square(left).sum() <= 1e-3 * np.square(integral).sum()
    assert evaluate(even).correct == 3481


def test_two_vocabularies_and_absolute_values() -> None:
    pizza, p = quadlens.load("pizza"), 59
    # Tokens of b are those of a turned by 7: one more answer is right after a turn of c, so that
    # shifts are found.
    W_E = np.concatenate([pizza.W_E[:p], np.roll(pizza.W_E[:p], 7, axis=0)])
    W_U = np.roll(pizza.W_U, 7, axis=1)
    config = replace(pizza.config, d_vocab=2 * p, b_token_offset=p)
    two = Weights(config, **{**pizza.tensors, "W_E": W_E, "W_U": W_U})
    assert quadlens.evaluate(two).correct == p * p
    small = quadlens.parameterise(two)
    assert quadlens.evaluate(small).correct == p * p
    assert logit_r2(small.model.collapse(), two.collapse()) >= 0.99
    assert any(group.shared.shift for group in small.groups)
    even = quadlens.edit.swap_activation(pizza, "abs")
    small = quadlens.parameterise(even)
    assert small.model.config.activation == "abs"
    assert logit_r2(small.model.collapse(), even.collapse()) >= 0.98


@pytest.mark.slow
def test_every_verb_takes_it(tmp_path: Path) -> None:
    small = quadlens.parameterise("pizza")
    assert quadlens.study(small).anatomy.key_frequencies == (5, 9, 11)
    assert quadlens.explain(small).to_dict()
    certificate = quadlens.certify(small)
    assert certificate.verdict == "CERTIFIED"
    assert quadlens.check(certificate, small).verdict == "VERIFIED"
    assert quadlens.lens(small).integrates
    quadlens.bounds(small)
    quadlens.export_file(small, "transformer-lens", tmp_path / "model.safetensors")
    assert (
        quadlens.import_file(tmp_path / "model.safetensors", attention=(0.5, 0.5)).correct == 3481
    )
    quadlens.explore(small, tmp_path / "explorer.html", history=False)
    assert quadlens.compare("pizza", small).to_dict()["answers_alike"] == 1.0


def test_the_command_says_how_many_numbers(tmp_path: Path) -> None:
    done = command("build", "--from", "pizza", "-o", tmp_path / "few.safetensors")
    assert done.code == 0
    assert (
        "8,210 numbers in place of 180,411 weights (frequencies 3, groups 512, neurons 1,536, "
        "shared 15" in done.out
    )
    assert "3,481 of 3,481 right" in done.out
    assert quadlens.evaluate(tmp_path / "few.safetensors").correct == 3481


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("--from", "pizza", "--p", "13"),
            "--p is for models by hand and --from for fitted ones; give one or the",
        ),
        (
            ("--from", "pizza", "--p", "59"),
            "--p is for models by hand and --from for fitted ones; give one or the",
        ),
        (
            ("--from", "pizza", "--seed=0"),
            "--seed is for models by hand and --from for fitted ones; give one or the",
        ),
        (
            ("--constant",),
            "--constant is for a network fitted to a trained one; name that with --from MODEL",
        ),
        (
            ("--from", "pizza", "--p", "13", "--keys", "5,9"),
            "--p, --keys are for models by hand and --from for fitted",
        ),
        (
            ("--no-double",),
            "--no-double is for a network fitted to a trained one; name that with --from MODEL",
        ),
        (
            ("--no-double", "--no-constant"),
            "--no-constant, --no-double are for a network fitted to a trained one;",
        ),
    ],
)
def test_options_of_a_model_by_hand_are_no_fitted_ones(
    words: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    refused = command("build", *words, "-o", tmp_path / "few.safetensors")
    assert told in refused.err
    assert (refused.code, list(tmp_path.iterdir())) == (2, [])


@pytest.mark.parametrize("activation", ["relu", "abs", "gelu"])
@pytest.mark.parametrize("equals", [False, True])
def test_the_terms_add_up_to_the_difference(activation: str, equals: bool) -> None:
    """Of any two networks of one shape: nothing is neglected, with biases, positions and '='."""
    rng = np.random.default_rng(3)
    paper = Config.paper(5, 6, 7, 2, 3, equals)
    config = replace(paper, activation=activation)  # type: ignore[arg-type]
    network, simple = (
        Weights(
            config, **{name: rng.standard_normal(shape) for name, shape in config.shapes.items()}
        )
        for _ in range(2)
    )
    difference = all_logits(network.collapse()) - all_logits(simple.collapse())
    total = sum(values for _, _, values in terms_of(network, simple))
    assert np.abs(total - difference).max() <= 1e-11 * np.abs(difference).max()
    expansion = expand(network, simple)
    assert sum(term.share for term in expansion.terms) == pytest.approx(1, abs=1e-9)
    assert expansion.worst <= sum(term.worst for term in expansion.terms) * (1 + 1e-9)


@pytest.mark.slow
def test_terms_are_what_they_are_called() -> None:
    """Three of them multiplied out by hand, one head after the other."""
    network = quadlens.load("pizza")
    simple = quadlens.parameterise(network).model
    terms = {(part, noise): values for part, noise, values in terms_of(network, simple)}
    N = {
        name: network.tensors[name].astype(float) - simple.tensors[name] for name in network.tensors
    }
    layer, few = simple.collapse(), {name: x.astype(float) for name, x in simple.tensors.items()}
    pre = layer.U_a[:, None] + layer.U_b
    out = pre @ N["W_out"] @ few["W_U"] / 2
    assert np.abs(terms["identity", ("out",)] - out).max() <= 1e-9
    x = N["W_E"][:59]
    a, b = (
        sum((x + N["W_pos"][t]) @ V @ O_ for V, O_ in zip(N["W_V"], N["W_O"], strict=True)) / 2
        for t in (0, 1)
    )
    skip = (a @ N["W_U"])[:, None] + b @ N["W_U"]
    assert np.abs(terms["skip", ("E", "V", "O", "U")] - skip).max() <= 1e-9
    noisy = simple.replace(W_E=network.W_E, W_pos=network.W_pos).collapse()
    later = (np.abs(noisy.U_a[:, None] + noisy.U_b) - np.abs(pre)) @ layer.W_L.T / 2
    assert np.abs(terms["absolute value", ("E",)] - later).max() <= 1e-9
    assert len(terms) == 2 * (16 * 4 - 1) + 31


@pytest.mark.slow
def test_what_is_left_out_of_pizza_is_small() -> None:
    """Worst cases of all 157 terms, added up, beside the margin: the page's numbers."""
    network = quadlens.load("pizza")
    found = expand(network, quadlens.parameterise(network).model)
    assert found.terms[0].noise == ("out",)
    assert 4.63 < found.terms[0].worst < 4.64
    assert 7.8 < found.worst < 7.81
    assert 17.6 < sum(term.worst for term in found.terms) < 17.7
    with pytest.raises(BadConfig, match="one config"):
        expand(network, quadlens.build(p=13, neurons=60))


@pytest.mark.slow
def test_the_pages_ladder_is_what_the_tool_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    root = ROOT
    monkeypatch.syspath_prepend(root / "experiments")
    appendix_tables = import_module("appendix_tables")
    row = appendix_tables.row_of("pizza", quadlens.load("pizza"))
    page = (root / "docs" / "appendix.md").read_text(encoding="utf-8")
    for rung in row.rungs:
        assert f"| {rung.name} | {rung.numbers:,} | {rung.cell} |" in page
    assert row.rungs[-1].numbers == 180_411
    assert appendix_tables.largest([row]).to_markdown() in page


def test_what_has_no_planes_is_refused() -> None:
    with pytest.raises(BadConfig, match="no residual stream"):
        quadlens.parameterise(build_mlp(Recipe(13, (2, 5), 60)))
    with pytest.raises(BadConfig, match="not a part of a plus a part of b"):
        quadlens.parameterise("clock")
    config = Config.paper(5, 6, 7, 2, 3)
    with pytest.raises(BadConfig, match="no neuron reads and writes one frequency"):
        quadlens.parameterise(Weights(config, **{n: np.zeros(s) for n, s in config.shapes.items()}))


@pytest.mark.parametrize("scale", [1e30, 1e-30])
def test_weights_of_any_size(scale: float) -> None:
    """Numbers are stored as the network's are, and shares are finite."""
    rng, config = np.random.default_rng(0), Config.paper(5, 6, 7, 2, 3)
    network = Weights(
        config, **{n: scale * rng.standard_normal(s) for n, s in config.shapes.items()}
    )
    small = quadlens.parameterise(network)
    assert small.model.W_E.dtype == np.float64
    assert np.any(small.model.W_in)
    assert np.isfinite(logit_r2(small.model.collapse(), network.collapse()))
    assert sum(term.share for term in expand(network, small.model).terms) == pytest.approx(
        1, abs=1e-6
    )
