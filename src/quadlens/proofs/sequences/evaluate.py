"""Evaluate a network on sequences in float64: on all words where they are few, or a sample."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from quadlens.base.display import Displayed
from quadlens.network.margins import leads_of_set
from quadlens.network.sequence_forward import forward, sequence_config
from quadlens.network.sequence_task import SEED, expand, sample_words
from quadlens.network.weights import Weights

# Words that are tried: all of them up to the first number, else so many as people who publish
# adders try.
MOST, SAMPLE = 20_000, 10_010
MAX_WRONG = 100


@dataclass(frozen=True, repr=False)
class SequenceEvaluation(Displayed):
    """The answers of a network on some words.

    Attributes:
        task: Its name.
        inputs: How many words there are.
        tried: How many were tried; half of a sample of sums are full of carries.
        correct: How many of these have every step right.
        accuracy: Their share.
        min_margin: The smallest margin at any step.
        wrong: Words answered wrong, at most 100.
        seed: Of the sample; None where all were tried.
    """

    task: str
    inputs: int
    tried: int
    correct: int
    accuracy: float
    min_margin: float
    wrong: tuple[tuple[int, ...], ...]
    seed: int | None

    def _facts(self) -> dict[str, object]:
        return {
            "task": self.task,
            "correct": f"{self.correct:,} of {self.tried:,} tried",
            "inputs": f"{self.inputs:,}",
        }


def evaluate_sequence(
    model: Weights, sample: int | None = None, seed: int = SEED
) -> SequenceEvaluation:
    """Try every word, or a sample; each step is asked with the right answers before it."""
    task = expand(sequence_config(model))
    everything = sample is None and task.inputs <= MOST
    if everything:
        words: Any = np.array(list(product(*(range(size) for size in task.alphabets))))
    else:
        words = sample_words(task, sample or SAMPLE, seed)
    tokens, least = task.tokens(words), np.full(len(words), np.inf)
    with np.errstate(all="ignore"):
        for step, (query, _, _) in enumerate(task.steps):
            leads = leads_of_set(forward(model, tokens, query), task.right(words, step))
            least = np.minimum(least, np.nan_to_num(leads, nan=-np.inf))
    wrong = tuple(tuple(int(a) for a in word) for word in words[~(least > 0)][:MAX_WRONG])
    correct = int((least > 0).sum())
    return SequenceEvaluation(
        task=task.name,
        inputs=task.inputs,
        tried=len(words),
        correct=correct,
        accuracy=correct / len(words),
        min_margin=float(least.min()),
        wrong=wrong,
        seed=None if everything else seed,
    )
