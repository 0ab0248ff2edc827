"""The collapse of a model in float64 with a proved error: the exact one, rounded once."""

from dataclasses import dataclass

import numpy as np

from quadlens.model.dyadic import Dyadic
from quadlens.model.params import MLPParams
from quadlens.proofs.enclosed import Enclosed
from quadlens.spectrum.anatomy import Anatomy


@dataclass(frozen=True, eq=False)
class EnclosedCollapsed:
    """U_a, U_b, W_L of `math.md` §1; S_a and S_b are None when there are no skip terms."""

    U_a: Enclosed
    U_b: Enclosed
    W_L: Enclosed
    S_a: Enclosed | None
    S_b: Enclosed | None


def enclosed_collapse(anatomy: Anatomy) -> EnclosedCollapsed:
    """An MLP's weights are its collapse; a transformer's is exact integers first. OverflowError beyond float64."""
    model = anatomy.model
    if isinstance(model, MLPParams):
        U_a, U_b, W_L = (
            Enclosed.exactly(np.ascontiguousarray(x, dtype=np.float64)) for x in (model.W_a, model.W_b, model.W_out.T)
        )
        return EnclosedCollapsed(U_a, U_b, W_L, None, None)
    exact = anatomy.exact
    U_a, U_b, W_L, S_a, S_b = map(_rounded, (exact.U_a, exact.U_b, exact.W_L, exact.S_a, exact.S_b))
    return EnclosedCollapsed(U_a, U_b, W_L, S_a, S_b)


def _rounded(exact: Dyadic) -> Enclosed:
    """Python's division of integers returns the nearest float."""
    unit = 1 << exact.shift
    return Enclosed.nearest(np.array([int(n) / unit for n in exact.numerators.entries()]).reshape(exact.shape))
