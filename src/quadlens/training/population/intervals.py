"""Intervals of 95 %: Wilson's for shares, the bootstrap for everything else.

Wilson's is for independent models; the bootstrap draws models whole.
"""

import math
import warnings
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int

# The 97.5 % point of the normal distribution.
Z = 1.959963984540054
RESAMPLES = 2000
# Fewer models say too little about how models scatter.
MIN_MODELS = 5

Interval = tuple[float, float]


def wilson(count: int, of: int) -> Interval | None:
    """Wilson's score interval of a share count/of; None where there is nothing to count."""
    from scipy.stats import binomtest

    if of == 0:
        return None
    interval = binomtest(count, of).proportion_ci(method="wilson")
    # At 0 and 1 the ends are exact; rounding must not put the share outside.
    return min(float(interval.low), count / of), max(float(interval.high), count / of)


def difference(ours: float, ci: Interval, paper: float, paper_ci: Interval) -> Interval:
    """Compute Newcombe's interval of the difference of two independent shares."""
    gap = ours - paper
    low = math.hypot(ours - ci[0], paper_ci[1] - paper)
    high = math.hypot(ci[1] - ours, paper - paper_ci[0])
    return gap - low, gap + high


def p_value(gap: float, reach: float) -> float:
    """Compute the two-sided p-value of a gap, its error taken as normal.

    Its 95 % interval has its end so far (`reach`) from the gap towards 0.
    """
    if gap == 0:
        return 1.0
    return math.erfc(Z * abs(gap) / reach / math.sqrt(2)) if reach > 0 else 0.0


def mostly(count: int, of: int) -> float:
    """P-value of "more than half": of so few, or fewer, if it were half."""
    from scipy.stats import binomtest

    return float(binomtest(count, of, alternative="less").pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values by Holm.

    At 0.05, of any number of true hypotheses one is rejected with a chance of at most 0.05.

    >>> holm([0.04, 0.01, 0.03])
    [0.06, 0.03, 0.06]
    """
    adjusted, largest = [1.0] * len(p_values), 0.0
    for place, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def both_scatter(models: int, paper_models: int) -> float:
    """Widen our interval for a difference by √(1 + n/m).

    The paper's m models scatter as our n do.
    """
    return math.sqrt(1 + models / paper_models)


def as_clustered(
    paper: float, paper_ci: Interval, ours_ci: Interval, ours_independent: Interval
) -> Interval:
    """Compute the paper's interval of a share that is counted inside models.

    What is inside one model is not independent.

    Args:
        paper: Its share.
        paper_ci: The interval it would have if all were independent.
        ours_ci: Our interval from drawing whole models.
        ours_independent: Ours if all were independent; the ratio of the two widths is taken for the
            paper's too.
    """
    factor = max(1.0, (ours_ci[1] - ours_ci[0]) / (ours_independent[1] - ours_independent[0]))
    return max(0.0, paper - factor * (paper - paper_ci[0])), min(
        1.0, paper + factor * (paper_ci[1] - paper)
    )


def small_sample_factor(models: int) -> float:
    """Widen an interval from few models: Student's t over the normal, and n - 1."""
    from scipy.special import stdtrit

    return float(stdtrit(models - 1, 0.975)) / Z * math.sqrt(models / (models - 1))


def bootstrap(
    statistic: Callable[[np.ndarray], float | None],
    models: int,
    rng: np.random.Generator,
    count: int = RESAMPLES,
    limits: Interval = (-math.inf, math.inf),
) -> Interval | None:
    """Compute the percentile interval of a statistic of a set of models.

    Models are drawn whole, so what is inside one may depend.

    Args:
        statistic: Takes indices of models (with repetitions); None where it has no value.
        models: How many there are; fewer than five have no interval, nor have models that are all
            alike.
        rng: Draws the samples.
        count: How many samples.
        limits: What the statistic can be.
    """
    from scipy import stats

    middle = statistic(np.arange(models)) if models >= MIN_MODELS else None
    if middle is None:
        return None

    def value(sample: np.ndarray) -> float:
        of_sample = statistic(sample)
        return math.nan if of_sample is None else of_sample

    with warnings.catch_warnings():  # samples without a value are left out below
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        drawn = stats.bootstrap(
            (np.arange(models),),
            value,
            vectorized=False,
            n_resamples=count,
            method="percentile",
            rng=rng,
        ).bootstrap_distribution
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    if low == high:
        return None
    factor = small_sample_factor(models)
    ends = middle - factor * (middle - float(low)), middle + factor * (float(high) - middle)
    return min(max(limits[0], ends[0]), middle), max(min(limits[1], ends[1]), middle)


def cumulative_gap(
    ours: Float[np.ndarray, "models bins"], paper: Float[np.ndarray, " bins"]
) -> tuple[float, Float[np.ndarray, " bins"]]:
    """Find the largest difference of two histograms' cumulative shares, and all.

    Rows of `ours` are models.
    """
    total = ours.sum(axis=0)
    gaps = np.cumsum(total) / total.sum() - np.cumsum(paper) / paper.sum()
    return float(np.abs(gaps).max()), gaps


def cumulative_distances(
    ours: Float[np.ndarray, "models bins"],
    paper_models: int,
    rng: np.random.Generator,
    count: int = RESAMPLES,
) -> Float[np.ndarray, " samples"]:
    """Sample how far two histograms of one kind of models are apart by chance.

    This needs `MIN_MODELS` of them.

    The bootstrap distribution of sup |F* - F| over models, times `both_scatter` and
    `small_sample_factor`.
    """
    models = len(ours)
    total = ours.sum(axis=0)
    curve = np.cumsum(total) / total.sum()
    weights = np.stack(
        [
            np.bincount(sample, minlength=models)
            for sample in rng.integers(0, models, size=(count, models))
        ]
    )
    sums = weights.astype(float) @ ours
    sums = sums[sums.sum(axis=1) > 0]
    curves = np.cumsum(sums, axis=1) / sums.sum(axis=1, keepdims=True)
    distance = np.abs(curves - curve).max(axis=1)
    return distance * (small_sample_factor(models) * both_scatter(models, paper_models))


def homogeneity(
    ours: Int[np.ndarray, " kinds"],
    paper: Int[np.ndarray, " kinds"],
    rng: np.random.Generator,
    count: int = 4999,
) -> float:
    """Simulate the p-value of Pearson's χ² that two counts have one distribution.

    Counts may be small.
    """
    from scipy import stats

    table = np.stack([ours, paper])
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] < 2 or not table.sum(axis=1).all():
        return 1.0
    method = stats.MonteCarloMethod(n_resamples=count, rng=rng)
    return float(stats.chi2_contingency(table, correction=False, method=method).pvalue)
