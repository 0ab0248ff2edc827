"""The checker keeps its limits of time and memory on files made to break them."""

import hashlib
import json
import math
import os
import struct
import subprocess
import sys
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quadlens.network.handmade import Recipe, build_transformer
from quadlens.network.native import save
from quadlens.proofs.pairs import certify
from quadlens_checker import check, limits
from quadlens_checker.archive import archive
from quadlens_checker.model_file import Config
from quadlens_checker.tasks import by_formula

pytestmark = pytest.mark.slow

SECONDS = 2
# Starting Python twice and reading 64 MB: processor time, which does not count what else runs, and
# some twenty times what it takes.
GRACE = 30
# Twice the largest file, once as bytes and once as text, and as much again for what is made of it.
MEGABYTES = 500


@dataclass(frozen=True)
class Run:
    """The output of a stand-alone check, its processor seconds and its peak in megabytes."""

    code: int
    report: dict[str, Any]
    error: str
    seconds: float
    megabytes: float


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("limits")
    (folder / "checker.pyz").write_bytes(archive())
    model = build_transformer(Recipe(7, (1, 2), 12))
    save(model, folder / "good.safetensors")
    certify(model, "brute").save(folder / "good.json")
    return folder


# A process starts with the peak of the one it was forked from, so a small one stands between the
# tests and the checker.
LAUNCHER = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
with open(sys.argv[1], "w") as file:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    file.write(f"{used.ru_maxrss} {used.ru_utime + used.ru_stime}")
sys.exit(code)
"""


def measured(folder: Path, certificate: Path, model: Path, allowed: int = SECONDS) -> Run:
    """Run the one-file checker in a process limited to 4 GB; return its larger peak."""
    limited = ["sh", "-c", 'ulimit -v 4000000; exec "$@"', "sh"]
    words = [
        *limited,
        sys.executable,
        "-I",
        "-S",
        str(folder / "checker.pyz"),
        str(certificate),
        str(model),
    ]
    peak = folder / "peak"
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        LAUNCHER,
        str(peak),
        *words,
        "--json",
        "--max-seconds",
        str(allowed),
    ]
    done = subprocess.run(command, capture_output=True, check=False)
    kilobytes, seconds = map(float, peak.read_text().split())
    report = json.loads(done.stdout) if done.stdout else {}
    return Run(done.returncode, report, done.stderr.decode(), seconds, kilobytes / 1000)


def within_limits(run: Run) -> None:
    assert run.seconds < SECONDS + GRACE
    assert run.megabytes < MEGABYTES


# Units that fill a certificate; what each becomes in memory is many times its text.
FILLINGS = {
    "objects": ('{"":0},', "more than 100000 times {"),
    "nested lists": ("[[]],", "more than 1000000 times ["),
    "strings": ('"ab",', 'more than 1000000 times "'),
    "wide letters": ('"\U0001f600",', 'more than 1000000 times "'),
    "integers": ("1,", "more than 8000000 times ,"),
    "longer integers": ("257,", "more than 8000000 times ,"),
    "as many integers as there may be": ("12345678,", None),
    "constants": ("null,", "more than 8000000 times ,"),
    "open lists": ("[", "more than 1000000 times ["),
    "blanks": (" ", None),
}


@pytest.mark.parametrize("what", FILLINGS)
def test_a_certificate_of_64_megabytes_is_refused_in_time(folder: Path, what: str) -> None:
    unit, reason = FILLINGS[what]
    path = folder / "filled.json"
    path.write_bytes(
        b"[" + unit.encode() * ((limits.MAX_CERTIFICATE_BYTES - 3) // len(unit.encode())) + b"0]"
    )
    run = measured(folder, path, folder / "good.safetensors")
    within_limits(run)
    assert run.code == 1
    assert run.report["verdict"] in ("REJECTED", "TIMEOUT")
    if reason is not None and run.report["verdict"] == "REJECTED":
        assert run.report["reason"].startswith(reason)


@pytest.mark.parametrize("which", ["certificate", "model"])
@pytest.mark.parametrize("kind", ["pipe", "device", "directory", "link to a pipe"])
def test_only_regular_files_are_read(folder: Path, tmp_path: Path, which: str, kind: str) -> None:
    path = tmp_path / "odd"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "directory":
        path.mkdir()
    else:
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to("pipe")
    names = (
        (path, folder / "good.safetensors")
        if which == "certificate"
        else (folder / "good.json", path)
    )
    run = measured(folder, *names)
    within_limits(run)
    assert (run.code, run.report) == (2, {})
    assert str(path) in run.error
    assert ("a regular file" in run.error) or ("directory" in run.error)


def test_a_larger_file_is_not_read(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as stream:
        stream.truncate(10**12)
    for names in ((path, folder / "good.safetensors"), (folder / "good.json", path)):
        run = measured(folder, *names)
        within_limits(run)
        assert (run.code, run.report["verdict"]) == (1, "REJECTED")
        assert "is larger than 64000000 bytes" in run.report["reason"]


def transformer(kind: str = "F32", fill: float = 0.5, **sizes: int) -> tuple[bytes, bytes]:
    """A model file with these sizes, all weights `fill`, and a certificate about it."""
    common = {
        "d_model": 2,
        "n_heads": 1,
        "d_head": 1,
        "d_vocab": 8,
        "d_vocab_out": 7,
        "n_ctx": 3,
    } | sizes
    config = {"architecture": "transformer", "p": 7, "d_mlp": 2, "activation": "relu"} | common
    shapes = Config(**config, task=by_formula("add", 7)).shapes()  # type: ignore[arg-type]
    config |= {"attention": [0.5, 0.5], "read_position": 1, "b_token_offset": 0}
    about = json.dumps({"format": 1, "config": config, "checksum": ""})
    header: dict[str, Any] = {"__metadata__": {"quadlens": about}}
    weights, code = bytearray(), {"F32": "f", "F64": "d"}[kind]
    for name, shape in shapes.items():
        start = len(weights)
        weights += array(code, [fill]).tobytes() * math.prod(shape)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, len(weights)]}
    text = json.dumps(header).encode()
    content = struct.pack("<Q", len(text)) + text + bytes(weights)
    model = {
        "sha256": hashlib.sha256(content).hexdigest(),
        "p": 7,
        "d_mlp": config["d_mlp"],
        "activation": "relu",
    }
    claims = {
        "inputs": 49,
        "certified_inputs": 49,
        "margin": "1/1",
        "float32_error": None,
        "float32_certified": False,
    }
    certificate = {
        "format": "quadlens-certificate", "version": 1, "statement": "", "verdict": "CERTIFIED",
        "strategy": "brute",
        "model": model, "claims": claims, "uncertified": [], "witnesses": [], "hints": {},
        "cost": {"flops": 0, "collapse_flops": 0, "brute_force_flops": 0},
    }  # fmt: skip
    return content, json.dumps(certificate).encode()


# Sizes of models near 64 MB that once took, or could take, gigabytes and minutes.
MODELS: dict[str, Callable[[], tuple[bytes, bytes]]] = {
    "tokens that are not used": lambda: transformer(d_vocab=7_900_000),
    "answers that are not used": lambda: transformer(d_vocab_out=5_300_000),
    "positions that are not used": lambda: transformer(n_ctx=7_900_000),
    "heads": lambda: transformer(n_heads=2_500_000),
    "a wide stream": lambda: transformer(d_model=600_000),
    "a wide head": lambda: transformer(d_head=2_500_000),
    "neurons": lambda: transformer(d_mlp=2_500_000),
    "tiny weights": lambda: transformer("F64", 5e-324, d_mlp=1_200_000),
    "large products": lambda: transformer("F64", 1.7e308, d_model=400, d_mlp=400, d_head=400),
}
# The others are refused because the work would take too long; these need none, and get a verdict.
NO_WORK = ("tokens that are not used", "answers that are not used", "positions that are not used")


@pytest.mark.parametrize("what", MODELS)
def test_a_model_of_64_megabytes_is_refused_in_time(folder: Path, what: str) -> None:
    content, certificate = MODELS[what]()
    assert len(content) <= limits.MAX_MODEL_BYTES
    (folder / "large.safetensors").write_bytes(content)
    (folder / "large.json").write_bytes(certificate)
    run = measured(folder, folder / "large.json", folder / "large.safetensors")
    within_limits(run)
    assert run.code == 1
    assert run.report["verdict"] in ("REJECTED", "TIMEOUT")
    if what in NO_WORK:
        run = measured(folder, folder / "large.json", folder / "large.safetensors", 60)
        assert "statement does not fit" in run.report["reason"]
        assert run.megabytes < MEGABYTES


def test_a_long_header_is_refused(folder: Path) -> None:
    content = struct.pack("<Q", 60_000_000) + b'{"":[' + b"0," * 30_000_000
    (folder / "header.safetensors").write_bytes(content)
    certificate = json.loads((folder / "good.json").read_text())
    certificate["model"]["sha256"] = hashlib.sha256(content).hexdigest()
    (folder / "header.json").write_text(json.dumps(certificate))
    run = measured(folder, folder / "header.json", folder / "header.safetensors")
    within_limits(run)
    assert "header is longer than 1000000 bytes" in run.report["reason"]


def test_the_memory_limit_is_kept_by_the_function_too(folder: Path) -> None:
    """5 MB are not enough to start Python: no verdict, and that is a rejection."""
    report = check(str(folder / "good.json"), str(folder / "good.safetensors"), 60.0, 5_000_000)
    assert (report.verdict, report.exit_code) == ("REJECTED", 1)
    content, certificate = transformer(d_mlp=2_500_000)
    (folder / "large.safetensors").write_bytes(content)
    (folder / "large.json").write_bytes(certificate)
    report = check(
        str(folder / "large.json"), str(folder / "large.safetensors"), 600.0, 300_000_000
    )
    assert (report.verdict, report.reason) == (
        "REJECTED",
        "the check needs more memory than it may use",
    )


def working(process: str) -> bool:
    """Whether a process runs.

    One that has ended may be listed until its exit code is read.
    """
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_nothing_is_left_working_when_the_program_is_killed(folder: Path) -> None:
    content, certificate = transformer(d_mlp=1_000_000)
    (folder / "long.safetensors").write_bytes(content)
    (folder / "long.json").write_bytes(certificate)
    names = str(folder / "long.json"), str(folder / "long.safetensors")
    command = [
        sys.executable,
        "-I",
        "-S",
        str(folder / "checker.pyz"),
        *names,
        "--max-seconds",
        "5000",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until = time.monotonic() + 300  # only for a test that would never end
    while not (started := children.read_text().split()) and time.monotonic() < until:
        time.sleep(0.05)
    process.kill()
    process.communicate()
    (child,) = started
    while working(child) and time.monotonic() < until:
        time.sleep(0.05)
    assert not working(child)
