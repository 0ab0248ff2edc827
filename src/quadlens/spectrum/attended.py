"""What attention alone brings to each neuron: the paths through OV, without the residual stream's own copy."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from quadlens.model.params import Model, Params
from quadlens.spectrum.amplitude_phase import AmplitudePhase, amplitude_phase


@dataclass(frozen=True, eq=False)
class AttendedSpectra:
    """Amplitude-phase form of the OV part of each path.

    Attributes:
        path_a: α_a (W_E + pos_0) OV W_in; all of U_a when the output is read at b or '='.
        path_b: α_b (W_E + pos_1) OV W_in, the part of U_b that is symmetric to a's.
    """

    path_a: AmplitudePhase
    path_b: AmplitudePhase


def attended_paths(params: Params) -> tuple[Float[np.ndarray, "p d_mlp"], Float[np.ndarray, "p d_mlp"]]:
    """½OV(a) and ½OV(b) of the paper's `eq:logit-approx`, with the config's attention weights; no bias is included."""
    config = params.config
    first_b = config.b_token_offset
    OV = np.einsum("hdk,hke->de", params.W_V.astype(np.float64), params.W_O.astype(np.float64))
    OV_in = OV @ params.W_in.astype(np.float64)
    x_a = params.W_E[: config.p].astype(np.float64) + params.W_pos[0]
    x_b = params.W_E[first_b : first_b + config.p].astype(np.float64) + params.W_pos[1]
    return config.attention[0] * x_a @ OV_in, config.attention[1] * x_b @ OV_in


def attended_spectra(model: Model) -> AttendedSpectra | None:
    """Spectra of the OV parts; None for a model without attention."""
    if not isinstance(model, Params):
        return None
    path_a, path_b = attended_paths(model)
    return AttendedSpectra(amplitude_phase(path_a), amplitude_phase(path_b))
