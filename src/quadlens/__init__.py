"""quadlens explains small networks that learned a finite operation such as addition modulo p, and proves what they do.

model = quadlens.load("mainline")           # or import_file, from_state_dict, build, train
study = quadlens.study(model)               # computes each thing once
quadlens.explain(study)                     # evaluate, bounds, lens, certify, check, report, explore: the same way
quadlens.figures.quadrature(study, k=5)     # a matplotlib figure, on your own axes if you like
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadlens import figures
    from quadlens.errors import BadConfig, BadFile, BadWeights, QuadlensError
    from quadlens.explanation import Explanation, Outline
    from quadlens.infinite_width import Lens
    from quadlens.model import Config, Evaluation, Recipe, Tables, Weights
    from quadlens.model.formats import Imported, from_state_dict
    from quadlens.pages import Report
    from quadlens.pages.compare import Comparison
    from quadlens.parameterisation import Parameterised
    from quadlens.proofs import Certificate
    from quadlens.quadrature import Bounds
    from quadlens.studies import Study
    from quadlens.studies.interventions import (
        ablate,
        jitter_phases,
        jitter_weights,
        mix_attention,
        resample,
        swap_activation,
    )
    from quadlens.studies.over_time import RunHistory
    from quadlens.training.config import TrainConfig
    from quadlens.training.train import TrainingResult
    from quadlens.verbs import (
        bounds,
        build,
        certify,
        check,
        compare,
        evaluate,
        explain,
        explore,
        export_file,
        history,
        import_file,
        lens,
        load,
        parameterise,
        report,
        save,
        study,
        train,
    )
    from quadlens_checker import CheckReport

__version__ = "0.1.0"

__all__ = [
    "BadConfig",
    "BadFile",
    "BadWeights",
    "Bounds",
    "Certificate",
    "CheckReport",
    "Comparison",
    "Config",
    "Evaluation",
    "Explanation",
    "Imported",
    "Lens",
    "Outline",
    "Parameterised",
    "QuadlensError",
    "Recipe",
    "Report",
    "RunHistory",
    "Study",
    "Tables",
    "TrainConfig",
    "TrainingResult",
    "Weights",
    "__version__",
    "ablate",
    "bounds",
    "build",
    "certify",
    "check",
    "compare",
    "evaluate",
    "explain",
    "explore",
    "export_file",
    "figures",
    "from_state_dict",
    "history",
    "import_file",
    "jitter_phases",
    "jitter_weights",
    "lens",
    "load",
    "mix_attention",
    "parameterise",
    "report",
    "resample",
    "save",
    "study",
    "swap_activation",
    "train",
]

# Where the public names live that are not in `verbs`.
_HOMES = {
    "quadlens.errors": ("BadConfig", "BadFile", "BadWeights", "QuadlensError"),
    "quadlens.explanation": ("Explanation", "Outline"),
    "quadlens.infinite_width": ("Lens",),
    "quadlens.model": ("Config", "Evaluation", "Recipe", "Tables", "Weights"),
    "quadlens.model.formats": ("Imported", "from_state_dict"),
    "quadlens.pages": ("Report",),
    "quadlens.pages.compare": ("Comparison",),
    "quadlens.parameterisation": ("Parameterised",),
    "quadlens.proofs": ("Certificate",),
    "quadlens.quadrature": ("Bounds",),
    "quadlens.studies": ("Study",),
    "quadlens.studies.interventions": (
        *("ablate", "jitter_phases", "jitter_weights", "mix_attention", "resample", "swap_activation"),
    ),
    "quadlens.studies.over_time": ("RunHistory",),
    "quadlens.training.config": ("TrainConfig",),
    "quadlens.training.train": ("TrainingResult",),
    "quadlens_checker": ("CheckReport",),
}


def __getattr__(name: str) -> Any:
    """Import what a name needs when it is first asked for, so that `import quadlens` costs nothing."""
    if name == "figures":
        return import_module("quadlens.figures")
    if name not in __all__:
        raise AttributeError(f"module 'quadlens' has no attribute {name!r}; it has {', '.join(__all__)}")
    home = next((home for home, names in _HOMES.items() if name in names), "quadlens.verbs")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return __all__
