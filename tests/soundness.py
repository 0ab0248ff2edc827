"""What soundness means: every claim against exhaustive exact evaluation, without tolerance."""

from fractions import Fraction

from quadlens.model.exact import exact_logits
from quadlens.model.params import Model
from quadlens.proofs.proof import Proof


def true_margins(model: Model) -> list[list[Fraction]]:
    """Every margin, from every logit, with no rounding."""
    exact = exact_logits(model)
    p, margins = exact.p, []
    for a in range(p):
        table = [[int(x) for x in row] for row in exact.slices[a].tolist()]
        rights = [row.pop((a + b) % p) for b, row in enumerate(table)]
        margins.append([Fraction(right - max(row), 1 << exact.shift) for right, row in zip(rights, table, strict=True)])
    return margins


def check_sound(proof: Proof, truth: list[list[Fraction]]) -> None:
    """What is certified is right, with at least the margin claimed; what is called wrong is wrong."""
    for a, row in enumerate(truth):
        for b, margin in enumerate(row):
            if proof.certified[a, b]:
                assert proof.margin is not None
                assert margin >= proof.margin > 0
    for a, b, answered in proof.witnesses:
        assert truth[a][b] <= 0
        assert answered != (a + b) % len(truth)


def check_complete(proof: Proof, truth: list[list[Fraction]]) -> None:
    """Exact strategies certify all that is true, with the true smallest margin, and give a witness for the rest."""
    right = [margin for row in truth for margin in row if margin > 0]
    assert int(proof.certified.sum()) == len(right)
    assert proof.margin == (min(right) if right else None)
    assert len(proof.witnesses) == min(100, len(truth) ** 2 - len(right))
