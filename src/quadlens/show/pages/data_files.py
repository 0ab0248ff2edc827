"""The numbers behind the page, as CSV and JSON files."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from quadlens.analysis.explanation.of_study import explanation_of
from quadlens.analysis.infinite_width.of_study import lens_if_any
from quadlens.analysis.logits.of_study import skip_shares_of
from quadlens.analysis.published import read_population, read_published
from quadlens.analysis.quadrature import moments, rectangles, to_json
from quadlens.analysis.quadrature.of_study import bounds_if_any, rule_clusters
from quadlens.analysis.spectrum.irreps import irreps_of
from quadlens.analysis.spectrum.of_study import evaluation_of, layer_of, margins_of, no_waves
from quadlens.base.errors import BadFile
from quadlens.base.reading import read_limited
from quadlens.base.schema import plain
from quadlens.base.table import csv_text
from quadlens.network.bundled import is_bundled_file
from quadlens.network.native import MAX_FILE_BYTES, to_bytes
from quadlens.network.study import Study
from quadlens.network.tables import FloatTables
from quadlens.proofs.pairs.certificate import summary
from quadlens.proofs.pairs.of_study import certificate_of, certificates_of
from quadlens.show.figures.beyond_waves import POSITIONS, irrep_shares
from quadlens.show.figures.error_sizes import DRAWN, errors
from quadlens.show.figures.proved import rule_points
from quadlens.show.figures.rectangles import h
from quadlens.training.of_study import history_of


def data_files(study: Study) -> dict[str, bytes]:
    """Relative path → content, the same bytes for the same study."""
    populations = {"paper": read_published().population, "ours": read_population()}
    files = {
        "data/evaluation.json": json_bytes(asdict(study.once(evaluation_of))),
        "data/margins.csv": _margins(study),
        "data/population.json": json_bytes(
            {name: population.to_dict() for name, population in populations.items()}
        ),
        "data/certificates.json": json_bytes(
            [summary(certificate) for certificate in study.once(certificates_of)]
        ),
    }
    if study.once(no_waves) is None:
        files["data/neurons.csv"] = study.once(explanation_of).neuron_frame().write_csv().encode()
    files["data/explanation.json"] = json_bytes(study.once(explanation_of).to_dict())
    if layer_of(study).gated:
        files["data/gates.csv"] = _gates(layer_of(study))
    if study.once(irreps_of) is not None:
        files["data/irreps.csv"] = _irreps(study)
    if (lens := study.once(lens_if_any)) is not None:
        files["data/lens.json"] = json_bytes(lens.to_dict())
    if (bounds := study.once(bounds_if_any)) is not None:
        files["data/bounds.json"] = json_bytes(to_json(bounds))
    clusters, certificates = study.once(rule_clusters), study.once(certificates_of)
    if clusters:
        files |= _cluster_files(study)
    if clusters or certificates:
        files["data/frontier.csv"] = _frontier(study)
    certificate, history = study.once(certificate_of), study.once(history_of)
    if certificate is not None and certificate.is_written:
        files["data/certificate.json"] = certificate.to_bytes()
        if not is_bundled_file(study.name, study.file):
            files["data/model.safetensors"] = _model_file(study)
    if history is not None:
        files["data/history.csv"] = history.curve_frame().write_csv().encode()
        files["data/spectrum.csv"] = history.spectrum_frame().write_csv().encode()
    return files


def _model_file(study: Study) -> bytes:
    """The file that the certificate is about: the one that was read, or the one that `save` writes.

    Raises:
        BadFile: when the file has changed since it was read.
    """
    content = (
        to_bytes(study.model) if study.file is None else read_limited(study.file, MAX_FILE_BYTES)
    )
    if hashlib.sha256(content).hexdigest() != study.sha256:
        raise BadFile(f"{study.file} has changed since it was read; make the report again")
    return content


def _cluster_files(study: Study) -> dict[str, bytes]:
    """What the figures of clusters draw."""
    boxes, errs, moms = [], [], []
    for cluster in study.once(rule_clusters):
        scheme = cluster.scheme
        for half in (False, True):
            layout = rectangles(scheme, half)
            edges = layout.edges + layout.shift
            period = "half" if half else "full"
            columns = (layout.order, layout.phi, edges[:-1], edges[1:], h(layout.phi))
            boxes += [
                (scheme.k, period, *row)
                for row in zip(*(column.tolist() for column in columns), strict=True)
            ]
        errs += [(scheme.k, t, value) for t, value in enumerate(errors(scheme).tolist())]
        series = moments(scheme, DRAWN)
        moms += [
            (scheme.k, *row)
            for row in zip(
                series.order.tolist(), series.size.tolist(), series.term.tolist(), strict=True
            )
        ]
    return {
        "data/rectangles.csv": csv_bytes(
            ("k", "period", "place_in_cluster", "phi", "left", "right", "height"), boxes
        ),
        "data/exact_errors.csv": csv_bytes(("k", "a_plus_b", "abs_error_worst_c"), errs),
        "data/moments.csv": csv_bytes(("k", "order", "size", "term"), moms),
    }


def _frontier(study: Study) -> bytes:
    rows: list[tuple[Any, ...]] = []
    if clusters := study.once(rule_clusters):
        rows += [
            ("T1", name, cost, worst, "", "", "") for name, cost, worst, _ in rule_points(clusters)
        ]
    for certificate in study.once(certificates_of):
        share = certificate.certified_inputs / certificate.p**2
        costs = certificate.cost_share, certificate.cost_share_beyond_collapse
        rows.append(("T3", certificate.proof.strategy, certificate.total_flops, "", share, *costs))
    head = "statement", "method", "operations", "worst_relative_error", "share_of_inputs_proved"
    return csv_bytes((*head, "cost_share", "cost_share_beyond_collapse"), rows)


def _margins(study: Study) -> bytes:
    a, b = np.divmod(np.arange(study.p**2), study.p)
    columns = {"a": a, "b": b, "margin": study.once(margins_of).ravel()}
    if (shares := study.once(skip_shares_of)) is not None:
        columns["skip_share"] = shares.ravel()
    return csv_bytes(
        tuple(columns), zip(*(column.tolist() for column in columns.values()), strict=True)
    )


def _gates(layer: FloatTables) -> bytes:
    """One row per input and head, one column per position that the head sees."""
    a, b = np.divmod(np.arange(layer.p**2), layer.p)
    gates = layer.gates(a, b)
    rows = [
        (x, y, head, *gates[:, head, i].tolist())
        for i, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True))
        for head in range(layer.heads)
    ]
    return csv_bytes(
        ("a", "b", "head", *(f"on_{POSITIONS[table.position]}" for table in layer.gated)), rows
    )


def _irreps(study: Study) -> bytes:
    shares, irreps = irrep_shares(study), study.once(irreps_of)
    rows = [
        (part.name, part.dimension, part.rank, *(float(column[i]) for column in shares.values()))
        for i, part in enumerate(irreps.parts if irreps else ())
    ]
    return csv_bytes(("irrep", "dimension", "rank", *(f"share_of_{name}" for name in shares)), rows)


def csv_bytes(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    """A file of a header and one line per row."""
    return csv_text(head, rows).encode()


def json_bytes(value: Any) -> bytes:
    """A file of one JSON document."""
    return (json.dumps(plain(value), ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode()
