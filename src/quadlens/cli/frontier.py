"""`quadlens certify --all`: every strategy on one model, cost against what it proves."""

from pathlib import Path

import typer

from quadlens.cli.output import Output


def every_strategy(model: str, strategy: str, output: Path | None, out: Output) -> None:
    """Run every proof strategy on a model and draw cost against certified share and margin."""
    if strategy != "auto" or output is None:
        raise typer.BadParameter("it runs every strategy, into -o DIR, and takes no other", param_hint="'--all'")
    import dataclasses
    import json as json_module
    from fractions import Fraction

    from rich.console import Console

    from quadlens.figures.proved import ProofPoint, draw_budget, draw_strategies
    from quadlens.figures.style import figure_bytes
    from quadlens.model import load
    from quadlens.model.atomic import check_directory, write_together
    from quadlens.numbers import cost, margin, significant
    from quadlens.proofs.frontier import frontier, to_csv
    from quadlens.table import Table

    loaded = load(model)
    check_directory(output)
    result = frontier(loaded, lambda name: out.note(f"proving with {name}"))
    value = dataclasses.asdict(result)
    points = tuple(
        ProofPoint(one.strategy, one.flops + one.collapse_flops, one.certified_share, one.margin_lower_bound or 0.0)
        for one in result.points
    )
    files = {
        "frontier.csv": to_csv(result.points).encode(),
        "waterfall.csv": to_csv(result.waterfall).encode(),
        "frontier.json": (json_module.dumps(value, indent=1) + "\n").encode(),
        "frontier.svg": figure_bytes(draw_strategies(points), "svg"),
    }
    if result.waterfall:
        lead = max(point.margin for point in points)
        files["waterfall.svg"] = figure_bytes(draw_budget(result.waterfall[:-1], lead), "svg")
    write_together(output, [(output / name, content) for name, content in files.items()])
    value["output"] = str(output)

    def render(console: Console) -> None:
        rows = [
            (
                point.strategy,
                point.verdict,
                f"{significant(100 * Fraction(point.certified_share), 'down')}%",
                margin(point.margin_lower_bound),
                f"{point.flops + point.collapse_flops:.3g}",
                cost(point.cost_share),
                cost(point.cost_share_beyond_collapse),
                f"{point.seconds:.2f}",
            )
            for point in result.points
        ]
        header = (
            "strategy",
            "verdict",
            "certified",
            "margin",
            "operations",
            "of brute force",
            "both without collapse",
            "seconds",
        )
        Table(f"{model}: what each strategy proves, and its cost", header, rows, left=(0, 1)).print(console)
        for point in result.points:
            if point.reason:
                console.print(f"{point.strategy}: {point.reason}", markup=False)
        console.print(f"wrote {output}")

    out.emit(value, render)
    if not any(point.verdict == "CERTIFIED" for point in result.points):
        raise typer.Exit(1)
