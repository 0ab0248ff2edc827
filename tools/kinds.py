"""Count the lines of src that branch on the kind of network, by its syntax trees.

    python tools/kinds.py              the lines of each file, as tests/house/kinds.toml lists them
    python tools/kinds.py FILE         the lines themselves, of the files whose path ends like this

A kind is what a network is made of: two operands or a word, constant attention or softmax, norms,
one layer or several, a residual stream or one-hot tokens, a task with or without frequencies.
A line branches when a condition on it asks for a kind, or when it demands one (`need_pairs`).
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
# What says the kind of a network wherever a condition has it.
QUESTIONS = frozenset(
    {
        *("on_sequences", "has_stream", "is_collapsed", "is_additive", "gated"),
        *("no_tables", "no_collapse", "no_waves", "attends", "attention_kind", "adds_by"),
        *("is_group", "is_addition"),
    }
)
# What says it where it is there or None.
OPTIONAL = frozenset({"softmax", "cyclic"})
# What refuses every other kind, or chooses by it, wherever it is called.
DEMANDS = frozenset({"need_pairs", "need_stream", "by_kind"})
CONFIGS = frozenset({"Config", "MLPConfig", "SequenceConfig"})


def name_of(node: ast.AST) -> str:
    """Return the last name of `a.b.name` or `name`; of anything else, no name."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def conditions(node: ast.AST) -> list[ast.expr]:
    """Return the expressions that decide what a node does."""
    found: list[ast.expr | None] = []
    match node:
        case ast.If() | ast.IfExp() | ast.While() | ast.Assert():
            found = [node.test]
        case ast.BoolOp():
            found = [*node.values]
        case ast.comprehension():
            found = [*node.ifs]
        case ast.Match():
            found = [node.subject]
        case ast.match_case():
            found = [node.guard]
        case ast.Compare():
            found = [node]
        case ast.UnaryOp(op=ast.Not()):
            found = [node.operand]
    return [one for one in found if one is not None]


def asks(condition: ast.AST) -> Iterator[int]:
    """Yield the lines of a condition that ask for the kind of a network."""
    for node in ast.walk(condition):
        if isinstance(node, ast.Attribute | ast.Name) and name_of(node) in QUESTIONS:
            yield node.end_lineno or node.lineno
        if isinstance(node, ast.Compare) and name_of(node.left) in OPTIONAL:
            yield from [node.lineno for one in node.comparators if ast.unparse(one) == "None"]
        if isinstance(node, ast.Call) and name_of(node.func) == "isinstance":
            yield from [node.lineno for one in ast.walk(node.args[1]) if name_of(one) in CONFIGS]


def branches(tree: ast.AST) -> set[int]:
    """Return the numbers of the lines of a module that branch on the kind of network."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        for condition in conditions(node):
            lines.update(asks(condition))
        if isinstance(node, ast.Call) and name_of(node.func) in DEMANDS:
            lines.add(node.lineno)
    return lines


def files(source: Path = SOURCE) -> dict[str, set[int]]:
    """Return the lines of each file below a folder that has any, by its path there."""
    found = {
        path.relative_to(source).as_posix(): branches(ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(source.rglob("*.py"))
    }
    return {name: lines for name, lines in found.items() if lines}


def main() -> None:
    """Print what is asked for."""
    found = files()
    if len(sys.argv) == 1:
        print("\n".join(f'"{name}" = {len(lines)}' for name, lines in found.items()))
        print(f"# {sum(map(len, found.values()))} lines in {len(found)} files")
    for name in (name for name in found if name.endswith(tuple(sys.argv[1:]))):
        text = (SOURCE / name).read_text(encoding="utf-8").splitlines()
        print("\n".join(f"{name}:{line}: {text[line - 1].strip()}" for line in sorted(found[name])))


if __name__ == "__main__":
    main()
