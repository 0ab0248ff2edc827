"""Everything that is computed about one trained model: evaluation, explanation, bounds, a proof by each strategy."""

import dataclasses
import io
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from quadlens.explanation import explain
from quadlens.logits.parts import skip_shares
from quadlens.model.collapsed import Collapsed
from quadlens.model.evaluate import evaluate
from quadlens.model.params import Model
from quadlens.plain_json import plain
from quadlens.proofs import STRATEGIES, Certificate
from quadlens.proofs.certificate import summary
from quadlens.proofs.produce import best_certificate, certify, strategies
from quadlens.quadrature import bounds
from quadlens.quadrature.views import to_json as bounds_to_json

# Quantiles of the skip connection's share over the p² inputs; enough to draw the paper's ten bins.
SKIP_QUANTILES = 200
# Every strategy but the one that chooses among the others.
ALL_STRATEGIES = strategies()
# Those that share one collapse, so that their costs stand side by side; one that counts its own is tried on demand.
DEFAULT_STRATEGIES = tuple(name for name in ALL_STRATEGIES if not STRATEGIES[name].facts.own_collapse)


@dataclass(frozen=True, eq=False)
class Analysis:
    """What is stored beside the weights.

    Attributes:
        results: JSON types only; the same model gives the same value.
        neurons: The frame of one row a neuron, as a Parquet file's bytes.
        certificate: The proof of most inputs that can be checked, the cheapest among equals.
        seconds: How long each step took.
    """

    results: dict[str, Any]
    neurons: bytes
    certificate: Certificate
    seconds: dict[str, float]


def analyse(model: Model, model_sha256: str, names: tuple[str, ...] = DEFAULT_STRATEGIES) -> Analysis:
    """Run the whole pipeline on one model.

    Args:
        model: The weights.
        model_sha256: Of the file the weights are in, as `load_with_sha256` gives it; every certificate names it.
        names: Of proof strategies, at least one.
    """
    seconds, clock = {}, time.perf_counter
    began = clock()
    collapsed = model.collapse()
    evaluation = dataclasses.asdict(evaluate(collapsed))
    skip = skip_quantiles(collapsed)
    seconds["evaluate"] = clock() - began
    began = clock()
    explanation = explain(model)
    neurons = io.BytesIO()
    explanation.neuron_frame().write_parquet(neurons)
    seconds["explain"] = clock() - began
    began = clock()
    table = bounds_to_json(bounds(model))
    # The claims spell out each number's assumptions; the numbers are enough here.
    clusters = [{name: value for name, value in row.items() if name != "claims"} for row in table["clusters"]]
    seconds["bounds"] = clock() - began
    certificates = []
    for strategy in names:
        began = clock()
        certificates.append(certify(model, strategy, model_sha256))
        seconds[f"certify_{strategy}"] = clock() - began
    results = {
        "evaluation": evaluation,
        "skip_share_quantiles": [float(share) for share in skip],
        "explanation": explanation.to_dict(),
        "bounds": {**table, "clusters": clusters},
        "proofs": [summary(certificate) for certificate in certificates],
    }
    return Analysis(
        plain(results),
        neurons.getvalue(),
        best_certificate(certificates, checkable=True) or certify(model, "arcs", model_sha256),
        seconds,
    )


def results_to_bytes(results: Mapping[str, Any]) -> bytes:
    """The file results.json; equal results are equal bytes."""
    return (json.dumps(results, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def skip_quantiles(collapsed: Collapsed, count: int = SKIP_QUANTILES) -> Float[np.ndarray, " count"]:
    """Quantiles of the skip connection's share over all (a, b); the one with index j is of rank (j + ½)/count."""
    return np.quantile(skip_shares(collapsed), (np.arange(count) + 0.5) / count)
