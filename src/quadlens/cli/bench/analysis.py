"""`quadlens bench analysis`: brute force against the exact error of a quadrature rule."""

from typing import TYPE_CHECKING, Annotated

import typer

from quadlens.cli.options import DebugFlag, JsonFlag, QuietFlag

if TYPE_CHECKING:
    from quadlens.quadrature.benchmark import BenchRow


def command(
    brute_force_limit: Annotated[
        int,
        typer.Option(
            "--brute-force-limit",
            metavar="N",
            min=1,
            help="Measure brute force up to d_mlp · p = N; beyond, its time is scaled up and marked as not measured.",
        ),
    ] = 200_000_000,
    largest: Annotated[
        int | None,
        typer.Option("--largest", metavar="N", min=1, help="Leave out sizes with d_mlp · p above N (a quick look)."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of phases and weights.")] = 0,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Time brute force and the exact method from 512 × 59 to 16,384 × 100,003, with fitted exponents."""
    import dataclasses

    from rich.console import Console

    from quadlens.cli.output import emit, progress_bar
    from quadlens.errors import BadConfig
    from quadlens.quadrature.benchmark import benchmark_sizes, run_benchmark
    from quadlens.terminal_table import print_table

    sizes = [(d, p) for d, p in benchmark_sizes() if largest is None or d * p <= largest]
    if not sizes:
        raise BadConfig(f"--largest {largest} leaves no size; the smallest is 512 × 59 = 30208")
    with progress_bar(quiet, "timing", len(sizes)) as progress:
        result = run_benchmark(sizes, brute_force_limit, seed, progress)
    headline = result.headline
    value = {
        "rows": [dataclasses.asdict(row) for row in result.rows],
        "exponents": [dataclasses.asdict(ladder) for ladder in result.ladders],
        "headline": None if headline is None else dataclasses.asdict(headline),
    }

    def render(console: Console) -> None:
        header = ("d_mlp × p", "exact", "brute force", "ratio", "difference")
        rows = [_cells(row) for row in result.rows]
        print_table(console, "Worst error over all a, b, c of one rule", header, rows, left=())
        if not all(row.brute_force_measured for row in result.rows):
            console.print(
                "(…) brute force was not measured there: its time is scaled up from the largest measured size"
            )
        for ladder in result.ladders:
            other = "d_mlp" if ladder.variable == "p" else "p"
            console.print(
                f"{ladder.method}: exponent in {ladder.variable} at {other} = {ladder.fixed}: {ladder.exponent:.2f} "
                f"(last step {ladder.last_step:.2f})"
            )

    emit(json, value, render)


def _cells(row: "BenchRow") -> tuple[str, ...]:
    brute = f"{row.brute_force_seconds:.4g} s" if row.brute_force_measured else "not measured"
    ratio = f"{row.ratio:,.0f}" if row.brute_force_measured else f"({row.ratio:,.0f})"
    difference = "" if row.agreement is None else f"{row.agreement:.0e}"
    return f"{row.d_mlp} × {row.p}", f"{row.exact_seconds * 1e3:.3f} ms", brute, ratio, difference
