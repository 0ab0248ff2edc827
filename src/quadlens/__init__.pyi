"""The names of `import quadlens`, for people who read, and programs that check types.

`quadlens/__init__.py` reads these lines: a name is imported from its module when it is asked for.
"""

from quadlens.analysis import edit as edit
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
from quadlens.show.compare import Comparison as Comparison
from quadlens.show.compare import compare as compare
from quadlens.show.explorer.write import explore as explore
from quadlens.show.pages import Report as Report
from quadlens.show.pages import report as report
from quadlens.training.by_name import train as train
from quadlens.training.config import TrainConfig as TrainConfig
from quadlens.training.over_time import RunHistory as RunHistory
from quadlens.training.over_time import history as history
from quadlens.training.train import TrainingResult as TrainingResult
from quadlens_checker import CheckReport as CheckReport

__version__: str
__all__: list[str]
