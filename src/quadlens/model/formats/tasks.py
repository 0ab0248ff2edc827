"""Which task a model that was read is asked: by flag, by the file's config, by a table, or by the model itself."""

import dataclasses
from pathlib import Path

import numpy as np

from quadlens.errors import BadConfig, QuadlensError
from quadlens.model.formats.facts import agreed
from quadlens.model.formats.protocol import Hints, Imported
from quadlens.model.params import MLPParams, Model, Params
from quadlens.model.task import Task, task_by_name, task_from_file, task_from_table

# A model that learned a group answers nearly everything right; with the elements in another order hardly anything.
REPRODUCES = 0.5


def with_task(imported: Imported, hints: Hints, source: str) -> Imported:
    """The model asked what it was trained for; addition when nobody says anything.

    Raises:
        BadConfig: when two disagree, the task does not fit, or a group's elements are in an order that is not ours.
    """
    found = agreed("the task", source, [("--task", hints.task), ("the file's config", imported.task)])
    try:
        if hints.answers is not None:
            task, said = _by_answers(imported.model, hints.answers, found[0] if found else None)
        elif found is None or found[0] == imported.model.config.task.name:
            return imported
        else:
            task, said = task_by_name(found[0], imported.model.config.p), found[1]
            if not task.by_formula:
                _check_order(imported.model, task)
        model = _asked(imported.model, task)
    except QuadlensError as error:
        raise type(error)(f"{source}: {error}") from None
    return dataclasses.replace(imported, model=model, notes=(*imported.notes, f"task {task.words}: {said}"))


def _asked(model: Model, task: Task) -> Model:
    if isinstance(model, Params):
        return dataclasses.replace(model, config=dataclasses.replace(model.config, task=task))
    if isinstance(model, MLPParams):
        return dataclasses.replace(model, config=dataclasses.replace(model.config, task=task))
    raise BadConfig(f"a {type(model).__name__} has no task")


def _own_answers(model: Model) -> np.ndarray:
    """The answer with the largest logit, for every (a, b)."""
    layer = model.hidden_layer()
    return np.stack([layer.logits(a).argmax(axis=1) for a in range(model.config.p)])


def _check_order(model: Model, task: Task) -> None:
    """Refuse a group whose elements the model numbers in another order than our rule does."""
    share = float((_own_answers(model) == task.answers).mean())
    if share < REPRODUCES:
        raise BadConfig(
            f"with the elements of {task.name} in our order (docs/formats.md) the model answers {share:.1%} right, so "
            "its order is another one; give the table with --answers FILE (CSV or .npy), or --answers model to take "
            "the model's own answers for it"
        )


def _by_answers(model: Model, answers: str, name: str | None) -> tuple[Task, str]:
    """The task from a file's table or from the model's own answers."""
    if answers != "model":
        return task_from_file(Path(answers)), f"--answers {answers}"
    own = task_from_table(_own_answers(model))
    kind = "a group" if own.is_group else "no group"
    claimed = "" if name is None else f" (the config says {name})"
    return own, f"the model's own answers{claimed}, so that it is right on 100 % by definition; their table is {kind}"
