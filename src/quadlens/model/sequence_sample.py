"""How many inputs of a sample a network on sequences answers right: all of them are more than could be tried."""

import numpy as np
from jaxtyping import Bool

from quadlens.model.margins import leads_of_set
from quadlens.model.sequence_forward import forward, sequence_config
from quadlens.model.sequence_task import SequenceTask, Words, expand
from quadlens.model.weights import Weights

SAMPLE = 1_000
SEED = 0


def sample_words(task: SequenceTask, n: int = SAMPLE, seed: int = SEED) -> Words:
    """Inputs drawn evenly; of sums the second half is full of carries: every x + y is base - 1 or more."""
    words = task.random_words(n, seed)
    if not task.name.startswith("add:"):
        return words
    base = round(task.alphabets[0] ** 0.5)
    x = words[n // 2 :, :-1] // base
    y = np.random.default_rng(seed + 1).integers(base - 1 - x, base)
    return np.concatenate([words[: n // 2], np.pad(x * base + y, ((0, 0), (0, 1)))])


def answered_right(model: Weights, words: Words) -> Bool[np.ndarray, " n"]:
    """Whether every step of each input is answered right, in float64; a tie, or a logit that overflows, is not.

    Each step is asked with the right answers before it: greedy decoding is right just where all of these are.
    """
    task = expand(sequence_config(model))
    tokens, right = task.tokens(words), np.ones(len(words), dtype=bool)
    with np.errstate(all="ignore"):
        for step, (query, _, _) in enumerate(task.steps):
            right &= leads_of_set(forward(model, tokens, query), task.right(words, step)) > 0
    return right


def sampled(model: Weights) -> tuple[int, int, str]:
    """How many of how many inputs come out right, and a sentence that says so and what was drawn."""
    task = expand(sequence_config(model))
    correct = int(answered_right(model, sample_words(task)).sum())
    half = ", half of them full of carries" if task.name.startswith("add:") else ""
    told = f"{correct} of {SAMPLE} inputs are answered right, drawn of {task.inputs} with seed {SEED}{half}"
    return correct, SAMPLE, told
