"""`quadlens info`: what is in a model file."""

from quadlens.cli.options import ModelArgument
from quadlens.cli.output import Output


def command(out: Output, model: ModelArgument = "mainline") -> None:
    """Show a model's config, shapes, size and hash."""
    from rich.console import Console

    from quadlens.cli.output import key_value_table
    from quadlens.model.bundled import resolve
    from quadlens.model.config import config_to_dict
    from quadlens.model.native import load_with_sha256

    loaded, digest = load_with_sha256(resolve(model))
    tensors = loaded.tensors()
    value = {
        "model": model,
        "sha256": digest,
        "parameters": sum(array.size for array in tensors.values()),
        "config": config_to_dict(loaded.config),
        "tensors": {name: {"shape": list(array.shape), "dtype": str(array.dtype)} for name, array in tensors.items()},
    }

    def render(console: Console) -> None:
        # One line however narrow the terminal, so that the hash can be copied.
        console.print(f"{model}: {value['parameters']} parameters", markup=False, soft_wrap=True)
        console.print(f"sha256 {value['sha256']}", soft_wrap=True)
        key_value_table(console, "config", config_to_dict(loaded.config))
        key_value_table(
            console, "weights", {name: f"{'x'.join(map(str, x.shape))} {x.dtype}" for name, x in tensors.items()}
        )

    out.emit(value, render)
