"""`quadlens evaluate`: how a model answers, over all pairs."""

from typing import Annotated

import typer

from quadlens.cli.options import ModelArgument
from quadlens.cli.output import Output


def command(
    out: Output,
    model: ModelArgument = "mainline",
    sample: Annotated[
        int | None, typer.Option("--sample", metavar="N", min=1, help="Try N random pairs instead of all p².")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the sample.")] = 0,
    exact: Annotated[
        bool, typer.Option("--exact", help="Also compute every logit in exact arithmetic and show the agreement.")
    ] = False,
) -> None:
    """Show accuracy, margins and loss over all p² pairs (float64)."""
    import dataclasses
    from fractions import Fraction

    import numpy as np
    from rich.console import Console

    from quadlens.cli.output import key_value_table
    from quadlens.errors import BadConfig
    from quadlens.model import evaluate, load
    from quadlens.model.evaluate import MAX_OPERATIONS, about
    from quadlens.model.exact import agreement
    from quadlens.numbers import significant

    loaded = load(model)
    p, d_mlp = loaded.config.p, loaded.config.d_mlp
    if sample is None and float(p) ** 3 * d_mlp > MAX_OPERATIONS:
        raise BadConfig(
            f"all {p * p} pairs of this model take {float(p) ** 3 * d_mlp:.1e} multiplications; "
            "try a sample, for example --sample 10000"
        )
    pairs = None if sample is None else np.random.default_rng(seed).integers(0, p, size=(sample, 2))
    layer = loaded.hidden_layer()
    with out.progress_bar("evaluating", sample or p * p) as progress:
        result = evaluate(layer, pairs, progress)
    value = dataclasses.asdict(result) | about(loaded, layer)
    if exact:
        out.note(f"computing all {p**3} logits exactly")
        value["agreement"] = dataclasses.asdict(agreement(loaded))

    def render(console: Console) -> None:
        shown = {name: value[name] for name in dataclasses.asdict(result)}
        task = loaded.config.task
        shown["task"] = task.words
        # Only perfection reads as 100 %.
        share = Fraction(100 * result.correct, result.pairs)
        shown["accuracy"] = f"{significant(share, 'down')} %"
        shown["min_margin"] = significant(result.min_margin, "down")
        shown |= {name: significant(value[name]) for name in ("median_margin", "loss")}
        a, b = result.min_margin_pair
        shown["min_margin_pair"] = f"a = {a}, b = {b}" + (f": {task.question(a, b)}" if task.on_units else "")
        sign = "+" if task.is_addition else "∘"
        shown["wrong"] = ", ".join(f"{a}{sign}{b}→{c}" for a, b, c in result.wrong[:10]) or "none"
        key_value_table(console, f"{model}: answers on {result.pairs} pairs", shown)
        if exact:
            key_value_table(console, "exact arithmetic on the stored weights", _agreement_rows(value["agreement"], p))

    out.emit(value, render)


def _agreement_rows(agreement: dict[str, float], p: int) -> dict[str, str]:
    """The agreement in words."""
    from quadlens.numbers import significant

    return {
        "logits compared": f"{p**3}",
        "largest difference": f"{agreement['max_error']:.3g} (largest logit {agreement['largest_logit']:.6g})",
        "correct, exactly": f"{agreement['correct']:.0f} of {p * p}",
        "min_margin, exactly": significant(agreement["min_margin"], "down"),
    }
