"""Compare a network in memory with the model read from it, on every input.

Two computations of one function differ by rounding alone. Three things are compared, and each
catches what the others miss. Logits as they are may differ by 1e-4 of the input's largest, or by
1e-4 where that is below 1. Logits without their mean, which softmax does not see, may differ by
1e-4 of their range. Answers must be the same. A network whose own rounding is coarser than that,
because it is of half precision or its sums cancel, is asked again as a copy in float64.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from quadlens.base.errors import BadConfig
from quadlens.network.evaluate import all_pairs
from quadlens.network.tables import Tables
from quadlens.network.weights import Pairs, Weights
from quadlens.readers.protocol import Imported
from quadlens.readers.tasks import DRAWN, MAX_MULTIPLICATIONS, right_words

TOLERANCE = 1e-4
# What rounding in float64 can do to a logit, as a share of the largest: nothing below it is a
# difference.
ROUNDING = 1e-12
# Inputs that the network is given at once.
TOGETHER = 1 << 12
# The answer where several logits are the largest.
TIED = -1

Logits = Float[np.ndarray, "n p"]


class Disagrees(BadConfig):
    """A model that is not what a network computes.

    Attributes:
        gap: The largest difference of a logit.
    """

    gap: float = np.inf


class Worst(NamedTuple):
    """Where two forward passes differ most.

    Attributes:
        ratio: The difference over what is allowed there.
        gap: The difference.
        what: What differs, as the subject of a sentence.
        a: The input.
        b: The input.
    """

    ratio: float
    gap: float
    what: str
    a: int
    b: int


@dataclass(frozen=True, eq=False)
class ForwardComparison:
    """Two forward passes side by side.

    Attributes:
        worst: Where their logits differ most.
        answers: The network's own answer to each input; `TIED` where it has none.
        others: Inputs that they answer differently, by more than rounding in float64 can do.
        rounded: How many inputs they answer differently, ties included.
    """

    worst: Worst
    answers: Int[np.ndarray, " n"]
    others: Int[np.ndarray, "m 2"]
    rounded: int

    @property
    def agrees(self) -> bool:
        """Whether logits and answers are the same but for rounding."""
        return self.worst.ratio <= 1 and not len(self.others)


@dataclass(frozen=True, eq=False)
class MatchedNetwork:
    """A model that is what a network computes.

    Attributes:
        pairs: The inputs compared.
        answers: The network's own answers, in its own precision.
        note: How the two were compared.
    """

    pairs: Pairs
    answers: Int[np.ndarray, " n"]
    note: str

    def counted(self, imported: Imported) -> Imported:
        """Return the model with the network's own count of right answers."""
        task, total = imported.model.config.task, len(self.pairs)
        correct = int((self.answers == task.answer(self.pairs[:, 0], self.pairs[:, 1])).sum())
        before = right_words(imported.correct, imported.pairs, task.n)
        notes = tuple(
            right_words(correct, total, task.n) if note == before else note
            for note in imported.notes
        )
        return replace(imported, correct=correct, pairs=total, notes=notes)


def check_agreement(
    model: Weights, run: Callable[[Any, Pairs], Any], network: Any, source: str
) -> MatchedNetwork:
    """Refuse a model that is not what the network computes; the network's own answers where it is.

    Args:
        model: What was read.
        run: A network and pairs (a, b) to its logits, a tensor of at least p columns.
        network: The network.
        source: What it is called in messages.

    Raises:
        Disagrees: with the largest difference and the input it is on.
        BadConfig: with what the network raised, or another shape than logits have.
    """
    config = model.config
    all_of_them = float(config.p) ** 3 * config.d_mlp <= MAX_MULTIPLICATIONS
    pairs = (
        all_pairs(config.p)
        if all_of_them
        else np.random.default_rng(0).integers(0, config.p, (DRAWN, 2))
    )
    tables = model.collapse()
    own = judge = _compare(tables, run, network, pairs, source)
    where = "its own forward pass"
    if not own.agrees:
        try:
            judge = _compare(tables, run, copy.deepcopy(network).double(), pairs, source)
            where = "its own forward pass in float64"
        except (
            Exception
        ):  # a copy or float64 that the network does not allow: the first comparison stands
            judge = own
    if not judge.worst.ratio <= 1:
        worst = judge.worst if own.worst.ratio <= 1 else own.worst
        raise _disagrees(
            f"{source}: what its parts say is not what it computes: on a = {worst.a}, b = "
            f"{worst.b} its own forward pass has {worst.what} that is {worst.gap:.3g} away, the "
            f"largest difference of {len(pairs)} inputs ({_allowed(worst):.3g} is allowed there)",
            worst.gap,
        )
    if judge is not own and len(judge.others):
        a, b = judge.others[0]
        raise _disagrees(
            f"{source}: what its parts say is not what it computes: its own forward pass answers "
            f"{len(judge.others)} of {len(pairs)} inputs otherwise, a = {a}, b = {b} for one",
            judge.worst.gap,
        )
    note = (
        f"compared with {where} on {len(pairs)} inputs: the largest difference is "
        f"{judge.worst.gap:.2g}"
    )
    if own.rounded:
        note += (
            f"; near ties: rounding in its own precision changes the answer to {own.rounded} inputs"
        )
    return MatchedNetwork(pairs, own.answers, note)


def _disagrees(words: str, gap: float) -> Disagrees:
    error = Disagrees(
        f"{words}. A hook, another order of the inputs or code beside its modules does such a thing"
    )
    error.gap = gap
    return error


def _allowed(worst: Worst) -> float:
    return worst.gap / worst.ratio if worst.ratio and np.isfinite(worst.ratio) else TOLERANCE


def _compare(
    tables: Tables[Any], run: Callable[[Any, Pairs], Any], network: Any, pairs: Pairs, source: str
) -> ForwardComparison:
    """A network beside our logits; a logit of its own that is not finite is infinitely far."""
    worst = Worst(-1.0, 0.0, "a logit", 0, 0)
    answers, others, rounded = [], [], 0
    for start in range(0, len(pairs), TOGETHER):
        block = pairs[start : start + TOGETHER]
        ours, theirs = tables.pair_logits(block), _own(run, network, block, source)
        if theirs.ndim != 2 or len(theirs) != len(block) or theirs.shape[1] < ours.shape[1]:
            raise BadConfig(
                f"{source}: its forward pass of {len(block)} inputs has the shape {theirs.shape}; "
                f"expected {len(block)} rows of at least {ours.shape[1]} logits"
            )
        theirs = theirs[:, : ours.shape[1]]
        for what, gaps, allowed in _differences(ours, theirs):
            with np.errstate(invalid="ignore", divide="ignore"):
                ratios = np.where(gaps == 0, 0.0, gaps / allowed)
            ratios = np.where(np.isfinite(ratios), ratios, np.inf)
            farthest = int(ratios.argmax())
            if ratios[farthest] > worst.ratio:
                worst = Worst(
                    float(ratios[farthest]),
                    float(gaps[farthest]),
                    what,
                    *(int(x) for x in block[farthest]),
                )
        answers.append(_answers(theirs))
        others.append(block[_answered_otherwise(ours, theirs)])
        rounded += int((answers[-1] != _answers(ours)).sum())
    return ForwardComparison(worst, np.concatenate(answers), np.concatenate(others), rounded)


def _differences(
    ours: Logits, theirs: Logits
) -> list[tuple[str, Float[np.ndarray, " n"], Float[np.ndarray, " n"]]]:
    """Return each quantity that is compared: its name, gaps, and the gaps allowed."""
    with np.errstate(invalid="ignore"):
        largest = np.abs(theirs).max(axis=1)
        centred = theirs - theirs.mean(axis=1, keepdims=True)
        apart = np.abs(centred - (ours - ours.mean(axis=1, keepdims=True))).max(axis=1)
        spread = np.ptp(theirs, axis=1)
        whole = np.abs(theirs - ours).max(axis=1)
    return [
        ("a logit", whole, TOLERANCE * np.maximum(1.0, largest)),
        ("a logit less their mean", apart, TOLERANCE * spread + ROUNDING * largest),
    ]


def _answers(logits: Logits) -> Int[np.ndarray, " n"]:
    """Return the largest logit of each input, or `TIED`.

    It is tied where several are largest, or one is not a number.
    """
    alone = (logits == logits.max(axis=1, keepdims=True)).sum(axis=1) == 1
    return np.where(alone, logits.argmax(axis=1), TIED)


def _answered_otherwise(ours: Logits, theirs: Logits) -> Int[np.ndarray, " m"]:
    """Return the inputs where the network's answer is not ours.

    Its lead over our answer must exceed what rounding in float64 explains.
    """
    rows = np.arange(len(theirs))
    lead = theirs.max(axis=1) - theirs[rows, ours.argmax(axis=1)]
    return np.flatnonzero(~(lead <= ROUNDING * np.abs(theirs).max(axis=1)))


def _own(run: Callable[[Any, Pairs], Any], network: Any, pairs: Pairs, source: str) -> np.ndarray:
    """The network's own logits in float64."""
    import torch

    try:
        with torch.no_grad():
            return np.asarray(run(network, pairs).detach().double().cpu().numpy())
    except Exception as error:  # somebody else's code, which may raise anything
        raise BadConfig(
            f"{source}: its forward pass fails on {len(pairs)} inputs: {type(error).__name__}: "
            f"{str(error)[:200]}"
        ) from None
