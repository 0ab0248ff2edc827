"""Torch zips without PyTorch: read what torch.save writes, run nothing."""

import collections
import contextlib
import io
import os
import pickle
import pickletools
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadlens.base.errors import BadFile
from quadlens.readers.checkpoint import read_checkpoint
from quadlens.readers.pickle_machine import Name, PickleMachine, StandIn
from quadlens.readers.zip_files import read_torch

torch = pytest.importorskip("torch")

DTYPES = [
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
]


def saved(value: object, **options: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream, **options)
    return stream.getvalue()


@given(
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 4), max_size=4),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_reads_every_type_and_shape_that_torch_saves(
    dtype: str, shape: list[int], seed: int, turned: bool
) -> None:
    tensor = torch.from_numpy(np.array(np.random.default_rng(seed).normal(size=shape) * 50)).to(
        getattr(torch, dtype)
    )
    tensor = tensor.T if turned and tensor.ndim == 2 else tensor
    read = read_torch(saved({"x": tensor}), "file")["x"]
    # bfloat16 is not a NumPy type; float32 holds it exactly.
    expected = (tensor.float() if dtype == "bfloat16" else tensor).numpy()
    assert read.dtype == expected.dtype
    assert read.shape == expected.shape
    np.testing.assert_array_equal(read, expected)


def test_reads_shared_storages_views_and_parameters() -> None:
    base = torch.arange(24.0)
    value = {
        "rows": base.reshape(4, 6)[1:3],
        "columns": base.reshape(4, 6).T[::2],
        "parameter": torch.nn.Parameter(base[3:5]),
        "broadcast": base[:4].expand(5, 4),
        "scalar": base[7],
        "nested": [1, 2.5, None, True, "é", (3, -(2**70)), {"deep": base[:2]}],
    }
    read = read_torch(saved(value), "file")
    for name in ("rows", "columns", "parameter", "broadcast", "scalar"):
        np.testing.assert_array_equal(read[name], value[name].detach().numpy())
    assert read["nested"][:6] == value["nested"][:6]
    np.testing.assert_array_equal(read["nested"][6]["deep"], [0.0, 1.0])


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_reads_every_pickle_protocol(protocol: int) -> None:
    module = torch.nn.Linear(3, 2)
    read = read_torch(saved(module.state_dict(), pickle_protocol=protocol), "file")
    np.testing.assert_array_equal(read["weight"], module.weight.detach().numpy())


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-(2**80), 2**80)
            | st.floats(allow_nan=False)
            | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=3), inner, max_size=3)
                | st.tuples(inner, inner)
            ),
            max_leaves=8,
        ),
        max_size=4,
    )
)
def test_reads_plain_values_that_torch_saves(value: dict[str, Any]) -> None:
    assert read_torch(saved(value), "file") == value


# --- nothing runs
# --------------------------------------------------------------------------------------------------


class Canary:
    """Pickles as a call that leaves a file behind, if anyone makes it."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", [0, 1, 2, 4])
@pytest.mark.parametrize("wrapped", ["torch", "bare"])
def test_a_pickle_that_would_run_code_is_refused_by_name(
    tmp_path: Path, protocol: int, wrapped: str
) -> None:
    canary, path = tmp_path / "canary", tmp_path / "model.pt"
    value = {"model": Canary(os.mkdir, str(canary))}
    if wrapped == "torch":
        path.write_bytes(_zip_of(pickle.dumps(value, protocol)))
    else:
        path.write_bytes(b"\x80\x02" + pickle.dumps(value, protocol))
    with pytest.raises(
        BadFile, match=r"model\.pt is a pickle that would run code: it asks for (posix|nt)\.mkdir"
    ):
        read_checkpoint(path)
    assert not canary.exists()
    pickle.loads(pickle.dumps(value, protocol))
    assert canary.exists(), "the canary does sing for Python's own unpickler"


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("builtins", "eval"),
        ("__builtin__", "exec"),
        ("subprocess", "Popen"),
        ("importlib", "import_module"),
        ("operator", "attrgetter"),
        ("functools", "partial"),
        ("torch", "load"),
        ("torch.hub", "load"),
        ("torch._utils", "_rebuild_wrapper_subclass"),
        ("torch.storage", "_load_from_bytes"),
        ("quadlens.network", "save"),
        ("copyreg", "_reconstructor"),
    ],
)
def test_dangerous_names_are_refused(module: str, name: str) -> None:
    for content in (
        b"\x80\x02c" + f"{module}\n{name}\n".encode() + b".",
        b"\x80\x04\x8c"
        + bytes([len(module)])
        + module.encode()
        + b"\x8c"
        + bytes([len(name)])
        + name.encode()
        + b"\x93.",
    ):
        with pytest.raises(BadFile, match=f"would run code: it asks for {module}.{name}"):
            PickleMachine("file").run(content)


def test_unknown_classes_become_stand_ins_and_unknown_calls_are_refused() -> None:
    made = PickleMachine("file").run(
        b"\x80\x02cgbmi.gone\nConfig\n)\x81}X\x01\x00\x00\x00aK\x07sb."
    )
    assert isinstance(made, StandIn)
    assert str(made.name) == "gbmi.gone.Config"
    assert made.state == {"a": 7}
    with pytest.raises(BadFile, match=r"would run code: it asks for gbmi\.gone\.build"):
        PickleMachine("file").run(b"\x80\x02cgbmi.gone\nbuild\n)R.")


def test_numpy_values_and_ordered_dictionaries_are_inert() -> None:
    content = pickle.dumps({"metric": np.float64(0.5), "array": np.arange(3)}, 2)
    read = PickleMachine("file").run(content)
    assert isinstance(read["metric"], StandIn)
    assert isinstance(read["array"], StandIn)
    assert PickleMachine("file").run(pickle.dumps(collections.OrderedDict(a=1), 2)) == {"a": 1}


# --- limits and damage
# ------------------------------------------------------------------------------------------------


def _zip_of(pickled: bytes, compression: int = zipfile.ZIP_STORED, **records: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        archive.writestr("archive/data.pkl", pickled)
        for name, content in records.items():
            archive.writestr(f"archive/data/{name.removeprefix('_')}", content)
    return stream.getvalue()


def _tensor_pickle(
    count: int, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> bytes:
    """A one-tensor checkpoint with any shape one likes to claim."""
    numbers = [b"J" + n.to_bytes(4, "little", signed=True) for n in (count, offset)]
    tuples = [
        b"(" + b"".join(b"J" + n.to_bytes(4, "little", signed=True) for n in t) + b"t"
        for t in (shape, strides)
    ]
    storage = (
        b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu"
        + numbers[0]
        + b"tQ"
    )
    return (
        b"\x80\x02}X\x01\x00\x00\x00xctorch._utils\n_rebuild_tensor_v2\n("
        + storage + numbers[1] + tuples[0] + tuples[1] + b"\x89}tRs."
    )  # fmt: skip


def test_zip_bombs_are_refused() -> None:
    bomb = _zip_of(_tensor_pickle(1, 0, (1,), (1,)), zipfile.ZIP_DEFLATED, _0=bytes(10**7))
    assert len(bomb) < 10**5
    with pytest.raises(BadFile, match="a compressed zip"):
        read_torch(bomb, "file")


@pytest.mark.parametrize(
    ("offset", "shape", "strides", "message"),
    [
        (0, (5,), (1,), "more numbers than its storage, which has 4"),
        (3, (2,), (1,), "reaches beyond the 4 numbers"),
        (0, (2, 2), (3, 1), "reaches beyond the 4 numbers"),
        (-1, (2,), (1,), "negative"),
        (0, (2,), (-1,), "negative"),
        (0, (2**30,), (0,), "more numbers than its storage"),
        (0, (5, 1), (0, 0), "more numbers than its storage"),
        (0, (1,) * 9, (1,) * 9, "is not read"),
        (0, (2, 2), (1,), "is not read"),
    ],
)
def test_tensors_outside_their_storage_are_refused(
    offset: int, shape: tuple[int, ...], strides: tuple[int, ...], message: str
) -> None:
    with pytest.raises(BadFile, match=message):
        read_torch(_zip_of(_tensor_pickle(4, offset, shape, strides), _0=bytes(16)), "file")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            _zip_of(_tensor_pickle(5, 0, (4,), (1,)), _0=bytes(16)),
            "storage '0' has 4 numbers, expected another count",
        ),
        (
            _zip_of(_tensor_pickle(4, 0, (4,), (1,)), _0=bytes(15)),
            "not a whole number of 4-byte numbers",
        ),
        (_zip_of(_tensor_pickle(4, 0, (4,), (1,))), "storage '0' is missing"),
        (_zip_of(b"\x80\x02}"), "cut or damaged"),
        (_zip_of(b"\x80\x02t."), "cut or damaged"),
        (_zip_of(b"\x80\x02K\x01\x82\x01."), "uses EXT1"),
        (_zip_of(b"\x80\x02K\x01K\x02)R."), "calls something that is not a name"),
        (b"PK\x03\x04 and nothing else", "its zip cannot be read"),
    ],
)
def test_broken_files_say_what_is_wrong(content: bytes, message: str) -> None:
    with pytest.raises(BadFile, match=message):
        read_torch(content, "file")


def test_other_zips_and_other_contents_are_refused(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("hello.txt", "hello")
    with pytest.raises(BadFile, match=r"a zip without a data\.pkl"):
        read_torch(stream.getvalue(), "file")
    for value, message in (
        ([1], "holds a list; expected a state dict"),
        ({"lr": 1}, "has no tensors"),
        ({"model": {"W": torch.ones(1), "note": "text"}}, "entries that are not tensors: .'note'."),
    ):
        path = tmp_path / "x.pt"
        path.write_bytes(saved(value))
        with pytest.raises(BadFile, match=message):
            read_checkpoint(path)


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from quadlens.readers import checkpoint, zip_files

    content = saved({"x": torch.arange(3.0)})
    (tmp_path / "x.pt").write_bytes(content)
    monkeypatch.setattr(checkpoint, "MAX_FILE_BYTES", 10)
    with pytest.raises(BadFile, match=rf"has {len(content)} bytes; at most 10 are read"):
        read_checkpoint(tmp_path / "x.pt")
    monkeypatch.setattr(zip_files, "MAX_RECORDS", 2)
    with pytest.raises(BadFile, match=r"\d records in the zip; at most 2 are read"):
        read_torch(content, "file")
    monkeypatch.undo()
    monkeypatch.setattr(zip_files, "MAX_PICKLE_BYTES", 10)
    with pytest.raises(BadFile, match=r"data\.pkl is larger than 10 bytes"):
        read_torch(content, "file")


def test_records_that_overlap_are_refused() -> None:
    """Two names for one stretch of the file, the way bombs of stored records are made."""
    content = _zip_of(b"\x80\x02N.", _0=bytes(2000))
    directory = content.index(b"PK\x01\x02", 2000)
    entries, end = (
        content[directory : content.index(b"PK\x05\x06")],
        bytearray(content[content.index(b"PK\x05\x06") :]),
    )
    doubled = entries * 40
    end[8:12] = (80).to_bytes(2, "little") * 2
    end[12:16] = len(doubled).to_bytes(4, "little")
    with pytest.raises(BadFile, match="claim more bytes than the file has"):
        read_torch(content[:directory] + doubled + bytes(end), "file")


def test_byte_orders() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", _tensor_pickle(2, 0, (2,), (1,)))
        archive.writestr("archive/byteorder", "big")
        archive.writestr("archive/data/0", np.array([1.5, -2.0], dtype=">f4").tobytes())
    np.testing.assert_array_equal(
        read_torch(stream.getvalue(), "file")["x"], np.array([1.5, -2.0], dtype=np.float32)
    )
    with pytest.raises(BadFile, match="byte order 'bog'; expected little or big"):
        read_torch(_rezipped(stream.getvalue(), "archive/byteorder", b"bog"), "file")


def _rezipped(content: bytes, name: str, replacement: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(stream, "w") as new:
        for entry in old.namelist():
            new.writestr(entry, replacement if entry == name else old.read(entry))
    return stream.getvalue()


def test_old_torch_files_say_how_to_convert(tmp_path: Path) -> None:
    path = tmp_path / "old.pt"
    path.write_bytes(saved({"x": torch.ones(2)}, _use_new_zipfile_serialization=False))
    with pytest.raises(BadFile, match=r"is a bare pickle .*save it again with torch.save"):
        read_checkpoint(path)


def _same(x: Any, y: Any) -> bool:
    return x.keys() == y.keys() and all(
        np.array_equal(x[k], y[k]) if isinstance(y[k], np.ndarray) else x[k] == y[k] for k in y
    )


ORIGINAL = {
    "a.weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "b": np.ones(2),
    "note": "seed 7",
}
CONTENT = saved({k: torch.tensor(v) if k != "note" else v for k, v in ORIGINAL.items()})


@given(st.integers(0, 8 * len(CONTENT) - 1))
def test_a_flipped_bit_is_refused_or_changes_nothing(bit: int) -> None:
    damaged = bytearray(CONTENT)
    damaged[bit // 8] ^= 1 << bit % 8
    with contextlib.suppress(BadFile):
        assert _same(read_torch(bytes(damaged), "file"), ORIGINAL)


@given(st.integers(0, len(CONTENT) - 1))
def test_a_cut_file_is_refused(length: int) -> None:
    with pytest.raises(BadFile):
        read_torch(CONTENT[:length], "file")


def is_plain(value: object) -> bool:
    """Containers, numbers, text, and names and stand-ins that nobody can call."""
    if isinstance(value, dict):
        return all(
            type(key) in (str, int, float, bool, bytes, type(None)) and is_plain(x)
            for key, x in value.items()
        )
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(is_plain, value))
    if isinstance(value, StandIn):
        return not callable(value) and is_plain(value.arguments) and is_plain(value.state)
    leaves = (type(None), bool, int, float, str, bytes, bytearray, Name)
    return type(value) in leaves and not callable(value)


opcodes = st.sampled_from([opcode.code.encode("latin1") for opcode in pickletools.opcodes])


@pytest.mark.parametrize("end", [b"", b"."])
@given(
    st.one_of(
        st.binary(max_size=60),
        st.lists(st.one_of(opcodes, st.binary(max_size=2)), max_size=12).map(b"".join),
    )
)
def test_random_pickles_never_do_anything_but_fail_or_give_plain_values(
    end: bytes, content: bytes
) -> None:
    with contextlib.suppress(BadFile):
        value = PickleMachine("file").run(b"\x80\x02" + content + end)
        assert is_plain(value), value


def test_a_mark_is_no_value() -> None:
    for content in (b"(.", b"(\x85.", b"](a."):
        with pytest.raises(BadFile, match="cut or damaged"):
            PickleMachine("file").run(b"\x80\x02" + content)
