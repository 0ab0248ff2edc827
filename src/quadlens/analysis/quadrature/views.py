"""The paper's three tables and one of our own, as values with several views."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from quadlens.analysis.published import as_printed, read_published
from quadlens.analysis.quadrature.analysis import Bounds, ClusterBounds
from quadlens.analysis.quadrature.claims import (
    MARKS,
    Claim,
    Estimate,
    Exact,
    claim_to_dict,
    printed,
    shown,
)
from quadlens.analysis.quadrature.integrals import half_of
from quadlens.analysis.quadrature.paper_bounds import relu_by_largest_half
from quadlens.base.table import Table

# What the words in the names of our own rows mean.
LEGEND = (
    "abs, id, relu: the error of the sum with |x|, with x and with ReLU(x); psi: with the model's "
    "own output phases ψ, "
    "else with 2φ; exact: worst case over all a, b and every real angle in place of kwc, or "
    "integer c only; supremum: "
    "over every real s too; relative: over the mean size of that function's integral, |x| where "
    "none is named."
)
# Rows that the paper takes from the largest half of the rectangles, in the order in which they are
# computed.
PAPERS_RELU_RULE = (
    "numerical_relu_bound_full",
    "numerical_relu_bound_half",
    "total_relu_bound_full",
    "total_relu_bound_half",
)


@dataclass(frozen=True)
class Row:
    """One line: a claim for each frequency, and what the paper printed.

    Attributes:
        name: As in published.json, or ours.
        claims: One per cluster.
        paper: The paper's numbers for its own frequencies; None for rows it does not have.
    """

    name: str
    claims: tuple[Claim, ...]
    paper: tuple[float, ...] | None

    @property
    def kind(self) -> str:
        """The kind of the row's claims; one kind per row."""
        return " / ".join(sorted({claim.kind for claim in self.claims}))


@dataclass(frozen=True)
class ClaimTable:
    """A table in the paper's layout, each number a claim.

    Attributes:
        name: Key in published.json, or "beyond_the_paper".
        title: In a few words.
        frequencies: Our columns.
        paper_frequencies: The paper's columns, () if it has no such table.
        rows: The lines.
        legend: What the words in the names of rows mean, where they are ours.
    """

    name: str
    title: str
    frequencies: tuple[int, ...]
    paper_frequencies: tuple[int, ...]
    rows: tuple[Row, ...]
    legend: str = ""


def tables(bounds: Bounds) -> tuple[ClaimTable, ...]:
    """Relative errors, absolute value and identity, ReLU; then what goes beyond the paper."""
    clusters = bounds.bounded
    return (
        _paper_table("table_relative_error", "Relative error", clusters, _relative_row),
        _paper_table("table_abs_and_identity", "Absolute value and identity", clusters, _paper_row),
        _paper_table("table_relu", "ReLU", clusters, _paper_row),
        _own_table(clusters),
    )


def papers_cells(made: tuple[ClaimTable, ...]) -> tuple[int, int] | None:
    """Count the paper's printed numbers that ours agree with, to its digits, and all of them.

    Its baselines are left out.

    None for a model whose key frequencies are not those of the paper's.
    """
    cells = [
        (printed(claim), *as_printed(theirs))
        for table in made
        if table.frequencies == table.paper_frequencies
        for row in table.rows
        if row.paper is not None and "baseline" not in row.name
        for claim, theirs in zip(row.claims, row.paper, strict=True)
    ]
    return (sum(low <= ours <= high for ours, low, high in cells), len(cells)) if cells else None


def by_papers_relu_rule(
    made: tuple[ClaimTable, ...], bounds: Bounds, boundary: int
) -> tuple[ClaimTable, ...]:
    """Return the tables with ReLU bounds by the paper's rule, which are estimates.

    Args:
        made: The tables of `tables(bounds)`.
        bounds: What they are about.
        boundary: Rectangles added for the ends of a half circle; the paper does not say how many.
    """
    rules = [_papers_relu_rule(cluster, boundary) for cluster in bounds.bounded]
    return tuple(
        replace(
            table,
            rows=tuple(
                replace(row, claims=tuple(rule[row.name] for rule in rules))
                if table.name == "table_relu" and row.name in PAPERS_RELU_RULE
                else row
                for row in table.rows
            ),
        )
        for table in made
    )


def papers_cells_by_relu_rule(bounds: Bounds) -> tuple[int, ...]:
    """Count the paper's numbers that agree by its ReLU rule, with 0, 1 and 2 extra rectangles."""
    made = tables(bounds)
    counts = [papers_cells(by_papers_relu_rule(made, bounds, boundary)) for boundary in (0, 1, 2)]
    return tuple(agree for agree, _ in filter(None, counts))


def _papers_relu_rule(cluster: ClusterBounds, boundary: int) -> dict[str, Claim]:
    angle = cluster.rows.angle_approximation_error.value
    whole, folded = (relu_by_largest_half(cluster.scheme, half, boundary) for half in (False, True))
    values = (whole.value, folded.value, whole.value + angle, 2 * folded.value + angle)
    return {
        name: Estimate(value, whole.how)
        for name, value in zip(PAPERS_RELU_RULE, values, strict=True)
    }


def text_table(table: ClaimTable, digits: int | None = 4, marks: bool = True) -> Table:
    """The table as text, the paper's numbers behind ours; None for every digit of ours.

    With marks a column says what the numbers of a row are: = exact, ≤ bound, ≈ estimate.
    """
    name = "k=" if digits is None else ""
    ours, theirs = (
        [f"k={k}" for k in table.frequencies],
        [f"paper {name}{k}" for k in table.paper_frequencies],
    )
    rows = []
    for row in table.rows:
        cells = [
            repr(printed(claim)) if digits is None else shown(claim, digits) for claim in row.claims
        ]
        paper = [f"{value:.2f}" for value in row.paper] if row.paper else [""] * len(theirs)
        kind = [row.kind if digits is None else MARKS.get(row.kind, "?")] * marks
        rows.append([row.name, *kind, *cells, *paper])
    header, labels = ["row", *["kind" if digits is None else ""] * marks, *ours, *theirs], 1 + marks
    dim = range(labels + len(ours), len(header))
    return Table(
        table.title, header, rows, labels=labels, left=range(labels), dim=dim, caption=table.legend
    )


def to_json(bounds: Bounds) -> dict[str, Any]:
    """Return what `quadlens bounds --json` prints.

    `claims` holds every number with its kind, assumptions and cost.
    """
    clusters: list[dict[str, Any]] = []
    for cluster in bounds.clusters:
        if isinstance(cluster, ClusterBounds):
            clusters.append(_cluster_json(cluster))
        else:
            clusters.append(
                {"k": cluster.k, "neurons": cluster.neurons, "rows": {}, "no_bound": cluster.reason}
            )
    # The first cluster's; everyone's where no k shares a factor with p. Each cluster has its own
    # beside it.
    baselines = [cluster.baseline.middle for cluster in bounds.bounded]
    same = papers_cells(tables(bounds))
    return {
        "p": bounds.p,
        "baseline": baselines[0] if baselines else None,
        "papers_numbers": None
        if same is None
        else {
            "agree": same[0],
            "printed": same[1],
            "agree_by_papers_relu_rule": list(papers_cells_by_relu_rule(bounds)),
        },
        "clusters": clusters,
    }


def _cluster_json(cluster: ClusterBounds) -> dict[str, Any]:
    rows = {field.name: getattr(cluster.rows, field.name) for field in fields(cluster.rows)}
    beyond = {name: claim for name, claim in own_claims(cluster).items() if claim is not None}
    return {
        "k": cluster.k,
        "neurons": cluster.neurons,
        "baseline": cluster.baseline.middle,
        "rows": {name: printed(claim) for name, claim in rows.items()},
        **{
            name: None if claim is None else printed(claim)
            for name, claim in own_claims(cluster).items()
        },
        "moments": cluster.moments,
        "claims": {name: claim_to_dict(claim) for name, claim in (rows | beyond).items()},
    }


def own_claims(cluster: ClusterBounds) -> dict[str, Claim | None]:
    """Return the claims beyond the paper's rows, by JSON key."""
    named: dict[str, Claim | None] = {
        "relative_error": cluster.relative_error,
        "relative_bound": cluster.relative_bound,
        "relative_exact": cluster.relative_exact,
        "relative_exact_psi": cluster.relative_exact_psi,
        "relative_exact_relu_psi": cluster.exact_psi.relu.relative_to(half_of(cluster.baseline)),
        "relative_moment_bound": cluster.relative_moment_bound,
        "relative_moment_bound_psi": cluster.relative_moment_bound_psi,
        "exact_abs_error": cluster.exact.absolute,
        "exact_abs_error_integer_c": cluster.exact.absolute_integer_c,
        "exact_id_error": cluster.exact.identity,
        "exact_relu_error": cluster.exact.relu,
        "exact_abs_error_psi": cluster.exact_psi.absolute,
        "exact_id_error_psi": cluster.exact_psi.identity,
        "exact_relu_error_psi": cluster.exact_psi.relu,
        "moment_bound": cluster.moment_bound,
        "moment_bound_psi": cluster.moment_bound_psi,
    }
    for suffix, suprema in (("", cluster.supremum), ("_psi", cluster.supremum_psi)):
        for field in fields(suprema):
            short = {"absolute": "abs", "identity": "id"}.get(field.name, field.name)
            named[f"supremum_{short}_error{suffix}"] = getattr(suprema, field.name)
    return named


def _paper_table(
    name: str,
    title: str,
    clusters: tuple[ClusterBounds, ...],
    claim_of: Callable[[ClusterBounds, str], Claim],
) -> ClaimTable:
    published = read_published().table(name)
    rows = tuple(
        Row(row, tuple(claim_of(cluster, row) for cluster in clusters), published.row(row))
        for row in published.names
    )
    return ClaimTable(
        name, title, tuple(cluster.k for cluster in clusters), published.frequencies, rows
    )


def _own_table(clusters: tuple[ClusterBounds, ...]) -> ClaimTable:
    by_cluster = [own_claims(cluster) for cluster in clusters]
    names = list(by_cluster[0]) if by_cluster else []
    rows = tuple(
        Row(name, claims, None)
        for name in names
        if len(claims := tuple(claim for named in by_cluster if (claim := named[name]) is not None))
        == len(clusters)
    )
    return ClaimTable(
        "beyond_the_paper",
        "Beyond the paper",
        tuple(cluster.k for cluster in clusters),
        (),
        rows,
        LEGEND,
    )


def _paper_row(cluster: ClusterBounds, name: str) -> Claim:
    claim: Claim = getattr(cluster.rows, name)
    return claim


def _relative_row(cluster: ClusterBounds, name: str) -> Claim:
    truth: Estimate | Exact = (
        cluster.relative_error if cluster.relative_error is not None else cluster.relative_exact
    )
    return {"actual_error_brute_force": truth, "bound_linear_time": cluster.relative_bound}[name]
