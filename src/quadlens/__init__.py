"""quadlens explains small networks that learned a finite operation such as addition modulo p, and proves what they do.

model = quadlens.load("pizza")           # or import_file, from_state_dict, build, train
study = quadlens.study(model)               # computes each thing once; takes TransformerLens' object, too
quadlens.explain(study)                     # evaluate, bounds, lens, certify, check, report, explore: the same way
quadlens.figures.quadrature(study, k=5)     # a matplotlib figure, on your own axes if you like
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quadlens.door import DOOR
from quadlens.version import VERSION

if TYPE_CHECKING:  # the same names, for those who check types
    from quadlens import edit as edit
    from quadlens import figures as figures
    from quadlens.edit import *  # noqa: F403
    from quadlens.errors import BadConfig as BadConfig
    from quadlens.errors import BadFile as BadFile
    from quadlens.errors import BadWeights as BadWeights
    from quadlens.errors import QuadlensError as QuadlensError
    from quadlens.explanation import Explanation as Explanation
    from quadlens.explorer.write import explore as explore
    from quadlens.infinite_width import Lens as Lens
    from quadlens.infinite_width.of_study import lens as lens
    from quadlens.model import Config as Config
    from quadlens.model import Evaluation as Evaluation
    from quadlens.model import Recipe as Recipe
    from quadlens.model import Tables as Tables
    from quadlens.model import Weights as Weights
    from quadlens.model import load as load
    from quadlens.model.formats import Imported as Imported
    from quadlens.model.formats import from_state_dict as from_state_dict
    from quadlens.model.formats.of_study import export_file as export_file
    from quadlens.model.formats.of_study import from_module as from_module
    from quadlens.model.formats.of_study import import_file as import_file
    from quadlens.model.of_study import build as build
    from quadlens.model.of_study import save as save
    from quadlens.model.study import Study as Study
    from quadlens.model.task import Task as Task
    from quadlens.model.task import task as task
    from quadlens.pages import Report as Report
    from quadlens.pages import report as report
    from quadlens.pages.compare import Comparison as Comparison
    from quadlens.pages.compare import compare as compare
    from quadlens.parameterisation import Parameterised as Parameterised
    from quadlens.parameterisation.of_study import parameterise as parameterise
    from quadlens.proofs import Certificate as Certificate
    from quadlens.quadrature import Bounds as Bounds
    from quadlens.quadrature.of_study import bounds as bounds
    from quadlens.sequences.check import check as check
    from quadlens.sequences.of_study import certify as certify
    from quadlens.sequences.of_study import evaluate as evaluate
    from quadlens.sequences.of_study import explain as explain
    from quadlens.studies.anything import study as study
    from quadlens.studies.over_time import RunHistory as RunHistory
    from quadlens.studies.over_time import history as history
    from quadlens.training.by_name import train as train
    from quadlens.training.config import TrainConfig as TrainConfig
    from quadlens.training.train import TrainingResult as TrainingResult
    from quadlens_checker import CheckReport as CheckReport

__version__ = VERSION

# Every public name, by the module it lives in.
_HOMES = {
    "quadlens": ("__version__", "edit", "figures"),
    "quadlens.errors": ("BadConfig", "BadFile", "BadWeights", "QuadlensError"),
    "quadlens.explanation": ("Explanation",),
    "quadlens.explorer.write": ("explore",),
    "quadlens.infinite_width": ("Lens",),
    "quadlens.infinite_width.of_study": ("lens",),
    "quadlens.model": ("Config", "Evaluation", "Recipe", "Tables", "Weights", "load"),
    "quadlens.model.of_study": ("build", "save"),
    "quadlens.model.study": ("Study",),
    "quadlens.model.task": ("Task", "task"),
    "quadlens.model.formats": ("Imported", "from_state_dict"),
    "quadlens.model.formats.of_study": ("export_file", "from_module", "import_file"),
    "quadlens.pages": ("Report", "report"),
    "quadlens.pages.compare": ("Comparison", "compare"),
    "quadlens.parameterisation": ("Parameterised",),
    "quadlens.parameterisation.of_study": ("parameterise",),
    "quadlens.proofs": ("Certificate",),
    "quadlens.sequences.check": ("check",),
    "quadlens.quadrature": ("Bounds",),
    "quadlens.quadrature.of_study": ("bounds",),
    "quadlens.sequences.of_study": ("certify", "evaluate", "explain"),
    "quadlens.studies.anything": ("study",),
    "quadlens.studies.over_time": ("RunHistory", "history"),
    "quadlens.training.by_name": ("train",),
    "quadlens.training.config": ("TrainConfig",),
    "quadlens.training.train": ("TrainingResult",),
    "quadlens_checker": ("CheckReport",),
}
# Every part of a study by the name that users write after `study.`: where its function lives, and what it is called.
_PARTS = {
    "anatomy": ("quadlens.spectrum.of_study", "study_anatomy"),
    "collapsed": ("quadlens.spectrum.of_study", "collapsed_of"),
    "evaluation": ("quadlens.spectrum.of_study", "evaluation_of"),
    "margins": ("quadlens.spectrum.of_study", "margins_of"),
    "keys": ("quadlens.spectrum.of_study", "keys_of"),
    "skip_shares": ("quadlens.logits.of_study", "skip_shares_of"),
    "explanation": ("quadlens.explanation.of_study", "explanation_of"),
    "bounds": ("quadlens.quadrature.of_study", "bounds_if_any"),
    "lens": ("quadlens.infinite_width.of_study", "whole_lens"),
    "certificates": ("quadlens.proofs.of_study", "certificates_of"),
    "certificate": ("quadlens.proofs.of_study", "certificate_of"),
    "history": ("quadlens.training.of_study", "history_of"),
}
# The same of functions that take more than the study.
_METHODS = {
    "logits": ("quadlens.spectrum.of_study", "logits_of"),
    "preactivations": ("quadlens.spectrum.of_study", "preactivations_of"),
    "certify": ("quadlens.sequences.of_study", "certified"),
    "without_proofs": ("quadlens.proofs.of_study", "without_proofs"),
}
# Until 0.3 they are found here as well.
_MOVED = ("ablate", "jitter_phases", "jitter_weights", "mix_attention", "resample", "swap_activation")
__all__ = [*sorted(name for names in _HOMES.values() for name in names)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """Import what a name needs when it is first asked for, so that `import quadlens` costs nothing."""
    if name in ("edit", "figures"):
        return import_module(f"quadlens.{name}")
    if name in _MOVED:
        return getattr(import_module("quadlens.edit"), name)
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'quadlens' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return __all__


def _study_of(model: Any, name: str | None = None) -> Any:
    return import_module("quadlens.studies.anything").study_of(model, name)


def _read(file: Any, activation: str | None) -> Any:
    return import_module("quadlens.studies.anything").read(file, activation)


def _part_named(name: str) -> Any:
    home, function = {**_PARTS, **_METHODS}[name]
    return getattr(import_module(home), function)


def _checker() -> Any:
    return import_module("quadlens_checker")


DOOR.study_of, DOOR.read, DOOR.checker, DOOR.load = _study_of, _read, _checker, import_module
DOOR.part_named, DOOR.parts, DOOR.methods = _part_named, _PARTS, _METHODS
