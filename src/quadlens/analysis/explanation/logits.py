"""The part of an explanation that needs a pass over all logits: what they are made of."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from quadlens.analysis.columns import MAX_ROWS, Column, as_dict, as_table
from quadlens.analysis.logits import (
    AlgorithmMeasures,
    ClockPizzaTable,
    ClosedForms,
    IdentityComponent,
    IdentityMatrix,
    LogitParts,
    WeakSpot,
    algorithm_measures,
    clock_pizza,
    closed_forms,
    identity_component,
    logit_parts,
    weak_spots,
)
from quadlens.analysis.spectrum import Anatomy
from quadlens.base.display import Displayed
from quadlens.base.numbers import decimals
from quadlens.base.table import Table

LOGIT_KEYS = (
    *("correct", "residual_variance_share", "r2", "coefficients"),
    *("closed_form", "identity", "weak_spots", "algorithm"),
)
WAVES_LISTED = 8
hundredths = partial(decimals, digits=2)


class KeyRow(NamedTuple):
    """One key frequency: its coefficients, and where it is weakest."""

    spot: WeakSpot
    C: float
    D: float
    C_fitted: float
    D_fitted: float


COEFFICIENTS = (
    Column("", "spot.k", "k"),
    Column("C", "", "C", hundredths),
    Column("D", "", "D", hundredths),
    Column("C_fitted", "", "fitted C", hundredths),
    Column("D_fitted", "", "fitted D", hundredths),
    Column("", "spot.where", "a-b"),
    Column("", "spot.cos_u", "|cos\N{NO-BREAK SPACE}u|", decimals),
    Column("", "spot.abs_component", "abs part", hundredths),
    Column("", "spot.identity_component", "identity part", hundredths),
    Column("", "spot.all_logits", "all", hundredths),
)
FORMS = (Column("r2"), Column("correct"), Column("inputs"), Column("min_margin"))
# What a model has of these, by their names in JSON.
PART_NAMES = {
    "all_logits": "all logits",
    "abs_component": "absolute-value component",
    "mlp_output": "MLP output",
}
FORM_NAMES = {
    "by_parts": "two-term form, by parts",
    "fitted": "two-term form, fitted",
    "pizza_only": "pizza form (D = 0)",
}


@dataclass(frozen=True, eq=False, repr=False)
class LogitExplanation(Displayed):
    """What the logits are made of.

    Attributes:
        parts: Variance and profile over a - b of each part of the logits.
        r2: Regressions on clock and pizza factors.
        forms: The two-term form, with coefficients found in three ways.
        identity: The identity component as p × p matrices.
        weak_spots: For each key, where |cos u| is smallest.
        algorithm: The measures of Zhong et al.
    """

    parts: LogitParts
    r2: ClockPizzaTable
    forms: ClosedForms
    identity: IdentityComponent
    weak_spots: tuple[WeakSpot, ...]
    algorithm: AlgorithmMeasures

    def _facts(self) -> dict[str, object]:
        both = {"all logits": self.r2.all_logits, "absolute part": self.r2.abs_component}
        words = {name: {"pizza": fit.pizza, "clock": fit.clock} for name, fit in both.items()}
        return {
            f"R² of {name}": ", ".join(
                f"{form} {'none' if r2 is None else f'{r2:.4f}'}" for form, r2 in forms.items()
            )
            for name, forms in words.items()
        }

    @property
    def skip_share(self) -> float | None:
        """Share of the logits' variance that passes by the neurons (figure `residual`)."""
        total = self.parts.all_logits.variance
        return self.parts.skip.variance / total if total > 0 else None

    @property
    def rows(self) -> list[KeyRow]:
        """One row per key frequency."""
        forms = (
            self.forms.by_parts.C,
            self.forms.by_parts.D,
            self.forms.fitted.C,
            self.forms.fitted.D,
        )
        return [
            KeyRow(*row)
            for row in zip(self.weak_spots, *(values.tolist() for values in forms), strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the logits' part of `quadlens explain --json`."""
        return {
            "correct": self.parts.correct,
            "residual_variance_share": self.skip_share,
            "r2": dataclasses.asdict(self.r2),
            "coefficients": {str(row.spot.k): as_dict(COEFFICIENTS, row) for row in self.rows},
            "closed_form": {key: as_dict(FORMS, getattr(self.forms, key)) for key in FORM_NAMES},
            "identity": {
                "of_a": _identity(self.identity.of_a),
                "of_b": _identity(self.identity.of_b),
            },
            "weak_spots": [dataclasses.asdict(spot) for spot in self.weak_spots],
            "algorithm": self.algorithm.to_dict(),
        }

    def tables(self) -> Iterator[Table]:
        """Regressions, and coefficients where there are key frequencies."""
        fits = {
            name: dataclasses.astuple(getattr(self.r2, key)) for key, name in PART_NAMES.items()
        }
        rows = [(name, *map(decimals, r2)) for name, r2 in fits.items()]
        yield Table(
            "R² of the logits against", ("part", "pizza", "clock", "pizza + secondary"), rows
        )
        title = "Two-term form Σ_k (C|cos u| + D cos 2u) cos(kw(a+b-c)), and smallest |cos u|"
        if self.rows:
            yield as_table(title, COEFFICIENTS, self.rows[:MAX_ROWS])

    def measures(self) -> Table:
        """Make a table of the forms' quality and of measures that tell algorithms apart."""
        forms = {name: getattr(self.forms, key) for key, name in FORM_NAMES.items()}
        identity, measures = self.identity, self.algorithm
        passes_by = "output bias'" if self.parts.skip_is_bias else "skip connection's"
        rows = {
            **{
                name: f"R² {decimals(form.r2)}, {form.correct} of {form.inputs} inputs right"
                for name, form in forms.items()
            },
            **(
                {f"{passes_by} share of variance": decimals(self.skip_share, 4)}
                if self.skip_share
                else {}
            ),
            "identity part held by c-2a, c-2b": (
                f"{decimals(identity.of_a.share)}, {decimals(identity.of_b.share)}"
            ),
            "gradient symmetricity": (
                f"{decimals(measures.gradient_symmetricity)} (pizza 0.994, clock 0.334)"
            ),
            "distance irrelevance": (
                f"{decimals(measures.distance_irrelevance)} (pizza 0.17, clock 0.85)"
            ),
            "circularity": decimals(measures.circularity, 4),
        }
        return Table("Measures", ("measure", "value"), tuple(rows.items()), left=(0, 1))


def explain_logits(anatomy: Anatomy, rng: np.random.Generator | None) -> LogitExplanation:
    """Explain the logits in one pass over them, then by tables of |K| × p numbers.

    `rng` draws the triples of gradient symmetricity.
    """
    collapsed, keys = anatomy.collapsed, anatomy.key_frequencies
    shifts = {cluster.k: cluster.common_shift for cluster in anatomy.clusters}
    parts = logit_parts(collapsed, keys, tuple(shifts[k] for k in keys))
    forms = closed_forms(parts)
    return LogitExplanation(
        parts=parts,
        r2=clock_pizza(parts),
        forms=forms,
        identity=identity_component(collapsed, keys),
        weak_spots=weak_spots(parts, forms.by_parts),
        algorithm=algorithm_measures(anatomy.model, parts.correct_logit, rng),
    )


def _identity(half: IdentityMatrix) -> dict[str, Any]:
    return {
        "D": {str(k): D for k, D in zip(half.keys, half.D.tolist(), strict=True)},
        "E": {str(k): E for k, E in zip(half.keys, half.E.tolist(), strict=True)},
        "variance_share": half.share,
        "largest_waves": [
            {"k_c": k, "k_token": k_token, "amplitude": amplitude, "phase": phase}
            for k, k_token, amplitude, phase in half.largest_waves(WAVES_LISTED)
        ],
    }
