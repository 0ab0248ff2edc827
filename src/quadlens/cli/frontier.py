"""`quadlens certify --all`: every strategy on one model, cost against what it proves."""

from pathlib import Path

import typer

from quadlens.cli.output import Output

# What is said of each strategy, in `frontier.csv` and `frontier.json`: keys of the JSON of `certify`, and two more.
COLUMNS = (
    *("strategy", "verdict", "certified_share", "margin_lower_bound", "flops", "collapse_flops"),
    *("cost_share", "cost_share_beyond_collapse", "seconds", "reason"),
)


def every_strategy(model: str, strategy: str, output: Path | None, out: Output) -> None:
    """Run every proof strategy on a model and draw cost against certified share and margin."""
    if strategy != "auto" or output is None:
        raise typer.BadParameter("it runs every strategy, into -o DIR, and takes no other", param_hint="'--all'")
    import json as json_module
    import time
    from fractions import Fraction

    from rich.console import Console

    from quadlens.figures.proved import draw_strategies
    from quadlens.figures.style import figure_bytes
    from quadlens.model.atomic import check_directory, write_together
    from quadlens.numbers import cost, margin, significant
    from quadlens.proofs.certificate import summary
    from quadlens.proofs.produce import strategies
    from quadlens.studies import study_of
    from quadlens.table import Table, csv_text

    study = study_of(model)
    check_directory(output)
    certificates, points = [], []
    for name in strategies(study.config):
        out.note(f"proving with {name}")
        began = time.perf_counter()
        one = study.certify(name)
        certificates.append(one)
        facts = {
            **summary(one),
            "certified_share": float(one.proof.certified.mean()),
            "seconds": time.perf_counter() - began,
        }
        points.append({column: facts[column] for column in COLUMNS})
    value = {"p": study.p, "d_mlp": study.config.d_mlp, "points": points}
    files = {
        "frontier.csv": csv_text(COLUMNS, [tuple(point.values()) for point in points]).encode(),
        "frontier.json": (json_module.dumps(value, indent=1) + "\n").encode(),
        "frontier.svg": figure_bytes(draw_strategies(certificates), "svg"),
    }
    write_together(output, [(output / name, content) for name, content in files.items()])
    value["output"] = str(output)

    def render(console: Console) -> None:
        rows = [
            (
                point["strategy"],
                point["verdict"],
                f"{significant(100 * Fraction(point['certified_share']), 'down')}%",
                margin(point["margin_lower_bound"]),
                f"{point['flops'] + point['collapse_flops']:.3g}",
                cost(point["cost_share"]),
                cost(point["cost_share_beyond_collapse"]),
                f"{point['seconds']:.2f}",
            )
            for point in points
        ]
        header = (
            *("strategy", "verdict", "certified", "margin", "operations"),
            *("of brute force", "both without collapse", "seconds"),
        )
        Table(f"{model}: what each strategy proves, and its cost", header, rows, left=(0, 1)).print(console)
        for point in points:
            if point["reason"]:
                console.print(f"{point['strategy']}: {point['reason']}", markup=False)
        console.print(f"wrote {output}")

    out.emit(value, render)
    if not any(one.verdict == "CERTIFIED" for one in certificates):
        raise typer.Exit(1)
