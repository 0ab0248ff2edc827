"""`brute`: every logit of every input in exact arithmetic. The yardstick.

Theorem. The logits are computed by their definition in integers, so the smallest margin found is
the true one.

Cost: p² d_mlp additions and p² d_mlp comparisons for the hidden layer, p³ d_mlp multiplications and
as many additions for the output, 2 p³ additions for the skip terms, p² (p - 1) comparisons and p²
subtractions for the margins: `brute_force_operations`.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from quadlens.analysis.spectrum.anatomy import Anatomy, anatomy_of
from quadlens.network.activation import ACTIVATIONS, NONLINEARITIES
from quadlens.network.config import Config
from quadlens.network.dyadic import Dyadic
from quadlens.network.exact import in_integers
from quadlens.network.margins import leads
from quadlens.network.tables import Tables
from quadlens.network.weights import Weights
from quadlens.proofs.long_work import TIME_LIMIT, is_over, tell
from quadlens.proofs.pairs.direct import direct_operations, prove_brute
from quadlens.proofs.pairs.margins import ExactAnswers
from quadlens.proofs.pairs.proof import Mark, NoHints, Proof, StrategyFacts

# Past so many of brute force's operations, working out every logit in integers takes many minutes.
MOST_IN_INTEGERS = 2 * 10**10


def brute_force_operations(p: int, d_mlp: int) -> int:
    """2 p³ d_mlp + 2 p² d_mlp + 3 p³: what `brute` counts."""
    return 2 * p**3 * d_mlp + 2 * p**2 * d_mlp + 3 * p**3


def is_exact(config: Config) -> bool:
    """Say whether every logit is rational.

    It is for constant attention with an activation that is a polynomial or has a kink.
    """
    return config.softmax is None and NONLINEARITIES[config.activation].exact is not None


def brute_force_cost(config: Config) -> int:
    """Return what `brute` costs for a model of this kind, beyond its tables."""
    return (
        brute_force_operations(config.p, config.d_mlp)
        if is_exact(config)
        else direct_operations(config, None)
    )


@dataclass(frozen=True)
class Brute:
    """Try every input (`math.md` §5: brute force)."""

    facts: ClassVar = StrategyFacts(
        name="brute",
        description="Works out every logit of every input exactly: the yardstick.",
        activations=ACTIVATIONS,
        mark=Mark("P", "exact"),
        exact=True,
        in_integers=True,
    )

    def prove(self, subject: Weights | Anatomy) -> Proof:
        """Certify exactly the inputs the model answers right, with the true smallest margin.

        Where logits are not rational, or too many, they are enclosed in float64 (`direct.py`): the
        margin is then a little below the true one, and an input that is nearly tied is left out.
        """
        anatomy = anatomy_of(subject)
        cost = brute_force_cost(anatomy.config)
        if not is_exact(anatomy.config) or cost > MOST_IN_INTEGERS:
            return prove_brute(self.facts.name, anatomy)
        answers, reached = all_answers(anatomy.exact)
        proof = answers.proof(self.facts.name, NoHints(), cost)
        if reached == len(answers.margins):
            return proof
        tied = tuple(tie for tie in proof.tied if tie[0] < reached)
        return replace(proof, exact=False, tied=tied, reason=TIME_LIMIT)


def all_answers(exact: Tables[Dyadic]) -> tuple[ExactAnswers, int]:
    """Return the margins of all p² inputs and how many a were reached in time.

    They follow from all p³ logits. The margins of the other inputs are 0.
    """
    model = in_integers(exact)
    b, rows = np.arange(model.p), []
    for a in range(model.p):
        if is_over():
            break
        tell(f"rows {a + 1}/{model.p}")
        rows.append(leads(model.logits(np.full_like(b, a), b), model.task.answers[a]))
    missing = [(np.zeros_like(b), np.zeros_like(b))] * (model.p - len(rows))
    margins, rival = (np.stack(each) for each in zip(*rows, *missing, strict=True))
    return ExactAnswers(model.shift, margins, rival, model.task), len(rows)
