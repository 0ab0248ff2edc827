"""Functions for users that save a network, or build one by hand."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from quadlens.base.arguments import checked
from quadlens.base.errors import BadConfig
from quadlens.base.reading import keeping_inputs
from quadlens.network.handmade import Recipe, build_mlp, build_transformer, default_keys
from quadlens.network.native import save as save_weights
from quadlens.network.study import study_of
from quadlens.network.weights import Weights

if TYPE_CHECKING:
    from quadlens.network.named import ModelLike


@checked
def save(model: "ModelLike", path: str | Path) -> Path:
    """Write a model as a quadlens file (safetensors), whole or not at all.

    The path is returned.

    >>> import quadlens, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     quadlens.load(quadlens.save("pizza", f"{directory}/copy.safetensors")).config.p
    59
    """
    study = study_of(model)
    with keeping_inputs(study.file):
        save_weights(study.model, Path(path))
    return Path(path)


@checked
def build(
    p: int = 59,
    keys: Sequence[int] | None = None,
    neurons: int = 512,
    *,
    jitter: float = 0.0,
    noise: float = 0.0,
    missing: float = 0.0,
    scale: float = 10.0,
    seed: int = 0,
    architecture: Literal["transformer", "mlp"] = "transformer",
) -> Weights:
    """Write down a pizza model by hand, without training.

    The arguments are those of `Recipe`.

    >>> import quadlens
    >>> quadlens.evaluate(quadlens.build(p=13, keys=(2, 5), neurons=60)).correct
    169
    """
    builders: dict[str, Callable[[Recipe], Weights]] = {
        "transformer": build_transformer,
        "mlp": build_mlp,
    }
    if architecture not in builders:
        raise BadConfig(f"architecture {architecture!r}; expected one of {', '.join(builders)}")
    chosen = default_keys(p) if keys is None else tuple(keys)
    return builders[architecture](Recipe(p, chosen, neurons, jitter, noise, missing, scale, seed))
