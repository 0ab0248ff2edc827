"""What a module reaches (`tools/reach.py`): by its imports, and by what a process loads."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from tools.reach import SOURCE, closure, graph_of, imported

import quadlens
from quadlens.base.door import DOOR
from quadlens.show.figures.registry import FIGURES

GRAPH = graph_of()
SHOW = ("cli", "show")
MOST_OF_A_FIGURE, MOST, LARGEST_CYCLE = 0.30, 0.45, 3


def trees() -> dict[str, ast.Module]:
    """Every module of the package but the door, parsed."""
    files = {
        path.relative_to(SOURCE).as_posix(): path for path in (SOURCE / "quadlens").rglob("*.py")
    }
    del files["quadlens/__init__.py"]
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in files.items()}


def test_no_figure_reaches_more_than_its_share() -> None:
    shares = {
        name: GRAPH.share(name) for name in GRAPH.size if name.startswith("quadlens.show.figures")
    }
    assert {name: share for name, share in shares.items() if share > MOST_OF_A_FIGURE} == {}


def test_no_module_reaches_half_of_the_house() -> None:
    inner = [name for name in GRAPH.size if name.split(".")[1:2] not in [[room] for room in SHOW]]
    assert {name: GRAPH.share(name) for name in inner if GRAPH.share(name) > MOST} == {}


def test_no_cycle_joins_more_than_three_modules() -> None:
    assert [sorted(cycle) for cycle in GRAPH.cycles() if len(cycle) > LARGEST_CYCLE] == []


def test_nobody_inside_goes_through_the_door() -> None:
    """No module imports `quadlens` itself, or a name from it that is no module."""
    through = [
        f"{name} imports {alias.name}"
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if (isinstance(node, ast.Import) and alias.name.split(".")[0] == "quadlens")
        or (
            getattr(node, "module", "") == "quadlens" and f"quadlens.{alias.name}" not in GRAPH.size
        )
    ]
    assert through == []


def test_only_the_door_imports_by_name() -> None:
    """Figures and commands are lists that the door loads from; parts are the door's table."""
    words = {
        name: {
            node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
            for node in ast.walk(tree)
        }
        for name, tree in trees().items()
    }
    assert [name for name, used in words.items() if used & {"import_module", "__import__"}] == []
    loading = {name for name, tree in trees().items() if "DOOR.load" in ast.unparse(tree)}
    lists = ("show/figures/__init__", "show/figures/registry", "cli/main", "cli/options")
    assert loading == {f"quadlens/{name}.py" for name in lists}


def test_nobody_inside_uses_the_names_that_are_for_users() -> None:
    """A part is `study.once(part_of)`: `study.part` would hide what is reached."""
    names = DOOR.parts.keys() | DOOR.methods.keys()
    used = [
        f"{name}:{node.lineno} {node.value.id}.{node.attr}"
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in names
        if isinstance(node.value, ast.Name) and node.value.id in ("study", "results", "subject")
    ]
    assert used == []


def test_a_study_has_few_public_names() -> None:
    public = {name for name in dir(quadlens.study("pizza")) if not name.startswith("_")}
    assert len(public) <= 25
    assert not public & {
        "no_lens",
        "lens_if_any",
        "prover",
        "shown",
        "prepare",
        "about",
        "axis",
        "with_proofs",
    }


def test_every_part_has_its_function_and_its_type() -> None:
    from quadlens.network.named import Named

    typed = Named.__annotations__.keys() | {
        name for name in vars(Named) if not name.startswith("_")
    }
    assert typed == DOOR.parts.keys() | DOOR.methods.keys()
    assert all(callable(DOOR.part_named(name)) for name in typed)


LOADED = """
import sys
import matplotlib; matplotlib.use("agg")
import quadlens
try:
    quadlens.figures.{function}("{model}")
except quadlens.QuadlensError as error:
    assert "{model}" == "pizza", error
modules = [module for name, module in list(sys.modules.items()) if name.split(".")[0] == "quadlens"]
files = {{getattr(module, "__file__", None) for module in modules}}
print(sum(len(open(file, encoding="utf-8").read()) for file in files if file))
"""


@pytest.mark.slow
@pytest.mark.parametrize("family", FIGURES, ids=lambda family: family.name)
def test_a_figure_loads_no_more_than_its_share(family: object) -> None:
    """Draw in a fresh process; a figure that a model has not loads what it needs to say so.

    The checker is another distribution, which is loaded whole where one of its limits is read.
    """
    function = family.draw.__name__  # type: ignore[attr-defined]
    model = {"sequence_axis": "adder", "gates": "clock"}.get(function, "pizza")
    code = LOADED.format(function=function, model=model)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) / sum(GRAPH.size.values()) <= MOST_OF_A_FIGURE, function


def test_an_import_is_seen_in_a_function_and_in_a_string_and_not_for_types() -> None:
    known = frozenset({"a", "a.b", "a.c", "a.d", "a.e"})
    text = (
        "if TYPE_CHECKING:\n    import a.e\n"
        "def f():\n    from a import b\n    return 'a.c'\nfrom a.d import x\n"
    )
    assert set(imported(ast.parse(text), "a.x", known)) == {"a.b", "a.c", "a.d"}
    assert set(imported(ast.parse(text), "a", known, strings=False)) == {"a.b", "a.d"}
    reached = closure({"a": frozenset({"b"}), "b": frozenset({"a", "c"}), "c": frozenset()})
    assert reached["a"] == reached["b"] == {"a", "b", "c"}
    assert reached["c"] == {"c"}


def test_a_study_of_another_version_is_refused(tmp_path: Path) -> None:
    """Pickled before parts were functions, or with other fields."""
    from quadlens.base.errors import BadFile
    from quadlens.network.study import Study
    from quadlens.studies.study import Study as OlderStudy

    with pytest.raises(
        BadFile, match=r"older version of quadlens; make it again with quadlens\.study"
    ):
        OlderStudy().__setstate__({"anatomy": None})
    with pytest.raises(BadFile, match=r"another version of quadlens.*quadlens\.study"):
        Study.__new__(Study).__setstate__({"anatomy": None, "name": "pizza"})
