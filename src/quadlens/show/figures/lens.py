"""Figures of the lens.

They show shared functions over the circle, what neurons read, strength against a - b, and logits.
"""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.analysis.infinite_width import Lens, LensCluster
from quadlens.analysis.infinite_width.chains import MOMENTS
from quadlens.analysis.infinite_width.integral import angles
from quadlens.analysis.infinite_width.lens import KINDS
from quadlens.analysis.infinite_width.of_study import lens_if_any, whole_lens
from quadlens.analysis.spectrum.of_study import MAX_FREQUENCIES
from quadlens.base.errors import BadConfig
from quadlens.base.numbers import percent
from quadlens.network.study import Study
from quadlens.show.figures.canvas import Target, angle_axis, canvas
from quadlens.show.figures.picture import Values, figure
from quadlens.show.figures.style import CONCEPT_COLOURS, QUIET_COLOUR, frequency_colour

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Inputs whose shared function is drawn, as a - b in units of the frequency's turn: no difference,
# an eighth, a quarter.
DIFFERENCES = (0.0, 0.125, 0.25)
# Dots of predicted against true logits; all n³ would be a blot.
DOTS = 4000
# Steps of the picture of nodes.
BINS = 36


def _reading(study: Study) -> Values | None:
    lens = study.once(lens_if_any)
    return (
        None
        if lens is None
        else {"lens": lens, "first": lens.clusters[0], "strongest": _strongest(lens)}
    )


@figure(values=_reading, k="The cluster's frequency; the first if None.")
def shared_function(study: Study, k: int | None = None, ax: Target = None) -> "Figure":
    """Draw one cluster's shared function over the circle.

    Every neuron's own pre-activation over ρ is a dot.
    """
    lens_cluster = _cluster_of(study, k)
    cluster, F = lens_cluster.reading.cluster, lens_cluster.reading.shared.F
    with canvas(ax, (6.4, 3.4)) as drawn:
        axis = drawn.axes[0]
        fine, m = np.linspace(-np.pi, np.pi, 361), np.arange(len(F))
        # A neuron at b = 0: g over the circle is what a neuron of phase φ reads of the input (a -
        # b, 0).
        turn = np.exp(1j * np.outer(m, fine))
        for place, fraction in enumerate(DIFFERENCES):
            d = int(
                np.abs(np.angle(np.exp(1j * (angles(cluster) - 2 * np.pi * fraction)))).argmin()
            )
            colour = (CONCEPT_COLOURS["input"], CONCEPT_COLOURS["ours"], CONCEPT_COLOURS["output"])[
                place
            ]
            axis.plot(fine, (F[:, d] @ turn).real, color=colour, lw=1.4, label=f"a − b = {d}")
            own = cluster.charges[:, :, d].real.sum(axis=1) / np.maximum(
                cluster.rho, np.finfo(float).tiny
            )
            loud = cluster.rho > cluster.rho.mean() / 10
            phi = np.angle(np.exp(1j * cluster.phi))
            axis.plot(phi[loud], own[loud], "o", ms=2.6, color=colour, alpha=0.6)
        axis.axhline(0, color=QUIET_COLOUR, lw=0.8)
        axis.set(xlabel="φ", ylabel="pre-activation / ρ at b = 0", xlim=(-np.pi, np.pi))
        axis.set_title(
            f"k = {lens_cluster.k}: shared to {percent(lens_cluster.reading.shared.fit)}",
            loc="left",
        )
        angle_axis(axis)
        axis.legend(fontsize=8, loc="upper right")
        return drawn.figure


@figure(values=_reading)
def wave_content(study: Study, ax: Target = None) -> "Figure":
    """Draw what the neurons of each cluster read.

    Bars are shares of sum waves, constant, double waves and product waves.
    """
    clusters = _strongest(_lens_of(study))
    with canvas(ax, (6.4, 3.0)) as drawn:
        axis, width = drawn.axes[0], 0.8 / len(clusters)
        names = [*KINDS, "other"]
        for place, lens_cluster in enumerate(clusters):
            shares = [max(lens_cluster.reading.cluster.fourier[name], 1e-6) for name in names]
            spots = np.arange(len(names)) + (place - (len(clusters) - 1) / 2) * width
            colour = frequency_colour(lens_cluster.k, tuple(x.k for x in clusters))
            axis.bar(spots, shares, width * 0.92, color=colour, label=f"k = {lens_cluster.k}")
        axis.set_yscale("log")
        axis.set(ylim=(1e-4, 1.5), ylabel="share of pre-activations")
        axis.set_xticks(
            np.arange(len(names)), ["sum waves", "constant", "double waves", "products", "other"]
        )
        axis.legend(fontsize=8, ncols=2)
        return drawn.figure


@figure(values=_reading)
def strength(study: Study, ax: Target = None) -> "Figure":
    """Draw how strongly each cluster's integral points at the answer.

    The distance a - b runs along the axis.
    """
    clusters = _strongest(_lens_of(study))
    with canvas(ax, (6.4, 3.2)) as drawn:
        axis = drawn.axes[0]
        fine = np.linspace(-np.pi, np.pi, 361)
        for lens_cluster in clusters:
            colour, cluster = (
                frequency_colour(lens_cluster.k, tuple(x.k for x in clusters)),
                lens_cluster.reading.cluster,
            )
            values = lens_cluster.reading.strength.real
            u = np.angle(np.exp(1j * angles(cluster)))
            order, top = np.argsort(u), max(float(np.abs(values).max()), np.finfo(float).tiny)
            axis.plot(
                u[order],
                values[order] / top,
                "o-",
                ms=3,
                lw=0.8,
                color=colour,
                label=f"k = {lens_cluster.k}",
            )
        axis.plot(
            fine,
            np.abs(np.cos(fine / 2)),
            ":",
            color=CONCEPT_COLOURS["truth"],
            lw=1,
            label="|cos u|",
        )
        axis.set(
            xlabel="2u = k w (a − b)",
            ylabel="strength / largest",
            xlim=(-np.pi, np.pi),
            ylim=(-0.1, 1.1),
        )
        angle_axis(axis)
        axis.legend(fontsize=8, ncols=2, loc="lower center")
        return drawn.figure


def _chains(study: Study) -> Values | None:
    lens = study.once(lens_if_any)
    chained = () if lens is None else _chained(lens)
    return {"chained": chained} if chained else None


@figure(values=_chains)
def chain_nodes(study: Study, ax: Target = None) -> "Figure":
    """Draw how the nodes of doubled keys lie on the circle.

    Beside them stands the density that their first four moments make.
    """
    clusters = _chained(_lens_of(study))
    if not clusters:
        raise BadConfig(
            "no key frequency of this model is twice another: there is no chain to draw"
        )
    with canvas(ax, (6.4, 3.2)) as drawn:
        axis, fine, edges = (
            drawn.axes[0],
            np.linspace(-np.pi, np.pi, 361),
            np.linspace(-np.pi, np.pi, BINS + 1),
        )
        for lens_cluster in clusters:
            rule, colour = (
                lens_cluster.reading.rule,
                frequency_colour(lens_cluster.k, tuple(x.k for x in clusters)),
            )
            at = np.angle(np.exp(1j * lens_cluster.reading.cluster.phi))
            heights = np.histogram(at, edges, weights=rule.w)[0] * BINS / rule.A
            axis.stairs(heights, edges, color=colour, alpha=0.45)
            density = (
                1
                + 2
                * sum((rule.moment(q) * np.exp(-1j * q * fine)).real for q in range(1, MOMENTS + 1))
                / rule.A
            )
            axis.plot(fine, density, color=colour, lw=1.6, label=f"k = {lens_cluster.k}")
        axis.axhline(1, color=QUIET_COLOUR, lw=0.8)
        axis.set(xlabel="φ", ylabel="weight / its mean", xlim=(-np.pi, np.pi))
        angle_axis(axis)
        axis.legend(fontsize=8, ncols=2)
        return drawn.figure


@figure(values=_reading)
def integral_logits(study: Study, ax: Target = None) -> "Figure":
    """Draw the logits that the integral predicts, nothing fitted, against the true ones."""
    lens = _lens_of(study)
    parts = lens.parts
    true, predicted = parts.values(parts.logits), parts.values(parts.shared)
    n = lens.n
    right = np.add.outer(np.arange(n), np.arange(n)) % n
    answers = right[:, :, None] == np.arange(n)
    with canvas(ax, (4.4, 4.0)) as drawn:
        axis = drawn.axes[0]
        for mask, colour, name in (
            (~answers, QUIET_COLOUR, "other answers"),
            (answers, CONCEPT_COLOURS["exact"], "right answers"),
        ):
            x, y = predicted[mask], true[mask]
            # Evenly over the sorted values: the same dots every time, none of the extremes left
            # out.
            picked = np.argsort(x, kind="stable")[
                np.linspace(0, len(x) - 1, min(DOTS, len(x))).astype(int)
            ]
            axis.plot(
                x[picked],
                y[picked],
                "o",
                ms=1.6,
                color=colour,
                alpha=0.5,
                label=name,
                rasterized=True,
            )
        ends = [float(min(predicted.min(), true.min())), float(max(predicted.max(), true.max()))]
        axis.plot(ends, ends, color=CONCEPT_COLOURS["truth"], lw=0.8)
        axis.set(xlabel="logit of the integral", ylabel="logit of the model")
        axis.set_title(f"R² = {lens.r2.shared:.4f}, nothing fitted", loc="left")
        axis.legend(fontsize=8, markerscale=3)
        return drawn.figure


def _lens_of(study: Study) -> Lens:
    """The study's lens, if there is something in it to draw.

    Raises:
        BadConfig: when there is none.
    """
    lens = study.once(whole_lens)
    if not lens.clusters:
        raise BadConfig(
            "no neuron of this model reads and writes the same frequency: there is no integral to "
            "draw"
        )
    return lens


def _strongest(lens: Lens) -> tuple[LensCluster, ...]:
    """The clusters to draw, in order of k."""
    largest = sorted(
        lens.clusters, key=lambda cluster: -float(np.abs(cluster.reading.limit).max())
    )[:MAX_FREQUENCIES]
    return tuple(sorted(largest, key=lambda cluster: cluster.k))


def _chained(lens: Lens) -> tuple[LensCluster, ...]:
    """The strongest clusters whose keys are doubles of each other."""
    keys = {k for chain in lens.chains for k in chain}
    return tuple(cluster for cluster in _strongest(lens) if cluster.k in keys)


def _cluster_of(study: Study, k: int | None) -> LensCluster:
    clusters = _lens_of(study).clusters
    cluster = next((cluster for cluster in clusters if k in (None, cluster.k)), None)
    if cluster is None:
        raise BadConfig(
            f"frequency {k} of this model is no cluster; there are: "
            f"{', '.join(str(x.k) for x in clusters)}"
        )
    return cluster
