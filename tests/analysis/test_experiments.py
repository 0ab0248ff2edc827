"""The registered experiments: the data are of registered models, and the pages are what the
analysis makes of them."""

import importlib
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from places import ROOT
from quadlens.analysis.infinite_width import lens
from quadlens.network.tables import FloatTables, Tables
from quadlens.network.task import task_by_name

HERE = ROOT / "experiments"


@pytest.fixture(autouse=True)
def _modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HERE)


@pytest.mark.slow
def test_every_file_is_of_a_registered_model() -> None:
    run, data = importlib.import_module("run"), importlib.import_module("data")
    names = {one.name: one for one in [*run.registered(), *run.population()]}
    found = data.measured_models()
    assert found
    for one in found:
        planned = names[one.name]
        assert [one.values[x] for x in ("p", "d_mlp", "seed", "epochs")] == [
            *(planned.p, planned.d_mlp, planned.seed, planned.epochs)
        ]
        assert len(one.neurons["k"]) == planned.d_mlp
        assert all(np.isfinite(column).all() for column in one.neurons.values())
        # The model's own numbers follow from its neurons: clusters, and the sum of the weights.
        for cluster in one.values["lens"]["clusters"]:
            mine = one.neurons["k"] == cluster["k"]
            assert mine.sum() == cluster["neurons"]
            A = (one.neurons["rho"][mine].astype(float) * one.neurons["omega"][mine]).sum()
            assert cluster["A"] == pytest.approx(A, rel=1e-5)


def rebuilt(one: Any) -> FloatTables:
    """The network of a model's file: the waves that its neurons read and write, nothing else."""
    n, x = one.values["p"], np.arange(one.values["p"])[:, None]
    column = one.neurons
    k = column["k"].astype(int)

    def wave(name: str, times: Any) -> np.ndarray:
        return np.real(
            (column[f"{name}_re"] + 1j * column[f"{name}_im"]) * np.exp(2j * np.pi * times * x / n)
        )

    U_a = sum(wave(f"wave_{j}_0", j * k) for j in range(1, 5)) + column["constant"]
    U_b = sum(wave(f"wave_0_{j}", j * k) for j in range(1, 5))
    own = np.real(column["omega"] * np.exp(1j * column["psi"]) * np.exp(2j * np.pi * k * x / n))
    half = np.where(k % 2 == 0, k // 2, (n - k) // 2)
    W_L = (
        own
        + wave("written_double", 2 * k)
        + wave("written_triple", 3 * k)
        + wave("written_half", half)
    )
    zero = np.zeros((n, n))
    return Tables(task_by_name("add", n), "relu", U_a, U_b * (k > 0), W_L * (k > 0), zero, zero)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "shared", "joint"), [(79, 0.456, 0.719), (96, 0.723, 0.971)])
def test_doubled_keys_of_the_population(seed: int, shared: float, joint: float) -> None:
    """Seeds 79 and 96 answer everything and do not integrate; their chain read jointly says most of
    what they do."""
    one = importlib.import_module("data").read(
        HERE / "data" / f"0_paper_p59_d512_s{seed}_e10000.parquet"
    )
    said = one.values["lens"]
    assert one.values["evaluation"]["correct"] == 3481
    assert said["integrates"] is False
    assert said["r2"]["shared"] == pytest.approx(shared, abs=0.01)
    assert said["r2"]["joint"] == pytest.approx(joint, abs=0.01)
    found = lens(rebuilt(one))
    assert found.chains == ((10, 20),)
    assert found.integrates is False
    assert found.r2.shared == pytest.approx(shared, abs=0.05)
    assert found.r2.joint == pytest.approx(joint, abs=0.05)


@pytest.mark.slow
def test_the_pages_are_what_the_analysis_makes() -> None:
    analyse = importlib.import_module("analyse")
    pages = {name: make()[0] for name, make in analyse.PAGES.items()}
    for name, text in pages.items():
        assert (HERE / "results" / f"{name}.md").read_text(encoding="utf-8") == text
    assert analyse.summary(pages) in (ROOT / "docs" / "lens.md").read_text(encoding="utf-8")


PLANE = """
import sys

import quadlens
from product_waves import measured, plane_of
from quadlens.analysis.infinite_width.inputs import inputs_of

layer = quadlens.study(sys.argv[1]).anatomy.layer
after = measured(plane_of(inputs_of(layer)))
print(after["accuracy"], after["shared"] - quadlens.lens(sys.argv[1]).r2.shared)
"""


@pytest.mark.parametrize("name", ["pizza", "clock"])
def test_a_layer_as_tables_is_the_layer(name: str) -> None:
    """Product waves are taken away from it, and put into it: unchanged, it is what the lens reads
    of the network.

    In a process of its own, for here types are checked, and a `Plane` only has what the lens needs
    of a layer.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(HERE)))}
    words = subprocess.run(
        [sys.executable, "-c", PLANE, name],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert float(words[0]) == 1.0
    assert abs(float(words[1])) < 1e-9


def test_nothing_that_is_analysed_failed_to_be_measured() -> None:
    """A measurement that raised is kept as {failed: …}; pages must not be made of what is left."""
    data = importlib.import_module("data")
    for path in sorted((HERE / "data").glob("[123]_*.parquet")):
        values = data.read(path).values
        failed = [
            name
            for name in ("lens", "bounds", "measures", "swaps", "product_waves")
            if _failures(values[name])
        ]
        assert not failed, (path.name, failed)


def _failures(value: Any) -> bool:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (isinstance(value, dict) and "failed" in value) or any(map(_failures, inside))


def test_predictions_were_committed_before_the_first_data() -> None:
    """As far as the history is at hand."""
    if not (ROOT / ".git").exists():
        pytest.skip("no history here")

    def first(path: str) -> int:
        words = ["git", "log", "--diff-filter=A", "--format=%ct", "--", path]
        times = subprocess.run(
            words, cwd=ROOT, capture_output=True, text=True, check=False
        ).stdout.split()
        return min(map(int, times), default=0)

    started = first("experiments/data")
    if not started:
        pytest.skip("a shallow history")
    later = {
        "6_adders.md": "experiments/data/adder_seeds.csv"
    }  # an experiment with a data file of its own
    for page in HERE.glob("registered/[0-9]*.md"):
        data = first(later[page.name]) if page.name in later else started
        assert first(f"experiments/registered/{page.name}") < data
