"""What float32 execution can change: a bound on |computed logit - real logit|.

It holds for any order of the sums in a layer.

Theorem. Let a program compute each value of the forward pass (`Weights.forward`) layer after layer,
as the weights are stored. It is assumed of its arithmetic (`FLOAT32_EXECUTION`, which is part of
the certificate's statement) that

- additions, multiplications and fused multiply-adds are those of IEEE binary32, rounded to nearest,
  with gradual underflow: no result and no operand that is denormal is taken for 0. Every weight is
  first rounded to binary32;
- each entry of a product of matrices is a sum of products (Strassen's products are not), added in
  any order and association, together with bias and residual stream if the program likes;
- nothing is narrower: no TF32 or bfloat16 inputs, no accumulation in them;
- layers are not multiplied out: x (W V) has other roundings than (x W) V. (`quadlens evaluate` does
  multiply the weights out, in float64: the theorem is not about it.)

Let

- N be the number of roundings on the longest path from a weight to a logit, u = 2^-24, γ = N u / (1
  - N u),
- M the largest logit of the model with |w| for every weight w and, in each coordinate of the
  embedding, the largest token,
- G = 4 Q, Q = (1 + Σ|attention|) Π_w (1 + n_w max|w|) over all weight tensors, n_w the number of
  terms in a sum over w.

If N u < 1 and G < 2^100, no value overflows and every computed logit is within γ (M + N G 2^-102)
of the real one.

Proof. A binary32 operation returns z (1 + δ) + η with |δ| ≤ u, and |η| ≤ 2^-126 that is 0 unless z
underflows (2^-150 would do, and 0 for additions; 2^-126 = u 2^-102 is all that is used). Without
the η, each product of weights reaches a logit times at most N factors 1 + δ, and |Π(1 + δ) - 1| ≤ γ
(Higham, Lemma 3.1); ReLU and |·| are 1-Lipschitz and at most their argument's absolute value, so
the error is at most γ M.

Sizes. A sum of n products with weights at most m, plus a bias at most m', maps values of at most x
≥ 1 to at most (1 + n m)(1 + m') x; a residual connection is the 1 in 1 + (gain of the layers it
goes around), which is no more than the product of their 1 + n m. So Q bounds every value in real
arithmetic, no less what is multiplied on the way from any one to a logit, and X (1 + m)(1 + α) D ≤
Q where a sum reads values of at most X ≥ 1 with weights m (α of attention), and what it gives
reaches the logits times D. A computed value is at most (1 + u)^N < e times that, below G.

Underflow. A path meets n roundings of a sum of n products, but the sum has 2n - 1 (n products, n -
1 additions), and each has its η; so have the n weights, rounded to binary32, and the bias, which is
rounded and added, and the residual stream that is added: 3n + 2 in all, each of which changes the
sum by at most 2^-126 X. In attention's sum of products of three factors the n terms change it by at
most 2^-126 X (2m + α + 2) ≤ 2^-126 X 2 (1 + m)(1 + α) each, and all by no more than 2n + 2 times
2^-126 X (1 + m)(1 + α). N has at least n + 2 for each such sum, so that all the η of all layers
together count at most 4 N times 2^-126 Q: the factor 4 in G, which sizes do not use, covers them (a
test counts them). They reach the logits as N G 2^-126 times at most 1 + γ, that is as u (1 + γ) N G
2^-102 ≤ γ N G 2^-102, since γ = N u (1 + γ); a factor N is left over, for computed values instead
of real ones and for products of two η. ∎

A path meets one product and n - 1 additions of a sum of n products, a bias is one more, each weight
one for its own rounding. Cost: that of a collapse of one token; it is not part of `operations`.

With TF32 inputs (11 bits: 2^-11 for each of the ten operands of five matrix products on a path,
rounded to nearest) the same argument allows more than 152 logits on `pizza`, ten times its margin:
TF32 is not excluded for form's sake.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from quadlens.base.display import short
from quadlens.network.activation import NONLINEARITIES
from quadlens.network.config import Config
from quadlens.network.exact import collapse_exactly, in_integers
from quadlens.network.weights import Weights

UNIT_ROUNDOFFS = 1 << 24
PHANTOM = Fraction(1, 1 << 102)
LARGEST_GAIN = 1 << 100
ERROR_BITS = 128
# The hypotheses of the theorem, as the statement of a certificate has them.
FLOAT32_EXECUTION = (
    "execution in IEEE binary32, rounded to nearest, with gradual underflow (of operands "
    "too), weights first rounded "
    "to it, layer after layer as stored, each entry of a product of matrices being a "
    "sum of products in any order, "
    "fused or not; no Strassen, no TF32 or bfloat16 inputs or "
    "accumulation, no layers multiplied out"
)


@short
@dataclass(frozen=True)
class Float32Bound:
    """A bound: |float32 logit - real logit| ≤ error for all a, b, c.

    The error is None where the theorem does not apply.

    Attributes:
        error: γ (M + N G 2^-102), in logits, rounded up to 128 bits.
        roundings: N.
        reason: Why there is no bound, in words; None where there is one.
    """

    error: Fraction | None
    roundings: int
    reason: str | None = None

    def keeps(self, margin: Fraction | None) -> bool:
        """Say whether a real margin of this size survives float32: margin > 2 error."""
        return margin is not None and self.error is not None and margin > 2 * self.error

    def why_not(self, margin: Fraction | None) -> str | None:
        """Say why a proof with this margin claims nothing about float32; None where it does."""
        if self.reason is not None or margin is None or self.keeps(margin):
            return self.reason
        return "twice what float32 execution can change is more than the margin proved"


def bound_float32(model: Weights) -> Float32Bound:
    """The theorem above, for `model`."""
    config = model.config
    if config.softmax is not None:
        return Float32Bound(
            None,
            0,
            "no standard says how exactly e^x is computed, so that nothing is known of softmax",
        )
    if config.no_tables is not None:
        return Float32Bound(
            None, 0, f"the bound is for one layer without norms, and {config.no_tables}"
        )
    if not NONLINEARITIES[config.activation].is_piecewise_linear:
        return Float32Bound(
            None, 0, f"the bound is for relu and abs, and this model has {config.activation}"
        )
    N, G = roundings(config), gain(model)
    if N >= UNIT_ROUNDOFFS or G >= LARGEST_GAIN:
        return Float32Bound(
            None, N, "the weights are so large, or so many, that float32 could overflow"
        )
    return Float32Bound(
        rounded_up(Fraction(N, UNIT_ROUNDOFFS - N) * (magnitude(model) + N * G * PHANTOM)), N
    )


def rounded_up(x: Fraction) -> Fraction:
    """Return a fraction of some 128 bits that is not below x > 0.

    The exact one of tiny weights fills pages of a certificate.

    >>> rounded_up(Fraction(1, 3)) > Fraction(1, 3), rounded_up(Fraction(1, 4)) == Fraction(1, 4)
    (True, True)
    """
    unit = Fraction(2) ** (x.numerator.bit_length() - x.denominator.bit_length() - ERROR_BITS)
    return math.ceil(x / unit) * unit


def roundings(config: Config) -> int:
    """N: one path through embedding (3), values, attention, residual, MLP, residual, unembedding.

    What attention brings is one sum over heads, positions and head dimensions, Σ_h Σ_l Σ_k α_l
    v_lhk W_O[h,k], plus b_O and the residual stream: nothing keeps a program from adding all these
    terms one by one, so a path can meet n_heads · positions · d_head + 1 additions, after the
    roundings of α, of W_O and of the two products.
    """
    if not config.has_stream:
        return config.d_mlp + 3 + 2 * config.bias
    values = config.d_model + 2
    attend = config.n_heads * len(config.attention) * config.d_head + 1 + 4
    mlp, unembed = config.d_model + 2 + config.d_mlp + 3, config.d_model + 3
    return 3 + values + attend + mlp + unembed


def gain(model: Weights) -> Fraction:
    """G of the theorem."""
    config = model.config
    terms = {"W_out": config.d_mlp, "W_V": config.d_model, "W_O": config.n_heads * config.d_head}
    terms |= {"W_in": config.d_model, "W_U": config.d_model}
    total = 4 * (1 + sum((abs(Fraction(weight)) for weight in config.attention), Fraction(0)))
    for name, array in model.tensors.items():
        total *= 1 + terms.get(name, 1) * Fraction(float(np.abs(array).max()))
    return total


def magnitude(model: Weights) -> Fraction:
    """Return M of the theorem: the collapse of the model of absolute values.

    All its ReLUs are active.
    """
    sizes, token = in_integers(collapse_exactly(_absolute(model))), np.array([0])
    return Fraction(sizes.logits(token, token).max(), 1 << sizes.shift)


def _absolute(model: Weights) -> Weights:
    """Return |w| for every weight, and per position its tokens' largest, entry by entry."""
    size = {name: np.abs(array) for name, array in model.tensors.items()}
    config = model.config
    # The rows of the tokens of each position; an MLP has one table per operand.
    rows = [("W_E", *each) for each in config.token_rows[:2]] or [
        ("W_a", 0, config.p),
        ("W_b", 0, config.p),
    ]
    for name, start, stop in rows:
        size[name] = _largest(size[name], start, stop)
    attention = tuple(math.fabs(weight) for weight in config.attention)
    return Weights(replace(config, activation="relu", attention=attention), **size)


def _largest(
    rows: Float[np.ndarray, "tokens n"], start: int, stop: int
) -> Float[np.ndarray, "tokens n"]:
    """Rows start … stop - 1 replaced by their largest entries."""
    result = rows.copy()
    result[start:stop] = rows[start:stop].max(axis=0)
    return result
