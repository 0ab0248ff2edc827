"""Circular statistics: no cut of the circle enters them, and brute force agrees."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quadlens.analysis.spectrum import cluster_phases
from quadlens.analysis.spectrum.amplitude_phase import wrap
from quadlens.analysis.spectrum.circular import (
    circular_r2,
    circular_variance,
    interval_widths,
    mean_direction,
    uniformity,
)
from quadlens.analysis.spectrum.cluster import find_clusters, neuron_spectra
from quadlens.network import Recipe, build_mlp

angles = st.lists(st.floats(-10, 10), min_size=1, max_size=30).map(np.array)


@given(angles)
def test_wrap_is_the_same_angle_at_its_shortest(x: np.ndarray) -> None:
    assert np.allclose(np.exp(1j * wrap(x)), np.exp(1j * x))
    assert (np.abs(wrap(x)) <= np.pi + 1e-12).all()


@given(angles)
def test_circular_variance_is_the_least_over_all_centres(x: np.ndarray) -> None:
    centres = np.linspace(-np.pi, np.pi, 4001)
    brute = np.square(wrap(x[:, None] - centres)).mean(axis=0).min()
    step = centres[1] - centres[0]
    # Between two grid points the variance is at most (step/2)² below its value at the nearer one.
    assert brute - step**2 <= circular_variance(x) <= brute + 1e-9


@given(angles, st.floats(-20, 20), st.integers(0, 2**32 - 1))
def test_r2_does_not_depend_on_the_cut(x: np.ndarray, turn: float, seed: int) -> None:
    predicted = x + 0.3 * np.random.default_rng(seed).standard_normal(len(x))
    before, after = circular_r2(x, predicted), circular_r2(x + turn, predicted + turn - 2 * np.pi)
    spread = circular_variance(x)
    assume(spread >= 1e-6)
    assert before is not None
    assert after == pytest.approx(before, abs=1e-9 / spread)


def test_r2_is_the_ordinary_one_where_nothing_wraps() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0.2, 1.2, 50)
    predicted = x + 0.1 * rng.standard_normal(50)
    assert circular_r2(x, predicted) == pytest.approx(1 - np.square(x - predicted).mean() / x.var())


def test_r2_of_evenly_spread_angles() -> None:
    x = 2 * np.pi * np.arange(1000) / 1000
    assert circular_variance(x) == pytest.approx(np.pi**2 / 3, rel=1e-5)
    assert circular_r2(x, x + 2 * np.pi) == pytest.approx(1.0)
    assert circular_r2(x, x + np.pi) == pytest.approx(-2.0, rel=1e-4)


def test_r2_without_meaning_is_none() -> None:
    assert circular_r2(np.array([]), np.array([])) is None
    assert circular_r2(np.array([1.0]), np.array([1.0])) is None
    assert circular_r2(np.array([1.0, 1.0]), np.array([1.0, 1.0])) is None
    assert mean_direction(np.array([])) == 0.0


@given(angles)
def test_gaps_sum_to_a_turn(x: np.ndarray) -> None:
    assert interval_widths(x).sum() == pytest.approx(2 * np.pi)
    spacing = uniformity(x)
    assert spacing.width_mean == pytest.approx(2 * np.pi / len(x))
    assert 0 <= spacing.kuiper_p <= 1


def test_uniformity_tells_even_from_uneven() -> None:
    rng = np.random.default_rng(0)
    even, random = 2 * np.pi * np.arange(100) / 100, rng.uniform(-np.pi, np.pi, 100)
    lumped = 0.3 * rng.standard_normal(100)
    assert uniformity(even).roughly_uniform
    assert uniformity(even).width_std < 1e-12
    assert uniformity(even).kuiper_p > 0.999
    assert uniformity(random).kuiper_p > 0.01
    assert uniformity(lumped).kuiper_p < 1e-6
    assert not uniformity(lumped).roughly_uniform


def test_kuiper_does_not_depend_on_the_cut() -> None:
    x = np.random.default_rng(1).uniform(0, 2 * np.pi, 40)
    assert uniformity(x + 1.234).kuiper == pytest.approx(uniformity(x).kuiper)


def test_phases_of_a_hand_built_cluster() -> None:
    (cluster,) = find_clusters(neuron_spectra(build_mlp(Recipe(31, (4,), 60)).collapse()))
    phases = cluster_phases(cluster)
    assert phases.r2 == pytest.approx(1.0, abs=1e-9)
    assert phases.max_deviation < 1e-6
    assert phases.spacing.width_mean == pytest.approx(2 * np.pi / 60)
    assert phases.spacing.width_std < 1e-6


def test_jitter_on_the_output_phase_lowers_r2_by_its_variance() -> None:
    (cluster,) = find_clusters(neuron_spectra(build_mlp(Recipe(31, (4,), 3000)).collapse()))
    noisy = cluster.psi + 0.5 * np.random.default_rng(0).standard_normal(3000)
    assert circular_r2(noisy, 2 * cluster.phi) == pytest.approx(1 - 0.25 / (np.pi**2 / 3), abs=0.01)
