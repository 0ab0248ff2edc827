"""The claims of a certificate about sequences, and their words."""

import hashlib
from fractions import Fraction
from typing import Any

from quadlens_checker.model_file import read_tensors
from quadlens_checker.reading import Clock, keys, rational, require
from quadlens_checker.sequence_file import read_network
from quadlens_checker.sequences import by_cells

KEYS = "format", "version", "strategy", "statement", "verdict", "model", "claims", "hints", "counter_example"


def task_words(task: Any) -> str:
    """What a task asks, in words; where decoding stops is part of it."""
    kind, _, size = task["name"].partition(":")
    if kind == "add":
        base, answer = len(task["digits"]), f"{int(size) + 1} digits of the sum"
        stop = " and then a token that is no digit" if "stop" in task else ""
        stop += ", or the digit 0" if task.get("stop") == "zero" else ""
        return f"adding two numbers of {size} digits in base {base} (the answer: {answer}{stop})"
    if kind == "cumsum-sign":
        return f"the sign of every running sum of {size} numbers from -{task['largest']} to {task['largest']}"
    if kind == "max":
        return f"the largest of {size} tokens out of {task['tokens']}"
    return f"the task {task['name']}"


def statement(task: Any, inputs: int, least: int, most: int, margin: Fraction | None) -> str:
    """The claims in words, the margin rounded down."""
    words = f"{'all' if most == 0 else f'at least {inputs - most:,} of the'} {inputs:,} inputs of {task_words(task)}"
    text = f"Of {task_words(task)}: none of the {inputs:,} inputs is proved right."
    if margin is not None:
        billionths = margin * 10**9 // 1
        text = (
            f"On {words}, in real arithmetic on the stored weights, greedy decoding is right: at every step the logit "
        )
        text += "of a right token exceeds that of every other token, by at least "
        text += f"{billionths // 10**9}.{billionths % 10**9:09d}."
    if most == 0:
        return text
    return f"{text} At least {least:,} and at most {most:,} inputs are answered wrongly."


def verify_cells(certificate: Any, content: bytes, clock: Clock) -> None:
    """Raise `Rejected` unless every claim of a certificate about sequences is proved."""
    keys(certificate, KEYS, "the certificate")
    version, about = certificate["version"], certificate["model"]
    known = certificate["format"] == "quadlens-certificate" and type(version) is int and version == 3
    require(known, "unknown format or version")
    keys(about, ("sha256", "task"), "model")
    require(about["sha256"] == hashlib.sha256(content).hexdigest(), "the certificate is about another model file")
    network = read_network(*read_tensors(content))
    require(about["task"] == network.task.value, "the certificate's task is not the model's")
    claims = keys(certificate["claims"], ("inputs", "certified_inputs", "wrong_inputs", "margin"), "claims")
    example, margin = certificate["counter_example"], None
    if claims["margin"] is not None:
        margin = rational(claims["margin"], "margin")
    counts = by_cells(network, margin or Fraction(0), certificate["hints"], example, clock)
    numbers = [claims["inputs"], claims["certified_inputs"], *claims["wrong_inputs"]]
    proved = [counts.inputs, counts.inputs - counts.most, counts.least, counts.most]
    require(numbers == proved and all(type(n) is int for n in numbers), f"the inputs are not counted as {proved}")
    require((margin is not None) == (counts.most < counts.inputs), "a margin of nothing, or none of something")
    unless_wrong = "CERTIFIED" if counts.most == 0 else "UNPROVED" if margin is None else "PARTLY"
    verdict = unless_wrong if example is None else "WRONG"
    require(certificate["verdict"] == verdict, "the verdict does not fit the claims")
    words = statement(network.task.value, counts.inputs, counts.least, counts.most, margin)
    require(certificate["statement"] == words, f"the statement does not fit the claims; it should read: {words}")
