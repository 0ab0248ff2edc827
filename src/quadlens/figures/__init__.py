"""Every figure as a function: `quadlens.figures.NAME(study, …, ax=None)` draws one and returns its matplotlib figure.

The first argument is a study, a model, a path or the name of a bundled model. Without `ax` a new figure is made in our
look; with `ax` the drawing goes on the caller's axes, in the caller's look. A figure of several panels takes a sequence
of axes, one per panel, or a Figure or SubFigure to make them in. Neither the backend nor rcParams change.

    >>> import quadlens.figures
    >>> figure = quadlens.figures.quadrature("mainline", k=5)
    >>> figure.axes[0].get_title(loc="left")
    'k = 5: area of 176 rectangles 1.3477, integral 1.3333'
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadlens.figures.answers import algorithm, residual, secondary_repair, task
    from quadlens.figures.beyond_waves import gates, irreps
    from quadlens.figures.error_sizes import error_waterfall, exact_error, moments
    from quadlens.figures.integrals import infinite_width, integrated_relu, integration_3d
    from quadlens.figures.learning import frequencies_over_training, learning_curve
    from quadlens.figures.lens import chain_nodes, integral_logits, shared_function, strength, wave_content
    from quadlens.figures.neurons import freqcount, neuron, single_frequency
    from quadlens.figures.phases import angles, harmonic_phases, primsecfreq
    from quadlens.figures.population_bars import population_counts, population_histograms
    from quadlens.figures.proved import frontier, logit_waterfall
    from quadlens.figures.rectangles import error_band, overlap, quadrature

__all__ = [
    "algorithm",
    "angles",
    "chain_nodes",
    "error_band",
    "error_waterfall",
    "exact_error",
    "freqcount",
    "frequencies_over_training",
    "frontier",
    "gates",
    "harmonic_phases",
    "infinite_width",
    "integral_logits",
    "integrated_relu",
    "integration_3d",
    "irreps",
    "learning_curve",
    "logit_waterfall",
    "moments",
    "neuron",
    "overlap",
    "population_counts",
    "population_histograms",
    "primsecfreq",
    "quadrature",
    "residual",
    "secondary_repair",
    "shared_function",
    "single_frequency",
    "strength",
    "task",
    "wave_content",
]


def __getattr__(name: str) -> Any:
    """Import the figures when the first is asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'quadlens.figures' has no attribute {name!r}; figures: {', '.join(__all__)}")
    from quadlens.figures.registry import FIGURES

    return next(family.draw for family in FIGURES if family.draw.__name__ == name)


def __dir__() -> list[str]:
    """The figures, nothing else."""
    return list(__all__)
