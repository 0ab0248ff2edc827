"""Networks that the lens must refuse, and networks that it must not: what makes its headline a
claim."""

import dataclasses

import numpy as np
import pytest

import cli_runner
import quadlens
from lens_exact_error import shared_errors
from quadlens.analysis.infinite_width import Lens, lens
from quadlens.analysis.infinite_width.chains import chains_of
from quadlens.analysis.integration import Integration
from quadlens.network.activation import Activation
from quadlens.network.tables import FloatTables, Tables
from quadlens.network.task import task_by_name
from quadlens.show.explorer.page import build_page

N = 31


def angle(n: int, k: int) -> np.ndarray:
    return 2 * np.pi * k * np.arange(n)[:, None] / n


def layer(U_a: np.ndarray, U_b: np.ndarray, W_L: np.ndarray, activation: Activation) -> FloatTables:
    zero = np.zeros((len(U_a), len(U_a)))
    return Tables(task_by_name("add", len(U_a)), activation, U_a, U_b, W_L, zero, zero)


def rule(activation: Activation, keys: tuple[int, ...], phi: np.ndarray, n: int = N) -> FloatTables:
    """Neurons that read k at each φ, from a and from b, and write it at 2φ."""
    reads = np.concatenate([np.cos(angle(n, k) + phi) for k in keys], axis=1)
    writes = np.concatenate([np.cos(angle(n, k) + 2 * phi) for k in keys], axis=1)
    return layer(reads, reads.copy(), writes, activation)


def accuracy(network: FloatTables) -> float:
    n = network.p
    said = np.stack([network.logits(a) for a in range(n)]).argmax(axis=2)
    return float((said == np.add.outer(np.arange(n), np.arange(n)) % n).mean())


def test_an_exact_rule_of_four_squares_integrates() -> None:
    found = lens(rule("square", (3, 5, 11), np.pi * np.arange(4) / 4))
    assert found.integrates is True
    assert found.r2.shared == pytest.approx(1)
    assert found.controls.resampled_half is not None
    assert found.controls.resampled_half < 0.9


def test_a_product_of_squares_does_not() -> None:
    """(cos a ± cos b)², (sin a ± sin b)² and the mixed ones: it multiplies cosines, right on every
    input."""
    keys, n = (3, 5, 11), N
    U_a, U_b, W_L = [], [], []
    for k in keys:
        c, s = np.cos(angle(n, k)), np.sin(angle(n, k))
        # (x + y)² - (x - y)² = 4xy; cos cos - sin sin is written with cos, sin cos + cos sin with
        # sin.
        for x, y, wave in ((c, c, c), (s, s, -c), (s, c, s), (c, s, s)):
            for sign in (1, -1):
                U_a.append(x)
                U_b.append(sign * y)
                W_L.append(sign * wave)
    a, b, out = (np.concatenate(one, axis=1) for one in (U_a, U_b, W_L))
    network = layer(a, b, out, "square")
    assert accuracy(network) == 1
    found = lens(network)
    assert found.integrates is False
    assert 0.5 < found.r2.shared < 0.6
    assert found.r2.symmetric_part == pytest.approx(1)


def random_features(one_frequency: bool) -> FloatTables:
    """Random ReLU features of three frequencies, mixed or one to a neuron, with a readout by least
    squares."""
    rng, n, neurons, keys = np.random.default_rng(0), N, 1200, (3, 5, 11)
    a = np.arange(n)
    waves = np.concatenate([f(angle(n, k)) for f in (np.cos, np.sin) for k in keys], axis=1)
    mine = (
        np.tile(np.eye(3)[rng.integers(0, 3, neurons)].T, (2, 1))
        if one_frequency
        else np.ones((6, neurons))
    )
    U_a, U_b = (
        waves @ (mine * rng.normal(size=(6, neurons))) + 0.3 * rng.normal(size=neurons)
        for _ in range(2)
    )
    hidden = np.maximum(U_a[:, None] + U_b, 0).reshape(n * n, neurons)
    answer = np.eye(n)[np.add.outer(a, a) % n].reshape(n * n, n)
    readout = np.linalg.lstsq(hidden, 20 * answer, rcond=None)[0]
    return layer(U_a, U_b, np.ascontiguousarray(readout.T), "relu")


@pytest.mark.parametrize("one_frequency", [False, True])
def test_random_features_with_a_fitted_readout_do_not_integrate(one_frequency: bool) -> None:
    network = random_features(one_frequency)
    assert accuracy(network) == 1
    found = lens(network)
    assert not found.integrates
    assert found.r2.shared < 0.9


@pytest.fixture(scope="module")
def pizza() -> Lens:
    return quadlens.lens("pizza")


def permuted(network: FloatTables, found: Lens) -> FloatTables:
    """The same network, output phases at the key frequency permuted within each cluster."""
    rng, W_L, n = np.random.default_rng(1), network.W_L.copy(), network.p
    for one in found.clusters:
        cluster = one.reading.cluster
        wave = np.exp(1j * angle(n, cluster.k))
        own = (wave * (cluster.omega * np.exp(1j * cluster.psi))).real
        other = (wave * (cluster.omega * np.exp(1j * rng.permutation(cluster.psi)))).real
        W_L[:, cluster.neurons] += other - own
    return dataclasses.replace(network, W_L=W_L)


def test_permuted_output_phases_do_not_integrate_and_that_is_what_the_control_says(
    pizza: Lens,
) -> None:
    network = quadlens.study("pizza").anatomy.layer
    assert pizza.integrates is True
    assert pizza.r2.shared > 0.99
    found = lens(permuted(network, pizza))
    assert found.r2.shared < 0
    assert found.integrates is False
    assert pizza.controls.shared_permuted is not None
    assert pizza.controls.shared_permuted < 0


def test_tanh_keeps_the_mechanism_and_loses_the_task(pizza: Lens) -> None:
    """Not a null: the layer integrates tanh(g).

    Its answers are wrong, and both numbers stand in one table.
    """
    found = quadlens.lens(quadlens.edit.swap_activation("pizza", "tanh"))
    assert found.r2.shared == pytest.approx(0.947, abs=0.01)
    assert found.answers_right < 0.1
    table = found.tables()[0]
    assert [row[0] for row in table.rows[:2]] == ["shared function, R²", "its answers right"]
    assert pizza.answers_right == 1.0


def test_a_model_without_clusters_has_no_verdict() -> None:
    found = lens(layer(np.zeros((7, 3)), np.zeros((7, 3)), np.zeros((7, 3)), "relu"))
    assert found.integrates is None
    assert found.to_dict()["integrates"] is None


def test_the_shared_integral_is_the_formula_written_out(pizza: Lens) -> None:
    """A Re(e^{ikwc} (1/2π) ∫ σ(g) e^{2iφ} dφ), from F and the weights, for one input and every
    c."""
    one = pizza.clusters[0].reading
    n, k, d, b = 59, one.cluster.k, 7, 4
    phi = 2 * np.pi * np.arange(4096) / 4096
    theta = 2 * np.pi * k * b / n
    g = sum((F * np.exp(1j * m * (theta + phi))).real for m, F in enumerate(one.shared.F[:, d]))
    A = (one.cluster.rho * one.cluster.omega).sum()
    slow = A * (np.maximum(g, 0) * np.exp(2j * phi)).mean()
    assert pizza.parts.shared[(d + b) % n, b, k] == pytest.approx(slow, rel=1e-3)


def test_residual_and_spacing_are_perfect_for_a_rule_that_is_one() -> None:
    """Uneven nodes with box widths as weights: weights are the widths, and the rest is predicted
    from them."""
    rng = np.random.default_rng(2)
    phi = np.sort(2 * np.pi * (np.arange(40) + rng.uniform(0, 0.9, 40)) / 40)
    width = ((np.roll(phi, -1) - np.roll(phi, 1)) % (2 * np.pi)) / 2
    even = rule("relu", (3, 5), phi)
    found = lens(dataclasses.replace(even, W_L=even.W_L * np.tile(width, 2)))
    measured = found.controls
    assert measured.spacing == pytest.approx(1)
    assert measured.spacing_slope == pytest.approx(1)
    assert measured.residual == pytest.approx(1)
    assert measured.spacing_permuted is not None
    assert measured.spacing_permuted < 0.5
    assert measured.residual_permuted is not None
    assert measured.residual_permuted < 0.9


def test_the_rule_of_integrating_reads_every_part() -> None:
    assert Integration(0.95, 0.2, 1.0, 0.1, 1.0).holds is True
    for failing in (
        Integration(0.89, 0.2, 1.0, 0.1, 1.0),
        Integration(0.95, 0.46, 1.0, 0.1, 1.0),
        Integration(0.95, 0.2, 0.98, 0.1, 1.0),
        Integration(0.95, 0.2, 1.0, 0.9, 1.0),
    ):
        assert failing.holds is False
        assert len(failing.fails) == 1
        assert failing.fails[0].words in failing.sentence


def test_chains_of_doubled_keys() -> None:
    assert chains_of((10, 16, 20, 28), 59) == ((10, 20),)
    assert chains_of((5, 16, 23, 27), 59) == ((16, 27, 5),)
    assert chains_of((12, 17, 24), 58) == ((12, 24), (17, 24))
    assert chains_of((3, 5), 59) == ()


def test_an_uneven_chain_is_read_by_its_moments() -> None:
    """Nodes on four directions only: the integral misses the mirror image, the joint reading has
    it."""
    phi = np.concatenate([2 * np.pi * np.arange(40) / 40, np.repeat(np.pi * np.arange(4) / 2, 10)])
    found = lens(rule("relu", (5, 10), phi))
    assert found.chains == ((5, 10),)
    assert found.r2.joint > found.r2.shared + 0.05
    assert found.r2.joint > 0.95
    even = lens(rule("relu", (5, 10), 2 * np.pi * np.arange(80) / 80))
    assert even.r2.joint == pytest.approx(even.r2.shared, abs=0.01)


@pytest.mark.parametrize(("n", "keys"), [(4, (1, 2)), (8, (2, 4)), (12, (3, 6))])
def test_a_sign_wave_at_the_end_of_a_chain_is_read_by_its_integral(
    n: int, keys: tuple[int, ...]
) -> None:
    found = lens(rule("relu", keys, 2 * np.pi * np.arange(8) / 8, n))
    assert found.chains == (keys,)
    assert found.r2.joint == pytest.approx(found.r2.shared)
    assert [one.k for one in shared_errors(found)] == [keys[0]]


def test_exact_errors_and_bounds_know_chains() -> None:
    phi = np.concatenate([2 * np.pi * np.arange(40) / 40, np.repeat(np.pi * np.arange(4) / 2, 10)])
    for one in shared_errors(lens(rule("relu", (5, 10), phi))):
        assert one.joint is not None
        assert one.relative is not None
        assert one.joint < one.relative.value / 2
    assert all(one.joint is None for one in shared_errors(lens(rule("relu", (3, 5), phi))))
    assert cli_runner.quadlens("bounds", "times", "--json").document["chains"] == [
        [12, 24],
        [17, 24],
    ]


def test_report_and_explorer_have_every_claim_beside_its_control(pizza: Lens) -> None:
    table = pizza.claims
    assert [row[2] for row in table.rows if row[3]] == [
        "output phases permuted",
        "nodes on half a period",
        "weights permuted",
        "neurons exchanged",
        "weights permuted, 95 %",
    ]
    page = build_page(quadlens.study("pizza"), "pizza")
    assert table.to_html() in page
    assert "computes integrals: one function per frequency" in page


def test_cross_writing_is_the_share_of_its_part(pizza: Lens) -> None:
    """The projection on neurons gives what the parts give; exchanged neurons write about as much at
    random."""
    for found in (pizza, quadlens.lens("clock")):
        assert found.controls.cross_writing == pytest.approx(
            found.residual["cross_writing"], abs=1e-9
        )
        assert found.controls.cross_writing_permuted is not None
    assert lens(rule("relu", (3,), 2 * np.pi * np.arange(40) / 40)).controls.cross_writing is None
