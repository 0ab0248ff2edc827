"""The explorer reads model files as strictly as Python does: what one refuses, the other refuses
too.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer_chromium import Opened, drop_file, pages, small_model, visit  # noqa: F401
from quadlens.base.errors import QuadlensError
from quadlens.network.config import Config
from quadlens.network.native import load_file, to_bytes
from quadlens.network.tensor_names import QUERY_KEY_NAMES, TASK_TABLE, TRANSFORMER_NAMES

pytestmark = pytest.mark.slow

# ruff: noqa: F811


@dataclass
class File:
    """A model file in pieces; what is not changed is right, the checksum included.

    Attributes:
        config: The config's JSON.
        tensors: Weights by the name in the file.
        format: The version's JSON.
        metadata: The whole metadata's JSON, in place of the right one.
        header: Changes the header after it was made.
        tail: Bytes after the last tensor.
    """

    config: str
    tensors: dict[str, np.ndarray]
    format: str = "1"
    metadata: Callable[[str, str], str] | None = None
    header: Callable[[str], str] = lambda text: text
    tail: bytes = b""

    def content(self) -> bytes:
        digest = hashlib.sha256(json.dumps(json.loads(self.config), sort_keys=True).encode())
        for name in sorted(self.tensors):
            array = self.tensors[name]
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode() + array.tobytes())
        checksum = json.dumps(digest.hexdigest())
        about = f'{{"checksum": {checksum}, "config": {self.config}, "format": {self.format}}}'
        if self.metadata is not None:
            about = self.metadata(checksum, self.config)
        entries, end = [f'"__metadata__": {json.dumps({"quadlens": about})}'], 0
        kinds = {"<f4": "F32", "<f8": "F64", "<i4": "I32"}
        for name, array in self.tensors.items():
            entry = {
                "dtype": kinds[array.dtype.str],
                "shape": list(array.shape),
                "data_offsets": [end, end + array.nbytes],
            }
            entries.append(f"{json.dumps(name)}: {json.dumps(entry)}")
            end += array.nbytes
        header = self.header("{" + ", ".join(entries) + "}").encode()
        header += b" " * (-len(header) % 8)
        weights = b"".join(array.tobytes() for array in self.tensors.values())
        return len(header).to_bytes(8, "little") + header + weights + self.tail


CONFIG = Config(
    p=5,
    d_model=3,
    d_mlp=4,
    n_heads=1,
    d_head=2,
    d_vocab=6,
    d_vocab_out=5,
    n_ctx=3,
    attention=(0.5, 0.25),
    read_position=1,
)


def right(**changes: Any) -> File:
    """A file that both read; `changes` replace entries of its config (a value None takes the key
    out).
    """
    rng = np.random.default_rng(2)
    tensors = {TRANSFORMER_NAMES[n]: rng.standard_normal(s) for n, s in CONFIG.shapes.items()}
    config = {
        key: value for key, value in {**CONFIG.to_dict(), **changes}.items() if value is not None
    }
    return File(json.dumps(config), tensors)


def changed(**pieces: Any) -> bytes:
    file = right()
    for name, value in pieces.items():
        setattr(file, name, value)
    return file.content()


def with_tensor(name: str, array: np.ndarray | None) -> bytes:
    file = right()
    if array is None:
        del file.tensors[name]
    else:
        file.tensors[name] = array
    return file.content()


def in_config(old: str, new: str) -> bytes:
    file = right()
    assert old in file.config
    file.config = file.config.replace(old, new)
    return file.content()


def in_header(old: str, new: str) -> bytes:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return changed(header=change)


C5 = (np.add.outer(np.arange(5), np.arange(5)) % 5).astype(np.int32)
ORDER = np.array([3, 0, 4, 2, 1], dtype=np.int32)
# A Latin square with an identity that is not associative.
LOOP = np.array(
    [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]],
    dtype=np.int32,
)


def with_table(table: np.ndarray | None, name: str = "C5", **entries: Any) -> bytes:
    """A file whose task comes with a table; `entries` replace those of the task's JSON."""
    digest = hashlib.sha256((C5 if table is None else table).tobytes()).hexdigest()
    file = right(task={"name": name, "sha256": digest, **entries})
    if table is not None:
        file.tensors[TASK_TABLE] = table
    return file.content()


def with_softmax(query_key: bool = True, **changes: Any) -> bytes:
    """A file with softmax attention; `changes` replace entries of its JSON (a value None takes the
    key out).
    """
    softmax = {"scale": 1.0, "divisor": 2.0, "causal": True, **changes}
    file = right(softmax={key: value for key, value in softmax.items() if value is not None})
    if query_key:
        for name, shape in {
            "W_Q": (1, 3, 2),
            "b_Q": (1, 2),
            "W_K": (1, 3, 2),
            "b_K": (1, 2),
        }.items():
            file.tensors[QUERY_KEY_NAMES[name]] = np.ones(shape)
    return file.content()


SHAPE = '"shape": [4], "data_offsets"'
BAD: dict[str, tuple[bytes, str]] = {
    "no checksum": (
        changed(metadata=lambda _, c: f'{{"config": {c}, "format": 1}}'),
        "has the keys config, format",
    ),
    "checksum null": (
        changed(metadata=lambda _, c: f'{{"checksum": null, "config": {c}, "format": 1}}'),
        "do not match its checksum",
    ),
    "key of the metadata": (
        changed(
            metadata=lambda s, c: f'{{"checksum": {s}, "config": {c}, "format": 1, "more": 1}}'
        ),
        "has the keys checksum, config, format, more",
    ),
    "metadata list": (changed(metadata=lambda _s, _c: "[1]"), "File format undefined"),
    "metadata text": (
        changed(metadata=lambda _s, _c: "{"),
        "In the quadlens metadata: not well-formed JSON",
    ),
    "format true": (changed(format="true"), "File format true; this page reads format 1"),
    "format 1.0": (changed(format="1.0"), "this page reads format 1"),
    "format 2": (changed(format="2"), "File format 2"),
    "config null": (changed(config="null"), "The config is not an object"),
    "read_position": (
        right(read_position=99).content(),
        "read_position = 99 is not fed; expected 0 … 1",
    ),
    "read_position -1": (right(read_position=-1).content(), "read_position = -1 is not fed"),
    "unknown key": (right(d_moddel=3).content(), "unknown key d_moddel"),
    "missing key": (right(n_ctx=None).content(), "lacks the key n_ctx"),
    "key twice": (in_config('"p": 5', '"p": 7, "p": 5'), 'the key "p" stands twice'),
    "key twice, escaped": (in_config('"p": 5', '"\\u0070": 5, "p": 5'), 'the key "p" stands twice'),
    "fraction": (in_config('"p": 5', '"p": 5.0'), "p = 5; expected a whole number"),
    "boolean": (
        in_config('"n_heads": 1', '"n_heads": true'),
        "n_heads = true; expected a whole number",
    ),
    "null": (
        in_config('"n_heads": 1', '"n_heads": null'),
        "n_heads = something else; expected a whole number",
    ),
    "string": (in_config('"p": 5', '"p": "5"'), "p = 5; expected a whole number"),
    "no neurons": (right(d_mlp=0).content(), "d_mlp = 0"),
    "no heads": (right(n_heads=0).content(), "n_heads = 0; expected at least 1"),
    "one weight": (right(attention=[0.5]).content(), "attention has 1 weights"),
    "null weight": (in_config("[0.5, 0.25]", "[0.5, null]"), "attention is not a list of numbers"),
    "true weight": (in_config("[0.5, 0.25]", "[0.5, true]"), "attention is not a list of numbers"),
    "no list": (in_config("[0.5, 0.25]", "0.5"), "attention is not a list of numbers"),
    "huge weight": (in_config("[0.5, 0.25]", "[0.5, 1e999]"), "do not match its checksum"),
    "offset": (right(b_token_offset=3).content(), "b_token_offset = 3; expected 0 or p = 5"),
    "few tokens": (right(d_vocab=4).content(), "d_vocab = 4 is less than the 5 tokens used"),
    "few answers": (right(d_vocab_out=4).content(), "d_vocab_out = 4 is less than p = 5"),
    "few positions": (right(n_ctx=1).content(), "n_ctx = 1 is less than the 2 positions fed"),
    "activation": (right(activation="cube").content(), "Activation cube; expected relu"),
    "architecture": (
        right(architecture="toString").content(),
        "Architecture toString; expected transformer or mlp",
    ),
    "shape": (
        with_tensor("blocks.0.mlp.b_in", np.zeros(5)),
        "blocks.0.mlp.b_in has shape [5], expected [4]",
    ),
    "unknown tensor": (with_tensor("more", np.zeros(2)), "The tensor more does not belong"),
    "missing tensor": (with_tensor("unembed.b_U", None), "The tensor unembed.b_U is missing"),
    "not finite": (with_tensor("unembed.b_U", np.array([0, np.nan, 0, 0, 0])), "not finite"),
    "integers": (
        with_tensor("unembed.b_U", np.zeros(5, dtype=np.int32)),
        "has type I32, expected F32 or F64",
    ),
    "overflow": (with_tensor("unembed.W_U", np.full((3, 5), 1e308)), "overflows"),
    "null entry": (
        in_header('"unembed.b_U": {', '"more": null, "unembed.b_U": {'),
        "more in the header is not a tensor",
    ),
    "negative shape": (
        in_header(SHAPE, '"shape": [-4], "data_offsets"'),
        "not made of whole numbers",
    ),
    "shape null": (
        in_header(SHAPE, '"shape": [null], "data_offsets"'),
        "not made of whole numbers",
    ),
    "shape 4.0": (in_header(SHAPE, '"shape": [4.0], "data_offsets"'), "not made of whole numbers"),
    "wrong offsets": (
        in_header('"data_offsets": [0, ', '"data_offsets": [8, '),
        "cut short or damaged at embed.W_E",
    ),
    "tensor twice": (
        in_header(
            '"unembed.b_U": {',
            '"unembed.b_U": {"dtype": "F64", "shape": [0], "data_offsets": [0, 0]}, '
            '"unembed.b_U": {',
        ),
        'the key "unembed.b_U" stands twice',
    ),
    "bytes at the end": (changed(tail=b"\0" * 8), "8 bytes that belong to no tensor"),
    "one element": (right(p=1, task="add").content(), "p = 1; expected at least 2 elements"),
    "no task": (right(task="power").content(), "No task is called power"),
    "task list": (right(task=["add"]).content(), "The task is neither a name nor"),
    "task key": (with_table(C5, more=1), "The task is neither a name nor"),
    "no unit": (right(task="linear:5,1").content(), "5 and n = 5 have a common factor"),
    "not linear": (right(task="linear:1").content(), "No task is called linear:1"),
    "not prime": (
        right(task="multiply").content(),
        "5 elements would make it 6, which is not prime",
    ),
    "group without table": (right(task="C5").content(), "The task C5 comes without its table"),
    "table missing": (with_table(None), "The table of the task C5 is missing"),
    "table too small": (with_table(C5[:4]), "The table of the task C5 is missing or not 5 × 5"),
    "table of floats": (
        with_table(C5.astype(np.float64)),
        "task.answers has type F64, expected I32",
    ),
    "answer out of range": (with_table(C5 + 1), "has values other than 0 … 4"),
    "negative answer": (with_table(C5 - 1), "has values other than 0 … 4"),
    "group too small": (with_table(C5, "S3"), "The table has 5 elements, but S3 has 6"),
    "zeros named after a group": (with_table(0 * C5), "The table of C5 is not that of the group"),
    "one product wrong": (
        with_table(np.where(np.eye(5, dtype=bool), 0, C5)),
        "The table of C5 is not that of the group",
    ),
    "a loop named after a group": (
        with_table(LOOP),
        "The table of C5 is not that of the group, in whatever order",
    ),
    "unknown group": (with_table(C5, "Q8"), "No group is called Q8"),
    "wrong table": (with_table(C5, sha256="0" * 64), "not the one whose SHA-256 is given"),
    "table without use": (
        with_tensor("task.answers", C5),
        "The tensor task.answers does not belong",
    ),
    "softmax without keys": (
        with_softmax(query_key=False),
        "The tensor blocks.0.attn.W_Q is missing",
    ),
    "keys without softmax": (
        with_tensor("blocks.0.attn.b_K", np.ones((1, 2))),
        "b_K does not belong",
    ),
    "softmax true": (right(softmax=True).content(), "softmax is not an object"),
    "softmax times 0": (
        with_softmax(scale=0.0),
        "Softmax times 0; expected a finite number other than 0",
    ),
    "no scale": (with_softmax(scale=None), "scale of softmax is not a number"),
    "divided by 0": (with_softmax(divisor=0), "Attention scores divided by 0"),
    "causal 1": (with_softmax(causal=1), "causal of softmax is neither true nor false"),
    "softmax key": (with_softmax(window=3), "softmax has the unknown key window"),
    "comma": (
        in_header(', "unembed.b_U"', ',, "unembed.b_U"'),
        "In the header: not well-formed JSON",
    ),
    "header null": (b"\4\0\0\0\0\0\0\0null", "not a safetensors file, or it is cut short"),
    "cut": (right().content()[:-1], "cut short or damaged at unembed.b_U"),
}

GOOD: dict[str, bytes] = {
    "as quadlens writes": right().content(),
    "defaults left out": right(activation=None, b_token_offset=None).content(),
    "other spaces and order": changed(
        config=json.dumps(dict(reversed(json.loads(right().config).items())), indent=3),
        metadata=lambda s, c: f'{{ "format" : 1,\n"config":{c}, "checksum" :{s} }}',
    ),
    "odd floats": in_config("[0.5, 0.25]", "[0.00001, 12345678901234567890.0]"),
    "floats as integers": in_config("[0.5, 0.25]", "[1, -0.0]"),
    "small floats": in_config("[0.5, 0.25]", "[1.5e-7, 123456789012345.6]"),
    "quadlens' own": to_bytes(small_model()),
    "even p": right(p=4).content(),
    "add by name": right(task="add").content(),
    "subtract": right(task="subtract").content(),
    "linear": right(task="linear:-3,7").content(),
    "multiply": right(p=4, task="multiply").content(),
    "multiply0": right(task="multiply0").content(),
    "group": with_table(C5),
    "group in another order": with_table(ORDER[C5[np.ix_(np.argsort(ORDER), np.argsort(ORDER))]]),
    "table that is no group": with_table(np.zeros((5, 5), dtype=np.int32), "table"),
    "softmax": with_softmax(),
    "softmax, defaults left out": with_softmax(causal=None, scale=-0.5),
    "no softmax": in_config('"p": 5', '"softmax": null, "p": 5'),
}


def python_reads(content: bytes, path: Path) -> bool:
    path.write_bytes(content)
    try:
        with np.errstate(all="ignore"):
            load_file(path).collapse()
    except QuadlensError:
        return False
    return True


@pytest.mark.parametrize("name", list(GOOD))
def test_python_reads_the_good_ones(name: str, tmp_path: Path) -> None:
    assert python_reads(GOOD[name], tmp_path / "model.safetensors")


def test_what_python_refuses_the_page_refuses_and_says_why(visit: Any, tmp_path: Path) -> None:
    page: Opened = visit("small")
    before = page.text("words-grid")
    for at, (name, (content, message)) in enumerate(BAD.items()):
        assert not python_reads(content, tmp_path / "model.safetensors"), name
        # The message of this file, in place of the one before.
        drop_file(page, f"bad{at}.safetensors", content)
        page.page.wait_for_selector(
            f"#message.bad:has-text('bad{at}.safetensors cannot be opened')"
        )
        said = page.text("message")
        assert message in said, name
        assert said.endswith("The page still shows small."), name
    assert page.text("words-grid") == before
    assert page.text("footer-name") == "small"


def test_what_python_reads_the_page_reads(visit: Any) -> None:
    page: Opened = visit("small")
    for at, content in enumerate(GOOD.values()):
        drop_file(page, f"good{at}.safetensors", content)
        page.page.wait_for_selector(f"#message.good:has-text('Opened good{at}.safetensors')")
        assert page.text("footer-name") == f"good{at}.safetensors"
        assert page.text("footer-sha") == hashlib.sha256(content).hexdigest()


def test_of_two_files_at_once_the_last_counts_and_a_folder_is_no_file(visit: Any) -> None:
    page: Opened = visit("small")
    page.page.evaluate(
        """async () => {
          const later = (ms) =>
    new Promise((done) => setTimeout(() => done(new ArrayBuffer(8)), ms));
          const refused = () => Promise.reject(new Error("no access"));
          Q.controls.openFile(Q.app, { name: "slow", size: 8, arrayBuffer: () => later(300) });
          await Q.controls.openFile(Q.app, { name: "folder", size: 8, arrayBuffer: refused });
          await later(500);
        }"""
    )
    assert "folder cannot be opened. The browser could not read it (no access)." in page.text(
        "message"
    )
    page.page.evaluate("Q.controls.openFile(Q.app, { name: 'large', size: 2 ** 29 })")
    assert "large cannot be opened. It has 536,870,912 bytes; this page takes at most" in page.text(
        "message"
    )
