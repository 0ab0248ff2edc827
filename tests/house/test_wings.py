"""A wing imports only wings below it (`[tool.importlinter]` in pyproject.toml)."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from beartype.roar import BeartypeCallHintParamViolation
from jaxtyping import TypeCheckError

import quadlens
from places import ROOT

PACKAGE = Path(quadlens.__file__).parent
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "importlinter"
]["contracts"]
# The door, from which nobody imports, and a module that only old pickles name.
NO_WING = {"anything", "studies"}


def layers() -> list[str]:
    """Return the wings, lowest first, as import-linter has them."""
    return [name.removeprefix("quadlens.") for name in reversed(CONTRACTS[0]["layers"])]


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter over the sources in a folder, with the contracts of this project."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    words = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command as main; main()",
    ]
    command = [*words, "--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_every_wing_is_a_layer_and_stands_in_the_table() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} - NO_WING
    assert {*layers()} - NO_WING == packages
    table = re.findall(
        r"^\| \d+ \| `(\w+)/`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert table == [name for name in layers() if name not in NO_WING]


@pytest.mark.slow
def test_no_import_goes_against_the_order() -> None:
    done = lint_imports(ROOT / "src")
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("quadlens/base/numbers.py", "from quadlens.network import ring"),
        ("quadlens/proofs/pairs/arcs.py", "def f():\n    from quadlens_checker import verdict"),
        ("quadlens_checker/arcs.py", "import quadlens.base.numbers"),
    ],
)
def test_an_import_against_the_order_is_found(tmp_path: Path, module: str, line: str) -> None:
    for name in ("quadlens", "quadlens_checker"):
        shutil.copytree(
            ROOT / "src" / name,
            tmp_path / name,
            ignore=shutil.ignore_patterns("__pycache__", "data"),
        )
    with (tmp_path / module).open("a", encoding="utf-8") as stream:
        stream.write(f"\n\n{line}\n")
    done = lint_imports(tmp_path)
    assert done.returncode == 1
    assert "1 broken" in done.stdout


def test_types_and_shapes_are_checked_while_testing() -> None:
    """Check functions with shapes, which tie arguments, without, and with annotations as text."""
    from quadlens.network import Weights
    from quadlens.network.config import Config, check_modulus
    from quadlens.network.handmade import waves

    violations = (BeartypeCallHintParamViolation, TypeCheckError)
    assert waves(5, np.arange(2), np.zeros(2)).shape == (5, 2)
    wrong: list[Callable[[], object]] = [
        lambda: waves(5, np.arange(2), np.zeros(3)),
        lambda: check_modulus("5"),  # type: ignore[arg-type]
        lambda: Weights.with_zero_biases(Config.paper(5), W_E="0"),  # type: ignore[arg-type]
    ]
    for call in wrong:
        with pytest.raises(violations):
            call()
