"""Every figure, in the order of the paper, then ours."""

import re
from types import ModuleType

from quadlens.errors import BadConfig
from quadlens.figures import (
    algorithm,
    angles,
    error_band,
    exact_error,
    freqcount,
    frequencies_over_training,
    frontier,
    harmonic_phases,
    infinite_width,
    integrated_relu,
    integration_3d,
    learning_curve,
    logit_waterfall,
    moments,
    neuron,
    overlap,
    population_counts,
    population_histograms,
    primsecfreq,
    quadrature,
    repair,
    residual,
    single_frequency,
    task,
    waterfall,
)
from quadlens.figures.picture import Picture
from quadlens.studies import Results

PAPER: tuple[ModuleType, ...] = (
    infinite_width,
    quadrature,
    angles,
    single_frequency,
    error_band,
    overlap,
    harmonic_phases,
    integration_3d,
    integrated_relu,
    freqcount,
    population_counts,
    residual,
    population_histograms,
    primsecfreq,
)
OURS: tuple[ModuleType, ...] = (
    task,
    algorithm,
    neuron,
    exact_error,
    moments,
    waterfall,
    repair,
    frontier,
    logit_waterfall,
    learning_curve,
    frequencies_over_training,
)
# File names and labels of the paper that are not their module's; K stands for a frequency.
OTHER_NAMES: tuple[str, ...] = (
    *("quadrature-K", "quadrature-half-K", "quadrature:K:-", "quadrature:K:-half-"),
    *("angles-K", "angles:K"),
    *("quadrature-K-with-error", "quadrature-half-K-with-error", "error:K:-", "error:K:-half-"),
    *("secondary-phi-twice-primary", "tertiary-phi-thrice-primary", "quaternary-phi-vs-primary"),
    "integrated-relu-K",
    *("nfreqcountmul", "freqcountmul"),
    *("freqstrengthmul", "uoutstrengthmul", "nibound", "primsecr2"),
)


def check_names(names: list[str]) -> None:
    """Refuse a name that no model has a figure of, before anything is computed.

    Raises:
        BadConfig: with all the names there are.
    """
    known = [*(module.NAME for module in PAPER + OURS), *OTHER_NAMES]
    for name in names:
        if name not in known and re.sub(r"\d+", "K", name) not in known:
            listed = ", ".join(sorted(one for one in known if ":" not in one))
            raise BadConfig(f"no figure is named {name!r}; there are (with K a key frequency): {listed}")


def pictures_by_module(results: Results) -> dict[str, tuple[Picture, ...]]:
    """Every module's NAME with the pictures it has for this model; () where the model has none."""
    return {module.NAME: module.pictures(results) for module in PAPER + OURS}


def all_pictures(results: Results) -> tuple[Picture, ...]:
    """Every picture of this model, the paper's first."""
    return tuple(picture for many in pictures_by_module(results).values() for picture in many)


def needs_proofs(names: list[str]) -> bool:
    """Whether a picture with one of these names is of a module that draws proofs (it says NEEDS_PROOFS = True)."""
    return any(getattr(module, "NEEDS_PROOFS", False) and module.NAME in names for module in PAPER + OURS)


def chosen_pictures(results: Results, names: list[str]) -> tuple[Picture, ...]:
    """Pictures by file name, by the paper's label, or by family (`quadrature`: all of them); order as asked, each once.

    Raises:
        BadConfig: for a name that this model has no picture of.
    """
    families, chosen = pictures_by_module(results), []
    every = [picture for many in families.values() for picture in many]
    for name in names:
        found = [one for one in every if name in (one.name, one.label)] or list(families.get(name, ()))
        if not found:
            drawn = {*(one.name for one in every), *(family for family, many in families.items() if many)}
            # Proofs are not run for a name that does not need them; their figures are there all the same.
            proofs = {module.NAME for module in PAPER + OURS if getattr(module, "NEEDS_PROOFS", False)}
            known = ", ".join(sorted(drawn | proofs))
            raise BadConfig(f"no figure of this model is named {name}; there are: {known}")
        chosen += [one for one in found if one not in chosen]
    return tuple(chosen)
