"""Print what a module reaches: the share of src that it imports, directly or not.

    python tools/reach.py              every module that reaches more than a third, and every cycle
    python tools/reach.py MODULE       what a module reaches, largest first

An import in a function counts, and so does a string that is a module's name; one under
TYPE_CHECKING does not, nor the names in `quadlens/__init__.py`, which imports what is asked for.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


@dataclass(frozen=True)
class Graph:
    """The modules of a tree and what each imports.

    Attributes:
        size: The characters of each module.
        imports: The modules that each module names.
        reached: The modules that each module imports, directly or not; itself is one.
    """

    size: Mapping[str, int]
    imports: Mapping[str, frozenset[str]]
    reached: Mapping[str, frozenset[str]]

    def share(self, name: str) -> float:
        """How much of all characters a module reaches."""
        return sum(self.size[other] for other in self.reached[name]) / sum(self.size.values())

    def cycles(self) -> set[frozenset[str]]:
        """Modules that reach one another; a module alone is none."""
        every = {
            frozenset(other for other in self.reached[name] if name in self.reached[other])
            for name in self.size
        }
        return {cycle for cycle in every if len(cycle) > 1}


def graph_of(source: Path = SOURCE) -> Graph:
    """The graph of all modules below a folder."""
    files = {}
    for file in sorted(source.rglob("*.py")):
        parts = file.relative_to(source).with_suffix("").parts
        files[".".join(parts).removesuffix(".__init__")] = file
    texts = {name: file.read_text(encoding="utf-8") for name, file in files.items()}
    known = frozenset(files)
    imports = {
        name: frozenset(imported(ast.parse(text), name, known, strings="." in name)) - {name}
        for name, text in texts.items()
    }
    return Graph({name: len(text) for name, text in texts.items()}, imports, closure(imports))


def imported(
    tree: ast.AST, name: str, known: frozenset[str], strings: bool = True
) -> Iterator[str]:
    """The known modules that a piece of a module imports or names."""
    if isinstance(tree, ast.If) and "TYPE_CHECKING" in ast.unparse(tree.test):
        for branch in tree.orelse:
            yield from imported(branch, name, known, strings)
        return
    if (
        strings
        and isinstance(tree, ast.Constant)
        and isinstance(tree.value, str)
        and tree.value in known
    ):
        yield tree.value
    if isinstance(tree, ast.Import):
        yield from (alias.name for alias in tree.names if alias.name in known)
    if isinstance(tree, ast.ImportFrom):
        if tree.level:
            raise ValueError(f"{name} has a relative import, which nothing here does")
        for alias in tree.names:
            full = f"{tree.module}.{alias.name}"
            yield from (
                one
                for one in (full, tree.module or "")
                if one in known and (one == full or full not in known)
            )
    for child in ast.iter_child_nodes(tree):
        yield from imported(child, name, known, strings)


def closure(imports: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """What each module imports, directly or not."""
    reached = {}
    for name in imports:
        seen, left = {name}, [name]
        while left:
            new = imports[left.pop()] - seen
            seen |= new
            left += new
        reached[name] = frozenset(seen)
    return reached


def main() -> None:
    """Print what is asked for."""
    graph = graph_of()
    for name in sys.argv[1:]:
        for other in sorted(graph.reached[name], key=lambda one: -graph.size[one]):
            print(f"{graph.size[other]:7} {other}")
        print(f"{name}: {graph.share(name):.1%}")
    if not sys.argv[1:]:
        for name in sorted(graph.size, key=lambda one: -graph.share(one)):
            if graph.share(name) > 1 / 3:
                print(f"{graph.share(name):6.1%} {name}")
        for cycle in sorted(graph.cycles(), key=len):
            print("cycle:", ", ".join(sorted(cycle)))


if __name__ == "__main__":
    main()
