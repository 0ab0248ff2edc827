"""`brute` and `moments` in float64 with a proved error, for any attention and activation.

They serve softmax, and activations that are not rational.

With the hidden layer σ̄(pre̅) of `float_layer.py`, |σ̄(pre̅_i) - σ(pre_i)| ≤ η_i and both at most
A_i:

Theorem (brute). The logits computed, Σ_i W̄_L[c,i] σ̄(pre̅_i) + skip, are within
E = max_c Σ_i |W̄_L[c,i]| η_i + γ_(d_mlp+8) (max_c Σ_i |W̄_L[c,i]| A_i + skip_size + 2^-1000) +
2^-1074 Σ_i A_i + skip_error of the true ones, so that every difference of two is within 2 E.

Theorem (moments). Let R (p × m) and M (m × d_mlp) be any doubles, W_L = R M + E and e_i ≥ max_c
E[c,i] - min_c E[c,i]. With h_f = Σ_i M[f,i] σ(pre_i), ρ = Σ_i e_i |σ(pre_i)| and score_c = Σ_f
R[c,f] h_f + skip_c,

    logit(c) - logit(c') ≥ score_c - score_c' - ρ.

Computed in float64, a score is off by at most E as above with |R| |M| for |W̄_L| and γ_(d_mlp+m+8),
and ρ is at most its computed value and Σ_i e_i η_i + γ_(d_mlp+3) Σ_i e_i A_i more. (E itself is
computed: |Ē - E| ≤ γ_(m+3) (|R| |M| + |W̄_L|), twice of which is in e.)

Proof. As in `moments.py`; the sums are those of n numbers in any order, with or without fused
multiply-add (Higham, Lemma 3.1), products meet the rounding of their factors, and 2^-1000 u is more
than all that underflow takes of them. An entry of W_L too small for a relative rounding is off by
at most 2^-1075, and A_i times that in a logit. ∎ (What is assumed of BLAS and of the process,
denormal numbers above all: see `enclosed.py`.)

Inputs that a low rank leaves out, or proves by less than a quarter of what the sample's margins
promise, are settled by every logit of theirs, as brute force does it, if they are at most a quarter
of all; so that the rank is chosen by cost. Of M's entries the least are then set to 0, as many as
is cheapest by a sample: sums over neurons are that much shorter.

A claim is made with room for another enclosure: the margin is rounded down by `slack`, the larger
of 2^-20 and three times all that was lost, to a multiple of 2^-24; and by twice what the checker's
own enclosure can lose, where that is more, unless inputs would go unproved for it (then the proof
says that the checker cannot follow).

Cost: `direct_operations`, from the sizes; a test counts a small case with arrays that count. An
exponential, and an activation that is not rational, counts as 20 operations.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.base.display import short
from quadlens.base.numbers import bound, significant
from quadlens.network.config import Config
from quadlens.network.margins import leads
from quadlens.proofs.long_work import TIME_LIMIT, begin, is_over, tell
from quadlens.proofs.pairs.checker_limits import CheckerError, checker_error
from quadlens.proofs.pairs.float_layer import (
    EXPONENTIAL_PRICE,
    UNDERFLOW,
    UPWARD,
    FloatLayer,
    activation_price,
    float_layer,
    rounding,
)
from quadlens.proofs.pairs.low_rank import (
    LowRank,
    OutputSpectrum,
    low_rank,
    output_spectrum,
    turned,
    without_least,
)
from quadlens.proofs.pairs.margins import lead_in_words, least_at, listed, not_proved, proved_wrong
from quadlens.proofs.pairs.operations import score_count
from quadlens.proofs.pairs.plan import ArcHints
from quadlens.proofs.pairs.proof import Hints, NoHints, Proof, Term

SMALLEST_SLACK = 2.0**-20
MARGIN_BITS = 24
# How many a, with all b, are looked at to choose a rank; the proof is then tried on all.
SAMPLE = 6
# At most one input in so many is settled by every logit.
SETTLED_SHARE = 4
# How many a are drawn to choose which coefficients are 0, and how many numbers of these are tried.
DRAWN, STEPS = 16, 48
# By how much more than the floor an input of that sample is to be proved: others are a little worse
# than the drawn.
CUSHION = 1.25
LARGEST_EXACT = 2.0**53
SMALLEST = 2.0**-1074


@short
@dataclass(frozen=True, eq=False)
class MomentHints:
    """The low-rank form of W_L, the inputs resolved exactly, and the arcs for the sums."""

    form: LowRank
    exact: tuple[tuple[int, int], ...] = ()
    arcs: ArcHints | None = None

    def to_json(self) -> dict[str, Any]:
        """Basis, coefficients in the order of the neurons and shift, and what else there is."""
        coefficients = self.form.coefficients
        return {
            **({"exact": [list(pair) for pair in self.exact]} if self.exact else {}),
            **({} if self.arcs is None else self.arcs.to_json()),
            "basis": self.form.basis.tolist(),
            "coefficients": (
                coefficients if self.arcs is None else coefficients[:, self.arcs.order]
            ).tolist(),
            "shift": self.form.shift,
        }


class InputMargins:
    """The margin of every input, and what else is known of it.

    Attributes:
        margins: The right answer's score less the largest other and ρ, as computed.
        rival: The answer with the largest other score.
        rho: The largest ρ; 0 where every logit is worked out.
        exact: Which inputs are settled by every logit.
        clear: By how much the rival's logit leads every other one, where that is known and it does;
            else -∞.
    """

    def __init__(
        self, margins: Float[np.ndarray, "p p"], rival: Int[np.ndarray, "p p"], rho: float = 0.0
    ) -> None:
        """Margins and rivals by scores, or what stands for them until inputs are settled."""
        self.margins, self.rival, self.rho = margins, rival, rho
        self.exact, self.clear = (
            np.zeros(margins.shape, dtype=bool),
            np.full(margins.shape, -np.inf),
        )

    def settle(
        self, layer: FloatLayer, a: Any, b: Any, logits: Float[np.ndarray, "inputs p"]
    ) -> None:
        """Take the margins of the inputs (a, b) from every logit of theirs."""
        margins, rival = leads(logits, layer.task.answers[a, b])
        self.margins[a, b], self.rival[a, b], self.exact[a, b] = margins, rival, True
        lost = margins < 0
        clear = np.full(len(margins), -np.inf)
        clear[lost] = leads(logits[lost], rival[lost])[0]
        self.clear[a, b] = clear


def direct_operations(
    config: Config,
    rank: int | None,
    settled: int = 0,
    terms: int | None = None,
    shared: bool = True,
) -> int:
    """Return what brute force (rank None) or `moments` of this rank costs beyond the tables.

    With N = d_mlp + n columns of U and S. Gates: 20 for each exponential; for each head and input a
    sum over the positions seen, a quotient, and a product for each weight but where e is in the
    tables, which are then multiplied by it, 2 n N. '=' is taken off the tables and added once; so
    is b's where two positions are seen. Pre-activations and skip terms: n² N, and 3 n² N for each
    head, or 2 n² N for each head and position with a weight of its own. σ: 1 for each of its
    roundings or comparisons, 20 where it is not rational. Skip terms join the scores, n³. Brute
    force: 2 n³ d_mlp, margins n³. Moments with t coefficients that are not 0 (None for all, m
    d_mlp): the remainder of W_L 2 t n and its spread 3 n d_mlp; h and ρ 2 n² (t + d_mlp); scores 2
    m n³, margins n³ and ρ taken off n². An input settled: 2 n d_mlp + 2 n. `shared` is false where
    scores read at '=' are too far apart for e in the tables. Bounds on rounding are left out: sums
    over tables, and |R| |M| of moments, 2 t n.
    """
    n, d = config.p, config.d_mlp
    columns, gates, parts = d + n, 0, 1
    if config.softmax is not None:
        seen, heads = config.positions_seen, config.n_heads
        shared = shared and seen == 3 and config.read_position == 2
        weights = 0 if shared else 1 if seen < 3 else 2
        gates = heads * (EXPONENTIAL_PRICE * score_count(config) + (seen + weights) * n * n)
        gates += heads * 2 * n * columns if shared else 0
        gates += {
            1: 0,
            2: (heads + 1) * n * columns,
            3: 2 * heads * n * columns + (heads + n) * columns,
        }[seen]
        parts += heads * (3 if shared or seen == 2 else 2 * min(seen, 2))
    shared_cost = (
        gates + parts * n * n * columns + activation_price(config.activation) * n * n * d + n**3
    )
    if rank is None:
        return shared_cost + 2 * n**3 * d + n**3
    terms = rank * d if terms is None else terms
    low_rank_cost = (
        (2 * terms + 3 * d) * n + 2 * (terms + d) * n * n + (2 * rank + 1) * n**3 + n * n
    )
    return shared_cost + low_rank_cost + settled * _settling(n, d)


def _settling(n: int, d_mlp: int) -> int:
    """Return what resolving one input exactly costs, given its hidden layer."""
    return 2 * n * d_mlp + 2 * n


def prove_brute(name: str, anatomy: Anatomy) -> Proof:
    """Every logit of every input, enclosed."""
    layer = float_layer(anatomy.tables)
    ops = direct_operations(anatomy.config, None, shared=layer.shared)
    n = layer.task.n
    # An input that is not reached has margin 0: nothing is claimed of it.
    inputs = InputMargins(np.zeros((n, n)), np.zeros((n, n), dtype=np.int64))
    for a in range(n):
        if is_over():
            break
        tell(f"rows {a + 1}/{n}")
        inputs.settle(layer, a, np.arange(n), layer.hidden(a) @ layer.W_L.T + layer.skip(a))
    checker = checker_error(anatomy.model, anatomy.tables)
    proof = claimed(name, layer, inputs, brute_loss(layer), NoHints(), ops, checker)
    return proof if inputs.exact.all() else replace(proof, reason=TIME_LIMIT)


def prove_moments(name: str, anatomy: Anatomy) -> Proof:
    """Prove by the rank that a sample says is cheapest, resolving the rest exactly."""
    layer, checker = float_layer(anatomy.tables), checker_error(anatomy.model, anatomy.tables)
    n = layer.task.n
    sample = sample_of(layer, sorted({int(a) for a in np.linspace(0, n - 1, SAMPLE)}))
    size = np.sqrt(np.mean([np.square(z).mean(axis=0) for _, z, _ in sample], axis=0))
    spectrum = output_spectrum(layer.W_L, size)
    most = max(1, min(spectrum.vectors.shape[1], max(16, n // 2)))
    true = np.concatenate(
        [leads(z @ layer.W_L.T + skip, layer.task.answers[a])[0] for a, z, skip in sample]
    )
    floor = float(true[true > 0].min(initial=np.inf)) / 4
    floor = floor if np.isfinite(floor) else 0.0
    best: tuple[float, int] | None = None
    for rank in range(1, most + 1):
        price = float(direct_operations(anatomy.config, rank))
        if best is not None and price >= best[0]:
            break
        left = n * n * share_left(layer, low_rank(spectrum, rank), sample, floor)
        price = (
            price + left * _settling(n, layer.d_mlp) if left <= n * n / SETTLED_SHARE else math.inf
        )
        best = (price, rank) if best is None or price < best[0] else best
    if best is None or best[0] == math.inf:
        best = (math.inf, most)
    sparse = _of_rank(
        name,
        anatomy.config,
        checker,
        layer,
        _cheapest(anatomy.config, layer, spectrum, best[1], floor),
        floor,
    )
    if sparse.certified.all() and sparse.operations <= best[0]:
        return sparse
    # The sample promised more than holds for all inputs: with every coefficient more may be proved,
    # or for less.
    whole = _of_rank(name, anatomy.config, checker, layer, low_rank(spectrum, best[1]), floor)
    return min(sparse, whole, key=lambda proof: (-int(proof.certified.sum()), proof.operations))


def _cheapest(
    config: Config, layer: FloatLayer, spectrum: OutputSpectrum, rank: int, floor: float
) -> LowRank:
    """Set as many coefficients to 0 as a sample says is cheapest at this rank.

    The cost of resolving the remaining inputs is included.

    The sample is drawn: neurons of a group can be active for some a alone, and those of evenly
    spaced a say little.
    """
    n = layer.task.n
    sample = sample_of(layer, np.random.default_rng(0).permutation(n)[:DRAWN].tolist())
    size = np.sqrt(np.mean([np.square(z).mean(axis=0) for _, z, _ in sample], axis=0))
    form = low_rank(turned(spectrum, rank, size), rank)
    best: tuple[float, LowRank] | None = None
    for step in range(STEPS):
        sparse = without_least(form, size, form.coefficients.size * step // STEPS)
        left = share_left(layer, sparse, sample, CUSHION * floor)
        settled = (
            n * n * left * _settling(n, layer.d_mlp) if left * SETTLED_SHARE <= 1 else math.inf
        )
        price = direct_operations(config, rank, terms=sparse.terms) + settled
        best = (price, sparse) if best is None or price < best[0] else best
    return form if best is None else best[1]


Sample = list[tuple[int, Float[np.ndarray, "p d_mlp"], Float[np.ndarray, "p p"]]]


def sample_of(layer: FloatLayer, tokens: Iterable[int]) -> Sample:
    """Hidden layer and skip terms of some a with all b."""
    return [(a, layer.hidden(a), layer.skip(a)) for a in tokens]


def share_left(layer: FloatLayer, form: LowRank, sample: Sample, floor: float) -> float:
    """Return the share of the sample that this form does not prove with the margin wanted."""
    R, M = _factors(form)
    spread, left, inputs = spread_left(layer, R, M), 0, 0
    for a, hidden, skip in sample:
        lead, _ = leads(hidden @ M.T @ R.T + skip, layer.task.answers[a])
        left += int((lead - np.abs(hidden) @ spread <= max(floor, SMALLEST_SLACK)).sum())
        inputs += len(lead)
    return left / inputs


def _of_rank(
    name: str, config: Config, checker: CheckerError, layer: FloatLayer, form: LowRank, floor: float
) -> Proof:
    R, M = _factors(form)
    spread, n, m = spread_left(layer, R, M), layer.d_mlp, form.rank
    loss = 2 * _logit_error(layer, np.abs(R) @ np.abs(M), rounding(n + m + 8))
    loss += float(spread @ layer.error + rounding(n + 3) * (spread @ layer.size + UNDERFLOW))
    inputs = _margins(layer, R, M, spread, floor + 4 * max(loss, brute_loss(layer)))
    loss = max(loss, brute_loss(layer)) if inputs.exact.any() else loss
    pairs = tuple((int(a), int(b)) for a, b in np.argwhere(inputs.exact))
    ops = direct_operations(config, m, len(pairs), form.terms, layer.shared)
    residual = float(spread.sum()) * UPWARD
    return claimed(name, layer, inputs, loss, MomentHints(form, pairs), ops, checker, m, residual)


def brute_loss(layer: FloatLayer) -> float:
    """2 E of the first theorem: what is lost of the difference of two logits."""
    return 2 * _logit_error(layer, np.abs(layer.W_L), rounding(layer.d_mlp + 8))


def _factors(form: LowRank) -> tuple[Float[np.ndarray, "p m"], Float[np.ndarray, "m d_mlp"]]:
    """R and M as doubles, exactly; the power of two goes to M."""
    if (
        max(np.abs(form.basis).max(initial=0), np.abs(form.coefficients).max(initial=0))
        >= LARGEST_EXACT
    ):
        raise ValueError("coefficients of W_L are too large for float64")
    M = np.ldexp(form.coefficients.astype(np.float64), -form.shift)
    if form.coefficients.any() and not np.abs(M[form.coefficients != 0]).min() >= 2.0**-900:
        raise ValueError("coefficients of W_L are too small for float64")
    return form.basis.T.astype(np.float64), M


def spread_left(
    layer: FloatLayer, R: Float[np.ndarray, "p m"], M: Float[np.ndarray, "m d_mlp"]
) -> Float[np.ndarray, " d_mlp"]:
    """e_i: the spread of the remainder as computed, and what its rounding can add."""
    remainder = layer.W_L - R @ M
    size = (np.abs(R) @ np.abs(M) + np.abs(layer.W_L)).max(axis=0) + UNDERFLOW
    return (
        remainder.max(axis=0) - remainder.min(axis=0) + 2 * rounding(len(M) + 3) * size
    ) * UPWARD


def _logit_error(
    layer: FloatLayer, weights: Float[np.ndarray, "p d_mlp"], roundings: float
) -> float:
    """E of the theorems, for |W_L| or |R| |M|."""
    by_error, by_size = float((weights @ layer.error).max()), float((weights @ layer.size).max())
    lost = SMALLEST * float(layer.size.sum())
    return (
        by_error + roundings * (by_size + layer.skip_size + UNDERFLOW) + lost + layer.skip_error
    ) * UPWARD


def _margins(
    layer: FloatLayer,
    R: Float[np.ndarray, "p m"],
    M: Float[np.ndarray, "m d_mlp"],
    spread: Float[np.ndarray, " d_mlp"],
    floor: float,
) -> InputMargins:
    """Return the scores' margins of all inputs, one a at a time.

    They come by R and M less ρ, and by W_L where that is below the floor.

    Once more than a quarter of all inputs are below it, no more are settled.
    """
    n = layer.task.n
    inputs = InputMargins(np.empty((n, n)), np.empty((n, n), dtype=np.int64))
    for a in range(n):
        begin(f"rows {a + 1}/{n}")
        hidden, skip = layer.hidden(a), layer.skip(a)
        rho = np.abs(hidden) @ spread
        lead, inputs.rival[a] = leads(hidden @ M.T @ R.T + skip, layer.task.answers[a])
        inputs.margins[a], inputs.rho = lead - rho, max(inputs.rho, float(rho.max()))
        few = np.flatnonzero(inputs.margins[a] <= floor)
        if len(few) and inputs.exact.sum() + len(few) <= n * n / SETTLED_SHARE:
            inputs.settle(layer, a, few, hidden[few] @ layer.W_L.T + skip[few])
    return inputs


def claimed(
    name: str,
    layer: FloatLayer,
    inputs: InputMargins,
    loss: float,
    hints: Hints | None,
    operations: int,
    checker: CheckerError | None,
    rank: int | None = None,
    residual: float = 0.0,
) -> Proof:
    """The proof, with room for another enclosure.

    Args:
        name: Of the strategy.
        layer: The model.
        inputs: What is found about them.
        loss: What is lost of any of them.
        hints: For the checker.
        operations: What the proof cost.
        checker: What the checker loses by itself; None where it does not know the theorem.
        rank: How many functions scores are made of; None for logits.
        residual: The spread of all that these leave of W_L.
    """
    if not math.isfinite(loss):
        raise OverflowError("the bounds on rounding are beyond float64")
    loss, checker_lost, obstacle = loss * UPWARD, 0.0, None
    if checker is not None:
        checker_lost = checker.loss(
            float(np.ptp(layer.W_L, axis=0).sum()) * UPWARD + UNDERFLOW, residual
        )
        obstacle = checker.refusal
    claims = Claims.of(inputs.margins, max(SMALLEST_SLACK, 3 * loss), 2 * checker_lost)
    if not claims.followed:
        obstacle = obstacle or (
            f"the checker's own enclosure can lose {bound(checker_lost)} here, and some "
            "margin is not twice as large"
        )
    certified = claims.certified
    wrong = ~certified & (inputs.clear > claims.slack)
    terms = {"rounding": Term(Fraction(loss))}
    if rank is not None:
        terms = {"output residual": Term(Fraction(inputs.rho) + Fraction(loss))} | terms
    return Proof(
        strategy=name,
        certified=certified,
        margin=claims.margin,
        exact=False,
        witnesses=listed(wrong, inputs.rival),
        hints=hints,
        operations=operations,
        terms=terms,
        reason=_reason(inputs, certified, wrong, layer, rank),
        complete=bool((certified | wrong).all()),
        obstacle=obstacle,
    )


@dataclass(frozen=True, eq=False)
class Claims:
    """The claimed margin of each input, in units of 2^-MARGIN_BITS, rounded down.

    It is the proved margin less the slack.

    Attributes:
        units: No margin is below them, even another enclosure's.
        slack: What was taken off every margin.
        followed: Whether it is enough for the checker's enclosure.
    """

    units: Float[np.ndarray, "n n"]
    slack: float
    followed: bool = True

    @classmethod
    def of(cls, margins: Float[np.ndarray, "n n"], slack: float, room: float) -> "Claims":
        """Claim with the given slack, or with the checker's room if no input is lost by that."""
        claims = cls._less(margins, slack)
        if not room > slack:
            return claims
        lower = cls._less(margins, room)
        if math.isfinite(room) and (lower.certified == claims.certified).all():
            return lower
        return replace(claims, followed=False)

    @classmethod
    def _less(cls, margins: Float[np.ndarray, "n n"], slack: float) -> "Claims":
        return cls(np.asarray(np.floor((margins - slack) * (1 << MARGIN_BITS))), slack)

    @property
    def certified(self) -> Bool[np.ndarray, "n n"]:
        """The inputs that are proved right."""
        return np.asarray(self.units > 0)

    @property
    def margin(self) -> Fraction | None:
        """The smallest claim of an input that is proved right."""
        proved = self.units[self.certified]
        return Fraction(int(proved.min()), 1 << MARGIN_BITS) if len(proved) else None


def _reason(
    inputs: InputMargins,
    certified: Bool[np.ndarray, "n n"],
    wrong: Bool[np.ndarray, "n n"],
    layer: FloatLayer,
    rank: int | None,
) -> str | None:
    if certified.all():
        return None
    task = layer.task
    a, b = least_at(inputs.margins)
    right, rival, margin = (
        int(task.answers[a, b]),
        int(inputs.rival[a, b]),
        float(inputs.margins[a, b]),
    )
    if inputs.exact[a, b]:
        worst = lead_in_words(right, rival, margin)
    else:
        least = significant(margin, "down", 4)
        worst = (
            f"all that a score of rank {rank} shows of the lead of {right} "
            f"over {rival} is ≥ {least}"
        )
    words = f"{not_proved(task, certified, (a, b))} {worst}"
    return f"{words}; {proved_wrong(int(wrong.sum()))}" if rank is None or wrong.any() else words
