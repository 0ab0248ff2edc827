"""The page of a network, for users, as a file."""

from pathlib import Path
from typing import TYPE_CHECKING

from quadlens.base.arguments import checked
from quadlens.base.atomic import write_atomic
from quadlens.base.reading import keeping_inputs
from quadlens.network.study import study_of
from quadlens.show.explorer.page import build_page
from quadlens.training.played_run import run_to_play

if TYPE_CHECKING:
    from quadlens.network.named import ModelLike


@checked
def explore(model: "ModelLike", output: str | Path, *, history: str | Path | bool = True) -> Path:
    """Write one offline page in which neurons can be dragged; return its path.

    Integrals, logits and answers follow the neuron that is dragged.

    Args:
        model: A model, a study, a path or the name of a bundled model.
        output: The page.
        history: The run to be played on it: a model's file with snapshots or NAME.run beside it.
            True is what lies beside `model`, if anything; False is a page without time.

    >>> import quadlens, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     quadlens.explore("pizza", f"{directory}/explorer.html").name
    'explorer.html'
    """
    study = study_of(model)
    with keeping_inputs(study.file):
        write_atomic(
            Path(output), build_page(study, study.name, run_to_play(study, history)).encode()
        )
    return Path(output)
