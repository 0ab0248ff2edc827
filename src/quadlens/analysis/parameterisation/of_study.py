"""A network of few numbers for users, fitted to any that they have."""

from typing import TYPE_CHECKING

from quadlens.analysis.parameterisation.network import Parameterised
from quadlens.analysis.parameterisation.network import parameterise as fit
from quadlens.analysis.spectrum.of_study import study_anatomy
from quadlens.base.arguments import checked
from quadlens.network.study import study_of

if TYPE_CHECKING:
    from quadlens.network.named import ModelLike


@checked
def parameterise(
    model: "ModelLike" = "pizza",
    *,
    constant: bool = True,
    double: bool = True,
    embedding: bool = True,
) -> Parameterised:
    """Fit a network of few numbers to a trained one's weights.

    Each neuron has a frequency, an angle φ and two sizes ρ and ω; each frequency a function that
    its neurons share, and planes of the residual stream. Everything is least squares on the
    weights, and no logit is looked at (`quadlens.analysis.parameterisation` has the formulas).
    `numbers` counts all that the network is a function of.

    Args:
        model: A model of one layer with constant attention, a study, a path or the name of a
            bundled model.
        constant: Whether the neurons of a frequency share a constant.
        double: Whether they share a double wave.
        embedding: Whether a and b have amplitudes of their own.

    >>> import quadlens
    >>> small = quadlens.parameterise("pizza")
    >>> small
    Parameterised(keys=(5, 9, 11), numbers=8,210, of weights=180,411)
    >>> quadlens.evaluate(small).correct
    3481
    """
    return fit(study_of(model).once(study_anatomy), constant, double, embedding)
