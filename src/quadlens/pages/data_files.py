"""The numbers behind the page, as CSV and JSON files."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from quadlens.figures.beyond_waves import POSITIONS, irrep_shares
from quadlens.figures.error_sizes import DRAWN, errors
from quadlens.figures.proved import rule_points
from quadlens.figures.rectangles import h
from quadlens.model.tables import FloatTables
from quadlens.proofs.certificate import summary
from quadlens.quadrature import moments, rectangles, to_json
from quadlens.schema import plain
from quadlens.studies import Study
from quadlens.table import csv_text


def data_files(study: Study) -> dict[str, bytes]:
    """Relative path → content, the same bytes for the same study."""
    populations = {"paper": study.published.population, "ours": study.population}
    files = {
        "data/evaluation.json": json_bytes(asdict(study.evaluation)),
        "data/margins.csv": _margins(study),
        "data/population.json": json_bytes({name: population.to_dict() for name, population in populations.items()}),
        "data/certificates.json": json_bytes([summary(certificate) for certificate in study.certificates]),
    }
    if study.no_waves is None:
        files["data/neurons.csv"] = study.explanation.neuron_frame().write_csv().encode()
    files["data/explanation.json"] = json_bytes(study.explanation.to_dict())
    if study.anatomy.layer.gated:
        files["data/gates.csv"] = _gates(study.anatomy.layer)
    if study.irreps is not None:
        files["data/irreps.csv"] = _irreps(study)
    if study.lens_if_any is not None:
        files["data/lens.json"] = json_bytes(study.lens_if_any.to_dict())
    if study.bounds is not None:
        files["data/bounds.json"] = json_bytes(to_json(study.bounds))
    if study.clusters:
        files |= _cluster_files(study)
    if study.clusters or study.certificates:
        files["data/frontier.csv"] = _frontier(study)
    if study.certificate is not None and study.certificate.checkable:
        files["data/certificate.json"] = study.certificate.to_bytes()
    if study.history is not None:
        files["data/history.csv"] = study.history.curve_frame().write_csv().encode()
        files["data/spectrum.csv"] = study.history.spectrum_frame().write_csv().encode()
    return files


def _cluster_files(study: Study) -> dict[str, bytes]:
    """What the figures of clusters draw."""
    boxes, errs, moms = [], [], []
    for cluster in study.clusters:
        scheme = cluster.scheme
        for half in (False, True):
            layout = rectangles(scheme, half)
            edges = layout.edges + layout.shift
            period = "half" if half else "full"
            columns = (layout.order, layout.phi, edges[:-1], edges[1:], h(layout.phi))
            boxes += [(scheme.k, period, *row) for row in zip(*(column.tolist() for column in columns), strict=True)]
        errs += [(scheme.k, t, value) for t, value in enumerate(errors(scheme).tolist())]
        series = moments(scheme, DRAWN)
        moms += [
            (scheme.k, *row)
            for row in zip(series.order.tolist(), series.size.tolist(), series.term.tolist(), strict=True)
        ]
    return {
        "data/rectangles.csv": csv_bytes(("k", "period", "place_in_cluster", "phi", "left", "right", "height"), boxes),
        "data/exact_errors.csv": csv_bytes(("k", "a_plus_b", "abs_error_worst_c"), errs),
        "data/moments.csv": csv_bytes(("k", "order", "size", "term"), moms),
    }


def _frontier(study: Study) -> bytes:
    rows: list[tuple[Any, ...]] = []
    if study.clusters:
        rows += [("T1", name, cost, worst, "", "", "") for name, cost, worst, _ in rule_points(study.clusters)]
    for certificate in study.certificates:
        share = certificate.certified_inputs / certificate.p**2
        costs = certificate.cost_share, certificate.cost_share_beyond_collapse
        rows.append(("T3", certificate.proof.strategy, certificate.total_flops, "", share, *costs))
    head = "statement", "method", "operations", "worst_relative_error", "share_of_inputs_proved"
    return csv_bytes((*head, "cost_share", "cost_share_beyond_collapse"), rows)


def _margins(study: Study) -> bytes:
    a, b = np.divmod(np.arange(study.p**2), study.p)
    columns = {"a": a, "b": b, "margin": study.margins.ravel()}
    if study.skip_shares is not None:
        columns["skip_share"] = study.skip_shares.ravel()
    return csv_bytes(tuple(columns), zip(*(column.tolist() for column in columns.values()), strict=True))


def _gates(layer: FloatTables) -> bytes:
    """One row per input and head, one column per position that the head sees."""
    a, b = np.divmod(np.arange(layer.p**2), layer.p)
    gates = layer.gates(a, b)
    rows = [
        (x, y, head, *gates[:, head, i].tolist())
        for i, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True))
        for head in range(layer.heads)
    ]
    return csv_bytes(("a", "b", "head", *(f"on_{POSITIONS[table.position]}" for table in layer.gated)), rows)


def _irreps(study: Study) -> bytes:
    shares = irrep_shares(study)
    rows = [
        (part.name, part.dimension, part.rank, *(float(column[i]) for column in shares.values()))
        for i, part in enumerate(study.irreps.parts if study.irreps else ())
    ]
    return csv_bytes(("irrep", "dimension", "rank", *(f"share_of_{name}" for name in shares)), rows)


def csv_bytes(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    """A file of a header and one line per row."""
    return csv_text(head, rows).encode()


def json_bytes(value: Any) -> bytes:
    """A file of one JSON document."""
    return (json.dumps(plain(value), ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode()
