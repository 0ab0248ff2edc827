"""Tables in the paper's layout, ours and the paper's side by side; the page, LaTeX and CSV are views of one value."""

from dataclasses import dataclass

from quadlens.quadrature import MARKS, Bounds, Claim, Estimate, Exact, UpperBound, printed, shown, tables
from quadlens.studies import Results
from quadlens.table import Table, csv_text

LABELS = {
    "table_relative_error": "table:error",
    "table_abs_and_identity": "table:error:more",
    "table_relu": "table:error:relu",
}
CAPTIONS = {
    "table_relative_error": "Relative error of each frequency: the truth, and the bound computed in linear time",
    "table_abs_and_identity": "Error bounds by splitting ReLU into absolute value and identity components",
    "table_relu": "Error bounds for the ReLU function",
    "beyond_the_paper": "Beyond the paper: exact worst cases, suprema over all real s, and moment bounds",
}
# (title on the page, title in LaTeX, equation in the paper) by row name; titles as in the paper.
TITLES: dict[str, tuple[str, str, str]] = {
    "actual_error_brute_force": (
        "actual error (brute force)",
        r"$\varepsilon_{\int}/\varepsilon_0$ (actual error)",
        "abs-error",
    ),
    "bound_linear_time": (
        "error bound (linear time)",
        r"$(\varepsilon_{\approx\int} + \varepsilon_\phi)/\varepsilon_0$ (bound in linear time)",
        "abs-half-bound",
    ),
    "angle_approximation_error": (
        "Angle approximation error",
        "Angle approximation error",
        "angle-approximation-error",
    ),
}
for _part, _name in (("abs", "abs"), ("relu", "ReLU"), ("id", "id")):
    for _wave in ("cos", "sin"):
        _latex = rf"$\{_wave}$"
        TITLES[f"normalised_{_part}_{_wave}_error"] = (
            f"Normalised {_name} {_wave} error",
            f"Normalised {_name} {_latex} error",
            "abs-error",
        )
        TITLES[f"naive_{_part}_{_wave}_baseline"] = (
            f"Naive {_name} {_wave} baseline",
            f"Naive {_name} {_latex} baseline",
            "rel-error-baseline",
        )
    for _span, _page, _tex, _equation in (
        ("full", "∫ from −π to π", r"$\int_{-\pi}^{\pi}$", "abs-bound"),
        ("half", "∫ from 0 to π", r"$\int_{0}^{\pi}$", "abs-half-bound"),
    ):
        TITLES[f"numerical_{_part}_bound_{_span}"] = (
            f"Numerical {_name} {_page} bound",
            f"Numerical {_name} {_tex} bound",
            _equation,
        )
        TITLES[f"total_{_part}_bound_{_span}"] = (
            f"Total numerical {_name} {_page} bound",
            f"Total numerical {_name} {_tex} bound",
            f"{_equation} + angle-approximation-error",
        )


@dataclass(frozen=True)
class TableRow:
    """One line.

    Attributes:
        title: On the page.
        latex: In LaTeX.
        mark: = exact, ≤ proved bound, ≈ estimate, or nothing.
        ours: Cells with four digits; bounds are rounded up.
        ours_short: Cells with the paper's two digits.
        ours_full: Cells with every digit.
        paper: The paper's cells; "" where it prints nothing.
        equation: The paper's equation, by label.
    """

    title: str
    latex: str
    mark: str
    ours: tuple[str, ...]
    ours_short: tuple[str, ...]
    ours_full: tuple[str, ...]
    paper: tuple[str, ...]
    equation: str = ""


@dataclass(frozen=True)
class ReportTable:
    """A table of the page.

    Attributes:
        name: File name without suffix.
        label: Label in the paper, None if ours.
        caption: In words.
        corner: Above the row titles.
        columns: Our columns.
        paper_columns: The paper's columns.
        rows: The lines.
    """

    name: str
    label: str | None
    caption: str
    corner: str
    columns: tuple[str, ...]
    paper_columns: tuple[str, ...]
    rows: tuple[TableRow, ...]


def bound_tables(results: Results) -> tuple[ReportTable, ...]:
    """The paper's three tables and ours beyond them, over the key frequencies that are quadrature rules."""
    if not results.clusters:
        return ()
    made = []
    for table in tables(Bounds(results.p, results.clusters)):
        rows = []
        for row in table.rows:
            title, latex, equation = TITLES.get(row.name, (row.name.replace("_", " "),) * 2 + ("",))
            rows.append(
                TableRow(
                    title,
                    latex,
                    _mark(row.claims),
                    tuple(shown(claim, 4) for claim in row.claims),
                    tuple(shown(claim, 2) for claim in row.claims),
                    tuple(repr(printed(claim)) for claim in row.claims),
                    tuple(f"{value:.2f}" for value in row.paper or ()),
                    equation,
                )
            )
        columns, paper = tuple(f"k = {k}" for k in table.frequencies), tuple(str(k) for k in table.paper_frequencies)
        made.append(
            ReportTable(
                table.name.removeprefix("table_").replace("_", "-"),
                LABELS.get(table.name),
                CAPTIONS[table.name],
                "Error bound \\ frequency",
                columns,
                paper,
                tuple(rows),
            )
        )
    return tuple(made)


def _mark(claims: tuple[Claim, ...]) -> str:
    kinds = {Exact: "exact", UpperBound: "upper bound", Estimate: "estimate"}
    return "".join(sorted({MARKS[kinds[type(claim)]] for claim in claims}))


def plain_row(title: str, ours: str, paper: str = "", latex: str | None = None) -> TableRow:
    """A line with one number of ours and one of the paper."""
    return TableRow(title, latex or title, "", (ours,), (ours,), (ours,), (paper,))


def to_csv(table: ReportTable) -> str:
    """Every digit of ours, the paper's as printed."""
    kinds = {mark: kind for kind, mark in MARKS.items()}
    header = ["row", "kind", *table.columns, *(f"paper {name}".strip() for name in table.paper_columns)]
    return csv_text(
        header, ([row.title, kinds.get(row.mark, row.mark), *row.ours_full, *row.paper] for row in table.rows)
    )


def to_latex(table: ReportTable) -> str:
    """A booktabs table in the paper's layout: our columns, then the paper's, then the equation."""
    ours, theirs = len(table.columns), len(table.paper_columns)
    equations = any(row.equation for row in table.rows)
    header = [table.corner, *table.columns, *table.paper_columns, *["Equation"] * equations]
    rows = [
        [row.latex, *row.ours_short, *(row.paper or [""] * theirs), *[rf"$\texttt{{{row.equation}}}$"] * equations]
        for row in table.rows
    ]
    groups = (("", 1), ("this model", ours), ("the paper", theirs), *[("", 1)] * equations) if theirs else ()
    words = (0, len(header) - 1) if equations else (0,)
    made = Table(table.caption, header, rows, left=words, groups=groups)
    return made.to_latex(table.label or f"table:{table.name}")
