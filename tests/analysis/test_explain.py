"""`explain` as a whole: views of one value, hard cases as results, and the command."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import quadlens
from quadlens.analysis.explanation import Explanation, explain
from quadlens.analysis.explanation.frame import write_neurons
from quadlens.base.errors import BadConfig
from quadlens.base.numbers import neglected
from quadlens.network import Config, Recipe, Weights, build_mlp, build_transformer, save
from strategies import mlps, seeds, transformers

# JSON keys of `explain` that others rely on.
KEYS = {
    "p",
    "d_mlp",
    "key_frequencies",
    "clusters",
    "neurons_matching",
    "neurons_constant",
    "secondary_is_double",
    "secondary_phase_r2",
    "residual_variance_share",
    "r2",
    "coefficients",
    "good_model",
}
CLUSTER_KEYS = {
    "k",
    "neurons",
    "r2_angles",
    "interval_width_mean",
    "interval_width_std",
    "variance_input_median",
    "variance_output_median",
}


def text_of(explanation: Explanation) -> str:
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    explanation.render(console)
    console.file.close()
    return console.export_text()


def check_views(explanation: Explanation) -> dict:  # type: ignore[type-arg]
    """Every view exists and agrees with the value."""
    view = json.loads(json.dumps(explanation.to_dict(), allow_nan=False))
    assert set(view) >= KEYS
    assert all(set(cluster) >= CLUSTER_KEYS for cluster in view["clusters"])
    assert (
        view["neurons_matching"] + view["neurons_mismatching"] + view["neurons_constant"]
        == view["d_mlp"]
    )
    frame = explanation.neuron_frame()
    assert frame.height == explanation.d_mlp
    assert frame["cluster"].drop_nulls().len() == sum(
        cluster["neurons"] for cluster in view["clusters"]
    )
    for cluster in view["clusters"]:
        weights = frame.filter(pl.col("cluster") == cluster["k"])["w"]
        assert weights.sum() == pytest.approx(2 * np.pi)
    assert view["summary"] in re.sub(r"\s+", " ", text_of(explanation))
    return view


@given(st.one_of(transformers(), mlps()))
def test_any_model_has_an_explanation(model: Weights) -> None:
    """Untrained models of every shape, p from 3 on and not always prime."""
    view = check_views(explain(model))
    assert view["correct"] <= view["p"] ** 2
    assert set(view["coefficients"]) == {str(k) for k in view["key_frequencies"]}


@st.composite
def hard_models(draw: st.DrawFn) -> tuple[Weights, Recipe]:
    """Hand-built models, then broken: dead neurons, shuffled outputs, constants added, everything
    zero."""
    p = draw(st.sampled_from([3, 5, 9, 15, 21, 23]))
    half = (p - 1) // 2
    keys = tuple(sorted(draw(st.sets(st.integers(1, half), min_size=1, max_size=3))))
    recipe = Recipe(
        p, keys, draw(st.integers(len(keys), 40)), noise=draw(st.sampled_from([0.0, 0.05, 1.0]))
    )
    model, rng = build_mlp(recipe), np.random.default_rng(draw(seeds))
    W_a, W_b, W_out = (array.copy() for array in model.tensors.values())
    dead = rng.random(W_a.shape[1]) < draw(st.sampled_from([0.0, 0.3, 1.0]))
    W_a[:, dead] = W_b[:, dead] = 0.0
    if draw(st.booleans()):
        W_out = W_out[rng.permutation(len(W_out))]
    W_b += draw(st.sampled_from([0.0, 0.1, 50.0]))
    if draw(st.booleans()):
        W_out[rng.random(len(W_out)) < 0.3] = 0.0
    return Weights.mlp(model.config, W_a, W_b, W_out), recipe


@given(hard_models())
def test_hard_cases_are_results(case: tuple[Weights, Recipe]) -> None:
    check_views(explain(case[0]))


def test_all_weights_zero() -> None:
    config = Config.mlp(7, 4)
    model = Weights(config, **{name: np.zeros(shape) for name, shape in config.shapes.items()})
    view = check_views(explain(model))
    assert view["key_frequencies"] == []
    assert view["neurons_dead"] == 4
    assert view["good_model"] is False
    assert view["r2"]["all_logits"]["pizza"] is None
    assert "with no frequencies" in view["summary"] or "it has no frequencies" in view["summary"]
    assert "The logits do not vary at all." in view["summary"]


@pytest.mark.slow
@pytest.mark.parametrize("build", [build_transformer, build_mlp])
@pytest.mark.parametrize(
    ("p", "keys", "neurons"), [(59, (2, 10, 11, 27), 512), (113, (5,), 64), (15, (1, 4), 58)]
)
def test_a_hand_built_model_is_explained_exactly(
    build: Any, p: int, keys: tuple[int, ...], neurons: int
) -> None:
    explanation = explain(build(Recipe(p, keys, neurons)))
    view = check_views(explanation)
    assert view["key_frequencies"] == list(keys)
    assert view["neurons_matching"] == neurons
    assert view["good_model"]
    assert explanation.clear_clusters
    assert view["secondary_is_double"] is None
    for cluster in view["clusters"]:
        assert cluster["r2_angles"] == pytest.approx(1, abs=1e-6)
        assert cluster["interval_width_mean"] == pytest.approx(2 * np.pi * len(keys) / neurons)
        assert cluster["interval_width_std"] < 1e-6
        assert cluster["variance_input_median"] == pytest.approx(1, abs=1e-6)
        assert cluster["variance_output_median"] == pytest.approx(1, abs=1e-6)
    assert view["r2"]["all_logits"]["pizza"] == pytest.approx(1, abs=1e-3)
    for k in keys:
        assert view["coefficients"][str(k)]["C"] == pytest.approx(10, rel=1e-2)
        assert view["coefficients"][str(k)]["D"] == pytest.approx(0, abs=1e-2)
    assert view["residual_variance_share"] < 1e-6
    assert f"{neurons} of {neurons} neurons read and write the same frequency" in view["summary"]
    listed = ", ".join(map(str, keys))
    assert f": {listed}." in view["summary"]


def test_a_key_that_is_another_s_double_is_said() -> None:
    explanation = explain(build_mlp(Recipe(23, (3, 6), 60)))
    assert explanation.doubled_keys == ((3, 6),)
    assert "One key frequency is another's double modulo 23: 6 of 3." in explanation.summary()
    assert explain(build_mlp(Recipe(9, (3,), 20))).doubled_keys == ()


def test_an_untrained_model_has_no_clear_clusters_and_says_so() -> None:
    config, rng = Config.paper(), np.random.default_rng(0)
    weights = {
        name: (0.8 / np.sqrt(128) * rng.standard_normal(shape)).astype(np.float32)
        for name, shape in config.shapes.items()
        if name.startswith("W_")
    }
    explanation = explain(Weights.with_zero_biases(config, **weights))
    assert not explanation.clear_clusters
    assert "There are no clear clusters" in explanation.summary()
    assert re.search(
        r"\d+ of 512 neurons read and write the same frequency, \d+ read one", explanation.summary()
    )
    check_views(explanation)


def test_without_logits_the_keys_stay_and_are_null() -> None:
    explanation = explain(build_mlp(Recipe(23, (3,), 20)), logits=False)
    view = check_views(explanation)
    assert view["r2"] is None
    assert view["coefficients"] is None
    assert "works modulo 23" in view["summary"]


@pytest.mark.slow
def test_a_modulus_too_large_for_all_logits_is_refused_with_the_remedy() -> None:
    model = build_mlp(Recipe(10007, (3,), 20))
    with pytest.raises(BadConfig, match=r"all 10007³ logits .* with logits=False"):
        explain(model)
    assert explain(model, logits=False).key_frequencies == (3,)


def test_explain_is_public() -> None:
    explanation = quadlens.explain(build_mlp(Recipe(11, (2,), 10)))
    assert isinstance(explanation, quadlens.Explanation)


def test_the_sample_of_gradients_is_repeatable() -> None:
    model = build_mlp(Recipe(59, (3,), 30, noise=0.5))

    def measure(seed: int) -> float | None:
        logits = explain(model, rng=np.random.default_rng(seed)).logits
        return logits.algorithm.gradient_symmetricity if logits else None

    assert measure(1) == measure(1)
    assert measure(1) != measure(2)


def test_frame_has_the_notation_of_the_paper() -> None:
    explanation = explain(build_transformer(Recipe(23, (3, 5), 30, noise=0.02)))
    frame = explanation.neuron_frame()
    assert {
        "neuron",
        "role",
        "cluster",
        "k_in",
        "k_out",
        "rho",
        "phi",
        "omega",
        "psi",
        "w",
        "secondary",
    } <= set(frame.columns)
    assert frame["phi"].to_list() == explanation.roles.phi.tolist()
    assert explanation.attended is not None
    assert (
        frame["ov_b_amplitude"].to_list()
        == explanation.attended.path_b.at(explanation.roles.k_in)[0].tolist()
    )
    bare = explain(build_mlp(Recipe(3, (1,), 8))).neuron_frame()
    assert bare.columns == frame.columns
    assert bare["secondary"].null_count() == 8
    assert bare["ov_a_phase"].null_count() == 8


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_neurons_are_written_as_a_table(tmp_path: Path, suffix: str) -> None:
    explanation, path = explain(build_mlp(Recipe(23, (3, 5), 30))), tmp_path / f"neurons{suffix}"
    write_neurons(explanation, path)
    read = pl.read_csv(path) if suffix == ".csv" else pl.read_parquet(path)
    assert read["k_in"].to_list() == explanation.neuron_frame()["k_in"].to_list()
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "quadlens", *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    model, table = tmp_path / "pizza.safetensors", tmp_path / "neurons.csv"
    save(build_transformer(Recipe(23, (3, 5), 40)), model)
    shown = run("explain", str(model))
    assert shown.returncode == 0
    assert "This model adds modulo 23 with two frequencies: 3, 5." in re.sub(
        r"\s+", " ", shown.stdout
    )
    assert shown.stderr == ""
    as_json = run("explain", str(model), "--json", "--neurons", str(table))
    assert as_json.returncode == 0
    assert set(json.loads(as_json.stdout)) >= KEYS
    assert f"wrote {table}: 40 neurons" in as_json.stderr
    assert table.exists()
    bad = run("explain", str(model), "--neurons", str(tmp_path / "neurons.xls"), "--quiet")
    assert bad.returncode == 2
    assert "give a name that ends in .csv or .parquet" in bad.stderr
    assert run("explain", "nowhere.safetensors").returncode == 2
    help_text = run("explain", "--help").stdout
    assert all(
        option in help_text for option in ("--json", "--quiet", "--debug", "--neurons", "Example:")
    )


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0, "0.0 %"),
        (1e-9, "less than 0.1 %"),
        (0.0059, "0.6 %"),
        (0.9999, "99.9 %"),
        (1.0, "100.0 %"),
    ],
)
def test_a_neglected_share_is_not_rounded_down(share: float, words: str) -> None:
    assert neglected(share) == words
