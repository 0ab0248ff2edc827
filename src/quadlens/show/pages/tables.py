"""Tables of the page.

They are the paper's, in its layout, and the numbers it prints in its text, with ours beside them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.resources import files

from quadlens.analysis.explanation.of_study import explanation_of
from quadlens.analysis.logits.of_study import skip_shares_of
from quadlens.analysis.published import MODELS, MODELS_IN_FIGURES, read_population, read_published
from quadlens.analysis.quadrature import Bounds, ClaimTable, tables, text_table
from quadlens.analysis.quadrature.of_study import rule_clusters
from quadlens.analysis.spectrum.of_study import keys_of, no_waves
from quadlens.base.numbers import NONE, decimals, fit
from quadlens.base.reading import parse_toml
from quadlens.base.table import Table
from quadlens.network.study import Study

LABELS = {
    "table_relative_error": "table:error",
    "table_abs_and_identity": "table:error:more",
    "table_relu": "table:error:relu",
}
CAPTIONS = {
    "table_relative_error": (
        "Relative error of each frequency: the truth, and the bound computed in linear time"
    ),
    "table_abs_and_identity": (
        "Error bounds by splitting ReLU into absolute value and identity components"
    ),
    "table_relu": "Error bounds for the ReLU function",
    "beyond_the_paper": (
        "Beyond the paper: exact worst cases, suprema over all real s, and moment bounds"
    ),
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

OWN_TITLES: dict[str, str] = parse_toml(
    (files(__package__) / "rows.toml").read_bytes(), "rows.toml"
)

POPULATION_FACTS = (
    ("models_all_neuron_frequencies_match", "good models: all neuron frequencies match"),
    ("models_with_1_to_9_mismatched_neurons", "models with 1 to 9 neurons that do not match"),
    ("good_models_all_angle_r2_above_0.9", "good models with all angle R² above 0.9"),
    (
        "good_models_mean_interval_width_above_std",
        "good models with mean gap above its standard deviation",
    ),
    ("good_model_frequency_pairs", "(good model, frequency) pairs"),
    ("pairs_all_four_errors_below_0.1", "of these with all four errors below 0.1"),
    ("median_abs_bound_of_those_pairs", "median bound of those pairs"),
    ("share_of_those_bounds_below_naive", "share of those bounds below the naive one"),
)


@dataclass(frozen=True)
class PageTable:
    """One table of the page and of its files.

    Attributes:
        name: File name without suffix.
        label: Label in the paper, None if ours.
        shown: On the page.
        csv: The CSV file: every digit.
        latex: The LaTeX file in the paper's layout, of the paper's own tables.
    """

    name: str
    label: str | None
    shown: Table
    csv: str
    latex: str | None = None


def page_tables(study: Study) -> tuple[PageTable, ...]:
    """Every table of the page."""
    if study.once(no_waves) is not None:
        return ()
    return (*bound_tables(study), model_table(study), population_table(study))


def table_files(study: Study) -> dict[str, bytes]:
    """`tables/NAME.csv` of every table, and `tables/NAME.tex` of the paper's own."""
    tables = page_tables(study)
    latex = {
        f"tables/{table.name}.tex": table.latex.encode()
        for table in tables
        if table.latex is not None
    }
    return {f"tables/{table.name}.csv": table.csv.encode() for table in tables} | latex


def bound_tables(study: Study) -> tuple[PageTable, ...]:
    """Return the paper's three tables and ours beyond them.

    Columns are the key frequencies that are quadrature rules.
    """
    if not study.once(rule_clusters):
        return ()
    return tuple(
        _bound_table(claims) for claims in tables(Bounds(study.p, study.once(rule_clusters)))
    )


def _bound_table(claims: ClaimTable) -> PageTable:
    """Return a table of bounds for the page, for CSV and for LaTeX.

    The page has four digits and CSV every digit. LaTeX is of the paper's own tables: its two digits
    and its equations.
    """
    titles = [TITLES.get(row.name) or (OWN_TITLES[row.name],) * 2 + ("",) for row in claims.rows]
    shown, precise = text_table(claims), text_table(claims, None)
    corner, caption, label = (
        "Error bound \\ frequency",
        CAPTIONS[claims.name],
        LABELS.get(claims.name),
    )
    columns = [f"k = {k}" for k in claims.frequencies] + [str(k) for k in claims.paper_frequencies]
    sides = (("this model", len(claims.frequencies)), ("the paper", len(claims.paper_frequencies)))
    named = [[title, *row[1:]] for (title, _, _), row in zip(titles, precise.rows, strict=True)]
    return PageTable(
        claims.name.removeprefix("table_").replace("_", "-"),
        label,
        replace(
            shown,
            title=caption,
            header=[corner, "", *columns],
            rows=[[title, *row[1:]] for (title, _, _), row in zip(titles, shown.rows, strict=True)],
            groups=(("", 2), *sides) if label else (),
        ),
        replace(precise, rows=named).to_csv(),
        None
        if label is None
        else _in_papers_layout(claims, titles, [corner, *columns, "Equation"], sides),
    )


def _in_papers_layout(
    claims: ClaimTable,
    titles: list[tuple[str, str, str]],
    header: list[str],
    sides: tuple[tuple[str, int], ...],
) -> str:
    """LaTeX with two digits, and the equation of each row at its end."""
    short = text_table(claims, 2, marks=False)
    rows = [
        [latex, *row[1:], rf"$\texttt{{{equation}}}$"]
        for (_, latex, equation), row in zip(titles, short.rows, strict=True)
    ]
    made = replace(
        short,
        title=CAPTIONS[claims.name],
        header=header,
        rows=rows,
        left=(0, len(header) - 1),
        dim=(),
    )
    return replace(made, groups=(("", 1), *sides, ("", 1))).to_latex(LABELS[claims.name])


def model_table(study: Study) -> PageTable:
    """Key frequencies, regressions and coefficients, ours and the paper's mainline model's."""
    explanation, paper = study.once(explanation_of), read_published()
    sizes = {cluster.k: len(cluster.neurons) for cluster in explanation.clusters}
    ours = _by_key((k, sizes[k]) for k in study.once(keys_of))
    rows = [("neurons of each key frequency", ours, _by_key(paper.key_neurons))]
    logits = explanation.logits
    if logits is not None:
        r2, form = logits.r2, logits.forms.by_parts
        fits = (
            r2.all_logits.pizza,
            r2.all_logits.clock,
            r2.abs_component.pizza,
            r2.abs_component.clock,
        )
        names = [
            f"R² of {part}, {kind} form"
            for part in ("all logits", "the absolute part")
            for kind in ("pizza", "clock")
        ]
        for name, fitted, published in zip(names, fits, paper.r2, strict=True):
            rows.append((name, decimals(fitted), f"{published:.2f}"))
        for letter, coefficients, theirs in (("C", form.C, paper.C), ("D", form.D, paper.D)):
            ours = _by_key(
                (k, decimals(float(x), 1)) for k, x in zip(form.keys, coefficients, strict=True)
            )
            rows.append((f"coefficient {letter} of each key frequency", ours, _by_key(theirs)))
        if study.once(skip_shares_of) is not None:
            name = "skip connection's share of the logits' variance"
            limit = paper.population.fact("residual_stream_variance_share_mostly_below")
            rows.append((name, decimals(logits.skip_share, 4), f"mostly below {limit}"))
    key_phases = [phases for phases in explanation.phases if phases.k in study.once(keys_of)]
    least = min((phases.r2 for phases in key_phases if phases.r2 is not None), default=None)
    widths = (
        ", ".join(
            f"{phases.spacing.width_mean:.3f} ± {phases.spacing.width_std:.3f}"
            for phases in key_phases[:8]
        )
        or NONE
    )
    first, doubled = paper.key_neurons[0][0], "{} to {} (population)".format(*paper.doubled)
    rows += [
        ("least R² of ψ = 2φ", fit(least), f"above {paper.angle_r2} (k = {first})"),
        (
            "gaps between phases, mean ± std",
            widths,
            "{} ± {} (k = {})".format(*paper.angle_widths, first),
        ),
        ("share of neurons with secondary = 2k", decimals(explanation.doubling.share), doubled),
    ]
    caption = "What the paper says in its text about its mainline model, and this model"
    table = Table(caption, ("quantity", "this model", "the paper"), rows, dim=(2,))
    return PageTable("model-facts", None, table, table.to_csv())


def _by_key(values: Iterable[tuple[int, object]]) -> str:
    """One value for each key frequency."""
    return ", ".join(f"{k}: {value}" for k, value in values) or NONE


def population_table(study: Study) -> PageTable:
    """The population statements of the paper's appendix, and ours where there are any."""
    paper, ours = read_published().population, read_population()
    header = ("statement", f"ours ({ours.models} models)", "the paper")
    rows = []
    for key, title in POPULATION_FACTS:
        of_ours, of_paper = ours.fact(key), paper.fact(key)
        rows.append(
            (
                title,
                "–" if of_ours is None else f"{of_ours:g}",
                "" if of_paper is None else f"{of_paper:g}",
            )
        )
    caption = (
        f"The paper's statements about its {MODELS} models (its figures count {MODELS_IN_FIGURES})"
    )
    table = Table(caption, header, rows, dim=(2,))
    return PageTable("population-facts", None, table, table.to_csv())
