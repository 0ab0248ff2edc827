"""Everything figures and pages are views of: one value for one model."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from quadlens.explanation import Explanation
from quadlens.model.collapsed import Collapsed
from quadlens.model.config import Config, MLPConfig
from quadlens.model.evaluate import Evaluation
from quadlens.proofs.certificate import Certificate
from quadlens.proofs.frontier import WaterfallStep
from quadlens.quadrature import Bounds, ClusterBounds
from quadlens.studies.published import PopulationSummary, Published
from quadlens.training.history import History

# Frequencies that get pictures of their own; a model without structure has dozens of faint clusters.
MAX_FREQUENCIES = 8


@dataclass(frozen=True, eq=False)
class Results:
    """What is known about one model.

    Attributes:
        name: Bundled name, or file name without suffix.
        sha256: Of the model file.
        config: Its config.
        collapsed: U_a, U_b, W_L, S_a, S_b.
        evaluation: Answers over all inputs.
        margins: Right logit minus the largest other, for every (a, b).
        skip_shares: Variance over c of what the skip connection adds, over the variance over c of the logits.
        explanation: Neurons and logits.
        bounds: The clusters as quadrature rules; None where the activation has none.
        history: How it was trained; None where the run's files are not beside the model.
        certificates: One a proof strategy, cheapest first; empty where proofs were left out.
        waterfall: The error budget of `lipschitz` beside what each term is; empty where that proof was left out.
        published: The paper's numbers.
        population: Ours, over many models; None where there is none yet.
    """

    name: str
    sha256: str
    config: Config | MLPConfig
    collapsed: Collapsed
    evaluation: Evaluation
    margins: Float[np.ndarray, "p p"]
    skip_shares: Float[np.ndarray, "p p"]
    explanation: Explanation
    bounds: Bounds | None
    history: History | None
    certificates: tuple[Certificate, ...]
    waterfall: tuple[WaterfallStep, ...]
    published: Published
    population: PopulationSummary | None

    @property
    def p(self) -> int:
        """Modulus."""
        return self.explanation.p

    @property
    def keys(self) -> tuple[int, ...]:
        """Key frequencies, in order."""
        return self.explanation.key_frequencies

    @property
    def clusters(self) -> tuple[ClusterBounds, ...]:
        """Key frequencies that are quadrature rules, in order of k; the largest few where there are many."""
        found = [one for one in self.bounds.bounded if one.k in self.keys] if self.bounds else []
        largest = sorted(found, key=lambda one: -float((one.scheme.rho * one.scheme.omega).sum()))[:MAX_FREQUENCIES]
        return tuple(sorted(largest, key=lambda one: one.k))

    @property
    def certificate(self) -> Certificate | None:
        """The one to show: most inputs proved, then one that can be checked, the largest margin, and the cheapest."""
        return max(
            self.certificates,
            key=lambda one: (
                one.certified_inputs,
                one.checkable,
                one.proof.margin or 0,
                -one.proof.operations.total,
            ),
            default=None,
        )
