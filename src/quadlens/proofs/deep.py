"""`brute` for transformers of several layers: every logit by an enclosed forward pass in float64.

Theorem. Each step of the forward pass of `DeepParams` is done on enclosures (`enclosed.py`): a middle and a radius that
holds all rounding and what the radii before it do, so that the true logits lie in the enclosures computed at the end.
The steps that `enclosed.py` has not:

x W, W exact, n terms: the middles' product is within γ_n |x| |W| of theirs in any order, γ_n ≤ (n + 2) u, and the radii
add r |W|; both are one product of numbers that are not negative, whose own rounding a factor 1 + 4 (n + 4) u covers.

e^x: with k = the nearest integer to 64 x / log 2 and r = x - k (log 2)/64, e^x = 2^⌊k/64⌋ 2^((k mod 64)/64) e^r. The
sum of r^j / j! up to j = 12 leaves out at most 3 |r|^13 / 13! where |r| ≤ 1; where r can be larger nothing is known.

σ: relu and |x| are 1-Lipschitz, x² and x⁴ are products, and the others are read from a table (`float_layer.py`).

What is assumed of BLAS and of the process: see `enclosed.py`. There is no certificate: the checker has no theorem for
several layers.
"""

import math
from fractions import Fraction
from functools import cache

import numpy as np
from jaxtyping import Float, Int

from quadlens.model.activation import NONLINEARITIES, Activation
from quadlens.model.deep import DeepParams
from quadlens.model.params import Layer, Pairs
from quadlens.proofs.enclosed import UNIT, Enclosed, upward
from quadlens.proofs.float_layer import (
    CURVATURE,
    EXPONENTIAL_PRICE,
    FAR,
    STEEPEST,
    STEP_BITS,
    activation_price,
    tabulated,
)
from quadlens.proofs.margins import proved_wrong
from quadlens.proofs.operations import Operations
from quadlens.proofs.proof import MAX_WITNESSES, Proof, Term

STEPS, DEGREE = 64, 12
# Below this e^x is 0 up to 2^-1000, and above it nothing is claimed.
LEAST, MOST = -690.0, 690.0


def prove_deep(model: DeepParams) -> Proof:
    """Every logit of every input, one a at a time."""
    task, n, ops = model.config.task, model.config.p, Operations()
    margins, wrong, widest = np.full((n, n), -np.inf), np.empty((0, 3), dtype=np.int64), 0.0
    beyond = 0
    rows = np.arange(n)
    with np.errstate(all="ignore"):
        for a in range(n):
            logits = enclosed_logits(model, np.stack([np.full(n, a), rows], axis=1), ops)
            if not logits.finite:
                beyond += n
                continue
            ops.comparisons += logits.size
            right, best = task.answers[a], logits.middle.copy()
            best[rows, right] = -np.inf
            rival = best.argmax(axis=1)
            margins[a] = _lead(logits, right)
            shown = (_lead(logits, rival) > 0)[:, None]
            found = np.stack([np.full(n, a), rows, rival], axis=1)
            wrong = np.concatenate([wrong, found[shown[:, 0]]])
            widest = max(widest, float(logits.radius.max()))
    certified = margins > 0
    left = int((~certified).sum())
    return Proof(
        strategy="brute",
        certified=certified,
        margin=Fraction(float(margins[certified].min())) if certified.any() else None,
        exact=False,
        witnesses=tuple((int(a), int(b), int(c)) for a, b, c in wrong[:MAX_WITNESSES]),
        hints=None,
        operations=ops,
        terms={"rounding": Term(2 * Fraction(widest))},
        reason=_reason(n * n, left, len(wrong), beyond),
        complete=left == len(wrong),
    )


def _reason(inputs: int, left: int, wrong: int, beyond: int) -> str | None:
    """What to say when some input is not proved; `beyond` have the same a as one whose numbers float64 cannot hold."""
    if not left:
        return None
    words = f"{left} of {inputs} inputs are not proved, of which {proved_wrong(wrong)}"
    overflow = f"; numbers on the way to the logits of {beyond} of them are beyond float64: scale the weights down"
    return words + (overflow if beyond else "")


def _lead(logits: Enclosed, answers: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """A lower bound of the answer's logit less every other one."""
    rows = np.arange(len(answers))
    less = (logits[rows, answers][:, None] - logits).lower()
    less[rows, answers] = np.inf
    return np.asarray(less.min(axis=1))


def enclosed_logits(model: DeepParams, pairs: Pairs, ops: Operations) -> Enclosed:
    """The logits of these inputs, [input, c]."""
    config, positions = model.config, len(model.config.attention)
    tokens = np.stack([pairs[:, 0], pairs[:, 1] + config.b_token_offset, np.full(len(pairs), config.equals_token)])
    x = [_exact(model.W_E[tokens[t]]) + _exact(model.W_pos[t]) for t in range(positions)]
    for layer in model.layers:
        brought = _attention(model, layer, x, ops)
        x = [stream + more for stream, more in zip(x, brought, strict=True)]
        x = [stream + _mlp(model.config.activation, layer, stream, ops) for stream in x]
    p = config.p
    return times(x[config.read_position], model.W_U[:, :p], ops) + _exact(model.b_U[:p])


def times(x: Enclosed, W: Float[np.ndarray, "inner columns"], ops: Operations) -> Enclosed:
    """The product with an exact matrix."""
    W = W.astype(np.float64)
    n = len(W)
    ops.count_product(x.size // n, n, W.shape[1])
    reach = (x.radius + (n + 2) * UNIT * np.abs(x.middle)) @ np.abs(W)
    return Enclosed(x.middle @ W, upward(reach * (1 + 4 * (n + 4) * UNIT)))


def _exact(x: Float[np.ndarray, "..."]) -> Enclosed:
    return Enclosed.exactly(np.asarray(x, dtype=np.float64))


def _mlp(activation: Activation, layer: Layer, x: Enclosed, ops: Operations) -> Enclosed:
    hidden = sigma(activation, times(x, layer.W_in, ops) + _exact(layer.b_in))
    ops.comparisons += activation_price(activation) * hidden.size
    return times(hidden, layer.W_out, ops) + _exact(layer.b_out)


def _attention(model: DeepParams, layer: Layer, x: list[Enclosed], ops: Operations) -> list[Enclosed]:
    """What attention brings to each position."""
    config, softmax = model.config, model.config.softmax
    brought = [_exact(np.broadcast_to(layer.b_O.astype(np.float64), one.middle.shape)) for one in x]
    for h in range(config.n_heads):
        values = [times(one, layer.W_V[h], ops) + _exact(layer.b_V[h]) for one in x]
        keys, queries = [], []
        if layer.W_K is not None and layer.b_K is not None and layer.W_Q is not None and layer.b_Q is not None:
            keys = [times(one, layer.W_K[h], ops) + _exact(layer.b_K[h]) for one in x]
            queries = [times(one, layer.W_Q[h], ops) + _exact(layer.b_Q[h]) for one in x]
        for q in range(len(x)):
            seen = 0 if softmax is None else q + 1 if softmax.causal else len(x)
            scores = []
            for t in range(seen):
                products = queries[q] * keys[t]
                ops.count_product(products.size, 1, 1)
                scores.append(products.sum(axis=1) / _exact(np.array([softmax.divisor if softmax else 1.0])))
            mixed = None
            for t, value in enumerate(values):
                weight = _exact(np.full((len(value.middle), 1), config.attention[t]))
                if softmax is not None and t < seen:
                    total = _exact(np.zeros((len(value.middle), 1)))
                    for score in scores:
                        total = total + exponential(score - scores[t])
                    ops.multiplications += EXPONENTIAL_PRICE * seen * len(value.middle)
                    weight = weight + _exact(np.full(total.middle.shape, softmax.scale)) / total
                term = weight * value
                ops.count_product(term.size, 1, 1)
                mixed = term if mixed is None else mixed + term
            if mixed is not None:
                brought[q] = brought[q] + times(mixed, layer.W_O[h], ops)
    return brought


def sigma(activation: Activation, x: Enclosed) -> Enclosed:
    """σ of enclosed numbers."""
    one = NONLINEARITIES[activation]
    if one.degree == 1:
        return Enclosed(np.asarray(one.apply(x.middle)), x.radius)
    if one.degree is not None:
        square = x * x
        return square if one.degree == 2 else square * square
    error = upward(STEEPEST * x.radius + CURVATURE / 8 * 4.0**-STEP_BITS + 2.0**-44)
    return Enclosed(np.asarray(tabulated(activation, FAR)(x.middle)), error)


@cache
def _roots() -> tuple[Enclosed, Enclosed]:
    """2^(j/64) for j = 0 … 63, and (log 2)/64."""
    from flint import arb, ctx, fmpq

    with ctx.workprec(100):
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
    r, one = x - Enclosed.exactly(k) * step, Enclosed.exactly(np.ones_like(k))
    total = one
    for j in range(DEGREE, 0, -1):
        total = one + r * total * Enclosed.nearest(np.array([1.0 / j]))
    largest = r.magnitude()
    left_out = upward(3 * largest**13 / math.factorial(13))
    total = Enclosed(total.middle, np.where(largest <= 1, upward(total.radius + left_out), np.inf))
    found = total * powers[(k % STEPS).astype(np.int64)]
    shift = np.floor(k / STEPS).astype(np.int64)
    middle, radius = np.ldexp(found.middle, shift), upward(np.ldexp(found.radius, shift))
    low, high = x.upper() < LEAST, ~(x.upper() <= MOST)
    # e^-690 < 2^-995: 0 with a radius that holds it.
    return Enclosed(np.where(low, 0.0, middle), np.where(high, np.inf, np.where(low, 2.0**-990, radius)))
