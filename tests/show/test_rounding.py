"""Numbers are printed through filters, and every filter's direction agrees with the kind of the
value it prints.

A lower bound that is printed is rounded down and an upper bound up, in templates and where Python
makes sentences. The test reads the templates' and the package's syntax trees; it knows the kind of
a value by its name, from the lists here. What a sentence says beside its numbers is not looked at.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import nodes

import quadlens
from quadlens.show.pages.page import template
from quadlens.show.templates import compiled, environment

PACKAGE = Path(quadlens.__file__).parent

# A path is the end of an expression: `one.proof.margin` ends in `proof.margin` and in `margin`; the
# longest counts.
AT_LEAST = frozenset({
    "margin", "min_margin", "margin_lower_bound", "accuracy_lower_bound", "certified_share",
    "lower",
    "phases.r2", "angle_r2", "phase_r2", "r2_angles", "fit.r2", "r2_offset",
    # of neurons: so much is explained by one frequency, for half of them, for every one
    "half", "every",
    "shares.mean",  # the share of inputs below a limit
})  # fmt: skip
AT_MOST = frozenset({
    "upper", "bound", "relative_bound.value", "moment_bound_psi.value",
    "total_abs_bound_half.value",
    "rules.absolute", "rules.relu", "rules.bound", "rules.moment", "exact", "worst", "self.size",
    "cost_share", "cost_share_beyond_collapse", "float32.error", "float32_error",
    "margin_attained", "worst_margin",
    "first",  # of frequencies at the start of training: no one has more
    "statement.self.margin",  # of an equivalence test: agreement to within so much
})  # fmt: skip
NEAREST = frozenset({
    # counts, and shares of counts
    "correct", "pairs", "certified_inputs", "total_flops", "count", "spectrum_epochs",
    "paper_inputs", "total",
    "accuracy", "neurons", "last",
    # measured
    "by_parts.r2", "clock", "pizza", "phi", "psi", "variance_input", "variance_output",
    "uncovered", "mean_deviation",
    "fit", "share", "share_W_L", "shares", "median_margin", "abs_component", "identity_component",
    "width_mean",
    "width_std", "moment", "offset", "area", "integral", "size", "dip", "low", "high", "angle",
    "slope", "double",
    "mark", "middles", "self.half",
    # thresholds, and numbers that the paper prints
    "named", "key_share", "drawn_r2", "threshold", "paper",
})  # fmt: skip
DIRECTIONS = (
    dict.fromkeys(AT_LEAST, "down")
    | dict.fromkeys(AT_MOST, "up")
    | dict.fromkeys(NEAREST, "nearest")
)
# Which way each printer rounds; `percent`, `decimals` and `significant` are told.
PRINTERS = {
    "at_least": "down", "margin": "down", "fit": "down", "at_most": "up", "bound": "up",
    "cost": "up",
    "of_mean_size": "up", "f": "nearest", "thousands": "nearest", "neglected": "nearest",
    "short_of_one": "nearest",
    "percent": "", "decimals": "", "significant": "",
}  # fmt: skip


def direction_of(path: str) -> str | None:
    """Which way a value may be rounded: by the longest end of its path that is known."""
    ends = [path.split(".", start)[-1] for start in range(path.count(".") + 1)]
    return next((DIRECTIONS[end] for end in ends if end in DIRECTIONS), None)


# ---- Templates ----


def templates() -> dict[str, str]:
    found = {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted((PACKAGE / "show" / "pages").glob("*.j2"))
    }
    found["explorer"] = (PACKAGE / "show" / "explorer" / "assets" / "page.html").read_text(
        encoding="utf-8"
    )
    figures = tomllib.loads(
        (PACKAGE / "show" / "figures" / "figures.toml").read_text(encoding="utf-8")
    )
    texts = ("title", "finding", "how_to_read")
    return found | {
        f"{name}.{text}": entry[text] for name, entry in figures.items() for text in texts
    }


def path_of(node: nodes.Node | None) -> str:
    """The dotted path of the value that is printed: without indices, factors of 100, and functions
    of it.
    """
    inner: nodes.Node | None
    match node:
        case nodes.Name():
            return str(node.name)
        case nodes.Call(node=nodes.Getattr(attr="max" | "min") as method):
            inner = method.node
        case nodes.Getattr():
            return f"{path_of(node.node)}.{node.attr}"
        case nodes.Getitem() | nodes.Call() | nodes.Filter():
            inner = node.node
        case nodes.Compare():
            inner = node.expr
        case nodes.BinExpr():
            inner = node.right if isinstance(node.left, nodes.Const) else node.left
        case _:
            return ""
    return path_of(inner)


def told(printer: nodes.Filter) -> str:
    """Which way a filter rounds."""
    options = [*printer.args, *(one.value for one in printer.kwargs)]
    words = [
        one.value for one in options if isinstance(one, nodes.Const) and one.value in ("down", "up")
    ]
    return PRINTERS[printer.name] or (words[0] if words else "nearest")


def wrong_in_template(text: str) -> Iterator[str]:
    tree = environment().parse(text)
    for printer in tree.find_all(nodes.Filter):
        if printer.name in PRINTERS:
            path = path_of(printer.node)
            wanted = direction_of(path)
            if wanted is None:
                unknown = "of no known kind; add the name to a list at the top of this file"
                yield f"{path} | {printer.name}: {unknown}"
            elif wanted != told(printer):
                yield f"{path} | {printer.name}: rounded {told(printer)}, expected {wanted}"
            if wanted != "nearest" and isinstance(printer.node, nodes.BinExpr):
                yield f"{path} is rounded twice: by floating point, and by {printer.name}"
    # What is put together by ~, or passed to a macro, is not seen by the guard against bare
    # numbers.
    joined = [part for one in tree.find_all(nodes.Concat) for part in one.nodes]
    passed = [part for one in tree.find_all(nodes.Call) for part in one.args]
    for part in joined + passed:
        if isinstance(part, nodes.Name | nodes.Getattr) and direction_of(path_of(part)) in (
            "down",
            "up",
        ):
            yield f"{path_of(part)} is joined without a filter"


@pytest.mark.parametrize("name", templates())
def test_a_templates_numbers_are_rounded_by_their_kind(name: str) -> None:
    """A number that is new in a template needs a row in one of the lists above: somebody says of
    what kind it is.
    """
    template("page.html.j2")  # its filters are those of every page
    assert list(wrong_in_template(templates()[name])) == []


@pytest.mark.parametrize(
    "text",
    [
        "{{ one.proof.margin | at_most(2) }}",
        "{{ proof.margin | decimals(2) }}",
        "{{ rules.absolute | at_least(1) }}",
        "{{ (100 * rules.absolute) | at_most(1) }}",
        "{{ certificate.cost_share | percent }}",
        "{{ first | percent(towards='down') }}",
        "{{ one.exact.absolute.upper | f('.3f') }}",
        "{{ one.number_nobody_knows | at_most(3) }}",
        "{{ one.exact.upper.max() | f('.3f') }}",
        "{{ 'at least ' ~ proof.margin }}",
        "{% macro fact(x) %}{{ x }}{% endmacro %}{{ fact(proof.margin) }}",
    ],
)
def test_a_wrong_direction_is_found(text: str) -> None:
    assert list(wrong_in_template(text))


def test_a_number_is_not_printed_without_a_filter() -> None:
    """Whatever its name: a count may be, a float or a fraction never."""
    text = "{{ x }} and {{ y }}"
    assert compiled(text).render(x="words", y=3) == "words and 3"
    for number in (0.5, Fraction(1, 3)):
        with pytest.raises(TypeError, match="without a filter"):
            compiled(text).render(x="words", y=number)


# ---- Sentences and tables that Python makes ----


def path_in_python(node: ast.expr | None) -> str:
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return f"{path_in_python(node.value)}.{node.attr}"
        case ast.Subscript():
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            return path_in_python(node.value) + (f".{key}" if isinstance(key, str) else "")
        case ast.Call(
            func=ast.Name(id="float" | "Fraction" | "min" | "max" | "abs"), args=[first, *_]
        ):
            return path_in_python(first)
        case ast.BinOp():
            return path_in_python(node.right if isinstance(node.left, ast.Constant) else node.left)
    return ""


def told_in_python(call: ast.Call, name: str) -> str:
    options = [*call.args, *(one.value for one in call.keywords)][1:]
    if any(not isinstance(one, ast.Constant) for one in options):
        return "as told"
    words = [
        one.value
        for one in options
        if isinstance(one, ast.Constant) and one.value in ("down", "up")
    ]
    return PRINTERS[name] or (str(words[0]) if words else "nearest")


def wrong_in_python(source: str, module: str) -> Iterator[str]:
    """Bounds that are rounded otherwise: measured numbers may be rounded away from a threshold,
    too.
    """
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in PRINTERS
            and node.args
        ):
            path, how = (
                f"{module}.{path_in_python(node.args[0])}",
                told_in_python(node, node.func.id),
            )
        elif isinstance(node, ast.FormattedValue) and re.search(
            r"\d[fgeE%]'", ast.unparse(node.format_spec or node)
        ):
            path, how = f"{module}.{path_in_python(node.value)}", "nearest"
        else:
            continue
        wanted = direction_of(path)
        if wanted in ("down", "up") and how not in (wanted, "as told"):
            yield f"line {node.lineno}: {path} is rounded {how}, expected {wanted}"
        if isinstance(node, ast.Call) and how in ("down", "up") and rounds_before(node.args[0]):
            rounded = ast.unparse(node.args[0])
            yield f"line {node.lineno}: {rounded} is rounded by floating point first"


def rounds_before(node: ast.expr) -> bool:
    """Whether it is a product that floats round: one with a Fraction is exact."""
    return isinstance(node, ast.BinOp) and "Fraction(" not in ast.unparse(node)


SOURCES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}


def test_python_rounds_bounds_by_their_kind() -> None:
    wrong = [
        f"{name}, {one}"
        for name, path in SOURCES.items()
        for one in wrong_in_python(path.read_text(encoding="utf-8"), path.stem)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "source",
    [
        "at_most(proof.margin, 2)",
        "decimals(value['margin_lower_bound'])",
        "percent(certificate.cost_share, 1, 'down')",
        "decimals(100 * one.exact.upper, 2)",
        "f'at least {proof.margin:.3f}'",
        "f'{evaluation.min_margin:.6g}'",
        "fit(one.upper)",
        "decimals(100 * share, 2, 'down')",
    ],
)
def test_a_wrong_direction_in_python_is_found(source: str) -> None:
    assert list(wrong_in_python(source, "module"))


# ---- The filters themselves ----

CALLS = {
    "at_least": "x | at_least(3)",
    "margin": "x | margin",
    "fit": "x | fit",
    "at_most": "x | at_most(3)",
    "bound": "x | bound",
    "cost": "x | cost",
    "f": "x | f('.3f')",
    "percent": "x | percent",
    "percent down": "x | percent(1, 'down')",
    "percent up": "x | percent(towards='up')",
    "decimals": "x | decimals(2)",
    "decimals up": "x | decimals(2, 'up')",
}


@pytest.mark.parametrize("name", CALLS)
@given(x=st.floats(-1e6, 1e6))
def test_a_filter_rounds_the_way_it_says(name: str, x: float) -> None:
    printed = compiled(f"{{{{ {CALLS[name]} }}}}").render(x=x)
    share, exact = printed.endswith(" %"), Fraction(x)
    said = Fraction(printed.removesuffix(" %")) / (100 if share else 1)
    filter_, _, towards = name.partition(" ")
    direction = towards or PRINTERS[filter_] or "nearest"
    if share and direction == "nearest" and Fraction(999, 1000) <= said and exact < 1:
        assert said < 1  # only perfection reads as 100 %
        return
    assert {"down": said <= exact, "up": said >= exact}.get(direction, True)
    if filter_ == "bound":  # four significant digits
        assert abs(said - exact) <= abs(exact) / 1000
    else:
        last = Fraction(1, 10 ** len(printed.removesuffix(" %").partition(".")[2])) / (
            100 if share else 1
        )
        assert abs(said - exact) <= last / (2 if direction == "nearest" else 1)
