"""Running a strategy so that weights out of its reach are an outcome, not a stack trace."""

import numpy as np

from quadlens.errors import BadWeights
from quadlens.model.params import Model
from quadlens.proofs.proof import Proof, Strategy, nothing_proved
from quadlens.spectrum.anatomy import Anatomy


def attempt(strategy: Strategy, subject: Model | Anatomy) -> Proof:
    """The strategy's proof; weights beyond what its float64 planning can hold prove nothing, and the reason says so.

    An overflow or an invalid operation anywhere in the planning ends it: no claim is made from infinities.
    """
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            return strategy.prove(subject)
    except (ArithmeticError, ValueError, np.linalg.LinAlgError, BadWeights) as error:
        reason = f"{strategy.name} cannot plan in float64 with weights of this size ({error}); try --strategy brute"
        return nothing_proved(strategy.name, subject.config.p, reason)
