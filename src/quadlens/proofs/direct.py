"""`brute` and `moments` in float64 with a proved error: for softmax, and for activations that are not rational.

With the hidden layer σ̄(pre̅) of `float_layer.py`, |σ̄(pre̅_i) - σ(pre_i)| ≤ η_i and both at most A_i:

Theorem (brute). The logits computed, Σ_i W̄_L[c,i] σ̄(pre̅_i) + skip, are within
E = max_c Σ_i |W̄_L[c,i]| η_i + γ_(d_mlp+8) (max_c Σ_i |W̄_L[c,i]| A_i + skip_size + 2^-1000) + 2^-1074 Σ_i A_i +
skip_error of the true ones, so that every difference of two is within 2 E.

Theorem (moments). Let R (p × m) and M (m × d_mlp) be any doubles, W_L = R M + E and e_i ≥ max_c E[c,i] - min_c E[c,i].
With h_f = Σ_i M[f,i] σ(pre_i), ρ = Σ_i e_i |σ(pre_i)| and score_c = Σ_f R[c,f] h_f + skip_c,

    logit(c) - logit(c') ≥ score_c - score_c' - ρ.

Computed in float64, a score is off by at most E as above with |R| |M| for |W̄_L| and γ_(d_mlp+m+8), and ρ is at most
its computed value and Σ_i e_i η_i + γ_(d_mlp+3) Σ_i e_i A_i more. (E itself is computed: |Ē - E| ≤
γ_(m+3) (|R| |M| + |W̄_L|), twice of which is in e.)

Proof. As in `moments.py`; the sums are those of n numbers in any order, with or without fused multiply-add (Higham,
Lemma 3.1), products meet the rounding of their factors, and 2^-1000 u is more than all that underflow takes of them.
An entry of W_L too small for a relative rounding is off by at most 2^-1075, and A_i times that in a logit. ∎
(The processor must keep numbers below 2^-1022: NumPy does not turn that off.)

A claim is made with room for another enclosure: the margin is rounded down by `slack`, the larger of 2^-20 and twice
all that was lost, to a multiple of 2^-24.

Cost: `direct_operations`. An exponential, and an activation that is not rational, counts as 20 operations.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from quadlens.model.activation import NONLINEARITIES
from quadlens.model.config import Config, MLPConfig
from quadlens.proofs.float_layer import UNDERFLOW, UPWARD, FloatLayer, float_layer, rounding
from quadlens.proofs.low_rank import LowRank, low_rank, output_spectrum
from quadlens.proofs.operations import Operations, score_count
from quadlens.proofs.proof import MAX_WITNESSES, NoHints, Proof, Term
from quadlens.spectrum.anatomy import Anatomy

SMALLEST_SLACK = 2.0**-20
MARGIN_BITS = 24
EXPONENTIAL_PRICE = 20
# How many a, with all b, are looked at to choose a rank; the proof is then tried on all.
SAMPLE = 6
LARGEST_EXACT = 2.0**53
SMALLEST = 2.0**-1074


@dataclass(frozen=True, eq=False)
class DirectHints:
    """The low-rank form of W_L, neurons in the order of the model; `moments` added up directly needs no more."""

    form: LowRank

    def to_json(self) -> dict[str, Any]:
        """Basis, coefficients and shift."""
        return {
            "basis": self.form.basis.tolist(),
            "coefficients": self.form.coefficients.tolist(),
            "shift": self.form.shift,
        }


@dataclass(frozen=True, eq=False)
class Margins:
    """What is found about every input.

    Attributes:
        margins: The right answer's score less the largest other and ρ, as computed.
        rival: The answer with the largest other score.
        clear: By how much the rival's score leads every other one; for witnesses.
        rho: The largest ρ.
    """

    margins: Float[np.ndarray, "p p"]
    rival: Int[np.ndarray, "p p"]
    clear: Float[np.ndarray, "p p"]
    rho: float = 0.0


def direct_operations(config: Config | MLPConfig, rank: int | None) -> int:
    """What brute force (rank None) or `moments` of this rank costs beyond the tables.

    Gates: 20 for each exponential, a sum, a quotient and the scale for each head, position and input. Pre-activations:
    2 n² d_mlp for each gated table and n² d_mlp for the rest; σ 1 for each of its roundings or comparisons, 20 where it
    is not rational. Skip terms: 2 n³ for each gated table and 2 n³ for the rest. Brute force: 2 n³ d_mlp, margins n³.
    Moments: the remainder of W_L 2 m n d_mlp and its spread 3 n d_mlp; h and ρ 2 (m + 1) n² d_mlp; scores 2 m n³,
    margins n³ and ρ taken off n².
    """
    n, d, tables, gates = config.p, config.d_mlp, 0, 0
    if isinstance(config, Config) and config.softmax is not None:
        seen = config.positions_seen
        tables = config.n_heads * min(seen, 2)
        gates = config.n_heads * (EXPONENTIAL_PRICE * score_count(config) + 3 * seen * n * n)
    degree = NONLINEARITIES[config.activation].degree
    sigma = EXPONENTIAL_PRICE if degree is None else max(1, degree // 2)
    shared = gates + (2 * tables + 1 + sigma) * n * n * d + (2 * tables + 2) * n**3
    if rank is None:
        return shared + 2 * n**3 * d + n**3
    return shared + (2 * rank + 3) * n * d + 2 * (rank + 1) * n * n * d + (2 * rank + 1) * n**3 + n * n


def prove_brute(name: str, anatomy: Anatomy) -> Proof:
    """Every logit of every input, enclosed."""
    layer = float_layer(anatomy.tables)
    found = _margins(layer, layer.W_L.T, None, None)
    loss = 2 * _logit_error(layer, np.abs(layer.W_L), rounding(layer.d_mlp + 8))
    return _proof(name, anatomy, layer, found, loss, NoHints(), None)


def prove_moments(name: str, anatomy: Anatomy) -> Proof:
    """The low rank that a sample of inputs suggests, and larger ones until every input is proved or rank is p / 2."""
    layer = float_layer(anatomy.tables)
    sample = [layer.hidden(a) for a in _sampled(layer.task.n)]
    size = np.sqrt(np.mean([np.square(z).mean(axis=0) for z in sample], axis=0))
    spectrum = output_spectrum(layer.W_L, size)
    most = max(1, min(spectrum.vectors.shape[1], max(16, layer.task.n // 2)))
    rank = next((m for m in range(1, most) if _sample_is_proved(layer, low_rank(spectrum, m), sample)), most)
    best = _of_rank(name, anatomy, layer, low_rank(spectrum, rank))
    while not best.certified.all() and rank < most:
        rank = min(most, rank + max(1, rank // 8))
        proof = _of_rank(name, anatomy, layer, low_rank(spectrum, rank))
        if proof.certified.sum() <= best.certified.sum() and best.certified.any():
            break
        best = proof
    return best


def _sampled(n: int) -> list[int]:
    return sorted({int(a) for a in np.linspace(0, n - 1, SAMPLE)})


def _sample_is_proved(layer: FloatLayer, form: LowRank, sample: list[Float[np.ndarray, "p d_mlp"]]) -> bool:
    R, M = _factors(form)
    spread = _spread(layer, R, M)
    for a, hidden in zip(_sampled(layer.task.n), sample, strict=True):
        score = hidden @ M.T @ R.T + layer.skip(a)
        rows, right = np.arange(len(score)), layer.task.answers[a]
        lead = score[rows, right].copy()
        score[rows, right] = -np.inf
        if not (lead - score.max(axis=1) - np.abs(hidden) @ spread > SMALLEST_SLACK).all():
            return False
    return True


def _of_rank(name: str, anatomy: Anatomy, layer: FloatLayer, form: LowRank) -> Proof:
    R, M = _factors(form)
    spread = _spread(layer, R, M)
    found = _margins(layer, M.T, R.T, spread)
    n, m = layer.d_mlp, form.rank
    loss = 2 * _logit_error(layer, np.abs(R) @ np.abs(M), rounding(n + m + 8))
    loss += float(spread @ layer.error + rounding(n + 3) * (spread @ layer.size + UNDERFLOW))
    return _proof(name, anatomy, layer, found, loss, DirectHints(form), m)


def _factors(form: LowRank) -> tuple[Float[np.ndarray, "p m"], Float[np.ndarray, "m d_mlp"]]:
    """R and M as doubles, exactly; the power of two goes to M."""
    if max(np.abs(form.basis).max(initial=0), np.abs(form.coefficients).max(initial=0)) >= LARGEST_EXACT:
        raise ValueError("coefficients of W_L are too large for float64")
    M = np.ldexp(form.coefficients.astype(np.float64), -form.shift)
    if form.coefficients.any() and not np.abs(M[form.coefficients != 0]).min() >= 2.0**-900:
        raise ValueError("coefficients of W_L are too small for float64")
    return form.basis.T.astype(np.float64), M


def _spread(layer: FloatLayer, R: Float[np.ndarray, "p m"], M: Float[np.ndarray, "m d_mlp"]) -> Float[np.ndarray, " d"]:
    """e_i: the spread of the remainder as computed, and what its rounding can add."""
    remainder = layer.W_L - R @ M
    size = (np.abs(R) @ np.abs(M) + np.abs(layer.W_L)).max(axis=0) + UNDERFLOW
    return (remainder.max(axis=0) - remainder.min(axis=0) + 2 * rounding(len(M) + 3) * size) * UPWARD


def _logit_error(layer: FloatLayer, weights: Float[np.ndarray, "p d_mlp"], roundings: float) -> float:
    """E of the theorems, for |W_L| or |R| |M|."""
    by_error, by_size = float((weights @ layer.error).max()), float((weights @ layer.size).max())
    lost = SMALLEST * float(layer.size.sum())
    return (by_error + roundings * (by_size + layer.skip_size + UNDERFLOW) + lost + layer.skip_error) * UPWARD


def _margins(
    layer: FloatLayer,
    first: Float[np.ndarray, "d_mlp _"],
    second: Float[np.ndarray, "m p"] | None,
    spread: Float[np.ndarray, " d_mlp"] | None,
) -> Margins:
    """Scores of all inputs, one a at a time: hidden · first (· second) + skip, and ρ where a spread is given."""
    n = layer.task.n
    margins, clear, rival, largest = np.empty((n, n)), np.empty((n, n)), np.empty((n, n), dtype=np.int64), 0.0
    rows = np.arange(n)
    for a in range(n):
        hidden = layer.hidden(a)
        score = hidden @ first
        score = (score if second is None else score @ second) + layer.skip(a)
        right = layer.task.answers[a]
        lead = score[rows, right].copy()
        score[rows, right] = -np.inf
        best = score.argmax(axis=1)
        top = score[rows, best]
        score[rows, best] = -np.inf
        rho = np.zeros(n) if spread is None else np.abs(hidden) @ spread
        margins[a], rival[a], largest = lead - top - rho, best, max(largest, float(rho.max()))
        clear[a] = top - np.maximum(lead, score.max(axis=1)) - rho
    return Margins(margins, rival, clear, largest)


def _proof(
    name: str, anatomy: Anatomy, layer: FloatLayer, found: Margins, loss: float, hints: Any, rank: int | None
) -> Proof:
    """The claims, with room for another enclosure."""
    if not math.isfinite(loss):
        raise OverflowError("the bounds on rounding are beyond float64")
    loss = loss * UPWARD
    slack = max(SMALLEST_SLACK, 3 * loss)
    unit = 1 << MARGIN_BITS
    # Multiples of 2^-24 that no margin is below, even another enclosure's.
    claims = np.floor((found.margins - slack) * unit)
    certified: Bool[np.ndarray, "n n"] = claims > 0
    wrong = ~certified & (found.clear > slack)
    terms = {"rounding": Term(Fraction(loss))}
    if rank is not None:
        terms = {"output residual": Term(Fraction(found.rho) + Fraction(loss))} | terms
    return Proof(
        strategy=name,
        certified=certified,
        margin=Fraction(int(claims[certified].min()), unit) if certified.any() else None,
        exact=False,
        witnesses=tuple(
            (int(a), int(b), int(found.rival[a, b])) for a, b in np.argwhere(wrong)[:MAX_WITNESSES].tolist()
        )
        if rank is None
        else (),
        hints=hints,
        operations=Operations(additions=direct_operations(anatomy.config, rank)),
        terms=terms,
        reason=_reason(found, certified, wrong, layer, rank),
    )


def _reason(
    found: Margins,
    certified: Bool[np.ndarray, "n n"],
    wrong: Bool[np.ndarray, "n n"],
    layer: FloatLayer,
    rank: int | None,
) -> str | None:
    if certified.all():
        return None
    left, task = int((~certified).sum()), layer.task
    a, b = (int(x) for x in np.unravel_index(int(np.argmin(found.margins)), certified.shape))
    by = "" if rank is None else f" by a score of rank {rank}"
    words = (
        f"{left} of {certified.size} inputs are not proved; the worst is {task.question(a, b)}, where "
        f"{task.answers[a, b]} leads {found.rival[a, b]}{by} by {found.margins[a, b]:.3g}"
    )
    return f"{words}; {int(wrong.sum())} are proved wrong" if rank is None else words
