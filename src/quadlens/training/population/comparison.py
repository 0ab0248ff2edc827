"""The paper's population beside ours: its appendix "Results for other random seeds"."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from quadlens.analysis.published import GOOD_MODELS, MODELS, as_printed, read_published
from quadlens.training.config import TrainConfig
from quadlens.training.population.dataset import CLUSTER_ROWS, CONFIG_COLUMNS, inside, manifest_of
from quadlens.training.population.histograms import HistogramComparison, compare_histograms
from quadlens.training.population.intervals import (
    RESAMPLES,
    Interval,
    bootstrap,
    difference,
    holm,
    homogeneity,
    mostly,
    wilson,
)
from quadlens.training.population.statement import (
    Printed,
    Statement,
    Tested,
    Verdict,
    count_statement,
    number_statement,
)

if TYPE_CHECKING:
    import polars

FOUR_ERRORS = CLUSTER_ROWS[:4]
# Of a training run, whose defaults are the paper's settings: these may differ and leave a model of
# the paper's kind.
FREE_SETTINGS = (
    "seed",
    "seeding",
    "warmup",
    "epochs",
    "precision",
    "history_every",
    "spectrum_every",
)
# The bound the appendix calls "normalised abs integral bound": its text does not say which of the
# table's rows that is; the total with the half-period bound is the paper's best, and the one it
# divides by the naive bound elsewhere.
BOUND = "total_abs_bound_half"
# Another name of models_all_neuron_frequencies_match.
SAID_TWICE = "good_models"


@dataclass(frozen=True)
class KeyCounts:
    """How many models have 2, 3, … key frequencies (figure `nfreqcountmul`)."""

    ours: dict[int, int]
    paper: dict[int, int]
    verdict: Verdict
    why: str
    tested: Tested | None = None

    @property
    def intervals(self) -> dict[int, Interval]:
        """Wilson's, as counts among our models."""
        of = sum(self.ours.values())
        shares = {k: wilson(count, of) or (0.0, 1.0) for k, count in self.ours.items()}
        return {k: (low * of, high * of) for k, (low, high) in shares.items()}

    def to_dict(self) -> dict[str, Any]:
        """The JSON view."""
        counts: dict[str, dict[int, Any]] = {
            "ours": self.ours,
            "ci95": self.intervals,
            "paper": self.paper,
        }
        named = {
            name: {str(k): value for k, value in many.items()} for name, many in counts.items()
        }
        return {
            **named,
            **(self.tested.to_dict() if self.tested else {}),
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
    """

    models: int
    settings: str
    statements: tuple[Statement, ...]
    key_counts: KeyCounts
    histograms: tuple[HistogramComparison, ...]

    @property
    def tests(self) -> tuple[Tested, ...]:
        """One for each comparison that could have come out either way."""
        stated = [statement.tested for statement in self.statements if statement.name != SAID_TWICE]
        rows = (
            *stated,
            self.key_counts.tested,
            *(histogram.tested for histogram in self.histograms),
        )
        return tuple(tested for tested in rows if tested is not None)

    def tally(self) -> str:
        """How many of the comparisons differ, one by one and taken together."""
        tests = self.tests
        alone = sum(test.verdict == "differs" for test in tests)
        together = sum(test.p_holm is not None and test.p_holm < 0.05 for test in tests)
        return (
            f"Of {len(tests)} comparisons that could have come out either way {len(tests) - alone} "
            f"agree and {alone} "
            f"differ at 95 %, {together} of these also after Holm's correction for all "
            f"{len(tests)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON view: names as in published.json's `population`."""
        bars = {histogram.name: histogram.to_dict() for histogram in self.histograms}
        frequencies = "neurons_per_frequency_1_to_29"
        return {
            **{statement.name: statement.to_dict() for statement in self.statements},
            "number_of_key_frequencies": self.key_counts.to_dict(),
            frequencies: bars.pop(frequencies),
            "histograms": bars,
            "tally": self.tally(),
            "settings": self.settings,
        }


Row = TypeVar("Row", Statement, KeyCounts, HistogramComparison)


def compare(
    frame: "polars.DataFrame", rng: np.random.Generator | None = None, *, of_any_kind: bool = False
) -> Comparison:
    """Compare a dataset with the paper.

    Args:
        frame: One row per model (`dataset.read`).
        rng: For the bootstrap; a generator seeded with 0 when None.
        of_any_kind: Give verdicts also on models that are not of the paper's kind, to see what
            another setting does.
    """
    rng = rng or np.random.default_rng(0)
    reason = None if of_any_kind else why_not_comparable(frame)
    good = frame.filter(frame["good_model"])
    made = Comparison(
        models=len(frame),
        settings=", ".join(f"{name} {_values(frame, name)}" for name in ("p", "d_mlp", "epochs")),
        statements=(
            *_of_models(frame, good),
            _of_skip(frame, rng),
            *_of_pairs(good, rng),
            _of_neurons(frame, rng),
        ),
        key_counts=_key_counts(frame, rng),
        histograms=compare_histograms(frame, good, all_four_small(), rng),
    )
    return _corrected(made) if reason is None else _not_compared(made, reason)


def why_not_comparable(frame: "polars.DataFrame") -> str | None:
    """Why these models are not of the paper's kind; None when they are."""
    configs = [
        manifest_of(model).config
        for model in frame.select("run_id", "manifest").iter_rows(named=True)
    ]
    for name, value in dataclasses.asdict(TrainConfig()).items():
        if name in FREE_SETTINGS:
            continue
        column = name in CONFIG_COLUMNS
        values = (
            set(frame[name].drop_nulls())
            if column
            else {getattr(config, name) for config in configs}
        )
        if others := sorted(values - {value}):
            where = "in some models" if value in values else "here"
            hint = " (keep those with a condition)" if value in values and column else ""
            return f"{name} is {', '.join(map(str, others))} {where}, {value} in the paper's{hint}"
    return None


def _corrected(made: Comparison) -> Comparison:
    """Add Holm's p-values over all of the page's comparisons."""
    tests = made.tests
    whole = dict(zip(tests, holm([test.p for test in tests]), strict=True))

    def corrected(row: Row) -> Row:
        tested = row.tested
        return row if tested is None else replace(row, tested=replace(tested, p_holm=whole[tested]))

    return replace(
        made,
        statements=tuple(map(corrected, made.statements)),
        key_counts=corrected(made.key_counts),
        histograms=tuple(map(corrected, made.histograms)),
    )


def _not_compared(made: Comparison, reason: str) -> Comparison:
    """Keep our numbers and take their verdicts away."""
    none: dict[str, Any] = {"verdict": "cannot be compared", "why": reason, "tested": None}
    return replace(
        made,
        statements=tuple(replace(statement, **none) for statement in made.statements),
        key_counts=replace(made.key_counts, **none),
        histograms=tuple(replace(bars, gap=None, band=None, **none) for bars in made.histograms),
    )


def _values(frame: "polars.DataFrame", name: str) -> str:
    return ", ".join(map(str, frame[name].unique().sort().to_list()))


def all_four_small() -> "polars.Expr":
    """Whether all four errors of a cluster are below 0.1."""
    import polars as pl

    return pl.all_horizontal(
        [pl.element().struct.field(name) < 0.1 for name in FOUR_ERRORS]
    ).fill_null(False)


def measured(
    values: Sequence[np.ndarray],
    rng: np.random.Generator,
    statistic: Callable[[np.ndarray], Any] = np.mean,
    count: int = RESAMPLES,
    limits: Interval = (-np.inf, np.inf),
) -> tuple[float | None, Interval | None, int]:
    """Compute a statistic over all models, its interval, and how many models.

    The interval is from drawing models whole.

    Args:
        values: One array per model; of flags, the mean is a share.
        rng: Draws the samples.
        statistic: Of the models' arrays joined.
        count: How many samples.
        limits: What the statistic can be.
    """

    def joined(sample: np.ndarray) -> float | None:
        drawn = np.concatenate([values[i] for i in sample]) if len(sample) else np.empty(0)
        return float(statistic(drawn)) if len(drawn) else None

    n = len(values)
    return joined(np.arange(n)), bootstrap(joined, n, rng, count, limits), n


def _of_models(frame: "polars.DataFrame", good: "polars.DataFrame") -> list[Statement]:
    """Statements that count models."""
    import polars as pl

    paper, field = read_published().population.counts, pl.element().struct.field
    every, matching = "models_stated", "models_all_neuron_frequencies_match"

    def of_all_keys(condition: "polars.Expr") -> "polars.Expr":
        """Whether the condition holds for every key frequency of a model, which has some."""
        held = pl.col("clusters").list.eval(condition.fill_null(False).filter(field("key")))
        return held.list.all() & (held.list.len() > 0)

    same = "all neurons read and write the same frequency"
    # Name, words, the paper's count among which it counts, and the models for which it holds.
    rows = (
        (SAID_TWICE, same, every, pl.col("good_model")),
        (matching, same, every, pl.col("good_model")),
        (
            "models_with_1_to_9_mismatched_neurons",
            "1 to 9 neurons write another frequency than they read",
            every,
            pl.col("neurons_mismatching").is_between(1, 9),
        ),
        (
            "good_models_all_angle_r2_above_0.9",
            "good models with R² of ψ = 2φ above 0.9 for every key frequency",
            matching,
            of_all_keys(field("r2_angles") > 0.9),
        ),
        (
            "good_models_mean_interval_width_above_std",
            "good models whose interval widths have a mean above their deviation "
            "for every key frequency",
            matching,
            of_all_keys(field("interval_width_mean") > field("interval_width_std")),
        ),
    )
    n, stated = len(frame), paper[every]
    why = f"{n} here, {stated} in the paper: how many there are was chosen"
    statements = [
        Statement("models", "models trained", n, None, stated, None, None, "cannot fail", why)
    ]
    for name, words, of, holds in rows:
        models = frame if of == every else good
        count = int(models.select(holds.sum()).item())
        theirs = paper[matching if name == SAID_TWICE else name], paper[of]
        statements.append(count_statement(name, words, count, len(models), theirs))
    return statements


def _of_skip(frame: "polars.DataFrame", rng: np.random.Generator) -> Statement:
    """Compare the share that the paper says is mostly below a threshold.

    Its median over models stands beside that threshold.
    """
    name = "residual_stream_variance_share_mostly_below"
    limit = dict(read_published().population.facts)[name]
    shares = frame["residual_variance_share"].drop_nulls().to_numpy()
    n, below = len(shares), int((shares < limit).sum())
    # A stream of its own: the intervals of the other rows do not depend on this one.
    median, ci, _ = measured(list(shares[:, None]), rng.spawn(1)[0], np.median)
    tested = Tested(mostly(below, n), None) if n else None
    return Statement(
        name,
        (
            "skip connection's share of the logits' variance, median over models (the paper: "
            f"mostly below {limit})"
        ),
        median,
        ci,
        limit,
        None,
        None,
        tested.verdict if tested else "cannot be compared",
        f"{below} of {n} models are below {limit}; “mostly” is taken as more than half",
        tested,
    )


def _of_pairs(good: "polars.DataFrame", rng: np.random.Generator) -> list[Statement]:
    """Statements about (good model, key frequency) pairs; models are drawn whole."""
    import polars as pl

    paper, numbers = read_published().population.counts, dict(read_published().population.facts)
    key, small = pl.element().struct.field("key"), all_four_small()
    hits = inside(good, "clusters", small, key)
    bounds = inside(good, "clusters", pl.element().struct.field(BOUND), key & small)
    # The same bound over the cluster's own naive bound, which depends on k where k and p share a
    # factor.
    below = inside(good, "clusters", pl.element().struct.field("relative_bound") < 1, key & small)
    n, total, shares = len(good), sum(map(len, hits)), (0.0, 1.0)
    theirs, their_good = (
        paper["good_model_frequency_pairs"],
        paper["models_all_neuron_frequencies_match"],
    )
    histogram, median = (
        read_published().population.histogram("normalised_abs_integral_bound"),
        np.median,
    )
    per_model = number_statement(
        "good_model_frequency_pairs",
        "(good model, key frequency) pairs; compared per good model",
        *measured([np.array([float(len(flags))]) for flags in hits], rng),
        Printed(theirs / their_good, theirs / their_good, their_good),
    )
    _, hits_ci, _ = measured(hits, rng, limits=shares)
    naive, naive_ci, _ = measured(below, rng, limits=shares)
    counted = None if per_model.ci95 is None else (per_model.ci95[0] * n, per_model.ci95[1] * n)
    name, naive_name = "median_abs_bound_of_those_pairs", "share_of_those_bounds_below_naive"
    return [
        replace(per_model, ours=total, ci95=counted, paper=theirs),
        count_statement(
            "pairs_all_four_errors_below_0.1",
            "pairs with all four errors below 0.1",
            int(sum(flags.sum() for flags in hits)),
            total,
            (paper["pairs_all_four_errors_below_0.1"], theirs),
            ci_share=hits_ci,
        ),
        number_statement(
            name,
            "median bound of the absolute-value part, those pairs",
            *measured(bounds, rng, median),
            Printed(*as_printed(numbers[name]), their_good),
        ),
        number_statement(
            "median_abs_bound_of_the_papers_histogram",
            (
                "the same against the median of the paper's histogram of that bound "
                f"({histogram.total:g} pairs)"
            ),
            *measured(bounds, rng, median),
            Printed(*histogram.median_bin, GOOD_MODELS),
        ),
        number_statement(
            naive_name,
            "share of those bounds below the naive bound",
            naive,
            naive_ci or wilson(int(sum(flags.sum() for flags in below)), sum(map(len, below))),
            n,
            Printed(*as_printed(numbers[naive_name]), their_good),
        ),
    ]


def _of_neurons(frame: "polars.DataFrame", rng: np.random.Generator) -> Statement:
    """The statement that counts neurons."""
    import polars as pl

    multiple, role = (pl.element().struct.field(name) for name in ("secondary_multiple", "role"))
    low, high = read_published().doubled
    return number_statement(
        "share_of_neurons_with_secondary_twice_primary",
        "share of neurons whose secondary frequency is twice the primary "
        f"(the paper: {100 * low:.0f} % and {100 * high:.0f} %)",
        *measured(inside(frame, "neurons", multiple == 2, role != "dead"), rng, limits=(0.0, 1.0)),
        Printed(low, high, MODELS),
    )


def _key_counts(frame: "polars.DataFrame", rng: np.random.Generator) -> KeyCounts:
    theirs = dict(read_published().population.key_counts)
    numbers = frame["n_key_frequencies"].to_list()
    kinds = sorted({*theirs, *numbers})
    ours = {k: numbers.count(k) for k in kinds}
    p = homogeneity(np.array(list(ours.values())), np.array([theirs.get(k, 0) for k in kinds]), rng)
    sides = [
        (count, len(numbers), theirs.get(k, 0), sum(theirs.values())) for k, count in ours.items()
    ]
    shares = [
        difference(a / n, wilson(a, n) or (0.0, 1.0), b / m, wilson(b, m) or (0.0, 1.0))
        for a, n, b, m in sides
    ]
    tested = Tested(p, max(max(-low, high) for low, high in shares))
    return KeyCounts(ours, theirs, tested.verdict, "χ² test of one distribution", tested)
