"""The certificate: one JSON file, deterministic bytes, everything a checker needs beside the model file."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from quadlens.display import Displayed, facts_html
from quadlens.errors import BadConfig
from quadlens.model.activation import Activation
from quadlens.model.atomic import write_atomic
from quadlens.proofs.float32 import Float32Bound
from quadlens.proofs.proof import NoHints, Proof, Verdict

FORMAT = "quadlens-certificate"
VERSION = 1
# The checker holds p³ exact logits and refuses more.
LARGEST_CHECKED_P = 257
# Their proofs carry no hints: the checker has no theorem to check them by.
UNCHECKED_STRATEGIES = ("lipschitz",)


@dataclass(frozen=True, eq=False, repr=False)
class Certificate(Displayed):
    """A proof about one model file, with its cost and what float32 execution can change.

    Attributes:
        model_sha256: SHA-256 of the model file.
        p: Modulus.
        d_mlp: Number of neurons.
        activation: Of the hidden layer.
        proof: What is proved, in real arithmetic on the stored weights.
        collapse_flops: What the collapse costs; every strategy needs it but `thin`, for which it is 0.
        brute_force_flops: What `brute` costs beyond the collapse.
        float32: The second line: how far float32 execution can be from real arithmetic.
    """

    model_sha256: str
    p: int
    d_mlp: int
    activation: Activation
    proof: Proof
    collapse_flops: int
    brute_force_flops: int
    float32: Float32Bound

    @property
    def verdict(self) -> Verdict:
        """CERTIFIED, PARTLY or NOT."""
        return self.proof.verdict

    @property
    def certified_inputs(self) -> int:
        """How many of the p² inputs are proved right."""
        return int(self.proof.certified.sum())

    @property
    def total_flops(self) -> int:
        """What the proof costs with the collapse it needs."""
        return self.proof.operations.total + self.collapse_flops

    @property
    def checkable(self) -> bool:
        """Whether the checker can follow the proof: it has hints or needs none, and p is within the checker's reach."""
        has_hints = self.proof.strategy == "brute" or not isinstance(self.proof.hints, NoHints)
        return self.proof.margin is None or (has_hints and self.p <= LARGEST_CHECKED_P)

    @property
    def float32_certified(self) -> bool:
        """Whether the certified inputs are also right in float32: margin > 2 · error."""
        return self.float32.keeps(self.proof.margin)

    @property
    def statement(self) -> str:
        """What is proved, in words; decimals are rounded to the safe side."""
        inputs, proved = self.p**2, self.certified_inputs
        margin, error = self.proof.margin, self.float32.error
        if margin is None:
            return "Nothing is proved about this model."
        which = (
            f"For all a, b in 0…{self.p - 1}"
            if proved == inputs
            else f"For {proved} of the {inputs} pairs a, b in 0…{self.p - 1} (all but those listed as uncertified)"
        )
        real = (
            f"{which}, in real arithmetic on the stored weights, the logit of a + b mod {self.p} "
            f"exceeds that of every other answer, by at least {_nine_decimals(margin, math.floor)} "
            "(exactly: claims.margin)."
        )
        if error is None or not self.float32_certified:
            return real
        return (
            f"{real} Float32 execution in any order changes no logit by more than {_nine_decimals(error, math.ceil)}, "
            f"so {'the' if proved == inputs else 'their'} answers are the same."
        )

    def _facts(self) -> dict[str, object]:
        margin = self.proof.margin
        return {
            "": self.verdict,
            "strategy": self.proof.strategy,
            "inputs": f"{self.certified_inputs} of {self.p**2}",
            "margin": "none" if margin is None else f"≥ {_nine_decimals(margin, math.floor)}",
            "operations": self.total_flops,
        }

    def _repr_html_(self) -> str:
        """Verdict and statement, for a notebook."""
        facts = {name or "verdict": value for name, value in self._facts().items()}
        return facts_html("Certificate", {**facts, "statement": self.statement})

    def to_json(self) -> dict[str, Any]:
        """JSON types only; integers and strings, no floats, so that every number is exact."""
        proof = self.proof
        return {
            "format": FORMAT,
            "version": VERSION,
            "statement": self.statement,
            "verdict": self.verdict,
            "strategy": proof.strategy,
            "model": {
                "sha256": self.model_sha256,
                "p": self.p,
                "d_mlp": self.d_mlp,
                "activation": self.activation,
            },
            "claims": {
                "inputs": self.p**2,
                "certified_inputs": self.certified_inputs,
                "margin": rational(proof.margin),
                "float32_error": rational(self.float32.error),
                "float32_certified": self.float32_certified,
            },
            "uncertified": [list(pair) for pair in proof.uncertified],
            "witnesses": [list(witness) for witness in proof.witnesses],
            "hints": dict(proof.hints.to_json()),
            "cost": {
                "flops": proof.operations.total,
                "collapse_flops": self.collapse_flops,
                "brute_force_flops": self.brute_force_flops,
            },
        }

    def to_bytes(self) -> bytes:
        """The file; the same model and strategy always give the same bytes."""
        return (json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n").encode()

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all.

        Raises:
            BadConfig: for a proof that nobody could check.
        """
        if not self.checkable:
            raise BadConfig(not_checkable(self.proof.strategy, self.p))
        write_atomic(path, self.to_bytes())


def not_checkable(strategy: str, p: int) -> str:
    """Why a proof by this strategy has no certificate file, and what to do."""
    if p > LARGEST_CHECKED_P:
        why, advice = f"is beyond the checker, which takes p up to {LARGEST_CHECKED_P}", ""
    elif strategy in UNCHECKED_STRATEGIES:
        why, advice = "uses bounds that the checker does not know", ", or with --strategy arcs"
    else:
        why, advice = "is in float64 with a rounding bound", ", or with --strategy arcs"
    return f"the proof of strategy {strategy} at p = {p} {why} and has no certificate; run without -o{advice}"


def rational(x: Fraction | None) -> str | None:
    """An exact rational as text, "numerator/denominator"."""
    return None if x is None else f"{x.numerator}/{x.denominator}"


def _nine_decimals(x: Fraction, rounded: Callable[[Fraction], int]) -> str:
    """A positive number with nine decimals, rounded by `math.floor` or `math.ceil`."""
    whole, part = divmod(rounded(x * 10**9), 10**9)
    return f"{whole}.{part:09d}"
