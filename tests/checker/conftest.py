"""The proved checker, built once for the tests that run it."""

import fcntl
import shutil
import subprocess
from pathlib import Path

import pytest

from places import ROOT


@pytest.fixture(scope="session")
def built() -> Path:
    """The program, built once for all processes; skipped where Coq is not installed."""
    here = ROOT / "proved"
    if not all(shutil.which(name) for name in ("coqc", "ocamlfind", "make")):
        pytest.skip(
            "no Coq and OCaml on this machine; tools/install-coq installs them on Debian as root"
        )
    with (here / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["make", "-s", "-C", str(here)], check=True, capture_output=True)
    return here / "build"
