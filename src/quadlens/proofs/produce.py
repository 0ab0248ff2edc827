"""From a model to a certificate: run a strategy, add the cost of its surroundings and the float32 line."""

from dataclasses import dataclass
from functools import cached_property

from quadlens.errors import BadConfig
from quadlens.model.native import sha256
from quadlens.model.params import Model
from quadlens.proofs.arcs import ArcsStrategy
from quadlens.proofs.attempt import attempt
from quadlens.proofs.auto import Auto
from quadlens.proofs.brute import Brute, brute_force_operations
from quadlens.proofs.certificate import LARGEST_CHECKED_P, UNCHECKED_STRATEGIES, Certificate, not_checkable
from quadlens.proofs.collapse_cost import collapse_operations
from quadlens.proofs.float32 import Float32Bound, bound_float32
from quadlens.proofs.lipschitz import Lipschitz
from quadlens.proofs.moments import Moments
from quadlens.proofs.proof import Strategy
from quadlens.proofs.thin import Thin
from quadlens.spectrum.anatomy import Anatomy, anatomy_of

STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy for strategy in (Brute(), Lipschitz(), ArcsStrategy(), Moments(), Thin(), Auto())
}


@dataclass(frozen=True, eq=False)
class Prover:
    """All that the proofs of one model share, each computed at most once.

    Attributes:
        anatomy: The model, with its collapse and its spectra.
        given_sha256: SHA-256 of the file the model was read from; None for a model that is in no file.
    """

    anatomy: Anatomy
    given_sha256: str | None = None

    @cached_property
    def model_sha256(self) -> str:
        """SHA-256 of the file the model was read from, or of the file `save` would write."""
        return self.given_sha256 or sha256(self.anatomy.model)

    @cached_property
    def float32(self) -> Float32Bound:
        """How far float32 execution can be from real arithmetic."""
        return bound_float32(self.anatomy.model)

    @cached_property
    def collapse_flops(self) -> int:
        """Operations of the full collapse."""
        return collapse_operations(self.anatomy.model)

    def certify(self, strategy: str = "auto", checkable: bool = False) -> Certificate:
        """Prove what can be proved with the strategy named; parameters and errors as for the function `certify`."""
        if strategy not in STRATEGIES:
            raise BadConfig(f"strategy {strategy!r} is not known; expected one of {', '.join(STRATEGIES)}")
        config = self.anatomy.config
        if checkable and (strategy in UNCHECKED_STRATEGIES or config.p > LARGEST_CHECKED_P):
            raise BadConfig(not_checkable(strategy, config.p))
        proof = attempt(Auto(checkable=checkable) if strategy == "auto" else STRATEGIES[strategy], self.anatomy)
        return Certificate(
            model_sha256=self.model_sha256,
            p=config.p,
            d_mlp=config.d_mlp,
            activation=config.activation,
            proof=proof,
            collapse_flops=0 if proof.own_collapse else self.collapse_flops,
            brute_force_flops=brute_force_operations(config.p, config.d_mlp),
            float32=self.float32,
        )


def certify(
    subject: Model | Anatomy, strategy: str = "auto", model_sha256: str | None = None, checkable: bool = False
) -> Certificate:
    """Prove what can be proved about a model with the strategy named.

    Args:
        subject: The weights, or their anatomy where it is wanted for more than one proof (see also `Prover`).
        strategy: A name in `STRATEGIES`; "auto" is the cheapest that proves all it can.
        model_sha256: SHA-256 of the file the model was read from; of the file `save` would write when None.
        checkable: The proof is to be saved: "auto" passes over what the checker cannot follow.

    Raises:
        BadConfig: for a strategy that is not known, or that can never give a checkable proof when one is asked for.
    """
    return Prover(anatomy_of(subject), model_sha256).certify(strategy, checkable)
