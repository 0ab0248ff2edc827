"""`brute` for several layers or norms: an enclosed forward pass in float64.

Theorem. Each step of the forward pass (`network/forward.py`) is done on enclosures (`enclosed.py`).
An enclosure is a middle and a radius that holds all rounding and what the radii before it do, so
that the true logits lie in the enclosures computed at the end. The steps that `enclosed.py` has
not:

e^x: with k = the nearest integer to 64 x / log 2 and r = x - k (log 2)/64, e^x = 2^⌊k/64⌋ 2^((k mod
64)/64) e^r. The sum of r^j / j! up to j = 12 leaves out at most 3 |r|^13 / 13! where |r| ≤ 1; where
r can be larger nothing is known.

1/√x: between m and X, both at least l > 0, it changes by at most |X - m| / (2 l √l), and the middle
1/√m is two roundings. Where l is not above 0 nothing is known.

σ: relu and |x| are 1-Lipschitz, x² and x⁴ are products, and the others are read from a table
(`float_layer.py`).

What is assumed of BLAS and of the process: see `enclosed.py`. The checker runs the forward pass
too, in integers with 100 bits after the point (`quadlens_checker.stack`); the margin claimed leaves
it as much as is lost here.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int

from quadlens.base.numbers import bound, precision
from quadlens.network.activation import NONLINEARITIES, Activation
from quadlens.network.config import Config
from quadlens.network.forward import forward, sum_of
from quadlens.network.margins import leads
from quadlens.network.ring import FLOATS, Array, Heads, Ring
from quadlens.network.weights import Weights
from quadlens.proofs.long_work import TIME_LIMIT, is_over, tell
from quadlens.proofs.pairs.direct import SMALLEST_SLACK, Claims
from quadlens.proofs.pairs.enclosed import UNIT, Enclosed, upward
from quadlens.proofs.pairs.float_layer import (
    CURVATURE,
    EXPONENTIAL_PRICE,
    FAR,
    STEEPEST,
    STEP_BITS,
    activation_price,
    tabulated,
)
from quadlens.proofs.pairs.margins import listed, proved_wrong
from quadlens.proofs.pairs.proof import NoHints, Proof, Term

STEPS, DEGREE = 64, 12
# Below this e^x is 0 up to 2^-1000, and above it nothing is claimed.
LEAST, MOST = -690.0, 690.0


def prove_deep(model: Weights) -> Proof:
    """Prove every logit of every input, one a at a time.

    Where that leaves one out, it is tried again with errors of whole rows.
    """
    from quadlens.proofs.pairs.euclidean import EUCLIDEAN

    task, n = model.config.task, model.config.p
    margins, leader, widest, checker, beyond = (
        np.full((n, n), -np.inf),
        np.full((n, n), -1),
        0.0,
        0.0,
        0,
    )
    stopped = False
    with np.errstate(all="ignore"):
        for a in range(n):
            if is_over():
                stopped = True
                break
            tell(f"rows {a + 1}/{n}")
            pairs = np.stack([np.full(n, a), np.arange(n)], axis=1)
            by_entry = forward(model, pairs, ENCLOSURES)
            checker = max(checker, float(np.nan_to_num(by_entry.radius, nan=np.inf).max()))
            _take(by_entry, task.answers[a], margins[a], leader[a])
            logits = by_entry
            if not (margins[a] > SMALLEST_SLACK).all():
                logits = forward(model, pairs, EUCLIDEAN).entries()
                _take(logits, task.answers[a], margins[a], leader[a])
            beyond += 0 if logits.finite else n
            widest = max(widest, float(logits.radius.max()) if logits.finite else 0.0)
    # In the checker only σ is as coarse as here; all else has 2^-100 where float64 has 2^-53.
    room = (
        2 * checker * (1.0 if NONLINEARITIES[model.config.activation].degree is None else 2.0**-20)
    )
    claims, obstacle = Claims.of(margins, SMALLEST_SLACK, room), None
    certified = claims.certified
    if not claims.followed and certified.any():
        obstacle = (
            f"the checker's own enclosure can lose {bound(room)} here, and "
            "some margin is not larger"
        )
    wrong = ~certified & (leader >= 0)
    left, shown_wrong = int((~certified).sum()), int(wrong.sum())
    return Proof(
        strategy="brute",
        certified=certified,
        margin=claims.margin,
        exact=False,
        witnesses=listed(wrong, leader),
        hints=NoHints(),
        operations=deep_operations(model.config),
        terms={"rounding": Term(2 * Fraction(widest))},
        reason=TIME_LIMIT if stopped else _reason(n * n, left, shown_wrong, beyond),
        complete=left == shown_wrong,
        obstacle=obstacle,
    )


def _take(
    logits: Enclosed,
    right: Int[np.ndarray, " n"],
    margins: Float[np.ndarray, " n"],
    leader: Int[np.ndarray, " n"],
) -> None:
    """Raise the margins to what the enclosures show, and note wrong answers that lead."""
    if not logits.finite:
        return
    np.maximum(margins, _lead(logits, right), out=margins)
    rival = leads(logits.middle, right)[1]
    clear = _lead(logits, rival) > SMALLEST_SLACK
    leader[clear] = rival[clear]


def _reason(inputs: int, left: int, wrong: int, beyond: int) -> str | None:
    """Say why some input is not proved.

    `beyond` inputs have the same a as one whose numbers float64 cannot hold.
    """
    if not left:
        return None
    words = f"{left} of {inputs} inputs are not proved, of which {proved_wrong(wrong)}"
    overflow = (
        f"; numbers on the way to the logits of {beyond} of them are beyond "
        "float64: scale the weights down"
    )
    return words + (overflow if beyond else "")


def _lead(logits: Enclosed, answers: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """A lower bound of the answer's logit less every other one."""
    rows = np.arange(len(answers))
    less = (logits[rows, answers][:, None] - logits).lower()
    less[rows, answers] = np.inf
    return np.asarray(less.min(axis=1))


def deep_operations(config: Config) -> int:
    """Count the operations of the forward pass over all n² inputs.

    Products and sums count one each, σ and e^x their price; there are n³ comparisons.

    A norm of d numbers counts 8 d + 4: the mean taken off, squares added up, the factor, weight and
    bias.
    """
    if config.hidden:
        return _mlp_operations(config)
    n, d, m, dh, fed = config.p, config.d_model, config.d_mlp, config.d_head, len(config.attention)
    seen = [
        0 if config.softmax is None else q + 1 if config.softmax.causal else fed for q in range(fed)
    ]
    maps = 1 if config.softmax is None else 3
    head = fed * maps * d * dh + sum(seen) * dh + fed * fed * dh + fed * dh * d
    products = config.n_layers * (config.n_heads * head + fed * 2 * d * m) + d * n
    exponentials = config.n_layers * config.n_heads * EXPONENTIAL_PRICE * sum(x * x for x in seen)
    sigmas = config.n_layers * fed * activation_price(config.activation) * m
    norms = sum(
        fed * config.n_layers for norm in (config.norms.attention, config.norms.mlp) if norm
    )
    norms += config.norms.final is not None
    return n * n * (2 * products + exponentials + sigmas + norms * (8 * d + 4) + n)


def _mlp_operations(config: Config) -> int:
    n, widths = config.p, [*(layer.width for layer in config.hidden), config.d_mlp]
    total = 2 * widths[0] + 2 * config.d_mlp * n + n + sum(2 * x * y for x, y in pairwise(widths))
    total += sum(
        activation_price(layer.activation) * layer.width
        for layer in config.hidden
        if layer.activation
    )
    norms = [*(layer.norm for layer in config.hidden[1:]), config.norms.mlp, config.norms.final]
    total += sum(
        8 * width + 4 for norm, width in zip(norms, widths, strict=True) if norm is not None
    )
    return n * n * (total + activation_price(config.activation) * config.d_mlp)


@cache
def _roots() -> tuple[Enclosed, Enclosed]:
    """2^(j/64) for j = 0 … 63, and (log 2)/64."""
    from flint import arb, fmpq

    with precision(100):
        log = arb(2).log()
        powers = np.array([float((log * arb(fmpq(j, STEPS))).exp().mid()) for j in range(STEPS)])
        step = np.array([float((log / STEPS).mid())])
    # Arb's radius and the reading of a middle: less than 2 u of the number.
    return Enclosed(powers, 4 * UNIT * powers), Enclosed(step, 4 * UNIT * step)


def exponential(x: Enclosed) -> Enclosed:
    """e^x; see the theorem."""
    powers, step = _roots()
    # What is not a number ends with an infinite radius below, whatever stands here for it.
    k = np.nan_to_num(np.rint(np.clip(x.middle, LEAST, MOST) * (STEPS / math.log(2))))
    r, unit = x - Enclosed.exactly(k) * step, Enclosed.exactly(np.ones_like(k))
    total = unit
    for j in range(DEGREE, 0, -1):
        total = unit + r * total * Enclosed.nearest(np.array([1.0 / j]))
    largest = r.magnitude()
    left_out = upward(3 * largest**13 / math.factorial(13))
    total = Enclosed(total.middle, np.where(largest <= 1, upward(total.radius + left_out), np.inf))
    unscaled = total * powers[(k % STEPS).astype(np.int64)]
    shift = np.floor(k / STEPS).astype(np.int64)
    middle, radius = np.ldexp(unscaled.middle, shift), upward(np.ldexp(unscaled.radius, shift))
    low, high = x.upper() < LEAST, ~(x.upper() <= MOST)
    # e^-690 < 2^-995: 0 with a radius that holds it.
    return Enclosed(
        np.where(low, 0.0, middle), np.where(high, np.inf, np.where(low, 2.0**-990, radius))
    )


class Enclosures:
    """Arithmetic on enclosures.

    Every method returns enclosures of its result on the true values.
    """

    def of(self, floats: Array) -> Enclosed:
        """Floats as they are."""
        return Enclosed.exactly(np.asarray(floats, dtype=np.float64))

    def scaled(self, x: Enclosed, factor: float) -> Enclosed:
        """X times a float."""
        return x * Enclosed.exactly(np.full((1, 1), factor))

    def repeated(self, x: Enclosed, rows: int) -> Enclosed:
        return Enclosed(
            *(np.broadcast_to(part, (rows, x.shape[-1])) for part in (x.middle, x.radius))
        )

    def transposed(self, x: Enclosed) -> Enclosed:
        return Enclosed(x.middle.T, x.radius.T)

    def diagonal(self, x: Enclosed, along_a: bool) -> Enclosed:
        """The diagonal as a column or a row."""
        return Enclosed(*(FLOATS.diagonal(part, along_a) for part in (x.middle, x.radius)))

    def heads(self, tables: Sequence[Enclosed]) -> Heads[Enclosed]:
        """One matrix for each head."""
        return tuple(tables)

    def sigma(self, activation: Activation, x: Enclosed) -> Enclosed:
        """σ of enclosed numbers."""
        nonlinearity = NONLINEARITIES[activation]
        if nonlinearity.degree == 1:
            return Enclosed(np.asarray(nonlinearity.apply(x.middle)), x.radius)
        if nonlinearity.degree is not None:
            square = x * x
            return square if nonlinearity.degree == 2 else square * square
        error = upward(STEEPEST * x.radius + CURVATURE / 8 * 4.0**-STEP_BITS + 2.0**-44)
        return Enclosed(np.asarray(tabulated(activation, FAR)(x.middle)), error)

    def softmax(self, scores: Sequence[Enclosed]) -> Sequence[Enclosed]:
        """1 / Σ_u e^(score_u - score_t) for each position t."""
        unit, shares = Enclosed.exactly(np.ones((1, 1))), []
        for score in scores:
            shares.append(unit / sum_of(exponential(other - score) for other in scores))
        return shares

    def inner(self, x: Enclosed, y: Enclosed, divisor: float) -> Enclosed:
        """Return Σ x y / divisor of each row."""
        return (x * y).sum(axis=1) / Enclosed.exactly(np.full((1, 1), divisor))

    def inverse_root(self, x: Enclosed) -> Enclosed:
        """1 / √x; see the theorem."""
        smallest = x.lower()
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            middle = 1 / np.sqrt(x.middle)
            # Rounded up before the second division, as in `Enclosed`: what was lost to underflow is
            # not enlarged by it.
            reach = upward(x.radius / smallest) / (2 * np.sqrt(smallest))
        return Enclosed(middle, np.where(smallest > 0, upward(reach + 4 * UNIT * middle), np.inf))


ENCLOSURES: Ring[Enclosed] = Enclosures()
