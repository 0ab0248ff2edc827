"""Inaccurate rules, cluster sizes and doubled keys: the 151 models and the 50 registered ones.

    python experiments/few_neurons.py       # the tables of docs/population.md

A rule is inaccurate if its `relative_exact` is above 10 % (`registered/2_doubled_keys.md`).
The analysis was made after the registered one, so it is no confirmation of anything.
"""

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl
from scipy import stats

from data import Measured, measured_models
from quadlens.analysis.spectrum.harmonics import doubled
from quadlens.base.table import Table
from quadlens.training.population.dataset import read, shipped_path

INACCURATE = 0.1
# A doubled key of the registered score counts as one more key, a tripled key as half of one.
DOUBLED, TRIPLED = 1.0, 0.5
REGISTERED_EPOCHS = 10_000
SIZES = (1, 90, 120, 160, math.inf)


@dataclass(frozen=True)
class Rule:
    """The quadrature rule of one key frequency.

    Attributes:
        k: The key frequency.
        neurons: The size of its cluster.
        error: Exact error over the integral's mean size, with output phases 2φ.
        paired: Whether another key is twice or half of k (mod p, folded).
    """

    k: int
    neurons: int
    error: float
    paired: bool

    @property
    def inaccurate(self) -> bool:
        """Whether the error is above 10 %."""
        return self.error > INACCURATE


@dataclass(frozen=True)
class Model:
    """The key frequencies of one model and their rules."""

    p: int
    keys: frozenset[int]
    rules: tuple[Rule, ...]

    @property
    def inaccurate(self) -> bool:
        """Whether a rule is inaccurate."""
        return any(rule.inaccurate for rule in self.rules)

    @property
    def has_double(self) -> bool:
        """Whether a key is twice another."""
        return any(doubled(k, self.p) in self.keys - {k} for k in self.keys)

    @property
    def registered_score(self) -> float:
        """The score of the registered test 2a."""
        tripled = any(min(3 * k % self.p, -3 * k % self.p) in self.keys - {k} for k in self.keys)
        return len(self.keys) + DOUBLED * self.has_double + TRIPLED * tripled


def model_of(p: int, keys: Iterable[int], rows: Iterable[tuple[int, int, float | None]]) -> Model:
    """Make a model from its key frequencies and (k, neurons, error) of its clusters."""
    found = frozenset(keys)

    def paired(k: int) -> bool:
        return any(doubled(k, p) == other or doubled(other, p) == k for other in found - {k})

    rules = [
        Rule(k, neurons, error, paired(k))
        for k, neurons, error in rows
        if k in found and error is not None
    ]
    return Model(p, found, tuple(rules))


def population_models(frame: pl.DataFrame) -> list[Model]:
    """Return the models of a sweep's dataset."""
    return [
        model_of(
            row["p"],
            row["key_frequencies"],
            [(one["k"], one["neurons"], one["relative_exact"]) for one in row["clusters"]],
        )
        for row in frame.select("p", "key_frequencies", "clusters").iter_rows(named=True)
    ]


def registered_models() -> list[Model]:
    """Return the 50 models that the registered tests are about: those of 10,000 epochs."""
    found = measured_models(2)
    return [of_measured(one) for one in found if one.values["epochs"] == REGISTERED_EPOCHS]


def of_measured(one: Measured) -> Model:
    """Return a model of `experiments/data`."""
    rows = [(row["k"], row["neurons"], row["relative_exact"]) for row in one.values["rules"]]
    return model_of(one.values["p"], one.values["key_frequencies"], rows)


def auc(scores: Sequence[float], outcome: Sequence[bool]) -> float:
    """Return how often a score with the outcome is above one without it, ties counting half."""
    ranks, positive = stats.rankdata(scores), np.array(outcome)
    count = int(positive.sum())
    below = ranks[positive].sum() - count * (count + 1) / 2
    return float(below / (count * (len(positive) - count)))


def mantel_haenszel(
    exposed: Sequence[bool], outcome: Sequence[bool], strata: Sequence[float]
) -> float:
    """Return z of exposure against outcome within strata, without continuity correction."""
    difference = variance = 0.0
    for stratum in set(strata):
        rows = [(x, y) for x, y, at in zip(exposed, outcome, strata, strict=True) if at == stratum]
        n, with_x, with_y = len(rows), sum(x for x, _ in rows), sum(y for _, y in rows)
        if n > 1:
            difference += sum(x and y for x, y in rows) - with_x * with_y / n
            variance += with_x * (n - with_x) * with_y * (n - with_y) / (n * n * (n - 1))
    return difference / math.sqrt(variance)


@dataclass(frozen=True)
class Finding:
    """What goes with inaccurate models and inaccurate rules in one set of models.

    Attributes:
        score: AUC of the registered score, over models.
        keys: AUC of the number of keys alone.
        double: AUC of a doubled key alone.
        double_given_keys: Mantel–Haenszel z of a doubled key given the number of keys.
        few_neurons: AUC of a small cluster, over rules.
        pair: AUC of a rule that is one of a doubled pair.
    """

    score: float
    keys: float
    double: float
    double_given_keys: float
    few_neurons: float
    pair: float


def finding(models: Sequence[Model]) -> Finding:
    """Return every measure of these models."""
    bad, double = [one.inaccurate for one in models], [one.has_double for one in models]
    rules = [rule for one in models for rule in one.rules]
    bad_rules, keys = [rule.inaccurate for rule in rules], [len(one.keys) for one in models]
    return Finding(
        score=auc([one.registered_score for one in models], bad),
        keys=auc(keys, bad),
        double=auc(double, bad),
        double_given_keys=mantel_haenszel(double, bad, keys),
        few_neurons=auc([-rule.neurons for rule in rules], bad_rules),
        pair=auc([rule.paired for rule in rules], bad_rules),
    )


def share(models: Sequence[Model], belongs: Callable[[Model], bool]) -> str:
    """Return how many of some models are inaccurate, of how many."""
    some = [one for one in models if belongs(one)]
    return f"{sum(one.inaccurate for one in some)} of {len(some)}"


def paired_share(models: Sequence[Model], limit: float) -> str:
    """Return how many of the rules with an error above a limit are in a doubled pair."""
    some = [rule.paired for one in models for rule in one.rules if rule.error > limit]
    return f"{sum(some)} of {len(some)}"


def measures_table(sets: dict[str, Sequence[Model]]) -> Table:
    """Make the table of measures, a column for each set of models."""
    found = {name: finding(models) for name, models in sets.items()}
    kinds: dict[str, Callable[[Model], bool]] = {
        "inaccurate models": lambda one: True,
        "… with a doubled key": lambda one: one.has_double,
        "… without": lambda one: not one.has_double,
    }
    rows = [
        *(
            (words, *(share(models, belongs) for models in sets.values()))
            for words, belongs in kinds.items()
        ),
        *(
            (words, *(f"{getattr(one, name):.{digits}f}" for one in found.values()))
            for words, name, digits in (
                ("AUC over models: registered score", "score", 3),
                ("AUC over models: number of keys", "keys", 3),
                ("AUC over models: a doubled key", "double", 3),
                ("z of a doubled key, given the number of keys", "double_given_keys", 2),
                ("AUC over rules: few neurons", "few_neurons", 3),
                ("AUC over rules: in a doubled pair", "pair", 3),
            )
        ),
        *(
            (
                f"rules off by more than {limit:.0%}, in a doubled pair".replace("%", " %"),
                *(paired_share(models, limit) for models in sets.values()),
            )
            for limit in (0.3, 1.0)
        ),
    ]
    return Table("", ("", *sets), rows)


def sizes_table(sets: dict[str, Sequence[Model]]) -> Table:
    """Make the table of inaccurate rules by number of neurons, in a doubled pair and not."""
    rows = []
    for low, high in pairwise(SIZES):
        words = f"{low:g} – {high - 1:g}" if math.isfinite(high) else f"{low:g} or more"
        cells = []
        for models in sets.values():
            rules = [rule for one in models for rule in one.rules if low <= rule.neurons < high]
            for paired in (True, False):
                some = [rule.inaccurate for rule in rules if rule.paired == paired]
                cells.append(f"{sum(some)} of {len(some)}")
        rows.append((words, *cells))
    header = [f"{name}, {kind}" for name in sets for kind in ("in a pair", "not")]
    return Table("", ("neurons", *header), rows)


def page() -> str:
    """Return both tables as Markdown."""
    sets: dict[str, Sequence[Model]] = {
        "the 151": population_models(read(shipped_path())),
        "50 registered": registered_models(),
    }
    return "\n\n".join(table(sets).to_markdown() for table in (measures_table, sizes_table))


if __name__ == "__main__":
    sys.stdout.write(page() + "\n")
