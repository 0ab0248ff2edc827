"""Every figure, in the order of the paper, then ours."""

from quadlens.errors import BadConfig
from quadlens.figures import (
    answers,
    beyond_waves,
    error_sizes,
    integrals,
    learning,
    lens,
    neurons,
    phases,
    proved,
    rectangles,
)
from quadlens.figures import population_bars as population
from quadlens.figures.picture import Family, Picture
from quadlens.studies import Study

FIGURES: tuple[Family, ...] = (
    integrals.INFINITE_WIDTH,
    rectangles.QUADRATURE,
    phases.ANGLES,
    neurons.SINGLE_FREQUENCY,
    rectangles.ERROR_BAND,
    rectangles.OVERLAP,
    phases.HARMONIC_PHASES,
    integrals.INTEGRATION_3D,
    integrals.INTEGRATED_RELU,
    neurons.FREQCOUNT,
    population.COUNTS,
    answers.RESIDUAL,
    population.HISTOGRAMS,
    phases.PRIMSECFREQ,
    answers.TASK,
    beyond_waves.GATES,
    beyond_waves.IRREPS,
    answers.ALGORITHM,
    neurons.NEURON,
    error_sizes.EXACT_ERROR,
    error_sizes.MOMENTS,
    error_sizes.ERROR_WATERFALL,
    answers.SECONDARY_REPAIR,
    lens.SHARED_FUNCTION,
    lens.WAVE_CONTENT,
    lens.STRENGTH,
    lens.CHAIN_NODES,
    lens.INTEGRAL_LOGITS,
    proved.FRONTIER,
    proved.LOGIT_WATERFALL,
    learning.LEARNING_CURVE,
    learning.FREQUENCIES_OVER_TRAINING,
)


def families_of(names: list[str]) -> tuple[Family, ...]:
    """The families that pictures of these names come from, before anything is computed.

    Raises:
        BadConfig: for a name that no model has a figure of, with all the names there are.
    """
    for name in names:
        if not any(family.makes(name) for family in FIGURES):
            known = {text for family in FIGURES for text in (family.name, *family.names) if ":" not in text}
            listed = ", ".join(sorted(known))
            raise BadConfig(f"no figure is named {name!r}; there are (with K a key frequency): {listed}")
    return tuple(family for family in FIGURES if any(family.makes(name) for name in names))


def needs_proofs(names: list[str]) -> bool:
    """Whether a picture with one of these names draws proofs."""
    return any(family.needs_proofs for family in families_of(names))


def pictures_by_family(study: Study) -> dict[str, tuple[Picture, ...]]:
    """Every family's name with the pictures it has for this model; () where the model has none."""
    return {family.name: family.of(study) for family in FIGURES}


def all_pictures(study: Study) -> tuple[Picture, ...]:
    """Every picture of this model, the paper's first."""
    return tuple(picture for family in FIGURES for picture in family.of(study))


def pictures_without_proofs(study: Study) -> tuple[Picture, ...]:
    """Those that do not draw proofs: nothing is proved for them."""
    return tuple(picture for family in FIGURES if not family.needs_proofs for picture in family.of(study))


def chosen_pictures(study: Study, names: list[str]) -> tuple[Picture, ...]:
    """Pictures by file name, by the paper's label, or by family (`quadrature`: all of them); order as asked, each once.

    Raises:
        BadConfig: for a name that this model has no picture of.
    """
    drawn = {family.name: family.of(study) for family in families_of(names)}
    every, chosen = [picture for many in drawn.values() for picture in many], []
    for name in names:
        found = [one for one in every if name in (one.name, one.label)] or list(drawn.get(name, ()))
        if not found:
            raise BadConfig(f"no figure of this model is named {name}; there are: {_names_of(study)}")
        chosen += [one for one in found if one not in chosen]
    return tuple(chosen)


def _names_of(study: Study) -> str:
    """Every name this model has a picture of; proofs are not run for it, their figures are there all the same."""
    drawn = {family.name: family.of(study) for family in FIGURES if not family.needs_proofs}
    names = {name for name, many in drawn.items() if many} | {one.name for many in drawn.values() for one in many}
    return ", ".join(sorted(names | {family.name for family in FIGURES if family.needs_proofs}))
