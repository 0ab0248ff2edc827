"""`quadlens ablate`, a model changed, as a model again; `compare`, two side by side."""

from typing import Literal

from quadlens.base.numbers import at_least
from quadlens.cli.options import ModelArgument, Natural, OutputFile, parse_integers
from quadlens.cli.output import PATIENCE, Output


def ablate(
    out: Output,
    model: ModelArgument,
    output: OutputFile,
    frequencies: str = "",
    neurons: str = "",
    share: float = 0.0,
    arc: float = 0,
    waves: Literal["all", "secondary", "primary"] = "all",
    keep: Literal["all", "abs", "identity"] = "all",
    jitter: float = 0,
    uneven: float = 0,
    activation: str | None = None,
    attention_rate: float | None = None,
    resample: int | None = None,
    seed: Natural = 1,
) -> None:
    """Drop neurons, frequencies, waves or a part of the activation from a model.

    Or disturb phases, swap the activation, or mix the attention.

    Neurons are dropped and waves left out first; then come --uneven, --jitter, --keep,
    --activation, --attention-rate and --resample, in this order. Every command takes the file that
    is written.

    Options:
        frequencies (K,…): Drop the neurons that read one of these most.
        neurons (I,…): Drop these neurons.
        share: Drop each neuron with this probability.
        arc: Drop the phases φ in this share of the circle, from -π on.
        waves: Keep all, each neuron's own frequency and its double, or its own alone.
        keep: Keep all of the activation, its even part, or its odd part.
        jitter: Move phases by so many radians times a draw.
        uneven: Multiply what neurons write by e^(this times a draw).
        activation: Another activation.
        attention_rate: 1 is the model's attention, 0 every weight at its mean over all inputs.
        resample: Draw so many neurons, with replacement.
        seed: Of every draw; the explorer draws the same.
    """
    from rich.console import Console

    from quadlens.analysis import edit
    from quadlens.analysis.spectrum.of_study import evaluation_of
    from quadlens.cli.output import check_model_name
    from quadlens.network.evaluate import evaluate
    from quadlens.network.of_study import save
    from quadlens.network.study import study_of

    check_model_name(output)
    before = study_of(model)
    listed = parse_integers("--frequencies", frequencies), parse_integers("--neurons", neurons)
    changed = edit.ablate(before, *listed, waves=waves, share=share, arc=arc, seed=seed)
    # Draws are per neuron of the model as it was, so that what changes the number of neurons comes
    # last.
    if uneven:
        changed = edit.jitter_weights(changed, uneven, seed=seed)
    if jitter:
        changed = edit.jitter_phases(changed, jitter, seed=seed)
    changed = edit.ablate(changed, keep=keep)
    if activation is not None:
        changed = edit.swap_activation(changed, activation)
    if attention_rate is not None:
        changed = edit.mix_attention(changed, attention_rate)
    if resample is not None:
        changed = edit.resample(changed, resample, seed=seed)
    save(changed, output)
    answers = {"before": before.once(evaluation_of), "after": evaluate(changed.collapse())}
    value = {
        "model": model,
        "output": str(output),
        **{
            name: {
                key: getattr(evaluation, key) for key in ("correct", "pairs", "loss", "min_margin")
            }
            for name, evaluation in answers.items()
        },
    }

    def render(console: Console) -> None:
        console.print(f"wrote {output}", markup=False, soft_wrap=True)
        for name, evaluation in answers.items():
            console.print(
                f"  {name:6}  {evaluation.correct:,} of {evaluation.pairs:,} right, "
                f"smallest margin {at_least(evaluation.min_margin, 3)}, loss {evaluation.loss:.3g}",
                markup=False,
                soft_wrap=True,
            )

    out.emit(value, render)


def compare(out: Output, a: ModelArgument, b: ModelArgument) -> None:
    """Set two models side by side: answers, frequencies, lens, bounds and proofs."""
    from quadlens.show.compare import compare as compare_models

    with out.step_line(PATIENCE) as step:
        comparison = compare_models(a, b).prepare(step)
    out.emit(comparison.to_dict() if out.json else {}, comparison.render)
