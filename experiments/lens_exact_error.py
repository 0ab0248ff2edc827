"""How far are the lens's finite sums from their integrals? The exact worst case over all inputs.

    python experiments/lens_exact_error.py MODEL           # one row per cluster (relu, abs)
    python experiments/lens_exact_error.py MODEL --json

The error of a cluster's sum against the integral of its shared function, for any c, is

    E(r, b) = Σ_i w_i σ(g_r(θ_b + φ_i)) e^{iψ_i} - e^{-2iθ_b} ∫ σ(g_r(θ)) e^{2iθ} dθ,
    g_r(θ) = Re Σ_m F_m[r] e^{imθ}

θ_b = kwb, one row r per difference a - b, weights w_i that sum to 2π, σ = ReLU or |x|. With F_0 =
0, F_1 = e^{is} it is the error of `math.md` §4. Every row's integral is exact up to rounding:
between two zeros of g_r the integrand is a trigonometric polynomial. Zeros are found in floats and
then proved: on each arc between them ±g_r ≥ -η is shown by Taylor's theorem on small cells, and a
wrong zero can only change the integral by 2π · 2η. Finite sums are added up directly, so that the
cost is rows · n · d (degree + 1): no running sums, unlike degree 1 without a constant.
"""

import argparse
import json
import math
import sys
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Complex, Float, Int

from quadlens.analysis.infinite_width.chains import sum_with_moments
from quadlens.analysis.infinite_width.integral import is_short
from quadlens.analysis.infinite_width.lens import Lens
from quadlens.analysis.infinite_width.of_study import lens
from quadlens.analysis.infinite_width.parts import ClusterReading
from quadlens.analysis.quadrature.balls import PRECISION
from quadlens.analysis.quadrature.claims import (
    ARB,
    DOUBLES,
    IEEE,
    Cost,
    Estimate,
    Exact,
    claim_to_dict,
    shown,
)
from quadlens.analysis.quadrature.expi import UNIT, expi
from quadlens.analysis.quadrature.scheme import Scheme, products_of, reduced
from quadlens.base.errors import BadConfig, QuadlensError, WrongArgument
from quadlens.base.numbers import decimals, precision
from quadlens.base.table import Table

EQUATION = "docs/lens-models.md §4"
# ±g ≥ -TOLERANCE · Σ|F_m| is enough to call an arc settled; it costs the integral 4π times that.
TOLERANCE = 2.0**-44
# Cells are halved at most so often, and only while there are not too many; those not settled then
# widen the enclosure.
MAX_HALVINGS, MAX_CELLS = 45, 2**19
# Zeros of the polynomial this near to the unit circle are tried as zeros of g; one too many does no
# harm.
NEAR_CIRCLE = 1e-3
# Larger than every constant of the rounding analysis below; rounding is relative to Σ|F_m|.
ROUNDING = 400
Part = Literal["relu", "abs"]


def exact_shared_error(
    scheme: Scheme,
    F: Complex[np.ndarray, "charges rows"],
    part: Part = "relu",
    with_psi: bool = False,
) -> Exact:
    """Enclose the largest |E(r, b)| over all rows r and all b.

    It holds for any c, since a modulus is the worst case over the angle kwc.

    Args:
        scheme: Nodes φ, values ψ and weights.
        F: The shared function's coefficients, taken as exactly these doubles; the imaginary part of
            F_0 plays no part.
        part: σ.
        with_psi: Whether values carry ψ_i; otherwise 2φ_i.

    Raises:
        WrongArgument: when F is empty or not finite.
    """
    if F.size == 0 or not np.isfinite(F).all():
        raise WrongArgument("the shared function has no coefficients, or some that are not finite")
    F = np.array(F, dtype=np.complex128)
    F[0] = F[0].real
    size = _at_least(np.abs(F).sum(axis=0))
    integrals, radius = _integrals(F, size, part)
    # One value of θ_b for every value of kwb; reduced to [-π, π], where expi is proved.
    j: Int[np.ndarray, " q"] = np.arange(scheme.q)
    turn = expi(2 * np.pi * (j - np.where(2 * j > scheme.q, scheme.q, 0)) / scheme.q)
    nodes = expi(reduced(scheme.phi))
    values = expi(reduced(scheme.psi)) if with_psi else nodes * nodes
    products = products_of(scheme)
    values *= products * (2 * np.pi / products.sum())
    worst, lowest = 0.0, 0.0
    # |computed - true| of one finite sum and its turned integral: each z^m = (turn · node)^m is
    # within 100 m units of its value, the sum over m adds M units, weights and the sum over neurons
    # 2d + 100, the turned integral 300.
    charges = len(F)
    units = 2 * math.pi * UNIT * (ROUNDING + 100 * charges + charges + 4 * scheme.n)
    for r in range(F.shape[1]):
        heights = _apply(part, _real_sum(F[:, r], turn[:, None] * nodes))
        sums = heights @ values.real + 1j * (heights @ values.imag)
        error = float(np.abs(sums - np.conj(turn) ** 2 * integrals[r]).max())
        slack = 2 * units * float(size[r]) + float(radius[r])
        worst, lowest = max(worst, error + slack), max(lowest, error - slack)
    cost = Cost(F.shape[1] * scheme.q * scheme.n * (8 * charges + 4), "n² d D")
    quantity = (
        f"{part} error of the shared function, all a, b, any c with {'ψ' if with_psi else '2φ'}"
    )
    lower, upper = max(0.0, math.nextafter(lowest, -math.inf)), math.nextafter(worst, math.inf)
    return Exact(lower, upper, quantity, EQUATION, (DOUBLES, IEEE, ARB), cost)


@dataclass(frozen=True)
class SharedError:
    """The exact error of one cluster.

    Attributes:
        k: Frequency.
        error: Worst case over all a, b and any c, weights scaled to sum to 2π, with the model's ψ.
        baseline: Mean over a - b of the integral's size, on the same scale.
        joint: The relative error, in float64, that is left where the cluster is read with its
            moments, being in a chain of doubled keys; None where it is in none.
    """

    k: int
    error: Exact
    baseline: float
    joint: float | None

    @property
    def relative(self) -> Estimate | None:
        """The error over the integral's mean size; None where the integral is 0."""
        if self.baseline == 0:
            return None
        return Estimate(
            self.error.middle / self.baseline, "exact error over the mean of |∫|, in float64"
        )

    def to_dict(self) -> dict[str, Any]:
        relative = None if self.relative is None else self.relative.value
        return {
            "k": self.k,
            "error": claim_to_dict(self.error),
            "relative": relative,
            "joint": self.joint,
        }


def shared_error(reading: ClusterReading, part: Part, chained: bool = False) -> SharedError:
    """Enclose the error of a cluster, and compute what its moments leave of it in a chain.

    Raises:
        NotAScheme: when the cluster is no quadrature rule.
    """
    cluster = reading.cluster
    scheme = Scheme(cluster.n, cluster.k, cluster.phi, cluster.psi, cluster.rho, cluster.omega)
    baseline = (
        float(np.abs(reading.theory).mean())
        * 2
        * np.pi
        / float((cluster.rho * cluster.omega).sum())
    )
    error = exact_shared_error(scheme, reading.shared.F, part, with_psi=True)
    return SharedError(cluster.k, error, baseline, _joint_error(reading) if chained else None)


def shared_errors(lens: Lens) -> tuple[SharedError, ...]:
    """Enclose the error of every cluster that is a quadrature rule.

    Raises:
        BadConfig: for an activation that is not linear on each side of 0.
    """
    if lens.activation not in ("relu", "abs"):
        raise BadConfig(
            f"this model's activation is {lens.activation!r}; the exact error is known for relu "
            "and abs, whose integrals have a closed form between the zeros of the shared function"
        )
    part: Part = "relu" if lens.activation == "relu" else "abs"
    rules = [
        cluster.reading
        for cluster in lens.clusters
        if cluster.neurons > 1 and 2 * cluster.k != lens.n
    ]
    chained, errors = {k for chain in lens.chains for k in chain}, []
    for reading in rules:
        in_chain = reading.cluster.k in chained and not is_short(reading.cluster)
        errors.append(shared_error(reading, part, in_chain))
    return tuple(errors)


def error_table(errors: tuple[SharedError, ...]) -> Table:
    """Make a table with one row per cluster."""
    relative = [None if x.relative is None else x.relative.value for x in errors]
    rows = [
        [str(x.k), shown(x.error, 4), decimals(share, 4), decimals(x.joint, 4)]
        for x, share in zip(errors, relative, strict=True)
    ]
    caption = (
        "= worst case over all a, b and any c, proved; ≈ over the integral's mean size; in a chain "
        "of doubled keys, what is left of that when the moments of the nodes are kept."
    )
    return Table(
        "Finite sum against the shared function's integral",
        ("k", "= exact", "≈ relative", "≈ in its chain"),
        rows,
        caption=caption,
    )


def _joint_error(reading: ClusterReading) -> float:
    """Return a rule's error against the sum with its moments, over the integral's mean size."""
    finite = reading.rule.sums(reading.cluster.phi, reading.rule.w[:, None])[..., 0]
    size = float(np.abs(reading.theory).mean())
    return float(np.abs(finite - sum_with_moments(reading, 2)).max()) / size if size > 0 else 0.0


def _apply(part: Part, x: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    return np.abs(x) if part == "abs" else np.maximum(x, 0.0)


def _at_least(x: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
    """Return numbers that are not below the true sums, whatever rounding did."""
    return x * (1 + 2.0**-30) + 1e-300


def _real_sum(
    F: Complex[np.ndarray, "charges ..."], z: Complex[np.ndarray, "*shape"]
) -> Float[np.ndarray, "*shape"]:
    """Return Re Σ_m F_m z^m, powers by multiplication."""
    power = np.ones_like(z)
    total = np.broadcast_to(F[0].real, z.shape).copy()
    for coefficient in F[1:]:
        power = power * z
        total += coefficient.real * power.real - coefficient.imag * power.imag
    return total


def _integrals(
    F: Complex[np.ndarray, "charges rows"], size: Float[np.ndarray, " rows"], part: Part
) -> tuple[Complex[np.ndarray, " rows"], Float[np.ndarray, " rows"]]:
    """Return ∫ σ(g_r) e^{2iθ} dθ over a turn for every row, and how far each may be off."""
    rows = F.shape[1]
    edges = [_zeros(F[:, r]) for r in range(rows)]
    # Arcs from -π to π, cut at the zeros; the sign of each from its middle.
    row = np.concatenate([np.full(len(ends) - 1, r) for r, ends in enumerate(edges)])
    low, high = (
        np.concatenate([ends[:-1] for ends in edges]),
        np.concatenate([ends[1:] for ends in edges]),
    )
    sign = np.where(_real_sum(F[:, row], expi((low + high) / 2)) >= 0, 1.0, -1.0)
    eta = _eta(F, size, row, low, high, sign)
    integrals, radius = np.zeros(rows, dtype=complex), np.zeros(rows)
    for r in range(rows):
        of_row = row == r
        middle, width = _signed_integral(F[:, r], edges[r], sign[of_row], part)
        integrals[r], radius[r] = middle, width + 4 * np.pi * 1.0001 * eta[r]
    return integrals, radius


def _zeros(F: Complex[np.ndarray, " charges"]) -> Float[np.ndarray, " edges"]:
    """Return -π, the zeros of Re Σ F_m e^{imθ} as floats have them, and π: sorted, each once."""
    # z^M (Σ F_m z^m + Σ conj(F_m) z^-m), coefficients from the highest power down.
    coefficients = np.concatenate([F[:0:-1], [2 * F[0].real], F[1:].conj()])
    roots = np.roots(coefficients) if np.abs(F[1:]).max(initial=0.0) > 0 else np.zeros(0)
    theta = np.angle(roots[np.abs(np.abs(roots) - 1) < NEAR_CIRCLE])
    slopes = F * 1j * np.arange(len(F))
    for _ in range(3):
        value, slope = (_real_sum(waves, np.exp(1j * theta)) for waves in (F, slopes))
        step = np.divide(value, slope, out=np.zeros_like(value), where=slope != 0)
        theta = np.where(np.abs(step) < NEAR_CIRCLE, theta - step, theta)
    return np.unique(np.concatenate([[-np.pi, np.pi], np.clip(theta, -np.pi, np.pi)]))


def _eta(
    F: Complex[np.ndarray, "charges rows"],
    size: Float[np.ndarray, " rows"],
    row: Int[np.ndarray, " arcs"],
    low: Float[np.ndarray, " arcs"],
    high: Float[np.ndarray, " arcs"],
    sign: Float[np.ndarray, " arcs"],
) -> Float[np.ndarray, " rows"]:
    """Prove for each row an η with sign · g ≥ -η on all its arcs.

    On a cell of centre c and half-width v: sign · g ≥ sign · g(c) - |g'(c)| v - (v²/2) Σ m²|F_m|.
    Cells for which that is not above -TOLERANCE · size are halved.
    """
    m = np.arange(len(F))[:, None]
    curvature = _at_least((m**2 * np.abs(F)).sum(axis=0))
    steepness = _at_least((m * np.abs(F)).sum(axis=0))
    slopes = F * 1j * m
    # Rounding of g(c) and of g'(c) v with v ≤ π; of the centres, 2^-52 per halving, so that a point
    # between two cells is within 2^-46 of one; and the 2^-52 that the doubles ±π leave of the
    # circle: all below 2^-43 Σ m|F_m|.
    slack = UNIT * (ROUNDING + 100 * len(F)) * (size + 4 * steepness)
    eta = TOLERANCE * size + slack
    centre, half = (low + high) / 2, (high - low) / 2
    for halving in range(MAX_HALVINGS):
        z = expi(centre)
        value, slope = sign * _real_sum(F[:, row], z), np.abs(_real_sum(slopes[:, row], z))
        below = slope * half + curvature[row] * half**2 / 2 - value
        open_ = below > TOLERANCE * size[row]
        if halving == MAX_HALVINGS - 1 or len(row) > MAX_CELLS:
            np.maximum.at(eta, row[open_], below[open_] + slack[row[open_]])
            break
        if not open_.any():
            break
        row, sign, centre, half = (
            np.repeat(of_cells[open_], 2) for of_cells in (row, sign, centre, half)
        )
        half = half / 2
        centre = centre + half * np.tile([-1.0, 1.0], len(half) // 2)
    return eta


def _signed_integral(
    F: Complex[np.ndarray, " charges"],
    edges: Float[np.ndarray, " edges"],
    sign: Float[np.ndarray, " arcs"],
    part: Part,
) -> tuple[complex, float]:
    """Enclose Σ over arcs of weight · ∫ g e^{2iθ} dθ in ball arithmetic.

    Returns:
        The middle, and how far the truth may be from it.
    """
    from flint import acb, arb

    with precision(PRECISION):
        values = [_antiderivative(F, acb(x)) for x in _edges_as_balls(edges)]
        total = acb(0)
        for index, arc_sign in enumerate(sign.tolist()):
            weight = arc_sign if part == "abs" else max(arc_sign, 0.0)
            total += acb(weight) * (values[index + 1] - values[index])
        middle = complex(float(total.real.mid()), float(total.imag.mid()))
        away = abs(total - acb(middle.real, middle.imag))
        return middle, math.nextafter(float(arb(away).upper()), math.inf)


def _edges_as_balls(edges: Float[np.ndarray, " edges"]) -> list[Any]:
    """Return the edges as balls; the first and last are ±π themselves."""
    from flint import arb

    return [-arb.pi(), *(arb(x) for x in edges[1:-1].tolist()), arb.pi()]


def _antiderivative(F: Complex[np.ndarray, " charges"], theta: Any) -> Any:
    """Return ∫ Re(Σ F_m e^{imθ}) e^{2iθ}: a term e^{ilθ} gives e^{ilθ}/(il), a constant θ."""
    from flint import acb

    def term(order: int) -> Any:
        return theta if order == 0 else (acb(0, order) * theta).exp() / acb(0, order)

    total = acb(F[0].real) * term(2)
    for m, coefficient in enumerate(F.tolist()[1:], 1):
        half = acb(coefficient.real, coefficient.imag) / 2
        total += half * term(m + 2) + half.conjugate() * term(2 - m)
    return total


def main(arguments: list[str]) -> None:
    """Print the exact error of every cluster of a model."""
    parser = argparse.ArgumentParser(description="Enclose the errors of a lens's finite sums.")
    parser.add_argument("model")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args(arguments)
    try:
        errors = shared_errors(lens(options.model))
    except QuadlensError as error:
        sys.exit(str(error))
    if options.json:
        sys.stdout.write(json.dumps({"exact_errors": [error.to_dict() for error in errors]}) + "\n")
    else:
        sys.stdout.write(error_table(errors).to_markdown() + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
