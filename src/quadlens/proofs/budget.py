"""Where the logits differ from the pizza form, term by term, as they are: the lipschitz terms, measured.

The steps of the proof of `lipschitz.py`, one replacement at a time, evaluated for all a, b, c in float64: an estimate
(no rounding bound), to hold against the bound of the same name.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from quadlens.model.weights import Weights
from quadlens.numbers import double_above
from quadlens.proofs.brute import brute_force_operations
from quadlens.proofs.proof import Proof, Term
from quadlens.spectrum.anatomy import Anatomy, anatomy_of
from quadlens.spectrum.harmonics import doubled

Logits = Float[np.ndarray, "p p p"]
# Past this many operations of one pass over all logits, the terms are not measured.
MAX_MEASURED_OPERATIONS = 2e10


@dataclass(frozen=True)
class WaterfallStep:
    """One term of the error budget (T2): what `lipschitz` proves about it, and what it is.

    Attributes:
        term: Its name.
        bound: Proved worst case over all inputs, in logits.
        worst: The input where the bound is largest, as "a+b"; None when it is the same everywhere.
        measured: The largest change of a logit that it makes, in float64; None when it was not measured.
        measured_at: Where, as "a+b→c".
    """

    term: str
    bound: float
    worst: str | None
    measured: float | None
    measured_at: str | None


@dataclass(frozen=True)
class MeasuredTerm:
    """estimate_: the largest change of a logit in one step, and the (a, b, c) that has it."""

    name: str
    largest: float
    worst: tuple[int, int, int]


def measure_budget(subject: Weights | Anatomy) -> tuple[MeasuredTerm, ...]:
    """Every step, and last `all`: the logits (relative to their mean over c) against the pizza form."""
    anatomy, terms = anatomy_of(subject), []
    first: Logits | None = None
    name, before = "", np.zeros((anatomy.config.p,) * 3)
    for name, after in _steps(anatomy):
        if first is None:
            first = after
        else:
            terms.append(_measured(name, after - before))
        before = after
    if first is None:
        raise ValueError(f"no step was taken, the last was {name!r}")
    return (*terms, _measured("all", before - first))


def _measured(name: str, change: Logits) -> MeasuredTerm:
    a, b, c = np.unravel_index(int(np.abs(change).argmax()), change.shape)
    return MeasuredTerm(name, float(abs(change[a, b, c])), (int(a), int(b), int(c)))


def _steps(anatomy: Anatomy) -> Iterator[tuple[str, Logits]]:
    """Logits after each replacement; the name is that of the replacement just made."""
    collapsed, spectra, clusters = anatomy.collapsed, anatomy.spectra, anatomy.clusters
    p, tokens = collapsed.p, np.arange(collapsed.p)
    W_L = collapsed.W_L - collapsed.W_L.mean(axis=0)
    skip = collapsed.S_a[:, None, :] + collapsed.S_b[None, :, :]
    mlp = _mlp(collapsed.U_a, collapsed.U_b, W_L)
    yield "", mlp + skip - skip.mean(axis=2, keepdims=True)
    yield "skip", mlp
    waves, turned = np.zeros_like(W_L), np.zeros_like(W_L)
    main, second = np.zeros_like(W_L), [np.zeros_like(W_L), np.zeros_like(W_L)]
    closed = np.zeros((p, p, p))
    w = 2 * np.pi / p
    for cluster in clusters:
        k, mine = cluster.k, cluster.neurons
        double = doubled(k, p)
        angle, twice = (tokens * k % p)[:, None] * w, (tokens * double % p)[:, None] * w
        waves[:, mine] = cluster.omega * np.cos(angle + cluster.psi)
        turned[:, mine] = cluster.omega * np.cos(angle + 2 * cluster.phi)
        main[:, mine] = cluster.rho * np.cos(angle + cluster.phi)
        for part, path in zip(second, (spectra.path_a, spectra.path_b), strict=True):
            part[:, mine] = path.amplitude[double - 1, mine] * np.cos(twice + path.phase[double - 1, mine])
        C = 4 / 3 * float(cluster.rho @ cluster.omega) / (2 * np.pi)
        cos_u = np.abs(np.cos(k * w * np.subtract.outer(tokens, tokens) / 2))
        rest = (tokens[:, None, None] + tokens[None, :, None] - tokens[None, None, :]) * k % p
        closed += C * cos_u[:, :, None] * np.cos(rest * w)
    yield "output residual", _mlp(collapsed.U_a, collapsed.U_b, waves)
    yield "kink", _mlp(collapsed.U_a - spectra.path_a.mean, collapsed.U_b - spectra.path_b.mean, waves)
    yield "cross-frequency", _mlp(main + second[0], main + second[1], waves)
    yield "harmonics", _mlp(main, main, waves)
    yield "phase", _mlp(main, main, turned)
    yield "quadrature", closed


def _mlp(
    U_a: Float[np.ndarray, "p d_mlp"], U_b: Float[np.ndarray, "p d_mlp"], W_L: Float[np.ndarray, "p d_mlp"]
) -> Logits:
    """Σ_i W_L[c,i] ReLU(U_a[a,i] + U_b[b,i]), one a at a time."""
    return np.stack([np.maximum(row + U_b, 0) @ W_L.T for row in U_a])


def waterfall(subject: Weights | Anatomy, proof: Proof) -> tuple[WaterfallStep, ...]:
    """The terms of the itemised proof beside their measured sizes, and last the whole; none for other proofs."""
    if not proof.terms or proof.logit_error is None:
        return ()
    small = brute_force_operations(subject.config.p, subject.config.d_mlp) <= MAX_MEASURED_OPERATIONS
    measured = {term.name: term for term in measure_budget(subject)} if small else {}
    steps = []
    for name, term in {**proof.terms, "all": Term(proof.logit_error)}.items():
        found = measured.get(name)
        steps.append(
            WaterfallStep(
                term=name,
                bound=float(double_above(term.bound) or 0.0),
                worst="+".join(map(str, term.worst)) if term.worst else None,
                measured=found.largest if found else None,
                measured_at="{}+{}→{}".format(*found.worst) if found else None,
            )
        )
    return tuple(steps)
