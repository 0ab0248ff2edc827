"""The task of a model that was read: by setting, config, table, or its own answers."""

import dataclasses
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int

from quadlens.base.errors import BadConfig, QuadlensError
from quadlens.network.evaluate import evaluate
from quadlens.network.groups import group_orders
from quadlens.network.sequence_forward import sampled
from quadlens.network.task import Task, task_by_name, task_from_file, task_from_table
from quadlens.network.weights import Weights
from quadlens.readers.facts import agreed
from quadlens.readers.protocol import Hints, Imported

# How many times as many answers an order of a group's elements must make right, to be taken, as
# guessing does (1 in n) and, among the inputs where the two differ, as any other order does. Narrow
# networks that learned a group in part have an eighth of all answers right, in a wrong order about
# 1 in n.
CLEARLY = 3


# A pass over all logits that needs more multiplications takes minutes; so many inputs are drawn
# instead.
MAX_MULTIPLICATIONS = 5e11
DRAWN = 10_000


def with_task(imported: Imported, hints: Hints, source: str) -> Imported:
    """Return the model with its task and the number of inputs it answers right.

    The task is addition when nobody says another.

    Raises:
        BadConfig: when two disagree, the task does not fit, or a group's elements are in an order
            that is not ours.
    """
    given = hints.task if isinstance(hints.task, Task) else None
    name = hints.task if given is None else given.name if given.by_formula else None
    claims: list[tuple[str, str | None]] = [
        ("the setting task", name),  # type: ignore[list-item]
        ("the file's config", imported.task),
    ]
    named = agreed("the task", source, claims, "task")
    if imported.model.config.on_sequences:
        correct, tried, note = sampled(imported.model)
        return dataclasses.replace(
            imported, notes=(*imported.notes, note), correct=correct, pairs=tried
        )
    model, own = imported.model, _ModelAnswers(imported.model)
    task, said = model.config.task, "nothing says another" if named is None else named[1]
    try:
        if given is not None:
            task, said = given, "the setting task"
        elif hints.answers is not None:
            task, said = _by_answers(own, hints.answers, named[0] if named else None)
        elif named is not None and named[0] != task.name:
            task = task_by_name(named[0], model.config.p)
            if not task.by_formula:
                task, order = _in_its_order(own, task.name)
                said = f"{said}; {order}"
        model = model.asked(task)
    except QuadlensError as error:
        raise error.about(source) from None
    correct, pairs = own.right(task)
    notes = (*imported.notes, f"task {task.words}: {said}", right_words(correct, pairs, task.n))
    return dataclasses.replace(imported, model=model, notes=notes, correct=correct, pairs=pairs)


def right_words(correct: int | None, pairs: int | None, n: int) -> str:
    """The note that says how many inputs are answered right.

    >>> right_words(7, 10, 5)
    '7 of 10 inputs are answered right, drawn of 25'
    """
    return f"{correct} of {pairs} inputs are answered right" + (
        "" if pairs == n**2 else f", drawn of {n**2}"
    )


class _ModelAnswers:
    """What a model answers, computed when it is first asked for, and only once."""

    def __init__(self, model: Weights) -> None:
        self._model = model

    @cached_property
    def _all(self) -> tuple[Int[np.ndarray, "n n"], Bool[np.ndarray, "n n"]]:
        layer, answers, alone = self._model.collapse(), [], []
        with np.errstate(all="ignore"):
            for a in range(self._model.config.p):
                logits = layer.logits(a)
                top = logits.max(axis=1, keepdims=True)
                answers.append(logits.argmax(axis=1))
                alone.append((logits == top).sum(axis=1) == 1)
        return np.stack(answers), np.stack(alone)

    @property
    def answers(self) -> Int[np.ndarray, "n n"]:
        """The answer with the largest logit, for every (a, b)."""
        return self._all[0]

    def right(self, task: Task) -> tuple[int, int]:
        """Return how many of how many inputs are answered right.

        A tie, or a logit that overflows, is not right.
        """
        config = self._model.config
        if float(config.p) ** 3 * config.d_mlp <= MAX_MULTIPLICATIONS:
            answers, alone = self._all
            return int(((answers == task.answers) & alone).sum()), answers.size
        pairs = np.random.default_rng(0).integers(0, config.p, (DRAWN, 2))
        with np.errstate(all="ignore"):
            evaluation = evaluate(self._model.asked(task).collapse(), pairs)
        return evaluation.correct, evaluation.pairs


def _in_its_order(own: _ModelAnswers, name: str) -> tuple[Task, str]:
    """Return the group in the one known order that fits the answers, and how well."""
    answers, orders = own.answers, group_orders(name)
    right = {who: answers == table for who, table in orders.items()}
    counts = {who: int(agrees.sum()) for who, agrees in right.items()}
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
        fits = "; ".join(f"{count} in {who}" for who, count in counts.items())
        raise BadConfig(
            f"no known order of the elements of {name} (page `formats` of the documentation) is "
            f"clearly the model's: of its {answers.size} answers are right: {fits}. Give the table "
            "with answers=FILE (CSV or .npy), or answers=model to take the model's own answers "
            "for it",
            settings=("answers",),
        )
    others = max((count for who, count in counts.items() if who != best), default=None)
    beside = "" if others is None else f", {others} in the next best order"
    said = f"elements in {best}: {counts[best]} of {answers.size} answers right{beside}"
    return task_from_table(orders[best], name), said


def _by_answers(own: _ModelAnswers, answers: str, name: str | None) -> tuple[Task, str]:
    """The task from a file's table or from the model's own answers."""
    if answers != "model":
        return task_from_file(Path(answers)), f"answers={answers}"
    task = task_from_table(own.answers)
    kind = "a group" if task.is_group else "no group"
    claimed = "" if name is None else f" (the config says {name})"
    return (
        task,
        f"the model's own answers{claimed}, so that it is right on 100 % by definition; their "
        f"table is {kind}",
    )
