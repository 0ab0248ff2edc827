"""Kill commands at random: python kill_marathon.py [KILLS [SEED [CASE …]]].

Each case is killed KILLS times, with `kill -9`. This runs on Linux alone.

Commands that write several files are run to their end, then killed again and again: half of the
kills at a moment drawn from the whole time that the command took, half when it opens, renames or
removes a file, or at most 2 ms after. Before an attempt the place is empty, or holds what an
earlier kill left, or an older result for another model.

After every kill each file under a name that counts is, byte for byte, what the undisturbed run, or
the older one, left; and if the file is there that says that all are there, all are, and of one
time. At last the same command, not killed, ends in the same bytes. Each attempt is a fork of this
process, which has the libraries loaded, so that kills meet the work and not the imports.

Files that hold times (manifests of runs) are compared without them. Names that begin with a dot are
parts of files that a killed writer left; they are not looked at until the last run, which clears
them.
"""

import functools
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import unittest.mock
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quadlens.base.atomic import TEMPORARY
from quadlens.network import Recipe, build_mlp, save
from quadlens.network.study import Study, study_of
from quadlens.show.figures.registry import all_pictures
from quadlens.show.figures.style import FIGURE_FORMATS
from quadlens.show.pages.prepare import prepare
from quadlens.show.pages.render import Rendered
from quadlens.show.pages.write import write_report
from quadlens.training.config import TrainConfig
from quadlens.training.population.one_model import Job, Outcome, make_model
from quadlens.training.population.sweep import sweep

TINY = TrainConfig(
    p=7, d_model=8, d_mlp=16, n_heads=2, d_head=4, epochs=150, attention_rate=0.5, history_every=10
)
SETTINGS = ("--p", "7", "--d-model", "8", "--d-mlp", "16", "--n-heads", "2", "--d-head", "4",
            "--epochs", "600", "--threads", "1", "--checkpoint-every", "50", "-q")  # fmt: skip
SMALL, OTHER = (Recipe(p=7, keys=keys, neurons=24) for keys in ((1, 2), (2, 3)))
# What differs from run to run: how long it took.
TIMES = ("seconds", "created", "train_seconds")
# Python's audit events of a change of a file.
CHANGES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "tempfile.mkdtemp"}


class HereBackend:
    """A sweep's work in this very process, so that one kill ends driver and worker."""

    threads = 1

    def workers(self) -> int:
        return 1

    def make(self, job: Job) -> Outcome:
        return make_model(job)

    def close(self) -> None:
        pass


def command(*words: str) -> None:
    from quadlens.cli.main import main

    sys.argv = ["quadlens", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise


def run_train(directory: Path, seed: int = 0) -> None:
    words = ("--seed", str(seed), "--snapshots", "20", "-o", str(directory / "m.safetensors"))
    # As people do: over a finished run of another seed --resume is refused.
    resume = ("--resume",) if (directory / "m.checkpoint").exists() else ()
    command("train", *SETTINGS, *words, *resume)


def run_sweep(directory: Path) -> None:
    from quadlens.training.population import dataset
    from quadlens.training.population.store import Store

    configs = [
        TrainConfig(**{**vars(TINY), "seed": seed, "attention_rate": rate})
        for seed in (0, 1)
        for rate in (0, 1)
    ]
    sweep(configs, directory, HereBackend(), strategies=("moments",), checkpoint_every=50)
    dataset.rebuild(Store(directory))


def run_export(directory: Path, model: str = "pizza") -> None:
    command(
        "export",
        model,
        "--format",
        "transformer-lens",
        "-o",
        str(directory / "model.safetensors"),
        "-q",
    )


def run_history(directory: Path, seed: int = 0) -> None:
    """The rows of a tiny run, which is trained once."""
    trained = directory.parent / f"trained {seed}"
    if not trained.is_dir():
        trained.mkdir()
        run_train(trained, seed)
    command(
        "history",
        str(trained / "m.safetensors"),
        "--no-proofs",
        "-q",
        "-o",
        str(directory / "rows.parquet"),
    )


def run_report(directory: Path) -> None:
    words = ("--workers", "1", "--no-proofs", "-q")
    command(
        "report",
        str(directory.parent / "small.safetensors"),
        "-o",
        str(directory / "report"),
        *words,
    )


@functools.cache
def _prepared(recipe: Recipe) -> Study:
    """Return a small model with everything computed that its page needs.

    What is left to do is to write.
    """
    return prepare(study_of(build_mlp(recipe)).without_proofs())


def run_writing(directory: Path, recipe: Recipe = SMALL) -> None:
    """A report whose figures are drawn already: placeholders of their size."""
    study = _prepared(recipe)
    files = tuple((kind, bytes(16) + (160).to_bytes(4, "big") * 5000) for kind in FIGURE_FORMATS)
    drawn = {one.name: Rendered(one.name, files, "data:,") for one in all_pictures(study)}
    with unittest.mock.patch("quadlens.show.pages.write.render", return_value=drawn):
        write_report(
            study,
            directory / "report",
            "quadlens report",
            explore=lambda: "<!doctype html>" * 40_000,
        )


@dataclass(frozen=True)
class Case:
    """Something to kill.

    Attributes:
        run: Does it in a directory.
        last: The file that says that all are there; None where several results stand side by side.
        older: Leaves an older result in a directory, of other bytes, that `run` replaces.
        whole_time: All kills are spread over its whole time, none chosen by what it does to files.
    """

    run: Callable[[Path], None]
    last: str | None = None
    older: Callable[[Path], None] | None = None
    whole_time: bool = False


REPORT_MANIFEST = "report/manifest.json"
CASES = {
    "train --snapshots": Case(run_train, "m.manifest.json", functools.partial(run_train, seed=1)),
    "sweep": Case(run_sweep),
    "export": Case(
        run_export, "model.safetensors", functools.partial(run_export, model="mismatched")
    ),
    "history": Case(run_history, "rows.parquet", functools.partial(run_history, seed=1)),
    "report": Case(
        run_report, REPORT_MANIFEST, functools.partial(run_writing, recipe=OTHER), whole_time=True
    ),
    "report, writing": Case(
        run_writing, REPORT_MANIFEST, functools.partial(run_writing, recipe=OTHER)
    ),
}


def start(
    run: Callable[[Path], None], directory: Path, watch: Callable[[int], None] = lambda step: None
) -> int:
    """Fork a child that runs a case in a directory; returns its process id.

    Args:
        run: The case.
        directory: Where it works.
        watch: Called in the child with 1, 2, … before each change of a file there.
    """
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        steps = itertools.count(1)

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            writes = event != "open" or (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR)
            if event in CHANGES and writes and str(arguments[0]).startswith(f"{directory}/"):
                watch(next(steps))

        sys.addaudithook(hook)
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
            value["sha256"] = {
                name: digest
                for name, digest in value["sha256"].items()
                if not name.endswith(".json")
            }
    return json.dumps(value, sort_keys=True).encode()


@dataclass(frozen=True)
class Found:
    """What killing one case showed.

    It counts kills, runs that ended before their kill, and files compared after kills.
    """

    kills: int
    finished: int
    compared: int


@dataclass(frozen=True)
class Moment:
    """The moment of a kill.

    It is `seconds` after the start, or after the change of a file with the number `step`.
    """

    seconds: float
    step: int | None = None

    def watch(self, step: int) -> None:
        """In the child: end it when its step has come."""
        if step == self.step and self.seconds:
            threading.Timer(self.seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
        elif step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Undisturbed:
    """What an undisturbed run leaves.

    It has the run's files, how long the run took and how often it changed a file.
    """

    files: dict[str, bytes]
    seconds: float
    steps: int


def undisturbed(run: Callable[[Path], None], directory: Path) -> Undisturbed:
    directory.mkdir()
    counted, began = directory.parent / "steps", time.monotonic()
    _, status = os.waitpid(
        start(run, directory, lambda step: print(step, file=counted.open("w"))), 0
    )
    assert status == 0, "the undisturbed run failed"
    return Undisturbed(contents(directory), time.monotonic() - began, int(counted.read_text()))


def attempt(case: Case, moment: Moment, directory: Path) -> bool:
    """Run a case and kill it at a moment; returns whether it was killed, or ended before."""
    child, began, ended, status = start(case.run, directory, moment.watch), time.monotonic(), 0, 0
    while not ended:
        if moment.step is None and time.monotonic() - began > moment.seconds:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.001)
        ended, status = os.waitpid(child, os.WNOHANG)
    assert os.WIFSIGNALED(status) or status == 0, f"a run after a kill ended with {status}"
    return os.WIFSIGNALED(status)


def check(
    case: Case, left: dict[str, bytes], wanted: dict[str, bytes], older: dict[str, bytes]
) -> int:
    """Files that are whole; raises AssertionError where one is not, or all are not of one time."""
    for name, content in left.items():
        if not _varies(name):
            assert content in (wanted.get(name), older.get(name)), (
                f"{name} is not what an undisturbed run left"
            )
    if case.last in left:
        # Snapshots of the run at work come one by one; those of the older run are gone before.
        now, before = (
            {n: c for n, c in one.items() if ".snapshots/" not in n} for one in (wanted, older)
        )
        assert {n: c for n, c in left.items() if ".snapshots/" not in n} in (now, before), (
            f"{case.last} is not the last"
        )
    return len(left)


def kill_case(case: Case, kills: int, moments: random.Random, base: Path) -> Found:
    """Kill one case `kills` times.

    Raises:
        AssertionError: A file is neither whole nor absent.
    """
    save(build_mlp(SMALL), base / "small.safetensors")
    part, whole, old = base / "part", undisturbed(case.run, base / "whole"), {}
    if case.older:
        old = undisturbed(case.older, base / "older").files
    done = finished = compared = 0
    seconds = whole.seconds
    part.mkdir()
    while done < kills:
        by_time = case.whole_time or done % 2 == 0
        delay = moments.choice((0.0, moments.uniform(0, 0.002)))
        # The first of them at the last change of all: what is there is whole, and something is left
        # to tidy up.
        step = whole.steps if done == 1 else moments.randint(1, whole.steps)
        moment = (
            Moment(moments.uniform(0, seconds))
            if by_time
            else Moment(0.0 if done == 1 else delay, step)
        )
        began = time.monotonic()
        killed = attempt(case, moment, part)
        left = {
            n: c for n, c in contents(part).items() if n in whole.files or not _in_the_making(n)
        }
        compared += check(case, left, whole.files, old)
        done, finished = done + killed, finished + (not killed)
        if not killed and by_time:
            # It resumed, or the machine is less busy than it was: later kills come sooner.
            seconds = min(seconds, max(0.05, 0.8 * (time.monotonic() - began)))
        # A run that ended, and now and then one that did not, makes room for a fresh start.
        if not killed or moments.random() < 0.2:
            shutil.rmtree(part)
            if case.older and moments.random() < 0.5:
                shutil.copytree(base / "older", part)
            else:
                part.mkdir()
    _, status = os.waitpid(start(case.run, part), 0)
    assert status == 0, "the same command again failed"
    last = contents(part)
    assert set(last) == set(whole.files), set(last) ^ set(whole.files)
    hidden = [str(path) for path in part.rglob(".*") if path.name.endswith(TEMPORARY)]
    assert not hidden, hidden
    different = [name for name in last if last[name] != whole.files[name] and not _varies(name)]
    assert not different, different
    return Found(done, finished, compared)


def _in_the_making(name: str) -> bool:
    """Return whether a file is one that an unfinished run keeps for itself.

    These are its checkpoint and a sweep's unfinished models.
    """
    return name.endswith(".checkpoint") or name.startswith(("unfinished", "failed"))


def _varies(name: str) -> bool:
    """Files that say how long something took in a form other than JSON."""
    return name.endswith("population.parquet")


def main(words: Sequence[str]) -> None:
    """Share the kills out over the cases and say what was found."""
    import torch

    from quadlens.training.train import seconds_per_epoch

    kills, seed = int(words[0]) if words else 30, int(words[1]) if len(words) > 1 else 0
    torch.set_num_threads(1)
    for rate in (0.0, 0.5):  # compiles, so that children need not
        seconds_per_epoch(
            TrainConfig(**{**vars(TINY), "attention_rate": rate}), device="cpu", threads=1
        )
    for recipe in (SMALL, OTHER):
        _prepared(recipe)
    for name in words[2:] or CASES:
        with tempfile.TemporaryDirectory() as directory:
            found = kill_case(CASES[name], kills, random.Random(f"{seed} {name}"), Path(directory))
        ended = f"{found.finished} runs ended before theirs, {found.compared} files compared"
        print(
            f"{name}: {found.kills} kills, {ended}, all whole; "
            "the same command again: the same bytes",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
