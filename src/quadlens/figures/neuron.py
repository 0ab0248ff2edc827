"""One neuron: what it reads from each token and what it writes to each answer."""

from typing import TYPE_CHECKING

import numpy as np

from quadlens.explanation import Explanation
from quadlens.figures.picture import Picture, percent
from quadlens.figures.style import CONCEPT_COLOURS, style
from quadlens.model.collapsed import Collapsed
from quadlens.studies import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "neuron"


def typical_neuron(explanation: Explanation) -> int:
    """The strongest ρω among the neurons of the first cluster that counts; of all neurons where there is none."""
    strength = explanation.roles.rho * explanation.roles.omega
    for cluster in explanation.clusters:
        if cluster.k in explanation.key_frequencies:
            return int(cluster.neurons[strength[cluster.neurons].argmax()])
    return int(strength.argmax())


def draw(collapsed: Collapsed, explanation: Explanation, i: int) -> "Figure":
    """U_a[:, i] and U_b[:, i] above, W_L[:, i] below: dots the weights, lines their largest waves."""
    with style():
        from matplotlib.figure import Figure

        roles, spectra, p = explanation.roles, explanation.spectra, explanation.p
        figure = Figure(figsize=(6.4, 4.6))
        reads, writes = figure.subplots(2, 1, sharex=True)
        tokens, fine = np.arange(p), np.linspace(0, p - 1, 12 * p)
        k_in, k_out = int(roles.k_in[i]), int(roles.k_out[i])
        wave = spectra.input.mean[i] + roles.rho[i] * np.cos(2 * np.pi * k_in / p * fine + roles.phi[i])
        reads.plot(fine, wave, color=CONCEPT_COLOURS["input"], lw=1.2, label=f"wave of k = {k_in}")
        reads.plot(tokens, collapsed.U_a[:, i], "o", ms=3.5, color=CONCEPT_COLOURS["input"], label="U_a")
        reads.plot(tokens, collapsed.U_b[:, i], "o", ms=4.5, mfc="none", color=CONCEPT_COLOURS["input"], label="U_b")
        reads.set(ylabel="reads, U[·, i]")
        omega, psi = spectra.output.amplitude[k_out - 1, i], spectra.output.phase[k_out - 1, i]
        wave = spectra.output.mean[i] + omega * np.cos(2 * np.pi * k_out / p * fine + psi)
        writes.plot(fine, wave, color=CONCEPT_COLOURS["output"], lw=1.2, label=f"wave of k = {k_out}")
        writes.plot(tokens, collapsed.W_L[:, i], "o", ms=3.5, color=CONCEPT_COLOURS["output"], label="W_L")
        writes.set(xlabel="token a, b (above), answer c (below)", ylabel="writes, W_L[·, i]")
        for axis in (reads, writes):
            axis.margins(x=0.02)
            axis.locator_params(axis="x", integer=True)
            axis.legend(ncols=3, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.1)
        return figure


def pictures(results: Results) -> tuple[Picture, ...]:
    """One, for every model."""
    explanation = results.explanation
    i = typical_neuron(explanation)
    roles = explanation.roles
    k_in, k_out = int(roles.k_in[i]), int(roles.k_out[i])
    finding = (
        f"Neuron {i} reads a wave of frequency {k_in} ({percent(float(roles.variance_input[i]))} of the variance of "
        f"what it reads, phase φ = {roles.phi[i]:.2f}) and writes one of frequency {k_out} "
        f"({percent(float(roles.variance_output[i]))}, phase ψ = {roles.psi[i]:.2f}; 2φ is {2 * roles.phi[i]:.2f})."
    )
    how = (
        "Dots are the model's weights, lines the single cosine that explains most of them. Above: how much each "
        "token adds to the neuron before ReLU. Below: how much the active neuron adds to each answer's logit."
    )
    return (
        Picture(
            NAME,
            None,
            f"One neuron (number {i})",
            finding,
            how,
            "data/neurons.csv",
            lambda: draw(results.collapsed, explanation, i),
        ),
    )
