"""The numbers behind the page, as CSV and JSON files."""

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from quadlens.figures.error_sizes import DRAWN, errors
from quadlens.figures.proved import rule_points
from quadlens.figures.rectangles import h
from quadlens.plain_json import plain
from quadlens.proofs.certificate import summary
from quadlens.quadrature import moments, rectangles, to_json
from quadlens.studies import Results
from quadlens.table import csv_text


def data_files(results: Results) -> dict[str, bytes]:
    """Relative path → content, the same bytes for the same results."""
    files = {
        "data/evaluation.json": _json(asdict(results.evaluation)),
        "data/explanation.json": _json(results.explanation.to_dict()),
        "data/margins.csv": _margins(results),
        "data/population.json": _json(_population(results)),
        "data/certificates.json": _json([summary(one) for one in results.certificates]),
    }
    stream = io.BytesIO()
    results.explanation.neuron_frame().write_csv(stream)
    files["data/neurons.csv"] = stream.getvalue()
    if results.bounds is not None:
        files["data/bounds.json"] = _json(to_json(results.bounds))
    if results.clusters:
        files |= _cluster_files(results)
    if results.clusters or results.certificates:
        files["data/frontier.csv"] = _frontier(results)
    if results.certificate is not None and results.certificate.checkable:
        files["data/certificate.json"] = results.certificate.to_bytes()
    if results.history is not None:
        for name, frame in (("history", results.history.curve_frame()), ("spectrum", results.history.spectrum_frame())):
            stream = io.BytesIO()
            frame.write_csv(stream)
            files[f"data/{name}.csv"] = stream.getvalue()
    return files


def _cluster_files(results: Results) -> dict[str, bytes]:
    """What the figures of clusters draw."""
    boxes, errs, moms = [], [], []
    for cluster in results.clusters:
        scheme = cluster.scheme
        for half in (False, True):
            layout = rectangles(scheme, half)
            edges = layout.edges + layout.shift
            period = "half" if half else "full"
            columns = (layout.order, layout.phi, edges[:-1], edges[1:], h(layout.phi))
            boxes += [(scheme.k, period, *row) for row in zip(*(column.tolist() for column in columns), strict=True)]
        errs += [(scheme.k, t, value) for t, value in enumerate(errors(scheme).tolist())]
        found = moments(scheme, DRAWN)
        moms += [
            (scheme.k, *row) for row in zip(found.order.tolist(), found.size.tolist(), found.term.tolist(), strict=True)
        ]
    return {
        "data/rectangles.csv": _csv(("k", "period", "place_in_cluster", "phi", "left", "right", "height"), boxes),
        "data/exact_errors.csv": _csv(("k", "a_plus_b", "abs_error_worst_c"), errs),
        "data/moments.csv": _csv(("k", "order", "size", "term"), moms),
    }


def _frontier(results: Results) -> bytes:
    rows: list[tuple[Any, ...]] = []
    if results.clusters:
        rows += [("T1", name, cost, worst, "", "", "") for name, cost, worst, _ in rule_points(results.clusters)]
    for one in results.certificates:
        share = one.certified_inputs / one.p**2
        costs = one.cost_share, one.cost_share_beyond_collapse
        rows.append(("T3", one.proof.strategy, one.total_flops, "", share, *costs))
    head = "statement", "method", "operations", "worst_relative_error", "share_of_inputs_proved"
    return _csv((*head, "cost_share", "cost_share_beyond_collapse"), rows)


def _margins(results: Results) -> bytes:
    a, b = np.divmod(np.arange(results.p**2), results.p)
    columns = (a, b, results.margins.ravel(), results.skip_shares.ravel())
    return _csv(("a", "b", "margin", "skip_share"), zip(*(column.tolist() for column in columns), strict=True))


def _population(results: Results) -> dict[str, Any]:
    return {
        name: None
        if one is None
        else {
            "models": one.models,
            "facts": dict(one.facts),
            "number_of_key_frequencies": dict(one.key_counts),
            "neurons_per_frequency": list(one.neurons_per_frequency),
            "histograms": {
                key: {"edges": bars.edges.tolist(), "count": bars.count.tolist()} for key, bars in one.histograms
            },
        }
        for name, one in (("paper", results.published.population), ("ours", results.population))
    }


def _csv(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    return csv_text(head, rows).encode()


def _json(value: Any) -> bytes:
    return (json.dumps(plain(value), ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode()
