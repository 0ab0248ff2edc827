"""Files made to hang or to bloat a command.

Refused in seconds and megabytes, measured in a process with limits.
"""

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hostile import SECONDS, attacked, sparse
from readers.test_formats import P, tl_state_dict
from readers.test_torch_files import _tensor_pickle, _zip_of
from torch_zips import torch_zip

pytestmark = pytest.mark.slow

# A tuple that holds the tuple before it twice, a hundred times over: 2^100 steps for whoever walks
# it.
DOUBLING = b")" + b"q\x00h\x00\x86" * 100
MEGABYTE = 1 << 20


def _zip_with_directory_of(entries: int) -> bytes:
    """A zip whose directory lists one record so many times."""
    content = _zip_of(b"\x80\x02N.")
    start, end = content.index(b"PK\x01\x02"), content.index(b"PK\x05\x06")
    directory, tail = content[start:end] * entries, bytearray(content[end:])
    tail[12:16] = len(directory).to_bytes(4, "little")
    return content[:start] + directory + bytes(tail)


def _shared_views() -> bytes:
    """One storage of 4 MB that fifty tensors are different views of."""
    count, stream = MEGABYTE, io.BytesIO()
    whole = _tensor_pickle(count, 0, (count // 2,), (1,))[3:-2]
    name, rest = whole[: whole.index(b"x") + 1], whole[whole.index(b"x") + 1 :]
    pickled = b"\x80\x02}" + b"".join(
        name[:-1]
        + b"x"
        + rest.replace(b"J" + (0).to_bytes(4, "little"), b"J" + shift.to_bytes(4, "little"), 1)
        + b"s"
        for shift in range(50)
    )
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", pickled + b".")
        archive.writestr("archive/data/0", bytes(4 * count))
    return stream.getvalue()


def _huge_sizes() -> bytes:
    """A stored record whose directory entry claims more bytes than it has."""
    content = bytearray(_zip_of(b"\x80\x02N.", _0=bytes(16)))
    entry = content.rindex(b"PK\x01\x02")
    content[entry + 24 : entry + 28] = (2**31).to_bytes(4, "little")
    return bytes(content)


def _gbmi_with(value: bytes) -> bytes:
    """A checkpoint of gbmi whose fn_name is whatever `value` leaves on the stack of the pickle."""
    run = {"experiment": {"p": P, "attention_rate": 1, "fn_name": "MARK"}}
    content = torch_zip({"model": tl_state_dict(), "run_config": run})
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            mark = b"X" + (4).to_bytes(4, "little") + b"MARK"
            new.writestr(
                name,
                old.read(name).replace(mark, value)
                if name.endswith("data.pkl")
                else old.read(name),
            )
    return stream.getvalue()


def _safetensors(header: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header


ENCODE = (
    b"c_codecs\nencode\nq\x01X" + MEGABYTE.to_bytes(4, "little") + b"a" * MEGABYTE + b"\x85q\x02"
)
FILES: dict[str, tuple[Callable[[], bytes], str, int]] = {
    "key": (lambda: _zip_of(b"\x80\x02}" + DOUBLING + b"K\x01s."), "a key that is a tuple", 50),
    "keys": (lambda: _zip_of(b"\x80\x02}(" + DOUBLING + b"K\x01u."), "a key that is a tuple", 50),
    "dict": (lambda: _zip_of(b"\x80\x02(" + DOUBLING + b"K\x01d."), "a key that is a tuple", 50),
    "ordered": (
        lambda: _zip_of(b"\x80\x02ccollections\nOrderedDict\n](" + DOUBLING + b"K\x01\x86e\x85R."),
        "a key that is a tuple",
        50,
    ),
    "storage": (
        lambda: _zip_of(
            b"\x80\x02(X\x07\x00\x00\x00storagectorch\nFloatStorage\n" + DOUBLING + b"K\x01K\x01tQ."
        ),
        "names a storage in a way torch.save does not",
        50,
    ),
    "value": (lambda: _gbmi_with(DOUBLING), "values inside each other", 300),
    "loop": (lambda: _gbmi_with(b"]q\x00h\x00a"), "values inside each other", 300),
    "memoize": (
        lambda: _zip_of(b"\x80\x04N" + b"\x94" * (30 * MEGABYTE) + b"."),
        "steps or memo entries",
        400,
    ),
    "objects": (
        lambda: _zip_of(b"\x80\x02" + b"}" * (30 * MEGABYTE) + b"."),
        "steps or memo entries",
        400,
    ),
    "copies": (
        lambda: _zip_of(b"\x80\x02" + ENCODE + b"h\x01h\x02R" * 100_000 + b"."),
        "copies than its size",
        100,
    ),
    "pickle": (lambda: _zip_of(b"\x80\x02" + b"N" * (40 * MEGABYTE) + b"."), "is larger than", 300),
    "bare": (
        lambda: b"\x80\x04NNNN" + b"\x94" * (30 * MEGABYTE) + b".",
        "steps or memo entries",
        400,
    ),
    "stride 0": (
        lambda: _zip_of(_tensor_pickle(4, 0, (20_000, 20_000), (0, 0)), _0=bytes(16)),
        "more numbers than its storage, which has 4",
        50,
    ),
    "shared": (_shared_views, "tensors that share a storage of 1048576 numbers", 100),
    "directory of a zip": (
        lambda: _zip_with_directory_of(600_000),
        "more than 40000 records in the zip",
        300,
    ),
    "sizes": (_huge_sizes, "whose two sizes differ", 50),
    "header": (
        lambda: _safetensors(b'{"__metadata__":{' + b" " * (60 * MEGABYTE) + b"}}"),
        "its header has",
        200,
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_files_made_to_hang_or_bloat(tmp_path: Path, name: str) -> None:
    make, message, megabytes = FILES[name]
    (tmp_path / "model_x.pt").write_bytes(make())
    outcome = attacked(tmp_path / "model_x.pt")
    assert message in outcome["said"], outcome
    assert len(outcome["said"]) < 1000
    assert outcome["seconds"] < SECONDS, outcome
    assert outcome["megabytes"] < megabytes, outcome


def _fifo(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda path: path.write_bytes(b"[" + b"[[]]," * (13 * MEGABYTE) + b"0]"),
            "at most 1048576 are read",
        ),
        (_fifo, None),
        (lambda path: path.write_text("[" * 500_000), "is not JSON"),
        (lambda path: path.write_text('{"p": ' + "9" * 900_000 + "}"), "is not JSON"),
        (sparse, "has 8589934592 bytes; at most 1048576 are read"),
    ],
)
def test_configs_made_to_hang_or_bloat(
    tmp_path: Path, make: Callable[[Path], Any], message: str | None
) -> None:
    (tmp_path / "model_x.pt").write_bytes(torch_zip(tl_state_dict()))
    make(tmp_path / "config_x.json")
    outcome = attacked(tmp_path / "model_x.pt")
    # A pipe is no config, so it is as if there were none.
    assert (message or "the weights do not say the activation") in outcome["said"], outcome
    assert outcome["seconds"] < SECONDS, outcome
    assert outcome["megabytes"] < 60, outcome


@pytest.mark.parametrize("how", ["import", "load"])
@pytest.mark.parametrize(
    ("make", "message"),
    [(_fifo, "it is not a regular file"), (sparse, "has 8589934592 bytes; at most 4294967296")],
)
def test_files_that_never_end(
    tmp_path: Path, make: Callable[[Path], Any], message: str, how: str
) -> None:
    make(tmp_path / "m.safetensors")
    outcome = attacked(tmp_path / "m.safetensors", how)
    assert message in outcome["said"], outcome
    assert outcome["seconds"] < SECONDS, outcome
    assert outcome["megabytes"] < 60, outcome


def test_directories_made_to_bloat(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for i in range(5):
        sparse(tmp_path / "a" / f"{i}.pt")
    outcome = attacked(tmp_path / "a")
    assert (
        "have 42949672960 bytes together; at most 17179869184 are read at once" in outcome["said"]
    ), outcome
    assert outcome["megabytes"] < 60, outcome
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "again").symlink_to(tmp_path / "loop")
    assert "has no checkpoints" in attacked(tmp_path / "loop")["said"]


def test_tied_weights_are_read() -> None:
    """As in Chughtai's files, where two names are one tensor."""
    from quadlens.readers.zip_files import read_torch

    torch = pytest.importorskip("torch")
    base, stream = torch.arange(1000.0).reshape(40, 25), io.BytesIO()
    torch.save(
        {
            "W_E": base,
            "W_U": base.T,
            "x_embed": base,
            "y_embed": base[:20],
            **{f"{i}": base for i in range(50)},
        },
        stream,
    )
    read = read_torch(stream.getvalue(), "file")
    np.testing.assert_array_equal(read["W_U"], base.T.numpy())
    np.testing.assert_array_equal(read["49"], base.numpy())
