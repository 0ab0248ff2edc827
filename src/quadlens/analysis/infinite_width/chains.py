"""Keys that are doubles of each other, read together.

Where 2k is a key too, the rule at k need not be even: the wave that an uneven rule adds is one that
the clusters of the chain k, 2k, 4k, … can undo for each other. So a chain is read with the density
of its nodes, and with what a cluster writes at twice its frequency:

    at k:   Σ_m μ_{2+m} s_m(d) e^{imθ},      at 2k:   B Σ_m μ_{4+m} s_m(d) e^{imθ},
    μ_q = Σ_i w_i e^{iqφ_i}

with h(g(d, θ)) = Σ_m s_m(d) e^{imθ}, |m| ≤ 2 and |q| ≤ 4. m = -2 at k is the integral itself, m = 0
a constant, m = 2 the mirror image cos kw(a + b + c), which turns the circle of answers into an
ellipse. B is one complex number per cluster: how its neurons write 2k, by least squares of W_i(2k)
against ω_i e^{4iφ_i}. For an even rule all but m = -2 vanish.
"""

import numpy as np
from jaxtyping import Complex

from quadlens.analysis.infinite_width.integral import angles, by_difference, is_short, over_inputs
from quadlens.analysis.infinite_width.parts import Amplitudes, ClusterReading, LensParts
from quadlens.analysis.spectrum.harmonics import doubled

WAVES, MOMENTS = 2, 4


def chains_of(keys: tuple[int, ...], n: int) -> tuple[tuple[int, ...], ...]:
    """Return runs of two and more keys in which each is twice the one before.

    Doubles are taken modulo n and folded to 1 … n/2.

    A closed ring of doubles begins with its smallest key.

    >>> chains_of((5, 7, 27), 59), chains_of((1, 2, 3), 7)
    (((27, 5),), ((1, 2, 3),))
    """
    double = {k: doubled(k, n) for k in keys}
    follows = {k: j for k, j in double.items() if j in double and j != k}
    runs: list[tuple[int, ...]] = []
    for first in (*sorted(set(follows) - set(follows.values())), *sorted(follows)):
        if any(first in run for run in runs):
            continue
        run = [first]
        while (after := follows.get(run[-1], first)) not in run:
            run.append(after)
        runs.append(tuple(run))
    return tuple(runs)


def read_jointly(parts: LensParts, chains: tuple[tuple[int, ...], ...]) -> Amplitudes:
    """Sum the claims about all clusters: integrals, and the module's sums for chains.

    A sign wave of even n has no circle, in a chain or not: its harmonics are too few for the sums.
    """
    chained = {k for chain in chains for k in chain}
    total = np.zeros_like(parts.logits)
    for reading in parts.readings:
        cluster, k, n = reading.cluster, reading.cluster.k, parts.n
        if k not in chained or is_short(cluster):
            total[..., k] += over_inputs(cluster, reading.theory)
            continue
        total[..., k] += sum_with_moments(reading, 2)
        target = doubled(k, n)
        if target in (0, k):
            continue
        written = parts.written[target, cluster.neurons]
        written = written if 2 * k % n == target else written.conj()
        ideal = cluster.omega * np.exp(4j * cluster.phi)
        B = complex((written * ideal.conj()).sum() / np.square(cluster.omega).sum())
        at_double = B * sum_with_moments(reading, 4)
        total[..., target] += at_double if 2 * k % n == target else at_double.conj()
    return total


def sum_with_moments(reading: ClusterReading, order: int) -> Complex[np.ndarray, "n n"]:
    """Return Σ_m μ_{q+m} s_m(d) e^{imθ}, [a, b], for neurons that write at q times their phase."""
    rule, theta = reading.rule, angles(reading.cluster)
    total = np.zeros((len(theta), len(theta)), dtype=complex)
    for m in range(-WAVES, WAVES + 1):
        if abs(order + m) <= MOMENTS:
            total += (
                rule.moment(order + m)
                * by_difference(rule.harmonics[:, m])
                * np.exp(1j * m * theta)
            )
    return total
