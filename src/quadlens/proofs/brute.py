"""`brute`: every logit of every input in exact arithmetic. The yardstick.

Theorem. The logits are computed by their definition in integers, so the smallest margin found is the true one.

Cost: p² d_mlp additions and p² d_mlp comparisons for the hidden layer, p³ d_mlp multiplications and as many additions
for the output, 2 p³ additions for the skip terms, p² (p - 1) comparisons and p² subtractions for the margins:
`brute_force_operations`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Shaped

from quadlens.model.activation import NONLINEARITIES
from quadlens.model.exact import ExactCollapsed, exact_activation
from quadlens.model.integers import integers
from quadlens.model.params import Model
from quadlens.proofs.margins import ExactAnswers, MarginTally
from quadlens.proofs.operations import Operations
from quadlens.proofs.proof import Mark, NoHints, Proof, StrategyFacts, nothing_proved
from quadlens.spectrum.anatomy import Anatomy, anatomy_of


def brute_force_operations(p: int, d_mlp: int) -> int:
    """2 p³ d_mlp + 2 p² d_mlp + 3 p³: what `brute` counts."""
    return 2 * p**3 * d_mlp + 2 * p**2 * d_mlp + 3 * p**3


@dataclass(frozen=True)
class Brute:
    """Try every input (`math.md` §5: brute force)."""

    facts: ClassVar = StrategyFacts(
        name="brute",
        description="Works out every logit of every input exactly: the yardstick.",
        activations=tuple(name for name, one in NONLINEARITIES.items() if one.exact is not None),
        mark=Mark("P", "exact"),
        exact=True,
        in_integers=True,
    )

    def prove(self, subject: Model | Anatomy) -> Proof:
        """Certify exactly the inputs the model answers right, with the true smallest margin."""
        anatomy, ops = anatomy_of(subject), Operations()
        activation = anatomy.config.activation
        if activation not in self.facts.activations:
            reason = f"{activation} has no exact values, so no strategy here can prove what this model answers"
            return nothing_proved(self.facts.name, anatomy.config.p, reason)
        answers = all_answers(anatomy.exact, ops)
        return Proof(
            strategy=self.facts.name,
            certified=answers.right,
            margin=answers.smallest_margin,
            exact=self.facts.exact,
            witnesses=answers.witnesses,
            hints=NoHints(),
            operations=ops,
            reason=answers.reason,
        )


def all_answers(exact: ExactCollapsed, ops: Operations) -> ExactAnswers:
    """Margins of all p² inputs from all p³ logits."""
    p = exact.p
    sigma_of_integer, degree = exact_activation(exact.activation)
    shift_u = max(exact.U_a.shift, exact.U_b.shift)
    shift = max(degree * shift_u + exact.W_L.shift, exact.S_a.shift, exact.S_b.shift)
    U_a, U_b = integers(exact.U_a, shift_u), integers(exact.U_b, shift_u)
    W_L = integers(exact.W_L, shift - degree * shift_u)
    S_a, S_b = integers(exact.S_a, shift), integers(exact.S_b, shift)
    sigma = np.frompyfunc(sigma_of_integer, 1, 1)
    logits = np.empty((p, p, p), dtype=object)
    for a in range(p):
        pre = ops.add(U_a[a][None, :], U_b)
        hidden = sigma(pre)
        ops.comparisons += hidden.size
        logits[a] = ops.add(ops.add(_product(hidden, W_L.T, ops), S_a[a][None, :]), S_b)
    tally = MarginTally(p, ops)
    for c in range(p):
        tally.take(c, logits[:, :, c])
    return tally.answers(shift)


def _product(
    x: Shaped[np.ndarray, "rows inner"], y: Shaped[np.ndarray, "inner columns"], ops: Operations
) -> Shaped[np.ndarray, "rows columns"]:
    """The matrix product x y in integers, through FLINT."""
    from flint import fmpz_mat

    left = fmpz_mat(x.shape[0], x.shape[1], x.ravel().tolist())
    product = left * fmpz_mat(y.shape[0], y.shape[1], y.ravel().tolist())
    ops.count_product(x.shape[0], x.shape[1], y.shape[1])
    result = np.empty(x.shape[0] * y.shape[1], dtype=object)
    result[:] = [int(entry) for entry in product.entries()]
    return result.reshape(x.shape[0], y.shape[1])
