"""quadlens explains small networks that learned a finite operation such as addition modulo p, and proves what they do.

model = quadlens.load("pizza")           # or import_file, from_state_dict, build, train
study = quadlens.study(model)               # computes each thing once; takes TransformerLens' object, too
quadlens.explain(study)                     # evaluate, bounds, lens, certify, check, report, explore: the same way
quadlens.figures.quadrature(study, k=5)     # a matplotlib figure, on your own axes if you like
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names, for those who check types
    from quadlens import edit as edit
    from quadlens import figures as figures
    from quadlens.edit import *  # noqa: F403
    from quadlens.errors import BadConfig as BadConfig
    from quadlens.errors import BadFile as BadFile
    from quadlens.errors import BadWeights as BadWeights
    from quadlens.errors import QuadlensError as QuadlensError
    from quadlens.explanation import Explanation as Explanation
    from quadlens.infinite_width import Lens as Lens
    from quadlens.model import Config as Config
    from quadlens.model import Evaluation as Evaluation
    from quadlens.model import Recipe as Recipe
    from quadlens.model import Tables as Tables
    from quadlens.model import Weights as Weights
    from quadlens.model import load as load
    from quadlens.model.formats import Imported as Imported
    from quadlens.model.formats import from_state_dict as from_state_dict
    from quadlens.model.task import Task as Task
    from quadlens.model.task import task as task
    from quadlens.pages import Report as Report
    from quadlens.pages import report as report
    from quadlens.pages.compare import Comparison as Comparison
    from quadlens.pages.compare import compare as compare
    from quadlens.parameterisation import Parameterised as Parameterised
    from quadlens.proofs import Certificate as Certificate
    from quadlens.quadrature import Bounds as Bounds
    from quadlens.studies import Study as Study
    from quadlens.studies.over_time import RunHistory as RunHistory
    from quadlens.studies.over_time import history as history
    from quadlens.training.config import TrainConfig as TrainConfig
    from quadlens.training.train import TrainingResult as TrainingResult
    from quadlens.verbs import *  # noqa: F403
    from quadlens_checker import CheckReport as CheckReport

__version__ = "0.2.0"

# Every public name, by the module it lives in.
_HOMES = {
    "quadlens": ("__version__", "edit", "figures"),
    "quadlens.errors": ("BadConfig", "BadFile", "BadWeights", "QuadlensError"),
    "quadlens.explanation": ("Explanation",),
    "quadlens.infinite_width": ("Lens",),
    "quadlens.model": ("Config", "Evaluation", "Recipe", "Tables", "Weights", "load"),
    "quadlens.model.task": ("Task", "task"),
    "quadlens.model.formats": ("Imported", "from_state_dict"),
    "quadlens.pages": ("Report", "report"),
    "quadlens.pages.compare": ("Comparison", "compare"),
    "quadlens.parameterisation": ("Parameterised",),
    "quadlens.proofs": ("Certificate",),
    "quadlens.quadrature": ("Bounds",),
    "quadlens.studies": ("Study",),
    "quadlens.studies.over_time": ("RunHistory", "history"),
    "quadlens.training.config": ("TrainConfig",),
    "quadlens.training.train": ("TrainingResult",),
    "quadlens.verbs": (
        *("bounds", "build", "certify", "check", "evaluate", "explain", "explore", "export_file", "from_module"),
        *("import_file", "lens", "parameterise", "save", "study", "train"),
    ),
    "quadlens_checker": ("CheckReport",),
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
