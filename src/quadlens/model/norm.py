"""Normalisation of a residual stream: what kind, and the number under its square root."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from quadlens.arguments import check_fields
from quadlens.errors import BadConfig

NormKind = Literal["layer", "rms"]


@dataclass(frozen=True)
class Norm:
    """One norm of a network: LayerNorm or RMSNorm over the d numbers of a row x.

        layer: (x - mean x) / √(mean (x - mean x)² + eps) · w + b
        rms:   x / √(mean x² + eps) · w + b

    The weight w and the bias b are tensors of the network, not of this value.

    >>> Norm("layer", 1e-5)
    Norm(kind='layer', eps=1e-05)

    Attributes:
        kind: `layer` or `rms`.
        eps: Added under the square root; above 0, so that no row is divided by 0.
    """

    kind: NormKind
    eps: float

    def __post_init__(self) -> None:
        check_fields(self)
        if self.kind not in get_args(NormKind):
            raise BadConfig(f"a norm of the kind {self.kind!r}; expected one of {', '.join(get_args(NormKind))}")
        try:
            # As files have it: exact statements are about this double, not about what was given.
            object.__setattr__(self, "eps", float(self.eps))
        except OverflowError:
            raise BadConfig("the eps of a norm is beyond float64; expected a finite number above 0") from None
        if not (math.isfinite(self.eps) and self.eps > 0):
            raise BadConfig(f"a norm with eps = {self.eps}; expected a finite number above 0")
