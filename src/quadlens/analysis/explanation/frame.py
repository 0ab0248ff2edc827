"""One row per neuron, as a polars frame, and as a CSV or Parquet file."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from quadlens.analysis.explanation.neurons import NeuronExplanation
from quadlens.analysis.explanation.value import Explanation, MissingPart
from quadlens.analysis.spectrum.amplitude_phase import TURN, AmplitudePhase, wrap
from quadlens.analysis.spectrum.harmonics import RANK_NAMES, Harmonics
from quadlens.base.atomic import write_atomic
from quadlens.base.errors import BadConfig

if TYPE_CHECKING:
    import polars

SUFFIXES = (".csv", ".parquet")


def neuron_frame(explanation: Explanation) -> "polars.DataFrame":
    """Columns in the notation of `math.md`; null where a neuron has no such thing.

    `role` is matching, mismatching, constant or dead; `cluster` the frequency of the cluster the
    neuron is in; `w` its quadrature weight ρω scaled to 2π per cluster; `a_`, `b_`, `ov_a_`,
    `ov_b_` the amplitude and phase at k_in of each path and of its OV part; `secondary` … the next
    largest frequencies of the input, with `_multiple` and `_phase` written as a multiple of the
    primary (see `Harmonics`).

    Raises:
        BadConfig: when the network has no part `neurons`.
    """
    if explanation.neurons is None:
        raise MissingPart.read_from(NeuronExplanation, "a table of neurons")
    import polars as pl

    roles, spectra = explanation.roles, explanation.spectra
    role = np.select(
        [roles.dead, roles.constant, roles.matching],
        ["dead", "constant", "matching"],
        "mismatching",
    )
    cluster, weight = (
        np.zeros(explanation.d_mlp, dtype=np.int64),
        np.full(explanation.d_mlp, np.nan),
    )
    for group in explanation.clusters:
        product = group.rho * group.omega
        cluster[group.neurons], weight[group.neurons] = group.k, TURN * product / product.sum()
    outside = cluster == 0
    columns = {
        "neuron": pl.Series(np.arange(explanation.d_mlp)),
        "role": pl.Series(role.tolist()),
        "cluster": _nullable(cluster, outside),
        "k_in": pl.Series(roles.k_in),
        "k_out": pl.Series(roles.k_out),
        "rho": pl.Series(roles.rho),
        "phi": pl.Series(roles.phi),
        "omega": pl.Series(roles.omega),
        "psi": pl.Series(roles.psi),
        "psi_minus_2phi": pl.Series(wrap(roles.psi - 2 * roles.phi)),
        "w": _nullable(weight, outside),
        "variance_input": pl.Series(roles.variance_input),
        "variance_output": pl.Series(roles.variance_output),
        "input_mean": pl.Series(spectra.input.mean),
        "output_mean": pl.Series(spectra.output.mean),
    }
    paths: dict[str, AmplitudePhase | None] = {"a": spectra.path_a, "b": spectra.path_b}
    attended = explanation.attended
    paths |= {
        "ov_a": attended.path_a if attended else None,
        "ov_b": attended.path_b if attended else None,
    }
    for name, path in paths.items():
        amplitude, phase = (
            (np.zeros(explanation.d_mlp),) * 2 if path is None else path.at(roles.k_in)
        )
        columns[f"{name}_amplitude"] = _nullable(amplitude, path is None)
        columns[f"{name}_phase"] = _nullable(phase, path is None)
    return pl.DataFrame({**columns, **_higher_ranks(explanation.harmonics)})


def _higher_ranks(harmonics: Harmonics) -> "dict[str, polars.Series]":
    """Secondary to quaternary; columns of nulls where p has fewer frequencies."""
    columns = {}
    for rank, name in enumerate(RANK_NAMES[1:], start=1):
        missing = rank >= len(harmonics.k)
        row = 0 if missing else rank
        absent = ~harmonics.present[row] | missing
        columns[name] = _nullable(harmonics.k[row], absent)
        columns[f"{name}_multiple"] = _nullable(
            harmonics.multiple[row], absent | (harmonics.multiple[row] == 0)
        )
        columns[f"{name}_amplitude"] = _nullable(harmonics.amplitude[row], missing)
        columns[f"{name}_phase"] = _nullable(harmonics.phase[row], absent)
    return columns


def _nullable(values: np.ndarray, absent: np.ndarray | bool) -> "polars.Series":
    """The values, with nulls where they are absent, or everywhere."""
    import polars as pl

    gone = np.broadcast_to(absent, values.shape)
    return pl.Series(values).set(pl.Series(gone), None)


def check_frame_path(path: Path) -> None:
    """Refuse a file name whose suffix is neither of the two formats."""
    if path.suffix.lower() not in SUFFIXES:
        raise BadConfig(
            f"{path}: unknown kind of table {path.suffix!r}; give a name that ends in .csv or "
            ".parquet"
        )


def write_neurons(explanation: Explanation, path: Path) -> None:
    """Write the frame, whole or not at all."""
    check_frame_path(path)
    buffer, frame = BytesIO(), neuron_frame(explanation)
    if path.suffix.lower() == ".csv":
        frame.write_csv(buffer)
    else:
        frame.write_parquet(buffer)
    write_atomic(path, buffer.getvalue())
