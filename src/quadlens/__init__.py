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
# Every part of a study by the name that users write after `study.`: the module and its function.
_PARTS = {
    "anatomy": ("quadlens.analysis.spectrum.of_study", "study_anatomy"),
    "collapsed": ("quadlens.analysis.spectrum.of_study", "collapsed_of"),
    "evaluation": ("quadlens.analysis.spectrum.of_study", "evaluation_of"),
    "margins": ("quadlens.analysis.spectrum.of_study", "margins_of"),
    "keys": ("quadlens.analysis.spectrum.of_study", "keys_of"),
    "skip_shares": ("quadlens.analysis.logits.of_study", "skip_shares_of"),
    "explanation": ("quadlens.analysis.explanation.of_study", "explanation_of"),
    "bounds": ("quadlens.analysis.quadrature.of_study", "bounds_if_any"),
    "lens": ("quadlens.analysis.infinite_width.of_study", "whole_lens"),
    "certificates": ("quadlens.proofs.pairs.of_study", "certificates_of"),
    "certificate": ("quadlens.proofs.pairs.of_study", "certificate_of"),
    "history": ("quadlens.training.of_study", "history_of"),
}
# The same of functions that take more than the study.
_METHODS = {
    "logits": ("quadlens.analysis.spectrum.of_study", "logits_of"),
    "preactivations": ("quadlens.analysis.spectrum.of_study", "preactivations_of"),
    "certify": ("quadlens.proofs.sequences.of_study", "certified"),
    "without_proofs": ("quadlens.proofs.pairs.of_study", "without_proofs"),
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


def _checker() -> Any:
    return import_module("quadlens_checker")


DOOR.study_of, DOOR.read, DOOR.checker, DOOR.load = _study_of, _read, _checker, import_module
DOOR.part_named, DOOR.parts, DOOR.methods = _part_named, _PARTS, _METHODS
