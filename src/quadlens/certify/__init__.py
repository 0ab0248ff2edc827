"""From the collapsed model to a theorem about the whole model, with a certificate that others can check.

The room can be called: `quadlens.certify(model)` is `quadlens.certify.certify(model)`.
"""

import sys
from types import ModuleType

from quadlens.certify.certificate import Certificate
from quadlens.certify.produce import STRATEGIES, certify
from quadlens.certify.proof import Proof, Strategy, Term
from quadlens.model.params import Model

__all__ = ["STRATEGIES", "Certificate", "Proof", "Strategy", "Term", "certify"]


class _Room(ModuleType):
    """A package that is also the pipeline step it holds: the public API is the pipeline itself."""

    def __call__(self, model: Model, strategy: str = "auto") -> Certificate:
        """Prove what can be proved about `model`."""
        return certify(model, strategy)


sys.modules[__name__].__class__ = _Room
