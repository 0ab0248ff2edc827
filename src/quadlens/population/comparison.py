"""The paper's population beside ours: every statement of its appendix "Results for other random seeds", and more."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quadlens.population.beyond import beyond_the_paper
from quadlens.population.histograms import HistogramComparison, compare_histograms, published_histogram
from quadlens.population.intervals import Interval, bootstrap, homogeneity, wilson
from quadlens.population.statement import Printed, Statement, Verdict, count_statement, number_statement
from quadlens.published import (
    GOOD_MODELS,
    MODELS,
    Histogram,
    PopulationSummary,
    as_printed,
    read_published,
)

if TYPE_CHECKING:
    import polars

FOUR_ERRORS = (
    "normalised_abs_cos_error",
    "normalised_abs_sin_error",
    "normalised_id_cos_error",
    "normalised_id_sin_error",
)
# The bound the appendix calls "normalised abs integral bound": its text does not say which of the table's rows that is;
# the total with the half-period bound is the paper's best, and the one it divides by the naive bound elsewhere.
BOUND = "total_abs_bound_half"
RELATIVE_BOUND = "relative_bound"


@dataclass(frozen=True)
class KeyCounts:
    """How many models have 2, 3, … key frequencies (figure `nfreqcountmul`)."""

    ours: dict[int, int]
    paper: dict[int, int]
    verdict: Verdict
    why: str

    @property
    def intervals(self) -> dict[int, Interval]:
        """Wilson's, as counts among our models."""
        of = sum(self.ours.values())
        shares = {k: wilson(count, of) or (0.0, 1.0) for k, count in self.ours.items()}
        return {k: (low * of, high * of) for k, (low, high) in shares.items()}

    def to_dict(self) -> dict[str, Any]:
        """The JSON view."""
        return {
            "ours": {str(k): count for k, count in self.ours.items()},
            "ci95": {str(k): list(ends) for k, ends in self.intervals.items()},
            "paper": {str(k): count for k, count in self.paper.items()},
            "verdict": self.verdict,
            "why": self.why,
        }


@dataclass(frozen=True)
class Comparison:
    """The whole comparison.

    Attributes:
        models: How many models of ours it rests on.
        settings: What they are, in words.
        statements: The paper's statements.
        key_counts: Number of key frequencies.
        histograms: The paper's histograms with ours over them.
        beyond: What the paper could not say.
    """

    models: int
    settings: str
    statements: tuple[Statement, ...]
    key_counts: KeyCounts
    histograms: tuple[HistogramComparison, ...]
    beyond: tuple[Statement, ...]

    def to_dict(self) -> dict[str, Any]:
        """The JSON view: names as in published.json's `population`."""
        return {
            **{statement.name: statement.to_dict() for statement in self.statements},
            "number_of_key_frequencies": self.key_counts.to_dict(),
            **{h.name: h.to_dict() for h in self.histograms if h.name == "neurons_per_frequency_1_to_29"},
            "histograms": {h.name: h.to_dict() for h in self.histograms if h.name != "neurons_per_frequency_1_to_29"},
            "beyond_the_paper": {statement.name: statement.to_dict() for statement in self.beyond},
            "settings": self.settings,
        }


def summarise(comparison: Comparison) -> PopulationSummary:
    """What is shipped of the comparison for pages and figures: our counts, without intervals and verdicts."""
    # The two outer bins hold what lies outside the paper's axis, which its figure does not show.
    bars = {one.name: Histogram(one.edges, one.ours[1:-1]) for one in comparison.histograms}
    frequencies = bars.pop("neurons_per_frequency_1_to_29")
    return PopulationSummary(
        models=comparison.models,
        facts=tuple((one.name, one.ours) for one in comparison.statements if one.ours is not None),
        key_counts=tuple(sorted(comparison.key_counts.ours.items())),
        neurons_per_frequency=tuple(int(count) for count in frequencies.count),
        histograms=tuple(bars.items()),
    )


def compare(frame: "polars.DataFrame", rng: np.random.Generator | None = None) -> Comparison:
    """Compare a dataset with the paper.

    Args:
        frame: One row per model (`dataset.read`).
        rng: For the bootstrap; a generator seeded with 0 when None.
    """
    rng = rng or np.random.default_rng(0)
    pairs = good_pairs(frame)
    reason = why_not_comparable(frame)
    small = pairs.filter(_all_four_small())
    return Comparison(
        models=len(frame),
        settings=_settings(frame),
        statements=(
            *_of_models(frame, reason),
            _of_skip(frame, rng, reason),
            *_of_pairs(frame, pairs, rng, reason),
            *_of_neurons(frame, rng, reason),
        ),
        key_counts=_key_counts(frame, rng, reason),
        histograms=compare_histograms(frame, small, rng, reason),
        beyond=beyond_the_paper(frame, pairs, rng),
    )


def good_pairs(frame: "polars.DataFrame") -> "polars.DataFrame":
    """One row for every (good model, key frequency)."""
    import polars as pl

    good = frame.filter(pl.col("good_model")).select("run_id", "clusters")
    return good.explode("clusters").unnest("clusters").filter(pl.col("key"))


def why_not_comparable(frame: "polars.DataFrame") -> str | None:
    """Why these models are not of the paper's kind; None when they are."""
    paper = {"p": 59, "d_mlp": 512, "equals": False, "weight_decay": 1.0}
    for name, value in paper.items():
        found = frame[name].unique().sort().to_list()
        if others := [other for other in found if other != value]:
            where, hint = ("in some models", " (see --where)") if value in found else ("here", "")
            return f"{name} is {', '.join(map(str, others))} {where}, {value} in the paper's{hint}"
    return None


def _settings(frame: "polars.DataFrame") -> str:
    parts = [
        f"{name} {', '.join(map(str, frame[name].unique().sort().to_list()))}" for name in ("p", "d_mlp", "epochs")
    ]
    return ", ".join(parts)


def _all_four_small() -> "polars.Expr":
    import polars as pl

    return pl.all_horizontal([pl.col(name) < 0.1 for name in FOUR_ERRORS])


def _of_models(frame: "polars.DataFrame", reason: str | None) -> list[Statement]:
    """Statements that count models."""
    import polars as pl

    paper, n = read_published().population.counts, len(frame)
    matched = int(frame["good_model"].sum())
    few = int(frame["neurons_mismatching"].is_between(1, 9).sum())
    keys = frame.select("run_id", "good_model", "clusters").explode("clusters").unnest("clusters")
    keys = keys.filter(pl.col("good_model") & pl.col("key"))
    angles = keys.group_by("run_id").agg(good=(pl.col("r2_angles") > 0.9).fill_null(False).all())["good"].sum()
    wide = pl.col("interval_width_mean") > pl.col("interval_width_std")
    widths = keys.group_by("run_id").agg(good=wide.fill_null(False).all())["good"].sum()
    stated, good = paper["models_stated"], paper["models_all_neuron_frequencies_match"]
    own = Statement(
        "models",
        "models trained",
        n,
        None,
        stated,
        None,
        None,
        "agrees" if n == stated and reason is None else "cannot be compared",
        f"{n} here, {stated} in the paper",
    )
    all_match = ("all neurons read and write the same frequency", matched, n, (good, stated))
    one_to_nine = paper["models_with_1_to_9_mismatched_neurons"]
    return [
        own,
        count_statement("good_models", *all_match, incomparable=reason),
        count_statement("models_all_neuron_frequencies_match", *all_match, incomparable=reason),
        count_statement(
            "models_with_1_to_9_mismatched_neurons",
            "1 to 9 neurons write another frequency than they read",
            few, n, (one_to_nine, stated), incomparable=reason,
        ),
        count_statement(
            "good_models_all_angle_r2_above_0.9",
            "good models with R² of ψ = 2φ above 0.9 for every key frequency",
            int(angles), matched, (paper["good_models_all_angle_r2_above_0.9"], good), incomparable=reason,
        ),
        count_statement(
            "good_models_mean_interval_width_above_std",
            "good models whose interval widths have a mean above their deviation for every key frequency",
            int(widths), matched, (paper["good_models_mean_interval_width_above_std"], good), incomparable=reason,
        ),
    ]  # fmt: skip


def _of_skip(frame: "polars.DataFrame", rng: np.random.Generator, reason: str | None) -> Statement:
    """The share that the paper says is mostly below a threshold: its median over models beside that threshold."""
    name = "residual_stream_variance_share_mostly_below"
    limit = dict(read_published().population.facts)[name]
    shares = frame["residual_variance_share"].drop_nulls().to_numpy()
    n, below = len(shares), int((shares < limit).sum())
    # A stream of its own: the intervals of the other rows do not depend on this one.
    ci = bootstrap(lambda sample: float(np.median(shares[sample])), n, rng.spawn(1)[0]) if n else None
    verdict: Verdict = "agrees" if 2 * below > n else "differs"
    return Statement(
        name,
        f"skip connection's share of the logits' variance, median over models (the paper: mostly below {limit})",
        float(np.median(shares)) if n else None,
        ci,
        limit,
        None,
        None,
        "cannot be compared" if reason or not n else verdict,
        reason or f"{below} of {n} models are below {limit}; “mostly” is taken as more than half",
    )


def _of_pairs(
    frame: "polars.DataFrame", pairs: "polars.DataFrame", rng: np.random.Generator, reason: str | None
) -> list[Statement]:
    """Statements about (good model, key frequency) pairs; models are drawn whole."""
    import polars as pl

    paper, numbers = read_published().population.counts, dict(read_published().population.facts)
    good = frame.filter(pl.col("good_model"))["run_id"].to_list()
    small = pairs.with_columns(small=_all_four_small().fill_null(False))
    rows = [small.filter(pl.col("run_id") == run_id) for run_id in good]
    counts = np.array([len(row) for row in rows], dtype=float)
    hits = np.array([int(row["small"].sum()) for row in rows], dtype=float)
    bounds = [row.filter(pl.col("small"))[BOUND].drop_nulls().to_numpy() for row in rows]
    # The same bound over the cluster's own naive bound, which depends on k where k and p share a factor.
    below = [float((row.filter(pl.col("small"))[RELATIVE_BOUND] < 1).sum()) for row in rows]

    def ratio(top: np.ndarray, bottom: np.ndarray) -> Callable[[np.ndarray], float | None]:
        return lambda sample: float(top[sample].sum() / bottom[sample].sum()) if bottom[sample].sum() else None

    def median(sample: np.ndarray) -> float | None:
        drawn = np.concatenate([bounds[i] for i in sample]) if len(sample) else np.empty(0)
        return float(np.median(drawn)) if len(drawn) else None

    n, total, of_small = len(good), int(counts.sum()), int(sum(len(b) for b in bounds))
    per_model = bootstrap(lambda sample: float(counts[sample].mean()), n, rng)
    sizes = np.array([len(b) for b in bounds], dtype=float)
    share = bootstrap(ratio(hits, counts), n, rng, limits=(0.0, 1.0)) if 0 < hits.sum() < total else None
    below_share = (
        bootstrap(ratio(np.array(below), sizes), n, rng, limits=(0.0, 1.0)) if 0 < sum(below) < of_small else None
    )
    theirs, their_good = paper["good_model_frequency_pairs"], paper["models_all_neuron_frequencies_match"]
    histogram = published_histogram("normalised_abs_integral_bound")
    pair_count = number_statement(
        "good_model_frequency_pairs",
        "",
        total / n if n else None,
        per_model,
        n,
        Printed(theirs / their_good, theirs / their_good, their_good),
        incomparable=reason,
    )
    return [
        Statement(
            pair_count.name, "(good model, key frequency) pairs; compared per good model", total,
            None if per_model is None else (per_model[0] * n, per_model[1] * n), theirs, None, None,
            pair_count.verdict, pair_count.why,
        ),
        count_statement(
            "pairs_all_four_errors_below_0.1", "pairs with all four errors below 0.1",
            int(hits.sum()), total, (paper["pairs_all_four_errors_below_0.1"], theirs),
            ci_share=share, incomparable=reason,
        ),
        number_statement(
            "median_abs_bound_of_those_pairs", "median bound of the absolute-value part, those pairs",
            median(np.arange(n)), bootstrap(median, n, rng), n,
            Printed(*as_printed(numbers["median_abs_bound_of_those_pairs"]), their_good), incomparable=reason,
        ),
        number_statement(
            "median_abs_bound_of_the_papers_histogram",
            f"the same against the median of the paper's histogram of that bound ({histogram.total:g} pairs)",
            median(np.arange(n)), bootstrap(median, n, rng), n,
            Printed(*histogram.median_bin, GOOD_MODELS), incomparable=reason,
        ),
        number_statement(
            "share_of_those_bounds_below_naive", "share of those bounds below the naive bound",
            sum(below) / of_small if of_small else None,
            below_share or wilson(int(sum(below)), of_small), n,
            Printed(*as_printed(numbers["share_of_those_bounds_below_naive"]), their_good), incomparable=reason,
        ),
    ]  # fmt: skip


def _of_neurons(frame: "polars.DataFrame", rng: np.random.Generator, reason: str | None) -> list[Statement]:
    """Statements that count neurons."""
    living = [[n for n in row if n["role"] != "dead"] for row in frame["neurons"].to_list()]
    of = np.array([sum(n["secondary_multiple"] is not None for n in row) for row in living], dtype=float)
    doubled = np.array([sum(n["secondary_multiple"] == 2 for n in row) for row in living], dtype=float)

    def share(sample: np.ndarray) -> float | None:
        return float(doubled[sample].sum() / of[sample].sum()) if of[sample].sum() else None

    low, high = read_published().doubled
    n = len(frame)
    return [
        number_statement(
            "share_of_neurons_with_secondary_twice_primary",
            "share of neurons whose secondary frequency is twice the primary "
            f"(the paper: {100 * low:.0f} % and {100 * high:.0f} %)",
            share(np.arange(n)), bootstrap(share, n, rng, limits=(0.0, 1.0)), n,
            Printed(low, high, MODELS), incomparable=reason,
        )
    ]  # fmt: skip


def _key_counts(frame: "polars.DataFrame", rng: np.random.Generator, reason: str | None) -> KeyCounts:
    theirs = dict(read_published().population.key_counts)
    found = frame["n_key_frequencies"].to_list()
    kinds = sorted({*theirs, *found})
    ours = {k: found.count(k) for k in kinds}
    verdict: Verdict = "cannot be compared"
    if reason:
        return KeyCounts(ours, theirs, verdict, reason)
    p_value = homogeneity(np.array(list(ours.values())), np.array([theirs.get(k, 0) for k in kinds]), rng)
    verdict = "agrees" if p_value >= 0.05 else "differs"
    return KeyCounts(ours, theirs, verdict, f"χ² test of one distribution: p = {p_value:.2g}")
