"""Running a strategy so that weights out of its reach are an outcome, not a stack trace."""

import numpy as np

from quadlens.errors import BadConfig, BadWeights
from quadlens.model.config import Config, MLPConfig, check_modulus
from quadlens.model.exact import exact_activation
from quadlens.model.params import Model
from quadlens.proofs.proof import Proof, Strategy, nothing_proved
from quadlens.spectrum.anatomy import Anatomy


def attempt(strategy: Strategy, subject: Model | Anatomy) -> Proof:
    """The strategy's proof; weights beyond what its float64 planning can hold prove nothing, and the reason says so.

    An overflow or an invalid operation anywhere in the planning ends it: no claim is made from infinities.
    """
    refuse_out_of_scope(subject.config)
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            return strategy.prove(subject)
    except (ArithmeticError, ValueError, np.linalg.LinAlgError, BadWeights) as error:
        reason = f"{strategy.name} cannot plan in float64 with weights of this size ({error}); try --strategy brute"
        return nothing_proved(strategy.name, subject.config.p, reason)


def refuse_out_of_scope(config: Config | MLPConfig) -> None:
    """Refuse a model that the proofs are not about: another task than addition, attention that is not constant."""
    if config.task.name != "add":
        raise BadConfig(f"this model's task is {config.task.words}; proofs are about addition so far")
    if isinstance(config, Config) and config.softmax is not None:
        raise BadConfig(f"this model's attention is a {config.attention_kind}; proofs need constant attention so far")
    check_modulus(config.p)
    exact_activation(config.activation)
