"""Models shipped inside the package, by name."""

from importlib.resources import files
from pathlib import Path

from quadlens.base.errors import BadFile, a_path
from quadlens.network.config import Config
from quadlens.network.native import load_file
from quadlens.network.weights import Weights

DEFAULT_MODEL = "pizza"
SUFFIX = ".safetensors"


def data_directory() -> Path:
    """Return the directory of the bundled models."""
    return Path(str(files(__name__.partition(".")[0]))) / "data"


def bundled_names() -> list[str]:
    """Return the names that `load` accepts instead of a path."""
    return sorted(path.name.removesuffix(SUFFIX) for path in data_directory().glob(f"*{SUFFIX}"))


def bundled_on_pairs() -> list[str]:
    """Those whose inputs are pairs (a, b); the others read sequences."""
    return [name for name in bundled_names() if isinstance(load(name).config, Config)]


def is_bundled(model: str | Path) -> bool:
    """Return whether this is the name of a bundled model."""
    return str(model) in bundled_names()


def is_bundled_file(name: str, file: Path | None) -> bool:
    """Whether a name alone is enough to find a file."""
    return file is not None and name in bundled_names() and file == resolve(name)


def resolve(model: str | Path) -> Path:
    """Return the file of a bundled name, or the path itself.

    A bundled name wins over a file of the same name in the current directory.
    """
    if is_bundled(model):
        return data_directory() / f"{model}{SUFFIX}"
    path = Path(model)
    if not path.exists():
        raise BadFile(
            f"{model}: no such file; bundled models are: {', '.join(bundled_names()) or 'none'}"
        )
    return path


def load(model: str | Path = DEFAULT_MODEL) -> Weights:
    """Read a model from a quadlens file, or a bundled one by name.

    >>> import quadlens
    >>> quadlens.load("pizza")
    Weights(p=59, d_mlp=512, relu, weights=180,411)
    """
    return load_file(resolve(a_path(model)))
