"""Measure the lens's claims beside controls that take away what each claim is about.

- `shared_permuted`: the same R², of a network whose output phases ψ are permuted within each
  cluster.
- `resampled_even`: the share of inputs whose answer is the network's own when each cluster is
  replaced by as many fresh neurons with the same g, spread evenly and written at 2φ;
  `resampled_half`: by as many on half a period.
- `residual`: what a cluster writes at its own k and is *not* symmetric, predicted from φ_i, w_i and
  g alone; against the same with weights and phases paired at random.
- `spacing`: whether w_i is the width (φ_{i+1} - φ_{i-1})/2 of the box that neuron i stands for,
  phases shared by several neurons merged; against the 95 % point of the same with weights permuted.
- `cross_writing`: the covariance share of the logits that neurons write at the keys of other
  clusters; against the same when the neurons of each cluster exchange what they write there.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from quadlens.analysis.infinite_width.inputs import Inputs
from quadlens.analysis.infinite_width.integral import Rule, over_inputs
from quadlens.analysis.infinite_width.parts import ClusterReading, LensParts, symmetric
from quadlens.analysis.spectrum.amplitude_phase import mean_squares
from quadlens.base.display import short
from quadlens.base.numbers import decimals
from quadlens.base.table import Table

PERMUTATIONS = 8
SHUFFLES = 200
# Phases nearer to each other than this share of the mean distance are one node.
SAME = 0.01


@short
@dataclass(frozen=True)
class Fits:
    """Predictions of single neurons, over one cluster or all; None where there is none.

    Attributes:
        residual: R² of the part that is not symmetric.
        residual_correlation: Its correlation with what is predicted.
        residual_permuted: R² with weights and phases paired at random, the mean over permutations.
        spacing: Correlation of weights with box widths.
        spacing_slope: Slope of weights over box widths, both in units of their mean; 1 in a rule of
            boxes.
        spacing_permuted: The correlation that 95 of 100 random pairings stay below.
    """

    residual: float | None = None
    residual_correlation: float | None = None
    residual_permuted: float | None = None
    spacing: float | None = None
    spacing_slope: float | None = None
    spacing_permuted: float | None = None


@short
@dataclass(frozen=True)
class Controls(Fits):
    """All of the module's quantities over a whole model.

    Attributes:
        shared_permuted: The median over permutations.
        resampled_even: See the module.
        resampled_half: See the module.
        cross_writing: None with fewer than two clusters.
        cross_writing_permuted: The mean over permutations.
        per_key: What is predicted of single neurons at each frequency.
    """

    shared_permuted: float | None = None
    resampled_even: float | None = None
    resampled_half: float | None = None
    cross_writing: float | None = None
    cross_writing_permuted: float | None = None
    per_key: dict[int, Fits] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the whole model for JSON; clusters have their own."""
        return {name: value for name, value in asdict(self).items() if name != "per_key"}


def controls(parts: LensParts, inputs: Inputs, seed: int = 0) -> Controls:
    """Measure everything of the module, randomness from the seed."""
    if not parts.readings:
        return Controls()
    rng = np.random.default_rng(seed)
    permuted = _shared_permuted(parts, inputs, rng)
    even, half = _resampled(parts, inputs, rng)
    rules = [reading for reading in parts.readings if reading.rule.is_rule]
    pieces = {
        reading.cluster.k: (_residuals(reading, rng), _boxes(reading.rule, rng))
        for reading in rules
    }
    fits = {k: _fits([residual], [boxes]) for k, (residual, boxes) in pieces.items()}
    every = _fits(
        [residual for residual, _ in pieces.values()], [boxes for _, boxes in pieces.values()]
    )
    cross = _cross_writing(parts, inputs, rng)
    return Controls(
        **vars(every),
        shared_permuted=permuted,
        resampled_even=even,
        resampled_half=half,
        cross_writing=None if cross is None else float(cross[0]),
        cross_writing_permuted=None if cross is None else float(cross[1:].mean()),
        per_key=fits,
    )


def control_table(
    shared: float, answers_right: float, measured: Controls, numbers: int, weights: int | None
) -> Table:
    """One row per claim, its control beside it."""
    of_weights = f"{numbers:,} numbers" + ("" if weights is None else f" of {weights:,} weights")
    compared = (
        ("shared function, R²", shared, "output phases permuted", measured.shared_permuted),
        (
            "answers kept by even nodes",
            measured.resampled_even,
            "nodes on half a period",
            measured.resampled_half,
        ),
        (
            "what is not symmetric, R²",
            measured.residual,
            "weights permuted",
            measured.residual_permuted,
        ),
        (
            "cross-writing, share of logits",
            measured.cross_writing,
            "neurons exchanged",
            measured.cross_writing_permuted,
        ),
        (
            "weights against box widths",
            measured.spacing,
            "weights permuted, 95 %",
            measured.spacing_permuted,
        ),
    )
    rows = [
        [claim, decimals(value, 4), control, decimals(with_it, 4)]
        for claim, value, control, with_it in compared
    ]
    rows.insert(1, ["its answers right", decimals(answers_right, 4), of_weights, ""])
    return Table(
        "What the lens claims, and its controls",
        ("claim", "measured", "control", "with it"),
        rows,
        left=(0, 2),
        caption=(
            "The first row is about the mechanism, the second about the task: neither stands for "
            "the other. "
            "The second is weak evidence: integrals of random numbers often answer every input."
        ),
    )


def _shared_permuted(parts: LensParts, inputs: Inputs, rng: np.random.Generator) -> float:
    """Return R² of the claim for networks whose output phases are permuted.

    Only the amplitudes at their keys change.
    """
    missed, size = np.zeros(PERMUTATIONS), np.zeros(PERMUTATIONS)
    for reading in parts.readings:
        cluster, k = reading.cluster, reading.cluster.k
        hidden = inputs.sigma.apply(inputs.pre[:, :, cluster.neurons])
        psi = np.stack([rng.permutation(cluster.psi) for _ in range(PERMUTATIONS)], axis=1)
        written = cluster.omega[:, None] * np.exp(1j * psi)
        now = hidden @ written.real + 1j * (hidden @ written.imag)
        network = (parts.logits[..., k] - reading.finite)[..., None] + now
        claim = over_inputs(cluster, reading.theory)[..., None]
        weight = 1.0 if 2 * k == parts.n else 0.5
        size += weight * np.square(np.abs(network)).sum(axis=(0, 1))
        missed += weight * np.square(np.abs(network - claim)).sum(axis=(0, 1))
    rest = parts.logits.copy()
    rest[..., parts.keys] = 0
    others = parts.inner(rest, rest)
    return float(np.median(1 - (missed + others) / (size + others)))


def _resampled(parts: LensParts, inputs: Inputs, rng: np.random.Generator) -> tuple[float, float]:
    """Return the shares of answers kept by even nodes, and by nodes on half a period.

    Neurons in no cluster stay as they are.
    """
    even, half = (parts.outside_clusters + parts.skip for _ in range(2))
    for reading in parts.readings:
        k, rule, count = reading.cluster.k, reading.rule, len(reading.rule.w)
        if not rule.is_rule:
            even[..., k] += reading.finite
            half[..., k] += reading.finite
            continue
        nodes = rule.period * (np.arange(count) + rng.uniform()) / count
        weights = np.full((count, 1), rule.A / count)
        even[..., k] += rule.sums(nodes, weights)[..., 0]
        half[..., k] += rule.sums(nodes / 2, weights)[..., 0]
    own_answers = inputs.logits.argmax(axis=2)
    kept = [float((parts.values(x).argmax(axis=2) == own_answers).mean()) for x in (even, half)]
    return kept[0], kept[1]


def _cross_writing(
    parts: LensParts, inputs: Inputs, rng: np.random.Generator
) -> Float[np.ndarray, " many"] | None:
    """Return ⟨written at others' keys, logits⟩ / ‖logits‖², and with neurons exchanged.

    Neurons are exchanged within clusters.

    From ⟨h_i, logits_k⟩ of every neuron and key, so that no permutation needs a pass over the
    inputs.
    """
    size = parts.inner(parts.logits, parts.logits)
    if len(parts.keys) < 2 or size == 0:
        return None
    total = np.zeros(PERMUTATIONS + 1)
    for reading in parts.readings:
        others = [k for k in parts.keys if k != reading.cluster.k]
        weights = mean_squares(parts.n, np.array(others))
        hidden = inputs.sigma.apply(inputs.pre[:, :, reading.cluster.neurons]).reshape(
            parts.n**2, -1
        )
        met = hidden.T @ parts.logits[..., others].conj().reshape(parts.n**2, -1)
        written = parts.written[others][:, reading.cluster.neurons].T
        orders = [np.arange(len(met)), *(rng.permutation(len(met)) for _ in range(PERMUTATIONS))]
        total += [float(((written[order] * met).real * weights).sum()) for order in orders]
    return total / size


# Sums of squares and products of what is not symmetric (r) and what is predicted of it (p): rr, rp
# and pp.
Residual = tuple[float, Float[np.ndarray, " many"], Float[np.ndarray, " many"]]


def _residuals(reading: ClusterReading, rng: np.random.Generator) -> Residual:
    """Compute the sums of one cluster, permuted predictions after its own."""
    rule, k = reading.rule, reading.cluster.k
    weights = np.stack([rule.w, *(rng.permutation(rule.w) for _ in range(PERMUTATIONS))], axis=1)
    sums = reading.finite[..., None], rule.sums(reading.cluster.phi, weights)
    true, predicted = (x - symmetric(x, k) for x in sums)
    rr = float(np.square(np.abs(true)).sum())
    return (
        rr,
        (predicted * true.conj()).real.sum(axis=(0, 1)),
        np.square(np.abs(predicted)).sum(axis=(0, 1)),
    )


def _boxes(rule: Rule, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return box widths, weights and permuted weights of the merged nodes.

    They are in units of their mean, less 1.
    """
    order = np.argsort(rule.cluster.phi % rule.period)
    phi, w = (rule.cluster.phi % rule.period)[order], rule.w[order]
    apart = np.diff(phi) > SAME * rule.period / len(phi)
    start = np.flatnonzero(np.concatenate([[True], apart]))
    nodes, merged = phi[start], np.add.reduceat(w, start)
    if len(nodes) < 3:
        return np.zeros(0), np.zeros(0), np.zeros((SHUFFLES, 0))
    width = (np.roll(nodes, -1) - np.roll(nodes, 1)) % rule.period / 2
    x, y = width / width.mean() - 1, merged / merged.mean() - 1
    return x, y, np.stack([rng.permutation(y) for _ in range(SHUFFLES)])


def _fits(
    residuals: list[Residual], boxes: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
) -> Fits:
    """Pool over clusters: squares for the residual, all boxes for the spacing."""
    none = np.zeros(PERMUTATIONS + 1)
    rr = sum(left for left, _, _ in residuals)
    rp, pp = (
        sum((met for _, met, _ in residuals), none),
        sum((size for _, _, size in residuals), none),
    )
    r2 = (2 * rp - pp) / rr if rr > 0 else None
    x, y = (
        np.concatenate([columns[j] for columns in boxes]) if boxes else np.zeros(0) for j in (0, 1)
    )
    shuffled = (
        np.concatenate([permuted for _, _, permuted in boxes], axis=1)
        if boxes
        else np.zeros((SHUFFLES, 0))
    )
    xx, yy = float(x @ x), float(y @ y)
    spaced = xx > 0 and yy > 0
    return Fits(
        None if r2 is None else float(r2[0]),
        float(rp[0] / np.sqrt(rr * pp[0])) if rr > 0 and pp[0] > 0 else None,
        None if r2 is None else float(r2[1:].mean()),
        float(x @ y / np.sqrt(xx * yy)) if spaced else None,
        float(x @ y) / xx if spaced else None,
        float(np.quantile(shuffled @ x / np.sqrt(xx * yy), 0.95)) if spaced else None,
    )
