"""`quadlens bench certify`: operations and seconds of each proof strategy against brute force."""

from typing import Annotated

import typer

from quadlens.cli.options import DebugFlag, JsonFlag, QuietFlag


def command(
    moduli: Annotated[str, typer.Option("--moduli", help="Moduli p, separated by commas.")] = "59,113,251,499,997,2003",
    neurons: Annotated[
        str, typer.Option("--neurons", help="Widths d_mlp; all moduli at the first, all widths at the first modulus.")
    ] = "512,1024,2048,4096",
    noise: Annotated[float, typer.Option("--noise", help="Noise on every weight, as a share of its RMS.")] = 0.001,
    seed: Annotated[int, typer.Option("--seed", help="Seed of keys and noise.")] = 0,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Prove hand-built models with noise from p = 59 to 2003, with fitted exponents in p."""
    import dataclasses

    from rich.console import Console

    from quadlens.cli.output import emit, progress_bar
    from quadlens.errors import BadConfig
    from quadlens.proofs.bench import bench_sizes, run_certify_bench
    from quadlens.terminal_table import print_table

    try:
        sizes = bench_sizes([int(p) for p in moduli.split(",")], [int(d) for d in neurons.split(",")])
    except ValueError:
        raise BadConfig(
            f"--moduli {moduli!r} and --neurons {neurons!r}: expected integers separated by commas, for example 59,113"
        ) from None
    with progress_bar(quiet, "proving", len(sizes)) as progress:
        result = run_certify_bench(sizes, noise, seed, progress)
    value = dataclasses.asdict(result)

    def render(console: Console) -> None:
        header = ("p", "d_mlp", "strategy", "operations", "of brute force", "seconds", "brute (float64)", "certified")
        rows = [
            (
                str(row.p),
                str(row.d_mlp),
                row.strategy,
                f"{row.flops:.3g}",
                f"{row.flops / row.brute_force_flops:.3%}",
                f"{row.seconds:.2f}",
                f"{row.brute_force_seconds:.2f}",
                f"{row.certified_share:.1%}",
            )
            for row in result.rows
        ]
        print_table(console, "Proofs against brute force", header, rows, labels=3, left=(2,))
        for strategy, fit in result.exponents.items():
            console.print(
                f"{strategy}: operations ~ p^{fit.flops:.2f}, seconds ~ p^{fit.seconds:.2f} "
                f"({fit.points} moduli, d_mlp = {fit.d_mlp})"
            )

    emit(json, value, render)
