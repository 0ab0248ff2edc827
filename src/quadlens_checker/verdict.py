"""The verdict: every claim of a certificate is proved again, or the certificate is rejected."""

import hashlib
import html
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from quadlens_checker import limits
from quadlens_checker.arcs import ScoreBounds, by_arcs
from quadlens_checker.collapse import Model, collapse
from quadlens_checker.direct import Layers, by_brute_force, read_layers
from quadlens_checker.direct import by_moments as by_direct_moments
from quadlens_checker.model_file import Config, Tensors, read_model
from quadlens_checker.moments import by_moments
from quadlens_checker.reading import (
    Clock,
    Rejected,
    TimedOut,
    integers,
    keys,
    parse_json,
    rational,
    read_file,
    require,
)
from quadlens_checker.stack import Stack, by_stack, read_stack
from quadlens_checker.tasks import Table, check_task
from quadlens_checker.thin import by_thin, cut_down

AnyModel = Model | Layers | Stack
Reader = Callable[
    [Config, Tensors, Any, Clock], Any
]  # config, tensors and hints → the model a proof is about
Prover = Callable[[Any, Any, Clock], ScoreBounds]
STRATEGIES: Mapping[str, tuple[Reader, Prover]] = {
    "arcs": (collapse, by_arcs),
    "brute": (read_layers, by_brute_force),
    "moments": (read_layers, by_direct_moments),
    "thin": (cut_down, by_thin),
}
MOMENTS_BY_ARCS: tuple[Reader, Prover] = collapse, by_moments
MAX_REASON_LENGTH = 2000  # a reason may quote the file
# What the theorem about float32 is about, as the statement of version 3 has it.
FLOAT32_EXECUTION = (
    "execution in IEEE binary32, rounded to nearest, with gradual underflow (of operands "
    "too), weights first rounded "
    "to it, layer after layer as stored, each entry of a product of matrices being a "
    "sum of products in any order, "
    "fused or not; no Strassen, no TF32 or bfloat16 inputs or "
    "accumulation, no layers multiplied out"
)


@dataclass(frozen=True)
class CheckReport:
    """The outcome of a check.

    Attributes:
        verdict: VERIFIED, all claims hold; REJECTED, they are not proved; TIMEOUT, the time was too
            short to tell.
        reason: why, in words.
        seconds: what the check took.
        model_sha256: SHA-256 of the model file that was checked; None where it could not be read.
        statement: of a verified certificate, what is proved, in words.
        claims: of a verified certificate, what was proved again.
        cost: of a verified certificate, the operations it says that its proof takes; no claim, and
            not checked.
        float32: why a verified certificate claims nothing about float32 execution; None where it
            does.
        checker: who says so: `python`, this package, or `proved`, the program on page `trust` of
            the documentation.
    """

    verdict: str
    reason: str
    seconds: float
    model_sha256: str | None = None
    statement: str | None = None
    claims: Mapping[str, Any] = field(default_factory=dict)
    cost: Mapping[str, int] = field(default_factory=dict)
    float32: str | None = None
    checker: str = "python"

    @property
    def inputs(self) -> str | None:
        """How many of how many inputs are proved right, in words."""
        verified = self.verdict == "VERIFIED"
        return (
            f"{self.claims['certified_inputs']} of {self.claims['inputs']} inputs"
            if verified
            else None
        )

    @property
    def cost_words(self) -> str | None:
        """Describe the cost that the certificate states, in words."""
        if not self.cost:
            return None
        flops, collapse, brute = (
            f"{self.cost[name]:,}" for name in ("flops", "collapse_flops", "brute_force_flops")
        )
        return (
            f"Cost, not checked: {flops} operations beyond {collapse} to "
            f"multiply out; brute force {brute}."
        )

    @property
    def exit_code(self) -> int:
        """0 when all inputs are proved right, else 1."""
        return int(
            self.verdict != "VERIFIED" or self.claims["certified_inputs"] < self.claims["inputs"]
        )

    def __repr__(self) -> str:
        words = (self.statement or self.reason)[:120]
        return f"CheckReport({self.verdict}, {self.seconds:.1f} s: {words})"

    def _repr_html_(self) -> str:
        """Verdict and statement, for a notebook."""
        return (
            f"<p><b>{self.verdict}</b> ({self.seconds:.1f} s): "
            f"{html.escape(self.statement or self.reason)}</p>"
        )


def statement(
    p: int,
    certified: int,
    margin: Fraction,
    error: Fraction | None,
    operation: str,
    version: int = 3,
) -> str:
    """State the claims in words, decimals rounded to the safe side.

    A certificate of this version must say exactly this.
    """

    def decimals(billionths: int) -> str:
        return f"{billionths // 10**9}.{billionths % 10**9:09d}"

    some = (
        f"For {certified} of the {p * p} pairs a, b in 0…{p - 1} (all but "
        "those listed as uncertified)"
    )
    which = some if certified < p * p else f"For all a, b in 0…{p - 1}"
    text = f"{which}, in real arithmetic on the stored weights, the logit of {operation} "
    text += f"exceeds that of every other answer, by at least {decimals(margin * 10**9 // 1)}"
    text += "." if version == 3 else " (exactly: claims.margin)."
    if error is None or margin <= 2 * error:
        return text
    change, so = (
        decimals(-(-error * 10**9 // 1)),
        f"so {'the' if certified == p * p else 'their'} answers are the same",
    )
    if (
        version < 3
    ):  # the words say less than the theorem assumes, and are kept for the files that have them
        return (
            f"{text} Float32 execution in any order changes no logit by more than {change}, {so}."
        )
    return (
        f"{text} Float32 execution changes no logit by more than {change}, "
        f"{so}: {FLOAT32_EXECUTION}."
    )


def float32_reason(certificate: Any) -> str | None:
    """Say why a verified certificate claims nothing about float32; None where it does."""
    claims, about = certificate["claims"], certificate["model"]
    if certificate["strategy"] == "cells":
        return "no standard says how exactly e^x is computed, so that nothing is known of softmax"
    if claims["float32_certified"]:
        return None
    if claims["float32_error"] is not None:
        return "twice what float32 execution can change is more than the margin claimed"
    if about.get("attention", "constant") != "constant":
        return "no standard says how exactly e^x is computed, so that nothing is known of softmax"
    if about["activation"] not in ("relu", "abs"):
        return f"the bound is for relu and abs, and this model has {about['activation']}"
    return (
        "no bound is claimed; there is none for several layers or norms, or weights "
        "that float32 could overflow with"
    )


def verify(certificate: Any, content: bytes, clock: Clock) -> None:
    """Raise `Rejected` unless every claim of the certificate is proved."""
    shape_and_limits(certificate, content, clock)()


def shape_and_limits(certificate: Any, content: bytes, clock: Clock) -> Callable[[], None]:
    """Raise `Rejected` for a certificate that cannot be checked; return its proof's check.

    It is rejected whatever its proof says.

    This is the first stage of every check: versions, words, counts, hints and weights are what this
    checker can read and enclose. `cost` must be three numbers, not more.
    """
    if isinstance(certificate, dict) and certificate.get("strategy") == "cells":
        from quadlens_checker.sequence_verdict import (
            cells_first,
        )  # an eighth of the time of a short check to import

        return cells_first(certificate, content, clock)
    top = (
        "format",
        "version",
        "statement",
        "verdict",
        "strategy",
        "model",
        "claims",
        "uncertified",
        "witnesses",
    )
    keys(certificate, (*top, "hints", "cost"), "the certificate")
    version, about = certificate["version"], certificate["model"]
    known = (
        certificate["format"] == "quadlens-certificate"
        and type(version) is int
        and version in (1, 2, 3)
    )
    require(known, "unknown format or version")
    more = ("task", "attention") if version > 1 else ()
    answers = about.get("answers") if version > 1 and isinstance(about, dict) else None
    keys(
        about,
        ("sha256", "p", "d_mlp", "activation", *more, *(() if answers is None else ("answers",))),
        "model",
    )
    require(
        about["sha256"] == hashlib.sha256(content).hexdigest(),
        "the certificate is about another model file",
    )
    names = "inputs", "certified_inputs", "margin", "float32_error", "float32_certified"
    require(
        keys(certificate["claims"], names, "claims")["margin"] is not None,
        "the certificate claims nothing",
    )
    config, tensors = read_model(content)
    fits = version in (3, old_version(config))
    require(fits, f"certificates of such models have version 3, or {old_version(config)}")
    for key in ("p", "d_mlp", "activation"):
        same = about[key] == getattr(config, key) and not isinstance(about[key], bool)
        require(same, f"the certificate's {key} is not the model's")
    if version > 1:
        require(
            about["attention"] == config.attention_kind,
            "the certificate's attention is not the model's",
        )
        check_task(config.task, about["task"], answers, clock)
    reader, prover = theorem(config, certificate["strategy"], certificate["hints"])
    model = reader(config, tensors, certificate["hints"], clock)
    require(
        all(isinstance(certificate[key], list) for key in ("uncertified", "witnesses")),
        "a list is missing",
    )
    margin, left_out = check_claims(model, config.task.words, certificate)
    witnesses = [
        integers(witness, "witness", 3, 0, model.p - 1) for witness in certificate["witnesses"]
    ]
    cost = keys(certificate["cost"], ("flops", "collapse_flops", "brute_force_flops"), "cost")
    integers(list(cost.values()), "cost", 3, 0, 10**limits.MAX_INTEGER_DIGITS)

    def proof() -> None:
        bounds = prover(model, certificate["hints"], clock)
        check_inputs(config.task.answers, bounds, margin, left_out, witnesses, ties=version < 3)

    return proof


def old_version(config: Config) -> int:
    """Before version 3, the models that were the first to be proved had 1, and all others 2."""
    first = config.attention_kind == "constant" and config.activation in ("relu", "abs", "square")
    return 1 if first and config.task.value == "add" else 2


def theorem(config: Config, strategy: Any, hints: Any) -> tuple[Reader, Prover]:
    """Return what reads the model and what proves, for a strategy and such a model."""
    known = isinstance(strategy, str) and strategy in STRATEGIES
    require(known, f"unknown strategy; known here: {', '.join(STRATEGIES)}")
    if config.is_stack:
        require(strategy == "brute", "several layers or norms: the strategy for them is brute")
        return read_stack, by_stack
    arcs = strategy in ("arcs", "thin") or (
        strategy == "moments" and isinstance(hints, dict) and "arcs" in hints
    )
    if not arcs:
        return STRATEGIES[strategy]
    linear = config.attention_kind == "constant" and config.activation in ("relu", "abs")
    require(
        linear, "unknown strategy for this model: arcs are for relu and |x| with constant attention"
    )
    require(config.p <= limits.MAX_MODULUS, f"p is beyond {limits.MAX_MODULUS}, the most with arcs")
    return MOMENTS_BY_ARCS if strategy == "moments" else STRATEGIES[strategy]


def check_claims(
    model: AnyModel, operation: str, certificate: Any
) -> tuple[Fraction, set[tuple[int, ...]]]:
    """Check that claims, words and float32 bound fit; return margin and inputs left out."""
    p, claims, listed = model.p, certificate["claims"], certificate["uncertified"]
    left_out = {tuple(integers(pair, "uncertified", 2, 0, p - 1)) for pair in listed}
    certified = p * p - len(left_out)
    require(
        len(left_out) == len(listed) and certified > 0,
        "the uncertified inputs are not a list of distinct pairs",
    )
    counts = [claims["inputs"], claims["certified_inputs"]]
    counted = counts == [p * p, certified] and not any(isinstance(count, bool) for count in counts)
    require(counted, "the inputs are counted wrongly")
    require(
        certificate["verdict"] == ("PARTLY" if left_out else "CERTIFIED"),
        "the verdict does not fit the claims",
    )
    margin, error = rational(claims["margin"], "margin"), None
    if claims["float32_error"] is not None:
        error, proved = rational(claims["float32_error"], "float32_error"), model.float32_error
        require(
            proved is not None and error >= proved,
            "the float32 error claimed is smaller than what can be proved",
        )
    holds = error is not None and margin > 2 * error
    require(
        claims["float32_certified"] is holds, "float32_certified does not follow from the claims"
    )
    words = statement(p, certified, margin, error, operation, certificate["version"])
    require(
        certificate["statement"] == words,
        f"the statement does not fit the claims; it should read: {words}",
    )
    return margin, left_out


def check_inputs(
    answers: Table,
    bounds: ScoreBounds,
    claimed: Fraction,
    left_out: set[tuple[int, ...]],
    witnesses: list[list[int]],
    ties: bool,
) -> None:
    """Require the margin claimed at every input but those left out, and each witness.

    A witness (a, b, c) is answered c.

    A margin is the right answer's score less the largest other score and the loss. c may be tied
    with other wrong answers, and before version 3 exact ties with the right one were listed, too.
    """
    p, answered = len(answers), dict[int, list[int]]()
    for a, b, c in witnesses:
        answered.setdefault(a * p + b, []).append(c)
    floor, inputs = math.ceil(claimed * (1 << bounds.shift)), 0

    def lead(scores: Sequence[int], c: int) -> int:
        return scores[c] - max([*scores[:c], *scores[c + 1 :]])

    for n, (scores, loss) in enumerate(bounds.rows):
        (a, b), right = divmod(n, p), answers[n // p][n % p]
        proved = (a, b) in left_out or lead(scores, right) - loss >= floor
        require(proved, f"the margin claimed is not proved for a = {a}, b = {b}")
        for c in answered.get(n, ()):
            wins = (
                c != right
                and lead(scores, c) >= loss
                and (ties or scores[c] - scores[right] > loss)
            )
            require(wins, f"it is not shown that a = {a}, b = {b} is answered {c}")
        inputs += 1
    require(inputs == p * p, "not every input was looked at")


REFUSALS = (
    *(TimedOut, Rejected, MemoryError),
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError),
)


def refused(refusal: BaseException) -> tuple[str, str]:
    """Return the verdict and its reason for what a check raised."""
    if isinstance(refusal, TimedOut):
        return "TIMEOUT", str(refusal)
    if isinstance(refusal, Rejected):
        return "REJECTED", str(refusal).encode("utf-8", "replace").decode()
    if isinstance(refusal, MemoryError):
        return "REJECTED", "the check needs more memory than it may use"
    return "REJECTED", ascii(
        f"malformed certificate or model: {type(refusal).__name__}: {refusal}"
    )[1:-1]


def check_before_writing(
    text: bytes, content: bytes, max_seconds: float, most_leaves: int
) -> tuple[str, str]:
    """Run `shape_and_limits` on an unwritten certificate, then its proof if that is short.

    Args:
        text: The certificate's file.
        content: The model's file.
        max_seconds: Of processor time; either is given up after this.
        most_leaves: The proof of a certificate with more leaves is not begun.

    Returns:
        The verdict and why: VERIFIED; REJECTED; or TIMEOUT, where no reason to reject it was found
            so far.
    """
    began = time.process_time()

    def clock(operations: int) -> None:
        if time.process_time() - began + operations / limits.OPERATIONS_PER_SECOND > max_seconds:
            raise TimedOut(f"checking it takes more than {max_seconds:g} seconds")

    try:
        for what, size, most in (
            ("the certificate", len(text), limits.MAX_CERTIFICATE_BYTES),
            ("the model", len(content), limits.MAX_MODEL_BYTES),
        ):
            require(size <= most, f"{what} has {size} bytes, more than {most}")
        certificate = parse_json(text, floats=False)
        proof = shape_and_limits(certificate, content, clock)
        steps = certificate["hints"].get("steps", ())
        leaves = sum(len(step["leaves"]) for step in steps)
        if leaves > most_leaves:
            raise TimedOut(f"its proof has {leaves} leaves, and each takes some milliseconds")
        began = time.process_time()
        proof()
    except REFUSALS as refusal:
        return refused(refusal)
    return "VERIFIED", "every claim was proved again from the model"


def check_here(certificate_path: str, model_path: str, max_seconds: float) -> CheckReport:
    """Check in this process, with a look at the clock between steps.

    A file that cannot be read raises OSError.
    """
    began, sha256 = time.monotonic(), None

    def clock(operations: int) -> None:
        if time.monotonic() - began + operations / limits.OPERATIONS_PER_SECOND > max_seconds:
            raise TimedOut(f"not verified within {max_seconds:g} seconds")

    def report(verdict: str, reason: str, **proved: Any) -> CheckReport:
        return CheckReport(
            verdict, reason[:MAX_REASON_LENGTH], time.monotonic() - began, sha256, **proved
        )

    try:
        text = read_file(certificate_path, limits.MAX_CERTIFICATE_BYTES)
        content = read_file(model_path, limits.MAX_MODEL_BYTES)
        certificate = parse_json(text, floats=False)
        sha256 = hashlib.sha256(content).hexdigest()
        verify(certificate, content, clock)
    except REFUSALS as refusal:
        return report(*refused(refusal))
    claims, words = certificate["claims"], certificate["statement"]
    proved = {"statement": words, "claims": claims, "cost": certificate.get("cost", {})}
    proved["float32"] = float32_reason(certificate)
    return report("VERIFIED", "every claim was proved again from the model", **proved)
