"""Enclose the truth about a quadrature rule by ball arithmetic.

All follows straight from the rule's definition; nothing here is fast.
"""

from typing import Any

import numpy as np
from flint import acb, arb, ctx
from hypothesis import strategies as st

from quadlens.analysis.quadrature import Scheme

PRECISION = 1400  # enough for phases as large as a double gets


PARTS = ("abs", "identity", "relu")


class Truth:
    """Errors of a rule with ψ (or 2φ) at any s, as balls."""

    def __init__(self, scheme: Scheme, psi: bool) -> None:
        self.scheme = scheme
        outs = (
            [arb(x) for x in scheme.psi.tolist()]
            if psi
            else [2 * arb(x) for x in scheme.phi.tolist()]
        )
        self.phi = [arb(x) for x in scheme.phi.tolist()]
        self.values = [w * _unit(out) for w, out in zip(weights(scheme), outs, strict=True)]

    def at(self, s: Any) -> dict[str, Any]:
        """Σ w_i f(cos(s+φ_i)) e^{iψ_i} - ∫ for each part; s is a ball."""
        absolute, identity = acb(0), acb(0)
        for value, phi in zip(self.values, self.phi, strict=True):
            cosine = (s + phi).cos()
            identity += cosine * value
            absolute += abs(cosine) * value
        absolute -= arb(4) / 3 * _unit(-2 * s)
        return {"abs": absolute, "identity": identity, "relu": (absolute + identity) / 2}

    def on_grid(self, turn: int = 0) -> list[dict[str, Any]]:
        """At s = kπt/p + turn·π for t = 0 … p-1."""
        step = self.scheme.k * arb.pi() / self.scheme.p
        return [self.at(turn * arb.pi() + t * step) for t in range(self.scheme.p)]

    def worst(self) -> dict[str, tuple[Any, Any]]:
        """Ends of an enclosure of max |error| over all a, b (both signs of cos u), any c."""
        errors = self.on_grid() + self.on_grid(turn=1)
        sizes = {part: [abs(error[part]) for error in errors] for part in PARTS}
        return {
            part: (max(x.lower() for x in some), max(x.upper() for x in some))
            for part, some in sizes.items()
        }


def weights(scheme: Scheme) -> list[Any]:
    products = [
        arb(float(r)) * arb(float(o)) for r, o in zip(scheme.rho, scheme.omega, strict=True)
    ]
    total = sum(products, arb(0))
    return [2 * arb.pi() * product / total for product in products]


def angle_difference(scheme: Scheme, s: Any, part: str) -> Any:
    """Return Σ w_i f(cos(s+φ_i)) (e^{iψ_i} - e^{2iφ_i}) without cancellation.

    The identity used is e^{ix} - e^{iy} = 2i sin((x-y)/2) e^{i(x+y)/2}.
    """
    total = acb(0)
    for w, phi, psi in zip(weights(scheme), scheme.phi.tolist(), scheme.psi.tolist(), strict=True):
        height = abs((s + arb(phi)).cos())
        if part == "relu":
            height = (height + (s + arb(phi)).cos()) / 2
        sine, cosine = ((arb(psi) + 2 * arb(phi)) / 2).sin_cos()
        total += w * height * 2 * ((arb(psi) - 2 * arb(phi)) / 2).sin() * acb(-sine, cosine)
    return total


def worst_integer_c(truth: Truth) -> Any:
    """Largest |Re(error e^{ikwc})| of the absolute-value part over all a, b, c in Z_p."""
    best = arb(0)
    turns = [
        _unit(2 * arb.pi() * truth.scheme.k * c / truth.scheme.p) for c in range(truth.scheme.p)
    ]
    for error in truth.on_grid():
        for turn in turns:
            best = max(best, abs((error["abs"] * turn).real).mid())
    return best


def with_bits(scheme: Scheme) -> Any:
    """Precision enough for the scheme's phases, however large."""
    largest = max(float(np.abs(scheme.phi).max()), float(np.abs(scheme.psi).max()))
    return ctx.workprec(PRECISION if largest > 1e6 else 160)


def _unit(angle: Any) -> Any:
    sine, cosine = angle.sin_cos()
    return acb(cosine, sine)


@st.composite
def schemes(
    draw: st.DrawFn, most: int = 8, largest_half: int = 7, large_phases: bool = True
) -> Scheme:
    """Random and adversarial rules."""
    p = draw(st.integers(3, 2 * largest_half + 1))
    k = draw(st.integers(1, (p - 1) // 2))
    n = draw(st.integers(2, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    phi = _phases(draw(st.sampled_from(PHASES if large_phases else PHASES[:-1])), n, p, rng)
    psi = _outputs(draw(st.sampled_from(OUTPUTS)), phi, rng)
    rho, omega = (_amplitudes(draw(st.sampled_from(AMPLITUDES)), n, rng) for _ in range(2))
    if not ((rho > 0) & (omega > 0)).any():
        rho[0] = omega[0] = 1.0
    return Scheme(p, k, phi, psi, rho, omega)


PHASES = (
    "uniform",
    "clustered",
    "duplicated",
    "kinks",
    "equal",
    "half",
    "corners",
    "tiny",
    "large",
)
OUTPUTS = ("double", "noisy", "random", "turned")
AMPLITUDES = ("ones", "uniform", "wild", "one", "sparse")


def _phases(kind: str, n: int, p: int, rng: np.random.Generator) -> np.ndarray:
    uniform = rng.uniform(-np.pi, np.pi, n)
    # On the kinks of the very angles that are looked at, and the neighbouring doubles.
    kinks = np.pi / 2 - np.pi * rng.integers(0, 2 * p, n) / p
    kinds = {
        "uniform": uniform,
        "clustered": uniform[0] + 10.0 ** -rng.integers(1, 17) * rng.standard_normal(n),
        "duplicated": rng.choice(uniform[: max(1, n // 3)], n) + np.pi * rng.integers(-1, 1, n),
        "kinks": np.nextafter(kinks, kinks + rng.integers(-1, 2, n)),
        "equal": -np.pi + 2 * np.pi * np.arange(n) / n,
        "half": np.abs(uniform),
        "corners": rng.choice([-np.pi, -np.pi / 2, 0.0, np.pi / 2, np.pi, 4.0, -4.0], n),
        "tiny": rng.choice([0.0, -0.0, 5e-324, -5e-324, 1e-300, 1e-17, -1e-9], n),
        "large": uniform * 10.0 ** rng.choice([1, 3, 9, 17, 60, 300], n),
    }
    return kinds[kind]


def _outputs(kind: str, phi: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if kind == "noisy":
        return 2 * phi + 0.1 * rng.standard_normal(len(phi))
    if kind == "random":
        return rng.uniform(-np.pi, np.pi, len(phi))
    if kind == "turned":
        return 2 * phi + 2 * np.pi * rng.integers(-3, 4, len(phi))
    return 2 * phi


def _amplitudes(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "ones":
        return np.ones(n)
    if kind == "wild":
        return 10.0 ** rng.uniform(-320, 308, n)
    if kind == "one":
        amplitudes = np.full(n, 1e-12)
        amplitudes[rng.integers(n)] = 1.0
        return amplitudes
    if kind == "sparse":
        return rng.random(n) * (rng.random(n) < 0.5)
    return rng.random(n)
