"""Accuracy, margins and loss of a model, over all p² pairs or a sample of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from quadlens.base.display import Displayed
from quadlens.base.numbers import significant
from quadlens.network.forward import block_streams
from quadlens.network.margins import cross_entropy, leads
from quadlens.network.ring import FLOATS
from quadlens.network.tables import FloatTables
from quadlens.network.weights import Weights

MAX_WITNESSES = 100
# Past this many multiplications a pass over all p³ logits takes minutes.
MAX_OPERATIONS = 1e13
BLOCK_FLOATS = 1 << 24


@dataclass(frozen=True, repr=False)
class Evaluation(Displayed):
    """The answers of a model to the pairs tried, in float64.

    Attributes:
        p: Number of elements.
        pairs: How many pairs were tried (p² unless sampled).
        correct: How many are answered right; a tie between the right answer and another is not
            right.
        accuracy: correct / pairs.
        min_margin: Smallest margin: right logit minus the largest other.
        min_margin_pair: The pair that has it.
        median_margin: Median margin.
        loss: Mean cross-entropy.
        wrong: Pairs answered wrong with the answer given, (a, b, answered), at most 100.
    """

    p: int
    pairs: int
    correct: int
    accuracy: float
    min_margin: float
    min_margin_pair: tuple[int, int]
    median_margin: float
    loss: float
    wrong: tuple[tuple[int, int, int], ...]

    def _facts(self) -> dict[str, object]:
        return {
            "p": self.p,
            "correct": f"{self.correct} of {self.pairs}",
            "min_margin": significant(self.min_margin, "down"),
            "median_margin": f"{self.median_margin:.6g}",
            "loss": f"{self.loss:.3g}",
        }


def all_pairs(p: int) -> Int[np.ndarray, "pp 2"]:
    """Return every (a, b), row-major.

    >>> all_pairs(3)[:4].tolist()
    [[0, 0], [0, 1], [0, 2], [1, 0]]
    """
    return np.stack(np.divmod(np.arange(p * p), p), axis=1)


def evaluate(
    layer: FloatTables,
    pairs: Int[np.ndarray, "n 2"] | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Evaluation:
    """Run the model on `pairs`, or on all p² without them.

    The pairs go block by block, so that no array of p³ numbers is made.

    Args:
        layer: The model, as `Weights.collapse` gives it.
        pairs: Inputs to try.
        progress: Called with the number of pairs done after each block.
    """
    margins, answers, losses, done = [], [], [], 0
    for block, logits in _blocks(layer, pairs):
        right = layer.task.answer(block[:, 0], block[:, 1])
        margin, rival = leads(logits, right)
        margins.append(margin)
        # A tied answer is reported as the other one.
        answers.append(np.where(margin > 0, right, rival))
        losses.append(cross_entropy(logits, right))
        done += len(block)
        progress(done)
    pairs = all_pairs(layer.p) if pairs is None else pairs
    margin, answer = np.concatenate(margins), np.concatenate(answers)
    wrong = np.flatnonzero(~(margin > 0))
    worst = int(margin.argmin())
    return Evaluation(
        p=layer.p,
        pairs=len(pairs),
        correct=len(pairs) - len(wrong),
        accuracy=(len(pairs) - len(wrong)) / len(pairs),
        min_margin=float(margin[worst]),
        min_margin_pair=(int(pairs[worst, 0]), int(pairs[worst, 1])),
        median_margin=_median(margin),
        loss=float(np.concatenate(losses).mean()),
        wrong=tuple(
            (int(pairs[i, 0]), int(pairs[i, 1]), int(answer[i])) for i in wrong[:MAX_WITNESSES]
        ),
    )


def _median(values: Float[np.ndarray, " n"]) -> float:
    """Return the median, as `np.median` does.

    np.median would first import NumPy's masked arrays, which takes longer than all else here.
    """
    middle = len(values) // 2
    low, high = np.partition(values, [(len(values) - 1) // 2, middle])[
        [(len(values) - 1) // 2, middle]
    ].tolist()
    return float(low if low == high else (low + high) / 2)


def _blocks(
    layer: FloatTables, pairs: Int[np.ndarray, "n 2"] | None
) -> Iterator[tuple[Int[np.ndarray, "block 2"], Float[np.ndarray, "block p"]]]:
    """Yield pairs with their logits, in blocks.

    All pairs of a model with gates come one a at a time, where most tables are shared.
    """
    if pairs is None and not layer.is_additive:
        for a in range(layer.p):
            yield np.stack([np.full(layer.p, a), np.arange(layer.p)], axis=1), layer.logits(a)
        return
    pairs = all_pairs(layer.p) if pairs is None else pairs
    rows = max(1, BLOCK_FLOATS // (layer.p + layer.d_mlp))
    for start in range(0, len(pairs), rows):
        block = pairs[start : start + rows]
        yield block, layer.pair_logits(block)


def margins(layer: FloatTables) -> Float[np.ndarray, "p p"]:
    """Return the margin of every input (a, b): the right logit less the largest other."""
    return np.stack([leads(layer.logits(a), layer.task.answers[a])[0] for a in range(layer.p)])


def model_facts(model: Weights, layer: FloatTables) -> dict[str, Any]:
    """Return the facts of a model that several commands print as JSON.

    The keys are `n, task, modulus, activation, attention`.
    """
    config = model.config
    facts: dict[str, Any] = {
        "n": config.p,
        "task": config.task.to_json(),
        "activation": config.activation,
    }
    if config.task.modulus is not None:
        facts["modulus"] = config.task.modulus
    ranges = attention_ranges(model, layer)
    if ranges:
        low, high = min(head.low for head in ranges), max(head.high for head in ranges)
        facts["attention"] = {"kind": config.attention_kind, "range": [low, high]}
    return facts


@dataclass(frozen=True)
class AttentionRange:
    """The range of the weight that a head puts on a position, over all inputs.

    Attributes:
        head: Number of the head.
        position: 0 for a, 1 for b, 2 for '='.
        low: The smallest.
        high: The largest.
        layer: Number of the head's layer.
    """

    head: int
    position: int
    low: float
    high: float
    layer: int = 0


def attention_ranges(model: Weights, layer: FloatTables) -> tuple[AttentionRange, ...]:
    """Return the range of each head's weight on each position; none for an MLP."""
    config = model.config
    if config.softmax is None:
        places = np.ndindex(config.n_layers, config.n_heads, len(config.attention))
        return tuple(
            AttentionRange(head, t, config.attention[t], config.attention[t], layer_number)
            for layer_number, head, t in places
        )
    if not layer.gated:
        return _ranges_by_layer(model)
    ranges = [
        AttentionRange(
            head, table.position, *(config.attention[table.position] + np.sort(gate)).tolist()
        )
        for table, gates in zip(layer.gated, layer.gate_range(), strict=True)
        for head, gate in enumerate(gates)
    ]
    return tuple(sorted(ranges, key=lambda weight: (weight.head, weight.position)))


def _ranges_by_layer(model: Weights) -> tuple[AttentionRange, ...]:
    """Return the ranges of a network of several layers, by the forward pass.

    A position that is not seen has the constant part alone.
    """
    config, p = model.config, model.config.p
    low = np.full((config.n_layers, config.n_heads, len(config.attention)), np.inf)
    high = -low
    for a in range(p):
        for number, step in enumerate(
            block_streams(model, np.stack([np.full(p, a), np.arange(p)], axis=1), FLOATS)
        ):
            for head, gates in enumerate(step.gates[config.read_position]):
                for t, alpha in enumerate(config.attention):
                    weight = alpha + (gates[t] if t < len(gates) else np.zeros(1))
                    low[number, head, t] = min(low[number, head, t], weight.min())
                    high[number, head, t] = max(high[number, head, t], weight.max())
    return tuple(
        AttentionRange(head, t, float(low[number, head, t]), float(high[number, head, t]), number)
        for number, head, t in np.ndindex(low.shape)
    )
