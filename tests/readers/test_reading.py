"""One reader of files, JSON and TOML.

What is too deep, too long or no file at all is refused in a sentence.
"""

import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadlens as package
from cli.test_no_internal_error import problem
from cli_runner import quadlens
from hostile import attacked, sparse
from quadlens.base.errors import BadConfig, BadFile
from quadlens.base.reading import MAX_DEPTH, MAX_DIGITS, parse_json, parse_toml, read_limited
from quadlens.network import Recipe
from quadlens.network.config import Config
from quadlens.network.native import save
from quadlens.network.task import task_from_file
from quadlens.training.config import TrainConfig, load_config
from quadlens.training.played_run import read_run
from readers.test_formats import M, P, random
from torch_zips import torch_zip

DEEP_JSON = ("[" * 40 + "]" * 40, "[" * 100_000, '{"a":' * 900 + "1" + "}" * 900)
DEEP_TOML = (
    "p = " + "[" * 40 + "]" * 40,
    "p = " + "[" * 100_000,
    "p" + ".p" * 900 + " = 1",
    "p = " + "{p=" * 3000,
)


@pytest.mark.parametrize("text", DEEP_JSON)
def test_json_that_is_too_deep(text: str) -> None:
    with pytest.raises(BadFile, match="it is not JSON: values "):
        parse_json(text, "it")


@pytest.mark.parametrize("text", DEEP_TOML)
def test_toml_that_is_too_deep(text: str) -> None:
    with pytest.raises(BadFile, match="it is not TOML: "):
        parse_toml(text, "it")


def test_what_is_deep_enough_is_read() -> None:
    deepest = "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)
    assert json.dumps(parse_json(deepest, "it")) == deepest
    assert parse_json("9" * MAX_DIGITS, "it") == int("9" * MAX_DIGITS)
    assert parse_toml("x = 9_000\ny = 1.5e3", "it") == {"x": 9000, "y": 1500.0}
    assert parse_json('{"a": 1, "a": NaN}', "it").keys() == {"a"}


@pytest.mark.parametrize("digits", ["9" * 5000, "1." + "9" * 5000, "1e" + "9" * 5000])
def test_numbers_that_are_too_long(digits: str) -> None:
    with pytest.raises(BadFile, match="is not JSON: a number of 5"):
        parse_json(f'{{"p": {digits}}}', "it")
    with pytest.raises(BadFile, match="is not TOML: "):
        parse_toml(f"p = {digits}", "it")


def test_strict_json_has_one_meaning() -> None:
    for text, message in (
        ('{"a": 1, "a": 2}', "the key 'a' twice"),
        ("[NaN]", "NaN is not JSON"),
        ("[1e999]", "the number 1e999 is too large"),
    ):
        with pytest.raises(BadFile, match=message):
            parse_json(text, "it", strict=True)


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(BadFile, match="is empty; get the file again"):
        read_limited(tmp_path / "empty", 10)
    assert read_limited(tmp_path / "empty", 10, may_be_empty=True) == b""
    with pytest.raises(BadFile, match="cannot read"):
        read_limited(Path("a\0b"), 10)


@pytest.mark.parametrize("p", [2_000_001, 10**30])
def test_sizes_are_limited_before_anything_is_allocated(p: int) -> None:
    for make in (
        lambda: Config.paper(p),
        lambda: Config.mlp(p, 1),
        lambda: TrainConfig(p=p),
        lambda: TrainConfig(p=p, architecture="mlp"),
        lambda: Recipe(p if p % 2 else p + 1, (1,), 12),
    ):
        with pytest.raises(
            BadConfig, match=r"p = \d+ is too large; expected at most 16384 elements"
        ):
            make()
    with pytest.raises(BadConfig, match=r"the model would have \d+ weights; expected at most"):
        TrainConfig(d_mlp=p, architecture="mlp", p=10_007)
    with pytest.raises(BadConfig, match=r"the model would have \d+ weights; expected at most"):
        TrainConfig(d_model=p)


def npy(header: bytes, numbers: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + numbers


HUGE = b"{'descr': '<i8', 'fortran_order': False, 'shape': (900000000, 900000000), }\n"
TABLES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "fifo": (os.mkfifo, "it is not a regular file"),
    "zero": (lambda path: path.symlink_to("/dev/zero"), "it is not a regular file"),
    "sparse": (sparse, "has 8589934592 bytes; at most 33558528 are read"),
    "header": (
        lambda path: path.write_bytes(npy(HUGE)),
        "0 bytes of numbers, but its header says shape (900000000, ",
    ),
    "nested": (
        lambda path: path.write_bytes(npy(b"{'descr': " + b"(" * 4000)),
        "not one that numpy.save writes",
    ),
    "objects": (
        lambda path: path.write_bytes(
            npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (2, 2), }\n")
        ),
        "not one that numpy.save writes",
    ),
    "short": (lambda path: path.write_bytes(b"\x93NUMPY\x01"), "not one that numpy.save writes"),
    "empty": (lambda path: path.touch(), "is empty"),
    "row": (
        lambda path: path.write_bytes(b"0," * (1 << 24)),
        "more than 2048 answers in its first row",
    ),
    "digits": (lambda path: path.write_bytes(b"9" * (1 << 24)), "is not a table of integers"),
}


@pytest.mark.parametrize("suffix", [".npy", ".csv"])
@pytest.mark.parametrize("name", TABLES)
def test_tables_made_to_hang_or_bloat(tmp_path: Path, name: str, suffix: str) -> None:
    make, message = TABLES[name]
    make(tmp_path / f"table{suffix}")
    told = (
        message
        if (suffix == ".npy") == (name not in ("row", "digits"))
        or name in ("fifo", "zero", "sparse", "empty")
        else ""
    )
    with pytest.raises((BadFile, BadConfig)) as refused:
        task_from_file(tmp_path / f"table{suffix}")
    assert told in str(refused.value)
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize("name", ["fifo", "zero", "header", "nested"])
def test_answers_and_tasks_made_to_hang_or_bloat(tmp_path: Path, name: str) -> None:
    """At the command line, where a table is `--answers FILE` and `--task FILE`."""
    TABLES[name][0](tmp_path / "table.npy")
    state = {"fc1.weight": random(M, 2 * P), "fc2.weight": random(P, M)}
    (tmp_path / "m.pt").write_bytes(torch_zip(state))
    out = ("-o", tmp_path / "x.safetensors")
    for words in (
        (
            "import",
            tmp_path / "m.pt",
            "--activation",
            "relu",
            "--answers",
            tmp_path / "table.npy",
            *out,
        ),
        ("train", "--task", tmp_path / "table.npy", "--epochs", "1", *out),
    ):
        run = quadlens(*words)
        assert run.code == 2, run
        assert problem(run) is None
        assert TABLES[name][1].split(",")[0] in " ".join(run.err.split())


@pytest.mark.slow
def test_a_table_without_end_takes_no_memory(tmp_path: Path) -> None:
    for name, message in (
        ("zero", "it is not a regular file"),
        ("header", "its header says shape"),
        ("sparse", "at most"),
    ):
        path = tmp_path / f"{name}.npy"
        TABLES[name][0](path)
        outcome = attacked(path, "task")
        assert message in outcome["said"], outcome
        assert outcome["seconds"] < 5
        assert outcome["megabytes"] < 30


SETTINGS = {
    "nested": "p = " + "[" * 40 + "]" * 40,
    "very nested": "p = " + "[" * 100_000,
    "dotted": "p" + ".p" * 900 + " = 1",
    "digits": "p = " + "9" * 5000,
    "more digits": "lr = 1." + "9" * 5000,
    "large": "p = 2000001",
    "larger": "p = 9223372036854775807",
    "wide": "d_mlp = 9223372036854775807",
    "infinite": "lr = inf",
    "date": "p = 1979-05-27T07:32:00Z",
    "bytes": "\udcff",
    "empty": "",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_never_end_in_an_internal_error(tmp_path: Path, name: str) -> None:
    text = SETTINGS[name]
    (tmp_path / "run.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    if name == "empty":
        assert load_config(file=tmp_path / "run.toml") == load_config()
        return
    out = ("-o", tmp_path / "x.safetensors", "--epochs", "1")
    value = text.replace(" ", "", 2).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    for words in (
        ("train", "--config", tmp_path / "run.toml", *out),
        ("train", "--set", value, *out),
    ):
        run = quadlens(*words)
        assert run.code == 2, (words[1], run)
        assert problem(run) is None
        assert len(run.err) < 3000


def odd_run(change: Callable[[dict[str, Any]], Any]) -> bytes:
    """The bundled run of `pizza`, its header changed."""
    content = zlib.decompress((Path(package.__file__).parent / "data" / "pizza.run").read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    changed = change(header)
    text = (changed if isinstance(changed, str) else json.dumps(header)).encode()
    return zlib.compress(len(text).to_bytes(8, "little") + text + content[start:])


HEADERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "nested": lambda h: "[" * 5000,
    "deep": lambda h: h.update(name=json.loads("[" * 200 + "]" * 200)),
    "infinite p": lambda h: h.update(p=float("inf")),
    "huge p": lambda h: h.update(p=10**300),
    "text p": lambda h: h.update(p="59"),
    "fraction of p": lambda h: h.update(p=59.0),
    "NaN epoch": lambda h: h["weights"][3].update(epoch=float("nan")),
    "text epoch": lambda h: h["weights"][3].update(epoch="7"),
    "text epoch in a row": lambda h: h["history"]["snapshots"][3].update(epoch="7"),
    "epochs backwards": lambda h: h["weights"].reverse(),
    "steps": lambda h: h["weights"][0].update(steps=[1.0]),
    "huge step": lambda h: h["weights"][0]["steps"].__setitem__(0, 10**400),
    "loss in words": lambda h: h["history"]["snapshots"][0].update(train_loss="small"),
    "unknown key": lambda h: h["history"]["snapshots"][0].update(more=1),
    "frequencies": lambda h: h["history"]["snapshots"][0].update(frequencies={}),
    "frequencies in a list": lambda h: h["history"]["snapshots"][0].update(frequencies=[1.0]),
    "key": lambda h: h["history"].update(key_frequencies=[5, 9, 10**9]),
    "digits": lambda h: json.dumps(h).replace('"p": 59', '"p": ' + "9" * 5000),
    "list": lambda h: "[]",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HEADERS)
def test_run_files_with_odd_headers(tmp_path: Path, name: str) -> None:
    package.save("pizza", tmp_path / "m.safetensors")
    (tmp_path / "m.run").write_bytes(odd_run(HEADERS[name]))
    with pytest.raises(BadFile, match=r"is not a run to be played \("):
        read_run(tmp_path / "m.run")
    for words in (
        ("history", tmp_path / "m.safetensors"),
        ("explore", tmp_path / "m.safetensors", "-o", tmp_path / "x"),
    ):
        run = quadlens(*words)
        assert run.code == 2
        assert problem(run) is None
        assert len(run.err) < 1000


def test_a_run_file_that_is_not_odd(tmp_path: Path) -> None:
    (tmp_path / "m.run").write_bytes(odd_run(lambda h: None))
    assert read_run(tmp_path / "m.run").history.keys == (5, 9, 11)


def test_a_run_file_with_more_behind_its_end(tmp_path: Path) -> None:
    """Of which a browser would play nothing."""
    (tmp_path / "m.run").write_bytes(odd_run(lambda h: None) + b"more")
    with pytest.raises(
        BadFile, match=r"is not a run to be played \(something lies behind its end\)"
    ):
        read_run(tmp_path / "m.run")


def test_snapshots_of_another_modulus(tmp_path: Path) -> None:
    from quadlens.training.outputs import RunFiles, save_snapshot

    pytest.importorskip("torch")
    model = tmp_path / "m.safetensors"
    words = (
        "train",
        "--epochs",
        "2",
        "--set",
        "d_model=8",
        "--set",
        "d_mlp=16",
        "--snapshots",
        "2",
        "-o",
        model,
    )
    assert quadlens(*words, "--p", "5").code == 0
    directory = RunFiles(model).snapshots
    save_snapshot(package.build(p=7, keys=(1, 2), neurons=12), directory, 1)
    run = quadlens("history", model)
    assert run.code == 2
    assert problem(run) is None
    assert (
        "is a model of 7 elements, and the last one has 5; keep one run per directory"
        in " ".join(run.err.split())
    )
    for file in directory.iterdir():
        file.unlink()
    save_snapshot(package.build(p=7, keys=(1, 2), neurons=12), directory, 1)
    run = quadlens("history", model)
    assert run.code == 2
    assert problem(run) is None
    assert "is of a run with p = 5, but the snapshots beside it have p = 7" in " ".join(
        run.err.split()
    )


@pytest.mark.parametrize("text", [*DEEP_JSON, '{"p": ' + "9" * 5000 + "}", "", "[1]", '"x"', "NaN"])
def test_manifests_and_configs_never_end_in_an_internal_error(tmp_path: Path, text: str) -> None:
    from quadlens.training.outputs import RunFiles, save_snapshot

    model, built = tmp_path / "m.safetensors", package.build(p=7, keys=(1, 2), neurons=12)
    save(built, model)
    RunFiles(model).snapshots.mkdir()
    save_snapshot(built, RunFiles(model).snapshots, 1)
    RunFiles(model).manifest.write_text(text)
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "manifest.json").write_text(text)
    (tmp_path / "model_1.pt").write_bytes(
        torch_zip({"fc1.weight": random(M, 2 * P), "fc2.weight": random(P, M)})
    )
    (tmp_path / "config_1.json").write_text(text)
    for words in (
        ("history", model),
        ("train", "--resume", "--epochs", "1", "-o", model),
        ("report", model, "-o", tmp_path / "report"),
        ("import", tmp_path / "model_1.pt", "-o", tmp_path / "x.safetensors"),
    ):
        run = quadlens(*words)
        assert run.code == 2, (words[0], run)
        assert problem(run) is None
        assert len(run.err) < 3000


@pytest.mark.parametrize("text", DEEP_JSON)
def test_metadata_that_is_nested(tmp_path: Path, text: str) -> None:
    from safetensors.numpy import save as to_safetensors

    from quadlens.training.checkpoint import load_checkpoint

    file = tmp_path / "m.safetensors"
    for key, words in (
        ("quadlens", ("evaluate", file)),
        ("run_config", ("import", file, "-o", tmp_path / "o")),
    ):
        file.write_bytes(to_safetensors({"x": np.zeros(1)}, {key: text}))
        run = quadlens(*words)
        assert run.code == 2, run
        assert problem(run) is None
    file.write_bytes(to_safetensors({"x": np.zeros(1)}, {"quadlens_checkpoint": text}))
    with pytest.raises(
        BadFile, match=r"is not a training checkpoint \(its metadata is not JSON: values"
    ):
        load_checkpoint(file)
