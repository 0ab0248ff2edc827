"""Explain small networks that learned a finite operation, and prove what they answer.

The operation is one such as addition modulo p::

    model = quadlens.load("pizza")          # or import_file, from_state_dict, build, train
    study = quadlens.study(model)           # computes each part once; also of a HookedTransformer
    quadlens.explain(study)                 # so do evaluate, bounds, lens, certify, check, report
    quadlens.figures.quadrature(study, k=5) # a matplotlib figure, on your own axes if you like
"""

from importlib import import_module
from pathlib import Path
from typing import Any

from quadlens.base.door import DOOR
from quadlens.base.version import VERSION

__version__ = VERSION

# Where each public name lives: the lines `from MODULE import NAME as NAME` of the list of types.
_LINES = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8").splitlines()
_HOMES = {line.split()[-1]: line.split()[1::2] for line in _LINES if line.startswith("from ")}
__all__ = [*sorted({*_HOMES, "__version__"})]  # noqa: PLE0604
_SPECTRUM, _PAIRS = "quadlens.analysis.spectrum.of_study", "quadlens.proofs.pairs.of_study"
# Every part of a study by the name that users write after `study.`: the module and its function.
_PARTS = {
    "anatomy": (_SPECTRUM, "study_anatomy"),
    "collapsed": (_SPECTRUM, "collapsed_of"),
    "evaluation": (_SPECTRUM, "evaluation_of"),
    "margins": (_SPECTRUM, "margins_of"),
    "keys": (_SPECTRUM, "keys_of"),
    "skip_shares": ("quadlens.analysis.logits.of_study", "skip_shares_of"),
    "explanation": ("quadlens.analysis.explanation.of_study", "explanation_of"),
    "bounds": ("quadlens.analysis.quadrature.of_study", "bounds_if_any"),
    "lens": ("quadlens.analysis.infinite_width.of_study", "whole_lens"),
    "certificates": (_PAIRS, "certificates_of"),
    "certificate": (_PAIRS, "certificate_of"),
    "history": ("quadlens.training.of_study", "history_of"),
}
# Those that take more than the study.
_METHODS = {
    "logits": (_SPECTRUM, "logits_of"),
    "preactivations": (_SPECTRUM, "preactivations_of"),
    "certify": ("quadlens.proofs.sequences.of_study", "certified"),
    "without_proofs": (_PAIRS, "without_proofs"),
}


def __getattr__(name: str) -> Any:
    """Import what a name needs when it is first asked for, so that `import quadlens` is quick."""
    if name not in _HOMES:
        known = ", ".join(__all__)
        raise AttributeError(f"module 'quadlens' has no attribute {name!r}; it has {known}")
    home, found, *_ = _HOMES[name]
    module = import_module(home)
    return getattr(module, found) if hasattr(module, found) else import_module(f"{home}.{found}")


def __dir__() -> list[str]:
    return __all__


def _study_of(model: Any, name: str | None = None) -> Any:
    return import_module("quadlens.anything").study_of(model, name)


def _read(file: Any, activation: str | None) -> Any:
    return import_module("quadlens.anything").read(file, activation)


def _part_named(name: str) -> Any:
    home, function = (_PARTS | _METHODS)[name]
    return getattr(import_module(home), function)


DOOR.study_of, DOOR.read, DOOR.load = _study_of, _read, import_module
DOOR.checker = lambda: import_module("quadlens_checker")
DOOR.part_named, DOOR.parts, DOOR.methods = _part_named, _PARTS, _METHODS
