"""quadlens opens up small transformers that add modulo p: their ReLU MLP is a numerical integral."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadlens.explanation import Explanation, explain
    from quadlens.model import Collapsed, Evaluation, Model, Params, Recipe, evaluate, load, save
    from quadlens.model.formats import export_file, import_file
    from quadlens.pages import report
    from quadlens.proofs import certify
    from quadlens.quadrature import Bounds, bounds

__version__ = "0.1.0"

__all__ = [
    "Bounds",
    "Collapsed",
    "Evaluation",
    "Explanation",
    "Model",
    "Params",
    "Recipe",
    "__version__",
    "bounds",
    "certify",
    "evaluate",
    "explain",
    "export_file",
    "import_file",
    "load",
    "report",
    "save",
]

# Public name → the room that has it.
_ROOM_OF = {
    "Bounds": "quadlens.quadrature",
    "Collapsed": "quadlens.model",
    "Evaluation": "quadlens.model",
    "Explanation": "quadlens.explanation",
    "Model": "quadlens.model",
    "Params": "quadlens.model",
    "Recipe": "quadlens.model",
    "bounds": "quadlens.quadrature",
    "certify": "quadlens.proofs",
    "evaluate": "quadlens.model",
    "explain": "quadlens.explanation",
    "export_file": "quadlens.model.formats",
    "import_file": "quadlens.model.formats",
    "load": "quadlens.model",
    "report": "quadlens.pages",
    "save": "quadlens.model",
}


def __getattr__(name: str) -> Any:
    """Import a room when its first name is asked for, so that `import quadlens` costs nothing."""
    from importlib import import_module

    if name not in _ROOM_OF:
        raise AttributeError(f"module 'quadlens' has no attribute {name!r}")
    return getattr(import_module(_ROOM_OF[name]), name)
