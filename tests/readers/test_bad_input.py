"""Bad input at the command line.

Exit code 2, one clear message, nothing written, nothing executed.
"""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli_runner import quadlens, refused
from quadlens.network import Recipe, build_transformer, save
from quadlens.network.native import to_bytes
from readers.test_formats import blind, edited, nanda_state_dict, random, tl_state_dict
from readers.test_torch_files import Canary, _zip_of
from torch_zips import torch_zip

OUTPUT = "out.safetensors"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def model_bytes() -> bytes:
    return to_bytes(build_transformer(Recipe(7, (1, 2), 12)))


def flipped(content: bytes) -> bytes:
    damaged = bytearray(content)
    damaged[-5] ^= 4
    return bytes(damaged)


def torch_file(tensors: dict[str, Any]) -> bytes:
    return torch_zip(tensors)


NAN, INFINITE = random(6, 9), random(6, 9)
NAN[1, 2], INFINITE[0, 0] = np.nan, -np.inf

HALF = ("--attention", "0.5,0.5", "--activation", "relu")
OWN = ("--attention", "softmax", "--activation", "relu")

NANDA = torch_file(nanda_state_dict(8, 3))
READING: list[tuple[str, bytes, str]] = [
    ("empty", b"", "is empty; get the file again"),
    ("truncated", model_bytes()[:-7], "is not a readable safetensors file (cut or damaged)"),
    (
        "bit-flipped",
        flipped(model_bytes()),
        "is damaged: its weights or config do not match its checksum",
    ),
    (
        "text",
        b"hello, world, this is no model",
        "is not a readable safetensors file (cut or damaged)",
    ),
    (
        "torch",
        torch_file(tl_state_dict()),
        "is a PyTorch file, not a safetensors file; read other people's",
    ),
]


@pytest.mark.parametrize("command", ["evaluate", "explain"])
@pytest.mark.parametrize(
    ("name", "content", "message"), READING, ids=[name for name, *_ in READING]
)
def test_files_that_are_no_models(
    folder: Path, command: str, name: str, content: bytes, message: str
) -> None:
    (folder / "bad.safetensors").write_bytes(content)
    refused(quadlens(command, "bad.safetensors"), message)


IMPORTS: list[tuple[str, bytes, tuple[str, ...], str]] = [
    (
        "truncated zip",
        torch_file(tl_state_dict())[:-40],
        (),
        "is cut or damaged: its zip cannot be read",
    ),
    (
        "flipped zip",
        torch_file(tl_state_dict()).replace(b"embed.W_E", b"embed.W_F"),
        (),
        "is cut or damaged",
    ),
    (
        "flipped safetensors",
        flipped(model_bytes()),
        (),
        "is damaged: its weights or config do not match",
    ),
    (
        "nan",
        torch_file(edited({"blocks.0.mlp.W_in": NAN})),
        HALF,
        "W_in[1, 2] is nan, expected finite",
    ),
    (
        "inf",
        torch_file(edited({"blocks.0.mlp.W_in": INFINITE})),
        HALF,
        "W_in[0, 0] is -inf, expected",
    ),
    (
        "wrong shape",
        torch_file(edited({"blocks.0.mlp.W_out": random(9, 5)})),
        HALF,
        "W_out has shape (9, 5), expected (9, 6)",
    ),
    (
        "unknown key",
        torch_file(edited({"blocks.0.mlp.W_gate": random(6, 9)})),
        HALF,
        "unknown tensors: blocks.0.mlp.W_gate",
    ),
    (
        "p",
        torch_file(tl_state_dict()),
        (*HALF, "--p", "9"),
        "d_vocab = 8 is less than the 9 tokens used",
    ),
    ("task", NANDA, (*OWN, "--task", "S5"), "the group S5 has 120 elements"),
    ("no task", NANDA, (*OWN, "--task", "chess"), "chess"),
    ("table", NANDA, (*OWN, "--answers", "absent.csv"), "cannot read absent.csv"),
    (
        "activation",
        torch_file(tl_state_dict()),
        ("--attention", "0.5,0.5", "--activation", "gelu_new"),
        "activation 'gelu_new' is not supported; expected one of relu, abs, square",
    ),
    (
        "another model",
        torch_file(tl_state_dict()),
        HALF,
        "by the setting attention, but by the checkpoint's own W_Q and W_K head ",
    ),
    (
        "no activation",
        torch_file(tl_state_dict()),
        HALF[:2],
        "give --activation NAME (relu, abs, square, ",
    ),
    (
        "no attention",
        torch_file(tl_state_dict()),
        HALF[2:],
        "do not say the attention: it is not in the weights",
    ),
    (
        "attention flag",
        torch_file(tl_state_dict()),
        ("--attention", "half"),
        "attention 'half' is not understood",
    ),
    ("no format", torch_file({"hello": random(2)}), (), "is in no known format"),
    (
        "unknown format",
        torch_file(tl_state_dict()),
        ("--format", "word"),
        "format 'word' is not known",
    ),
    (
        "config",
        torch_file(tl_state_dict()),
        ("--config", "absent.json"),
        "cannot read the config absent.json",
    ),
]


@pytest.mark.parametrize(
    ("name", "content", "flags", "message"), IMPORTS, ids=[name for name, *_ in IMPORTS]
)
def test_checkpoints_that_cannot_be_read(
    folder: Path, name: str, content: bytes, flags: tuple[str, ...], message: str
) -> None:
    (folder / "bad.pt").write_bytes(content)
    refused(quadlens("import", "bad.pt", *flags, "-o", OUTPUT), message)
    assert os.listdir(folder) == ["bad.pt"]


@pytest.mark.parametrize(
    "wrap", [_zip_of, lambda content: content], ids=["in a torch file", "bare"]
)
@pytest.mark.parametrize("flags", [(), ("--format", "gbmi"), ("--debug",)])
def test_a_pickle_that_would_run_code(
    folder: Path, wrap: Callable[[bytes], bytes], flags: tuple[str, ...]
) -> None:
    canary = folder / "canary"
    value = {"model": {"W": Canary(os.mkdir, str(canary))}, "run_config": {}}
    (folder / "bad.pt").write_bytes(wrap(pickle.dumps(value, 2)))
    if "--debug" in flags:
        with pytest.raises(Exception, match="would run code"):
            quadlens("import", "bad.pt", *flags, "-o", OUTPUT)
    else:
        refused(
            quadlens("import", "bad.pt", *flags, "-o", OUTPUT),
            "bad.pt is a pickle that would run code: it asks for posix.mkdir",
        )
    assert not canary.exists()
    assert os.listdir(folder) == ["bad.pt"]


def test_builds_that_make_no_sense(folder: Path) -> None:
    refused(
        quadlens("build", "--p", "58", "-o", OUTPUT),
        "p = 58 is not supported; expected an odd modulus",
    )
    refused(
        quadlens("build", "--keys", "three", "-o", OUTPUT),
        "--keys 'three' is not a list of integers",
    )
    refused(
        quadlens("build", "--keys", "3,40", "-o", OUTPUT),
        "keys [3, 40] are not distinct frequencies in 1 … 29",
    )
    assert os.listdir(folder) == []


def _unwritable(folder: Path) -> list[tuple[str, str]]:
    (folder / "plain").write_text("a file")
    (folder / "directory").mkdir()
    return [
        (
            "absent/out",
            "cannot write absent/out: No such file or directory; choose a directory that exists",
        ),
        ("plain/out", "cannot write plain/out: Not a directory"),
        ("directory", "cannot write directory: it is a directory; give a file name"),
        ("/dev/null", "cannot write /dev/null: it is not a regular file"),
    ]


def test_outputs_that_cannot_be_written(folder: Path) -> None:
    save(build_transformer(Recipe(7, (1, 2), 12)), folder / "m.safetensors")
    (folder / "m.pt").write_bytes(torch_file(blind(tl_state_dict())))
    targets = _unwritable(folder)
    before = sorted(os.listdir(folder))
    for target, message in targets:
        refused(
            quadlens("build", "--p", "7", "--keys", "1,2", "--neurons", "12", "-o", target), message
        )
        refused(quadlens("import", "m.pt", *HALF, "-o", target), message)
        refused(
            quadlens("export", "m.safetensors", "--format", "transformer-lens", "-o", target),
            message,
        )
    assert sorted(os.listdir(folder)) == before
    assert os.listdir(folder / "directory") == []
    assert not Path("/dev/null").is_file()


def test_an_old_output_survives_a_failure(folder: Path) -> None:
    (folder / OUTPUT).write_bytes(b"precious")
    (folder / "bad.pt").write_bytes(torch_file(tl_state_dict()))
    refused(
        quadlens("import", "bad.pt", "--activation", "relu", "-o", OUTPUT),
        "do not say the attention: it is not in the weights",
    )
    assert (folder / OUTPUT).read_bytes() == b"precious"


def test_exports_that_cannot_be_expressed(folder: Path) -> None:
    save(build_transformer(Recipe(7, (1, 2), 12)), folder / "m.safetensors")
    for name in ("gbmi", "zhong", "nanda", "he", "mlp"):
        refused(
            quadlens("export", "m.safetensors", "--format", name, "-o", OUTPUT),
            f"format '{name}' is read, not written",
        )
    refused(
        quadlens("export", "m.safetensors", "--format", "word", "-o", OUTPUT),
        "format 'word' is not known",
    )
    refused(
        quadlens("export", "absent", "--format", "onnx", "-o", OUTPUT),
        "absent: no such file; bundled models are",
    )
    assert os.listdir(folder) == ["m.safetensors"]


@pytest.mark.slow
def test_too_many_pairs(folder: Path) -> None:
    assert quadlens("build", "--p", "10007", "--neurons", "4096", "-o", "big.safetensors").code == 0
    refused(quadlens("evaluate", "big.safetensors"), "try a sample, for example --sample 10000")


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "--nonsense"),
        ("nonsense",),
        ("build",),
        ("import", "x.pt"),
        ("evaluate", "m", "--sample", "0"),
    ],
)
def test_usage_errors(folder: Path, words: tuple[str, ...]) -> None:
    run = quadlens(*words)
    assert run.code == 2
    assert "Usage:" in run.err
    assert run.out == ""


def test_bugs_are_reported_without_a_stack_trace(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import quadlens.network.bundled as room

    def broken(model: object) -> None:
        raise KeyError("boom")

    monkeypatch.setattr(room, "resolve", broken)
    run = quadlens("evaluate", "m")
    assert run.code == 2
    assert "internal error: KeyError: 'boom'" in run.err
    assert "Traceback" not in run.err
    with pytest.raises(KeyError):
        quadlens("evaluate", "m", "--debug")


def test_config_files_at_the_command_line(folder: Path) -> None:
    (folder / "m.pt").write_bytes(torch_file(nanda_state_dict(7, 2)))
    (folder / "c.json").write_text(json.dumps({"C": 7, "attn_coeff": 0, "act_fn": "ReLU"}))
    conflict = quadlens(
        "import", "m.pt", "--config", "c.json", "--attention", "0.5,0.5", "-o", OUTPUT
    )
    refused(
        conflict,
        "attention is 0.5, 0.5 by the setting attention but 1.0, 1.0 by attn_coeff in c.json; "
        "correct one",
    )
    assert quadlens("import", "m.pt", "--config", "c.json", "-o", OUTPUT).code == 0
