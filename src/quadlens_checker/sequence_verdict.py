"""The claims of a certificate about sequences, and their words."""

import hashlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from quadlens_checker.automata import Automaton, Table
from quadlens_checker.model_file import read_tensors
from quadlens_checker.reading import Clock, keys, rational, require
from quadlens_checker.sequence_file import read_network
from quadlens_checker.sequences import by_cells, shape

VERSIONS = 3, 4
# Which tokens a right one exceeds, by the certificate's version: the first is true where one token
# is right alone.
EXCEEDED = {3: "every other token", 4: "every token that is not right"}
KEYS = (
    "format",
    "version",
    "strategy",
    "statement",
    "verdict",
    "model",
    "claims",
    "hints",
    "counter_example",
)


def task_words(task: Any) -> str:
    """Describe a task in words, with the step at which decoding stops."""
    kind, _, size = task["name"].partition(":")
    if kind == "add":
        base, answer = len(task["digits"]), f"{int(size) + 1} digits of the sum"
        stop = " and then a token that is no digit" if "stop" in task else ""
        stop += ", or the digit 0" if task.get("stop") == "zero" else ""
        return f"adding two numbers of {size} digits in base {base} (the answer: {answer}{stop})"
    if kind == "cumsum-sign":
        return (
            f"the sign of every running sum of {size} numbers from "
            f"-{task['largest']} to {task['largest']}"
        )
    if kind == "max":
        return f"the largest of {size} tokens out of {task['tokens']}"
    return f"the task {task['name']}"


def statement(
    task: Any,
    inputs: int,
    least: int,
    most: int,
    margin: Fraction | None,
    version: int = VERSIONS[-1],
) -> str:
    """The claims in words, the margin rounded down."""
    words = (
        f"{'all' if most == 0 else f'at least {inputs - most:,} of the'} {inputs:,} "
        f"inputs of {task_words(task)}"
    )
    text = f"Of {task_words(task)}: none of the {inputs:,} inputs is proved right."
    if margin is not None:
        billionths, inverse = margin * 10**9 // 1, -(-margin.denominator // margin.numerator)
        decimals = f"{billionths // 10**9}.{billionths % 10**9:09d}"
        # Nine decimals that are 0 say less than is claimed: since version 4 a power of 2 stands for
        # them.
        rounded = decimals if billionths or version < 4 else f"2^-{(inverse - 1).bit_length()}"
        text = f"On {words}, in real arithmetic on the stored weights, greedy decoding is right: "
        text += (
            "at every step the logit of a right token exceeds that of "
            f"{EXCEEDED[version]}, by at least "
        )
        text += f"{rounded}."
    if most == 0:
        return text
    return f"{text} At least {least:,} and at most {most:,} inputs are answered wrongly."


def one_right_token(task: Automaton, step: tuple[int, int, Table]) -> bool:
    """Whether at most one token is right at a step of every input."""
    _, letter, right = step
    reached = [row for row, words in zip(right, task.words_to[letter], strict=True) if words]
    return all(len(task.answers[answer]) == 1 for row in reached for answer in row)


def check_words(task: Automaton, version: int) -> None:
    """The words of version 3 are false where two right tokens tie, so that there must be no two."""
    several = [number for number, step in enumerate(task.steps) if not one_right_token(task, step)]
    require(
        version > 3 or not several,
        f"step {several[0] if several else 0} has several right tokens, and version 3 says "
        "that one of them exceeds "
        "every other token, which is not proved; `quadlens certify MODEL -o CERT` "
        "writes a certificate of version 4",
    )


def cells_first(certificate: Any, content: bytes, clock: Clock) -> Callable[[], None]:
    """Raise `Rejected` for a certificate that cannot be checked; return its proof's check."""
    keys(certificate, KEYS, "the certificate")
    version, about = certificate["version"], certificate["model"]
    known = (
        certificate["format"] == "quadlens-certificate"
        and type(version) is int
        and version in VERSIONS
    )
    require(known, "unknown format or version")
    keys(about, ("sha256", "task"), "model")
    require(
        about["sha256"] == hashlib.sha256(content).hexdigest(),
        "the certificate is about another model file",
    )
    network = read_network(*read_tensors(content))
    require(about["task"] == network.task.value, "the certificate's task is not the model's")
    check_words(network.task, version)
    claims = keys(
        certificate["claims"], ("inputs", "certified_inputs", "wrong_inputs", "margin"), "claims"
    )
    example, margin = certificate["counter_example"], None
    if claims["margin"] is not None:
        margin = rational(claims["margin"], "margin")
    prover = shape(network, margin or Fraction(0), certificate["hints"], clock)
    if example is not None:
        prover.goes_wrong(example)

    def proof() -> None:
        counts = by_cells(prover, certificate["hints"], example is not None)
        numbers = [claims["inputs"], claims["certified_inputs"], *claims["wrong_inputs"]]
        proved = [counts.inputs, counts.inputs - counts.most, counts.least, counts.most]
        require(
            numbers == proved and all(type(n) is int for n in numbers),
            f"the inputs are not counted as {proved}",
        )
        require(
            (margin is not None) == (counts.most < counts.inputs),
            "a margin of nothing, or none of something",
        )
        unless_wrong = (
            "CERTIFIED" if counts.most == 0 else "UNPROVED" if margin is None else "PARTLY"
        )
        verdict = unless_wrong if example is None else "WRONG"
        require(certificate["verdict"] == verdict, "the verdict does not fit the claims")
        words = statement(
            network.task.value, counts.inputs, counts.least, counts.most, margin, version
        )
        require(
            certificate["statement"] == words,
            f"the statement does not fit the claims; it should read: {words}",
        )

    return proof
