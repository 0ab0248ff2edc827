"""Where commands write: never into the package, all or nothing, and what killed writers left is
cleared.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_runner import quadlens, refused
from quadlens.base.atomic import (
    TEMPORARY,
    check_directory,
    check_writable,
    clear_left_over,
    make_directory,
    write_all_atomic,
    write_atomic,
)
from quadlens.base.errors import BadFile
from quadlens.network.bundled import data_directory

TINY = (
    "--p",
    "5",
    "--d-model",
    "8",
    "--d-mlp",
    "8",
    "--n-heads",
    "1",
    "--d-head",
    "4",
    "--epochs",
    "2",
    "--threads",
    "1",
)
# Every command that writes, and what it is given for -o: a file of this suffix, or a directory.
WRITING = {
    "report": (("report", "pizza", "--no-proofs"), ""),
    "explore": (("explore", "pizza"), ".html"),
    "explain": (("explain", "pizza", "--neurons"), ".csv"),
    "certify": (("certify", "pizza"), ".json"),
    "certify --all": (("certify", "pizza", "--all"), ""),
    "train": (("train", *TINY), ".safetensors"),
    "train --resume": (("train", *TINY, "--resume"), ".safetensors"),
    "train --seeds": (("train", *TINY[:-2], "--seeds", "0:1"), ""),
    "history": (("history", "pizza"), ".parquet"),
    "sweep": (("sweep", *TINY[:-2], "--seeds", "0:1"), ""),
    "population": (("population", "--figures"), ""),
    "ablate": (("ablate", "pizza", "--frequencies", "5"), ".safetensors"),
    "build": (("build", "--p", "5", "--keys", "1", "--neurons", "8"), ".safetensors"),
    "export": (("export", "pizza", "--format", "transformer-lens"), ".safetensors"),
    "report --only": (("report", "pizza", "--only", "quadrature", "--format", "svg"), ""),
}


def package_files() -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in data_directory().rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("name", WRITING)
def test_no_command_writes_into_the_package(name: str) -> None:
    words, suffix = WRITING[name]
    before = package_files()
    target = data_directory() / f"pizza{suffix}" if suffix else data_directory() / "new"
    flag = () if words[-1] in ("--neurons", "--figures") else ("-o",)
    refused(quadlens(*words, *flag, target), "inside the package quadlens, which is not changed")
    assert package_files() == before
    assert not (data_directory() / "new").exists()


def test_import_does_not_write_into_the_package(tmp_path: Path) -> None:
    assert (
        quadlens(
            "export", "pizza", "--format", "transformer-lens", "-o", tmp_path / "m.safetensors"
        ).code
        == 0
    )
    before = package_files()
    for source, target in ((tmp_path / "m.safetensors", "pizza.safetensors"), (tmp_path, "new")):
        refused(
            quadlens("import", source, "-o", data_directory() / target),
            "inside the package quadlens",
        )
    assert package_files() == before


def test_every_way_to_write_refuses_the_package_also_behind_a_link(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(data_directory())
    ways: list[Callable[[Path], object]] = [
        check_writable,
        check_directory,
        make_directory,
        lambda path: write_atomic(path, b""),
        lambda path: write_all_atomic({tmp_path / "first": b"", path: b""}),
    ]
    for write in ways:
        for place in (data_directory() / "new", link / "new", data_directory().parent / "new"):
            with pytest.raises(BadFile, match="inside the package"):
                write(place)
    assert list(tmp_path.iterdir()) == [link]


# Every command that writes and is given a file: what it is given before -o, and of what name the
# file is.
READING = {
    "report --only": (
        ("report", "m.safetensors", "--only", "quadrature", "--format", "svg", "-o"),
        "m.safetensors",
    ),
    "explore": (("explore", "m.safetensors", "-o"), "m.safetensors"),
    "explain": (("explain", "m.csv", "--neurons"), "m.csv"),
    "certify": (("certify", "m.safetensors", "-o"), "m.safetensors"),
    "history": (("history", "m.csv", "-o"), "m.csv"),
    "ablate": (("ablate", "m.safetensors", "--share", "0.1", "-o"), "m.safetensors"),
    "build": (("build", "--from", "m.safetensors", "-o"), "m.safetensors"),
    "export": (("export", "m.safetensors", "--format", "quadlens", "-o"), "m.safetensors"),
    "import": (("import", "m.safetensors", "-o"), "m.safetensors"),
    "import --config": (("import", "m.safetensors", "--config", "c.cfg", "-o"), "c.cfg"),
    "import --answers": (("import", "m.safetensors", "--answers", "t.csv", "-o"), "t.csv"),
    "train --config": (("train", *TINY, "--config", "t.toml", "-o"), "t.toml"),
}
DIRECTORIES = {
    "report",
    "certify --all",
    "sweep",
    "population",
    "train",
    "train --resume",
    "train --seeds",
}


def test_every_command_that_writes_is_looked_at() -> None:
    assert READING.keys() | DIRECTORIES >= WRITING.keys()


@pytest.mark.parametrize("link", ["", "symlink_to", "hardlink_to"])
@pytest.mark.parametrize("name", READING)
def test_no_command_replaces_a_file_that_it_is_given(
    name: str, link: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words, given = READING[name]
    built = quadlens("build", "--p", "5", "--keys", "1", "--neurons", "8", "-o", "m.safetensors")
    assert built.code == 0
    Path("m.csv").write_bytes(Path("m.safetensors").read_bytes())
    Path("c.cfg").write_text("{}")
    Path("t.csv").write_text(
        "\n".join(",".join(str((a + b) % 5) for b in range(5)) for a in range(5))
    )
    Path("t.toml").write_text("epochs = 2\n")
    output = Path(given)
    if name == "report --only":  # a directory, in which the one figure is the model
        figures = quadlens(*words, "figures").out.split()
        assert figures
        Path(figures[0]).unlink()
        Path(figures[0]).hardlink_to(given)
        output = Path("figures")
    elif link:
        output = Path(f"link{output.suffix}")
        getattr(output, link)(given)
    before = {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    run = quadlens(*words, output)
    assert run.code == 2, run
    assert f"cannot write {output}" in run.err, run.err
    assert run.out == ""
    assert {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before


def test_what_is_read_beside_a_model_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run that an explorer plays, and a report inside the directory that a new one would
    replace.
    """
    monkeypatch.chdir(tmp_path)
    assert quadlens("train", *TINY, "--snapshots", "2", "-o", "m.safetensors").code == 0
    assert quadlens("history", "m.safetensors", "--no-proofs", "-o", "m.run").code == 0
    shutil.rmtree("m.snapshots")
    played = Path("m.run").read_bytes()
    refused(
        quadlens("explore", "m.safetensors", "-q", "-o", "m.run"),
        "cannot write m.run: it is m.run, an input",
    )
    assert Path("m.run").read_bytes() == played
    assert quadlens("report", "m.safetensors", "--no-proofs", "-o", "made").code == 0
    Path("m.safetensors").rename("made/m.safetensors")
    refused(
        quadlens("report", "made/m.safetensors", "-q", "--no-proofs", "-o", "made"),
        "it holds made/m.safetensors",
    )
    assert Path("made/m.safetensors").is_file()


def test_continuing_replaces_what_it_has_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert quadlens("train", *TINY, "-o", "m.safetensors").code == 0
    longer = [word if word != "2" else "4" for word in TINY]
    assert quadlens("train", *longer, "--resume", "-o", "m.safetensors").code == 0
    for _ in range(2):
        assert (
            quadlens("sweep", *TINY[:-2], "--seeds", "0:1", "--processes", "1", "-o", "sweep").code
            == 0
        )


def test_python_replaces_no_file_that_it_was_given(tmp_path: Path) -> None:
    import quadlens as package

    path = package.save(package.build(5, (1,), 8), tmp_path / "m.safetensors")
    (link := tmp_path / "link").hardlink_to(path)
    before = path.read_bytes()
    ways: list[Callable[..., object]] = [
        package.save,
        package.explore,
        lambda model, output: package.export_file(model, "quadlens", output),
        lambda model, output: package.report(model, output.parent, proofs=False),
    ]
    for write in ways:
        for model in (path, str(path), package.study(path)):
            for output in (path, link):
                with pytest.raises(
                    package.QuadlensError, match=r"cannot write|replaces its directory"
                ):
                    write(model, output)
    assert path.read_bytes() == before
    package.save(package.edit.ablate(path, share=0.1), path)  # an edited model is another one


KILLED = """
import os, signal, sys
from pathlib import Path
from quadlens.base import atomic
def die(*words):
    os.kill(os.getpid(), signal.SIGKILL)
os.replace = os.fsync = die
atomic.write_atomic(Path(sys.argv[1]), b"half")
"""


def left_over(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir() if path.name.endswith(TEMPORARY)]


@pytest.mark.skipif(sys.platform == "win32", reason="nothing can be held there")
def test_what_a_killed_writer_left_is_cleared_by_the_next_and_what_a_living_one_holds_is_not(
    tmp_path: Path,
) -> None:
    target = tmp_path / "out.json"
    subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
    assert len(left_over(tmp_path)) == 1
    # Another, in the middle of writing, clears what the first left, and its own stays.
    code = KILLED.replace(
        "os.kill(os.getpid(), signal.SIGKILL)", "print('here', flush=True); signal.pause()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE, text=True
    ) as living:
        assert living.stdout is not None
        assert living.stdout.readline() == "here\n"
        (held,) = left_over(tmp_path)
        write_atomic(target, b"whole")
        assert left_over(tmp_path) == [held]
        living.kill()
    write_atomic(target, b"again")
    assert left_over(tmp_path) == []
    assert target.read_bytes() == b"again"


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [("certify", "--all", "-o"), ("report", "--only", "quadrature", "--format", "svg,png", "-o")],
)
def test_a_disk_that_fills_leaves_all_files_or_none(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third write of a temporary file finds no space."""
    model, real, count = tmp_path / "m.safetensors", os.fsync, 0
    assert quadlens("build", "--p", "7", "--keys", "1,2", "--neurons", "24", "-o", model).code == 0

    def full(descriptor: int) -> None:
        nonlocal count
        count += 1
        if count == 3:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    refused(
        quadlens(words[0], model, *words[1:], tmp_path / "out", "-q"), "No space left on device"
    )
    assert count == 3
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


def test_a_probe_that_another_run_cleared_was_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made_and_cleared(**words: str) -> str:
        path = mkdtemp(**words)
        clear_left_over(tmp_path)
        assert not Path(path).exists()
        return path

    mkdtemp = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", made_and_cleared)
    check_directory(tmp_path)


@pytest.mark.slow
def test_train_clears_what_killed_runs_left_even_where_nothing_is_left_to_train(
    tmp_path: Path,
) -> None:
    words = ("train", *TINY, "--snapshots", "3", "-q", "-o", str(tmp_path / "m.safetensors"))
    quadlens(*words)
    for place in (tmp_path, tmp_path / "m.snapshots"):
        (place / f".m.safetensors.one{TEMPORARY}").touch()
        (place / f".m.manifest.json.two{TEMPORARY}").touch()
    quadlens(*words, "--resume")
    assert left_over(tmp_path) == left_over(tmp_path / "m.snapshots") == []
