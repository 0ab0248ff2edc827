"""What norms multiply by: a factor per input, beside which the rest of the network is as without them."""

from dataclasses import dataclass

from quadlens.model.evaluate import evaluate
from quadlens.model.tables import FloatTables
from quadlens.numbers import decimals


@dataclass(frozen=True)
class NormFactors:
    """What norms multiply what the last MLP, and what the unembedding reads by, over all inputs; 1 without a norm.

    Attributes:
        mlp: The smallest and the largest factor before the MLP.
        final: The same before the unembedding.
        correct: How many inputs the network answers right with both factors at their means, so that what reaches a
            neuron has no factor that depends on the input; None of several layers.
    """

    mlp: tuple[float, float]
    final: tuple[float, float]
    correct: int | None

    def sentence(self, inputs: int) -> str:
        """How far the factors vary, and what is left without that.

        >>> NormFactors((0.5, 0.7), (1.0, 1.0), 24).sentence(25)
        'A norm multiplies what neurons read by 0.500 to 0.700; with its mean for every input, 24 of 25 are right.'
        """
        read = {"what neurons read": self.mlp, "what the unembedding reads": self.final}
        ranges = [f"{what} by {decimals(low)} to {decimals(high)}" for what, (low, high) in read.items() if low < high]
        words = f"A norm multiplies {' and another '.join(ranges) or 'by one factor'}"
        if self.correct is None:
            return f"{words}."
        which = "their means" if len(ranges) > 1 else "its mean"
        return f"{words}; with {which} for every input, {self.correct:,} of {inputs:,} are right."


def norm_factors(layer: FloatTables) -> NormFactors | None:
    """The factors of a network's norms; None where it has none."""
    if layer.sizes is None:
        return None
    low, high = layer.size_table.min(axis=(1, 2)), layer.size_table.max(axis=(1, 2))
    correct = None if layer.before is not None else evaluate(layer.with_mean_gates()).correct
    return NormFactors((float(low[0]), float(high[0])), (float(low[1]), float(high[1])), correct)
