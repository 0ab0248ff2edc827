"""The exact error of a shared function: against the older method, against high precision, and with
no tolerance."""

import dataclasses
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quadlens
from lens_exact_error import (
    Part,
    error_table,
    exact_shared_error,
    shared_errors,
)
from quadlens.analysis.quadrature.claims import shown
from quadlens.analysis.quadrature.exact import exact_errors
from quadlens.analysis.quadrature.scheme import Scheme, scheme_of
from quadlens.base.errors import WrongArgument

pytestmark = pytest.mark.slow

mpmath = pytest.importorskip("mpmath")

PARTS: tuple[Part, ...] = ("relu", "abs")


def random_scheme(seed: int, n: int = 7, neurons: int = 9) -> Scheme:
    rng = np.random.default_rng(seed)
    phi = rng.uniform(-4, 4, neurons)
    return Scheme(
        n, 2, phi, 2 * phi + rng.normal(0, 0.1, neurons), *rng.uniform(0.1, 1, (2, neurons))
    )


def pizza_rows(n: int, k: int) -> np.ndarray:
    """F_0 = 0, F_1 = e^{is} at b = 0 for a - b = 0 … 2n-1, so that both signs of cos u occur."""
    d = np.arange(2 * n)
    return np.stack([np.zeros(2 * n), np.exp(1j * np.pi * k * d / n)]).astype(complex)


@pytest.mark.parametrize("with_psi", [False, True])
def test_degree_one_without_a_constant_is_the_older_exact_error(with_psi: bool) -> None:
    for cluster in quadlens.study("pizza").anatomy.clusters:
        scheme = scheme_of(cluster)
        assert isinstance(scheme, Scheme)
        known, F = exact_errors(scheme, with_psi), pizza_rows(scheme.p, scheme.k)
        for part, old in (("abs", known.absolute), ("relu", known.relu)):
            new = exact_shared_error(scheme, F, part, with_psi)  # type: ignore[arg-type]
            assert shown(new, 6) == shown(old, 6)
            # Both enclose one number, so they meet.
            assert max(new.lower, old.lower) <= min(new.upper, old.upper)
            assert new.width < 1e-10


def truth(scheme: Scheme, F: np.ndarray, part: Part, with_psi: bool) -> Any:
    """The definition written out in 40 digits; zeros by bisection on a fine grid, integrals between
    them."""
    with mpmath.workdps(40):
        products = [
            mpmath.mpf(float(x)) * mpmath.mpf(float(y))
            for x, y in zip(scheme.rho, scheme.omega, strict=True)
        ]
        weights = [2 * mpmath.pi * x / sum(products) for x in products]
        worst = mpmath.mpf(0)
        for r in range(F.shape[1]):
            coefficients = [mpmath.mpc(complex(x)) for x in F[:, r]]

            def g(t: Any, c: list[Any] = coefficients) -> Any:
                return c[0].real + sum((x * mpmath.expj(m * t)).real for m, x in enumerate(c) if m)

            def sigma(x: Any) -> Any:
                return abs(x) if part == "abs" else max(x, mpmath.mpf(0))

            grid = [2 * mpmath.pi * j / 120 for j in range(121)]
            cuts = [grid[0]]
            for x, y in pairwise(grid):
                if g(x) * g(y) < 0:
                    cuts.append(
                        mpmath.findroot(g, (x, y), solver="anderson", tol=1e-60, verify=False)
                    )
            cuts.append(grid[-1])
            integral = mpmath.quad(lambda t: sigma(g(t)) * mpmath.expj(2 * t), cuts)
            for b in range(scheme.q):
                theta = 2 * mpmath.pi * b / scheme.q
                total = -mpmath.expj(-2 * theta) * integral
                for w, phi, psi in zip(
                    weights, scheme.phi.tolist(), scheme.psi.tolist(), strict=True
                ):
                    value = mpmath.mpf(psi) if with_psi else 2 * mpmath.mpf(phi)
                    total += w * sigma(g(theta + mpmath.mpf(phi))) * mpmath.expj(value)
                worst = max(worst, abs(total))
        return worst


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("seed", range(4))
def test_the_truth_is_in_the_enclosure(part: Part, seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    degree = 1 + seed
    F = rng.normal(size=(degree + 1, 2)) + 1j * rng.normal(size=(degree + 1, 2))
    scheme, with_psi = random_scheme(seed), bool(seed % 2)
    claim = exact_shared_error(scheme, F, part, with_psi)
    value = truth(scheme, F, part, with_psi)
    assert claim.lower <= value <= claim.upper
    assert claim.width < 1e-9


@given(st.integers(0, 10**6), st.integers(0, 5), st.sampled_from(PARTS))
def test_a_fine_sum_is_never_outside(seed: int, degree: int, part: Part) -> None:
    """Against a trapezoidal rule with its own proved error: the Lipschitz constant times the
    step."""
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(degree + 1, 1)) + 1j * rng.normal(size=(degree + 1, 1))
    scheme = random_scheme(seed)
    claim = exact_shared_error(scheme, F, part)
    nodes = 20_000
    theta = 2 * np.pi * (np.arange(nodes) + 0.5) / nodes
    m = np.arange(degree + 1)

    def height(t: np.ndarray) -> np.ndarray:
        turned = np.exp(1j * np.multiply.outer(t, m)) * F[:, 0]
        g = turned.real.sum(axis=-1)
        return np.abs(g) if part == "abs" else np.maximum(g, 0)

    integral = 2 * np.pi * (height(theta) * np.exp(2j * theta)).mean()
    lipschitz = ((m + 2) * np.abs(F[:, 0])).sum()
    blur = 2 * np.pi * lipschitz * np.pi / nodes / 2 + 1e-9
    found = 0.0
    for b in range(scheme.q):
        t = 2 * np.pi * b / scheme.q
        total = (scheme.w * height(t + scheme.phi) * np.exp(2j * scheme.phi)).sum() - np.exp(
            -2j * t
        ) * integral
        found = max(found, abs(total))
    assert claim.lower <= found + blur
    assert found - blur <= claim.upper


def test_a_double_zero_is_no_harm() -> None:
    """1 + cos θ touches 0: the enclosure is still narrow and around the closed form, ∫ (1 + cos θ)
    e^{2iθ} = 0."""
    scheme = random_scheme(5)
    F = np.array([[1.0], [1.0]], dtype=complex)
    claim = exact_shared_error(scheme, F, "relu")
    sums = [
        (scheme.w * (1 + np.cos(2 * np.pi * b / 7 + scheme.phi)) * np.exp(2j * scheme.phi)).sum()
        for b in range(7)
    ]
    assert claim.lower - 1e-12 <= max(map(abs, sums)) <= claim.upper + 1e-12
    assert claim.width < 1e-9


def test_a_function_without_zeros_and_one_that_is_nothing() -> None:
    scheme = random_scheme(6)
    high = exact_shared_error(scheme, np.array([[3.0], [1.0]], dtype=complex), "relu")
    same = exact_shared_error(scheme, np.array([[3.0], [1.0]], dtype=complex), "abs")
    assert high.lower <= same.upper
    assert same.lower <= high.upper
    assert exact_shared_error(scheme, np.zeros((3, 2), dtype=complex)).upper < 1e-290
    with pytest.raises(WrongArgument, match="not finite"):
        exact_shared_error(scheme, np.array([[np.nan]], dtype=complex))


def test_an_integral_that_is_nothing_has_no_relative_error() -> None:
    (first, *_) = shared_errors(quadlens.lens("pizza"))
    nothing = dataclasses.replace(first, baseline=0.0)
    assert nothing.relative is None
    assert error_table((nothing,)).rows[0][-1] == "–"


def test_pizza_has_an_exact_error_for_its_shared_function() -> None:
    errors = shared_errors(quadlens.lens("pizza"))
    assert [one.k for one in errors] == [5, 9, 11]
    for one in errors:
        assert one.error.width < 1e-9
        assert one.relative is not None
        assert 0.001 < one.relative.value < 0.2
