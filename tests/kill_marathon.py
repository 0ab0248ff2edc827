"""kill -9 at random moments: python kill_marathon.py [KILLS [SEED [CASE …]]], Linux.

Commands that write several files are run to their end, then killed at a random moment again and again. After every kill
what lies in the directory under a name that counts is, byte for byte, what the undisturbed run left; and at last
the same command, not killed, ends in the same bytes. Each attempt is a fork of this process, which has
the libraries loaded, so that kills meet the work and not the imports.

Files that hold times (manifests of runs) are compared without them. Names that begin with a dot are parts of files that
a killed writer left; they are not looked at.
"""

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from quadlens.population.one_model import Outcome, Task, make_model
from quadlens.population.sweep import sweep
from quadlens.training.config import TrainConfig

TINY = TrainConfig(p=7, d_model=8, d_mlp=16, n_heads=2, d_head=4, epochs=150, attention_rate=0.5, history_every=10)
SETTINGS = ("--p", "7", "--d-model", "8", "--d-mlp", "16", "--n-heads", "2", "--d-head", "4", "--epochs", "600",
            "--threads", "1", "--checkpoint-every", "50", "-q")  # fmt: skip
# What differs from run to run: how long it took.
TIMES = ("seconds", "created", "train_seconds")


class HereBackend:
    """A sweep's work in this very process, so that one kill ends driver and worker."""

    def __init__(self) -> None:
        self._done: list[Outcome] = []

    def room(self) -> int:
        return 0 if self._done else 1

    def start(self, task: Task) -> None:
        self._done.append(make_model(task))

    def wait(self, seconds: float) -> list[Outcome]:
        found, self._done = self._done, []
        return found

    def close(self) -> None:
        pass


def _command(*words: str) -> None:
    from quadlens.cli.main import main

    sys.argv = ["quadlens", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise


def run_train(directory: Path) -> None:
    _command("train", *SETTINGS, "--snapshots", "20", "--resume", "-o", str(directory / "m.safetensors"))


def run_sweep(directory: Path) -> None:
    from quadlens.population import dataset
    from quadlens.population.store import Store

    configs = [
        TrainConfig(**{**vars(TINY), "seed": seed, "attention_rate": rate}) for seed in (0, 1) for rate in (0, 1)
    ]
    sweep(configs, directory, HereBackend(), strategies=("moments",), checkpoint_every=50)
    dataset.rebuild(Store(directory))


def run_export(directory: Path) -> None:
    _command("export", "mainline", "--format", "transformer-lens", "-o", str(directory / "model.pt"), "-q")


def run_report(directory: Path) -> None:
    source = directory.parent / "small.safetensors"
    if not source.exists():
        _command("build", "--p", "7", "--keys", "1,2", "--neurons", "24", "-o", str(source), "-q")
    _command("report", str(source), "-o", str(directory / "report"), "--workers", "1", "--no-proofs", "-q")


CASES: dict[str, Callable[[Path], None]] = {
    "train --snapshots": run_train, "sweep": run_sweep, "export": run_export, "report": run_report
}  # fmt: skip


def start(run: Callable[[Path], None], directory: Path) -> int:
    """Fork a child that runs a case in a directory; returns its process id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        run(directory)
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        os._exit(code)


def contents(directory: Path) -> dict[str, bytes]:
    """Every file that counts, by its path; JSON without what says how long something took."""
    found = {}
    for file in sorted(directory.rglob("*")):
        relative = file.relative_to(directory)
        if file.is_file() and not any(part.startswith(".") for part in relative.parts):
            # Pages and manifests say the command, and so the directory.
            content = file.read_bytes().replace(str(directory).encode(), b"DIRECTORY")
            found[str(relative)] = _without_times(content) if file.suffix == ".json" else content
    return found


def _without_times(content: bytes) -> bytes:
    value = json.loads(content)
    if isinstance(value, dict):
        for name in TIMES:
            value.pop(name, None)
        # A manifest's hash of another file that holds times.
        if isinstance(value.get("sha256"), dict):
            value["sha256"] = {name: digest for name, digest in value["sha256"].items() if not name.endswith(".json")}
    return json.dumps(value, sort_keys=True).encode()


@dataclass(frozen=True)
class Found:
    """What killing one case showed: kills, runs that ended before their kill, and the files compared after kills."""

    kills: int
    finished: int
    compared: int


def kill_case(run: Callable[[Path], None], kills: int, moments: random.Random, base: Path) -> Found:
    """Kill one case `kills` times; raises AssertionError where a file is neither whole nor absent."""
    whole, part = base / "whole", base / "part"
    whole.mkdir()
    began = time.monotonic()
    _, status = os.waitpid(start(run, whole), 0)
    assert status == 0, "the undisturbed run failed"
    seconds, wanted = time.monotonic() - began, contents(whole)
    done = finished = compared = 0
    part.mkdir()
    while done < kills:
        child, began = start(run, part), time.monotonic()
        moment, ended = began + moments.uniform(0.0, seconds), 0
        while not ended and time.monotonic() < moment:
            time.sleep(0.001)
            ended, status = os.waitpid(child, os.WNOHANG)
        if not ended:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            done += 1
        else:
            assert status == 0, f"a run after a kill ended with {status}"
            finished += 1
            # It resumed, or the machine is less busy than it was: later kills come sooner.
            seconds = min(seconds, max(0.05, 0.8 * (time.monotonic() - began)))
        left = {n: content for n, content in contents(part).items() if n in wanted or not _in_the_making(n)}
        for name, content in left.items():
            if not _varies(name):
                assert content == wanted.get(name), f"{name} is not what the undisturbed run left"
            compared += 1
        # A run that ended, and now and then one that did not, makes room for a fresh start.
        if not os.WIFSIGNALED(status) or moments.random() < 0.2:
            shutil.rmtree(part)
            part.mkdir()
    _, status = os.waitpid(start(run, part), 0)
    assert status == 0, "the same command again failed"
    last = contents(part)
    assert set(last) == set(wanted), set(last) ^ set(wanted)
    different = [name for name in wanted if last[name] != wanted[name] and not _varies(name)]
    assert not different, different
    return Found(done, finished, compared)


def _in_the_making(name: str) -> bool:
    """Files that an unfinished run keeps for itself: its checkpoint, and a sweep's unfinished models."""
    return name.endswith(".checkpoint") or name.startswith(("unfinished", "failed"))


def _varies(name: str) -> bool:
    """Files that say how long something took in a form other than JSON."""
    return name.endswith("population.parquet")


def main(words: Sequence[str]) -> None:
    """Share the kills out over the cases and say what was found."""
    import torch

    from quadlens.training.train import seconds_per_epoch

    kills, seed = int(words[0]) if words else 100, int(words[1]) if len(words) > 1 else 0
    torch.set_num_threads(1)
    for rate in (0.0, 0.5):  # compiles, so that children need not
        seconds_per_epoch(TrainConfig(**{**vars(TINY), "attention_rate": rate}), device="cpu", threads=1)
    shares = {"train --snapshots": 0.4, "sweep": 0.2, "export": 0.35, "report": 0.05}
    chosen = words[2:] or list(CASES)
    for name, run in CASES.items():
        if name not in chosen:
            continue
        with tempfile.TemporaryDirectory() as directory:
            found = kill_case(run, round(kills * shares[name]), random.Random(f"{seed} {name}"), Path(directory))
        ended = f"{found.finished} runs ended before theirs, {found.compared} files compared"
        print(f"{name}: {found.kills} kills, {ended}, all whole; the same command again: the same bytes", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
