"""An activation that the core alone knows: what works, and the sentence of what does not."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

# Done before anything else; another process, since names of activations are checked while testing.
REGISTER = """
import dataclasses
import quadlens
from quadlens.network import activation

activation.NONLINEARITIES["mish"] = dataclasses.replace(activation.NONLINEARITIES["silu"], \
name="mish", other_names=())
activation.ACTIVATIONS = (*activation.ACTIVATIONS, "mish")
small = quadlens.edit.swap_activation(\
quadlens.build(p=5, keys=(1, 2), neurons=12, jitter=0.5, noise=0.1), "mish")
"""


def run(script: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", REGISTER + script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_is_evaluated_explained_and_reported_without_a_page_to_play_with(tmp_path: Path) -> None:
    done = run(
        """
assert quadlens.evaluate(small).pairs == 25
quadlens.explain(small)
made = quadlens.report(small, "report", proofs=False)
assert "explorer.html" not in made.files
text = made.page.read_text(encoding="utf-8")
assert "mish" in text and "Play with this model" not in text
""",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (
            'quadlens.explore(small, "page.html")',
            "BadConfig: the explorer does not know the activation mish; "
            "expected one of relu, abs, square, quartic, ",
        ),
        (
            "quadlens.train(p=5, d_model=8, d_mlp=16, d_head=2, epochs=2, "
            'activation="mish", threads=1)',
            "BadConfig: activation 'mish' cannot be trained yet; "
            "expected one of relu, abs, square, quartic, ",
        ),
    ],
)
def test_what_does_not_know_it_says_so_in_a_sentence(
    script: str, sentence: str, tmp_path: Path
) -> None:
    done = run(script, tmp_path)
    assert done.returncode == 1
    assert sentence in done.stderr.splitlines()[-1]
    assert "KeyError" not in done.stderr
    assert not list(tmp_path.iterdir())
