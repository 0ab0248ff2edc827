"""`quadlens build`: a model without training, by hand or of few numbers that are fitted to a trained one."""

import inspect
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from quadlens.cli.options import OutputFile, parse_integers
from quadlens.cli.output import Output, check_model_name
from quadlens.errors import BadConfig


def command(
    out: Output,
    output: OutputFile,
    p: Annotated[int, typer.Option("--p", help="Modulus, odd.")] = 59,
    keys: Annotated[
        str | None,
        typer.Option("--keys", help="Key frequencies, separated by commas; 3,5,7 if left out, others for small p."),
    ] = None,
    neurons: Annotated[int, typer.Option("--neurons", help="Neurons in all, shared out over the keys.")] = 512,
    jitter: Annotated[float, typer.Option("--jitter", help="Standard deviation of noise on the phases, radians.")] = 0,
    noise: Annotated[float, typer.Option("--noise", help="Noise on every weight, as a share of its tensor's RMS.")] = 0,
    missing: Annotated[float, typer.Option("--missing", help="Share of the circle of phases left out.")] = 0,
    scale: Annotated[float, typer.Option("--scale", help="Size of the logits, C_k.")] = 10,
    seed: Annotated[int, typer.Option("--seed", help="Seed of jitter and noise.")] = 0,
    architecture: Annotated[
        Literal["transformer", "mlp"], typer.Option("--architecture", help="Which kind of model holds the weights.")
    ] = "transformer",
    plant: Annotated[
        str | None, typer.Option("--plant", help="Change one neuron so that the input A,B alone is wrong (mlp only).")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--from", metavar="MODEL", help="A trained model, to be written with few numbers; none by hand."),
    ] = None,
    constant: Annotated[
        bool, typer.Option(help="With --from: one constant that the neurons of a frequency share.")
    ] = True,
    double: Annotated[bool, typer.Option(help="With --from: one double wave that they share.")] = True,
    embedding: Annotated[bool, typer.Option(help="With --from: amplitudes of their own for a and b.")] = True,
) -> None:
    """Write a pizza model by hand: equally spaced phases, no training. Or a trained model with few numbers (--from).

    --from fits a network of few numbers to a trained one's weights by least squares: the explanation as a network. It
    has the frequencies, the group of each neuron with φ, ρ and ω, what the neurons of a frequency share, and the
    planes of the residual stream in which each frequency lies; nothing is fitted to logits. Every command takes it.
    """
    check_model_name(output)
    recipe: dict[str, Any] = {
        "neurons": neurons,
        "jitter": jitter,
        "noise": noise,
        "missing": missing,
        "scale": scale,
        "seed": seed,
    }
    by_hand = _changed(p=p, keys=keys, **recipe, architecture=architecture, plant=plant)
    fitted = {"constant": constant, "double": double, "embedding": embedding}
    if model is not None:
        if by_hand:
            raise BadConfig(f"{_are_for(by_hand)} models by hand and --from for fitted ones; give one or the other")
        _fitted(out, model, output, fitted)
        return
    if left_out := _changed(**fitted):
        raise BadConfig(f"{_are_for(left_out)} a network fitted to a trained one; name that with --from MODEL")
    import quadlens
    from quadlens.model import sha256
    from quadlens.model.handmade import default_keys, plant_error

    key_list = default_keys(p) if keys is None else parse_integers("--keys", keys)
    built = quadlens.build(p, key_list, architecture=architecture, **recipe)
    if plant is not None:
        tokens = [int(word) for word in plant.split(",") if word.isdecimal()]
        planter = {"mlp": plant_error}.get(architecture)
        if len(tokens) != 2 or planter is None:
            raise BadConfig(f"--plant {plant!r}: expected two numbers like 3,5, and --architecture mlp")
        built = planter(built, *tokens)
    quadlens.save(built, output)
    d_mlp = built.config.d_mlp
    value = {"output": str(output), "p": p, "d_mlp": d_mlp, "keys": list(key_list), "sha256": sha256(built)}
    listed = ",".join(map(str, key_list))
    out.say(value, f"wrote {output}: p = {p}, {d_mlp} neurons, keys {listed}")


def _changed(**options: Any) -> list[str]:
    """The flags of options that differ from their defaults."""
    defaults = inspect.signature(command).parameters
    flags = [
        f"no-{name}" if value is False else name for name, value in options.items() if value != defaults[name].default
    ]
    return [f"--{flag}" for flag in flags]


def _are_for(flags: list[str]) -> str:
    """The beginning of a sentence on what flags are for."""
    return f"{', '.join(flags)} {'is' if len(flags) == 1 else 'are'} for"


def _fitted(out: Output, model: str, output: Path, options: dict[str, bool]) -> None:
    """Write the network of few numbers, and say how many they are and how good it is."""
    from dataclasses import asdict

    import quadlens
    from quadlens.numbers import fit, margin
    from quadlens.parameterisation.groups import logit_r2

    network = quadlens.study(model)
    small = quadlens.parameterise(network, **options)
    quadlens.save(small, output)
    tables = small.model.collapse()
    before, after, r2 = network.evaluation, quadlens.evaluate(small), logit_r2(tables, network.anatomy.layer)
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
        f"wrote {output}: {small.numbers.total:,} numbers in place of {small.weights:,} weights ({counted})",
        f"  {after.correct:,} of {after.pairs:,} right, smallest margin {margin(after.min_margin)} (the network: "
        f"{margin(before.min_margin)}), R² of all logits {fit(r2)}",
    )
