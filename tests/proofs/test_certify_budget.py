"""The error budget as it is, in float64, beside what is proved about it: estimates, so comparisons have a tolerance."""

import numpy as np
import pytest
from hypothesis import given, settings

from quadlens.model.tables import FloatTables
from quadlens.model.weights import Weights
from quadlens.proofs.budget import measure_budget
from quadlens.proofs.lipschitz import TERMS, Lipschitz
from quadlens.spectrum.cluster import find_clusters, neuron_spectra
from small_models import adders


def closed_form(collapsed: FloatTables) -> np.ndarray:
    """Σ_k C_k |cos u| cos(k w (a+b-c)), written the obvious way."""
    p, n, total = collapsed.p, np.arange(collapsed.p), np.zeros((collapsed.p,) * 3)
    for cluster in find_clusters(neuron_spectra(collapsed)):
        angle = cluster.k * 2 * np.pi / p
        C = 4 / 3 * float(cluster.rho @ cluster.omega) / (2 * np.pi)
        cos_u = np.abs(np.cos(angle * np.subtract.outer(n, n) / 2))
        total += C * cos_u[:, :, None] * np.cos(angle * (n[:, None, None] + n[None, :, None] - n[None, None, :]))
    return total


@settings(max_examples=60)
@given(adders())
def test_measured_terms_are_within_their_bounds(model: Weights) -> None:
    """What each term is, in float64, against what is proved about it; 1e-9 is for the measurement."""
    collapsed = model.collapse()
    proof = Lipschitz().prove(model)
    measured = {term.name: term for term in measure_budget(model)}
    assert set(measured) == {*TERMS, "all"}
    for name in TERMS:
        assert measured[name].largest <= float(proof.terms[name].bound) + 1e-9
    logits = np.stack([collapsed.logits(a) for a in range(collapsed.p)])
    difference = np.abs(logits - logits.mean(axis=2, keepdims=True) - closed_form(collapsed))
    assert measured["all"].largest == pytest.approx(difference.max())
    assert difference[measured["all"].worst] == pytest.approx(difference.max())
    assert sum(float(term.bound) for term in proof.terms.values()) >= float(proof.logit_error or 0) * (1 - 1e-12)
