"""`quadlens explore`: the interactive page."""

from quadlens.cli.options import ModelArgument, OutputFile
from quadlens.cli.output import Output


def command(
    out: Output,
    output: OutputFile,
    model: ModelArgument = "mainline",
) -> None:
    """Write one offline HTML page: drag a neuron, watch the integral, the logits and the answers follow."""
    from pathlib import Path

    from rich.console import Console

    from quadlens.explorer import build_page
    from quadlens.model import load
    from quadlens.model.atomic import write_atomic

    loaded = load(model)
    content = build_page(loaded, Path(model).name.removesuffix(".safetensors")).encode()
    write_atomic(output, content)
    value = {
        "file": str(output),
        "bytes": len(content),
        "model": model,
        "p": loaded.config.p,
        "neurons": loaded.config.d_mlp,
    }

    def render(console: Console) -> None:
        console.print(f"{output}: {len(content) / 1e6:.2f} MB; open it in any browser, no network needed")

    out.emit(value, render)
