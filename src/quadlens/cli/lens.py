"""`quadlens lens`: the infinite-width reading of the hidden layer."""

from quadlens.cli.options import ModelArgument
from quadlens.cli.output import Output


def command(out: Output, model: ModelArgument = "mainline") -> None:
    """Read the hidden layer as integrals: what the neurons share, what the integral explains, and what is left."""
    from quadlens.studies import study_of

    found = study_of(model).lens
    out.emit({"model": model, **found.to_dict()} if out.json else {}, found.render)
