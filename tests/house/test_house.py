"""Thermometers of the house: how often each concept is written out.

A number that grows is a door that closes.
"""

import re

from places import ROOT

SOURCE = ROOT / "src" / "quadlens"
FILES = {
    path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8")
    for path in SOURCE.rglob("*.py")
}

# How one can ask for the kind of a network: a transformer, an MLP on one-hot tokens, a network on
# sequences.
QUESTION = re.compile(
    r"(?<!def )\bhas_stream\b|isinstance\([^)]*\b\w*Config\b(?! \|)|\barchitecture\b.{0,4} (==|!=|in \()"
    r"|\bsteps is (not )?None|(?<!self)\.on_sequences|(?<!def )\bis_collapsed\b"
    r"|\bis_mlp\b|\bd_model (==|!=|is) (0|None)\b|\b(attention_kind|attends) is|kind_words =="
    r"|\bmatch .*(config|model|network)"
    r"|\b(not|if|and|or) [\w.]*config\.(d_model|attention|n_heads)\b(?!\)| ==)|type\([\w.]*config\) (is|==)"
    r"|\"W_[aEU]\" (not )?in (weights|model|params)\b"
)
SWITCHES = {
    "cli/certify.py": 1,  # other rows are shown
    "cli/reading.py": 2,  # `evaluate` shows other rows, `explain` has other options
    "analysis/edit.py": 1,  # a network of tables is rebuilt as one
    "analysis/logits/algorithm.py": 1,  # gradients by embedding vectors, or by one-hot coordinates
    "network/study.py": 1,  # the one choice between what is said of pairs and of sequences
    "network/collapse.py": 1,  # one-hot tokens are no residual stream
    "readers/onnx_graph.py": 1,  # two graphs
    "readers/tasks.py": 1,  # which inputs are tried
    "network/forward.py": 1,  # the same
    "show/pages/write.py": 1,  # two pages
    "training/population/analysis.py": 1,  # measures of attention
    "proofs/pairs/float32.py": 1,  # N of its theorem
    "proofs/pairs/moments.py": 1,  # weights that are tables themselves
    "training/device.py": 1,  # by one-hot tokens
}


def found(pattern: str) -> dict[str, int]:
    """File → how many lines have the pattern."""
    counts = {
        name: sum(bool(re.search(pattern, line)) for line in text.splitlines())
        for name, text in FILES.items()
    }
    return {name: count for name, count in counts.items() if count}


def switches() -> dict[str, int]:
    """File → how many of its lines ask for the kind of a network."""
    counts = {
        name: sum(bool(QUESTION.search(line)) for line in text.splitlines())
        for name, text in FILES.items()
    }
    return {name: count for name, count in counts.items() if count}


def test_switches_over_kinds_of_networks_are_the_known_ones() -> None:
    """What a new kind of network must be told to; what is particular about a kind is in its classes, in one list each.

    These lists are `model/architectures.py` and `training/kinds.py`; a study is made in
    `anything.py`.
    """
    kinds = found(r"isinstance\([^)]*\b(Weights|Tables|FloatTables)\b")
    # Not a kind of network: what a caller may pass, and floats or other numbers in tables.
    assert kinds.keys() <= {"anything.py", "proofs/sequences/of_study.py", "network/tables.py"}, (
        kinds
    )
    assert switches() == SWITCHES
    assert sum(SWITCHES.values()) <= 15


def test_moments_are_the_proof_strategy_and_those_of_quadrature_rules() -> None:
    """A run has snapshots.

    What else has moments: AdamW (training/), and "at any moment" in words.
    """
    rooms = ("show/explorer/", "cli/", "training/")
    text = {
        name
        for name in found(r"[mM]oment")
        if name.startswith(rooms) and "/population/" not in name
    }
    assert text <= {
        *(
            "training/over_time.py",
            "analysis/quadrature/rules.py",
            "cli/reading.py",
        ),  # the proof, the bound
        *(f"training/{name}.py" for name in ("config", "outputs", "cpu", "engine", "checkpoint")),
        *(f"training/{name}.py" for name in ("device", "train")),
    }, text
    assert not [
        path.name
        for path in (SOURCE / "show" / "explorer" / "assets").iterdir()
        if "moment" in path.read_text("utf-8")
    ]


def test_the_residual_stream_is_written_out_in_three_places() -> None:
    """Where values meet W_O: the forward pass, the collapse, and the training step (by hand, and by PyTorch)."""
    places = {
        name
        for name in found(r"@ [^\n]*W_O|W_O[^\n]* @|\"W_O\"\]\)")
        if not name.startswith("readers/")
    }
    assert places <= {
        *(
            "network/forward.py",
            "network/collapse.py",
            "training/cpu.py",
            "training/device.py",
            "training/sequence.py",
        ),
        "network/sequence_forward.py",  # norms and positions; float64, and enclosed for proofs
    }, places


def test_one_margin_and_one_fourier_transform() -> None:
    assert found(r"= -np\.inf|, -np\.inf, axis").keys() <= {"network/margins.py"}
    assert found(r"np\.fft\.i?rfft\(").keys() == {"analysis/spectrum/fourier.py"}


def test_one_definition_of_key_frequency() -> None:
    """One per cent of the whole, in one place; who asks says of what."""
    assert found(r"\bKEY_SHARE\b").keys() <= {
        "analysis/spectrum/key.py",
        "show/figures/beyond_waves.py",
    }  # the caption quotes it
    assert found(r"\bis_key\(").keys() == {
        *(
            "analysis/spectrum/key.py",
            "analysis/spectrum/cluster.py",
            "analysis/infinite_width/waves.py",
            "analysis/explanation/overview.py",
        ),
        "show/figures/beyond_waves.py",
    }
