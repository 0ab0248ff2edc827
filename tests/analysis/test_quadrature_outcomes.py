"""What has no bound says why; tables, JSON and the command line say the same numbers."""

import dataclasses
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import quadlens
from quadlens.analysis.published import read_published
from quadlens.analysis.quadrature import (
    Exact,
    NoBound,
    Scheme,
    UpperBound,
    scheme_of,
    tables,
    text_table,
    to_json,
)
from quadlens.analysis.quadrature.analysis import cluster_bounds
from quadlens.analysis.quadrature.claims import Estimate
from quadlens.analysis.quadrature.paper_bounds import PaperRows
from quadlens.analysis.quadrature.scheme import NotAScheme
from quadlens.analysis.spectrum.cluster import Cluster
from quadlens.base.errors import BadConfig
from quadlens.cli.main import main
from quadlens.network import Recipe, build_mlp, save
from quadlens.network.config import Config
from quadlens.network.weights import Weights

pytestmark = pytest.mark.slow

RECIPE = Recipe(23, (3, 7), 48, jitter=0.02, noise=0.02)


def cluster(**changes: object) -> Cluster:
    phi = np.array([0.1, 1.2, -2.0])
    values = {
        "p": 11,
        "k": 2,
        "neurons": np.arange(3),
        "phi": phi,
        "psi": 2 * phi,
        "rho": np.ones(3),
    }
    return Cluster(**(values | {"omega": np.ones(3)} | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"phi": np.array([0.1, np.nan, 0.0])},
            "φ of neuron 1 of the cluster is nan, not a finite number",
        ),
        ({"psi": np.array([0.1, 0.0, np.inf])}, "ψ of neuron 2 of the cluster is inf"),
        ({"rho": np.array([np.inf, 1.0, 1.0])}, "ρ of neuron 0 of the cluster is inf"),
        (
            {"omega": np.array([1.0, -1.0, 1.0])},
            "amplitude ω of neuron 1 is -1.0; move the sign into its phase",
        ),
        ({"rho": np.zeros(3)}, "all weights ρω are zero"),
        (
            {"rho": np.array([1.0, 0, 0]), "omega": np.array([0, 1.0, 1.0])},
            "all weights ρω are zero",
        ),
        ({"p": 4}, "the sign wave (-1)^a has no phase but 0 and π"),
        ({"k": 6}, "k in 1 … "),
    ],
)
def test_no_bound_says_why(changes: dict[str, object], reason: str) -> None:
    outcome = cluster_bounds(cluster(**changes))
    assert isinstance(outcome, NoBound)
    assert reason in outcome.reason
    assert outcome.neurons == 3


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_neurons(count: int) -> None:
    few = {name: np.ones(count) for name in ("phi", "psi", "rho", "omega")}
    outcome = scheme_of(cluster(neurons=np.arange(count), **few))
    assert outcome == NoBound(
        2, count, f"a rule needs at least two neurons, this cluster has {count}"
    )


def test_a_scheme_checks_itself() -> None:
    with pytest.raises(NotAScheme, match="no quadrature rule at frequency 2: all weights"):
        Scheme(11, 2, np.zeros(2), np.zeros(2), np.zeros(2), np.ones(2))
    scheme = scheme_of(cluster())
    assert isinstance(scheme, Scheme)
    assert scheme.w.sum() == pytest.approx(2 * np.pi)
    with pytest.raises(ValueError, match="read-only"):
        scheme.phi[0] = 1.0


def test_api_gives_the_claims_and_the_json_the_same_numbers() -> None:
    bounds = quadlens.bounds(build_mlp(RECIPE))
    value = to_json(bounds)
    assert [one["k"] for one in value["clusters"]] == [one.k for one in bounds.bounded] == [3, 7]
    for entry, mine in zip(value["clusters"], bounds.bounded, strict=True):
        assert isinstance(mine.relative_error, Estimate)
        assert isinstance(mine.relative_exact, Exact)
        assert isinstance(mine.relative_bound, UpperBound)
        assert mine.relative_error.value == pytest.approx(mine.relative_exact.middle, abs=1e-12)
        assert mine.relative_exact.upper <= mine.relative_bound.value
        assert mine.exact.absolute.upper <= mine.moment_bound.value
        # With the model's own ψ: exact ≤ either bound, all three relative to the same baseline.
        assert mine.relative_exact_psi.upper <= mine.relative_bound.value
        assert mine.relative_exact_psi.upper <= mine.relative_moment_bound_psi.value
        assert mine.relative_moment_bound_psi.value == pytest.approx(
            mine.moment_bound_psi.value / mine.baseline.middle
        )
        assert entry["relative_moment_bound_psi"] == mine.relative_moment_bound_psi.value
        assert set(entry["rows"]) == {field.name for field in dataclasses.fields(PaperRows)}
        assert entry["exact_abs_error"] == mine.exact.absolute.middle
        assert entry["claims"]["exact_abs_error"]["upper"] == mine.exact.absolute.upper
        assert entry["claims"]["total_abs_bound_half"]["kind"] == "upper_bound"
        assert entry["moments"] == 20
        assert {"moment_bound", "relative_error", "relative_bound", "relative_exact"} <= set(entry)


def test_each_cluster_has_its_own_baseline_where_a_frequency_shares_a_factor_with_p() -> None:
    bounds = quadlens.bounds(build_mlp(Recipe(p=15, keys=(2, 5), neurons=40)))
    value = to_json(bounds)
    assert [one["k"] for one in value["clusters"]] == [2, 5]
    for entry, mine in zip(value["clusters"], bounds.bounded, strict=True):
        q = 15 // math.gcd(15, mine.k)
        assert entry["baseline"] == pytest.approx(
            4 / 3 / (q * math.sin(math.pi / (2 * q))), rel=1e-12
        )
        assert entry["baseline"] == entry["rows"]["naive_abs_cos_baseline"]
        assert entry["relative_bound"] == pytest.approx(
            entry["rows"]["total_abs_bound_half"] / entry["baseline"]
        )
    assert value["baseline"] == value["clusters"][0]["baseline"] != value["clusters"][1]["baseline"]


def test_rows_are_named_and_ordered_as_published() -> None:
    abs_rows, relu_rows = (
        read_published().table(name).names for name in ("table_abs_and_identity", "table_relu")
    )
    assert read_published().table("table_relative_error").names == (
        "actual_error_brute_force",
        "bound_linear_time",
    )
    relative, absolute, relu, own = tables(quadlens.bounds(build_mlp(RECIPE)))
    assert relative.paper_frequencies == (12, 18, 21, 22)
    assert relative.rows[1].paper == (0.7, 0.49, 0.54, 0.48)
    assert [row.name for row in absolute.rows] == list(abs_rows)
    assert [row.name for row in relu.rows] == list(relu_rows)
    assert {row.kind for row in own.rows} == {"exact", "upper bound", "estimate"}
    lines = text_table(relu, None).to_csv().splitlines()
    assert lines[0] == "row,kind,k=3,k=7,paper k=12,paper k=18,paper k=21,paper k=22"
    assert lines[1].startswith("normalised_relu_cos_error,exact,")
    assert len(lines) == 1 + len(relu_rows)
    latex = text_table(absolute, 2, marks=False).to_latex()
    assert latex.count(r"\\") == 1 + len(abs_rows)
    assert r"numerical\_abs\_bound\_half & " in latex


def test_brute_force_is_left_out_when_it_would_take_too_long() -> None:
    bounds = quadlens.bounds(build_mlp(RECIPE), brute_force_limit=10)
    assert all(cluster.relative_error is None for cluster in bounds.bounded)
    assert to_json(bounds)["clusters"][0]["relative_error"] is None
    relative, *_, own = tables(bounds)
    assert relative.rows[0].kind == "exact"
    assert "relative_error" not in [row.name for row in own.rows]


def test_models_without_this_quadrature_are_refused() -> None:
    model = build_mlp(RECIPE)
    square = Weights.mlp(Config.mlp(23, 48, "square"), model.W_a, model.W_b, model.W_out)
    with pytest.raises(BadConfig, match="activation is 'square'"):
        quadlens.bounds(square)
    with pytest.raises(BadConfig, match="moments = 0"):
        quadlens.bounds(model, moments=0)


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["quadlens", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


@pytest.fixture
def model_file(tmp_path: Path) -> str:
    path = tmp_path / "pizza.safetensors"
    save(build_mlp(RECIPE), path)
    return str(path)


def test_command_line_json(
    model_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "bounds", model_file, "--json", "--moments", "7") == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["p"], value["clusters"][0]["moments"]) == (23, 7)
    assert value["baseline"] == pytest.approx(0.85, abs=0.01)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "numerical_relu_bound_half"),
        (["--format", "csv"], "row,kind,k=3,k=7"),
        (["--format", "latex"], r"\begin{tabular}{lcc|cccc}"),
    ],
)
def test_command_line_tables(
    model_file: str,
    words: list[str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch, "bounds", model_file, *words) == 0
    assert expected in capsys.readouterr().out


def test_command_line_says_which_cluster_has_no_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "lonely.safetensors"
    save(build_mlp(Recipe(23, (3, 7), 2)), path)
    assert run(monkeypatch, "bounds", str(path)) == 0
    assert (
        "k = 7 (1 neuron): no bound: a rule needs at least two neurons" in capsys.readouterr().out
    )
    assert run(monkeypatch, "bounds", str(path), "--json") == 0
    value = json.loads(capsys.readouterr().out)
    assert value["baseline"] is None
    assert value["clusters"][0]["rows"] == {}
    assert "at least two neurons" in value["clusters"][0]["no_bound"]


def test_command_line_bad_input(
    model_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "bounds", "nowhere.safetensors") == 2
    assert "no such file" in capsys.readouterr().err
    assert run(monkeypatch, "bounds", model_file, "--moments", "0") == 2


def test_help_has_an_example_and_the_common_flags(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "bounds", "--help") == 0
    shown = capsys.readouterr().out
    for expected in ("Example: quadlens", "--json", "--quiet", "--debug"):
        assert expected in shown
