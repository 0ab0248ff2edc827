"""The proved checker: a program that Coq proved sound, extracted to OCaml (`proved/`, docs/trust.md), run from here."""

import shutil
import subprocess
import time
from pathlib import Path

from quadlens.errors import BadConfig, BadFile
from quadlens_checker import CheckReport, limits

PROGRAM = "quadlens-proved"
STACK_BYTES = 1 << 30  # Coq's functions on lists recurse once per element
REASON = "the proved checker accepts it: check_sound holds of this network and these claims"
FLOAT32 = "it is outside the proved theorem, as the certificate's words are, and neither was looked at"


def program() -> Path:
    """The program: where `make proved` puts it, or on the path.

    Raises:
        BadConfig: when it is not there.
    """
    built = Path(__file__).parents[2] / "proved" / "build" / PROGRAM
    place = str(built) if built.is_file() else shutil.which(PROGRAM)
    if place is None:
        raise BadConfig(
            f"there is no program {PROGRAM}; run `make proved` in quadlens' repository (as root on Debian it installs "
            "Coq, OCaml and zarith), or check with proved=False",
            settings=("proved",),
        )
    return Path(place)


def check_proved(
    certificate_path: str,
    model_path: str,
    max_seconds: float = limits.DEFAULT_SECONDS,
    max_bytes: int = limits.DEFAULT_MEMORY_BYTES,
) -> CheckReport:
    """Check the certificate in one file against the model in another with the proved checker, within these limits.

    Raises:
        BadConfig: when the program is not built.
        BadFile: for a file that it cannot read, or a certificate or network that its theorem is not about.
    """
    command, began = [str(program()), certificate_path, model_path], time.monotonic()

    def limit() -> None:
        import contextlib
        import resource

        for kind, most in ((resource.RLIMIT_AS, max_bytes), (resource.RLIMIT_STACK, min(STACK_BYTES, max_bytes // 2))):
            hard = resource.getrlimit(kind)[1]
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))

    try:
        done = subprocess.run(
            command, capture_output=True, timeout=max_seconds, preexec_fn=limit, stdin=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        late = f"not verified within {max_seconds:g} seconds"
        return CheckReport("TIMEOUT", late, time.monotonic() - began, checker="proved")
    *read, last = done.stdout.decode("utf-8", "replace").splitlines() or [""]
    facts = dict(line.split(": ", 1) for line in read if ": " in line)
    seconds, sha256 = time.monotonic() - began, facts.get("model SHA-256")
    verdict, _, reason = last.partition(": ")
    if verdict == "VERIFIED" and (problem := name_problem(certificate_path, model_path)):
        return CheckReport("REJECTED", problem, seconds, sha256, checker="proved")
    if verdict == "VERIFIED" and done.returncode in (0, 1):
        inputs, certified = int(facts["inputs"]), int(facts["certified"])
        claims = {"inputs": inputs, "certified_inputs": certified, "margin": facts["margin"]}
        words = statement(facts["task"], certified, inputs)
        return CheckReport("VERIFIED", REASON, seconds, sha256, words, claims, float32=FLOAT32, checker="proved")
    if verdict == "REJECTED" and done.returncode == 1:
        return CheckReport("REJECTED", reason, seconds, sha256, checker="proved")
    if done.returncode == 2 and verdict in ("BAD", "OUTSIDE"):
        fix = "check with proved=False" if verdict == "OUTSIDE" else "give a certificate and the model it is about"
        raise BadFile(f"{reason}; {fix}")
    ended = f"the check ended without a verdict, perhaps for more than {max_bytes} bytes"
    return CheckReport("REJECTED", ended, seconds, sha256, checker="proved")


def name_problem(certificate_path: str, model_path: str) -> str | None:
    """Why a task is not what it is called: the theorem is about the table in the file, whatever its name.

    Groups are not in the proved checker, so that their names are looked at as the Python checker does it.
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
    'For all 9 inputs the logit of the right answer (task: add) exceeds that of every other by at least the margin.'
    """
    which = f"all {inputs} inputs" if certified == inputs else f"{certified} of {inputs} inputs (all but those listed)"
    right = f"the right answer (task: {task})"
    return f"For {which} the logit of {right} exceeds that of every other by at least the margin."
