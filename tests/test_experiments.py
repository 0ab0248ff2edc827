"""The registered experiments: the data are of registered models, and the pages are what the analysis makes of them."""

import importlib
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
HERE = ROOT / "experiments"


@pytest.fixture(autouse=True)
def _modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HERE)


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


@pytest.mark.parametrize("page", ["1_integration", "2_doubled_keys", "3_width_law", "4_product_waves"])
def test_the_pages_are_what_the_analysis_makes(page: str) -> None:
    text, _ = importlib.import_module("analyse").PAGES[page]()
    assert (HERE / "results" / f"{page}.md").read_text(encoding="utf-8") == text


def test_predictions_were_committed_before_the_first_data() -> None:
    """As far as the history is at hand."""
    if not (ROOT / ".git").exists():
        pytest.skip("no history here")

    def first(path: str) -> int:
        words = ["git", "log", "--diff-filter=A", "--format=%ct", "--", path]
        times = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
        return min(map(int, times), default=0)

    started = first("experiments/data")
    if not started:
        pytest.skip("a shallow history")
    for page in HERE.glob("registered/[0-9]*.md"):
        assert first(f"experiments/registered/{page.name}") < started
