"""`arcs`: predicted activation arcs, the linear part by running sums, mispredicted neurons exactly.

Theorem (`math.md` §5, Arcs). For any order of the neurons and any predicted arcs, the formula of
`plan.py` with weights W_L[c,i] gives every logit. All of it is done in integers, so every margin is
exact whatever the arcs are: good arcs only make it cheap. Hence every input that is answered right
is certified, with the true smallest margin.

Cost, with F arc ends that are not 0 and Q mispredicted neurons, both summed over all p² inputs:
`arcs_operations`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Int

from quadlens.analysis.spectrum.anatomy import Anatomy, anatomy_of
from quadlens.network.activation import NONLINEARITIES
from quadlens.network.config import Config
from quadlens.network.exact import IntegerModel
from quadlens.network.weights import Weights
from quadlens.proofs.long_work import begin
from quadlens.proofs.pairs.brute import is_exact
from quadlens.proofs.pairs.margins import ExactAnswers, MarginTally
from quadlens.proofs.pairs.plan import (
    ArcHints,
    ArcPlan,
    NeuronGroup,
    correction_sizes,
    group_by_frequency,
    group_by_signs,
    hidden_sums,
    order_of,
    plan_arcs,
)
from quadlens.proofs.pairs.proof import Mark, Proof, StrategyFacts, nothing_proved

# The activations that `integer_model` can express.
PIECEWISE_LINEAR = tuple(
    name for name, nonlinearity in NONLINEARITIES.items() if nonlinearity.is_piecewise_linear
)


# A chain of neurons is made by their signs at about so many a, and all b.
ROWS_LOOKED_AT = 24


def arcs_operations(p: int, d_mlp: int, ends: int, mispredicted: int) -> int:
    """6 p² d_mlp + 3 p³ + 2 p F + (2 p + 1) Q: what `arcs` counts, F and Q over all inputs.

    Signs: p² d_mlp comparisons of U_b[b,i] with -U_a[a,i]; arcs from signs: p² d_mlp comparisons of
    neighbours. Tables: 4 p² d_mlp. Look-ups: 2 additions per end and answer. Mispredicted: pre_i
    once, then a product and a sum per answer. Skip terms 2 p³, margins p³.
    """
    return 6 * p**2 * d_mlp + 3 * p**3 + 2 * p * ends + (2 * p + 1) * mispredicted


def has_arcs(config: Config) -> bool:
    """Say whether the neurons' signs suffice: constant attention, piecewise linear σ."""
    return config.activation in PIECEWISE_LINEAR and is_exact(config)


@dataclass(frozen=True)
class ArcsStrategy:
    """The strategy `arcs`: exact for every piecewise linear model.

    It costs a fraction of brute force where neurons form clusters.
    """

    facts: ClassVar = StrategyFacts(
        name="arcs",
        description="Proves exactly what brute force proves, by running sums over "
        "arcs of active neurons.",
        activations=PIECEWISE_LINEAR,
        mark=Mark("D", "exact"),
        exact=True,
        in_integers=True,
    )

    def prove(self, subject: Weights | Anatomy) -> Proof:
        """Certify exactly the inputs the model answers right, with the true smallest margin."""
        anatomy = anatomy_of(subject)
        name, config = self.facts.name, anatomy.config
        if not has_arcs(config):
            why = (
                "attention depends on the tokens"
                if config.softmax
                else f"activation is {config.activation}"
            )
            return nothing_proved(
                name,
                config.p,
                f"{name} needs constant attention and a piecewise linear activation (relu, "
                f"abs); this model's {why}: "
                "use the strategy brute or moments",
            )
        groups = neuron_groups(anatomy)
        answers, plan = arc_answers(anatomy.integers, order_of(groups))
        cost = arcs_operations(config.p, config.d_mlp, plan.counted_ends, plan.mispredicted)
        return answers.proof(name, ArcHints(groups, plan), cost)


def neuron_groups(anatomy: Anatomy) -> tuple[NeuronGroup, ...]:
    """Order the neurons so that the active ones form few arcs.

    The order is by frequency, or by signs where there are no frequencies.
    """
    if anatomy.config.task.cyclic is not None:
        return group_by_frequency(anatomy.spectra.input)
    layer = anatomy.layer
    step = max(1, layer.p // ROWS_LOOKED_AT)
    return group_by_signs(np.concatenate([layer.pre(a) for a in range(0, layer.p, step)]))


def arc_answers(
    model: IntegerModel, order: Int[np.ndarray, " d_mlp"]
) -> tuple[ExactAnswers, ArcPlan]:
    """Exact margins of all inputs by the theorem above, with arcs that follow the true signs."""
    p = model.p
    U_a, U_b, W_L = model.U_a[:, order], model.U_b[:, order], model.W_L[:, order]
    plan = plan_arcs(U_a, U_b)
    sizes = correction_sizes(U_a, U_b, plan)
    tally = MarginTally(model.task)
    for c in range(p):
        begin(f"answers {c + 1}/{p}")
        hidden = hidden_sums(W_L[c], U_a, U_b, plan, sizes).reshape(p, p)
        tally.take(c, hidden + model.S_a[:, c][:, None] + model.S_b[:, c][None, :])
    return tally.answers(model.shift), plan
