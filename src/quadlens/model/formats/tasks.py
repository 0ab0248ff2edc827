"""Which task a model that was read is asked: by flag, by the file's config, by a table, or by the model itself."""

import dataclasses
from pathlib import Path

import numpy as np

from quadlens.errors import BadConfig, QuadlensError
from quadlens.model.formats.facts import agreed
from quadlens.model.formats.protocol import Hints, Imported
from quadlens.model.groups import group_orders
from quadlens.model.params import Model, asked
from quadlens.model.task import Task, task_by_name, task_from_file, task_from_table

# How many times as many answers an order of a group's elements must make right, to be taken, as guessing does (1 in n)
# and, among the inputs where the two differ, as any other order does. Narrow networks that learned a group in part
# have an eighth of all answers right, in a wrong order about 1 in n.
CLEARLY = 3


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
                task, order = _in_its_order(imported.model, task.name)
                said = f"{said}; {order}"
        model = asked(imported.model, task)
    except QuadlensError as error:
        raise type(error)(f"{source}: {error}") from None
    return dataclasses.replace(imported, model=model, notes=(*imported.notes, f"task {task.words}: {said}"))


def _own_answers(model: Model) -> np.ndarray:
    """The answer with the largest logit, for every (a, b)."""
    layer = model.hidden_layer()
    return np.stack([layer.logits(a).argmax(axis=1) for a in range(model.config.p)])


def _in_its_order(model: Model, name: str) -> tuple[Task, str]:
    """The group with its elements in the one known order that the model's answers are in, and how well it fits."""
    answers, orders = _own_answers(model), group_orders(name)
    right = {who: answers == table for who, table in orders.items()}
    counts = {who: int(fits.sum()) for who, fits in right.items()}
    best = max(counts, key=lambda who: counts[who])
    # Where two orders agree the answers cannot tell them apart.
    clear = all(
        (right[best] & ~other).sum() >= CLEARLY * (other & ~right[best]).sum()
        for who, other in right.items()
        if who != best
    )
    # Of two or three elements guessing gets so many right that three times as many would be all.
    guessed = answers.size * min(1 / len(answers), 1 / 4)
    if counts[best] < CLEARLY * guessed or not clear:
        told = "; ".join(f"{count} in {who}" for who, count in counts.items())
        raise BadConfig(
            f"no known order of the elements of {name} (docs/formats.md) is clearly the model's: of its {answers.size} "
            f"answers are right: {told}. Give the table with --answers FILE (CSV or .npy), or --answers model to take "
            "the model's own answers for it"
        )
    others = max((count for who, count in counts.items() if who != best), default=None)
    beside = "" if others is None else f", {others} in the next best order"
    said = f"elements in {best}: {counts[best]} of {answers.size} answers right{beside}"
    return task_from_table(orders[best], name), said


def _by_answers(model: Model, answers: str, name: str | None) -> tuple[Task, str]:
    """The task from a file's table or from the model's own answers."""
    if answers != "model":
        return task_from_file(Path(answers)), f"--answers {answers}"
    own = task_from_table(_own_answers(model))
    kind = "a group" if own.is_group else "no group"
    claimed = "" if name is None else f" (the config says {name})"
    return own, f"the model's own answers{claimed}, so that it is right on 100 % by definition; their table is {kind}"
