"""What a sweep stores of a model: answers, explanation, bounds and proofs."""

import dataclasses
import io
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from quadlens.analysis.explanation import Explanation
from quadlens.analysis.explanation.of_study import explanation_of
from quadlens.analysis.infinite_width.of_study import lens_if_any
from quadlens.analysis.logits.algorithm import algorithm_measures, right_logits
from quadlens.analysis.logits.of_study import skip_shares_of
from quadlens.analysis.quadrature.of_study import bounds_if_any
from quadlens.analysis.quadrature.views import to_json as bounds_to_json
from quadlens.analysis.spectrum.of_study import evaluation_of, layer_of
from quadlens.base.schema import plain
from quadlens.network.study import Study
from quadlens.proofs.pairs import STRATEGIES, Certificate
from quadlens.proofs.pairs.certificate import summary
from quadlens.proofs.pairs.of_study import made_proofs
from quadlens.proofs.pairs.produce import best_certificate, strategies

T = TypeVar("T")
# Quantiles of the skip connection's share over the p² inputs, the one with index j of rank (j +
# ½)/200: enough to draw the paper's ten bins.
SKIP_QUANTILES = 200
# Every strategy but the one that chooses among the others.
ALL_STRATEGIES = strategies()
# Those that share one collapse, so that their costs stand side by side; one that counts its own is
# tried on demand.
DEFAULT_STRATEGIES = tuple(
    name for name in ALL_STRATEGIES if not STRATEGIES[name].facts.own_collapse
)


@dataclass(frozen=True, eq=False)
class Analysis:
    """What is stored beside the weights.

    Attributes:
        results: JSON types only; the same model gives the same value.
        neurons: The frame of one row per neuron, as a Parquet file's bytes; None for a model
            without frequencies.
        certificate: The proof of most inputs that can be checked, the cheapest among equals.
        seconds: How long each step took.
    """

    results: dict[str, Any]
    neurons: bytes | None
    certificate: Certificate
    seconds: dict[str, float]


def analyse(study: Study, names: tuple[str, ...] = DEFAULT_STRATEGIES) -> Analysis:
    """A study as what a sweep stores of a model.

    Args:
        study: Of the model's file, which every certificate names.
        names: Of proof strategies, at least one.
    """
    seconds: dict[str, float] = {}

    def timed(step: str, compute: Callable[[], T]) -> T:
        began = time.perf_counter()
        value = compute()
        seconds[step] = time.perf_counter() - began
        return value

    evaluation, skip = timed(
        "evaluate", lambda: (study.once(evaluation_of), study.once(skip_shares_of))
    )
    explanation = timed("explain", lambda: study.once(explanation_of))
    bounds = timed("bounds", lambda: study.once(bounds_if_any))
    table = {"baseline": None, "clusters": []} if bounds is None else bounds_to_json(bounds)
    # The claims spell out each number's assumptions; the numbers are enough here.
    clusters = [
        {name: value for name, value in row.items() if name != "claims"}
        for row in table["clusters"]
    ]
    made = study.once(made_proofs)
    certificates = [timed(f"certify_{name}", partial(made.certify, name)) for name in names]
    ranks = (np.arange(SKIP_QUANTILES) + 0.5) / SKIP_QUANTILES
    results = {
        "evaluation": dataclasses.asdict(evaluation),
        "skip_share_quantiles": []
        if skip is None
        else [float(share) for share in np.quantile(skip, ranks)],
        "explanation": explanation.to_dict(),
        "bounds": {**table, "clusters": clusters},
        "proofs": [summary(certificate) for certificate in certificates],
        "attention": timed("lens", lambda: attention_measures(study)),
        "lens": timed("controls", lambda: _lens(study)),
    }
    best = best_certificate(certificates, checkable=True) or made.certify("arcs")
    neurons = None if explanation.neurons is None else _neurons(explanation)
    return Analysis(plain(results), neurons, best, seconds)


def _lens(study: Study) -> dict[str, Any] | None:
    """What the dataset keeps of the lens; tables of each cluster are left out."""
    lens = study.once(lens_if_any)
    if lens is None:
        return None
    document = lens.to_dict()
    names = ("answers_right", "integrates", "r2", "controls", "chains")
    return {
        **{name: document[name] for name in names},
        "clusters": [{"k": row["k"]} for row in document["clusters"]],
    }


def _neurons(explanation: Explanation) -> bytes:
    content = io.BytesIO()
    explanation.neuron_frame().write_parquet(content)
    return content.getvalue()


def attention_measures(study: Study) -> dict[str, float | None] | None:
    """Measure what changes from constant attention to softmax.

    These are Zhong et al.'s measures and what the lens says.

    `symmetric_part` is the lens's; `product_share` the share of product waves in what neurons read,
    a mean over the neurons in clusters. None for an MLP and for a task without frequencies.
    """
    config, layer = study.config, layer_of(study)
    if config.attends is None or config.task.cyclic is None:
        return None
    measures = algorithm_measures(study.model, right_logits(layer))
    lens = study.once(lens_if_any)
    return {
        "gradient_symmetricity": measures.gradient_symmetricity,
        "distance_irrelevance": measures.distance_irrelevance,
        "circularity": measures.circularity,
        "symmetric_part": None if lens is None else lens.r2.symmetric_part,
        "product_share": None if lens is None else lens.fourier["product_waves"],
    }


def results_to_bytes(results: Mapping[str, Any]) -> bytes:
    """The file results.json; equal results are equal bytes."""
    return (json.dumps(results, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()
