"""Scripts that install Debian's packages wait for another apt, or end in one line."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from places import ROOT

LOCKED = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 4711 (apt-get)"
# What each installs, by script, and the program that shows that it is there.
SCRIPTS = {
    "install-browser": (["chromium"], ["chromium"]),
    "install-coq": (
        ["--no-install-recommends", "coq", "ocaml", "ocaml-findlib", "libzarith-ocaml-dev"],
        ["coqc", "ocamlfind"],
    ),
}

APT = """
echo "$*" >> {calls}
left=$(cat {left})
if [ "$left" -gt 0 ]; then
    echo $((left - 1)) > {left}
    echo "{why}" >&2
    exit 100
fi
case "$*" in *install*) {made};; esac
"""


def installed(script: str, tmp_path: Path, fails: int, why: str) -> tuple[str, list[str]]:
    """What the script prints on stderr, and what it asked apt for; apt fails so many times first.

    Only what stands in one directory is found: an apt-get that notes its arguments, an id that is
    root's, no sleep.
    """
    path, calls = tmp_path / "bin", tmp_path / "calls"
    path.mkdir()
    (tmp_path / "left").write_text(str(fails))
    made = "; ".join(
        f"printf '#!/bin/sh\\n' > {path}/{name}; chmod +x {path}/{name}"
        for name in SCRIPTS[script][1]
    )
    programs = {
        "apt-get": APT.format(calls=calls, left=tmp_path / "left", why=why, made=made),
        "id": "echo 0",
        "sleep": f'echo "sleep $*" >> {calls}',
    }
    for name, text in programs.items():
        (path / name).write_text(f"#!/bin/sh\n{text}\n")
        (path / name).chmod(0o755)
    for name in ("cat", "chmod", "dirname", "grep", "mktemp", "rm", "sh", "tail"):
        (path / name).symlink_to(str(shutil.which(name)))
    done = subprocess.run(
        [ROOT / "tools" / script],
        env={"PATH": str(path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout == ""
    assert not [one for one in os.listdir(tmp_path) if one.startswith("tmp.")]
    return done.stderr, calls.read_text().splitlines()


@pytest.mark.parametrize("script", SCRIPTS)
def test_it_waits_for_another_apt(script: str, tmp_path: Path) -> None:
    said, calls = installed(script, tmp_path, 3, LOCKED)
    apt = "-o DPkg::Lock::Timeout=120 -qq"
    wanted = " ".join(SCRIPTS[script][0])
    assert said == ""
    assert calls == [
        *[f"{apt} update", "sleep 5"] * 3,
        f"{apt} update",
        f"{apt} install -y {wanted}",
    ]


@pytest.mark.parametrize("script", SCRIPTS)
def test_after_two_minutes_it_says_so_in_one_line(script: str, tmp_path: Path) -> None:
    said, calls = installed(script, tmp_path, 1000, LOCKED)
    assert f"(last line: {LOCKED})" in said
    assert said.count("\n") == 1
    assert 115 <= 5 * calls.count("sleep 5") <= 120


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_waiting_does_not_mend_ends_at_once(script: str, tmp_path: Path) -> None:
    said, calls = installed(script, tmp_path, 1000, "E: Unable to locate package")
    assert "(last line: E: Unable to locate package)" in said
    assert len(calls) == 1
