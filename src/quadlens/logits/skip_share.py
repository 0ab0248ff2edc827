"""How much of what separates the answers comes past the MLP, input by input."""

import numpy as np
from jaxtyping import Float

from quadlens.model.collapsed import Collapsed


def skip_shares(collapsed: Collapsed) -> Float[np.ndarray, "p p"]:
    """Var_c(S_a[a,c] + S_b[b,c]) / Var_c(logit(a,b,c)) for every (a, b)   (figure `residual`).

    An input whose logits are all equal counts as 0.
    """
    shares = np.zeros((collapsed.p, collapsed.p))
    for a in range(collapsed.p):
        of_skip = (collapsed.S_a[a] + collapsed.S_b).var(axis=1)
        of_logits = collapsed.logits(a).var(axis=1)
        np.divide(of_skip, of_logits, out=shares[a], where=of_logits > 0)
    return shares
