"""The lens of a study, and the verdict on integrals that pages and captions speak by."""

from typing import TYPE_CHECKING

from quadlens.analysis.infinite_width.lens import Lens
from quadlens.analysis.infinite_width.lens import lens as lens_of
from quadlens.analysis.integration import Integration
from quadlens.analysis.spectrum.of_study import layer_of
from quadlens.base.arguments import checked
from quadlens.base.errors import BadConfig, BadWeights, within_float64
from quadlens.network.study import Study, study_of

if TYPE_CHECKING:
    from quadlens.network.named import ModelLike


@checked
def lens(model: "ModelLike" = "pizza") -> Lens:
    """Read the hidden layer as integrals, one per frequency, of infinitely many neurons.

    Works for every activation, every attention, and every task that is addition under other names.
    Page `lens` of the documentation says what is measured.

    >>> import quadlens
    >>> quadlens.lens("pizza")
    Lens(n=59, relu, keys=[5, 9, 11], shared=0.9967, integrates=True, answers_right=100.0 %)
    """
    return study_of(model).once(whole_lens)


def whole_lens(study: Study) -> Lens:
    """The lens of a study; an error where there can be none."""
    with within_float64("the lens"):
        return lens_of(layer_of(study), sum(tensor.size for tensor in study.model.tensors.values()))


def no_lens(study: Study) -> str | None:
    """Why there is no integral, as the end of a sentence; None where there is one."""
    try:
        return (
            None
            if study.once(whole_lens).clusters
            else "no neuron reads and writes the same frequency"
        )
    except (BadConfig, BadWeights) as error:
        return str(error)


def lens_if_any(study: Study) -> Lens | None:
    """Return the lens, or None where there can be none.

    That is a task that is not cyclic, too many inputs, or numbers beyond float64.
    """
    return study.once(whole_lens) if study.once(no_lens) is None else None


def integration_of(study: Study) -> Integration:
    """Whether the hidden layer computes integrals: report, explorer and captions speak by it."""
    study_lens = study.once(lens_if_any)
    return Integration() if study_lens is None else study_lens.integration
