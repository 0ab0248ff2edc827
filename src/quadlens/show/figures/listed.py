"""The entries of `figures.toml` as they are written; no figure is loaded for them."""

from importlib.resources import files
from typing import Any

from quadlens.base.reading import parse_toml


def entries() -> dict[str, dict[str, Any]]:
    """The list as it is written."""
    return parse_toml((files(__package__) / "figures.toml").read_bytes(), "figures.toml")
