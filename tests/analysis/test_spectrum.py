"""Spectra, roles, harmonics and the OV part, against explicit loops and hand-built models."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quadlens.analysis.spectrum import attended_spectra, harmonic_fits, secondary_doubling
from quadlens.analysis.spectrum.amplitude_phase import amplitude_phase, attended_paths
from quadlens.analysis.spectrum.cluster import (
    find_clusters,
    find_roles,
    key_frequencies,
    neuron_spectra,
)
from quadlens.analysis.spectrum.harmonics import find_harmonics, multiples_of
from quadlens.network import Config, Recipe, Weights, build_mlp, build_transformer
from strategies import mlps, odd_moduli, seeds, transformers


def mlp_of(U_a: np.ndarray, U_b: np.ndarray, W_L: np.ndarray) -> Weights:
    p, d_mlp = U_a.shape
    return Weights.mlp(Config.mlp(p, d_mlp), U_a, U_b, np.ascontiguousarray(W_L.T))


def wave(p: int, k: int, phase: float) -> np.ndarray:
    return np.cos(2 * np.pi * k * np.arange(p) / p + phase)


@given(odd_moduli, seeds)
def test_amplitudes_and_phases_are_those_of_the_explicit_fourier_matrix(p: int, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((p, 4))
    spectrum = amplitude_phase(x)
    assert np.allclose(spectrum.mean, x.mean(axis=0))
    for k in range(1, (p - 1) // 2 + 1):
        angle = 2 * np.pi * k * np.arange(p) / p
        cosine, sine = 2 / p * np.cos(angle) @ x, 2 / p * np.sin(angle) @ x
        # A cos(kwa + φ) = A cos φ cos kwa - A sin φ sin kwa.
        assert np.allclose(spectrum.amplitude[k - 1] * np.cos(spectrum.phase[k - 1]), cosine)
        assert np.allclose(spectrum.amplitude[k - 1] * np.sin(spectrum.phase[k - 1]), -sine)
    assert np.allclose(spectrum.variance, x.var(axis=0))


@given(transformers())
def test_the_ov_part_is_the_path_through_attention_alone(model: Weights) -> None:
    config = model.config
    collapsed, (ov_a, ov_b) = model.collapse(), attended_paths(model)
    w = {name: array.astype(np.float64) for name, array in model.tensors.items()}
    for position, (path, U) in enumerate(((ov_a, collapsed.U_a), (ov_b, collapsed.U_b))):
        for token in range(config.p):
            x = w["W_E"][token + (config.b_token_offset if position else 0)] + w["W_pos"][position]
            head = [
                config.attention[position] * x @ w["W_V"][h] @ w["W_O"][h]
                for h in range(config.n_heads)
            ]
            assert np.allclose(
                path[token], sum(head) @ w["W_in"], atol=1e-9 * (1 + np.abs(path).max())
            )
        own = w["W_E"][config.b_token_offset * position :][: config.p] @ w["W_in"]
        rest = U - path - (own if position == config.read_position else 0.0)
        assert np.allclose(rest, rest[0], atol=1e-9 * (1 + np.abs(U).max()))


@given(mlps())
def test_a_model_without_attention_has_no_ov_part(model: Weights) -> None:
    assert attended_spectra(model) is None


@given(st.sampled_from([transformers(), mlps()]).flatmap(lambda strategy: strategy))
def test_roles_by_loops(model: Weights) -> None:
    collapsed = model.collapse()
    spectra = neuron_spectra(collapsed)
    roles = find_roles(spectra)
    half = (collapsed.p - 1) // 2
    for i in range(collapsed.d_mlp):
        pre = (collapsed.U_a[:, None, i] + collapsed.U_b[None, :, i]).ravel()
        k = int(roles.k_in[i])
        waves = [
            np.exp(-2j * np.pi * k * np.arange(collapsed.p) / collapsed.p)
            @ U[:, i]
            * 2
            / collapsed.p
            for U in (collapsed.U_a, collapsed.U_b)
        ]
        explained = sum(abs(x) ** 2 / 2 for x in waves)
        if pre.var() > 1e-20:
            assert roles.variance_input[i] == pytest.approx(explained / pre.var(), rel=1e-6)
        assert 1 <= k <= half
        assert 1 <= roles.k_out[i] <= half
    kinds = roles.matching.astype(int) + roles.mismatching + roles.constant
    assert (kinds == 1).all()
    assert roles.good_model == (bool(roles.matching.any()) and not roles.mismatching.any())


def test_dead_constant_and_mismatching_neurons_are_told_apart() -> None:
    p = 11
    reads = np.stack(
        [wave(p, 3, 0.5), np.zeros(p), wave(p, 2, 1.0), wave(p, 2, 0.0) + 1.0, wave(p, 4, 0.0)],
        axis=1,
    )
    writes = np.stack(
        [wave(p, 3, 1.0), wave(p, 3, 0.0), wave(p, 5, 0.0), wave(p, 3, 0.0), 0.0 * wave(p, 4, 0.0)],
        axis=1,
    )
    spectra = neuron_spectra(mlp_of(reads, reads, writes).collapse())
    roles = find_roles(spectra)
    assert roles.dead.tolist() == [False, True, False, False, True]
    assert roles.constant.tolist() == [False, True, False, True, True]
    assert roles.matching.tolist() == [True, False, False, False, False]
    assert roles.mismatching.tolist() == [False, False, True, False, False]
    assert not roles.good_model
    assert [cluster.k for cluster in find_clusters(spectra)] == [3]


def test_a_model_is_good_when_only_constant_neurons_do_not_match() -> None:
    p = 11
    reads = np.stack([wave(p, 3, 0.5), wave(p, 2, 0.0) + 1.0], axis=1)
    writes = np.stack([wave(p, 3, 1.0), wave(p, 3, 0.0)], axis=1)
    assert find_roles(neuron_spectra(mlp_of(reads, reads, writes).collapse())).good_model


def test_a_faint_stray_neuron_does_not_make_a_key_frequency() -> None:
    p = 23
    reads = np.stack([*(wave(p, 3, x) for x in range(5)), 0.01 * wave(p, 7, 0.0)], axis=1)
    writes = np.stack([*(wave(p, 3, 2.0 * x) for x in range(5)), wave(p, 7, 0.0)], axis=1)
    clusters = find_clusters(neuron_spectra(mlp_of(reads, reads, writes).collapse()))
    assert [cluster.k for cluster in clusters] == [3, 7]
    assert key_frequencies(clusters) == (3,)
    assert key_frequencies(()) == ()


@given(st.integers(1, 22).map(lambda n: 2 * n + 1))
def test_multiples_by_trying_each(p: int) -> None:
    half = (p - 1) // 2
    for primary in range(1, half + 1):
        multiple, mirrored = multiples_of(primary, p)
        for k in range(1, half + 1):
            found = [m for m in range(1, half + 1) if m * primary % p in (k, p - k)]
            assert multiple[k - 1] == (found[0] if found else 0)
            if found:
                assert mirrored[k - 1] == (found[0] * primary % p == p - k)


@given(st.sampled_from([13, 23, 59, 25]), st.integers(1, 6), st.integers(2, 3), seeds)
def test_harmonics_of_waves_that_are_known(p: int, k: int, m: int, seed: int) -> None:
    """cos(kwa+φ) + 0.1 cos(mkwa + mφ + π): the secondary is m times the primary, at phase mφ + π,
    folded or not."""
    residue = m * k % p
    assume(min(residue, p - residue) not in (0, k))
    phi = np.random.default_rng(seed).uniform(-np.pi, np.pi, 12)
    x = np.stack([wave(p, k, f) + 0.1 * wave(p, residue, m * f + np.pi) for f in phi], axis=1)
    harmonics = find_harmonics(amplitude_phase(x))
    smallest = next(n for n in range(1, p) if n * k % p in (residue, p - residue))
    assert (harmonics.k[0] == k).all()
    assert (harmonics.k[1] == min(residue, p - residue)).all()
    assert (harmonics.multiple[1] == smallest).all()
    assert harmonics.present[:2].all()
    assert not harmonics.present[2:].any()
    fits = harmonic_fits(harmonics, np.ones(12, dtype=bool))
    assert [(fit.rank, fit.k, fit.neurons) for fit in fits] == [(2, k, 12)]
    doubling = secondary_doubling(harmonics, np.ones(12, dtype=bool))
    assert doubling.neurons == 12
    if smallest == m:
        assert fits[0].r2 == pytest.approx(1.0, abs=1e-9)
        assert doubling.share == (1.0 if m == 2 else 0.0)
    if m == 2 == smallest:
        assert doubling.phase_r2 == pytest.approx(1.0, abs=1e-9)


def test_fits_need_ten_neurons_and_a_living_one() -> None:
    harmonics = find_harmonics(amplitude_phase(np.random.default_rng(0).standard_normal((7, 9))))
    assert harmonic_fits(harmonics, np.ones(9, dtype=bool)) == ()
    assert harmonic_fits(harmonics, np.zeros(9, dtype=bool), min_neurons=1) == ()
    assert (
        sum(
            fit.neurons
            for fit in harmonic_fits(harmonics, np.ones(9, dtype=bool), 1)
            if fit.rank == 2
        )
        == 9
    )


def test_modulus_three_has_no_secondary_frequency() -> None:
    harmonics = find_harmonics(amplitude_phase(np.random.default_rng(0).standard_normal((3, 20))))
    assert len(harmonics.k) == 1
    assert secondary_doubling(harmonics, np.ones(20, dtype=bool)).share is None


@pytest.mark.parametrize("build", [build_transformer, build_mlp])
@pytest.mark.parametrize(("p", "keys"), [(59, (3, 5, 7)), (59, (11, 22)), (25, (5, 6)), (3, (1,))])
def test_a_hand_built_model_comes_out_as_it_was_built(
    build: Any, p: int, keys: tuple[int, ...]
) -> None:
    model = build(Recipe(p, keys, 48 * len(keys)))
    spectra = neuron_spectra(model.collapse())
    clusters = find_clusters(spectra)
    assert key_frequencies(clusters) == keys
    assert find_roles(spectra).good_model
    for cluster in clusters:
        assert np.allclose(
            np.sort(cluster.phi), -np.pi + 2 * np.pi * (np.arange(48) + 0.5) / 48, atol=1e-6
        )
        assert np.allclose(np.exp(1j * cluster.psi), np.exp(2j * cluster.phi), atol=1e-6)
        assert np.allclose(cluster.rho, 1.0, atol=1e-6)
