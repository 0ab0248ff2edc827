"""Thousands of small models, every strategy on each: python soundness_marathon.py [HOW MANY]."""

import sys

from hypothesis import HealthCheck, given, settings

from quadlens.model.params import MLPParams, Model
from quadlens.proofs.arcs import ArcsStrategy
from quadlens.proofs.lipschitz import Lipschitz
from quadlens.proofs.moments import Moments
from quadlens.proofs.moments_large import prove_large
from quadlens.proofs.thin import Thin
from quadlens.spectrum.cluster import neuron_spectra
from small_models import small_models
from soundness import check_complete, check_sound, true_margins


def check_every_strategy(model: Model) -> None:
    """Arcs say exactly what is true; the others never more."""
    truth = true_margins(model)
    arcs = ArcsStrategy().prove(model)
    check_sound(arcs, truth)
    check_complete(arcs, truth)
    check_sound(Moments().prove(model), truth)
    if model.config.activation == "relu":
        check_sound(Lipschitz().prove(model), truth)
        check_sound(Thin().prove(model), truth)
        if isinstance(model, MLPParams):
            check_sound(prove_large("moments", model.collapse(), neuron_spectra(model.collapse())), truth)


def main(examples: int) -> None:
    """Look for a counter-example among this many models, the same ones every time."""
    quiet = settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    quiet(given(small_models)(check_every_strategy))()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
