"""The certificate: one JSON file with all that a checker needs beside the model file.

Its bytes are deterministic.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from quadlens.base.atomic import write_atomic
from quadlens.base.display import Displayed, facts_html
from quadlens.base.errors import BadConfig
from quadlens.base.numbers import at_least, at_most, double_above, double_below
from quadlens.network.config import Config
from quadlens.network.groups import group_table
from quadlens.network.native import to_bytes
from quadlens.network.task import Task
from quadlens.network.weights import Weights
from quadlens.proofs.pairs.checker_limits import too_long, unknown_model
from quadlens.proofs.pairs.float32 import FLOAT32_EXECUTION, Float32Bound
from quadlens.proofs.pairs.proof import Proof, Verdict
from quadlens_checker import limits

FORMAT, VERSION = "quadlens-certificate", 3


@dataclass(frozen=True, eq=False, repr=False)
class Certificate(Displayed):
    """A proof about one model file, with its cost and what float32 execution can change.

    Attributes:
        model_sha256: SHA-256 of the model file.
        config: What the model is: its task, widths, attention and activation.
        proof: What is proved, in real arithmetic on the stored weights.
        collapse_flops: What the collapse costs; every strategy needs it but `thin`, for which it is
            0.
        brute_force_flops: What `brute` costs beyond the collapse.
        brute_force_collapse_flops: What the full collapse costs, which `brute` needs.
        float32: The second line: how far float32 execution can be from real arithmetic.
        model: The network, for the checker that is asked before a file is written.
    """

    model_sha256: str
    config: Config
    proof: Proof
    collapse_flops: int
    brute_force_flops: int
    brute_force_collapse_flops: int
    float32: Float32Bound
    model: Weights | None = None

    @property
    def p(self) -> int:
        return self.config.p

    @property
    def d_mlp(self) -> int:
        return self.config.d_mlp

    @property
    def verdict(self) -> Verdict:
        """CERTIFIED, PARTLY or UNPROVED."""
        return self.proof.verdict

    @property
    def certified_inputs(self) -> int:
        """How many of the p² inputs are proved right."""
        return int(self.proof.certified.sum())

    @property
    def wrong(self) -> list[list[int]]:
        """Inputs proved to be answered wrong, as [a, b, answered, expected]; at most 100."""
        answers = self.config.task.answers
        return [[a, b, c, int(answers[a, b])] for a, b, c in self.proof.witnesses]

    @property
    def total_flops(self) -> int:
        """Return what the proof costs with the collapse that it needs."""
        return self.proof.operations + self.collapse_flops

    @property
    def cost_share(self) -> float:
        """Return the proof's cost over that of brute force, both with their collapse."""
        return self.total_flops / (self.brute_force_flops + self.brute_force_collapse_flops)

    @property
    def cost_share_beyond_collapse(self) -> float:
        """Return the same share without the full collapse on either side.

        A small collapse of a strategy's own is part of its cost.
        """
        return self.proof.operations / self.brute_force_flops

    @cached_property
    def obstacle(self) -> str | None:
        """Why the checker could not read this proof's certificate; None when it can.

        Its own limits are applied.
        """
        if self.proof.margin is None:
            return None
        known = (
            unknown_model(self.config)
            or too_long("margin", self.proof.margin)
            or too_long("float32 error", self.float32.error)
            or self.proof.obstacle
        )
        if known is not None:
            return known
        if self.proof.hints is None:
            return (
                "the checker has no theorem to follow this proof of strategy "
                f"{self.proof.strategy} by"
            )
        content = self.to_bytes()
        if len(content) > limits.MAX_CERTIFICATE_BYTES:
            largest = f"{limits.MAX_CERTIFICATE_BYTES:,} bytes"
            return f"its file would be larger than {largest}, which is all the checker reads"
        for mark, most in limits.MAX_JSON_MARKS.items():
            if content.count(mark.encode()) > most:
                return (
                    f"its file would have more than {most:,} times {mark}, which "
                    "is all the checker reads"
                )
        return None

    @property
    def checkable(self) -> bool:
        """Whether the checker can follow the proof, or there is nothing to follow."""
        return self.obstacle is None

    @property
    def float32_certified(self) -> bool:
        """Whether the certified inputs are also right in float32: margin > 2 · error."""
        return self.float32.keeps(self.proof.margin)

    @property
    def statement(self) -> str:
        """State what is proved, in words; decimals are rounded to the safe side."""
        inputs, proved = self.p**2, self.certified_inputs
        margin, error = self.proof.margin, self.float32.error
        if margin is None:
            return "Nothing is proved about this model."
        which = (
            f"For all a, b in 0…{self.p - 1}"
            if proved == inputs
            else f"For {proved} of the {inputs} pairs a, b in 0…{self.p - 1} (all but "
            "those listed as uncertified)"
        )
        real = (
            f"{which}, in real arithmetic on the stored weights, the logit of "
            f"{operation(self.config.task)} "
            f"exceeds that of every other answer, by at least {at_least(margin, 9)}."
        )
        if error is None or not self.float32_certified:
            return real
        return (
            f"{real} Float32 execution changes no logit by more than {at_most(error, 9)}, "
            f"so {'the' if proved == inputs else 'their'} answers are the "
            f"same: {FLOAT32_EXECUTION}."
        )

    def _facts(self) -> dict[str, object]:
        margin = self.proof.margin
        return {
            "": self.verdict,
            "strategy": self.proof.strategy,
            "inputs": f"{self.certified_inputs} of {self.p**2}",
            "margin": "none" if margin is None else f"≥ {at_least(margin, 9)}",
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
                "activation": self.config.activation,
                **_kind(self.config),
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
            "hints": {} if proof.hints is None else dict(proof.hints.to_json()),
            "cost": {
                # Of `thin` with 64 signs as one operation, so that certificates keep their bytes.
                "flops": proof.operations
                if proof.filed_operations is None
                else proof.filed_operations,
                "collapse_flops": self.collapse_flops,
                "brute_force_flops": self.brute_force_flops,
            },
        }

    def to_bytes(self) -> bytes:
        """The file; the same model and strategy always give the same bytes."""
        return (
            json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            + "\n"
        ).encode()

    def save(
        self,
        path: str | Path,
        tell: Callable[[str], None] = lambda _: None,
        model: bytes | None = None,
    ) -> None:
        """Write the certificate, whole or not at all, once the checker accepts its first stage.

        A short proof is checked in full before.

        Args:
            path: Where.
            tell: Called with a sentence where the proof is too long to be checked here.
            model: The model's file; what `quadlens.save` writes when None.

        Raises:
            BadConfig: for a proof that nobody could check.
        """
        self._check_before_writing(tell, model)
        write_atomic(Path(path), self.to_bytes())

    def _check_before_writing(self, tell: Callable[[str], None], model: bytes | None) -> None:
        from quadlens.proofs.before_writing import check_before_writing

        self.need_claims()
        content = to_bytes(self.model) if model is None and self.model is not None else model
        if content is not None:
            check_before_writing(self.to_json(), content, tell)

    @cached_property
    def is_written(self) -> bool:
        """Say whether a report contains the certificate's file.

        For one layer without norms the prover knows that the checker follows.
        """
        if not self.checkable or self.config.no_tables is None:
            return self.checkable
        try:
            self._check_before_writing(lambda _: None, None)
        except BadConfig:
            return False
        return True

    def need_claims(self) -> None:
        """Refuse a proof that the checker has no theorem or no room for."""
        if self.obstacle:
            raise BadConfig(
                f"{self.verdict}: {self.certified_inputs} of {self.p**2} inputs are "
                "proved, but no certificate is "
                f"written: {self.obstacle}; run without -o to see the proof"
            )


def operation(task: Task) -> str:
    """Name the operation as the statement does; a table is named by its hash."""
    if task.by_formula:
        units = (
            " (element i being the residue i + 1)" if task.name in ("multiply", "divide") else ""
        )
        return task.words + units + ("," if task.name == "multiply0" else "")
    if task.name == "table":
        return f"a·b by the table with SHA-256 {task.sha256}"
    return f"the product a·b in {task.name} (table with SHA-256 {task.sha256})"


def _kind(config: Config) -> dict[str, Any]:
    """Task and attention, and the table of answers where its name does not say it."""
    task = config.task
    known = task.by_formula or (
        task.name != "table" and np.array_equal(task.answers, group_table(task.name))
    )
    about = {"task": task.to_json(), "attention": config.attention_kind}
    return about if known else {**about, "answers": task.answers.tolist()}


def rational(x: Fraction | None) -> str | None:
    """An exact rational as text, "numerator/denominator"."""
    return None if x is None else f"{x.numerator}/{x.denominator}"


def summary(certificate: Certificate) -> dict[str, Any]:
    """Return the JSON of `quadlens certify`: plain numbers, bounds rounded to the safe side."""
    proof = certificate.proof
    return {
        "verdict": certificate.verdict,
        "statement": certificate.statement,
        "strategy": proof.strategy,
        "p": certificate.p,
        "d_mlp": certificate.d_mlp,
        "inputs": certificate.p**2,
        "certified_inputs": certificate.certified_inputs,
        "accuracy_lower_bound": double_below(
            Fraction(certificate.certified_inputs, certificate.p**2)
        ),
        "margin_lower_bound": double_below(proof.margin),
        "margin_is_exact": proof.exact,
        "terms": {name: double_above(term.bound) for name, term in proof.terms.items()},
        "worst_inputs": {
            name: list(term.worst) for name, term in proof.terms.items() if term.worst is not None
        },
        "reason": proof.reason,
        "witnesses": [list(witness) for witness in proof.witnesses],
        "tied": [list(tie) for tie in proof.tied],
        "float32_error": double_above(certificate.float32.error),
        "float32_certified": certificate.float32_certified,
        "float32_reason": certificate.float32.why_not(proof.margin),
        "flops": proof.operations,
        "collapse_flops": certificate.collapse_flops,
        "brute_force_flops": certificate.brute_force_flops,
        "brute_force_collapse_flops": certificate.brute_force_collapse_flops,
        "cost_share": certificate.cost_share,
        "cost_share_beyond_collapse": certificate.cost_share_beyond_collapse,
        "model_sha256": certificate.model_sha256,
    }
