"""Exit codes of the real program: the verdict's own when nobody reads on, 130 after Ctrl-C, never a
stack trace.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quadlens.network import Recipe, build_transformer, save

pytestmark = pytest.mark.slow

PROGRAM = [sys.executable, "-m", "quadlens"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`good.safetensors` is certified, `bad.safetensors` is not."""
    folder = tmp_path_factory.mktemp("models")
    good = build_transformer(Recipe(11, (1, 2, 3), 48))
    save(good, folder / "good.safetensors")
    save(build_transformer(Recipe(11, (1,), 6, noise=2.0)), folder / "bad.safetensors")
    return folder


def reader_leaves(*words: str, stream: str = "stdout") -> tuple[int, str]:
    """Return exit code and other stream when the reader is gone before the first byte."""
    process = subprocess.Popen(
        [*PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    gone, other = (
        (process.stdout, process.stderr) if stream == "stdout" else (process.stderr, process.stdout)
    )
    if gone is None or other is None:
        raise RuntimeError("no pipe")
    gone.close()
    text = other.read()
    other.close()
    return process.wait(), text


@pytest.mark.parametrize("more", [[], ["--json"]])
@pytest.mark.parametrize(("model", "code"), [("good", 0), ("bad", 1)])
def test_the_verdict_is_the_exit_code_when_nobody_reads(
    models: Path, model: str, code: int, more: list[str]
) -> None:
    path = str(models / f"{model}.safetensors")
    assert reader_leaves("certify", path, "--quiet", *more) == (code, "")
    assert reader_leaves("certify", path, *more)[0] == code
    assert reader_leaves("certify", path, *more, stream="stderr")[0] == code


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["explain", "pizza"], ["population", "--markdown"]]
)
def test_reading_only_the_first_line_is_no_failure(words: list[str]) -> None:
    code, errors = reader_leaves(*words)
    assert (code, "Traceback" in errors) == (0, False), errors


def test_first_line_through_a_shell(models: Path) -> None:
    command = f"{sys.executable} -m quadlens certify {models / 'good.safetensors'}"
    words = f"{command} 2>&1 | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0"
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("words", ["explain", "bounds", "compare", "check"])
def test_a_stream_of_ascii_alone_is_no_failure(models: Path, words: str, tmp_path: Path) -> None:
    """φ, ≥ and the like are escaped where the stream cannot hold them."""
    model, proof = str(models / "good.safetensors"), str(tmp_path / "proof.json")
    assert (
        subprocess.run(
            [*PROGRAM, "certify", model, "-o", proof, "-q"], capture_output=True, check=False
        ).returncode
        == 0
    )
    more = {
        "compare": [model],
        "ablate": ["--keep", "abs", "-o", str(tmp_path / "a")],
    }
    line = (
        [*PROGRAM, "check", proof, model]
        if words == "check"
        else [*PROGRAM, words, model, *more.get(words, [])]
    )
    alone = [sys.executable, "-m", "quadlens_checker", proof, model]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii:strict", "PYTHONUTF8": "0"}
    for one in (line, alone) if words == "check" else (line,):
        done = subprocess.run(one, capture_output=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        assert (done.stdout + done.stderr).isascii()


def test_closed_stdout_is_no_failure(models: Path) -> None:
    words = f"{sys.executable} -m quadlens certify {models / 'good.safetensors'} --json >&-"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


def test_an_interrupt_while_libraries_load_is_not_a_stack_trace(tmp_path: Path) -> None:
    """A library that never ends loading stands for the first tenth of a second, in which all of
    them load.
    """
    (tmp_path / "typer.py").write_text(
        "import sys, time\nsys.stdout.write('loading\\n')\nsys.stdout.flush()\ntime.sleep(60)"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [*PROGRAM, "evaluate"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    if process.stdout is None:
        raise RuntimeError("no pipe")
    assert process.stdout.readline() == "loading\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (130, "stopped\n")


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.5])
def test_an_interrupt_at_work_is_said_in_one_word(delay: float) -> None:
    process = subprocess.Popen(
        [*PROGRAM, "certify", "original", "--strategy", "brute"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    if process.stderr is None:
        raise RuntimeError("no pipe")
    assert process.stderr.readline().startswith("proving")
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (130, "stopped\n")


@pytest.mark.parametrize(
    "words", [["--seed", "0", "-o", "m.safetensors"], ["--seeds", "0:2", "-o", "many"]]
)
def test_training_ends_with_130_after_an_interrupt(tmp_path: Path, words: list[str]) -> None:
    pytest.importorskip("torch", reason="training needs the extra 'train'")
    process = subprocess.Popen(
        [
            *PROGRAM,
            "train",
            "--p",
            "13",
            "--d-mlp",
            "32",
            "--epochs",
            "1000000",
            "--checkpoint-every",
            "50",
            *words,
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
    )
    while not list(tmp_path.rglob("*.checkpoint")):
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert "stopped" in errors
