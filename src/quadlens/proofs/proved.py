"""Run the proved checker: a program that Coq proved sound, extracted to OCaml (`proved/`)."""

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quadlens.base.errors import BadConfig, BadFile
from quadlens_checker import CheckReport, limits
from quadlens_checker.guard import run

PROGRAM = "quadlens-proved"
STACK_BYTES = 1 << 30  # Coq's functions on lists recurse once per element
REASON = "the proved checker accepts it: {} holds of this network and these claims"
FLOAT32 = (
    "it is outside the proved theorem, as the certificate's words are, and neither was looked at"
)


def program() -> Path:
    """The program: where `make proved` puts it, or on the path.

    Raises:
        BadConfig: when it is not there.
    """
    built = Path(__file__).parents[3] / "proved" / "build" / PROGRAM
    place = str(built) if built.is_file() else shutil.which(PROGRAM)
    if place is None:
        raise BadConfig(
            f"there is no program {PROGRAM}; run `make proved` in quadlens' repository (as "
            "root on Debian it installs "
            "Coq, OCaml and zarith), or check with proved=False",
            settings=("proved",),
        )
    return Path(place)


def check_proved(
    certificate_path: str,
    model_path: str,
    max_seconds: float = limits.DEFAULT_SECONDS,
    max_bytes: int = limits.DEFAULT_MEMORY_BYTES,
    progress: Callable[[str], None] | None = None,
) -> CheckReport:
    """Check the certificate in one file against the model in another with the proved checker.

    `progress` is called about once a second with how long the check has taken.

    Raises:
        BadConfig: when the program is not built.
        BadFile: for a file that it cannot read, or a certificate or network that its theorem is not
            about.
    """
    command, began = [str(program()), certificate_path, model_path], time.monotonic()

    def limit() -> None:
        import contextlib
        import resource

        for kind, most in (
            (resource.RLIMIT_AS, max_bytes),
            (resource.RLIMIT_STACK, min(STACK_BYTES, max_bytes // 2)),
        ):
            hard = resource.getrlimit(kind)[1]
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(
                    kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
                )

    try:
        done = run(command, max_seconds, progress, preexec_fn=limit, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        late = f"not verified within {max_seconds:g} seconds"
        return CheckReport("TIMEOUT", late, time.monotonic() - began, checker="proved")
    seconds, ended = time.monotonic() - began, done.returncode
    *read, last = done.stdout.decode("utf-8", "replace").removesuffix("\n").split("\n")
    sha256 = read[0].removeprefix("model SHA-256: ") if read else None
    refused = [line for line in (*read, last) if line.startswith(("BAD: ", "OUTSIDE: "))]
    verdict, _, reason = (refused[-1] if ended == 2 and refused else last).partition(": ")
    if ended == 2 and refused:
        fix = (
            "check with proved=False"
            if verdict == "OUTSIDE"
            else "give a certificate and the model it is about"
        )
        raise BadFile(f"{reason}; {fix}")
    claims = claims_of(read, ended) if last == "VERIFIED" else None
    if claims is not None:
        task, inputs = claims.pop("task"), claims["inputs"]
        if is_about_sequences(certificate_path):
            theorem, words = "check_words_sound", statement_of_sums(task, inputs)
        elif problem := name_problem(certificate_path, model_path):
            return CheckReport("REJECTED", problem, seconds, sha256, checker="proved")
        else:
            theorem, words = "check_sound", statement(task, claims["certified_inputs"], inputs)
        reason = REASON.format(theorem)
        return CheckReport(
            "VERIFIED", reason, seconds, sha256, words, claims, float32=FLOAT32, checker="proved"
        )
    if verdict == "REJECTED" and ended == 1:
        return CheckReport("REJECTED", reason, seconds, sha256, checker="proved")
    without = f"the check ended without a verdict, perhaps for more than {max_bytes} bytes"
    return CheckReport("REJECTED", without, seconds, sha256, checker="proved")


def claims_of(read: list[str], ended: int) -> dict[str, Any] | None:
    """Return what the program prints before its verdict.

    It is None where that does not fit its exit code.

    What it quotes of a file stands further above: nothing there can be taken for these lines.
    """
    names = ("task", "margin", "inputs", "certified")
    found = [line.partition(": ") for line in read[-len(names) :]]
    if [name for name, _, _ in found] != list(names) or not all(
        value.isdecimal() for _, _, value in found[2:]
    ):
        return None
    task, margin, inputs, certified = (value for _, _, value in found)
    if ended != int(int(certified) < int(inputs)):
        return None
    return {
        "task": task,
        "inputs": int(inputs),
        "certified_inputs": int(certified),
        "margin": margin,
    }


def is_about_sequences(certificate_path: str) -> bool:
    """Whether the program took the certificate to be about a network on sequences."""
    from quadlens_checker.reading import parse_json

    content = Path(certificate_path).read_bytes()
    return bool(parse_json(content, floats=False)["strategy"] == "cells")


def name_problem(certificate_path: str, model_path: str) -> str | None:
    """Say why a task is not what it is called; None where it is.

    The theorem is about the table in the file, whatever its name.

    Groups are not in the proved checker, so that their names are looked at as the Python checker
    does it.
    """
    from quadlens_checker.model_file import read_model
    from quadlens_checker.reading import Rejected, parse_json
    from quadlens_checker.tasks import check_task

    try:
        about = parse_json(Path(certificate_path).read_bytes(), floats=False)["model"]
        config, _ = read_model(Path(model_path).read_bytes())
        if "task" in about:
            check_task(config.task, about["task"], about.get("answers"), lambda operations: None)
    except Rejected as error:
        return str(error)
    return None


def statement(task: str, certified: int, inputs: int) -> str:
    """What is proved, in words; the margin is beside them, as a rational.

    >>> statement("add", 9, 9)
    'For all 9 inputs the logit of the right answer (task: add) exceeds that of every other by at
    least the margin.'
    """
    which = (
        f"all {inputs} inputs"
        if certified == inputs
        else f"{certified} of {inputs} inputs (all but those listed)"
    )
    right = f"the right answer (task: {task})"
    return f"For {which} the logit of {right} exceeds that of every other by at least the margin."


def statement_of_sums(task: str, inputs: int) -> str:
    """What is proved of a network that adds, in words; the margin is beside them, as a rational.

    >>> statement_of_sums("adding two numbers", 9)[:57]
    'For all 9 inputs greedy decoding is right (task: adding t'
    """
    return (
        f"For all {inputs} inputs greedy decoding is right (task: {task}): at every step the logit "
        "of a right token exceeds that of every token that is not right by at least the margin."
    )
