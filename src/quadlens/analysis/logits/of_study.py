"""Parts of the logits of a study."""

import numpy as np
from jaxtyping import Float

from quadlens.analysis.logits.parts import has_skip_connection, skip_shares
from quadlens.analysis.spectrum.of_study import layer_of
from quadlens.network.study import Study


def skip_shares_of(study: Study) -> Float[np.ndarray, "p p"] | None:
    """Variance over c of what the skip connection adds, over that of the logits.

    None where attention is gated, and where nothing goes past the neurons: an MLP has no skip
    connection, and an output bias is none.
    """
    layer = layer_of(study)
    return skip_shares(layer) if layer.is_additive and has_skip_connection(layer) else None
