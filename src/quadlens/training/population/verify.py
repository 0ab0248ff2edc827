"""Whether a population's numbers are supported by certificates and weights.

Certificates are proved again, and rows must fit what they rest on.

A sweep's directory has the weights, so everything can be verified: files against their hashes, the
certificate with the independent checker, the answers by evaluating the model, and what results.json
and the dataset claim against these. A dataset alone has no weights. Then only what would contradict
itself is found: settings against the run's hash, proofs against answers, bounds against exact
errors; a careful forger is not. The weights of two models of the shipped dataset are bundled
(`pizza`, `mismatched`), and a test verifies these two rows whole.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadlens.base.errors import QuadlensError
from quadlens.base.schema import from_json
from quadlens.network.evaluate import evaluate
from quadlens.network.native import load_with_sha256
from quadlens.proofs.pairs.brute import brute_force_operations
from quadlens.training.population import dataset
from quadlens.training.population.store import ModelManifest, RunDirectory, Store
from quadlens_checker import check

if TYPE_CHECKING:
    import polars

# Float64 sums in another order: stored and computed again agree to this share.
RELATIVE = 1e-9


@dataclass(frozen=True)
class Verification:
    """What was verified.

    Attributes:
        models: How many models were looked at.
        weights: Whether their weights were there, so that certificates were proved again.
        problems: Weights (or file) → why it is not supported.
    """

    models: int
    weights: bool
    problems: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """The JSON view."""
        what = (
            "certificates, answers and claims"
            if self.weights
            else "consistency of a dataset without weights"
        )
        return {"models": self.models, "verified": what, "problems": dict(self.problems)}


def verify(
    path: Path, max_seconds: float, progress: Callable[[int], None] = lambda done: None
) -> Verification:
    """Verify a sweep's directory, or a dataset alone.

    Args:
        path: Either.
        max_seconds: For the checker, per certificate.
        progress: Told how many models are done.
    """
    if not path.is_dir():
        frame = dataset.read(path)
        return Verification(len(frame), False, _of_rows(frame))
    store = Store(path)
    problems: dict[str, str] = {}
    run_ids = [run_id for run_id in store.run_ids() if store.finished(run_id).analysed]
    for done, run_id in enumerate(run_ids):
        progress(done)
        problem = verify_model(store.finished(run_id), run_id, max_seconds)
        if problem is not None:
            problems[run_id] = problem
    if not problems:
        frame = dataset.read(path)
        problems = _of_rows(frame)
        if store.dataset.is_file() and not dataset.read(store.dataset).equals(frame):
            problems[store.dataset.name] = (
                "it is not what the models' own files give; delete it and run the sweep again"
            )
    return Verification(len(run_ids), True, problems)


def verify_model(run: RunDirectory, run_id: str, max_seconds: float) -> str | None:
    """Why the directory of a model is not supported by its weights; None when all of it is."""
    try:
        if problem := run.problem(run_id):
            return problem
        report = check(str(run.certificate), str(run.training.model), max_seconds)
        if report.verdict != "VERIFIED":
            return f"its certificate is not verified ({report.verdict}): {report.reason}"
        answers = evaluate(load_with_sha256(run.training.model)[0].collapse())
        return next(
            _unsupported(run.read_results(), answers.correct, answers.min_margin, report.claims),
            None,
        )
    except (QuadlensError, OSError, ValueError, KeyError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


def _unsupported(
    results: Mapping[str, Any], correct: int, min_margin: float, proved: Mapping[str, Any]
) -> Iterator[str]:
    """Find claims of results.json that certificate or answers do not support."""
    stored = results["evaluation"]
    if stored["correct"] != correct:
        yield f"results.json has {stored['correct']} right answers; the model gives {correct}"
    if not _close(stored["min_margin"], min_margin):
        yield (
            f"results.json has a smallest margin of {stored['min_margin']}; "
            f"the model's is {min_margin}"
        )
    for proof in results["proofs"]:
        claimed, strategy = proof["certified_inputs"], proof["strategy"]
        if claimed > proved["certified_inputs"]:
            yield (
                f"results.json has {claimed} inputs proved by {strategy}; "
                f"the certificate proves {proved['certified_inputs']}"
            )
        if problem := _margin_problem(proof, proved["inputs"], min_margin):
            yield problem


def _margin_problem(proof: Mapping[str, Any], inputs: int, min_margin: float) -> str | None:
    """A proof of all inputs bounds the smallest margin from below: a bound above it is false."""
    margin = proof["margin_lower_bound"]
    whole = proof["certified_inputs"] == inputs and margin is not None
    if whole and margin > min_margin and not _close(margin, min_margin):
        return f"{proof['strategy']} claims a margin of {margin}; the smallest is {min_margin}"
    return None


def _of_rows(frame: "polars.DataFrame") -> dict[str, str]:
    problems = {}
    for row in frame.iter_rows(named=True):
        try:
            problem = next(_contradictions(row), None)
        except (QuadlensError, ValueError, KeyError, TypeError) as error:
            problem = f"{type(error).__name__}: {error}"
        if problem is not None:
            problems[str(row["run_id"])] = problem
    if len(frame["run_id"].unique()) < len(frame):
        problems["run_id"] = "some models stand in it twice"
    return problems


def _contradictions(row: Mapping[str, Any]) -> Iterator[str]:
    """What in one row of a dataset contradicts the rest of it."""
    stored = json.loads(row["manifest"])
    manifest = from_json(
        ModelManifest, json.dumps(stored).encode(), "manifest"
    )  # refuses a wrong hash of the settings
    if (
        manifest.run_id != row["run_id"]
        or manifest.sha256.get("model.safetensors") != row["model_sha256"]
    ):
        yield "its manifest is of another model"
    for name in dataset.CONFIG_COLUMNS:
        if getattr(manifest.config, name) != row[name]:
            yield f"{name} is {row[name]}; its manifest says {getattr(manifest.config, name)}"
    inputs, correct = row["p"] ** 2, row["correct"]
    if row["inputs"] != inputs or not 0 <= correct <= inputs or row["accuracy"] != correct / inputs:
        yield (
            f"{correct} right answers of {row['inputs']} inputs with accuracy {row['accuracy']} "
            f"and p = {row['p']}"
        )
    if row["brute_force_flops"] != brute_force_operations(row["p"], row["d_mlp"]):
        yield f"brute force takes {brute_force_operations(row['p'], row['d_mlp'])} operations"
    roles = [neuron["role"] for neuron in row["neurons"]]
    if len(roles) != row["d_mlp"] or row["good_model"] != (row["neurons_mismatching"] == 0):
        yield (
            f"{len(roles)} neurons of {row['d_mlp']}, good_model with {row['neurons_mismatching']} "
            "mismatching"
        )
    for proof in row["proofs"]:
        certified = proof["certified_inputs"]
        if not 0 <= certified <= correct or (proof["verdict"] == "CERTIFIED") != (
            certified == inputs
        ):
            yield (
                f"{proof['strategy']} is {proof['verdict']} with {certified} inputs proved of "
                f"{correct} right ones"
            )
        if problem := _margin_problem(proof, inputs, row["min_margin"]):
            yield problem
    for cluster in row["clusters"]:
        exact, bound = cluster["relative_exact_psi"], cluster["relative_bound"]
        if exact is not None and bound is not None and exact > bound and not _close(exact, bound):
            yield f"k = {cluster['k']}: the exact error {exact} is above its bound {bound}"


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= RELATIVE * max(abs(a), abs(b), 1.0)
