"""`quadlens sweep`: train, explain, bound and certify many models; whatever happens, run it again and it goes on."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from quadlens.cli.options import DebugFlag, JsonFlag, QuietFlag, SettingsOption


def command(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The sweep's directory.")],
    seeds: Annotated[str, typer.Option("--seeds", metavar="A:B", help="Seeds A … B-1.")] = "0:151",
    preset: Annotated[
        Literal["paper", "text", "eos"], typer.Option("--preset", help="Which settings to start from.")
    ] = "paper",
    config: Annotated[
        Path | None, typer.Option("--config", metavar="TOML", help="Settings that override the preset's.")
    ] = None,
    p: Annotated[str | None, typer.Option("--p", metavar="P,…", help="One or several moduli, odd.")] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", help="Full-batch steps.")] = None,
    settings: SettingsOption = None,
    backend: Annotated[Literal["local", "ray"], typer.Option("--backend", help="Where to work.")] = "local",
    address: Annotated[
        str | None, typer.Option("--address", metavar="ADDRESS", help="A Ray cluster; without it one is started here.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option("--processes", min=1, help="Workers on this machine; one a core when left out.")
    ] = None,
    strategies: Annotated[
        str | None,
        typer.Option("--strategies", metavar="NAMES", help="Proof strategies, by commas; all but thin if left out."),
    ] = None,
    checkpoint_every: Annotated[
        int, typer.Option("--checkpoint-every", min=1, help="Epochs between two checkpoints.")
    ] = 500,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Also try models again that failed three times before.")
    ] = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Train, explain, bound and certify many models. Run it again after anything: it does only what is missing.

    Exit code 0: every model asked for is there; 1: some failed; 130: it was stopped.
    """
    import dataclasses

    from rich.console import Console

    from quadlens.cli.interrupt import INTERRUPTED
    from quadlens.cli.output import emit, note
    from quadlens.cli.settings import parse_settings
    from quadlens.cli.sweep_run import parse_moduli, run, work_backend
    from quadlens.cli.training_run import parse_seeds
    from quadlens.errors import BadConfig
    from quadlens.population.analysis import ALL_STRATEGIES, DEFAULT_STRATEGIES
    from quadlens.population.store import Store
    from quadlens.training.config import load_config

    moduli = parse_moduli(p) if p is not None else [None]
    each = [parse_settings(settings or [], {"p": one, "epochs": epochs}) for one in moduli]
    if any("seed" in flags for flags in each):
        raise BadConfig("--set seed was given; a sweep's seeds come from --seeds")
    base = [load_config(preset, config, flags) for flags in each]
    configs = [dataclasses.replace(one, seed=seed) for one in base for seed in parse_seeds(seeds)]
    chosen = tuple(strategies.split(",")) if strategies is not None else DEFAULT_STRATEGIES
    if unknown := [name for name in chosen if name not in ALL_STRATEGIES]:
        raise BadConfig(f"--strategies {','.join(unknown)} is not known; expected some of {','.join(ALL_STRATEGIES)}")
    place = work_backend(backend, address, processes)
    note(quiet, f"{len(configs)} models into {output} (backend {backend}); stop it whenever you like and run it again")
    report = run(configs, output, place, chosen, checkpoint_every, retry_failed, quiet)

    def render(console: Console) -> None:
        console.print(
            f"{report.already + report.made} of {report.total} models finished "
            f"({report.made} now, {report.already} before), {len(report.failed)} failed, {report.left} left"
        )
        for run_id, reason in report.failed.items():
            console.print(f"failed {run_id}: {reason}", markup=False)
        if report.failed:
            console.print("try the failed ones again with --retry-failed")
        if report.already + report.made:
            console.print(f"dataset: {Store(output).dataset}", soft_wrap=True, markup=False)
            console.print(f"look at it with: quadlens population {output}", soft_wrap=True, markup=False)

    emit(json, {**dataclasses.asdict(report), "directory": str(output)}, render)
    if report.failed or report.left:
        raise typer.Exit(INTERRUPTED if report.left else 1)
