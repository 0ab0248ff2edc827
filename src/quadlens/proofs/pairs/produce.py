"""From a model to a certificate: the strategies by name, and the best of what they prove."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from quadlens.analysis.spectrum.anatomy import Anatomy, anatomy_of
from quadlens.base.errors import BadConfig
from quadlens.network.config import Config
from quadlens.network.native import sha256
from quadlens.network.weights import Weights
from quadlens.proofs.long_work import TIME_LIMIT, OutOfTime, begin
from quadlens.proofs.pairs.arcs import ArcsStrategy, arcs_operations, has_arcs
from quadlens.proofs.pairs.brute import (
    MOST_IN_INTEGERS,
    Brute,
    brute_force_cost,
    brute_force_operations,
    is_exact,
)
from quadlens.proofs.pairs.certificate import Certificate
from quadlens.proofs.pairs.checker_limits import model_obstacle
from quadlens.proofs.pairs.deep import prove_deep
from quadlens.proofs.pairs.direct import MomentHints
from quadlens.proofs.pairs.float32 import Float32Bound, bound_float32
from quadlens.proofs.pairs.moments import MomentsStrategy
from quadlens.proofs.pairs.operations import collapse_operations
from quadlens.proofs.pairs.proof import (
    Mark,
    Proof,
    Strategy,
    StrategyFacts,
    attempt,
    nothing_proved,
)
from quadlens.proofs.pairs.thin import Thin


@dataclass(frozen=True)
class Auto:
    """The strategy `auto`: the cheapest that proves every true statement.

    Moments when they prove every input; else arcs, or brute force where there are no arcs. These
    two prove all that is true.

    Attributes:
        checkable: Pass over a proof that the checker cannot follow (moments in float64, for large
            p).
    """

    facts: ClassVar = StrategyFacts(
        name="auto",
        description="The cheapest of moments and arcs that proves all it can; "
        "brute for polynomials.",
        activations=Brute.facts.activations,
        mark=Mark("X", "bound"),
        chooses=True,
    )
    checkable: bool = False

    def prove(self, subject: Weights | Anatomy) -> Proof:
        """The proof of the strategy chosen, under that strategy's own name."""
        anatomy = anatomy_of(subject)
        config = anatomy.config
        if not has_arcs(config):
            return self._without_arcs(anatomy)
        proof = attempt(MomentsStrategy(), anatomy)
        if proof.verdict != "CERTIFIED" and not proof.complete:
            arcs = ArcsStrategy().prove(anatomy)
            cheaper = arcs.operations <= brute_force_operations(config.p, config.d_mlp)
            return arcs if cheaper else Brute().prove(anatomy)
        if not isinstance(proof.hints, MomentHints) or proof.hints.arcs is None:
            return ArcsStrategy().prove(anatomy) if self.checkable else proof
        plan = proof.hints.arcs.plan
        # Both strategies use the same plan, so what arcs would cost is known before they are tried.
        dearer = proof.operations > arcs_operations(
            config.p, config.d_mlp, plan.counted_ends, plan.mispredicted
        )
        return ArcsStrategy().prove(anatomy) if dearer else proof

    def _without_arcs(self, anatomy: Anatomy) -> Proof:
        """Prove polynomials by brute force in integers, other models by moments.

        Moments must prove every input for less than brute force costs.
        """
        if is_exact(anatomy.config):
            return Brute().prove(anatomy)
        proof = attempt(MomentsStrategy(), anatomy)
        cheaper = proof.operations < brute_force_cost(anatomy.config)
        return proof if proof.complete and cheaper else Brute().prove(anatomy)


STRATEGIES: dict[str, Strategy] = {
    strategy.facts.name: strategy
    for strategy in (Brute(), ArcsStrategy(), MomentsStrategy(), Thin(), Auto())
}


def strategies(config: Config | None = None, most: int = MOST_IN_INTEGERS) -> tuple[str, ...]:
    """Names of the strategies that prove something themselves.

    Args:
        config: Of the model they are for: with several layers or norms there is brute force alone.
            None for all strategies.
        most: Where brute force would take more operations than this, what works in integers is left
            out.
    """
    if config is not None and config.no_tables is not None:
        return (Brute.facts.name,)
    too_large = config is not None and brute_force_operations(config.p, config.d_mlp) > most
    return tuple(
        name
        for name, strategy in STRATEGIES.items()
        if not strategy.facts.chooses and not (strategy.facts.in_integers and too_large)
    )


def find_strategy(name: str) -> Strategy:
    """The strategy of this name.

    Raises:
        BadConfig: when there is none.
    """
    if name == "cells":
        raise BadConfig(
            "strategy 'cells' is for networks on sequences; this one "
            "answers pairs: expected one of "
            f"{', '.join(STRATEGIES)}"
        )
    if name not in STRATEGIES:
        raise BadConfig(f"strategy {name!r} is not known; expected one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name]


@dataclass(frozen=True, eq=False)
class Prover:
    """All that the proofs of one model share, each computed at most once.

    Attributes:
        anatomy: The model, with its collapse and its spectra.
        given_sha256: SHA-256 of the file the model was read from; None for a model that is in no
            file.
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
        return collapse_operations(self.anatomy.config)

    def certify(self, strategy: str = "auto", checkable: bool = False) -> Certificate:
        """Prove what can be proved with the strategy named.

        Parameters and errors are those of the function `certify`.
        """
        chosen, config = find_strategy(strategy), self.anatomy.config
        if config.no_tables is not None:
            return self._deep(self.anatomy.model, strategy, checkable)
        if checkable and (obstacle := model_obstacle(self.anatomy.model, chosen.facts)):
            raise BadConfig(f"strategy {strategy} has no certificate for this model: {obstacle}")
        try:
            begin(f"proving by {strategy}")
            proof = attempt(
                Auto(checkable=checkable) if chosen.facts.chooses else chosen, self.anatomy
            )
        except OutOfTime:
            proof = nothing_proved(strategy, config.p, TIME_LIMIT, applies=True)
        return Certificate(
            model_sha256=self.model_sha256,
            config=config,
            proof=proof,
            collapse_flops=0 if proof.own_collapse else self.collapse_flops,
            brute_force_flops=brute_force_cost(config),
            brute_force_collapse_flops=self.collapse_flops,
            float32=self.float32,
            model=self.anatomy.model,
        )

    def _deep(self, model: Weights, strategy: str, checkable: bool) -> Certificate:
        """Several layers or norms: brute force by an enclosed forward pass."""
        why = model.config.no_tables
        if strategy not in ("auto", "brute"):
            words = f"{why}: strategy {strategy} is for one layer without norms; use brute"
            raise BadConfig(words, settings=("strategy",))
        if checkable and (obstacle := model_obstacle(model, Brute.facts)):
            raise BadConfig(f"strategy {strategy} has no certificate for this model: {obstacle}")
        proof = prove_deep(model)
        total = proof.operations
        return Certificate(
            self.model_sha256, model.config, proof, 0, total, 0, bound_float32(model), model
        )


def certify(
    subject: Weights | Anatomy,
    strategy: str = "auto",
    model_sha256: str | None = None,
    checkable: bool = False,
) -> Certificate:
    """Prove what can be proved about a model with the strategy named.

    Args:
        subject: The weights, or their anatomy where it is wanted for more than one proof (see also
            `Prover`).
        strategy: A name in `STRATEGIES`; "auto" is the cheapest that proves all it can.
        model_sha256: SHA-256 of the file the model was read from; of the file `save` would write
            when None.
        checkable: The proof is to be saved: "auto" passes over what the checker cannot follow.

    Raises:
        BadConfig: for a strategy that is not known, or that can never give a checkable proof when
            one is asked for.
    """
    return Prover(anatomy_of(subject), model_sha256).certify(strategy, checkable)


def best_certificate(
    certificates: Iterable[Certificate], checkable: bool = False
) -> Certificate | None:
    """The one to show or to keep: the strongest statement, and among equals the cheapest.

    Most inputs proved; then one that can be checked; then one whose margin is enough for float32
    execution too; then the fewest operations in total. The size of the margin does not count beyond
    that: the answers are the same.

    Args:
        certificates: Of one model.
        checkable: To keep: only those that prove something and that the checker can follow. None
            when there is none.
    """
    usable = [
        certificate
        for certificate in certificates
        if not checkable or (certificate.checkable and certificate.proof.margin is not None)
    ]
    return min(usable, key=_weakness, default=None)


def _weakness(certificate: Certificate) -> tuple[int, bool, bool, int]:
    return (
        -certificate.certified_inputs,
        not certificate.checkable,
        not certificate.float32_certified,
        certificate.total_flops,
    )
