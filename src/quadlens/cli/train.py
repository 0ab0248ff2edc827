"""`quadlens train`: one model, or many seeds, with progress, checkpoints and resume."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import typer

from quadlens.cli.options import DebugFlag, JsonFlag, QuietFlag, SettingsOption


def command(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="The model's file (with --seeds: a directory)."),
    ],
    preset: Annotated[
        Literal["paper", "text", "eos"], typer.Option("--preset", help="Which settings to start from.")
    ] = "paper",
    config: Annotated[
        Path | None, typer.Option("--config", metavar="TOML", help="Settings that override the preset's.")
    ] = None,
    p: Annotated[int | None, typer.Option("--p", help="Modulus, odd.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of initial weights and split.")] = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", metavar="A:B", help="Train seeds A … B-1 into a directory.")
    ] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", help="Full-batch steps.")] = None,
    d_model: Annotated[int | None, typer.Option("--d-model", help="Width of the residual stream.")] = None,
    d_mlp: Annotated[int | None, typer.Option("--d-mlp", help="Number of neurons.")] = None,
    n_heads: Annotated[int | None, typer.Option("--n-heads", help="Attention heads.")] = None,
    d_head: Annotated[int | None, typer.Option("--d-head", help="Width of a head.")] = None,
    train_share: Annotated[
        float | None, typer.Option("--train-share", help="Share of the p² pairs trained on.")
    ] = None,
    lr: Annotated[float | None, typer.Option("--lr", help="Learning rate.")] = None,
    weight_decay: Annotated[float | None, typer.Option("--weight-decay", help="Decoupled weight decay.")] = None,
    warmup: Annotated[int | None, typer.Option("--warmup", help="Epochs of linear warm-up.")] = None,
    seeding: Annotated[
        Literal["quadlens", "gbmi"] | None,
        typer.Option("--seeding", help="gbmi: initial weights and split of the paper's group."),
    ] = None,
    precision: Annotated[
        Literal["float32", "float64"] | None, typer.Option("--precision", help="Type of the weights.")
    ] = None,
    history_every: Annotated[
        int | None, typer.Option("--history-every", help="Epochs between two history rows.")
    ] = None,
    spectrum_every: Annotated[int | None, typer.Option("--spectrum-every", help="Epochs between two spectra.")] = None,
    more: SettingsOption = None,
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option("--device", help="Where to train.")] = "auto",
    threads: Annotated[
        int | None,
        typer.Option("--threads", min=1, help="CPU threads; part of what fixes the bytes. Not with --seeds."),
    ] = None,
    checkpoint_every: Annotated[
        int, typer.Option("--checkpoint-every", min=1, help="Epochs between two checkpoints.")
    ] = 500,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted or killed run stopped.")] = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Train a model that adds modulo p (the paper's, by default) in a minute or two."""
    from rich.console import Console

    from quadlens.cli.output import check_model_name, emit
    from quadlens.cli.settings import parse_settings
    from quadlens.cli.training_run import parse_seeds, run_many, run_one
    from quadlens.errors import BadConfig
    from quadlens.training.config import load_config

    flags = {
        "p": p, "seed": seed, "epochs": epochs, "d_model": d_model, "d_mlp": d_mlp, "n_heads": n_heads,
        "d_head": d_head, "train_share": train_share, "lr": lr, "weight_decay": weight_decay, "warmup": warmup,
        "seeding": seeding, "precision": precision, "history_every": history_every, "spectrum_every": spectrum_every,
    }  # fmt: skip
    given = parse_settings(more or [], flags)
    settings = load_config(preset, config, given)
    if seeds is None:
        check_model_name(output)
        manifests = [run_one(settings, output, device, threads, checkpoint_every, resume, quiet)]
    elif "seed" in given:
        raise BadConfig("--seed and --seeds were both given; give one of them")
    elif threads is not None:
        raise BadConfig("--threads was given with --seeds; many seeds run as one process a core, each with one thread")
    else:
        manifests = run_many(settings, parse_seeds(seeds), output, device, checkpoint_every, resume, quiet)

    def render(console: Console) -> None:
        for manifest in manifests:
            outcome = manifest.outcome
            (name,) = manifest.sha256
            console.print(
                f"{name}: {outcome.correct} of {outcome.pairs} pairs right, smallest margin "
                f"{outcome.min_margin:.3g}, loss {outcome.loss:.3g}, {manifest.seconds} s"
            )

    runs = [dataclasses.asdict(manifest) for manifest in manifests]
    emit(json, runs[0] if seeds is None else {"runs": runs}, render)
