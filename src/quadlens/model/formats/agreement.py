"""What was read of a network in memory, compared with the network's own forward pass on every input.

Two computations of one function differ by rounding alone. In float32 that is allowed 1e-4 of the largest logit of an
input, or 1e-4 where that is below 1. A network whose own rounding is coarser than that, because it is of half precision
or its sums cancel, is asked again as a copy in float64.
"""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from quadlens.errors import BadConfig
from quadlens.model.evaluate import all_pairs
from quadlens.model.formats.tasks import DRAWN, MAX_MULTIPLICATIONS
from quadlens.model.tables import Tables
from quadlens.model.weights import Pairs, Weights

TOLERANCE = 1e-4
# Inputs that the network is given at once.
TOGETHER = 1 << 12


class Disagrees(BadConfig):
    """A model that is not what a network computes.

    Attributes:
        gap: The largest difference of a logit.
    """

    gap: float = np.inf


class Worst(NamedTuple):
    """Where two forward passes differ most: over what is allowed there, in itself, and on which input."""

    ratio: float
    gap: float
    a: int
    b: int


def check_agreement(model: Weights, run: Callable[[Any, Pairs], Any], network: Any, source: str) -> str:
    """Refuse a model that is not what the network computes; a note on the comparison where it is.

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
    pairs = all_pairs(config.p) if all_of_them else np.random.default_rng(0).integers(0, config.p, (DRAWN, 2))
    tables = model.collapse()
    worst = _compare(tables, run, network, pairs, source)
    where = "its own forward pass"
    if not worst.ratio <= 1:
        try:
            wider = copy.deepcopy(network).double()
            again = _compare(tables, run, wider, pairs, source)
        except Exception:  # a copy or float64 that the network does not allow: the first comparison stands
            again = worst
        if not again.ratio <= 1:
            error = Disagrees(
                f"{source}: what its parts say is not what it computes: on a = {worst.a}, b = {worst.b} its own "
                f"forward pass has a logit that is {worst.gap:.3g} away, the largest difference of {len(pairs)} inputs "
                f"({_allowed(worst):.3g} is allowed there). A hook, another order of the inputs or code beside its "
                "modules does such a thing"
            )
            error.gap = worst.gap
            raise error
        worst, where = again, "its own forward pass in float64"
    return f"compared with {where} on {len(pairs)} inputs: the largest difference is {worst.gap:.2g}"


def _allowed(worst: Worst) -> float:
    return worst.gap / worst.ratio if worst.ratio and np.isfinite(worst.ratio) else TOLERANCE


def _compare(tables: Tables[Any], run: Callable[[Any, Pairs], Any], network: Any, pairs: Pairs, source: str) -> Worst:
    """Where a network is farthest from our logits; a logit of its own that is not finite is infinitely far."""
    worst = Worst(-1.0, 0.0, 0, 0)
    for start in range(0, len(pairs), TOGETHER):
        block = pairs[start : start + TOGETHER]
        ours, theirs = tables.pair_logits(block), _own(run, network, block, source)
        if theirs.ndim != 2 or len(theirs) != len(block) or theirs.shape[1] < ours.shape[1]:
            raise BadConfig(
                f"{source}: its forward pass of {len(block)} inputs has the shape {theirs.shape}; expected "
                f"{len(block)} rows of at least {ours.shape[1]} logits"
            )
        theirs = theirs[:, : ours.shape[1]]
        with np.errstate(invalid="ignore"):
            gaps = np.abs(theirs - ours).max(axis=1)
            ratios = gaps / (TOLERANCE * np.maximum(1.0, np.abs(theirs).max(axis=1)))
        ratios = np.where(np.isfinite(ratios), ratios, np.inf)
        at = int(ratios.argmax())
        if ratios[at] > worst.ratio:
            worst = Worst(float(ratios[at]), float(gaps[at]), *(int(x) for x in block[at]))
    return worst


def _own(run: Callable[[Any, Pairs], Any], network: Any, pairs: Pairs, source: str) -> np.ndarray:
    """The network's own logits in float64."""
    import torch

    try:
        with torch.no_grad():
            return np.asarray(run(network, pairs).detach().double().cpu().numpy())
    except Exception as error:  # somebody else's code, which may raise anything
        raise BadConfig(
            f"{source}: its forward pass fails on {len(pairs)} inputs: {type(error).__name__}: {str(error)[:200]}"
        ) from None
