"""Thermometers of the house: how often a concept is written out, by the syntax tree.

A number that grows is a door that closes.
"""

import ast
import tomllib
from collections.abc import Callable

from tools.kinds import branches, files, name_of

from places import ROOT

SOURCE = ROOT / "src" / "quadlens"
TREES = {
    path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(SOURCE.rglob("*.py"))
}
KINDS = tomllib.loads((ROOT / "tests" / "house" / "kinds.toml").read_text(encoding="utf-8"))


def having(question: Callable[[ast.AST], bool]) -> set[str]:
    """Return the files in which a node is what is asked for."""
    return {name for name, tree in TREES.items() if any(map(question, ast.walk(tree)))}


def calls(*names: str) -> set[str]:
    """Return the files that call a function of one of these names."""
    return having(lambda node: isinstance(node, ast.Call) and name_of(node.func) in names)


def test_lines_that_branch_on_the_kind_of_network_do_not_grow() -> None:
    """A file may have as many as tests/house/kinds.toml says; `python tools/kinds.py` counts them.

    Who adds one asks first whether a value could answer: an empty tuple of norms needs no branch.
    Where lines move from one file to another, the list moves with them and its sum stays.
    """
    allowed = KINDS["files"]
    more = {
        name: len(lines) for name, lines in files().items() if len(lines) > allowed.get(name, 0)
    }
    assert more == {}, "more than tests/house/kinds.toml allows; `python tools/kinds.py` lists them"
    assert sum(allowed.values()) <= KINDS["most"]


def test_a_branch_is_seen_by_its_condition_and_not_by_its_words() -> None:
    """Comments, annotations and arguments are no branches; conditions of every form are."""
    seen = """
if config.softmax is None: ...
x = 1 if not layer.gated else 2
y = [z for z in zs if z.on_sequences]
w = config.cyclic is not None and more
weights.config.need_pairs("why")
match config:
    case MLPConfig(): ...
assert isinstance(config, SequenceConfig)
"""
    unseen = (
        "# if softmax is None\ngated: bool = f(softmax=None, on_sequences=True)\nx = config.gated\n"
    )
    assert branches(ast.parse(seen)) == {2, 3, 4, 5, 6, 9}
    assert branches(ast.parse(unseen)) == set()


def test_few_ask_whether_a_value_is_weights_or_tables() -> None:
    """No kind of network: what a caller may pass, and the floats or other numbers in tables."""

    def question(node: ast.AST) -> bool:
        classes = ("Weights", "Tables", "FloatTables")
        return (
            isinstance(node, ast.Call)
            and name_of(node.func) == "isinstance"
            and any(name_of(part) in classes for part in ast.walk(node.args[1]))
        )

    assert having(question) <= {
        "anything.py",
        "proofs/sequences/of_study.py",
        "network/tables.py",
    }


def test_the_residual_stream_is_written_out_in_few_places() -> None:
    """Values meet W_O in the forward passes, the collapse, and the training steps."""

    def question(node: ast.AST) -> bool:
        return (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.MatMult)
            and any(
                name_of(part) == "W_O" or getattr(part, "value", None) == "W_O"
                for side in (node.left, node.right)
                for part in ast.walk(side)
            )
        )

    places = {name for name in having(question) if not name.startswith("readers/")}
    assert places <= {
        "network/forward.py",
        "network/collapse.py",
        "network/sequence_forward.py",
        "training/cpu.py",
        "training/device.py",
        "training/sequence.py",
    }, places


def test_one_margin_and_one_fourier_transform() -> None:
    """The right answer is masked with -inf where margins are made, and nowhere else."""

    def masks(node: ast.AST) -> bool:
        return isinstance(node, ast.Assign) and ast.unparse(node.value) == "-np.inf"

    assert having(masks) <= {"network/margins.py"}
    assert calls("rfft", "irfft") == {"analysis/spectrum/fourier.py"}


def test_one_definition_of_key_frequency() -> None:
    """One per cent of the whole, in one place; who asks says of what."""
    drawn = "show/figures/beyond_waves.py"  # its caption quotes the share
    assert having(lambda node: name_of(node) == "KEY_SHARE") == {"analysis/spectrum/key.py", drawn}
    assert calls("is_key") == {
        "analysis/spectrum/cluster.py",
        "analysis/infinite_width/waves.py",
        "analysis/explanation/overview.py",
        drawn,
    }
