"""`quadlens explain`: what every neuron does, and what the logits are."""

from pathlib import Path
from typing import Annotated

import typer

from quadlens.cli.options import ModelArgument
from quadlens.cli.output import Output


def command(
    out: Output,
    model: ModelArgument = "mainline",
    neurons: Annotated[
        Path | None,
        typer.Option("--neurons", metavar="FILE", help="Also write one row per neuron, as .csv or .parquet."),
    ] = None,
    no_logits: Annotated[
        bool, typer.Option("--no-logits", help="Only the neurons: fast at any p, no pass over the p³ logits.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the triples of gradient symmetricity.")] = 0,
) -> None:
    """Show frequencies, phases, clusters, secondary frequencies, clock/pizza regressions and the identity part.

    A model whose attention depends on the tokens, or whose task has no frequencies, gets what can be said of it.
    """
    import numpy as np

    from quadlens.errors import BadConfig
    from quadlens.explanation import explain, needs_outline, outline
    from quadlens.model import load
    from quadlens.model.evaluate import about
    from quadlens.spectrum.anatomy import Anatomy

    if neurons is not None:
        from quadlens.explanation.frame import check_frame_path

        check_frame_path(neurons)
    anatomy = Anatomy(load(model))
    if needs_outline(anatomy.model):
        if neurons is not None:
            raise BadConfig("--neurons needs constant attention and a task that is addition after renaming")
        short = outline(anatomy)
        out.emit({"model": model, **about(anatomy.model, anatomy.layer), **short.to_dict()}, short.render)
        return
    explanation = explain(anatomy, logits=not no_logits, rng=np.random.default_rng(seed))
    if neurons is not None:
        from quadlens.explanation.frame import write_neurons

        write_neurons(explanation, neurons)
        out.note(f"wrote {neurons}: {explanation.d_mlp} neurons")
    facts = about(anatomy.model, anatomy.layer)
    out.emit({"model": model, **facts, **explanation.to_dict()} if out.json else {}, explanation.render)
