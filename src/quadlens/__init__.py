"""quadlens opens up small transformers that add modulo p: their ReLU MLP is a numerical integral."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadlens.model import Collapsed, Evaluation, Model, Params, Recipe, evaluate, load, save
    from quadlens.model.formats import export_file, import_file

__version__ = "0.1.0"

__all__ = [
    "Collapsed",
    "Evaluation",
    "Model",
    "Params",
    "Recipe",
    "__version__",
    "evaluate",
    "export_file",
    "import_file",
    "load",
    "save",
]

# Public name → the room that has it.
_ROOM_OF = {
    "Collapsed": "quadlens.model",
    "Evaluation": "quadlens.model",
    "Model": "quadlens.model",
    "Params": "quadlens.model",
    "Recipe": "quadlens.model",
    "evaluate": "quadlens.model",
    "export_file": "quadlens.model.formats",
    "import_file": "quadlens.model.formats",
    "load": "quadlens.model",
    "save": "quadlens.model",
}


def __getattr__(name: str) -> Any:
    """Import a room when its first name is asked for, so that `import quadlens` costs nothing."""
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'quadlens' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_ROOM_OF[name]), name)
