"""The commands info, evaluate, build, import and export: one JSON document, stable keys, help with
an example.
"""

import dataclasses
import hashlib
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_runner import quadlens, refused
from quadlens.analysis.explanation import explain
from quadlens.base.numbers import significant
from quadlens.cli.main import COMMANDS as KNOWN
from quadlens.cli.options import REGISTRIES
from quadlens.network import Recipe, build_mlp, evaluate, load, sha256
from quadlens.network.handmade import default_keys
from quadlens.network.native import load_with_sha256
from quadlens.network.study import study_of
from quadlens.proofs.pairs import STRATEGIES
from quadlens.readers import READERS, WRITERS
from quadlens.show.figures.style import FIGURE_FORMATS
from quadlens.training.config import TrainConfig
from torch_zips import torch_zip

COMMANDS = sorted(KNOWN)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert (
        quadlens(
            "build", "--p", "13", "--keys", "2,5", "--neurons", "60", "-o", "m.safetensors", "-q"
        ).code
        == 0
    )
    return tmp_path


def test_evaluate_has_the_promised_keys(folder: Path) -> None:
    run = quadlens("evaluate", "m.safetensors", "--json")
    assert run.code == 0
    assert run.out.count("\n") == 1
    promised = ["p", "pairs", "correct", "accuracy", "min_margin", "median_margin", "loss", "wrong"]
    assert set(promised) <= set(run.document)
    result = evaluate(load("m.safetensors").collapse())
    assert {key: run.document[key] for key in promised[:-1]} == {
        key: getattr(result, key) for key in promised[:-1]
    }
    assert run.document["wrong"] == []


def test_wrong_answers_are_listed(folder: Path) -> None:
    quadlens(
        "build",
        "--p",
        "13",
        "--keys",
        "2,5",
        "--neurons",
        "60",
        "--noise",
        "5",
        "-o",
        "bad.safetensors",
    )
    document = quadlens("evaluate", "bad.safetensors", "--json").document
    assert 0 < len(document["wrong"]) <= 100
    assert all(len(row) == 3 and (row[0] + row[1]) % 13 != row[2] for row in document["wrong"])
    assert "→" in quadlens("evaluate", "bad.safetensors").out


def test_exact_agreement_is_shown(folder: Path) -> None:
    run = quadlens("evaluate", "m.safetensors", "--exact", "--json")
    assert run.document["agreement"]["correct"] == 169
    assert run.err == "computing all 2197 logits exactly\n"
    table = quadlens("evaluate", "m.safetensors", "--exact", "--quiet")
    assert "correct, exactly       169 of 169" in table.out
    assert table.err == ""


def test_samples(folder: Path) -> None:
    one, two = (
        quadlens("evaluate", "m.safetensors", "--sample", "50", "--json").document for _ in range(2)
    )
    assert one == two
    assert one["pairs"] == 50


def test_evaluate_says_what_the_file_holds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = quadlens("evaluate", "m.safetensors", "--json").document
    assert document["sha256"] == hashlib.sha256(Path("m.safetensors").read_bytes()).hexdigest()
    assert document["config"]["attention"] == [0.5, 0.5]
    assert document["parameters"] == sum(x.size for x in load("m.safetensors").tensors.values())
    for columns in ("30", "60", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        assert document["sha256"] in quadlens("evaluate", "m.safetensors").out, (
            f"the hash is cut at {columns} columns"
        )


def test_the_hash_is_the_files_own(folder: Path) -> None:
    content = Path("m.safetensors").read_bytes()
    length = int.from_bytes(content[:8], "little")
    padded = (
        (length + 8).to_bytes(8, "little")
        + content[8 : 8 + length]
        + b" " * 8
        + content[8 + length :]
    )
    Path("padded.safetensors").write_bytes(padded)
    of_file = hashlib.sha256(padded).hexdigest()
    assert quadlens("evaluate", "padded.safetensors", "--json").document["sha256"] == of_file
    assert quadlens("certify", "padded.safetensors", "--json").document["model_sha256"] == of_file
    assert study_of("padded.safetensors").without_proofs().sha256 == of_file
    model, digest = load_with_sha256(Path("padded.safetensors"))
    assert (digest, sha256(model)) == (of_file, hashlib.sha256(content).hexdigest())


def test_names_are_not_markup(folder: Path) -> None:
    os.rename("m.safetensors", "[red]m[b].safetensors")
    assert "[red]m[b].safetensors" in quadlens("evaluate", "[red]m[b].safetensors").out
    exported = quadlens("export", "[red]m[b].safetensors", "--format", "onnx", "-o", "[b].onnx")
    assert "wrote [b].onnx" in exported.out
    assert "one_hot_pair [batch, 2, 13]" in exported.out


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("output", ["m.safetensors", "./m.safetensors", "link.safetensors"])
def test_an_export_does_not_replace_its_model(folder: Path, name: str, output: str) -> None:
    Path("link.safetensors").symlink_to("m.safetensors")
    before = Path("m.safetensors").read_bytes()
    refused(
        quadlens("export", "m.safetensors", "--format", name, "-o", output),
        f"cannot write {output.removeprefix('./')}: it is m.safetensors, an input",
    )
    assert Path("m.safetensors").read_bytes() == before
    assert (
        quadlens("export", "m.safetensors", "--format", name, "-o", "other.safetensors").code == 0
    )


def test_export_and_import(folder: Path) -> None:
    name = "transformer-lens"
    exported = quadlens(
        "export", "m.safetensors", "--format", name, "-o", "model_x.safetensors", "--json"
    ).document
    assert all(Path(path).is_file() for path in exported["files"])
    imported = quadlens(
        "import", "model_x.safetensors", "-o", "back.safetensors", "--json"
    ).document
    assert imported["format"] == name
    assert imported["sha256"] == hashlib.sha256(Path("back.safetensors").read_bytes()).hexdigest()
    assert set(imported) >= {
        "source",
        "output",
        "format",
        "sha256",
        "p",
        "activation",
        "config",
        "notes",
    }
    before, after = (load(x).collapse() for x in ("m.safetensors", "back.safetensors"))
    np.testing.assert_array_equal(before.U_a, after.U_a)
    np.testing.assert_array_equal(before.W_L, after.W_L)
    text = quadlens("import", "model_x.safetensors", "-o", "back.safetensors")
    assert "attention" in text.out
    assert name in text.out


def test_mlps_too(folder: Path) -> None:
    built = quadlens(
        "build",
        "--p",
        "13",
        "--keys",
        "2",
        "--neurons",
        "20",
        "--architecture",
        "mlp",
        "-o",
        "m",
        "--json",
    )
    assert built.document["d_mlp"] == 20
    model = load("m")
    state = {"mlp.W_in": model.tensors["W_a"].T, "mlp.W_out": model.tensors["W_out"].T}
    Path("model_he.pt").write_bytes(torch_zip(state))
    imported = quadlens(
        "import", "model_he.pt", "--activation", "relu", "-o", "back", "--json"
    ).document
    assert (imported["format"], imported["sha256"]) == ("he", built.document["sha256"])


def test_help_names_every_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    for command, names in (("import", ["auto", *READERS]), ("export", list(WRITERS))):
        text = " ".join(quadlens(command, "--help").out.replace("│", " ").split())
        assert ", ".join(names) + "." in text


def test_a_directory_gives_one_row_per_file(folder: Path) -> None:
    """Read, or refused and why; with -o what was read is written, in the same places."""
    os.mkdir("runs")
    os.mkdir("runs/deep")
    quadlens(
        "export",
        "m.safetensors",
        "--format",
        "transformer-lens",
        "-o",
        "runs/deep/model_x.safetensors",
    )
    Path("runs/other.safetensors").write_bytes(Path("m.safetensors").read_bytes())
    Path("runs/bad.pt").write_bytes(b"PK\x03\x04")
    os.mkfifo("runs/pipe.pt")
    Path("runs/readme.txt").write_text("not a checkpoint")
    rows = json.loads(quadlens("import", "runs", "--json").out)
    assert [(row["source"], row["read"]) for row in rows] == [
        ("runs/bad.pt", False),
        ("runs/deep/model_x.safetensors", True),
        ("runs/other.safetensors", True),
        ("runs/pipe.pt", False),
    ]
    assert rows[0]["reason"].startswith("is cut or damaged: its zip cannot be read")
    assert "not a regular file" in rows[3]["reason"]
    assert rows[1]["format"] == "transformer-lens"
    assert rows[1]["output"] is None
    Path("none").mkdir()
    Path("none/bad.pt").write_bytes(b"PK\x03\x04")
    nothing = quadlens("import", "none")
    assert nothing.code == 2
    assert "0 of 1 read" in nothing.out
    table = quadlens("import", "runs", "-o", "out")
    assert table.code == 0
    assert "2 of 4 read" in table.out
    written = sorted(str(path) for path in Path("out").rglob("*.safetensors"))
    assert written == ["out/deep/model_x.safetensors", "out/other.safetensors"]
    assert Path("out/other.safetensors").read_bytes() == Path("m.safetensors").read_bytes()
    assert load("out/deep/model_x.safetensors").config.p == 13


def test_directories_that_cannot_be_imported(folder: Path) -> None:
    os.mkdir("empty")
    refused(
        quadlens("import", "empty"),
        "empty has no checkpoints; expected files named .pt, .pth, .ckpt, .npz, .safetensors",
    )
    refused(
        quadlens("import", ".", "-o", "."),
        "would replace checkpoints that are read; choose another directory",
    )
    refused(quadlens("import", ".", "--config", "c.json"), "--config is one checkpoint's")


def test_build_writes_the_same_bytes_again(folder: Path) -> None:
    words = (
        "build",
        "--p",
        "13",
        "--keys",
        "2,5",
        "--noise",
        "0.1",
        "--jitter",
        "0.1",
        "--neurons",
        "60",
        "--seed",
        "3",
    )
    one, two = (quadlens(*words, "-o", name, "--json").document for name in ("a", "b"))
    assert one["sha256"] == two["sha256"]
    assert Path("a").read_bytes() == Path("b").read_bytes()


def test_the_programs_own_help_shows_flags_as_flags() -> None:
    run = quadlens("--help")
    assert run.code == 0
    assert "<bool>" not in run.out


def test_there_are_few_commands() -> None:
    assert len(COMMANDS) <= 17


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_the_common_flags_and_an_example(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    run = quadlens(command, "--help")
    assert run.code == 0
    assert "Example" in run.out
    assert f"quadlens {command}" in run.out
    for flag in ("--json", "--quiet", "--debug"):
        assert flag in run.out, f"{command} has no {flag}"
    assert "<bool>" not in run.out
    assert not any(f"{{{word}}}" in run.out for word in REGISTRIES)


@pytest.mark.parametrize(
    ("command", "names"), [("sweep", STRATEGIES), ("export", WRITERS), ("report", FIGURE_FORMATS)]
)
def test_help_names_what_the_registries_have(
    command: str, names: Iterable[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    shown = " ".join(quadlens(command, "--help").out.split())
    assert all(name in shown for name in names)


def test_every_setting_of_a_run_is_a_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    flags = {f"--{field.name.replace('_', '-')}" for field in dataclasses.fields(TrainConfig)}
    for command in ("train", "sweep"):
        shown = quadlens(command, "--help").out
        assert {flag for flag in flags if flag not in shown} == set()


HEAVY = [
    "torch",
    "matplotlib",
    "flint",
    "polars",
    "scipy",
    "onnx",
    "pandas",
    "transformer_lens",
    "numba",
]


def _child(code: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["evaluate", "--help"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    """Imports are what help costs; a clock would measure the machine."""
    code = f"""
import contextlib, io, sys
sys.argv = ["quadlens", *{words!r}]
from quadlens.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
print(sorted(set({HEAVY!r}) & set(sys.modules)))
"""
    assert _child(code).strip() == "[]"


@pytest.mark.slow
def test_everything_but_training_imports_without_torch() -> None:
    """As after `pip install .`: extras cannot be imported, and no room minds."""
    extras = ["torch", "numba", "joblib", "transformer_lens", "onnx", "onnxruntime"]
    code = f"""
import importlib, importlib.abc, pkgutil, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {extras!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
import quadlens
count = 0
for module in pkgutil.walk_packages(quadlens.__path__, "quadlens."):
    if module.name.startswith("quadlens.training") or module.name == "quadlens.__main__":
        continue
    importlib.import_module(module.name)
    count += 1
for name in quadlens.__all__:
    getattr(quadlens, name)
print(count)
"""
    assert int(_child(code)) > 30


@pytest.mark.slow
def test_commands_work_without_torch(folder: Path) -> None:
    code = """
import sys
sys.modules.update(torch=None, onnx=None, transformer_lens=None)
from quadlens.cli.main import main
for words in (
    ["export", "m.safetensors", "--format", "transformer-lens", "-o", "model_g.safetensors",
    "--json"],
    ["import", "model_g.safetensors", "-o", "back.safetensors", "--json"],
    ["evaluate", "back.safetensors", "--json"],
):
    sys.argv = ["quadlens", *words]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, words
"""
    assert '"accuracy": 1.0' in _child(code)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [["--seed", "0"], ["--seeds", "0:2"]])
def test_training_without_torch_says_what_to_install(tmp_path: Path, seeds: list[str]) -> None:
    code = f"""
import sys
sys.modules.update(torch=None)
from quadlens.cli.main import main
sys.argv = ["quadlens", "train", *{seeds!r}, "-o", {str(tmp_path / "m")!r}]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "training needs the extra 'train'" in done.stderr


def test_the_module_runs_as_a_program() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "quadlens", "--version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert result.stdout.startswith("quadlens ")


def test_public_names_are_found_lazily() -> None:
    import quadlens as package

    assert callable(package.load)
    with pytest.raises(AttributeError, match="module 'quadlens' has no attribute 'nonsense'"):
        _ = package.nonsense  # type: ignore[attr-defined]


def test_text_has_at_most_six_digits(folder: Path) -> None:
    quadlens(
        "build",
        "--p",
        "13",
        "--keys",
        "1,5",
        "--neurons",
        "40",
        "--noise",
        "0.3",
        "-o",
        "digits.safetensors",
    )
    document = quadlens("evaluate", "digits.safetensors", "--json").document
    text = quadlens("evaluate", "digits.safetensors")
    shown = dict(re.findall(r"^  (\w+) +(.+?) *$", text.out, re.MULTILINE))
    for name in ("min_margin", "median_margin", "loss"):
        assert float(shown[name]) == pytest.approx(document[name], rel=1e-4)
        assert len(shown[name].strip("-0.").replace(".", "")) <= 6
    assert float(shown["min_margin"]) <= document["min_margin"]
    assert float(shown["accuracy"].split()[0]) <= 100 * document["accuracy"]


@given(st.floats(allow_nan=False, allow_infinity=False) | st.fractions())
def test_rounding_is_to_the_side_asked_for(value: float | Fraction) -> None:
    exact = Fraction(value)
    down, nearest, up = (
        Fraction(significant(value, towards)) for towards in ("down", "nearest", "up")
    )
    assert down <= exact <= up
    assert down <= nearest <= up
    assert up - down <= abs(exact) / 10**4


def test_singular_and_plural() -> None:
    roles = explain(build_mlp(Recipe(p=23, keys=(3,), neurons=1)), logits=False)
    assert "1 of 1 neuron reads and writes the same frequency" in roles.summary()
    assert "of 1 key frequency" in roles.summary()


@pytest.mark.parametrize("p", [3, 5, 7, 9, 11, 13, 15, 59])
def test_default_keys_fit_every_modulus(folder: Path, p: int) -> None:
    run = quadlens("build", "--p", str(p), "-o", "default.safetensors", "--json")
    assert run.code == 0, run.err
    assert run.document["keys"] == list(default_keys(p))
    assert len(default_keys(p)) == min(3, sum(math.gcd(k, p) == 1 for k in range(1, (p + 1) // 2)))
    assert evaluate(load("default.safetensors").collapse()).accuracy == 1
    assert p < 16 or default_keys(p) == (3, 5, 7)


@pytest.mark.parametrize("name", ["e.pt", "e.pth", "e.ONNX", "e.json"])
def test_a_model_is_not_written_under_another_files_name(folder: Path, name: str) -> None:
    before = sorted(folder.iterdir())
    for words in (["train"], ["build", "--p", "13"], ["import", "m.safetensors"]):
        run = quadlens(*words, "-o", name)
        refused(
            run, "models are written as .safetensors; give such a name, and use quadlens export for"
        )
    assert sorted(folder.iterdir()) == before
    assert quadlens("build", "--p", "13", "-o", "e.weights").code == 0
