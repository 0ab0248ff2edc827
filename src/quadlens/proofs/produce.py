"""From a model to a certificate: run a strategy, add the cost of its surroundings and the float32 line."""

from quadlens.errors import BadConfig
from quadlens.model.native import sha256
from quadlens.model.params import Model
from quadlens.proofs.arcs import ArcsStrategy
from quadlens.proofs.arcs_bounded import BoundedArcs
from quadlens.proofs.attempt import attempt
from quadlens.proofs.auto import Auto
from quadlens.proofs.brute import Brute, brute_force_operations
from quadlens.proofs.certificate import LARGEST_CHECKED_P, UNCHECKED_STRATEGIES, Certificate, not_checkable
from quadlens.proofs.collapse_cost import collapse_operations
from quadlens.proofs.float32 import bound_float32
from quadlens.proofs.lipschitz import Lipschitz
from quadlens.proofs.moments import Moments
from quadlens.proofs.proof import Strategy
from quadlens.proofs.thin import Thin

STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (Brute(), Lipschitz(), ArcsStrategy(), BoundedArcs(), Moments(), Thin(), Auto())
}


def certify(
    model: Model, strategy: str = "auto", model_sha256: str | None = None, checkable: bool = False
) -> Certificate:
    """Prove what can be proved about `model` with the strategy named.

    Args:
        model: The weights.
        strategy: A name in `STRATEGIES`; "auto" is the cheapest that proves all it can.
        model_sha256: SHA-256 of the file the model was read from; of the file `save` would write when None.
        checkable: The proof is to be saved: "auto" passes over what the checker cannot follow.

    Raises:
        BadConfig: for a strategy that is not known, or that can never give a checkable proof when one is asked for.
    """
    if strategy not in STRATEGIES:
        raise BadConfig(f"strategy {strategy!r} is not known; expected one of {', '.join(STRATEGIES)}")
    p, d_mlp = model.config.p, model.config.d_mlp
    if checkable and (strategy in UNCHECKED_STRATEGIES or p > LARGEST_CHECKED_P):
        raise BadConfig(not_checkable(strategy, p))
    proof = attempt(Auto(checkable=checkable) if strategy == "auto" else STRATEGIES[strategy], model)
    return Certificate(
        model_sha256=model_sha256 or sha256(model),
        p=p,
        d_mlp=d_mlp,
        activation=model.config.activation,
        proof=proof,
        collapse_flops=0 if proof.own_collapse else collapse_operations(model),
        brute_force_flops=brute_force_operations(p, d_mlp),
        float32=bound_float32(model),
    )
