"""Changes to a model that give a model again: `quadlens.edit.ablate(model, frequencies=[5])`, and so on."""

from quadlens.studies.interventions import (
    ablate,
    jitter_phases,
    jitter_weights,
    mix_attention,
    resample,
    swap_activation,
)

__all__ = ["ablate", "jitter_phases", "jitter_weights", "mix_attention", "resample", "swap_activation"]
