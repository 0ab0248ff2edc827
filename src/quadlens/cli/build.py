"""`quadlens build`: a model without training.

It is written by hand, or of few numbers that are fitted to a trained model.
"""

from pathlib import Path
from typing import Any, Literal

from quadlens.base.errors import BadConfig
from quadlens.cli.options import OutputFile, parse_integers
from quadlens.cli.output import Output, check_model_name


def command(
    out: Output,
    output: OutputFile,
    p: int | None = None,
    keys: str | None = None,
    neurons: int | None = None,
    jitter: float | None = None,
    noise: float | None = None,
    missing: float | None = None,
    scale: float | None = None,
    seed: int | None = None,
    architecture: Literal["transformer", "mlp"] | None = None,
    plant: str | None = None,
    model: str | None = None,
    constant: bool | None = None,
    double: bool | None = None,
    embedding: bool | None = None,
) -> None:
    """Write a pizza model by hand, or a trained model with few numbers (--from).

    By hand, phases are equally spaced, and nothing is trained.

    --from fits a network of few numbers to a trained one's weights by least squares: the
    explanation as a network. It has the frequencies, the group of each neuron with φ, ρ and ω, what
    the neurons of a frequency share, and the planes of the residual stream in which each frequency
    lies; nothing is fitted to logits. Every command takes it.

    Options:
        p: Modulus, odd; 59 if left out.
        keys: Key frequencies, separated by commas; 3,5,7 if left out, others for small p.
        neurons: Neurons in all, shared out over the keys; 512 if left out.
        jitter: Standard deviation of noise on the phases, radians; 0 if left out.
        noise: Noise on every weight, as a share of its tensor's RMS; 0 if left out.
        missing: Share of the circle that has no phases; 0 if left out.
        scale: Size of the logits, C_k; 10 if left out.
        seed: Seed of jitter and noise; 0 if left out.
        architecture: Which kind of model holds the weights; transformer if left out.
        plant: Change one neuron so that the input A,B alone is wrong (mlp only).
        model (--from MODEL): A trained model, to be written with few numbers; none by hand.
        constant: With --from: one constant that the neurons of a frequency share; on if left out.
        double: With --from: one double wave that they share; on if left out.
        embedding: With --from: amplitudes of their own for a and b; on if left out.
    """
    check_model_name(output)
    recipe = _given(
        p=p,
        keys=None if keys is None else parse_integers("--keys", keys),
        neurons=neurons,
        jitter=jitter,
        noise=noise,
        missing=missing,
        scale=scale,
        seed=seed,
        architecture=architecture,
    )
    fitted = _given(constant=constant, double=double, embedding=embedding)
    by_hand = [*recipe, *_given(plant=plant)]
    if model is not None and by_hand:
        raise BadConfig(
            f"{_are_for(by_hand)} models by hand and --from for fitted ones; give one or the other"
        )
    if model is not None:
        _fitted(out, model, output, fitted)
        return
    if fitted:
        flags = [name if value else f"no-{name}" for name, value in fitted.items()]
        raise BadConfig(
            f"{_are_for(flags)} a network fitted to a trained one; name that with --from MODEL"
        )
    from quadlens.network.handmade import default_keys, plant_error
    from quadlens.network.native import sha256
    from quadlens.network.of_study import build, save

    built = build(**recipe)
    if plant is not None:
        tokens = [int(word) for word in plant.split(",") if word.isdecimal()]
        planter = {"mlp": plant_error}.get(architecture or "")
        if len(tokens) != 2 or planter is None:
            raise BadConfig(
                f"--plant {plant!r}: expected two numbers like 3,5, and --architecture mlp"
            )
        built = planter(built, *tokens)
    save(built, output)
    modulus, d_mlp = built.config.p, built.config.d_mlp
    key_list = recipe.get("keys", default_keys(modulus))
    value = {
        "output": str(output),
        "p": modulus,
        "d_mlp": d_mlp,
        "keys": list(key_list),
        "sha256": sha256(built),
    }
    listed = ",".join(map(str, key_list))
    out.say(value, f"wrote {output}: p = {modulus}, {d_mlp} neurons, keys {listed}")


def _given(**options: Any) -> dict[str, Any]:
    """Return the options that stand on the command line.

    An option that says what is the default anyway is among them.
    """
    return {name: value for name, value in options.items() if value is not None}


def _are_for(flags: list[str]) -> str:
    """The beginning of a sentence on what flags are for."""
    return f"{', '.join(f'--{flag}' for flag in flags)} {'is' if len(flags) == 1 else 'are'} for"


def _fitted(out: Output, model: str, output: Path, options: dict[str, bool]) -> None:
    """Write the network of few numbers, and say how many they are and how good it is."""
    from dataclasses import asdict

    from quadlens.analysis.parameterisation.groups import logit_r2
    from quadlens.analysis.parameterisation.of_study import parameterise
    from quadlens.analysis.spectrum.of_study import evaluation_of, layer_of
    from quadlens.base.numbers import fit, margin
    from quadlens.network.evaluate import evaluate
    from quadlens.network.of_study import save
    from quadlens.network.study import study_of

    network = study_of(model)
    small = parameterise(network, **options)
    save(small, output)
    tables = small.model.collapse()
    before, after, r2 = (
        network.once(evaluation_of),
        evaluate(tables),
        logit_r2(tables, layer_of(network)),
    )
    numbers = asdict(small.numbers)
    value = {
        "model": model,
        "output": str(output),
        "keys": [group.cluster.k for group in small.groups],
        "numbers": {**numbers, "total": small.numbers.total},
        "weights": small.weights,
        "correct": after.correct,
        "pairs": after.pairs,
        "min_margin": after.min_margin,
        "min_margin_before": before.min_margin,
        "r2": r2,
    }
    counted = ", ".join(f"{name} {count:,}" for name, count in numbers.items())
    out.say(
        value,
        f"wrote {output}: {small.numbers.total:,} numbers in place of {small.weights:,} weights "
        f"({counted})",
        f"  {after.correct:,} of {after.pairs:,} right, smallest margin "
        f"{margin(after.min_margin)} (the network: {margin(before.min_margin)}), R² of all logits "
        f"{fit(r2)}",
    )
