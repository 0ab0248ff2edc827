"""An explanation as tables for the terminal."""

import numpy as np
from rich.console import Console
from rich.table import Table

from quadlens.explanation.value import Explanation, LogitExplanation
from quadlens.spectrum.harmonics import RANK_NAMES, HarmonicFit
from quadlens.terminal_table import print_table

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
        console.print(_measure_table(explanation.logits))


def number(value: float | None, digits: int = 3) -> str:
    """A number, or a dash where it has no meaning."""
    return "–" if value is None else f"{value:.{digits}f}"


def _print_clusters(explanation: Explanation, console: Console) -> None:
    header = ("k", "neurons", "variance in", "variance out", "R² ψ=2φ", "gap mean", "gap std", "2nd is 2k", "R² 2φ+π")
    roles = explanation.roles
    found = list(zip(explanation.clusters, explanation.phases, explanation.cluster_doubling, strict=True))
    rows = [
        (
            str(cluster.k) + ("" if cluster.k in explanation.key_frequencies else " (faint)"),
            str(len(cluster.neurons)),
            number(float(np.median(roles.variance_input[cluster.neurons]))),
            number(float(np.median(roles.variance_output[cluster.neurons]))),
            number(phases.r2, 4),
            number(phases.spacing.width_mean),
            number(phases.spacing.width_std),
            number(doubling.share),
            number(doubling.phase_r2, 4),
        )
        for cluster, phases, doubling in found[:MAX_ROWS]
    ]
    caption = f"{len(found) - MAX_ROWS} more with --json" if len(found) > MAX_ROWS else ""
    print_table(console, "Clusters: neurons that read and write frequency k", header, rows, caption=caption)


def _worth_showing(fit: HarmonicFit) -> bool:
    return fit.rank == 2 or any(r2 is not None and r2 > DRAWN_R2 for r2 in (fit.r2, fit.r2_offset))


def _print_harmonics(explanation: Explanation, console: Console) -> None:
    shown = [fit for fit in explanation.harmonic_fits if _worth_showing(fit)][:MAX_ROWS]
    if not shown:
        return
    header = ("rank", "k", "frequency", "m", "neurons", "R² mφ+π", "θ-mφ", "R² mφ+offset")
    rows = [
        (
            RANK_NAMES[fit.rank - 1],
            str(fit.k),
            str(fit.frequency),
            str(fit.multiple or "–"),
            str(fit.neurons),
            number(fit.r2),
            number(fit.offset),
            number(fit.r2_offset),
        )
        for fit in shown
    ]
    hidden = len(explanation.harmonic_fits) - len(shown)
    caption = f"{hidden} more without a clear relation; see --json" if hidden else ""
    title = "Higher frequencies: phase θ = mφ + π where ten neurons or more share them"
    print_table(console, title, header, rows, labels=3, caption=caption)


def _print_regressions(logits: LogitExplanation, console: Console) -> None:
    parts = (
        ("all logits", logits.r2.all_logits),
        ("absolute-value component", logits.r2.abs_component),
        ("MLP output", logits.r2.mlp_output),
    )
    rows = [(name, number(row.pizza), number(row.clock), number(row.pizza_and_secondary)) for name, row in parts]
    print_table(console, "R² of the logits against", ("part", "pizza", "clock", "pizza + secondary"), rows)


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
                *(number(float(x), 2) for x in coefficients),
                f"±{spot.distance}",
                number(spot.cos_u),
                *(number(x, 2) for x in weak),
            )
        )
    title = "Two-term form Σ_k (C|cos u| + D cos 2u) cos(kw(a+b-c)), and smallest |cos u|"
    print_table(console, title, header, rows)


def _measure_table(logits: LogitExplanation) -> Table:
    forms, identity, measures = logits.forms, logits.identity, logits.algorithm
    inputs = forms.by_parts.p**2
    table = Table(title="Measures", title_justify="left", show_header=False, box=None, padding=(0, 1))
    rows = {
        "two-term form, by parts": f"R² {number(forms.by_parts.r2)}, {forms.by_parts.correct} of {inputs} inputs right",
        "two-term form, fitted": f"R² {number(forms.fitted.r2)}, {forms.fitted.correct} of {inputs} inputs right",
        "pizza form (D = 0)": f"R² {number(forms.pizza_only.r2)}, {forms.pizza_only.correct} of {inputs} inputs right",
        "skip connection's share of variance": number(logits.skip_share, 4),
        "identity part held by c-2a, c-2b": f"{number(identity.of_a.share)}, {number(identity.of_b.share)}",
        "gradient symmetricity": f"{number(measures.gradient_symmetricity)} (pizza 0.994, clock 0.334)",
        "distance irrelevance": f"{number(measures.distance_irrelevance)} (pizza 0.17, clock 0.85)",
        "circularity": number(measures.circularity, 4),
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table
