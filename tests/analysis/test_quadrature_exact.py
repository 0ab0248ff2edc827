"""The exact method against brute force, the closed forms against sums, the windows against slow
search."""

import itertools
import math

import numpy as np
import pytest
from benchmarks.analysis import random_scheme
from flint import arb
from hypothesis import given
from tools.quadrature_tables import equally_spaced_error, thinned_errors

from examples import examples
from quadlens.analysis.quadrature import (
    Scheme,
    bound_abs_full,
    bound_relu_full,
    box_density,
    cos_baseline,
    exact_errors,
    moments,
    rectangles,
    scheme_of,
)
from quadlens.analysis.quadrature.exact import exact_abs_error, half_turn_blocks
from quadlens.analysis.quadrature.integrals import abs_integral, brute_force_error, sin_baseline
from quadlens.analysis.quadrature.moment_series import bound_moments
from quadlens.analysis.quadrature.paper_bounds import (
    bound_relu_half,
    rectangle_errors,
    relu_by_largest_half,
)
from quadlens.analysis.quadrature.supremum import abs_supremum, identity_supremum, relu_supremum
from quadlens.analysis.spectrum.cluster import find_clusters, neuron_spectra
from quadlens.network import Recipe, build_mlp, build_transformer
from quadrature_truth import schemes, with_bits

RECIPES = (
    Recipe(59, (3, 5, 7), 512, jitter=0.02, noise=0.02),
    Recipe(59, (12, 18, 21, 22), 512, noise=0.1),
    Recipe(15, (3, 5, 7), 100, jitter=0.2),  # 3 and 5 share a factor with 15
    Recipe(23, (1, 11), 64, missing=0.3),
    Recipe(101, (50,), 7),
)


def clusters_of(recipe: Recipe) -> list[Scheme]:
    schemes = []
    for model in (build_mlp(recipe), build_transformer(recipe)):
        for cluster in find_clusters(neuron_spectra(model.collapse())):
            scheme = scheme_of(cluster)
            if isinstance(scheme, Scheme):
                schemes.append(scheme)
    return schemes


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_exact_equals_brute_force_on_every_cluster(recipe: Recipe) -> None:
    found = clusters_of(recipe)
    assert found
    for scheme in found:
        for folded in (False, True):
            exact = exact_errors(scheme, folded)
            assert exact.absolute.middle == pytest.approx(
                brute_force_error(scheme, "abs", folded).value, abs=1e-12
            )
            assert exact.identity.middle == pytest.approx(
                brute_force_error(scheme, "identity", folded).value, abs=1e-12
            )
            assert exact.relu.middle == pytest.approx(
                brute_force_error(scheme, "relu", folded).value, abs=1e-12
            )
            assert exact_abs_error(scheme, folded).middle == pytest.approx(
                exact.absolute.middle, abs=1e-14
            )
            assert exact.absolute.width < 1e-11


def test_integer_c_is_what_a_loop_over_all_a_b_c_finds() -> None:
    p, k, n, rng = 11, 3, 9, np.random.default_rng(0)
    phi = rng.uniform(-np.pi, np.pi, n)
    scheme = Scheme(p, k, phi, 2 * phi + 0.1 * rng.standard_normal(n), rng.random(n), rng.random(n))
    w, base, worst, relu_worst = scheme.w, 2 * np.pi / p, 0.0, 0.0
    for a in range(p):
        for b in range(p):
            for c in range(p):
                s, u = k * base * (a + b) / 2, k * base * (a - b) / 2
                out = np.cos(k * base * c + scheme.psi)
                truth = np.sum(w * np.abs(np.cos(s + phi)) * out) - 4 / 3 * np.cos(
                    k * base * (a + b - c)
                )
                worst = max(worst, abs(truth))
                sign = 1 if np.cos(u) >= 0 else -1
                relu = np.sum(w * np.maximum(sign * np.cos(s + phi), 0) * out)
                relu_worst = max(relu_worst, abs(relu - 2 / 3 * np.cos(k * base * (a + b - c))))
    exact = exact_errors(scheme, with_psi=True)
    assert exact.absolute_integer_c.middle == pytest.approx(worst, abs=1e-12)
    assert exact.absolute.middle >= worst - 1e-12
    assert exact.absolute.middle * math.cos(math.pi / (2 * p)) <= worst + 1e-12
    assert relu_worst * (1 - 1e-12) <= exact.relu.middle


def test_the_integral_is_what_a_fine_rule_gives() -> None:
    s = np.linspace(-3, 3, 7)
    phi = -np.pi + 2 * np.pi * (np.arange(200_000) + 0.5) / 200_000
    fine = np.array([np.mean(np.abs(np.cos(x + phi)) * np.exp(2j * phi)) for x in s]) * 2 * np.pi
    assert np.abs(fine - abs_integral(s)).max() < 1e-9


@pytest.mark.parametrize(("p", "k"), [(59, 12), (3, 1), (15, 5), (15, 3), (101, 7)])
def test_baselines_are_the_means(p: int, k: int) -> None:
    phi = np.array([0.0, 1.0])
    scheme = Scheme(p, k, phi, 2 * phi, np.ones(2), np.ones(2))
    angle = 2 * np.pi * k * np.arange(p) / p
    assert cos_baseline(scheme).middle == pytest.approx(
        4 / 3 * np.abs(np.cos(angle)).mean(), abs=1e-14
    )
    assert sin_baseline(scheme).middle == pytest.approx(
        4 / 3 * np.abs(np.sin(angle)).mean(), abs=1e-14
    )


@pytest.mark.parametrize("q", [3, 4, 5, 59, 127, 128, 129, 997, 8192, 8193, 20011])
def test_grid_angles(q: int) -> None:
    blocks = list(half_turn_blocks(q))
    assert [start for start, _ in blocks] == list(range(0, q, 8192))
    z = np.concatenate([z for _, z in blocks])
    assert np.abs(z - np.exp(-1j * np.arange(q) * np.pi / q)).max() < 5e-15


@pytest.mark.parametrize(("n", "p"), [(3, 16411), (300, 16411), (900, 8209)])
def test_blocks_of_the_grid_join(n: int, p: int) -> None:
    """Large p takes several blocks; kinks fall on, before and after their ends."""
    scheme = random_scheme(n, p, np.random.default_rng(n))
    kinks = np.pi / 2 - np.pi * np.array([0, 8191, 8192]) / p
    scheme = Scheme(
        p, 1, np.concatenate([kinks, scheme.phi[3:]]), scheme.psi, scheme.rho, scheme.omega
    )
    assert exact_abs_error(scheme).middle == pytest.approx(
        brute_force_error(scheme).value, abs=1e-12
    )
    assert exact_errors(scheme).relu.middle == pytest.approx(
        brute_force_error(scheme, "relu").value, abs=1e-12
    )


@examples(60)
@given(schemes(most=6, large_phases=False))
def test_rectangle_errors_are_the_integrals(scheme: Scheme) -> None:
    """e_i = 2 ∫ |x + θ - φ_i| dx, on a fine grid; the paper's two cases, with the cases the right
    way round."""
    for half in (False, True):
        rects = rectangles(scheme, half)
        with with_bits(scheme):
            errors = [float(e.mid()) for e in rectangle_errors(scheme, rects)]
        for error, low, high, phi in zip(
            errors, rects.edges[:-1], rects.edges[1:], rects.phi, strict=True
        ):
            y, x = high + rects.shift - phi, low + rects.shift - phi
            inside = x <= 0 <= y
            assert error == pytest.approx(
                y * y + x * x if inside else abs(y * y - x * x), abs=1e-11
            )


@examples(60)
@given(schemes(most=9, large_phases=False))
def test_the_window_is_the_heaviest_half_circle(scheme: Scheme) -> None:
    rects = rectangles(scheme)
    low = np.minimum(rects.phi, rects.edges[:-1] + rects.shift)
    high = np.maximum(rects.phi, rects.edges[1:] + rects.shift)
    middle, reach = (low + high) / 2, (high - low) / 2
    bound, heaviest = bound_relu_full(scheme), arb(0)
    with with_bits(scheme):
        errors = rectangle_errors(scheme, rects)
        for centre in np.concatenate(
            [np.linspace(-np.pi, np.pi, 60), low - np.pi / 2, high + np.pi / 2]
        ):
            # The distance from the centre of the half circle to the nearest point of [low, high] on
            # the circle.
            distance = np.maximum(
                np.abs((centre - middle + np.pi) % (2 * np.pi) - np.pi) - reach, 0
            )
            meets = distance < np.pi / 2 - 1e-12
            weight = sum(
                (e for e, chosen in zip(errors, meets, strict=True) if chosen), arb(0)
            ).upper()
            assert weight <= arb(bound.value)
            heaviest = max(heaviest, weight)
        # The best of these centres misses at most what lies within the slack of an end.
        largest = max(e.upper() for e in errors)
        assert arb(bound.value) <= heaviest + 2 * largest + arb(1e-9)
    assert bound.value <= bound_abs_full(scheme).value + 1e-12


def test_folding_relu_modulo_pi_would_be_unsound() -> None:
    """All neurons on one half circle: folded, they are a perfect rule for |cos|, but half of all
    ReLUs are never on."""
    n = 64
    phi = np.pi * (np.arange(n) + 0.5) / n
    scheme = Scheme(59, 2, phi, 2 * phi, np.ones(n), np.ones(n))
    folded_window = 2 * float(
        sum(rectangle_errors(scheme, rectangles(scheme, half=True)), arb(0)).mid()
    )
    truth = exact_errors(scheme).relu.lower
    assert folded_window < truth
    assert bound_relu_half(scheme).times(2.0).value >= truth


@examples(30)
@given(schemes(most=9, large_phases=False))
def test_the_papers_relu_rule_is_the_largest_half(scheme: Scheme) -> None:
    """Every rectangle's error is taken alone, and the set of so many with the largest sum is
    searched."""
    for half, boundary in itertools.product((False, True), (0, 1, 2)):
        with with_bits(scheme):
            rects = rectangles(scheme, half)
            errors = [float(e.mid()) for e in rectangle_errors(scheme, rects)]
        count = min(scheme.n // 2 + boundary, scheme.n)
        largest = max(map(sum, itertools.combinations(errors, count)))
        found = relu_by_largest_half(scheme, half, boundary).value
        assert found == pytest.approx(largest, abs=1e-9)


def test_the_papers_relu_rule_is_no_bound_in_general() -> None:
    """Folded phases on one half circle hide every error."""
    phi = np.pi * (np.arange(64) + 0.5) / 64
    scheme = Scheme(59, 2, phi, 2 * phi, np.ones(64), np.ones(64))
    assert 2 * relu_by_largest_half(scheme, half=True).value < exact_errors(scheme).relu.lower
    assert relu_by_largest_half(scheme).kind == "estimate"


@pytest.mark.parametrize("n", [3, 4, 5, 6, 7, 12, 59, 99, 100, 116, 198, 200, 201, 999, 4096])
def test_equally_spaced_phases_have_the_closed_form(n: int) -> None:
    phi = -np.pi + 2 * np.pi * (np.arange(n) + 0.5) / n
    supremum = abs_supremum(Scheme(59, 1, phi, 2 * phi, np.ones(n), np.ones(n)))
    slack = 1e-12
    assert supremum.lower - slack <= equally_spaced_error(n) <= supremum.upper + slack
    nodes = n if n % 2 else n // 2
    assert equally_spaced_error(n) == pytest.approx(
        math.pi**2 / (3 * nodes**2), rel=6 / nodes**2 + 1e-9
    )


def test_closed_form_needs_two_nodes() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        equally_spaced_error(2)


def test_moments_of_equally_spaced_phases_vanish() -> None:
    phi = -np.pi + 2 * np.pi * np.arange(97) / 97
    scheme = Scheme(59, 1, phi, 2 * phi, np.ones(97), np.ones(97))
    assert moments(scheme, 20).size.max() < 1e-14
    assert bound_moments(scheme, 20).value == pytest.approx(4 / 41, abs=1e-12)
    with pytest.raises(ValueError, match="at least 1"):
        bound_moments(scheme, 0)


def test_the_moment_series_is_the_sum_and_more_moments_never_hurt() -> None:
    n, rng = 40, np.random.default_rng(1)
    phi = rng.uniform(-np.pi, np.pi, n)
    scheme = Scheme(
        59, 3, phi, 2 * phi + 0.1 * rng.standard_normal(n), rng.random(n), rng.random(n)
    )
    m = np.arange(-4000, 4001)
    a = 2 / np.pi * (-1.0) ** (m + 1) / (4.0 * m * m - 1)
    nu = np.exp(1j * (scheme.psi + 2 * m[:, None] * phi)) @ scheme.w
    s = 0.7
    direct = np.sum(scheme.w * np.abs(np.cos(s + phi)) * np.exp(1j * scheme.psi))
    assert np.sum(a * np.exp(2j * m * s) * nu) == pytest.approx(direct, abs=1e-3)
    for folded in (False, True):
        values = [bound_moments(scheme, M, folded).value for M in (1, 2, 5, 20, 60)]
        assert values == sorted(values, reverse=True)
        table = moments(scheme, 20, folded)
        assert table.term.sum() + 4 / 41 == pytest.approx(values[3], abs=1e-10)


def test_suprema_meet_a_fine_grid() -> None:
    n, rng = 60, np.random.default_rng(3)
    phi = rng.uniform(-np.pi, np.pi, n)
    psi = 2 * phi + 0.1 * rng.standard_normal(n)
    coarse = Scheme(59, 7, phi, psi, rng.random(n), rng.random(n))
    fine = Scheme(100_003, 7, phi, psi, coarse.rho, coarse.omega)
    for folded in (False, True):
        grid = exact_errors(fine, folded)
        for supremum, reached in (
            (abs_supremum(coarse, folded), grid.absolute),
            (identity_supremum(coarse, folded), grid.identity),
            (relu_supremum(coarse, folded), grid.relu),
        ):
            assert supremum.width < 1e-11
            assert reached.lower <= supremum.upper
            assert supremum.middle == pytest.approx(reached.middle, abs=1e-6)


def test_box_density_counts_boxes() -> None:
    n, rng = 30, np.random.default_rng(2)
    phi = rng.uniform(-np.pi, np.pi, n)
    scheme = Scheme(59, 7, phi, 2 * phi, rng.random(n), rng.random(n))
    density, w = box_density(scheme), scheme.w
    assert (np.diff(density.edges) * density.count).sum() == pytest.approx(2 * np.pi)
    for left, right, count in zip(
        density.edges[:-1], density.edges[1:], density.count, strict=True
    ):
        if right - left > 1e-9:
            distance = np.abs(((left + right) / 2 - phi + np.pi) % (2 * np.pi) - np.pi)
            assert count == (distance < w / 2).sum()
    # What lies above 1 is missing elsewhere.
    steps = np.diff(density.edges)
    over = (steps * np.maximum(density.count - 1, 0)).sum() / (2 * np.pi)
    assert over == pytest.approx(density.uncovered)
    assert density.mean_deviation == pytest.approx(2 * density.uncovered)
    even = Scheme(59, 7, phi := np.linspace(-3, 3, 2), 2 * phi, np.array([1.0, 0.0]), np.ones(2))
    assert box_density(even).uncovered == pytest.approx(0, abs=1e-12)


def test_errors_fall_as_expected_with_more_neurons() -> None:
    rng = np.random.default_rng(0)

    def error(phi: np.ndarray) -> float:
        return abs_supremum(
            Scheme(59, 1, phi, 2 * phi, np.ones(len(phi)), np.ones(len(phi)))
        ).middle

    def exponent(counts: list[int], errors: list[float]) -> float:
        return float(np.polyfit(np.log(counts), np.log(errors), 1)[0])

    perfect = [16, 32, 64, 128, 256]
    spaced = [error(-np.pi + 2 * np.pi * (np.arange(n) + 0.5) / n) for n in perfect]
    assert spaced == pytest.approx([equally_spaced_error(n) for n in perfect], abs=1e-11)
    assert exponent(perfect, spaced) == pytest.approx(-2, abs=0.05)
    random = [16, 64, 256, 1024]
    drawn = [
        float(np.median([error(rng.uniform(-np.pi, np.pi, n)) for _ in range(12)])) for n in random
    ]
    assert exponent(random, drawn) == pytest.approx(-0.5, abs=0.2)
    thinned = thinned_errors(random_scheme(128, 59, rng), 6, rng)
    assert list(thinned) == [4, 8, 16, 32, 64, 128]
    assert exponent(list(thinned)[:-1], list(thinned.values())[:-1]) < -0.3
