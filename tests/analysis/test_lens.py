"""The lens against closed forms, exhaustive sums written out, and public checkpoints."""

import importlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

import cli_runner
import lens_exact_error
import lens_swap
import quadlens
from lens_swap import swap_activations
from places import ROOT
from quadlens.analysis.infinite_width import Lens, lens
from quadlens.analysis.infinite_width.inputs import inputs_of
from quadlens.analysis.infinite_width.parts import lens_parts
from quadlens.base.errors import BadConfig
from quadlens.network.activation import NONLINEARITIES, Activation
from quadlens.network.tables import FloatTables, Tables
from quadlens.network.task import task_by_name

pytestmark = pytest.mark.slow

W = 2 * np.pi
RNG_SEED = 3


def pizza(
    n: int,
    keys: tuple[int, ...],
    neurons: int,
    activation: Activation = "relu",
    delta: float | str = 0.0,
    bias: float = 0.0,
    task: str = "add",
) -> FloatTables:
    """cos(kwa + φ + δ) + cos(kwb + φ - δ), written with cos(kwc + 2φ), evenly spread φ; δ one
    number or "spread"."""
    x = np.arange(n)
    U_a, U_b, W_L = [], [], []
    rng = np.random.default_rng(RNG_SEED)
    for k in keys:
        phi = W * (np.arange(neurons) + 0.3) / neurons
        shift = (
            rng.permutation(W * np.arange(neurons) / neurons)
            if isinstance(delta, str)
            else np.full(neurons, delta)
        )
        wave = W * k * x[:, None] / n
        U_a.append(np.cos(wave + phi + shift))
        U_b.append(np.cos(wave + phi - shift) + bias)
        W_L.append(np.cos(wave + 2 * phi))
    zero = np.zeros((n, n))
    reads_a, reads_b, writes = (np.concatenate(one, axis=1) for one in (U_a, U_b, W_L))
    return Tables(task_by_name(task, n), activation, reads_a, reads_b, writes, zero, zero)


@pytest.fixture(scope="module")
def bundled() -> Lens:
    return quadlens.lens("pizza")


@pytest.mark.parametrize(
    "activation", ["relu", "abs", "square", "quartic", "gelu", "silu", "softplus"]
)
@pytest.mark.parametrize("n", [13, 16])
def test_the_integral_of_one_wave_is_lambda_2(activation: Activation, n: int) -> None:
    """Closed form: C(d) e^{ikwd} = (neurons) · λ_2(2|cos u|) · e^{...}: real, positive, and a pizza
    in a - b."""
    neurons = 120
    found = lens(pizza(n, (3,), neurons, activation))
    (cluster,) = found.clusters
    u = np.pi * 3 * np.arange(n) / n
    expected = neurons * NONLINEARITIES[activation].lambda_2(2 * np.abs(np.cos(u)))
    np.testing.assert_allclose(cluster.reading.strength, expected, atol=2e-3 * expected.max())
    assert found.answers_right == 1.0 if n % 2 else found.answers_right > 0
    assert found.r2.shared > 0.999
    assert found.r2.symmetric_part > 0.999
    assert cluster.kind == "pizza"
    assert cluster.reading.shared.fit == pytest.approx(1.0)


def test_an_odd_activation_has_no_integral() -> None:
    found = lens(pizza(13, (3,), 120, "tanh"))
    assert max(np.abs(one.reading.limit).max() for one in found.clusters) < 1e-12
    assert found.clusters[0].lambda_2 == 0


def test_delta_says_what_the_strength_does() -> None:
    shifted = lens(pizza(31, (4,), 200, delta=0.7)).clusters[0]
    assert shifted.phase_cosine == pytest.approx(1)
    assert shifted.kind == "shifted pizza"
    assert shifted.reading.cluster.mean_delta == pytest.approx(0.7)
    u = np.pi * 4 * np.arange(31) / 31
    expected = 200 / (3 * np.pi) * 2 * np.abs(np.cos(u + 0.7))
    np.testing.assert_allclose(np.abs(shifted.reading.strength), expected, atol=0.1)
    flat = lens(pizza(31, (4,), 200, "square", delta="spread")).clusters[0]
    assert flat.kind == "flat"
    assert flat.dip > 0.8


def test_the_parts_add_up_to_the_logits(bundled: Lens) -> None:
    parts = bundled.parts
    total = parts.integral + sum(parts.residual.values())
    np.testing.assert_allclose(total[..., 1:], parts.logits[..., 1:], atol=1e-9)
    logits = np.stack([quadlens.study("pizza").anatomy.layer.logits(a) for a in range(59)])
    np.testing.assert_allclose(
        parts.values(parts.logits), logits - logits.mean(axis=2, keepdims=True), atol=1e-9
    )
    assert bundled.explained + sum(bundled.residual.values()) == pytest.approx(1, abs=1e-9)
    assert sum(bundled.explained_by.values()) == pytest.approx(bundled.explained, abs=1e-12)


def test_r2_is_the_ordinary_one(bundled: Lens) -> None:
    parts = bundled.parts
    true, said = parts.values(parts.logits), parts.values(parts.shared)
    assert bundled.r2.shared == pytest.approx(
        1 - np.square(true - said).sum() / np.square(true).sum(), abs=1e-12
    )


def test_the_integral_is_the_mean_over_rotations(bundled: Lens) -> None:
    """The same written out for a few neurons and differences: turn a and b by t, and the answer's
    wave by 2t."""
    reading = bundled.parts.readings[0]
    cluster, d = reading.cluster, 7
    theta = W * np.arange(4096) / 4096
    expected = 0j
    for i in range(len(cluster.neurons)):
        wave = sum(
            np.real(c * np.exp(1j * m * theta)) for m, c in enumerate(cluster.charges[i, :, d])
        )
        expected += (
            cluster.omega[i]
            * np.exp(1j * cluster.psi[i])
            * (np.maximum(wave, 0) * np.exp(2j * theta)).mean()
        )
    assert reading.limit[d] == pytest.approx(expected, rel=1e-3)


def test_waves_of_all_degrees_are_the_pre_activations() -> None:
    """For a model of one frequency the charges at θ = kwb are the pre-activations themselves."""
    inputs = inputs_of(pizza(11, (2,), 60, bias=0.3))
    reading = lens_parts(inputs).readings[0]
    np.testing.assert_allclose(reading.finite_waves, reading.finite, atol=1e-9)


@pytest.mark.parametrize(
    ("task", "n"), [("subtract", 13), ("linear:2,3", 13), ("multiply", 12), ("divide", 12)]
)
def test_a_cyclic_task_is_read_like_addition(task: str, n: int) -> None:
    plain = pizza(n, (1, 5), 80, bias=0.1)
    new = task_by_name(task, n).cyclic
    assert new is not None
    tables = (plain.U_a[new.of_a], plain.U_b[new.of_b], plain.W_L[new.of_c], plain.S_a, plain.S_b)
    renamed = Tables(task_by_name(task, n), "relu", *tables)
    one, other = lens(plain), lens(renamed)
    assert other.task == task
    assert other.r2.shared == pytest.approx(one.r2.shared, abs=1e-9)
    assert other.r2.symmetric_part == pytest.approx(one.r2.symmetric_part, abs=1e-9)
    assert other.answers_right == one.answers_right


def test_the_sign_wave_of_even_n_is_a_mean_over_two_rotations() -> None:
    n, rng = 10, np.random.default_rng(0)
    sign = (-1.0) ** np.arange(n)[:, None]
    a, b, w = rng.normal(size=(3, 40))
    zero = np.zeros((n, n))
    found = lens(
        Tables(task_by_name("add", n), "relu", sign * a, sign * b + 0.2, sign * w, zero, zero)
    )
    (cluster,) = found.clusters
    assert cluster.k == 5
    assert found.r2.finite_sum == pytest.approx(1)
    # (a, b) → (a + 1, b + 1) turns both signs: the mean over it is what the integral is.
    both = [w @ np.maximum(s * a * (-1) ** d + s * b + 0.2, 0) / 2 for s in (1, -1) for d in (0, 1)]
    for d in (0, 1):
        assert cluster.reading.limit[d].real == pytest.approx(both[d] + both[2 + d])


def test_a_task_without_relabelling_is_refused() -> None:
    zero, n = np.zeros((6, 6)), 6
    layer = Tables(task_by_name("S3"), "relu", np.eye(n), np.eye(n), np.eye(n), zero, zero)
    with pytest.raises(BadConfig, match="no cyclic relabelling"):
        lens(layer)


def test_too_many_inputs_are_refused() -> None:
    with pytest.raises(BadConfig, match="too many"):
        quadlens.lens(quadlens.build(p=1009, neurons=60))


def test_bundled_models_are_integrals(bundled: Lens) -> None:
    for found in (bundled, quadlens.lens("mismatched")):
        assert found.r2.shared >= 0.99
        assert found.answers_right == 1.0
        assert found.r2.symmetric_part <= found.r2.ceiling <= 1
        assert found.integrates


def test_a_model_without_clusters_says_so() -> None:
    zero, n = np.zeros((7, 7)), 7
    U_a, U_b, W_L = np.zeros((3, n, 3))
    found = lens(Tables(task_by_name("add", n), "relu", U_a, U_b, W_L, zero, zero))
    assert found.clusters == ()
    assert "nothing to integrate" in found.sentences()[0]
    assert found.answers_right == 0


def test_the_integral_predicts_what_another_activation_does() -> None:
    """In pizza every function but x³ is on the side of one half that the integral says; tanh turns
    the sign."""
    swaps = {one.function: one for one in swap_activations(quadlens.study("pizza").anatomy.layer)}
    assert [name for name, one in swaps.items() if not one.agrees] == []
    assert swaps["max(x, 0)"].predicted == 1.0
    assert swaps["-|x|"].predicted == 0.0


def test_the_command_has_the_keys() -> None:
    document = cli_runner.quadlens("lens", "pizza", "--json").document
    assert {"n", "task", "activation", "r2", "answers_right", "clusters", "residual"} <= set(
        document
    )
    assert {"shared", "joint", "symmetric_part", "unfitted", "ceiling", "finite_sum"} <= set(
        document["r2"]
    )
    assert document["r2"]["unfitted"] == document["r2"]["symmetric_part"]
    assert {
        *(
            "shared_permuted",
            "residual",
            "residual_permuted",
            "resampled_even",
            "resampled_half",
            "spacing",
        ),
        "spacing_permuted",
    } <= set(document["controls"])
    assert document["integrates"] is True
    assert document["chains"] == []
    assert document["weights"] == 180_411
    assert document["numbers"] < 100
    keys = {"k", "neurons", "degree", "shared_function_fit", "r2_angles", "lambda_2", "fourier"}
    assert keys <= set(document["clusters"][0])
    assert {"constant", "sum_waves", "double_waves", "product_waves"} <= set(
        document["clusters"][0]["fourier"]
    )
    run = cli_runner.quadlens("lens", "pizza")
    assert "the shares add up to 1" in run.out


def test_the_scripts_have_the_keys_of_the_former_flags(capsys: pytest.CaptureFixture[str]) -> None:
    lens_exact_error.main(["pizza", "--json"])
    errors = json.loads(capsys.readouterr().out)["exact_errors"]
    assert [one["k"] for one in errors] == [5, 9, 11]
    assert errors[0]["error"]["kind"] == "exact"
    lens_swap.main(["pizza", "--json"])
    swaps = json.loads(capsys.readouterr().out)["swaps"]
    assert {one["function"] for one in swaps} >= {"|x|", "x³"}
    for script in (lens_exact_error, lens_swap):
        script.main(["pizza"])
        assert capsys.readouterr().out.startswith("|")
        with pytest.raises(SystemExit, match="no_such_model"):
            script.main(["no_such_model"])


@pytest.mark.parametrize(
    ("name", "activation", "least", "integrates"),
    [
        ("zhong/model_18c9ev5v5p.pt", None, 0.99, True),
        ("zhong/model_q9rsl94xlv.pt", None, 0.93, True),
        ("nanda/wd_10-1_mod_addition_loss_curve.pth", "relu", 0.97, True),
        ("chughtai/C113_T_seed1/model.pt", None, 0.96, True),
        ("chughtai/C118_T_seed2/model.pt", None, 0.96, True),
        ("chughtai/C113_MLP_seed1/model.pt", None, 0.72, False),
        ("chughtai/C118_MLP_seed2/model.pt", None, 0.72, False),
        ("he/p_23_dmlp_512_ReLU_random_scale_0.1_decay_0_08142058/final.pth", None, 0.93, True),
    ],
)
def test_public_checkpoints(
    name: str, activation: str | None, least: float, integrates: bool
) -> None:
    """Nothing fitted; the shared integral alone answers every input right, also where δ is
    spread."""
    found = quadlens.lens(quadlens.import_file(public(name), activation=activation))
    assert found.r2.shared >= least
    assert found.integrates is integrates
    assert found.answers_right == 1.0
    assert found.explained + sum(found.residual.values()) == pytest.approx(1, abs=1e-9)


def test_the_published_table_of_swapped_activations() -> None:
    path = public("he/p_23_dmlp_512_ReLU_random_scale_0.1_decay_0_08142058/final.pth")
    swaps = {
        one.function: one for one in swap_activations(quadlens.import_file(path).model.collapse())
    }
    published = {
        "|x|": 1,
        "x²": 1,
        "x⁴": 1,
        "x⁸": 1,
        "log(1 + e^2x)": 1,
        "e^x": 1,
        "x": 0.0416,
        "x³": 0.0359,
    }
    assert swaps["|x|"].predicted == 1.0
    assert swaps["x"].predicted < 0.5
    for function, accuracy in published.items():
        assert round(swaps[function].accuracy, 4) == accuracy


def public(name: str) -> Path:
    directory = os.environ.get("QUADLENS_PEERS")
    if directory is None or not (Path(directory) / name).is_file():
        pytest.skip("QUADLENS_PEERS names no directory of public checkpoints")
    return Path(directory) / name


def test_the_tables_of_the_documents_are_what_their_command_makes(
    bundled: Lens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines of a bundled model, made again; the others need files that are not shipped."""
    root = ROOT
    monkeypatch.syspath_prepend(root / "tools")
    tool = importlib.import_module("lens_tables")
    study = quadlens.study("pizza").given(lens=bundled)
    row = tool.row_of(study, "pizza")
    text = (root / "docs" / "lens-models.md").read_text(encoding="utf-8")
    for name in ("found", "measured"):
        assert tool.TABLES[name]([row]).to_markdown().splitlines()[-1] in text
    for line in tool.swapped([row]).to_markdown().splitlines()[2:]:
        function, pair = (cell.strip() for cell in line.strip("| ").replace("\\|", "¦").split("|"))
        assert any(
            f"| {function} |".replace("¦", "\\|") in one and pair in one
            for one in text.splitlines()
        )
    points = [tool.Measured("one", 0.01 * x, 1 - 0.1 * x, 0.2 * x) for x in range(4)]
    assert [axis.get_title(loc="left") for axis in tool.draw_measured(points).axes] == [
        "4 models, rank correlation -1.00",
        "4 models, rank correlation 1.00",
    ]
