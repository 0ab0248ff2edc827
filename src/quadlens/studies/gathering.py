"""Run every room on one model, once."""

from collections.abc import Callable
from pathlib import Path

from quadlens.errors import BadConfig
from quadlens.explanation import explain
from quadlens.logits.skip_share import skip_shares
from quadlens.model.bundled import resolve
from quadlens.model.evaluate import MAX_OPERATIONS, evaluate, margins
from quadlens.model.native import load_with_sha256
from quadlens.model.params import Model
from quadlens.proofs.brute import brute_force_operations
from quadlens.proofs.certificate import Certificate
from quadlens.proofs.frontier import IN_INTEGERS, WaterfallStep, waterfall
from quadlens.proofs.produce import STRATEGIES, Prover
from quadlens.quadrature import bounds
from quadlens.spectrum.anatomy import Anatomy
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
    anatomy = Anatomy(model)
    collapsed = anatomy.collapsed
    progress("answers")
    evaluation = evaluate(collapsed)
    progress("neurons and logits")
    explanation = explain(model)
    progress("bounds")
    rules = bounds(model) if config.activation == "relu" else None
    certificates: tuple[Certificate, ...] = ()
    steps: tuple[WaterfallStep, ...] = ()
    if proofs:
        progress("proofs")
        certificates = _prove(anatomy, sha256)
        itemised = next((one.proof for one in certificates if one.proof.logit_error is not None), None)
        steps = waterfall(anatomy, itemised) if itemised else ()
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
        waterfall=steps,
        published=read_published(),
        population=read_population(),
    )


def _prove(anatomy: Anatomy, sha256: str) -> tuple[Certificate, ...]:
    """One certificate a strategy, cheapest first; brute force only where no cheaper strategy is exact."""
    names = [name for name in STRATEGIES if name not in ("auto", "brute")]
    if brute_force_operations(anatomy.config.p, anatomy.config.d_mlp) > EXACT_LIMIT:
        names = [name for name in names if name not in IN_INTEGERS]
    prover = Prover(anatomy, sha256)
    found = [prover.certify(name) for name in names]
    if "arcs" in names and not any(one.proof.exact for one in found):
        found.append(prover.certify("brute"))
    return tuple(sorted(found, key=lambda one: one.proof.operations.total))
