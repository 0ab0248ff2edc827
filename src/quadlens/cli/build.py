"""`quadlens build`: a pizza model written down by hand."""

from typing import Annotated, Literal

import typer

from quadlens.cli.options import OutputFile, parse_integers
from quadlens.cli.output import Output


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
) -> None:
    """Write a pizza model by hand: equally spaced phases, no training."""
    from quadlens.cli.output import check_model_name
    from quadlens.errors import BadConfig
    from quadlens.model import Recipe, build_mlp, build_transformer, save, sha256
    from quadlens.model.handmade import default_keys

    check_model_name(output)
    key_list = default_keys(p) if keys is None else parse_integers("--keys", keys)
    recipe = Recipe(p, key_list, neurons, jitter, noise, missing, scale, seed)
    model = build_transformer(recipe) if architecture == "transformer" else build_mlp(recipe)
    if plant is not None:
        from quadlens.model import MLPParams
        from quadlens.model.handmade import plant_error

        tokens = [int(word) for word in plant.split(",") if word.isdecimal()]
        if len(tokens) != 2 or not isinstance(model, MLPParams):
            raise BadConfig(f"--plant {plant!r}: expected two numbers like 3,5, and --architecture mlp")
        model = plant_error(model, *tokens)
    save(model, output)
    value = {
        "output": str(output),
        "p": p,
        "d_mlp": model.config.d_mlp,
        "keys": list(key_list),
        "sha256": sha256(model),
    }

    listed = ",".join(map(str, key_list))
    out.say(value, f"wrote {output}: p = {p}, {model.config.d_mlp} neurons, keys {listed}")
