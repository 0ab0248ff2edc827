"""The comparison with the paper: intervals, statements, filters and views."""

import dataclasses
import importlib
import io
import json
import math
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.patches import Rectangle, StepPatch
from rich.console import Console

import quadlens as quadlens_package
from places import ROOT
from quadlens.analysis import published
from quadlens.analysis.published import read_population, read_published
from quadlens.base.errors import BadConfig, BadFile
from quadlens.base.schema import from_json
from quadlens.cli.main import main
from quadlens.network import load
from quadlens.network.bundled import resolve
from quadlens.network.native import sha256
from quadlens.proofs.pairs import STRATEGIES, certify
from quadlens.show.figures.population_sweep import (
    draw_by_p,
    draw_certified,
    draw_comparison,
    draw_key_frequencies,
)
from quadlens.training.population import dataset
from quadlens.training.population.comparison import (
    FOUR_ERRORS,
    Comparison,
    compare,
    why_not_comparable,
)
from quadlens.training.population.dataset import by_group, by_model, cost_shares, filter_models
from quadlens.training.population.intervals import (
    Z,
    as_clustered,
    bootstrap,
    cumulative_distances,
    cumulative_gap,
    difference,
    holm,
    homogeneity,
    wilson,
)
from quadlens.training.population.statement import Printed, count_statement, number_statement
from quadlens.training.population.store import ModelManifest
from quadlens.training.population.tables import comparison_table, render_rows, rows_table

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return dataset.read(dataset.shipped_path())


@pytest.fixture(scope="module")
def comparison(frame: pl.DataFrame) -> Comparison:
    return compare(frame)


@given(st.integers(0, 200), st.integers(1, 200))
def test_wilson_holds_the_share(count: int, of: int) -> None:
    count = min(count, of)
    low, high = wilson(count, of) or (0.0, 0.0)
    # The ends are where the score test is just on the line.
    for end in (low, high):
        if 0 < end < 1:
            assert math.isclose(
                (count / of - end) ** 2, 1.959963984540054**2 * end * (1 - end) / of, abs_tol=1e-9
            )
    assert 0 <= low <= count / of <= high <= 1


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    covered = differences = 0
    for _ in range(300):
        values = rng.normal(size=8)
        low, high = bootstrap(lambda s, v=values: float(v[s].mean()), 8, rng, 300) or (1.0, -1.0)  # type: ignore[misc]
        covered += low <= 0 <= high
        x, y = int(rng.binomial(30, 0.6)), int(rng.binomial(151, 0.6))
        ends = difference(
            x / 30, wilson(x, 30) or (0.0, 1.0), y / 151, wilson(y, 151) or (0.0, 1.0)
        )
        differences += ends[0] <= 0 <= ends[1]
    assert 0.9 <= covered / 300 <= 0.99
    assert 0.91 <= differences / 300 <= 0.99
    assert bootstrap(lambda sample: float(sample.mean()), 4, rng) is None
    assert bootstrap(lambda sample: 1.0, 40, rng) is None


def test_two_halves_of_one_population_agree_and_another_does_not() -> None:
    rng = np.random.default_rng(2)
    paper = rng.multinomial(1000, [0.2, 0.5, 0.3]).astype(float)
    same = np.stack([rng.multinomial(50, [0.2, 0.5, 0.3]) for _ in range(20)]).astype(float)
    other = np.stack([rng.multinomial(50, [0.5, 0.3, 0.2]) for _ in range(20)]).astype(float)
    for rows, agrees in ((same, True), (other, False)):
        gap, gaps = cumulative_gap(rows, paper)
        assert gap == np.abs(gaps).max()
        assert (gap <= np.quantile(cumulative_distances(rows, 20, rng), 0.95)) == agrees
    assert homogeneity(np.array([3, 5, 2]), np.array([30, 50, 20]), rng) > 0.5
    assert homogeneity(np.array([20, 0, 0]), np.array([30, 50, 20]), rng) < 0.01


def test_verdicts_are_plain() -> None:
    assert count_statement("x", "", 66, 100, (100, 151)).verdict == "agrees"
    low = count_statement("x", "", 10, 100, (100, 151))
    assert (low.verdict, low.why.startswith("10.0% against 66.2%, difference -56.2%")) == (
        "differs",
        True,
    )
    assert count_statement("x", "", 1, 2, None).why == "not in the paper"
    assert count_statement("x", "", 0, 0, (1, 2)).why == "we have none to count among"
    paper = Printed(0.395, 0.405, 100)
    assert number_statement("x", "", 0.41, (0.39, 0.43), 10, paper).verdict == "agrees"
    assert number_statement("x", "", 0.5, (0.45, 0.55), 10, paper).verdict == "differs"
    # From as many models as ours the paper's number is as uncertain as ours.
    assert number_statement("x", "", 0.5, (0.42, 0.58), 1, paper).verdict == "differs"
    assert number_statement("x", "", 0.5, (0.42, 0.58), 100, paper).verdict == "agrees"
    assert "too few, or all alike" in number_statement("x", "", 0.5, None, 10, paper).why


def test_equal_populations_differ_in_one_of_twenty_comparisons() -> None:
    rng, n, m, trials = np.random.default_rng(1), 150, 100, 2000
    half = Z / np.sqrt(n)
    ours, theirs = (
        rng.normal(size=(trials, n)).mean(axis=1),
        rng.normal(size=(trials, m)).mean(axis=1),
    )
    differ = sum(
        number_statement("x", "", x, (x - half, x + half), n, Printed(y, y, m)).verdict == "differs"
        for x, y in zip(ours.tolist(), theirs.tolist(), strict=True)
    )
    assert 0.035 < differ / trials < 0.065


@pytest.mark.parametrize("count", [0, 1, 2, 3, 18])
def test_holm_by_its_definition(count: int) -> None:
    """Reject from the smallest on while p ≤ level / (how many are left)."""
    rng = np.random.default_rng(count)
    for _ in range(50):
        p = rng.uniform(size=count) ** 4
        adjusted = holm(list(p))
        for level in (0.01, 0.05, 0.2):
            rejected: list[int] = []
            for i in np.argsort(p):
                if p[i] > level / (count - len(rejected)):
                    break
                rejected.append(int(i))
            assert {i for i in range(count) if adjusted[i] <= level} == set(rejected)


def test_a_verdict_says_how_sure_it_is(comparison: Comparison) -> None:
    """An agreement has its margin, a difference its p-values.

    p < 0.05 exactly where the interval leaves out 0.
    """
    for one in comparison.statements:
        if one.tested is None:
            continue
        if found := re.search(r"\[([-+\d.e%]+), ([-+\d.e%]+)\]", one.why):
            low, high = (float(end.rstrip("%")) for end in found.groups())
            assert (one.verdict == "agrees") == (one.tested.p >= 0.05) == (low <= 0 <= high), one
            scale = 100 if "%" in found[0] else 1
            assert one.tested.margin == pytest.approx(
                max(-low, high) / scale, abs=0.06 / scale, rel=0.01
            )
    assert all(one.p_holm is not None and one.p_holm >= one.p for one in comparison.tests)
    assert comparison.tally() == (
        "Of 17 comparisons that could have come out either way 8 agree and 9 differ at 95 %, "
        "7 of these also after Holm's correction for all 17."
    )


def test_one_models_inputs_are_compared_with_that_model(comparison: Comparison) -> None:
    """The paper's skip figure has one model's inputs; pooled models could not differ."""
    (skip,) = (
        one
        for one in comparison.histograms
        if one.name == "residual_attention_variance_over_logits"
    )
    assert (skip.models, skip.ours.sum(), skip.verdict, skip.tested) == (
        1,
        59**2,
        "cannot be compared",
        None,
    )
    assert skip.gap is not None
    assert 0.12 < skip.gap < 0.13


def test_what_is_counted_inside_models_scatters_more_in_the_paper_too() -> None:
    independent = wilson(80, 100) or (0.0, 1.0)
    wide = (0.8 - 2 * (0.8 - independent[0]), 0.8 + 2 * (independent[1] - 0.8))
    paper_ci = wilson(295, 358) or (0.0, 1.0)
    low, high = as_clustered(295 / 358, paper_ci, wide, independent)
    assert (high - low) / (paper_ci[1] - paper_ci[0]) == pytest.approx(2)
    # Never narrower than independence makes it.
    assert as_clustered(295 / 358, paper_ci, (0.79, 0.81), independent) == pytest.approx(paper_ci)


def test_every_number_of_the_paper_has_a_row(comparison: Comparison) -> None:
    value = comparison.to_dict()
    renamed = {"models_stated", "models_counted_in_figures"}
    paper = json.loads(
        (Path(quadlens_package.__file__).parent / "data" / "published.json").read_text()
    )["population"]
    assert set(paper) - renamed <= set(value)
    assert set(value["histograms"]) == set(paper["histograms"])
    for name in {"models", "good_models", *paper} - renamed - {"histograms"}:
        assert {"ours", "ci95", "paper", "verdict", "why"} <= set(value[name]), name
    assert value["good_models"]["paper"] == 100
    assert value["models"] == {**value["models"], "ours": comparison.models, "paper": 151}
    json.dumps(value, allow_nan=False)
    for statement in comparison.statements:
        if statement.ci95 is not None and statement.ours is not None and statement.of is not None:
            assert statement.ci95[0] <= statement.ours <= statement.ci95[1], statement.name


def test_the_dataset_shipped_is_what_the_code_says_now(frame: pl.DataFrame) -> None:
    """Seed 0 is the bundled pizza: its stored proofs are those that the strategies give today."""
    (row,) = frame.filter(pl.col("seed") == 0).iter_rows(named=True)
    model = load("pizza")
    assert row["model_sha256"] == sha256(model)
    # Results of strategies that are no more are left out when the dataset is read.
    assert {stored["strategy"] for stored in row["proofs"]} <= STRATEGIES.keys()
    for stored, cost in zip(row["proofs"], cost_shares(row), strict=True):
        if stored["strategy"] == "moments":
            certificate = certify(model, stored["strategy"])
            assert stored["flops"] == certificate.proof.operations
            assert stored["certified_inputs"] == certificate.certified_inputs
            assert cost == certificate.cost_share


def test_the_summary_shipped_is_that_of_the_dataset_shipped(
    comparison: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make docs` writes it."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    summary = importlib.import_module("refresh_docs").summary(comparison)
    assert summary == json.loads(dataset.shipped_path().with_suffix(".json").read_bytes())
    assert {"models": summary["models"], **read_population().to_dict()} == summary


def test_the_papers_counts_are_written_once() -> None:
    paper = dict(read_published().population.facts)
    assert paper["models_stated"] == published.MODELS
    assert paper["models_counted_in_figures"] == published.MODELS_IN_FIGURES
    assert paper["models_all_neuron_frequencies_match"] == published.GOOD_MODELS
    assert published.as_printed(paper["median_abs_bound_of_those_pairs"]) == (0.395, 0.405)
    assert published.as_printed(paper["share_of_those_bounds_below_naive"]) == (0.985, 0.995)


def test_the_skips_share_stands_beside_the_papers_threshold(
    frame: pl.DataFrame, comparison: Comparison
) -> None:
    value = comparison.to_dict()["residual_stream_variance_share_mostly_below"]
    assert value["ours"] == np.median(frame["residual_variance_share"])
    assert value["ci95"][0] <= value["ours"] <= value["ci95"][1] < value["paper"] == 0.03
    assert value["verdict"] == "agrees"
    below = int((frame["residual_variance_share"] < 0.03).sum())
    assert value["why"].startswith(f"{below} of {len(frame)} models are below 0.03")
    heavy = frame.with_columns(residual_variance_share=pl.lit(0.04))
    assert {s.name: s.verdict for s in compare(heavy).statements}[
        "residual_stream_variance_share_mostly_below"
    ] == "differs"


def test_models_are_counted_as_those_of_the_dataset_given(frame: pl.DataFrame) -> None:
    (models,) = (one for one in compare(frame.head(3)).statements if one.name == "models")
    assert models.why == "3 here, 151 in the paper: how many there are was chosen"
    assert (models.verdict, models.tested) == ("cannot fail", None)


def test_bounds_are_compared_with_their_own_clusters_naive_bound(frame: pl.DataFrame) -> None:
    name = "share_of_those_bounds_below_naive"
    pairs = [
        c
        for model in frame.to_dicts()
        if model["good_model"]
        for c in model["clusters"]
        if c["key"]
    ]
    small = [c["relative_bound"] for c in pairs if all(c[error] < 0.1 for error in FOUR_ERRORS)]
    ours = {s.name: s.ours for s in compare(frame).statements}[name]
    assert ours == pytest.approx(sum(bound < 1 for bound in small) / len(small))
    above = pl.element().struct.with_fields(relative_bound=pl.lit(1.2))
    # The model's one baseline says nothing about its clusters: only the relative bound of each
    # does.
    assert {s.name: s.ours for s in compare(frame.with_columns(baseline=pl.lit(0.0))).statements}[
        name
    ] == ours
    changed = frame.with_columns(pl.col("clusters").list.eval(above))
    assert {s.name: s.ours for s in compare(changed).statements}[name] == 0.0


def test_statements_equal_plain_loops(frame: pl.DataFrame, comparison: Comparison) -> None:
    ours: dict[str, Any] = {statement.name: statement.ours for statement in comparison.statements}
    good = [model for model in frame.to_dicts() if model["good_model"]]
    keys = {model["run_id"]: [c for c in model["clusters"] if c["key"]] for model in good}
    pairs = [cluster for clusters in keys.values() for cluster in clusters]
    small = [cluster for cluster in pairs if all(cluster[name] < 0.1 for name in FOUR_ERRORS)]
    assert ours["good_models"] == len(good)
    assert ours["good_model_frequency_pairs"] == len(pairs)
    assert ours["pairs_all_four_errors_below_0.1"] == len(small)
    assert ours["median_abs_bound_of_those_pairs"] == np.median(
        [c["total_abs_bound_half"] for c in small]
    )
    assert ours["good_models_all_angle_r2_above_0.9"] == sum(
        all(c["r2_angles"] > 0.9 for c in clusters) for clusters in keys.values()
    )
    assert ours["good_models_mean_interval_width_above_std"] == sum(
        all(c["interval_width_mean"] > c["interval_width_std"] for c in clusters)
        for clusters in keys.values()
    )
    neurons = [
        n
        for model in frame.to_dicts()
        for n in model["neurons"]
        if n["secondary_multiple"] is not None
    ]
    doubled = sum(n["secondary_multiple"] == 2 for n in neurons if n["role"] != "dead")
    assert ours["share_of_neurons_with_secondary_twice_primary"] == pytest.approx(
        doubled / sum(n["role"] != "dead" for n in neurons)
    )


def test_the_median_bin_of_the_papers_bounds() -> None:
    bars = read_published().population.histogram("normalised_abs_integral_bound")
    low, high = bars.median_bin
    values = [
        (lo + hi) / 2
        for lo, hi, count in zip(bars.edges[:-1], bars.edges[1:], bars.count, strict=True)
        for _ in range(int(count))
    ]
    assert low < np.median(values) < high


def test_histograms_count_everything_once(frame: pl.DataFrame, comparison: Comparison) -> None:
    by_name = {h.name: h for h in comparison.histograms}
    assert by_name["relu_input_variance_explained"].ours.sum() == frame["d_mlp"].sum()
    assert by_name["neurons_per_frequency_1_to_29"].ours.sum() == frame["d_mlp"].sum()
    good = frame.filter(pl.col("good_model"))
    assert (
        by_name["neuron_logit_map_variance_explained_good_models"].ours.sum() == good["d_mlp"].sum()
    )
    for histogram in comparison.histograms:
        assert len(histogram.ours) == len(histogram.paper) + 2 == len(histogram.edges) + 1
    assert read_published().population.histogram(
        "residual_attention_variance_over_logits"
    ).total * 10 == pytest.approx(59**2)


def test_the_expected_outcome_about_the_shipped_models(
    frame: pl.DataFrame, comparison: Comparison
) -> None:
    """Arcs certify every accurate model, good or not."""
    proofs = frame.select("correct", "inputs", "proofs").explode("proofs").unnest("proofs")
    arcs = proofs.filter((pl.col("strategy") == "arcs") & (pl.col("correct") == pl.col("inputs")))
    assert len(arcs) > 0
    assert (arcs["certified_inputs"] == arcs["inputs"]).all()
    assert comparison.models == frame["seed"].n_unique()


def test_models_of_another_kind_are_not_compared(frame: pl.DataFrame) -> None:
    value = compare(frame.with_columns(p=pl.lit(23, dtype=pl.Int32)))
    assert {s.verdict for s in value.statements} == {"cannot be compared"}
    assert {h.verdict for h in value.histograms} == {"cannot be compared"}
    assert "p is 23 here, 59 in the paper's" in value.key_counts.why
    one = compare(frame.head(1))
    assert one.models == 1


@pytest.mark.parametrize(
    ("condition", "expression"),
    [
        ("seed<3", pl.col("seed") < 3),
        ("seed >= 2 and good_model", (pl.col("seed") >= 2) & pl.col("good_model")),
        ("not good_model", ~pl.col("good_model")),
        ("good_model=false", ~pl.col("good_model")),
        ("seeding != 'gbmi'", pl.col("seeding") != "gbmi"),
        ("accuracy==1", pl.col("accuracy") == 1),
    ],
)
def test_where(frame: pl.DataFrame, condition: str, expression: pl.Expr) -> None:
    assert filter_models(frame, [condition]).equals(frame.filter(expression))


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("nothing=1", "find column .nothing..*over the columns run_id, p,"),
        ("clusters=1", "expected a condition in SQL"),
        ("p=x", "find column .x."),
        ("p", "must be of type `Boolean`"),
        ("a b c", "expected a condition in SQL"),
        ("p=59; drop", "unexpected token"),
    ],
)
def test_where_says_what_is_wrong(frame: pl.DataFrame, condition: str, message: str) -> None:
    with pytest.raises(BadConfig, match=message):
        filter_models(frame, [condition])


def test_by_model_and_by_group(frame: pl.DataFrame) -> None:
    rows = by_model(frame)
    assert [row["seed"] for row in rows] == frame["seed"].to_list()
    (group,) = by_group(frame, "p")
    assert (group["models"], group["p"]) == (len(frame), 59)
    assert group["certified_arcs"] == pytest.approx(
        np.mean([row["certified_arcs"] for row in rows])
    )


def test_figures_draw_ours_over_theirs(frame: pl.DataFrame, comparison: Comparison) -> None:
    for histogram in comparison.histograms:
        (axis,) = draw_comparison(histogram).axes
        (ours,) = (patch.get_data()[0] for patch in axis.patches if isinstance(patch, StepPatch))
        theirs = [patch.get_height() for patch in axis.patches if isinstance(patch, Rectangle)]
        np.testing.assert_allclose(theirs, histogram.paper)
        np.testing.assert_allclose(
            ours / histogram.paper.sum(), histogram.ours[1:-1] / histogram.ours.sum()
        )
    (axis,) = draw_key_frequencies(comparison.key_counts).axes
    assert len(axis.patches) == 2 * len(comparison.key_counts.ours)
    (axis,) = draw_certified(by_model(frame)).axes
    assert sum(np.size(line.get_xdata()) for line in axis.lines) == frame["proofs"].list.len().sum()


def test_markdown_has_every_statement_and_cell(frame: pl.DataFrame, comparison: Comparison) -> None:
    text = comparison_table(comparison)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    statements = (
        len(comparison.statements) - 1 + 1 + len(comparison.histograms)
    )  # one is said twice, one is the counts
    assert len(lines) == 2 + statements
    assert comparison.tally() in text
    assert f"| {len(frame)} |" in lines[2]
    assert all(word in text for word in ("agrees", "differs: "))
    rows = by_group(frame, "p")
    header, rule, only = rows_table(rows).splitlines()
    assert header.count("|") == rule.count("|") == only.count("|") == len(rows[0]) + 1
    assert only.startswith(f"| 59 | {len(frame)} | ")


def test_the_picture_over_p_has_every_model(frame: pl.DataFrame) -> None:
    rows = by_model(frame)
    with_equals = [{**row, "p": 31, "equals": True} for row in rows[:2]]
    frequencies, errors, costs = draw_by_p([*rows, *with_equals]).axes
    for axis in (frequencies, errors):
        assert [np.size(line.get_xdata()) for line in axis.lines] == [len(rows), 2]
        assert [label.get_text() for label in axis.get_xticklabels()] == ["31", "59"]
    assert [np.size(line.get_xdata()) for line in costs.lines] == [len(rows) + 2] * 2


def quadlens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["quadlens", "population", *words])
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = int(ended.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def test_the_command(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    frame: pl.DataFrame,
    tmp_path: Path,
) -> None:
    code, out, err = quadlens(
        monkeypatch, capsys, "--json", "--figures", str(tmp_path / "f"), "--where", "p=59"
    )
    assert code == 0, err
    value = json.loads(out)
    assert value["models"]["ours"] == len(frame)
    assert f"the {len(frame)} models shipped" in err
    assert len(value["figures"]) == len(list((tmp_path / "f").iterdir())) == 8
    code, out, err = quadlens(monkeypatch, capsys, "--quiet", "--where", "seed<2")
    assert (code, err) == (0, "")
    assert "2 models of ours" in out
    assert "cannot be compared" in out
    for flag in (["--by-model"], ["--by", "p"]):
        code, out, _ = quadlens(monkeypatch, capsys, "--json", *flag)
        assert json.loads(out)["models"] == len(frame)
        assert "8 models" in quadlens(monkeypatch, capsys, *flag)[1].replace(
            f"{len(frame)} models", "8 models"
        )


def test_tables_by_model_and_by_setting_can_be_read_at_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], frame: pl.DataFrame
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for flag, labels in ((["--by-model"], 3), (["--by", "p"], 1)):
        rows = json.loads(quadlens(monkeypatch, capsys, "--json", *flag)[1])["rows"]
        out = quadlens(monkeypatch, capsys, *flag)[1]
        lines = out.splitlines()
        assert max(map(len, lines)) <= 80
        # The last table: one line per row, every number whole.
        costs = [line.split()[labels:] for line in lines[-len(rows) :]]
        names = [name for name in rows[0] if name.startswith("cost_")]
        assert lines[-len(rows) - 1].split()[labels:] == [
            name.removeprefix("cost_") for name in names
        ]
        assert costs == [[f"{row[name]:.3g}" for name in names] for row in rows]


def test_only_perfection_reads_as_1() -> None:
    out = io.StringIO()
    rows = [
        {"p": 59, "seed": n, "accuracy": share, "certified_arcs": share}
        for n, share in enumerate((1.0, 0.99997))
    ]
    render_rows(Console(file=out, width=80), "two", rows)
    assert [line.split()[2:] for line in out.getvalue().splitlines() if line.startswith(" 59")] == [
        ["1"],
        ["0.99997"],
    ] * 2
    assert rows_table(rows).splitlines()[2:] == [
        "| 59 | 0 | 1 | 1 |",
        "| 59 | 1 | 0.99997 | 0.99997 |",
    ]


def test_filtered_models_are_not_called_all(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    frame: pl.DataFrame,
    tmp_path: Path,
) -> None:
    n = len(frame)
    err = quadlens(monkeypatch, capsys, "--by-model", "--where", "seed<2")[2]
    assert err.startswith(f"2 of the {n} models shipped with the package; ")
    assert quadlens(monkeypatch, capsys, "--by-model")[2].startswith(
        f"the {n} models shipped with the package; "
    )
    frame.write_parquet(tmp_path / "own.parquet")
    own = str(tmp_path / "own.parquet")
    assert quadlens(monkeypatch, capsys, own, "--by-model")[2] == ""
    _, out, err = quadlens(monkeypatch, capsys, own, "--by-model", "--where", "seed=1")
    assert err == f"1 of the {n} models in {own}\n"
    assert out.strip().startswith("1 model\n")


def test_models_all_of_another_kind_are_not_called_some(frame: pl.DataFrame) -> None:
    elevens = frame.with_columns(p=pl.lit(11, pl.Int32))
    assert why_not_comparable(elevens) == "p is 11 here, 59 in the paper's"
    both = pl.concat([elevens, frame])
    assert (
        why_not_comparable(both)
        == "p is 11 in some models, 59 in the paper's (keep those with a condition)"
    )
    assert why_not_comparable(frame) is None


def test_models_with_any_other_setting_are_not_compared(frame: pl.DataFrame) -> None:
    """Also with one that has no column of its own."""
    first = frame.head(1)
    manifest = from_json(ModelManifest, first["manifest"][0].encode(), "the first")
    others: dict[str, Any] = {
        "lr": 0.002,
        "initial_scale": 1.6,
        "attention_rest": "ones",
        "activation": "gelu",
    }
    for name, value in others.items():
        config = dataclasses.replace(manifest.config, **{name: value})
        changed = dataclasses.replace(manifest, config=config, run_id=config.run_id())
        row = first.with_columns(manifest=pl.lit(json.dumps(dataclasses.asdict(changed))))
        assert (
            why_not_comparable(row)
            == f"{name} is {value} here, {getattr(manifest.config, name)} in the paper's"
        )
        both = why_not_comparable(pl.concat([first, row]))
        assert (
            both
            == f"{name} is {value} in some models, {getattr(manifest.config, name)} in the paper's"
        )
        verdicts = {one.name: one.verdict for one in compare(row, of_any_kind=True).statements}
        assert verdicts["good_models"] == "agrees"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--where", "p=7"], "no model is left by --where p=7"),
        (["--by", "p", "--by-model"], "both given"),
        (["--by", "equals", "--figures", "x"], "there is none for --by equals"),
        (["--by-model", "--figures", "x"], "there is none for --by-model"),
        (["--markdown", "--json"], "--markdown is a form of output of its own"),
        (["nowhere"], "no such file or directory"),
        (["--figures", "x", "--format", "gif"], "expected some of svg"),
        (["--format", "pdf"], "--format pdf is about --figures, which was not given"),
    ],
)
def test_bad_input_exits_2(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    code, _, err = quadlens(monkeypatch, capsys, *words)
    assert code == 2
    assert message in err


def test_a_dataset_of_another_version_is_refused(frame: pl.DataFrame, tmp_path: Path) -> None:
    frame.drop("loss").write_parquet(tmp_path / "old.parquet")
    with pytest.raises(BadFile, match="not the dataset of a sweep of this version"):
        dataset.read(tmp_path / "old.parquet")


def test_shipped_manifests_say_how_each_model_was_made(frame: pl.DataFrame) -> None:
    for model in frame.iter_rows(named=True):
        manifest = json.loads(model["manifest"])
        assert manifest["command"].startswith(
            f"quadlens train --preset paper --seed {model['seed']} --threads 1"
        )
        assert manifest["sha256"]["model.safetensors"] == model["model_sha256"]
        assert manifest["run_id"] == model["run_id"]


def test_documented_queries_run(
    frame: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every Python block of docs/population.md, on the shipped dataset."""
    pytest.importorskip("duckdb", reason="DuckDB is not installed (it is in the extra dev)")
    text = (ROOT / "docs" / "population.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) >= 2
    assert (frame["correct"] == frame["inputs"]).all()
    (tmp_path / "sweep").mkdir()
    frame.write_parquet(tmp_path / "sweep" / "population.parquet")
    (tmp_path / "sweep" / "models" / "pizza").mkdir(parents=True)
    spectrum = resolve("pizza").with_name("pizza.spectrum.parquet")
    shutil.copy(spectrum, tmp_path / "sweep" / "models" / "pizza" / "model.spectrum.parquet")
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        exec(compile(block, "docs/population.md", "exec"), {})
