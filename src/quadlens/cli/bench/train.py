"""`quadlens bench train`: our step, TransformerLens' and the bare matrix products, side by side."""

from typing import Annotated

import typer

from quadlens.cli.options import DebugFlag, JsonFlag, QuietFlag


def command(
    turns: Annotated[int, typer.Option("--turns", min=1, help="How often each contestant takes its turn.")] = 15,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Threads of each; all that help by default.")
    ] = None,
    p: Annotated[int, typer.Option("--p", help="Modulus, odd.")] = 59,
    d_mlp: Annotated[int, typer.Option("--d-mlp", help="Number of neurons.")] = 512,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Time an epoch of training against TransformerLens and against the three bare matrix products."""
    import dataclasses

    from rich.console import Console

    from quadlens.cli.output import emit, key_value_table, progress_bar
    from quadlens.errors import MissingExtra
    from quadlens.training.config import load_config
    from quadlens.training.train import available_threads

    try:
        from quadlens.training.benchmark import benchmark_training
    except ModuleNotFoundError as error:
        raise MissingExtra("training", "train") from error

    config = load_config(flags={"p": p, "d_mlp": d_mlp})
    with progress_bar(quiet, "timing", turns) as progress:
        result = benchmark_training(config, threads or available_threads(), turns, progress)

    def render(console: Console) -> None:
        rows = {name: f"{ms:8.2f} ms an epoch" for name, ms in result.ms_per_epoch.items()}
        peer = result.ratio_to_transformer_lens
        rows["faster than TransformerLens"] = "not installed" if peer is None else f"{peer:8.1f} times"
        rows["slower than the bare products"] = f"{result.ratio_to_gemm_floor:8.2f} times"
        key_value_table(console, f"p = {p}, {d_mlp} neurons, {result.threads} threads", rows)
        whole = sum(result.ms_per_phase.values())
        phases = {name: f"{ms:8.2f} ms  {ms / whole:4.0%}" for name, ms in result.ms_per_phase.items()}
        key_value_table(console, "where the time of our epoch goes", phases)

    emit(json, dataclasses.asdict(result), render)
