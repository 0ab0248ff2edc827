"""An explanation as tables for the terminal."""

import numpy as np
from rich.console import Console

from quadlens.explanation.value import Explanation, LogitExplanation
from quadlens.numbers import decimals, fit
from quadlens.published import read_published
from quadlens.spectrum.harmonics import RANK_NAMES, HarmonicFit
from quadlens.table import Table

# The paper's figures draw the fitted line only above this R².
DRAWN_R2 = 0.9
MAX_ROWS = 30


def render(explanation: Explanation, console: Console) -> None:
    """Summary, clusters, harmonics, regressions, coefficients and measures, in that order."""
    console.print(explanation.summary(), markup=False)
    console.print()
    _print_clusters(explanation, console)
    _print_harmonics(explanation, console)
    if explanation.logits:
        _print_regressions(explanation.logits, console)
        if explanation.key_frequencies:
            _print_coefficients(explanation.logits, console)
        for table in beside_paper(explanation):
            table.print(console)
        _measures(explanation.logits).print(console)


def _print_clusters(explanation: Explanation, console: Console) -> None:
    header = ("k", "neurons", "variance in", "variance out", "R² ψ=2φ", "gap mean", "gap std", "2nd is 2k", "R² 2φ+π")
    roles = explanation.roles
    found = list(zip(explanation.clusters, explanation.phases, explanation.cluster_doubling, strict=True))
    rows = [
        (
            str(cluster.k) + ("" if cluster.k in explanation.key_frequencies else " (faint)"),
            str(len(cluster.neurons)),
            decimals(float(np.median(roles.variance_input[cluster.neurons]))),
            decimals(float(np.median(roles.variance_output[cluster.neurons]))),
            fit(phases.r2),
            decimals(phases.spacing.width_mean),
            decimals(phases.spacing.width_std),
            decimals(doubling.share),
            fit(doubling.phase_r2),
        )
        for cluster, phases, doubling in found[:MAX_ROWS]
    ]
    caption = f"{len(found) - MAX_ROWS} more, not shown here" if len(found) > MAX_ROWS else ""
    Table("Clusters: neurons that read and write frequency k", header, rows, caption=caption).print(console)


def _worth_showing(one: HarmonicFit) -> bool:
    return any(r2 is not None and r2 > DRAWN_R2 for r2 in (one.r2, one.r2_offset))


def _print_harmonics(explanation: Explanation, console: Console) -> None:
    shown = [one for one in explanation.harmonic_fits if _worth_showing(one)][:MAX_ROWS]
    if not shown:
        return
    header = ("rank", "k", "frequency", "m", "neurons", "R² mφ+π", "θ-mφ", "R² mφ+offset")
    rows = [
        (
            RANK_NAMES[one.rank - 1],
            str(one.k),
            str(one.frequency),
            str(one.multiple or "–"),
            str(one.neurons),
            fit(one.r2),
            decimals(one.offset),
            fit(one.r2_offset),
        )
        for one in shown
    ]
    hidden = len(explanation.harmonic_fits) - len(shown)
    caption = f"{hidden} more without a clear relation, not shown here" if hidden else ""
    title = "Higher frequencies: phase θ = mφ + π where ten neurons or more share them"
    Table(title, header, rows, labels=3, caption=caption).print(console)


def _print_regressions(logits: LogitExplanation, console: Console) -> None:
    parts = (
        ("all logits", logits.r2.all_logits),
        ("absolute-value component", logits.r2.abs_component),
        ("MLP output", logits.r2.mlp_output),
    )
    rows = [(name, decimals(row.pizza), decimals(row.clock), decimals(row.pizza_and_secondary)) for name, row in parts]
    Table("R² of the logits against", ("part", "pizza", "clock", "pizza + secondary"), rows).print(console)


def _print_coefficients(logits: LogitExplanation, console: Console) -> None:
    header = (
        "k",
        "C",
        "D",
        "fitted C",
        "fitted D",
        "a-b",
        "|cos\N{NO-BREAK SPACE}u|",
        "abs part",
        "identity part",
        "all",
    )
    by_parts, fitted = logits.forms.by_parts, logits.forms.fitted
    rows = []
    for row, spot in enumerate(logits.weak_spots[:MAX_ROWS]):
        coefficients = (by_parts.C[row], by_parts.D[row], fitted.C[row], fitted.D[row])
        weak = (spot.abs_component, spot.identity_component, spot.all_logits)
        rows.append(
            (
                str(spot.k),
                *(decimals(float(x), 2) for x in coefficients),
                spot.where,
                decimals(spot.cos_u),
                *(decimals(x, 2) for x in weak),
            )
        )
    title = "Two-term form Σ_k (C|cos u| + D cos 2u) cos(kw(a+b-c)), and smallest |cos u|"
    Table(title, header, rows).print(console)


def beside_paper(explanation: Explanation) -> tuple[Table, ...]:
    """Neurons, coefficients and R² with the paper's below, where the key frequencies are those of its own model."""
    paper, logits = read_published(), explanation.logits
    if logits is None or explanation.key_frequencies != tuple(k for k, _ in paper.key_neurons):
        return ()
    form, r2 = logits.forms.by_parts, logits.r2
    sizes = {one.k: len(one.neurons) for one in explanation.clusters}
    rows = [
        ("neurons", *(str(sizes[k]) for k in explanation.key_frequencies)),
        ("neurons, the paper", *(str(count) for _, count in paper.key_neurons)),
    ]
    for letter, ours, theirs in (("C", form.C, paper.C), ("D", form.D, paper.D)):
        rows.append((letter, *(decimals(float(value), 2) for value in ours)))
        rows.append((f"{letter}, the paper", *(f"{value:g}" for _, value in theirs)))
    fits = (r2.all_logits.pizza, r2.all_logits.clock, r2.abs_component.pizza, r2.abs_component.clock)
    return (
        Table("Beside the paper's model", ("k", *map(str, explanation.key_frequencies)), rows),
        Table(
            "R² beside the paper's",
            ("", "all logits: pizza", "clock", "absolute part: pizza", "clock"),
            [("ours", *map(decimals, fits)), ("the paper", *(f"{value:g}" for value in paper.r2))],
        ),
    )


def _measures(logits: LogitExplanation) -> Table:
    forms, identity, measures = logits.forms, logits.identity, logits.algorithm
    inputs = forms.by_parts.p**2
    named = {
        "two-term form, by parts": forms.by_parts,
        "two-term form, fitted": forms.fitted,
        "pizza form (D = 0)": forms.pizza_only,
    }
    rows = {
        **{name: f"R² {decimals(one.r2)}, {one.correct} of {inputs} inputs right" for name, one in named.items()},
        **({"skip connection's share of variance": decimals(logits.skip_share, 4)} if logits.skip_share else {}),
        "identity part held by c-2a, c-2b": f"{decimals(identity.of_a.share)}, {decimals(identity.of_b.share)}",
        "gradient symmetricity": f"{decimals(measures.gradient_symmetricity)} (pizza 0.994, clock 0.334)",
        "distance irrelevance": f"{decimals(measures.distance_irrelevance)} (pizza 0.17, clock 0.85)",
        "circularity": decimals(measures.circularity, 4),
    }
    return Table("Measures", ("measure", "value"), tuple(rows.items()), left=(0, 1))
