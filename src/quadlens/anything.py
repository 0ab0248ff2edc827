"""Make a study of anything that stands for a network; the door alone calls this."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadlens.base.errors import WrongArgument, kind_of
from quadlens.network.bundled import SUFFIX, resolve
from quadlens.network.native import load_with_sha256
from quadlens.network.study import IN_MEMORY, Study
from quadlens.network.tables import Tables
from quadlens.network.weights import Weights

if TYPE_CHECKING:
    from quadlens.network.named import ModelLike
    from quadlens.network.task import TaskLike


def study(
    model: "ModelLike" = "pizza",
    *,
    inputs: Sequence[str | int] | None = None,
    config: Any = None,
    p: int | None = None,
    task: "TaskLike | None" = None,
) -> Study:
    """Hold everything about one model, each part computed once, when it is first asked for.

    Pass it to the other verbs and to `quadlens.figures`: they share what is computed.

    Every verb also takes TransformerLens' own object, a `HookedTransformer` or a bridge. What was
    read is printed, how many inputs are answered right first, and has been compared with the
    object's own forward pass on every input.

    Args:
        model: A model, a study, a path, the name of a bundled model; TransformerLens' object, or a
            state dict of one.
        inputs: Which tokens TransformerLens' object is fed, as ("a", "b", 113); when None, a, b and
            the last token where there is one beyond the answers and a third position, else a and b.
        config: The config of a state dict, as a dictionary or as TransformerLens' own.
        p: How many elements a and b have, where they are fewer than the object's answers.
        task: What the object was trained for, as "add" or "S5", its table (rows, array, tensor), or
            a `quadlens.task(…)`; addition when None.

    >>> import quadlens
    >>> study = quadlens.study("pizza")
    >>> quadlens.explain(study) is quadlens.explain(study)
    True
    """
    from quadlens.network.task import task_given
    from quadlens.readers.memory import from_transformer, is_transformer_lens

    task = task_given(task)
    if (
        is_transformer_lens(model) and (inputs, p, task) != (None, None, None)
    ) or config is not None:
        imported = from_transformer(model, config, inputs=inputs, p=p, task=task)
        print(imported.summary())
        return study_of(imported, type(model).__name__ if config is None else None)
    if (inputs, p, task) != (None, None, None):
        raise WrongArgument(
            "inputs, p and task are for TransformerLens' object, or a state dict with config=…"
        )
    return study_of(model)


def study_of(model: Any, name: str | None = None) -> Study:
    """Make a study of anything that stands for a model.

    That is a study, a model, an anatomy, a training result, a path, or the name of a bundled model.
    What was read of TransformerLens' own object is printed, as nobody chose which tokens it is fed.

    Raises:
        WrongArgument: for anything else; the message says what to pass.
    """
    if isinstance(model, Study):
        return model
    if isinstance(model, str | Path):
        path = resolve(model)
        loaded, digest = load_with_sha256(path)
        return Study(loaded, name or path.name.removesuffix(SUFFIX), path, digest)
    if isinstance(model, Weights):
        return Study(model, name or IN_MEMORY)
    # What a training returns, and whatever holds weights: an anatomy, what import_file returns.
    if isinstance(getattr(model, "params", None), Weights):
        return Study(model.params, name or IN_MEMORY).given(history=model.history)
    if isinstance(getattr(model, "model", None), Weights):
        return Study(model.model, name or IN_MEMORY).given(_parts_in(model))
    from quadlens.readers.memory import from_transformer, is_transformer_lens

    if is_transformer_lens(model):
        imported = from_transformer(model)
        print(imported.summary())
        return Study(imported.model, name or type(model).__name__)
    raise WrongArgument(_what_to_pass(model))


def read(file: Path, activation: str | None = None) -> Weights:
    """Read the network in another program's checkpoint."""
    from quadlens.readers.registry import hints_of, import_file

    return import_file(file, "auto", hints_of(activation=activation)).model


def _parts_in(model: Any) -> dict[Any, Any]:
    """Return the parts of a study that an anatomy has computed already."""
    from quadlens.analysis.spectrum.anatomy import Anatomy
    from quadlens.analysis.spectrum.of_study import study_anatomy

    return {study_anatomy: model} if isinstance(model, Anatomy) else {}


def _what_to_pass(model: object) -> str:
    """Say what to pass instead of this."""
    kind = kind_of(model)
    expected = (
        "expected a model, a study, a path to a quadlens file, or the name of a bundled model"
    )
    if isinstance(model, dict):
        return (
            f"got a dict; {expected}: a state dict of TransformerLens goes with its config, as "
            "quadlens.study(state, config=…); any other to quadlens.from_state_dict(state, …)"
        )
    if hasattr(model, "state_dict"):
        maker = "quadlens.from_module(module, inputs=…)"
        return f"got {kind} with a state_dict; {expected}: {maker} makes one"
    if isinstance(model, Tables):
        return f"got the collapsed model, which has no weights to prove anything about; {expected}"
    return f"got {kind}; {expected}"
