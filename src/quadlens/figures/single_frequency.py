"""How much of each neuron one frequency explains (figure `single-frequency`: `freqstrength` and `uoutstrength`)."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from quadlens.figures.picture import Picture, percent
from quadlens.figures.style import CONCEPT_COLOURS, style
from quadlens.studies import Results
from quadlens.studies.published import Histogram

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "single-frequency"
# The axis starts where this share of our neurons lies above; how many lie below is written on it.
SHOWN_FROM = 0.02
MOST_BINS = 60


def draw(
    shares: tuple[Float[np.ndarray, " n"], Float[np.ndarray, " m"]], paper: tuple[Histogram, Histogram]
) -> "Figure":
    """Two histograms: input, output; the paper's mainline model as an outline, in the same bins."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.2, 3.3))
        sides = (
            ("input", "share of pre-activation variance at k_in"),
            ("output", "share of W_L's variance at k_out"),
        )
        for axis, share, theirs, (side, name) in zip(figure.subplots(1, 2), shares, paper, sides, strict=True):
            edges = common_bins(share, theirs)
            weights = np.full(len(share), 100 / len(share))
            axis.hist(share, bins=list(edges), weights=weights, color=CONCEPT_COLOURS[side], label="this model")
            heights = np.histogram((theirs.edges[:-1] + theirs.edges[1:]) / 2, bins=edges, weights=theirs.count)[0]
            axis.stairs(
                100 * heights / theirs.total, edges, color=CONCEPT_COLOURS["paper"], lw=1.4, label="the paper's"
            )
            below = int((share < edges[0]).sum())
            if below:
                axis.text(0.02, 0.72, f"← {below} below {edges[0]:.2f}", transform=axis.transAxes, fontsize=9)
            axis.set(xlabel=name, xlim=(edges[0], edges[-1]))
            axis.locator_params(axis="x", nbins=5)
            axis.legend(loc="upper left")
        figure.axes[0].set_ylabel("neurons, %")
        return figure


def common_bins(share: Float[np.ndarray, " n"], paper: Histogram) -> Float[np.ndarray, " n_edges"]:
    """Bins up to 1 of the paper's width, or wider where it takes more than `MOST_BINS`."""
    low = min(float(paper.edges[0]), float(np.quantile(share, SHOWN_FROM)) if len(share) else 1.0)
    bins = min(MOST_BINS, int(np.ceil((1 - low) / paper.width)))
    return np.linspace(low, 1.0, max(bins, 1) + 1)


def pictures(results: Results) -> tuple[Picture, ...]:
    """One, for every model with living neurons."""
    roles = results.explanation.roles
    alive = ~roles.dead
    if not alive.any():
        return ()
    shares = (roles.variance_input[alive], roles.variance_output[alive])
    reads, writes = (float(np.median(share)) for share in shares)
    finding = (
        f"For half of the {int(alive.sum())} living neurons one frequency explains more than {percent(reads)} of what "
        f"they read and more than {percent(writes)} of what they write; at the least "
        f"{percent(float(shares[0].min()))} and {percent(float(shares[1].min()))}."
    )
    how = (
        "Right is better: at 1 a neuron reads (left panel) or writes (right panel) a single cosine. "
        "The outline is the paper's mainline model, counted in the same bins."
    )
    paper = (results.published.variance_input, results.published.variance_output)
    title = "Each neuron has one frequency"
    return (Picture(NAME, NAME, title, finding, how, "data/neurons.csv", lambda: draw(shares, paper)),)
