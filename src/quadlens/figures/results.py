"""Everything figures and pages are views of: one value for one model, gathered once."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from quadlens.certify.attempt import attempt
from quadlens.certify.brute import brute_force_operations
from quadlens.certify.certificate import Certificate
from quadlens.certify.collapse_cost import collapse_operations
from quadlens.certify.frontier import IN_INTEGERS
from quadlens.certify.produce import STRATEGIES, certify
from quadlens.certify.proof import Proof
from quadlens.errors import BadConfig
from quadlens.explanation import Explanation, explain
from quadlens.figures.published import PopulationSummary, Published, read_population, read_published
from quadlens.model.bundled import resolve
from quadlens.model.collapsed import Collapsed
from quadlens.model.config import Config, MLPConfig
from quadlens.model.evaluate import MAX_OPERATIONS, Evaluation, evaluate, pair_logits
from quadlens.model.native import load_with_sha256
from quadlens.model.params import Model
from quadlens.quadrature import Bounds, ClusterBounds, bounds
from quadlens.training.history import History, read_history
from quadlens.training.outputs import RunFiles

# Frequencies that get pictures of their own; a model without structure has dozens of faint clusters.
MAX_FREQUENCIES = 8
# Past this many of brute force's operations, proofs in exact integers take minutes and are left out.
EXACT_LIMIT = 10**9


@dataclass(frozen=True, eq=False)
class Results:
    """What is known about one model.

    Attributes:
        name: Bundled name, or file name without suffix.
        sha256: Of the model file.
        config: Its config.
        collapsed: U_a, U_b, W_L, S_a, S_b.
        evaluation: Answers over all inputs.
        margins: Right logit minus the largest other, for every (a, b).
        skip_shares: Variance over c of what the skip connection adds, over the variance over c of the logits.
        explanation: Neurons and logits.
        bounds: The clusters as quadrature rules; None where the activation has none.
        history: How it was trained; None where the run's files are not beside the model.
        certificates: One a proof strategy, cheapest first; empty where proofs were left out.
        published: The paper's numbers.
        population: Ours, over many models; None where there is none yet.
    """

    name: str
    sha256: str
    config: Config | MLPConfig
    collapsed: Collapsed
    evaluation: Evaluation
    margins: Float[np.ndarray, "p p"]
    skip_shares: Float[np.ndarray, "p p"]
    explanation: Explanation
    bounds: Bounds | None
    history: History | None
    certificates: tuple[Certificate, ...]
    published: Published
    population: PopulationSummary | None

    @property
    def p(self) -> int:
        """Modulus."""
        return self.explanation.p

    @property
    def keys(self) -> tuple[int, ...]:
        """Key frequencies, in order."""
        return self.explanation.key_frequencies

    @property
    def clusters(self) -> tuple[ClusterBounds, ...]:
        """Key frequencies that are quadrature rules, in order of k; the largest few where there are many."""
        found = [one for one in self.bounds.bounded if one.k in self.keys] if self.bounds else []
        largest = sorted(found, key=lambda one: -float((one.scheme.rho * one.scheme.omega).sum()))[:MAX_FREQUENCIES]
        return tuple(sorted(largest, key=lambda one: one.k))

    @property
    def certificate(self) -> Certificate | None:
        """The one to show: most inputs proved, then one that can be checked, the largest margin, and the cheapest."""
        return max(
            self.certificates,
            key=lambda one: (
                one.certified_inputs,
                one.checkable,
                one.proof.margin or 0,
                -one.proof.operations.total,
            ),
            default=None,
        )


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
    margins, skip_shares = input_maps(collapsed)
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
        margins=margins,
        skip_shares=skip_shares,
        explanation=explanation,
        bounds=rules,
        history=history,
        certificates=certificates,
        published=read_published(),
        population=read_population(),
    )


def input_maps(collapsed: Collapsed) -> tuple[Float[np.ndarray, "p p"], Float[np.ndarray, "p p"]]:
    """For every (a, b): right logit minus the largest other, and the skip connection's share of the variance over c."""
    p = collapsed.p
    margins, shares, b = np.empty((p, p)), np.empty((p, p)), np.arange(p)
    for a in range(p):
        logits = pair_logits(collapsed, np.stack([np.full(p, a), b], axis=1))
        variance = logits.var(axis=1)
        skip = (collapsed.S_a[a] + collapsed.S_b).var(axis=1)
        shares[a] = np.divide(skip, variance, out=np.zeros(p), where=variance > 0)
        right = logits[b, (a + b) % p]
        logits[b, (a + b) % p] = -np.inf
        margins[a] = right - logits.max(axis=1)
    return margins, shares


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
