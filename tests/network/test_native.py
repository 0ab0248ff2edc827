"""Our file: bit for bit there and back, and no damage goes unnoticed.

safetensors alone reads it.
"""

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_runner import quadlens, refused
from quadlens.base.atomic import write_all_atomic, write_atomic
from quadlens.base.errors import BadConfig, BadFile, QuadlensError
from quadlens.network import Recipe, build_mlp, build_transformer, load, save, sha256
from quadlens.network.native import from_tensors, load_file, to_bytes
from quadlens.network.weights import Weights
from readers.test_formats import same_weights
from strategies import mlps, transformers


@given(st.one_of(transformers(), transformers(np.float64), mlps(), mlps(np.float64)))
def test_round_trip_is_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, model: Weights
) -> None:
    path = tmp_path_factory.mktemp("native") / "m.safetensors"
    save(model, path)
    back = load(path)
    assert same_weights(back, model)
    assert to_bytes(back) == path.read_bytes() == to_bytes(model)
    assert sha256(model) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_safetensors_alone_reads_it(tmp_path: Path) -> None:
    from safetensors import safe_open

    model = build_transformer(Recipe(7, (1, 2), 12))
    save(model, tmp_path / "m.safetensors")
    with safe_open(tmp_path / "m.safetensors", framework="numpy") as stream:
        header = json.loads(stream.metadata()["quadlens"])
        W_O = stream.get_tensor("blocks.0.attn.W_O")
    assert header["config"]["p"] == 7
    assert header["config"]["attention"] == [0.5, 0.5]
    np.testing.assert_array_equal(W_O, model.W_O)


MODELS: list[Weights] = [
    build_transformer(Recipe(5, (1, 2), 4, noise=0.1)),
    build_mlp(Recipe(5, (1, 2), 4, noise=0.1)),
]
FILES = [to_bytes(model) for model in MODELS]


def _load_bytes(content: bytes, path: Path) -> Weights:
    path.write_bytes(content)
    return load_file(path)


@given(st.integers(0, 1), st.data())
def test_flipped_bits_never_load_as_another_model(
    tmp_path_factory: pytest.TempPathFactory, which: int, data: st.DataObject
) -> None:
    damaged = bytearray(FILES[which])
    for bit in data.draw(st.lists(st.integers(0, 8 * len(damaged) - 1), min_size=1, max_size=3)):
        damaged[bit // 8] ^= 1 << bit % 8
    with contextlib.suppress(QuadlensError):
        assert same_weights(
            _load_bytes(bytes(damaged), tmp_path_factory.mktemp("f") / "m"), MODELS[which]
        )


def test_every_flip_of_the_header_is_noticed_or_harmless(tmp_path: Path) -> None:
    """All bits of length and JSON header, one after the other."""
    content = FILES[0]
    header = 8 + int.from_bytes(content[:8], "little")
    for byte in range(0, header, 3):
        damaged = bytearray(content)
        damaged[byte] ^= 1 << byte % 8
        with contextlib.suppress(QuadlensError):
            assert same_weights(_load_bytes(bytes(damaged), tmp_path / "m"), MODELS[0])


@given(st.integers(0, 1), st.data())
def test_cut_files_are_refused(
    tmp_path_factory: pytest.TempPathFactory, which: int, data: st.DataObject
) -> None:
    content = FILES[which][: data.draw(st.integers(0, len(FILES[which]) - 1))]
    with pytest.raises(BadFile):
        _load_bytes(content, tmp_path_factory.mktemp("f") / "m")


def test_a_flipped_weight_says_damaged(tmp_path: Path) -> None:
    damaged = bytearray(FILES[0])
    damaged[-1] ^= 1
    with pytest.raises(
        BadFile,
        match="is damaged: its weights or config do not match its checksum; get the file again",
    ):
        _load_bytes(bytes(damaged), tmp_path / "m")


def _with_config(change: Any) -> tuple[dict[str, np.ndarray], str]:
    """Tensors and header of a file whose config someone edited.

    They also fixed the checksum.
    """
    from quadlens.network.native import _checksum

    model = MODELS[0]
    tensors = {model.config.names[name]: array for name, array in model.tensors.items()}
    config = json.loads(json.dumps(change(_config())))
    header = {"format": 1, "config": config, "checksum": _checksum(tensors, config)}
    return tensors, json.dumps(header)


def _config() -> dict[str, Any]:

    return MODELS[0].config.to_dict()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c | {"p": 1}, "file: n = 1 is not supported; expected at least 2 elements"),
        (lambda c: c | {"task": "plus"}, "no task is called 'plus'"),
        (lambda c: c | {"task": "multiply"}, "which is not prime"),
        (
            lambda c: c | {"task": {"name": "S3", "sha256": "0"}},
            "the table of the task S3 is missing",
        ),
        (
            lambda c: c | {"colour": 1},
            r"file: unknown key 'colour' \(known keys: activation, attention",
        ),
        (lambda c: {k: v for k, v in c.items() if k != "d_mlp"}, "file: missing key 'd_mlp'"),
        (lambda c: c | {"p": "5"}, "p = '5': expected int, got str"),
        (
            lambda c: c | {"activation": "mish"},
            "activation = 'mish': expected one of relu, abs, square",
        ),
        (
            lambda c: c | {"architecture": "rnn"},
            "architecture 'rnn'; expected one of transformer, mlp",
        ),
        (lambda c: c | {"architecture": []}, "architecture"),
        (lambda c: [c], "the config is a list"),
        (lambda c: c | {"attention": [0.5]}, "attention has 1 weights"),
        (lambda c: c | {"attention": [0.5, 10**400]}, "the number is too large"),
        (lambda c: c | {"d_mlp": 5}, r"W_in has shape \(12, 4\), expected \(12, 5\)"),
        (
            lambda c: {"architecture": "mlp", "p": 5, "d_mlp": 4},
            "missing tensors: .*unknown tensors: ",
        ),
    ],
)
def test_configs_that_do_not_fit_are_refused(change: Any, message: str) -> None:
    with pytest.raises(QuadlensError, match=message):
        from_tensors(*_with_config(change), "file")


@pytest.mark.parametrize("header", ["", "[]", "{}", "1", '{"format": 1}', "[" * 100_000])
def test_metadata_that_is_not_ours(header: str) -> None:
    with pytest.raises(BadFile, match="is not the JSON that quadlens writes"):
        from_tensors({}, header, "file")


def _rewritten(change: Any) -> bytes:
    """A model's file whose metadata text was changed.

    The author of the change can put safetensors together.
    """
    content = FILES[0]
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"]["quadlens"] = change(header["__metadata__"]["quadlens"])
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


TWO_WAYS: list[tuple[str, Any, str]] = [
    (
        "activation twice",
        lambda t: t.replace('"activation"', '"activation": "abs", "activation"'),
        "'activation' twice",
    ),
    (
        "format twice",
        lambda t: t.replace('"format": 1', '"format": 1, "format": 1'),
        "has the key 'format' twice",
    ),
    (
        "format true",
        lambda t: t.replace('"format": 1', '"format": true'),
        "file format True; this quadlens reads",
    ),
    (
        "format 1.0",
        lambda t: t.replace('"format": 1', '"format": 1.0'),
        "file format 1.0; this quadlens reads",
    ),
    (
        "format text",
        lambda t: t.replace('"format": 1', '"format": "1"'),
        "file format str; this quadlens reads",
    ),
    (
        "unknown key",
        lambda t: t.replace('"format": 1', '"format": 1, "more": 1'),
        "has the unknown key 'more'",
    ),
    (
        "NaN",
        lambda t: t.replace('"format": 1', '"format": NaN'),
        "is not the JSON that quadlens writes",
    ),
]


@pytest.mark.parametrize(
    "words", ["evaluate", "explain", "bounds", "certify", "explore", "import", "export"]
)
@pytest.mark.parametrize(
    ("name", "change", "message"), TWO_WAYS, ids=[name for name, *_ in TWO_WAYS]
)
def test_files_that_can_be_understood_in_two_ways(
    tmp_path: Path, words: str, name: str, change: Any, message: str
) -> None:
    """Refused by every command, as by the checker, which reads the same file by itself."""
    path = tmp_path / "m.safetensors"
    path.write_bytes(_rewritten(change))
    more: dict[str, list[str | Path]] = {
        "explore": ["-o", tmp_path / "x.html"],
        "import": ["-o", tmp_path / "x.safetensors"],
    }
    more["export"] = ["--format", "onnx", "-o", tmp_path / "x.onnx"]
    refused(quadlens(words, path, *more.get(words, [])), message)
    assert list(tmp_path.iterdir()) == [path]


def test_the_rewriting_itself_changes_nothing(tmp_path: Path) -> None:
    assert same_weights(_load_bytes(_rewritten(lambda text: text), tmp_path / "m"), MODELS[0])


def test_a_header_with_a_name_twice_is_refused(tmp_path: Path) -> None:
    content = FILES[0]
    length = int.from_bytes(content[:8], "little")
    text = content[8 : 8 + length].rstrip()
    for doubled in (
        text[:-1] + b"," + text[text.index(b'"embed.W_E"') :].split(b"}", 1)[0] + b"}}",
        text[:-1] + b',"__metadata__":{"quadlens":"{}"}}',
    ):
        with pytest.raises(BadFile, match=r"not a readable safetensors file|has the key .* twice"):
            _load_bytes(
                len(doubled).to_bytes(8, "little") + doubled + content[8 + length :], tmp_path / "m"
            )


def test_other_files_say_what_to_do(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"x": np.ones(2)}, tmp_path / "other.safetensors")
    with pytest.raises(
        BadFile, match=r"without quadlens' config in its metadata; .*quadlens import"
    ):
        load(tmp_path / "other.safetensors")
    with pytest.raises(BadFile, match=r"no such file; bundled models are: "):
        load(tmp_path / "absent")
    with pytest.raises(BadFile, match="is a directory; give a safetensors file"):
        load(tmp_path)
    (tmp_path / "torch.pt").write_bytes(b"PK\x03\x04")
    with pytest.raises(
        BadFile, match=r"is a PyTorch file, not a safetensors file; .*quadlens import"
    ):
        load(tmp_path / "torch.pt")
    (tmp_path / "later.safetensors").write_bytes(
        FILES[0].replace(b'\\"format\\": 1', b'\\"format\\": 9')
    )
    with pytest.raises(BadFile, match="file format 9; this quadlens reads format 1"):
        load(tmp_path / "later.safetensors")


def test_header_lengths_that_look_like_a_pickle(tmp_path: Path) -> None:
    """640 = 0x0280 in eight bytes starts with the two bytes of a pickle of protocol 2."""
    from safetensors.numpy import save as serialise

    from quadlens.readers.checkpoint import read_checkpoint

    seen = set()
    for padding in range(0, 700, 8):
        content = serialise({"fc1.weight": np.ones(2)}, {"note": "x" * padding})
        if content[0] == 0x80:
            seen.add(content[1])
            (tmp_path / "m.safetensors").write_bytes(content)
            assert list(read_checkpoint(tmp_path / "m.safetensors").tensors) == ["fc1.weight"]
    assert seen >= {0, 1, 2}


def test_writing_is_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "m"
    write_atomic(target, b"old")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(BadFile, match="No space left on device; nothing was written"):
        write_all_atomic({target: b"new", tmp_path / "second": b"x"})
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_files_that_belong_together_are_written_together(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"cannot write .*absent"):
        write_all_atomic({tmp_path / "first": b"1", tmp_path / "absent" / "second": b"2"})
    assert list(tmp_path.iterdir()) == []


def test_odd_targets(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="it is a directory; give a file name"):
        write_atomic(tmp_path, b"x")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadFile, match="it is not a regular file"):
        write_atomic(tmp_path / "pipe", b"x")
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_atomic(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_weights_do_not_change_with_the_arrays_they_came_from() -> None:
    for model in MODELS:
        arrays = {name: array.copy() for name, array in model.tensors.items()}
        copy = type(model)(config=model.config, **arrays)
        for name in arrays:
            arrays[name] += 1
        assert same_weights(copy, model)
        assert isinstance(copy, Weights)


def test_bundled_names_win_over_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from quadlens.network import bundled

    save(MODELS[0], tmp_path / "tiny.safetensors")
    monkeypatch.setattr(bundled, "data_directory", lambda: tmp_path)
    assert same_weights(bundled.load("tiny"), MODELS[0])
    with pytest.raises(BadFile, match="bundled models are: tiny"):
        bundled.load("large")


def test_schema_collects_every_problem() -> None:
    from quadlens.base.schema import parse_dataclass
    from quadlens.network.config import Config

    with pytest.raises(
        BadConfig,
        match=r"here: unknown key 'x' .*; p = True: expected int, got bool; "
        "missing key 'd_model'; missing key 'd_mlp'",
    ):
        parse_dataclass(Config, {"x": 1, "p": True}, "here")
    with pytest.raises(BadConfig, match="here: expected names with values, got list"):
        parse_dataclass(Config, [], "here")
