"""`arcs-bounded`: arcs predicted by a shared function, and a bound instead of a look at what they mispredict.

Theorem (`math.md` §5, Arcs, bounded). For any Z_i(a,b) = Z_a[a,i] + Z_b[b,i] let

    E_i(a,b)       = |U_a[a,i] - Z_a[a,i]| + |U_b[b,i] - Z_b[b,i]|
    s_i(a,b)       = (E_i - |Z_i|)_+                                    not 0 only for neurons close to their kink
    linear(a,b,c)  = Σ_{i: Z_i > 0} W_L[c,i] pre_i + S_a[a,c] + S_b[b,c]
    β(a,b)         = Σ_i (max_c' W_L[c',i] - W_L[c,i]) s_i              with c = a + b mod p

Then, for c = a + b mod p and every c',

    logit(c) - logit(c') ≥ linear(c) - linear(c') - Σ_i (W_L[c',i] - W_L[c,i])_+ s_i  ≥ linear(c) - linear(c') - β.

Proof. Let t_i = ReLU(pre_i) - [Z_i > 0] pre_i, so that logit = linear + Σ_i W_L[·,i] t_i. Since |pre_i - Z_i| ≤ E_i:
if Z_i ≤ 0, t_i = ReLU(pre_i) and pre_i ≤ E_i - |Z_i|; if Z_i > 0, t_i = ReLU(-pre_i) and -pre_i ≤ E_i - |Z_i|. So
0 ≤ t_i ≤ s_i, and (W_L[c,i] - W_L[c',i]) t_i ≥ -(W_L[c',i] - W_L[c,i])_+ s_i. This part of |W_L[c,i] - W_L[c',i]| is
enough because t_i ≥ 0. Last, (W_L[c',i] - W_L[c,i])_+ ≤ max_c'' W_L[c'',i] - W_L[c,i], which is not negative. ∎

No sign of pre_i(a,b) is looked at. Z is a hint and any Z gives a true bound: here the function that a group of neurons
shares (`shared_function.py`), and Z = U, so E = 0, for neurons too irregular to share it. U enters exactly and all is
in integers. The bound with β comes first, one number an input; the sharper one is worked out only for those (a, b, c')
that decide which inputs are certified or what the smallest margin is. The others are above it already, so the
outcome is the same as if all had been.

Cost: `bounded_operations`.
"""

import heapq
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from quadlens.model.exact import collapse_exactly
from quadlens.model.integers import IntegerModel, integer_model, is_piecewise_linear
from quadlens.model.params import Model
from quadlens.proofs.arcs import needs_arcs
from quadlens.proofs.margins import ExactAnswers, MarginTally
from quadlens.proofs.operations import Operations
from quadlens.proofs.order import group_by_frequency
from quadlens.proofs.plan import Signs, arcs_along, hidden_sums
from quadlens.proofs.proof import NoHints, Proof, Term
from quadlens.proofs.shared_function import shared_functions

# First all neurons share their group's function (unless they read next to nothing at its frequency); when that does not
# prove everything, fewer do.
IRREGULAR = (1e3, 0.3, 0.15)


@dataclass(frozen=True)
class BoundedSizes:
    """What the cost depends on beside p and d_mlp, over all inputs.

    Attributes:
        ends: F, arc ends that are not 0.
        corrections: T, neurons whose prediction Z_i > 0 differs from the arcs (runs of one neuron).
        windows: V, pairs of an input and a neuron with s_i > 0.
        opened: N, inputs looked at rival by rival.
        rounds: I, searches for an input's smallest bound.
        refined: X, terms of the sharper sums.
    """

    ends: int
    corrections: int
    windows: int
    opened: int
    rounds: int
    refined: int


def bounded_operations(p: int, d_mlp: int, sizes: BoundedSizes) -> int:
    """7 p² d_mlp + 8 p d_mlp + 3 p³ + 2 p² + 2 p F + (2 p + 1) T + 3 V + (p - 1)(2 N + I) + 4 X.

    Per input and neuron: the sign of Z_i, a comparison of neighbours, and E_i against |Z_i|; the tables of `arcs` are
    the other 4. Z ± E and the largest weights 8 p d_mlp. Skip terms and margins 3 p³, β taken off and compared 2 p².
    s_i and its part in β 3 each. An opened input 2 a rival, each search p - 1, a term of a sharper sum 4.
    """
    look_ups = 2 * p * sizes.ends + (2 * p + 1) * sizes.corrections + 3 * sizes.windows
    refinement = (p - 1) * (2 * sizes.opened + sizes.rounds) + 4 * sizes.refined
    return 7 * p**2 * d_mlp + 8 * p * d_mlp + 3 * p**3 + 2 * p**2 + look_ups + refinement


@dataclass(frozen=True, eq=False)
class BoundedAnswers:
    """What the theorem says about every input; integers over 2^shift.

    Attributes:
        shift: Of the logits.
        certified: Where the lower bound of the margin is positive.
        margin: The smallest lower bound over the certified inputs; None when there are none.
        linear: Margins of the linear part alone, with the rival.
        beta: β(a,b).
        sizes: For the cost.
    """

    shift: int
    certified: Bool[np.ndarray, "p p"]
    margin: int | None
    linear: ExactAnswers
    beta: Shaped[np.ndarray, "p p"]
    sizes: BoundedSizes


@dataclass(frozen=True)
class BoundedArcs:
    """The bounded variant of `arcs`: a margin less what neurons close to their kink could take."""

    name: str = "arcs-bounded"

    def prove(self, model: Model) -> Proof:
        """Certify every input that the theorem proves, with as few neurons treated as irregular as are needed."""
        if not is_piecewise_linear(model.config.activation):
            return needs_arcs(self.name, model)
        exact, collapsed = integer_model(collapse_exactly(model)), model.collapse()
        groups = group_by_frequency(collapsed)
        order = np.concatenate([group.neurons for group in groups])
        best: Proof | None = None
        for most in IRREGULAR:
            shared = shared_functions(collapsed, groups, most)
            Z_a, Z_b = as_integers(shared.Z_a, exact), as_integers(shared.Z_b, exact)
            Z_a[:, shared.irregular] = exact.U_a[:, shared.irregular]
            Z_b[:, shared.irregular] = exact.U_b[:, shared.irregular]
            ops = Operations()
            proof = self._proof(bounded_answers(exact, order, Z_a, Z_b, ops), ops)
            if best is None or proof.certified.sum() > best.certified.sum():
                best = proof
            if best.certified.all():
                break
        if best is None:
            raise ValueError("no attempt was made")
        return best

    def _proof(self, answers: BoundedAnswers, ops: Operations) -> Proof:
        p, unit, certified = len(answers.beta), 1 << answers.shift, answers.certified
        reason = None
        if not certified.all():
            lower = np.where(certified, 0, answers.linear.margins - answers.beta)
            a, b = (int(n) for n in np.unravel_index(int(np.argmin(lower)), (p, p)))
            reason = (
                f"{int((~certified).sum())} of {p * p} inputs are not proved; the worst is {a} + {b}, where the linear "
                f"part leads {answers.linear.rival[a, b]} by {answers.linear.margins[a, b] / unit:.3g} and the term "
                f"'mispredicted' may take {answers.beta[a, b] / unit:.3g}: try --strategy arcs, which is exact"
            )
        a, b = (int(n) for n in np.unravel_index(int(np.argmax(answers.beta)), (p, p)))
        return Proof(
            strategy=self.name,
            certified=certified,
            margin=None if answers.margin is None else Fraction(answers.margin, unit),
            exact=False,
            witnesses=(),
            hints=NoHints(),
            operations=ops,
            terms={"mispredicted": Term(Fraction(int(answers.beta[a, b]), unit), (a, b))},
            reason=reason,
        )


def as_integers(Z: Float[np.ndarray, "p d_mlp"], model: IntegerModel) -> Shaped[np.ndarray, "p d_mlp"]:
    """Z rounded to integers over the denominator of U; what float64 could not hold becomes 0, sound like any Z."""
    unit = Fraction(2) ** (model.shift - model.shift_w)
    rounded = np.empty(Z.size, dtype=object)
    rounded[:] = [int(Fraction(z) * unit) for z in np.nan_to_num(Z, nan=0.0, posinf=0.0, neginf=0.0).ravel().tolist()]
    return rounded.reshape(Z.shape)


def bounded_answers(
    model: IntegerModel,
    order: Int[np.ndarray, " d_mlp"],
    Z_a: Shaped[np.ndarray, "p d_mlp"],
    Z_b: Shaped[np.ndarray, "p d_mlp"],
    ops: Operations,
) -> BoundedAnswers:
    """The theorem above for any integers Z_a and Z_b over the denominator of U, neurons taken in any order."""
    p = model.p
    U_a, U_b, W_L = model.U_a[:, order], model.U_b[:, order], model.W_L[:, order]
    Z_a, Z_b = Z_a[:, order], Z_b[:, order]
    signs = Signs.of(Z_a, Z_b)
    predicted = ops.greater(signs.rank[None], signs.threshold[:, None] - 1).reshape(p * p, -1)
    plan = arcs_along(p, predicted, ops)
    row, at, slack = _windows(U_a, U_b, Z_a, Z_b, predicted, ops)
    pre = ops.add(U_a[plan.wrong_row // p, plan.wrong], U_b[plan.wrong_row % p, plan.wrong])
    signed = np.where(predicted[plan.wrong_row, plan.wrong], pre, -pre)
    tally, linear = MarginTally(p, ops), np.empty((p, p, p), dtype=object)
    for c in range(p):
        hidden = hidden_sums(W_L[c], U_a, U_b, plan, signed, ops).reshape(p, p)
        linear[:, :, c] = ops.add(ops.add(hidden, model.S_a[:, c][:, None]), model.S_b[:, c][None, :])
        tally.take(c, linear[:, :, c])
    most = ops.subtract(W_L.max(axis=0)[None, :], W_L)
    ops.comparisons += W_L.size
    right = (row // p + row % p) % p
    beta = ops.sum_groups(ops.multiply(most[right, at], slack), row, p * p)
    answers = tally.answers(model.shift)
    search = _Search(p, linear.reshape(p * p, p), W_L, np.searchsorted(row, np.arange(p * p + 1)), at, slack, beta, ops)
    certified, margin = search.run(ops.subtract(answers.margins.ravel(), beta))
    sizes = BoundedSizes(
        plan.counted_ends, plan.mispredicted, len(row), len(search.opened), search.rounds, search.refined
    )
    return BoundedAnswers(model.shift, certified.reshape(p, p), margin, answers, beta.reshape(p, p), sizes)


def _windows(
    U_a: Shaped[np.ndarray, "p d_mlp"],
    U_b: Shaped[np.ndarray, "p d_mlp"],
    Z_a: Shaped[np.ndarray, "p d_mlp"],
    Z_b: Shaped[np.ndarray, "p d_mlp"],
    predicted: Bool[np.ndarray, "inputs d_mlp"],
    ops: Operations,
) -> tuple[Int[np.ndarray, " v"], Int[np.ndarray, " v"], Shaped[np.ndarray, " v"]]:
    """Input, position and s_i > 0. E_i - |Z_i| is E_i - Z_i where Z_i > 0 and E_i + Z_i elsewhere: both separate."""
    p = len(U_a)
    E_a, E_b = np.abs(ops.subtract(U_a, Z_a)), np.abs(ops.subtract(U_b, Z_b))
    off_a, off_b = ops.add(E_a, Z_a), ops.add(E_b, Z_b)
    on_a, on_b = ops.subtract(E_a, Z_a), ops.subtract(E_b, Z_b)
    on, off = Signs.of(on_a, on_b), Signs.of(off_a, off_b)
    rows, positions = [], []
    for a in range(p):
        active = predicted[a * p : (a + 1) * p]
        # One comparison a neuron: which of the two tables to look at is known from the prediction.
        threshold = np.where(active, on.threshold[a], off.threshold[a])
        b, i = np.nonzero(ops.greater(np.where(active, on.rank, off.rank), threshold - 1))
        rows.append(a * p + b)
        positions.append(i)
    row, at = np.concatenate(rows), np.concatenate(positions)
    of_a, of_b, active = (row // p, at), (row % p, at), predicted[row, at]
    slack = ops.add(np.where(active, on_a[of_a], off_a[of_a]), np.where(active, on_b[of_b], off_b[of_b]))
    return row, at, slack


class _Search:
    """Works out the sharper bound where it matters: always for the smallest bound of all that is not sharp yet."""

    def __init__(
        self,
        p: int,
        linear: Shaped[np.ndarray, "inputs p"],
        W_L: Shaped[np.ndarray, "p d_mlp"],
        first: Int[np.ndarray, " inputs_plus_1"],
        at: Int[np.ndarray, " v"],
        slack: Shaped[np.ndarray, " v"],
        beta: Shaped[np.ndarray, " inputs"],
        ops: Operations,
    ) -> None:
        """Take the linear part, the weights, the windows (those of input n from first[n] to first[n+1]) and β."""
        self.p, self.linear, self.W_L, self.ops = p, linear, W_L, ops
        self.first, self.at, self.slack, self.beta = first, at, slack, beta
        self.opened: dict[int, _Rivals] = {}
        self.rounds = self.refined = 0

    def run(self, bounds: Shaped[np.ndarray, " inputs"]) -> tuple[Bool[np.ndarray, " inputs"], int | None]:
        """Which inputs are certified, and the smallest bound among them, from the bounds with β."""
        certified = np.ones(len(bounds), dtype=bool)
        queue = [(int(bound), n) for n, bound in enumerate(bounds)]
        heapq.heapify(queue)
        # The order of the work is a hint; that no input left in the queue is below the margin is a comparison each.
        self.ops.comparisons += len(queue)
        while queue:
            _, n = heapq.heappop(queue)
            if n not in self.opened:
                self.opened[n] = self._open(n)
            rivals = self.opened[n]
            at = int(np.argmin(rivals.bound))
            self.rounds += 1
            self.ops.comparisons += self.p - 1
            if rivals.sharp[at]:
                return certified, int(rivals.bound[at])
            rivals.bound[at] = self._sharper(n, int(rivals.answer[at]), rivals.lead[at])
            rivals.sharp[at] = True
            if rivals.bound[at] > 0:
                heapq.heappush(queue, (int(rivals.bound.min()), n))
            else:
                certified[n] = False
        return certified, None

    def _open(self, n: int) -> "_Rivals":
        right = _right(n, self.p)
        answer = np.delete(np.arange(self.p), right)
        lead = self.ops.subtract(self.linear[n, right : right + 1], self.linear[n, answer])
        return _Rivals(answer, lead, self.ops.subtract(lead, self.beta[n : n + 1]), np.zeros(self.p - 1, dtype=bool))

    def _sharper(self, n: int, answer: int, lead: int) -> int:
        """The lead less Σ_i (W_L[c',i] - W_L[c,i])_+ s_i."""
        mine = slice(self.first[n], self.first[n + 1])
        at, slack = self.at[mine], self.slack[mine]
        more = self.ops.subtract(self.W_L[answer, at], self.W_L[_right(n, self.p), at])
        terms = self.ops.multiply(self.ops.maximum(more, np.zeros_like(more)), slack)
        self.ops.additions += len(terms)
        self.refined += len(terms)
        return lead - int(terms.sum())


@dataclass(frozen=True, eq=False)
class _Rivals:
    """Every other answer of one input: the lead of the linear part, the bound so far, and whether it is sharp."""

    answer: Int[np.ndarray, " rivals"]
    lead: Shaped[np.ndarray, " rivals"]
    bound: Shaped[np.ndarray, " rivals"]
    sharp: Bool[np.ndarray, " rivals"]


def _right(n: int, p: int) -> int:
    """The right answer of input n = a p + b."""
    return (n // p + n % p) % p
