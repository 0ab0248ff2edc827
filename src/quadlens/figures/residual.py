"""The skip connection's share of the logits, input by input (figure `residual`)."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from quadlens.figures.picture import Picture, percent
from quadlens.figures.style import CONCEPT_COLOURS, style
from quadlens.studies import Results
from quadlens.studies.published import Histogram

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "residual"
# The paper's axis is labelled at ten times the heights: its bars add up to 348.1 for the 3,481 inputs of p = 59.
PAPER_SCALE = 10
# Shares past this are counted in words, not drawn.
SHOWN = 0.99


def draw(shares: Float[np.ndarray, "p p"], paper: Histogram) -> "Figure":
    """This model's inputs as bars, the paper's as an outline, in bins of the same width and to the same total."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.2, 2.9))
        axis = figure.subplots()
        high = max(float(np.quantile(shares, SHOWN)), float(paper.edges[-1]))
        bins = min(60, int(np.ceil(high / paper.width)))
        edges = np.linspace(0, high, bins + 1)
        scale = PAPER_SCALE * paper.total / shares.size
        weights = np.full(shares.size, scale * paper.width / (edges[1] - edges[0]))
        axis.hist(shares.ravel(), bins=list(edges), weights=weights, color=CONCEPT_COLOURS["ours"], label="this model")
        axis.stairs(PAPER_SCALE * paper.count, paper.edges, color=CONCEPT_COLOURS["paper"], lw=1.8, label="the paper's")
        axis.set(xlabel="skip connection's share of variance over c", ylabel="inputs (a, b)", xlim=(0, high))
        axis.legend(loc="upper right", fontsize=8)
        return figure


def pictures(results: Results) -> tuple[Picture, ...]:
    """One, where the paper's bars are known and the logits vary."""
    paper = results.published.population.histogram("residual_attention_variance_over_logits")
    shares = results.skip_shares
    if paper is None:
        return ()
    below = float((shares < 0.03).mean())
    finding = (
        f"The skip connection around the MLP makes less than 3 % of the variance of the logits for {percent(below)} "
        f"of this model's inputs; the median is {percent(float(np.median(shares)), 2)}."
    )
    how = (
        "Each input (a, b) is counted at (variance over c of what the skip connection adds) / (variance over c of "
        "the logits). Far left means the MLP does the work. The outline is the paper's, "
        f"{PAPER_SCALE * paper.total:,.0f} inputs; ours are scaled to that number."
    )
    title = "The residual stream's share of the logits"
    return (Picture(NAME, NAME, title, finding, how, "data/margins.csv", lambda: draw(shares, paper)),)
