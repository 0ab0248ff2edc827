"""How the network of a study was trained."""

from quadlens.network.study import Study
from quadlens.training.history import History, read_history
from quadlens.training.outputs import RunFiles


def history_of(study: Study) -> History | None:
    """How the model was trained; None where the run's files are not beside it."""
    if study.file is None:
        return None
    files = RunFiles(study.file)
    kept = files.history.exists() and files.spectrum.exists()
    return read_history(files.history, files.spectrum) if kept else None
