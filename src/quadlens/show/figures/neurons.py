"""Neurons one by one and counted.

Figures of one neuron's weights, of how much one frequency explains, and of the frequencies that are
used.
"""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from quadlens.analysis.explanation import Explanation
from quadlens.analysis.explanation.of_study import explanation_of
from quadlens.analysis.published import Histogram, read_published
from quadlens.analysis.spectrum.amplitude_phase import wrap
from quadlens.analysis.spectrum.of_study import collapsed_of, keys_of
from quadlens.base.errors import BadConfig
from quadlens.network.study import Study
from quadlens.show.figures.canvas import Target, canvas
from quadlens.show.figures.picture import Values, figure
from quadlens.show.figures.style import CONCEPT_COLOURS, frequency_colour

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The axis starts where this share of our neurons lies above; how many lie below is written on it.
SHOWN_FROM = 0.02
MOST_BINS = 60
# More frequencies than this get a label only every so often.
LABELLED = 30
# How an activation is named in a sentence.
ACTIVATION_WORDS = {
    "relu": "ReLU",
    "abs": "|x|",
    "square": "x²",
    "quartic": "x⁴",
    "gelu": "GELU",
    "silu": "SiLU",
}


def typical_neuron(study: Study) -> int:
    """Return the neuron of largest ρω in the first cluster that counts.

    Where there is no cluster, all neurons are looked at.
    """
    explanation = study.once(explanation_of)
    strength = explanation.roles.rho * explanation.roles.omega
    for cluster in explanation.clusters:
        if cluster.k in study.once(keys_of):
            return int(cluster.neurons[strength[cluster.neurons].argmax()])
    return int(strength.argmax())


def _typical(study: Study) -> Values:
    roles, number = study.once(explanation_of).roles, typical_neuron(study)
    activation = ACTIVATION_WORDS.get(study.config.activation, study.config.activation)
    double = float(wrap(2 * roles.phi[number : number + 1])[0])
    return {"number": number, "roles": roles, "activation": activation, "double": double}


@figure("Two axes", values=_typical, i="The neuron; a strong one of the first cluster if None.")
def neuron(study: Study, i: int | None = None, ax: Target = None) -> "Figure":
    """Draw what one neuron reads from each token and writes to each answer.

    Dots are the weights, lines their waves.
    """
    collapsed, explanation = study.once(collapsed_of), study.once(explanation_of)
    roles, spectra, p = explanation.roles, explanation.spectra, explanation.p
    i = typical_neuron(study) if i is None else i
    if not 0 <= i < explanation.d_mlp:
        raise BadConfig(f"neuron {i}; this model has neurons 0 to {explanation.d_mlp - 1}")
    with canvas(ax, (6.4, 4.6), 2, columns=1, sharex=True) as drawn:
        reads, writes = drawn.axes
        tokens, fine = np.arange(p), np.linspace(0, p - 1, 12 * p)
        k_in, k_out = int(roles.k_in[i]), int(roles.k_out[i])
        wave = spectra.input.mean[i] + roles.rho[i] * np.cos(
            2 * np.pi * k_in / p * fine + roles.phi[i]
        )
        reads.plot(fine, wave, color=CONCEPT_COLOURS["input"], lw=1.2, label=f"wave of k = {k_in}")
        reads.plot(
            tokens, collapsed.U_a[:, i], "o", ms=3.5, color=CONCEPT_COLOURS["input"], label="U_a"
        )
        reads.plot(
            tokens,
            collapsed.U_b[:, i],
            "o",
            ms=4.5,
            mfc="none",
            color=CONCEPT_COLOURS["input"],
            label="U_b",
        )
        reads.set(ylabel="reads, U[·, i]")
        omega, psi = spectra.output.amplitude[k_out - 1, i], spectra.output.phase[k_out - 1, i]
        wave = spectra.output.mean[i] + omega * np.cos(2 * np.pi * k_out / p * fine + psi)
        writes.plot(
            fine, wave, color=CONCEPT_COLOURS["output"], lw=1.2, label=f"wave of k = {k_out}"
        )
        writes.plot(
            tokens, collapsed.W_L[:, i], "o", ms=3.5, color=CONCEPT_COLOURS["output"], label="W_L"
        )
        writes.set(xlabel="token a, b (above), answer c (below)", ylabel="writes, W_L[·, i]")
        for axis in drawn.axes:
            axis.margins(x=0.02)
            axis.locator_params(axis="x", integer=True)
            axis.legend(ncols=3, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.1)
        return drawn.figure


def _living_shares(study: Study) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    roles = study.once(explanation_of).roles
    return roles.variance_input[~roles.dead], roles.variance_output[~roles.dead]


def _explained(study: Study) -> Values | None:
    shares = _living_shares(study)
    if not len(shares[0]):
        return None
    half, every = (
        [float(np.median(share)) for share in shares],
        [float(share.min()) for share in shares],
    )
    return {"living": len(shares[0]), "half": half, "every": every}


@figure("Two axes", values=_explained)
def single_frequency(study: Study, ax: Target = None) -> "Figure":
    """Draw how much one frequency explains of each neuron's weights.

    The paper's model stands beside it.
    """
    sides = (
        ("input", "share of pre-activation variance at k_in", read_published().variance_input),
        ("output", "share of W_L's variance at k_out", read_published().variance_output),
    )
    with canvas(ax, (7.2, 3.3), 2) as drawn:
        for axis, share, (side, name, theirs) in zip(
            drawn.axes, _living_shares(study), sides, strict=True
        ):
            edges = common_bins(share, theirs)
            weights = np.full(len(share), 100 / max(len(share), 1))
            axis.hist(
                share,
                bins=list(edges),
                weights=weights,
                color=CONCEPT_COLOURS[side],
                label="this model",
            )
            heights = np.histogram(
                (theirs.edges[:-1] + theirs.edges[1:]) / 2, bins=edges, weights=theirs.count
            )[0]
            paper = CONCEPT_COLOURS["paper"]
            axis.stairs(
                100 * heights / theirs.total, edges, color=paper, lw=1.4, label="the paper's"
            )
            below = int((share < edges[0]).sum())
            if below:
                axis.text(
                    0.02,
                    0.72,
                    f"← {below} below {edges[0]:.2f}",
                    transform=axis.transAxes,
                    fontsize=9,
                )
            axis.set(xlabel=name, xlim=(edges[0], edges[-1]))
            axis.locator_params(axis="x", nbins=5)
            axis.legend(loc="upper left")
        drawn.axes[0].set_ylabel("neurons, %")
        return drawn.figure


def common_bins(share: Float[np.ndarray, " n"], paper: Histogram) -> Float[np.ndarray, " n_edges"]:
    """Bins up to 1 of the paper's width, or wider where it takes more than `MOST_BINS`."""
    low = min(float(paper.edges[0]), float(np.quantile(share, SHOWN_FROM)) if len(share) else 1.0)
    bins = min(MOST_BINS, int(np.ceil((1 - low) / paper.width)))
    return np.linspace(low, 1.0, max(bins, 1) + 1)


def frequency_counts(explanation: Explanation) -> tuple[np.ndarray, np.ndarray]:
    """Return how many living neurons read each frequency first.

    Beside each count stands how many of these neurons write another frequency.
    """
    roles, half = explanation.roles, explanation.p // 2
    alive = ~roles.dead
    every = np.bincount(roles.k_in[alive], minlength=half + 1)[1:]
    stray = np.bincount(roles.k_in[alive & (roles.k_in != roles.k_out)], minlength=half + 1)[1:]
    return every, stray


def _counts(study: Study) -> Values | None:
    every, stray = frequency_counts(study.once(explanation_of))
    if not every.any():
        return None
    return {
        "every": every,
        "stray": stray,
        "keys": study.once(keys_of),
        "key_neurons": read_published().key_neurons,
    }


@figure(values=_counts)
def freqcount(study: Study, ax: Target = None) -> "Figure":
    """Draw how many neurons read each frequency; those that write another one are marked."""
    every, stray = frequency_counts(study.once(explanation_of))
    with canvas(ax, (6.8, 3.0)) as drawn:
        (axis,) = drawn.axes
        k = np.arange(1, len(every) + 1)
        colours = [frequency_colour(int(frequency), study.once(keys_of)) for frequency in k]
        axis.bar(k, every, color=colours, width=0.8)
        if stray.any():
            axis.bar(
                k, stray, color=CONCEPT_COLOURS["wrong"], width=0.8, label="write another frequency"
            )
            axis.legend(loc="lower right", bbox_to_anchor=(1, 1))
        for frequency in k[every > 0]:
            spot = (float(frequency), float(every[frequency - 1]))
            axis.annotate(
                str(every[frequency - 1]),
                spot,
                (0, 2),
                "data",
                "offset points",
                ha="center",
                fontsize=8,
            )
        step = 1 if len(k) <= LABELLED else len(k) // LABELLED + 1
        axis.set_xticks(k[::step], [str(frequency) for frequency in k[::step]], fontsize=8)
        axis.set(xlabel="primary input frequency k", ylabel="neurons")
        axis.set(xlim=(0.3, len(k) + 0.7), ylim=(0, max(int(every.max()), 1) * 1.12))
        axis.grid(visible=False, axis="x")
        return drawn.figure
