"""A trained network written with few numbers answers as it does, and is a network for every verb."""

from pathlib import Path

import numpy as np
import pytest

import quadlens
from cli_runner import quadlens as command
from quadlens.errors import BadConfig
from quadlens.model import Config, Recipe, Weights, build_mlp
from quadlens.model.evaluate import evaluate
from quadlens.parameterisation.groups import fit_groups, formula, logit_r2
from quadlens.spectrum.anatomy import Anatomy

# Numbers without planes; margin and R² of the formula; margin (at least) and R² of the network, which has the skip too.
MAINLINE = {
    (False, False, False): (1539, 3.13, 0.794),
    (True, False, False): (1542, 1.26, 0.768),
    (True, True, False): (1545, 14.33, 0.994),
    (True, True, True): (1554, 13.49, 0.995),
}


@pytest.mark.parametrize("options", MAINLINE)
def test_each_ingredient_adds_what_it_adds(options: tuple[bool, bool, bool]) -> None:
    anatomy = Anatomy(quadlens.load("mainline"))
    small = quadlens.parameterise(anatomy, **dict(zip(("constant", "double", "embedding"), options, strict=True)))
    numbers, margin, r2 = MAINLINE[options]
    assert small.numbers.without_planes == numbers
    layer = formula(anatomy.collapsed, small.groups)
    found = evaluate(layer)
    assert found.correct == found.pairs
    assert margin <= found.min_margin < margin + 0.01
    assert r2 <= logit_r2(layer, anatomy.collapsed) < r2 + 0.001


@pytest.mark.parametrize(
    ("name", "r2"), [("mainline", 0.996), ("original", 0.99), ("mismatched", 0.99), ("times", 0.98)]
)
def test_the_network_of_few_numbers_answers_every_input(name: str, r2: float) -> None:
    network = quadlens.study(name)
    small = quadlens.parameterise(network)
    assert quadlens.evaluate(small).correct == network.evaluation.pairs
    assert logit_r2(small.model.collapse(), network.anatomy.layer) >= r2
    assert 20 * small.numbers.total < 1.2 * small.weights


def test_nothing_but_the_numbers_is_in_the_file() -> None:
    """Matrices have the rank that the planes give them, and the tables are those of the formula."""
    anatomy = Anatomy(quadlens.load("mainline"))
    small = quadlens.parameterise(anatomy)
    model, lines, waves = small.model, 2, 12
    ranks = {name: np.linalg.matrix_rank(model.tensors[name], tol=1e-4) for name in ("W_E", "W_in", "W_out", "W_U")}
    assert ranks == {"W_E": waves, "W_in": waves + 1, "W_out": waves // 2, "W_U": waves // 2}
    assert np.linalg.matrix_rank(np.concatenate(list(model.W_O)), tol=1e-3) == waves + lines
    assert not any(np.any(x) for name, x in model.tensors.items() if name.startswith("b_"))
    assert small.numbers.planes == 128 * (3 * (waves + lines) + waves // 2)
    # W_in leaves weak directions alone, so that waves are those of the formula up to a few per cent.
    ours, theory = model.collapse(), formula(anatomy.collapsed, small.groups)
    order = np.concatenate([group.cluster.neurons for group in small.groups])
    for name, near in (("U_a", 0.05), ("U_b", 0.05), ("W_L", 1e-5)):
        found, said = getattr(ours, name)[:, order], getattr(theory, name)
        if name != "W_L":
            found, said = found - found.mean(axis=0), said - said.mean(axis=0)
        assert np.linalg.norm(found - said) <= near * np.linalg.norm(said), name


def test_a_network_by_hand_is_found_again() -> None:
    """Where there is nothing but waves, few numbers are all of it: frequencies, phases and logits."""
    model = quadlens.build(p=13, keys=(2, 5), neurons=60, jitter=0.1)
    small = quadlens.parameterise(model)
    assert [group.cluster.k for group in small.groups] == [2, 5]
    assert logit_r2(small.model.collapse(), model.collapse()) >= 1 - 1e-9


def test_evenly_spread_nodes_are_the_lens_integral() -> None:
    study = quadlens.study("mainline")
    even = formula(study.anatomy.collapsed, [group.evenly(512) for group in fit_groups(study.anatomy)])
    parts = study.lens.parts
    logits = np.stack([even.logits(a) for a in range(even.p)])
    integral = parts.values(parts.shared)
    left = logits - logits.mean(axis=2, keepdims=True) - integral
    assert np.square(left).sum() <= 1e-3 * np.square(integral).sum()
    assert evaluate(even).correct == 3481


def test_two_vocabularies_and_absolute_values() -> None:
    mainline, p = quadlens.load("mainline"), 59
    # Tokens of b are those of a turned by 7: one more answer is right after a turn of c, so that shifts are found.
    W_E = np.concatenate([mainline.W_E[:p], np.roll(mainline.W_E[:p], 7, axis=0)])
    W_U = np.roll(mainline.W_U, 7, axis=1)
    fields = {name: getattr(mainline.config, name) for name in Config.__dataclass_fields__}
    config = Config(**{**fields, "d_vocab": 2 * p, "b_token_offset": p})
    two = Weights(config, **{**mainline.tensors, "W_E": W_E, "W_U": W_U})
    assert quadlens.evaluate(two).correct == p * p
    small = quadlens.parameterise(two)
    assert quadlens.evaluate(small).correct == p * p
    assert logit_r2(small.model.collapse(), two.collapse()) >= 0.99
    assert any(group.shared.shift for group in small.groups)
    even = quadlens.swap_activation(mainline, "abs")
    small = quadlens.parameterise(even)
    assert small.model.config.activation == "abs"
    assert logit_r2(small.model.collapse(), even.collapse()) >= 0.98


def test_every_verb_takes_it(tmp_path: Path) -> None:
    small = quadlens.parameterise("mainline")
    assert quadlens.study(small).anatomy.key_frequencies == (5, 9, 11)
    assert quadlens.explain(small).to_dict()
    certificate = quadlens.certify(small)
    assert certificate.verdict == "CERTIFIED"
    assert quadlens.check(certificate, small).verdict == "VERIFIED"
    assert quadlens.lens(small).integrates
    quadlens.bounds(small)
    quadlens.export_file(small, "transformer-lens", tmp_path / "model.pt")
    assert quadlens.import_file(tmp_path / "model.pt", attention=(0.5, 0.5)).correct == 3481
    quadlens.explore(small, tmp_path / "explorer.html", history=False)
    assert quadlens.compare("mainline", small).to_dict()["answers_alike"] == 1.0


def test_the_command_says_how_many_numbers(tmp_path: Path) -> None:
    done = command("parameterise", "mainline", "-o", tmp_path / "few.safetensors")
    assert done.code == 0
    assert "8,210 numbers in place of 180,411 weights (frequencies 3, groups 512, neurons 1,536, shared 15" in done.out
    assert "3,481 of 3,481 right" in done.out
    assert quadlens.evaluate(tmp_path / "few.safetensors").correct == 3481


def test_what_has_no_planes_is_refused() -> None:
    with pytest.raises(BadConfig, match="no residual stream"):
        quadlens.parameterise(build_mlp(Recipe(13, (2, 5), 60)))
    with pytest.raises(BadConfig, match="not a part of a plus a part of b"):
        quadlens.parameterise("clock")
