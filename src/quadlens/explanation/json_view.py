"""The JSON view of an explanation."""

import dataclasses
from typing import Any

import numpy as np

from quadlens.explanation.value import Explanation, LogitExplanation
from quadlens.logits import ClosedForm, IdentityMatrix

MAX_LISTED = 100
WAVES_LISTED = 8


def explanation_to_dict(explanation: Explanation) -> dict[str, Any]:
    """Plain JSON types; None where a number has no meaning or was not asked for."""
    roles, logits = explanation.roles, explanation.logits
    mismatched = np.flatnonzero(roles.mismatching)[:MAX_LISTED]
    return {
        "p": explanation.p,
        "n": explanation.p,
        "task": explanation.task.to_json(),
        "d_mlp": explanation.d_mlp,
        "activation": explanation.activation,
        "key_frequencies": list(explanation.key_frequencies),
        "clusters": _clusters(explanation),
        "neurons_matching": int(roles.matching.sum()),
        "neurons_mismatching": int(roles.mismatching.sum()),
        "neurons_constant": int(roles.constant.sum()),
        "neurons_dead": int(roles.dead.sum()),
        "mismatched": [[int(i), int(roles.k_in[i]), int(roles.k_out[i])] for i in mismatched],
        "clear_clusters": explanation.clear_clusters,
        "doubled_keys": [list(pair) for pair in explanation.doubled_keys],
        "variance_input_median": _median(roles.variance_input[~roles.dead]),
        "variance_output_median": _median(roles.variance_output[~roles.dead]),
        "secondary_is_double": explanation.doubling.share,
        "secondary_phase_r2": explanation.doubling.phase_r2,
        "harmonics": [dataclasses.asdict(fit) for fit in explanation.harmonic_fits],
        "good_model": explanation.good_model,
        **(_logits(logits) if logits else dict.fromkeys(LOGIT_KEYS)),
        "summary": explanation.summary(),
    }


LOGIT_KEYS = (
    "correct",
    "residual_variance_share",
    "r2",
    "coefficients",
    "closed_form",
    "identity",
    "weak_spots",
    "algorithm",
)


def _clusters(explanation: Explanation) -> list[dict[str, Any]]:
    roles, rows = explanation.roles, []
    for cluster, phases, doubling in zip(
        explanation.clusters, explanation.phases, explanation.cluster_doubling, strict=True
    ):
        rows.append(
            {
                "k": cluster.k,
                "key": cluster.k in explanation.key_frequencies,
                "neurons": len(cluster.neurons),
                "r2_angles": phases.r2,
                "angle_offset": phases.offset,
                "angle_rms_deviation": phases.rms_deviation,
                "angle_max_deviation": phases.max_deviation,
                "interval_width_mean": phases.spacing.width_mean,
                "interval_width_std": phases.spacing.width_std,
                "kuiper": phases.spacing.kuiper,
                "kuiper_p": phases.spacing.kuiper_p,
                "variance_input_median": _median(roles.variance_input[cluster.neurons]),
                "variance_output_median": _median(roles.variance_output[cluster.neurons]),
                "secondary_is_double": doubling.share,
                "secondary_phase_r2": doubling.phase_r2,
            }
        )
    return rows


def _logits(logits: LogitExplanation) -> dict[str, Any]:
    by_parts, fitted, identity = logits.forms.by_parts, logits.forms.fitted, logits.identity
    return {
        "correct": logits.parts.correct,
        "residual_variance_share": logits.skip_share,
        "r2": dataclasses.asdict(logits.r2),
        "coefficients": {
            str(k): {
                "C": float(by_parts.C[row]),
                "D": float(by_parts.D[row]),
                "C_fitted": float(fitted.C[row]),
                "D_fitted": float(fitted.D[row]),
            }
            for row, k in enumerate(logits.parts.keys)
        },
        "closed_form": {
            field.name: _form(getattr(logits.forms, field.name)) for field in dataclasses.fields(logits.forms)
        },
        "identity": {"of_a": _identity(identity.of_a), "of_b": _identity(identity.of_b)},
        "weak_spots": [dataclasses.asdict(spot) for spot in logits.weak_spots],
        "algorithm": logits.algorithm.to_dict(),
    }


def _form(form: ClosedForm) -> dict[str, Any]:
    return {"r2": form.r2, "correct": form.correct, "inputs": form.p**2, "min_margin": form.min_margin}


def _identity(half: IdentityMatrix) -> dict[str, Any]:
    return {
        "D": {str(k): float(D) for k, D in zip(half.keys, half.D, strict=True)},
        "E": {str(k): float(E) for k, E in zip(half.keys, half.E, strict=True)},
        "variance_share": half.share,
        "largest_waves": [
            {"k_c": k, "k_token": k_token, "amplitude": amplitude, "phase": phase}
            for k, k_token, amplitude, phase in half.largest_waves(WAVES_LISTED)
        ],
    }


def _median(values: np.ndarray) -> float | None:
    return float(np.median(values)) if len(values) else None
