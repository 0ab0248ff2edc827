"""The short explanation of models that `explain` cannot speak of, against explicit sums and known
models."""

import dataclasses
import json
import os
import pydoc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import quadlens
from cli_runner import quadlens as run
from examples import examples
from network.test_token_tables import softmax_transformers
from quadlens.analysis.explanation import Explanation, needs_outline, outline
from quadlens.analysis.explanation.overview import additive_part
from quadlens.analysis.spectrum.irreps import find_irreps
from quadlens.base.errors import BadConfig
from quadlens.network import Config, Weights, evaluate, save
from quadlens.network.evaluate import all_pairs, attention_ranges
from quadlens.network.task import Task, task_by_name, task_from_table

pytestmark = pytest.mark.slow


@examples(25)
@given(softmax_transformers(np.float64))
def test_the_additive_part_by_least_squares(model: Weights) -> None:
    n, layer = model.config.p, model.collapse()
    part, share = additive_part(layer)
    pairs = all_pairs(n)
    design = np.concatenate([np.eye(n)[pairs[:, 0]], np.eye(n)[pairs[:, 1]]], axis=1)
    pre = np.concatenate([layer.pre(a) for a in range(n)])
    beta, *_ = np.linalg.lstsq(design, pre, rcond=None)
    fitted = design @ beta
    size = 1 + np.abs(pre).max()
    assert np.allclose(part.U_a[pairs[:, 0]] + part.U_b[pairs[:, 1]], fitted, atol=1e-9 * size)
    total = np.square(pre - pre.mean(axis=0)).sum()
    if total > 1e-9 * size:
        assert share == pytest.approx(1 - np.square(pre - fitted).sum() / total, abs=1e-9)


@examples(25)
@given(softmax_transformers())
def test_attention_ranges_by_looking_at_all_inputs(model: Weights) -> None:
    layer, config = model.collapse(), model.config
    pairs = all_pairs(config.p)
    gates = layer.gates(pairs[:, 0], pairs[:, 1])
    for one in attention_ranges(model, layer):
        weights = config.attention[one.position] + gates[one.position, one.head]
        assert [one.low, one.high] == pytest.approx([weights.min(), weights.max()])


def one_irrep(name: str, which: str, neurons: int = 60) -> Weights:
    """Random weights, but W_L projected onto one irrep."""
    task = task_by_name(name)
    rng = np.random.default_rng(0)
    irreps = find_irreps(task)
    (part,) = (part for part in irreps.parts if part.name == which)
    W_L = irreps.projection(part) @ rng.standard_normal((task.n, neurons))
    W_a, W_b = rng.standard_normal((2, task.n, neurons))
    return Weights.mlp(
        Config.mlp(task.n, neurons, "relu", task), W_a, W_b, np.ascontiguousarray(W_L.T)
    )


@pytest.mark.parametrize(
    ("name", "which", "rank"), [("S4", "standard", 9), ("A5", "3d-b", 9), ("D7", "frequency 2", 4)]
)
def test_a_group_has_its_key_irrep(name: str, which: str, rank: int) -> None:
    model = one_irrep(name, which)
    assert needs_outline(model)
    found = quadlens.explain(model)
    assert isinstance(found, Explanation)
    assert found.key_frequencies is None
    assert [one.irrep.name for one in found.key_irreps] == [which]
    assert found.key_irreps[0].share_W_L == pytest.approx(1.0)
    assert found.key_irreps[0].share_logits == pytest.approx(1.0)
    assert found.irreps is not None
    assert sum(one.share_embedding for one in found.irreps) == pytest.approx(1.0)
    assert found.rank == rank
    assert found.evaluation == evaluate(model.collapse())
    assert "no frequencies" in found.summary()
    assert len(repr(found)) < 200


def random_table() -> Task:
    return task_from_table(np.random.default_rng(1).integers(0, 7, (7, 7)))


def test_a_table_that_is_no_group_gets_what_needs_none() -> None:
    config = Config.mlp(7, 5, "relu", random_table())
    rng = np.random.default_rng(0)
    found = outline(
        Weights(config, **{n: rng.standard_normal(s) for n, s in config.shapes.items()})
    )
    assert found.irreps is None
    assert found.to_dict()["key_irreps"] is None
    assert "not a group's" in found.summary()
    assert found.rank <= 5


def test_the_command(tmp_path: Path) -> None:
    save(one_irrep("S3", "standard", 12), tmp_path / "s3.safetensors")
    shown = run("explain", str(tmp_path / "s3.safetensors"))
    assert shown.code == 0
    assert "Key irreps" in shown.out
    value = json.loads(run("explain", str(tmp_path / "s3.safetensors"), "--json").out)
    assert (value["n"], value["p"], value["task"]["name"], value["key_frequencies"]) == (
        6,
        6,
        "S3",
        None,
    )
    assert [one["name"] for one in value["key_irreps"]] == ["standard"]
    refused = run("explain", str(tmp_path / "s3.safetensors"), "--neurons", str(tmp_path / "n.csv"))
    assert refused.code == 2
    ordinary = json.loads(run("explain", "pizza", "--json", "--no-logits").out)
    assert (ordinary["n"], ordinary["task"], ordinary["attention"]["kind"]) == (
        59,
        "add",
        "constant",
    )


@pytest.mark.parametrize(
    ("file", "keys"),
    [
        ("zhong/model_q9rsl94xlv.pt", (4, 12, 19, 21)),
        ("chughtai/C113_T_seed1/model.pt", (16, 30, 56)),
        ("chughtai/C118_T_seed2/model.pt", (8, 12, 27, 57)),
        ("chughtai/S5_T_seed1/model.pt", None),
    ],
)
def test_public_softmax_models(file: str, keys: tuple[int, ...] | None) -> None:
    directory = os.environ.get("QUADLENS_PEERS")
    if directory is None:
        pytest.skip("QUADLENS_PEERS names no directory of public checkpoints")
    from quadlens.readers import import_file

    found = outline(import_file(Path(directory) / file).model)
    assert found.key_frequencies == keys
    assert found.evaluation.correct == found.evaluation.pairs
    if keys is None:
        # Every head looks at one of a and b whatever they are, so that next to nothing is not a
        # sum.
        assert found.additive_share > 0.99999
        assert [one.irrep.name for one in found.key_irreps] == ["standard-sign", "sign"]
        assert found.rank == sum(one.irrep.rank for one in found.key_irreps) == 17


def test_a_weight_that_hardly_varies_is_not_said_to_go_from_a_number_to_the_same() -> None:
    found = quadlens.explain("clock")
    assert isinstance(found, quadlens.Explanation)
    assert found.overview is not None
    one = dataclasses.replace(found.attention_ranges[0], low=0.9966, high=0.9974)
    still = dataclasses.replace(
        found, overview=dataclasses.replace(found.overview, attention_ranges=(one,))
    )
    assert "stays at 0.997, varying by at most 0.0008" in still.summary()
    assert "from 0.997 to 0.997" not in still.summary()


def test_an_explanation_has_the_parts_of_its_network() -> None:
    full, short = quadlens.study("pizza").explanation, quadlens.study("clock").explanation
    assert full.neurons is not None
    assert full.roles is full.neurons.roles
    assert short.overview is not None
    assert short.evaluation is short.overview.evaluation
    assert (full.overview, short.neurons, short.logits) == (None, None, None)
    with pytest.raises(
        AttributeError, match=r"no part `neurons`, which `roles` is read from; only a network with"
    ):
        _ = short.roles
    with pytest.raises(
        AttributeError,
        match="no part `overview`, which `rank` is read from; only a network without",
    ):
        _ = full.rank
    assert not hasattr(full, "key_irreps")
    assert (full.key_neurons, short.key_neurons) == (
        full.neurons.key_neurons,
        short.overview.key_neurons,
    )
    assert short._repr_html_().count("<table>") == full._repr_html_().count("<table>") == 1


def test_help_has_what_the_parts_have() -> None:
    told = pydoc.plain(pydoc.render_doc(Explanation))
    _, _, values = told.partition("Data descriptors defined here:")
    assert "`neurons.roles`, where a network has this part; see `NeuronExplanation`." in values
    assert "`overview.rank`, where a network has this part; see `Overview`." in values


def test_a_table_of_neurons_needs_the_part_that_has_them() -> None:
    with pytest.raises(
        BadConfig,
        match=r"no part `neurons`, which a table of neurons .* says what is known of this",
    ):
        quadlens.study("clock").explanation.neuron_frame()
