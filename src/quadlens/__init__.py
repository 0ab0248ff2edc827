"""Explain small networks that learned a finite operation, and prove what they answer.

The operation is one such as addition modulo p::

    model = quadlens.load("pizza")          # or import_file, from_state_dict, build, train
    study = quadlens.study(model)           # computes each part once; also of a HookedTransformer
    quadlens.explain(study)                 # so do evaluate, bounds, lens, certify, check, report
    quadlens.figures.quadrature(study, k=5) # a matplotlib figure, on your own axes if you like
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quadlens.base.door import DOOR
from quadlens.base.version import VERSION

if TYPE_CHECKING:  # the same names, for those who check types
    from quadlens.analysis import edit as edit
    from quadlens.analysis.edit import *  # noqa: F403
    from quadlens.analysis.explanation import Explanation as Explanation
    from quadlens.analysis.infinite_width import Lens as Lens
    from quadlens.analysis.infinite_width.of_study import lens as lens
    from quadlens.analysis.parameterisation import Parameterised as Parameterised
    from quadlens.analysis.parameterisation.of_study import parameterise as parameterise
    from quadlens.analysis.quadrature import Bounds as Bounds
    from quadlens.analysis.quadrature.of_study import bounds as bounds
    from quadlens.anything import study as study
    from quadlens.base.errors import BadConfig as BadConfig
    from quadlens.base.errors import BadFile as BadFile
    from quadlens.base.errors import BadWeights as BadWeights
    from quadlens.base.errors import QuadlensError as QuadlensError
    from quadlens.network import Config as Config
    from quadlens.network import Evaluation as Evaluation
    from quadlens.network import Recipe as Recipe
    from quadlens.network import Tables as Tables
    from quadlens.network import Weights as Weights
    from quadlens.network import load as load
    from quadlens.network.of_study import build as build
    from quadlens.network.of_study import save as save
    from quadlens.network.study import Study as Study
    from quadlens.network.task import Task as Task
    from quadlens.network.task import task as task
    from quadlens.proofs.pairs import Certificate as Certificate
    from quadlens.proofs.sequences.check import check as check
    from quadlens.proofs.sequences.of_study import certify as certify
    from quadlens.proofs.sequences.of_study import evaluate as evaluate
    from quadlens.proofs.sequences.of_study import explain as explain
    from quadlens.readers import Imported as Imported
    from quadlens.readers import from_state_dict as from_state_dict
    from quadlens.readers.of_study import export_file as export_file
    from quadlens.readers.of_study import from_module as from_module
    from quadlens.readers.of_study import import_file as import_file
    from quadlens.show import figures as figures
    from quadlens.show.explorer.write import explore as explore
    from quadlens.show.pages import Report as Report
    from quadlens.show.pages import report as report
    from quadlens.show.pages.compare import Comparison as Comparison
    from quadlens.show.pages.compare import compare as compare
    from quadlens.training.by_name import train as train
    from quadlens.training.config import TrainConfig as TrainConfig
    from quadlens.training.over_time import RunHistory as RunHistory
    from quadlens.training.over_time import history as history
    from quadlens.training.train import TrainingResult as TrainingResult
    from quadlens_checker import CheckReport as CheckReport

__version__ = VERSION

# Every public name, by the module it lives in.
_HOMES = {
    "quadlens": ("__version__", "edit", "figures"),
    "quadlens.base.errors": ("BadConfig", "BadFile", "BadWeights", "QuadlensError"),
    "quadlens.analysis.explanation": ("Explanation",),
    "quadlens.show.explorer.write": ("explore",),
    "quadlens.analysis.infinite_width": ("Lens",),
    "quadlens.analysis.infinite_width.of_study": ("lens",),
    "quadlens.network": ("Config", "Evaluation", "Recipe", "Tables", "Weights", "load"),
    "quadlens.network.of_study": ("build", "save"),
    "quadlens.network.study": ("Study",),
    "quadlens.network.task": ("Task", "task"),
    "quadlens.readers": ("Imported", "from_state_dict"),
    "quadlens.readers.of_study": ("export_file", "from_module", "import_file"),
    "quadlens.show.pages": ("Report", "report"),
    "quadlens.show.pages.compare": ("Comparison", "compare"),
    "quadlens.analysis.parameterisation": ("Parameterised",),
    "quadlens.analysis.parameterisation.of_study": ("parameterise",),
    "quadlens.proofs.pairs": ("Certificate",),
    "quadlens.proofs.sequences.check": ("check",),
    "quadlens.analysis.quadrature": ("Bounds",),
    "quadlens.analysis.quadrature.of_study": ("bounds",),
    "quadlens.proofs.sequences.of_study": ("certify", "evaluate", "explain"),
    "quadlens.anything": ("study",),
    "quadlens.training.over_time": ("RunHistory", "history"),
    "quadlens.training.by_name": ("train",),
    "quadlens.training.config": ("TrainConfig",),
    "quadlens.training.train": ("TrainingResult",),
    "quadlens_checker": ("CheckReport",),
}
# Every part of a study by the name that users write after `study.`: where its function lives, and
# what it is called.
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
__all__ = [*sorted(name for names in _HOMES.values() for name in names)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """Import what a name needs when it is first asked for, so that `import quadlens` costs nothing."""
    if name in ("edit", "figures"):
        return import_module(
            {"edit": "quadlens.analysis.edit", "figures": "quadlens.show.figures"}[name]
        )
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(
            f"module 'quadlens' has no attribute {name!r}; it has {', '.join(__all__)}"
        )
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return __all__


def _study_of(model: Any, name: str | None = None) -> Any:
    return import_module("quadlens.anything").study_of(model, name)


def _read(file: Any, activation: str | None) -> Any:
    return import_module("quadlens.anything").read(file, activation)


def _part_named(name: str) -> Any:
    home, function = {**_PARTS, **_METHODS}[name]
    return getattr(import_module(home), function)


def _checker() -> Any:
    return import_module("quadlens_checker")


DOOR.study_of, DOOR.read, DOOR.checker, DOOR.load = _study_of, _read, _checker, import_module
DOOR.part_named, DOOR.parts, DOOR.methods = _part_named, _PARTS, _METHODS
