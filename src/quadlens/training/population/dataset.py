"""The dataset: one Parquet file, one row per model, rebuilt from the directories at any time."""

import dataclasses
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quadlens.base.atomic import write_atomic
from quadlens.base.errors import BadConfig, BadFile
from quadlens.base.schema import from_json
from quadlens.network.bundled import data_directory
from quadlens.proofs.pairs import STRATEGIES
from quadlens.proofs.pairs.operations import collapse_operations
from quadlens.training.population.store import (
    MAX_FILE_BYTES,
    ModelManifest,
    RunDirectory,
    Store,
    read_here,
)

if TYPE_CHECKING:
    import polars

SHIPPED = "population.parquet"
# Columns of the lists in a row; numbers of single neurons are kept in single precision.
CLUSTER_ROWS = (
    "normalised_abs_cos_error",
    "normalised_abs_sin_error",
    "normalised_id_cos_error",
    "normalised_id_sin_error",
    "angle_approximation_error",
    "numerical_abs_bound_full",
    "numerical_abs_bound_half",
    "total_abs_bound_full",
    "total_abs_bound_half",
    "normalised_relu_cos_error",
    "normalised_relu_sin_error",
    "total_relu_bound_full",
    "total_relu_bound_half",
)
CLUSTER_EXTRAS = (
    "exact_abs_error",
    "exact_abs_error_psi",
    "exact_relu_error_psi",
    "moment_bound",
    "relative_error",
    "relative_bound",
    "relative_exact",
    "relative_exact_psi",
)
PHASE_COLUMNS = (
    "r2_angles",
    "interval_width_mean",
    "interval_width_std",
    "variance_input_median",
    "variance_output_median",
    "secondary_is_double",
    "secondary_phase_r2",
)
PROOF_COLUMNS = ("margin_lower_bound", "logit_error_bound", "accuracy_lower_bound", "seconds")
# Settings of a run that get a column of their own; the rest is in the column `manifest`.
CONFIG_COLUMNS = (
    "p",
    "d_model",
    "d_mlp",
    "equals",
    "epochs",
    "weight_decay",
    "train_share",
    "seed",
    "seeding",
)

# Of the lens. The shipped population was trained before it had controls, and its weights were not
# kept: its columns are of models trained again from the same seeds on another machine. These are
# not the same bits, so `lens_sha256` says which model they are of, and `lens_key_frequencies` which
# keys that one has; empty where it was not trained again.
LENS_R2 = ("shared", "joint", "symmetric_part", "ceiling")
LENS_CONTROLS = (
    *("shared_permuted", "resampled_even", "resampled_half"),
    *("residual", "residual_permuted", "spacing", "spacing_permuted"),
)


def lens_schema() -> dict[str, Any]:
    """List names and types of the lens's columns: numbers, controls, and chains."""
    import polars as pl

    numbers = dict.fromkeys(
        (f"lens_{name}" for name in ("answers_right", *LENS_R2, *LENS_CONTROLS)), pl.Float64
    )
    keys = {"lens_key_frequencies": pl.List(pl.Int32), "lens_chains": pl.List(pl.List(pl.Int32))}
    return {"lens_sha256": pl.String, "lens_integrates": pl.Boolean, **numbers, **keys}


def lens_values(document: Mapping[str, Any] | None, sha256: str) -> dict[str, Any]:
    """The columns of one model, from the lens's JSON view; nothing where there is none."""
    if document is None:
        return {}
    values = {"answers_right": document["answers_right"], **document["r2"], **document["controls"]}
    return {
        "lens_sha256": sha256,
        "lens_integrates": document["integrates"],
        **{
            f"lens_{name}": values.get(name) for name in ("answers_right", *LENS_R2, *LENS_CONTROLS)
        },
        "lens_key_frequencies": sorted(row["k"] for row in document["clusters"]),
        "lens_chains": document["chains"],
    }


def schema() -> "polars.Schema":
    """Names and types of every column."""
    import polars as pl

    cluster = {"k": pl.Int32, "key": pl.Boolean, "neurons": pl.Int32}
    cluster |= dict.fromkeys((*PHASE_COLUMNS, *CLUSTER_ROWS, *CLUSTER_EXTRAS), pl.Float64)
    proof = {
        "strategy": pl.String,
        "verdict": pl.String,
        "certified_inputs": pl.Int64,
        "flops": pl.Int64,
    }
    proof |= dict.fromkeys(PROOF_COLUMNS, pl.Float64)
    neuron = {"k_in": pl.Int16, "k_out": pl.Int16, "role": pl.String}
    neuron |= {
        "variance_input": pl.Float32,
        "variance_output": pl.Float32,
        "secondary_multiple": pl.Int16,
    }
    scalars: dict[str, Any] = {
        "run_id": pl.String,
        **dict.fromkeys(("p", "d_model", "d_mlp"), pl.Int32),
        "equals": pl.Boolean,
        "epochs": pl.Int32,
        "weight_decay": pl.Float64,
        "train_share": pl.Float64,
        "seed": pl.Int64,
        "seeding": pl.String,
        "accuracy": pl.Float64,
        "correct": pl.Int64,
        "inputs": pl.Int64,
        "min_margin": pl.Float64,
        "median_margin": pl.Float64,
        "loss": pl.Float64,
        "good_model": pl.Boolean,
        "clear_clusters": pl.Boolean,
        "key_frequencies": pl.List(pl.Int32),
        "n_key_frequencies": pl.Int32,
        **dict.fromkeys(
            ("neurons_matching", "neurons_mismatching", "neurons_constant", "neurons_dead"),
            pl.Int32,
        ),
        **dict.fromkeys(
            ("secondary_is_double", "secondary_phase_r2", "residual_variance_share"), pl.Float64
        ),
        **dict.fromkeys(
            ("r2_all_pizza", "r2_all_clock", "r2_abs_pizza", "r2_abs_clock"), pl.Float64
        ),
        "baseline": pl.Float64,
        "brute_force_flops": pl.Int64,
        "train_seconds": pl.Float64,
        "model_sha256": pl.String,
        "manifest": pl.String,
        "skip_share_quantiles": pl.List(pl.Float32),
        **lens_schema(),
    }
    lists = {"clusters": cluster, "proofs": proof, "neurons": neuron}
    return pl.Schema(
        {**scalars, **{name: pl.List(pl.Struct(fields)) for name, fields in lists.items()}}
    )


def build(store: Store) -> "polars.DataFrame":
    """Read every whole directory of a sweep, in order of p, settings and seed.

    Models without frequencies have no row.
    """
    import polars as pl

    runs = (store.finished(run_id) for run_id in store.run_ids())
    rows = [_row(run) for run in runs if run.analysed and run.neurons.is_file()]
    order = ["p", "equals", "d_mlp", "epochs", "weight_decay", "seed", "run_id"]
    return pl.DataFrame(rows, schema=schema(), orient="row").sort(order)


def rebuild(store: Store) -> "polars.DataFrame":
    """Build the dataset and write it."""
    frame = build(store)
    content = io.BytesIO()
    frame.write_parquet(content, compression="zstd", compression_level=19)
    write_atomic(store.dataset, content.getvalue())
    return frame


def read(path: Path) -> "polars.DataFrame":
    """Read the dataset in a file, or build that of a sweep's directory anew."""
    import polars as pl

    if path.is_dir():
        store = Store(path)
        frame = build(store)
        if frame.is_empty():
            raise BadFile(
                f"{path} holds no finished model; expected the directory of a sweep: "
                f"quadlens sweep -o {path}"
            )
        return _known_proofs(frame)
    try:
        if not path.is_file():
            raise FileNotFoundError
        frame = pl.read_parquet(path)
    except FileNotFoundError:
        raise BadFile(f"{path}: no such file or directory; give the directory of a sweep") from None
    except (OSError, pl.exceptions.PolarsError) as error:
        raise BadFile(f"{path} is not a Parquet file: {str(error).splitlines()[0]}") from None
    # Datasets from before the lens had controls have no columns of it.
    absent = {name: kind for name, kind in lens_schema().items() if name not in frame.columns}
    if len(absent) == len(lens_schema()):
        empty = [pl.lit(None, dtype=kind).alias(name) for name, kind in absent.items()]
        frame = frame.with_columns(empty).select(
            name for name in schema() if name in {*frame.columns, *absent}
        )
    if dict(frame.schema) != dict(schema()):
        raise BadFile(
            f"{path} is not the dataset of a sweep of this version; "
            "rebuild it from the sweep's directory"
        )
    return _known_proofs(frame)


def _known_proofs(frame: "polars.DataFrame") -> "polars.DataFrame":
    """Leave out proofs by strategies of older results that are no more."""
    import polars as pl

    known = pl.element().struct.field("strategy").is_in(list(STRATEGIES))
    return frame.with_columns(pl.col("proofs").list.filter(known))


def manifest_of(model: Mapping[str, Any]) -> ModelManifest:
    """The manifest that a row has in its column of that name."""
    return from_json(ModelManifest, model["manifest"].encode(), model["run_id"])


def cost_shares(model: Mapping[str, Any]) -> list[float]:
    """Divide what each proof of a row costs by what brute force costs.

    The collapse counts on both sides, as on certificates.
    """
    collapse = collapse_operations(manifest_of(model).config.model_config())
    brute = model["brute_force_flops"] + collapse
    own = [STRATEGIES[proof["strategy"]].facts.own_collapse for proof in model["proofs"]]
    return [
        (p["flops"] + (0 if alone else collapse)) / brute
        for p, alone in zip(model["proofs"], own, strict=True)
    ]


def inside(
    frame: "polars.DataFrame", column: str, value: "polars.Expr", where: "polars.Expr | None" = None
) -> list[np.ndarray]:
    """What a list column holds, one array per model.

    Args:
        frame: The dataset.
        column: A list per model, of its neurons, clusters or proofs.
        value: Of one entry, `polars.element()`; nulls are left out.
        where: Only entries for which this holds.
    """
    import polars as pl

    chosen = value if where is None else value.filter(where)
    rows = frame.select(pl.col(column).list.eval(chosen.drop_nulls())).to_series()
    return [np.array(row) for row in rows.to_list()]


def by_model(frame: "polars.DataFrame") -> list[dict[str, Any]]:
    """Make a row per model: its exact error, and what each strategy proves."""
    rows = []
    for model in frame.iter_rows(named=True):
        keys = [cluster for cluster in model["clusters"] if cluster["key"]]
        errors = [
            cluster["relative_exact_psi"]
            for cluster in keys
            if cluster["relative_exact_psi"] is not None
        ]
        row = {
            name: model[name]
            for name in (
                "p",
                "equals",
                "seed",
                "accuracy",
                "good_model",
                "key_frequencies",
                "min_margin",
            )
        }
        row["largest_relative_exact_error"] = max(errors) if errors else None
        lens = ("shared", "joint", "shared_permuted", "integrates", "chains")
        row |= {f"lens_{name}": model.get(f"lens_{name}") for name in lens}
        for proof, cost in zip(model["proofs"], cost_shares(model), strict=True):
            row[f"certified_{proof['strategy']}"] = proof["certified_inputs"] / model["inputs"]
            row[f"cost_{proof['strategy']}"] = cost
        rows.append(row)
    return rows


def by_group(frame: "polars.DataFrame", column: str) -> list[dict[str, Any]]:
    """One row per value of `column`: means over its models, to see how things depend on it."""
    rows = []
    for (value,), group in frame.group_by(column, maintain_order=True):
        models = by_model(group)
        errors = [
            m["largest_relative_exact_error"]
            for m in models
            if m["largest_relative_exact_error"] is not None
        ]
        row = {
            column: value,
            "models": len(group),
            "accurate": int((group["correct"] == group["inputs"]).sum()),
            "good": int(group["good_model"].sum()),
            "key_frequencies": _mean([len(m["key_frequencies"]) for m in models]),
            "relative_exact_error": _mean(errors),
        }
        for name in dict.fromkeys(
            name for m in models for name in m if name.startswith(("certified_", "cost_"))
        ):
            row[name] = _mean([m[name] for m in models if name in m])
        rows.append(row)
    return rows


def _mean(values: list[Any]) -> float | None:
    return sum(values) / len(values) if values else None


def filter_models(frame: "polars.DataFrame", conditions: Sequence[str]) -> "polars.DataFrame":
    """The models for which every condition holds.

    Args:
        frame: The dataset.
        conditions: SQL over its columns: `p=59`, `min_margin>10 and good_model`, `not good_model`,
            `seeding='gbmi'`.
    """
    import polars as pl

    for condition in conditions:
        try:
            frame = frame.filter(pl.sql_expr(condition))
        except pl.exceptions.PolarsError as error:
            columns = [
                name
                for name, kind in frame.schema.items()
                if not kind.is_nested() and name != "manifest"
            ]
            reason = (
                str(error).splitlines()[0].partition(";")[0]
            )  # what follows is every column, in Python
            raise BadConfig(
                f"the condition {condition!r}: {reason}; expected a condition in SQL such as p=59, "
                f"'min_margin>10' or good_model, over the columns {', '.join(columns)}",
                settings=("where",),
            ) from None
    return frame


def shipped_path() -> Path:
    """The results that come with the package."""
    return data_directory() / SHIPPED


def _row(run: RunDirectory) -> dict[str, Any]:
    try:
        manifest = run.read_manifest()
        results = run.read_results()
        return {
            **{name: getattr(manifest.config, name) for name in CONFIG_COLUMNS},
            **_scalars(manifest, results),
            "skip_share_quantiles": results["skip_share_quantiles"],
            # Results from before the lens had controls have none.
            **lens_values(results.get("lens"), manifest.sha256["model.safetensors"]),
            "clusters": _clusters(results),
            "proofs": [_proof(proof, manifest.seconds) for proof in results["proofs"]],
            "neurons": _neurons(read_here(run.neurons, MAX_FILE_BYTES)),
        }
    except (OSError, BadConfig, BadFile, ValueError, KeyError, TypeError) as error:
        raise BadFile(
            f"{run.path} is damaged ({type(error).__name__}: {error}); "
            "run the sweep again to make it again"
        ) from None


def _scalars(manifest: ModelManifest, results: dict[str, Any]) -> dict[str, Any]:
    evaluation, explanation = results["evaluation"], results["explanation"]
    same = [
        "good_model",
        "clear_clusters",
        "key_frequencies",
        "secondary_is_double",
        "secondary_phase_r2",
    ]
    same += [
        "neurons_matching",
        "neurons_mismatching",
        "neurons_constant",
        "neurons_dead",
        "residual_variance_share",
    ]
    r2 = explanation["r2"]
    return {
        "run_id": manifest.run_id,
        **{
            name: evaluation[name]
            for name in ("accuracy", "correct", "min_margin", "median_margin", "loss")
        },
        "inputs": evaluation["pairs"],
        **{name: explanation[name] for name in same},
        "n_key_frequencies": len(explanation["key_frequencies"]),
        **{f"r2_all_{name}": r2["all_logits"][name] for name in ("pizza", "clock")},
        **{f"r2_abs_{name}": r2["abs_component"][name] for name in ("pizza", "clock")},
        "baseline": results["bounds"]["baseline"],
        "brute_force_flops": results["proofs"][0]["brute_force_flops"],
        "train_seconds": manifest.seconds["train"],
        "model_sha256": manifest.sha256["model.safetensors"],
        "manifest": json.dumps(dataclasses.asdict(manifest), sort_keys=True),
    }


def _clusters(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Say what explanation and bounds have of each cluster.

    Nulls stand where it is no quadrature rule.
    """
    bounds = {row["k"]: row for row in results["bounds"]["clusters"]}
    rows = []
    for cluster in results["explanation"]["clusters"]:
        bound = bounds.get(cluster["k"], {})
        rows.append(
            {
                **{name: cluster[name] for name in ("k", "key", "neurons", *PHASE_COLUMNS)},
                **{name: bound.get("rows", {}).get(name) for name in CLUSTER_ROWS},
                **{name: bound.get(name) for name in CLUSTER_EXTRAS},
            }
        )
    return rows


def _proof(proof: dict[str, Any], seconds: Mapping[str, float]) -> dict[str, Any]:
    names = ("strategy", "verdict", "certified_inputs", "flops")
    return {
        **{name: proof[name] for name in names},
        **{name: proof[name] for name in ("margin_lower_bound", "accuracy_lower_bound")},
        "logit_error_bound": None,  # a column of stored populations; no strategy bounds it
        "seconds": seconds.get(f"certify_{proof['strategy']}"),
    }


def _neurons(content: bytes) -> list[dict[str, Any]]:
    import polars as pl

    columns = ["k_in", "k_out", "role", "variance_input", "variance_output", "secondary_multiple"]
    return pl.read_parquet(io.BytesIO(content), columns=columns).to_dicts()
