"""`auto`: the cheapest strategy that proves all it can."""

from dataclasses import dataclass

from quadlens.model.integers import is_piecewise_linear
from quadlens.model.params import Model
from quadlens.proofs.arcs import ArcsStrategy, arcs_operations
from quadlens.proofs.attempt import attempt
from quadlens.proofs.brute import Brute
from quadlens.proofs.moments import MomentHints, Moments
from quadlens.proofs.proof import Proof
from quadlens.spectrum.anatomy import Anatomy, anatomy_of


@dataclass(frozen=True)
class Auto:
    """Moments when they prove every input; else arcs, or brute force without arcs, which prove all that is true.

    Attributes:
        checkable: Pass over a proof that the checker cannot follow (moments in float64, for large p).
    """

    name: str = "auto"
    checkable: bool = False

    def prove(self, subject: Model | Anatomy) -> Proof:
        """The proof of the strategy chosen, under that strategy's own name."""
        anatomy = anatomy_of(subject)
        if not is_piecewise_linear(anatomy.config.activation):
            return Brute().prove(anatomy)
        proof = attempt(Moments(), anatomy)
        if proof.verdict != "CERTIFIED":
            return ArcsStrategy().prove(anatomy)
        plan = proof.hints.arcs.plan if isinstance(proof.hints, MomentHints) else None
        if plan is None:
            return ArcsStrategy().prove(anatomy) if self.checkable else proof
        # Both strategies use the same plan, so what arcs would cost is known before they are tried.
        p, d_mlp = anatomy.config.p, anatomy.config.d_mlp
        dearer = proof.operations.total > arcs_operations(p, d_mlp, plan.counted_ends, plan.mispredicted)
        return ArcsStrategy().prove(anatomy) if dearer else proof
