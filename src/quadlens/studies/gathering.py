"""Run every room on one model, once."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from quadlens.errors import BadConfig
from quadlens.explanation import explain
from quadlens.logits.skip_share import skip_shares
from quadlens.model.bundled import resolve
from quadlens.model.evaluate import MAX_OPERATIONS, evaluate, margins
from quadlens.model.native import load_with_sha256
from quadlens.model.params import Model
from quadlens.proofs.attempt import attempt
from quadlens.proofs.brute import brute_force_operations
from quadlens.proofs.certificate import Certificate
from quadlens.proofs.collapse_cost import collapse_operations
from quadlens.proofs.frontier import IN_INTEGERS
from quadlens.proofs.produce import STRATEGIES, certify
from quadlens.proofs.proof import Proof
from quadlens.quadrature import bounds
from quadlens.studies.published import read_population, read_published
from quadlens.studies.value import Results
from quadlens.training.history import History, read_history
from quadlens.training.outputs import RunFiles

# Past this many of brute force's operations, proofs in exact integers take minutes and are left out.
EXACT_LIMIT = 10**9


def gather(model: str | Path, proofs: bool = True, progress: Callable[[str], None] = lambda step: None) -> Results:
    """Run every room on one model.

    Args:
        model: A file, or the name of a bundled model.
        proofs: Also run every proof strategy.
        progress: Called with what is about to be done.
    """
    path = resolve(model)
    loaded, digest = load_with_sha256(path)
    files = RunFiles(path)
    has_history = files.history.exists() and files.spectrum.exists()
    return gather_results(
        loaded,
        path.name.removesuffix(".safetensors"),
        digest,
        read_history(files.history, files.spectrum) if has_history else None,
        proofs,
        progress,
    )


def gather_results(
    model: Model, name: str, sha256: str, history: History | None, proofs: bool, progress: Callable[[str], None]
) -> Results:
    """The same for a model in memory."""
    config = model.config
    p, d_mlp = config.p, config.d_mlp
    if float(p) ** 3 * d_mlp > MAX_OPERATIONS:
        raise BadConfig(f"a report looks at all {p}³ logits, which is too many; use explain --no-logits and bounds")
    collapsed = model.collapse()
    progress("answers")
    evaluation = evaluate(collapsed)
    progress("neurons and logits")
    explanation = explain(model)
    progress("bounds")
    rules = bounds(model) if config.activation == "relu" else None
    certificates: tuple[Certificate, ...] = ()
    if proofs:
        progress("proofs")
        certificates = _prove(model, sha256)
    return Results(
        name=name,
        sha256=sha256,
        config=config,
        collapsed=collapsed,
        evaluation=evaluation,
        margins=margins(collapsed),
        skip_shares=skip_shares(collapsed),
        explanation=explanation,
        bounds=rules,
        history=history,
        certificates=certificates,
        published=read_published(),
        population=read_population(),
    )


def _prove(model: Model, sha256: str) -> tuple[Certificate, ...]:
    """One certificate a strategy, cheapest first; brute force only where no cheaper strategy is exact."""
    names = [name for name in STRATEGIES if name not in ("auto", "brute")]
    if brute_force_operations(model.config.p, model.config.d_mlp) > EXACT_LIMIT:
        names = [name for name in names if name not in IN_INTEGERS]
    first = certify(model, names[0], sha256)
    collapse = collapse_operations(model)
    found = [first, *(_with(first, attempt(STRATEGIES[name], model), collapse) for name in names[1:])]
    if "arcs" in names and not any(one.proof.exact for one in found):
        found.append(_with(first, attempt(STRATEGIES["brute"], model), collapse))
    return tuple(sorted(found, key=lambda one: one.proof.operations.total))


def _with(first: Certificate, proof: Proof, collapse: int) -> Certificate:
    """The certificate of another proof of the same model: the float32 line and brute force's cost are the same."""
    return replace(first, proof=proof, collapse_flops=0 if proof.own_collapse else collapse)
