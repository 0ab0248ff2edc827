"""The proof about a network on sequences: verdict, counts, margin and certificate."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from quadlens.base.atomic import write_atomic
from quadlens.base.display import Displayed
from quadlens.base.errors import BadConfig
from quadlens.base.numbers import at_least, double_above, double_below
from quadlens.network.native import sha256, to_bytes
from quadlens.network.sequence import TaskSpec
from quadlens.network.sequence_forward import forward
from quadlens.network.weights import Weights
from quadlens.proofs.long_work import TIME_LIMIT, is_over, tell
from quadlens.proofs.sequences.attack import FoundWord, true_margin
from quadlens.proofs.sequences.counting import all_right, count_open
from quadlens.proofs.sequences.decide import LEAST_AIM, NOTHING_WRONG, Aim, StepProof
from quadlens.proofs.sequences.leaves import COUNTED, GRAIN, OPEN, RIGHT, CellGroup
from quadlens.proofs.sequences.linear import LINEAR, LinearStep, is_linear
from quadlens.proofs.sequences.tables import HINT_BITS, Network
from quadlens.proofs.sequences.tail import Tail
from quadlens.proofs.sequences.union import in_union

SequenceVerdict = Literal["CERTIFIED", "WRONG", "PARTLY", "UNPROVED"]
# Of its certificates: since 4 the statement says that right tokens are not compared with one
# another.
VERSION = 4
# What is claimed of what is proved, so that a checker that bounds a little worse agrees.
CLAIMED = 1 - 2.0**-13
# Of smaller margins half is claimed: what a checker with 80 bits after the point loses is more than
# that share of them.
FINE = 2.0**-60


@dataclass(frozen=True, eq=False, repr=False)
class SequenceCertificate(Displayed):
    """A proof about all words of a task.

    Attributes:
        network: The network and its task.
        model_sha256: SHA-256 of its file.
        steps: What is proved of each step's cells.
        worst: The word with the smallest margin that was found; None where no step was attacked.
        seconds: What it took.
        stopped: Whether the time was over before all was decided.
    """

    network: Network
    model_sha256: str
    steps: tuple[StepProof | LinearStep, ...]
    worst: FoundWord
    seconds: float
    stopped: bool = False

    @cached_property
    def worst_margin(self) -> tuple[float, float, int]:
        """Bound the worst word's margin in real arithmetic; also return its top token."""
        return true_margin(self.network, self.worst.word, self.worst.step)

    @cached_property
    def wrong_inputs(self) -> tuple[int, int]:
        """Bound from both sides how many inputs are answered wrong."""
        counts = [step.counted() for step in self.steps]
        least = max(least for least, _ in counts)
        joined = in_union(self.network.task, [list(step.wrong_cells()) for step in self.steps])
        return max(int(self.is_wrong), least, joined), min(
            self.inputs, sum(most for _, most in counts)
        )

    @property
    def margin_attained(self) -> float | None:
        """Return the smallest margin found, rounded up.

        It is None where every token is right, or where float64 cannot hold it.
        """
        return None if self.worst_margin[1] == np.inf else self.worst_margin[1]

    @property
    def is_wrong(self) -> bool:
        """Whether an input is proved to be answered wrong."""
        return self.worst_margin[1] < 0

    @property
    def inputs(self) -> int:
        """How many there are."""
        return self.network.task.inputs

    @property
    def certified_inputs(self) -> int:
        """How many are proved right."""
        return self.inputs - self.wrong_inputs[1]

    @cached_property
    def margin(self) -> Fraction | None:
        """Return a lower bound of the margin at every step of every input proved right.

        It is None where no input is.
        """
        proved = (RIGHT, COUNTED, LINEAR)
        margins = [
            leaf.margin for step in self.steps for leaf in step.leaves if leaf.kind in proved
        ]
        if not self.certified_inputs:
            return None
        least = min(margins, default=np.inf)
        if least < FINE:
            return Fraction(least) / 2
        return Fraction((least if least < np.inf else NOTHING_WRONG) * CLAIMED)

    @property
    def verdict(self) -> SequenceVerdict:
        """Return WRONG, CERTIFIED, PARTLY or UNPROVED.

        WRONG: an input is proved wrong. CERTIFIED: all are right. PARTLY: some are. UNPROVED: none
        is.
        """
        if self.is_wrong:
            return "WRONG"
        if self.wrong_inputs[1] == 0:
            return "CERTIFIED"
        return "PARTLY" if self.certified_inputs else "UNPROVED"

    @property
    def reason(self) -> str | None:
        """Why an input is left open, where that is known: the time limit."""
        return TIME_LIMIT if self.stopped and self.wrong_inputs[0] < self.wrong_inputs[1] else None

    @property
    def wrong(self) -> list[list[Any]]:
        """List the counterexample, if there is one, as [[input, answered, expected]]."""
        example = self.counter_example
        return (
            []
            if example is None
            else [[example["input"], example["answered"], example["expected"]]]
        )

    @property
    def counter_example(self) -> dict[str, Any] | None:
        """Return an input answered wrong, its answers and the right ones; None without one."""
        if not self.is_wrong:
            return None
        word = self.worst.word
        return {
            "input": self.told(word),
            "answered": self.decoded(word),
            "expected": self.expected(word),
        }

    def told(self, word: tuple[int, ...]) -> list[int]:
        """Write a word for a reader: two numbers for a sum, otherwise its letters."""
        if self.network.task.name.startswith("add:"):
            base = len(self.network.config.task.digits)
            return [
                sum(base**i * part for i, part in enumerate(parts))
                for parts in zip(*_digits(word, base), strict=True)
            ]
        return list(word)

    def expected(self, word: tuple[int, ...]) -> list[list[int]]:
        """The right tokens of each step."""
        task, letters = self.network.task, np.array([word])
        return [np.flatnonzero(task.right(letters, i)[0]).tolist() for i in range(len(task.steps))]

    def decoded(self, word: tuple[int, ...]) -> list[int]:
        """Return what each step answers in float64.

        An answer is fed to the next step where the task feeds it.
        """
        task, answers = self.network.task, []
        tokens = task.tokens(np.array([word]))
        for query, _, _ in task.steps:
            with np.errstate(all="ignore"):
                token = int(
                    forward(self.network.weights, tokens[:, : query + 1], query)[0].argmax()
                )
            answers.append(token)
            if (
                task.name.startswith("add:")
                and query + 1 < tokens.shape[1]
                and token < self.network.config.d_vocab
            ):
                tokens[0, query + 1] = token
        return answers

    @property
    def statement(self) -> str:
        """State what is proved, in words; decimals are rounded to the safe side."""
        (least, most), words = self.wrong_inputs, task_words(self.network.config.task)
        if self.margin is None:
            text = f"Of {words}: none of the {self.inputs:,} inputs is proved right."
        else:
            which = "all" if most == 0 else f"at least {self.certified_inputs:,} of the"
            text = (
                f"On {which} {self.inputs:,} inputs of {words}, in real arithmetic on "
                "the stored weights, greedy "
                "decoding is right: at every step the logit of a right token exceeds that "
                "of every token that is not "
                f"right, by at least {margin_words(self.margin)}."
            )
        return (
            text
            if most == 0
            else f"{text} At least {least:,} and at most {most:,} inputs are answered wrongly."
        )

    def _facts(self) -> dict[str, object]:
        margin = "none" if self.margin is None else f"≥ {margin_words(self.margin)}"
        return {
            "": self.verdict,
            "inputs": f"{self.certified_inputs:,} of {self.inputs:,}",
            "margin": margin,
        }

    def summary(self) -> dict[str, Any]:
        """The JSON of `quadlens certify`."""
        return {
            "verdict": self.verdict,
            "statement": self.statement,
            "strategy": "cells",
            "task": self.network.config.task.name,
            "inputs": self.inputs,
            "certified_inputs": self.certified_inputs,
            "wrong_inputs": list(self.wrong_inputs),
            "accuracy_lower_bound": double_below(Fraction(self.certified_inputs, self.inputs)),
            "accuracy_upper_bound": double_above(
                Fraction(self.inputs - self.wrong_inputs[0], self.inputs)
            ),
            "counter_example": self.counter_example,
            "margin_lower_bound": double_below(self.margin),
            "margin_attained": self.margin_attained,
            "worst_input": self.told(self.worst.word),
            "reason": self.reason,
            "leaves": sum(len(step.leaves) for step in self.steps),
            "seconds": self.seconds,
            "model_sha256": self.model_sha256,
        }

    def to_json(self) -> dict[str, Any]:
        """The certificate; integers and strings only, so that every number is exact."""
        margin = (
            None if self.margin is None else f"{self.margin.numerator}/{self.margin.denominator}"
        )
        example = {
            "input": list(self.worst.word),
            "step": self.worst.step,
            "answered": self.worst_margin[2],
        }
        return {
            "format": "quadlens-certificate",
            "version": VERSION,
            "strategy": "cells",
            "statement": self.statement,
            "verdict": self.verdict,
            "model": {"sha256": self.model_sha256, "task": self.network.config.task.to_json()},
            "claims": {
                "inputs": self.inputs,
                "certified_inputs": self.certified_inputs,
                "wrong_inputs": list(self.wrong_inputs),
                "margin": margin,
            },
            "hints": {
                "bits": HINT_BITS,
                "basis": [rows.tolist() for rows in self.network.basis],
                "steps": [
                    step.hints() if isinstance(step, LinearStep) else _step(step)
                    for step in self.steps
                ],
            },
            "counter_example": example if self.is_wrong else None,
        }

    def to_bytes(self) -> bytes:
        """The file; the same network always gives the same bytes."""
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
            BadConfig: where nothing is proved, or the checker rejects what would be written.
        """
        from quadlens.proofs.before_writing import check_before_writing

        self.need_claims()
        check_before_writing(
            self.to_json(), to_bytes(self.network.weights) if model is None else model, tell
        )
        write_atomic(Path(path), self.to_bytes())

    def need_claims(self) -> None:
        """Refuse a certificate that claims nothing."""
        if self.verdict == "UNPROVED":
            raise BadConfig(
                "nothing is proved about this network, so there is no certificate to write"
            )


def margin_words(margin: Fraction) -> str:
    """A margin rounded down, to nine decimals or, where these are 0, to a power of 2.

    >>> margin_words(Fraction(2, 3)), margin_words(Fraction(3, 2**70))
    ('0.666666666', '2^-69')
    """
    if margin >= Fraction(1, 10**9):
        return at_least(margin, 9)
    return f"2^-{(-(-margin.denominator // margin.numerator) - 1).bit_length()}"


def _digits(word: tuple[int, ...], base: int) -> list[tuple[int, int]]:
    return [divmod(letter, base) for letter in word[:-1]]


def _step(step: StepProof) -> dict[str, Any]:
    """One step's leaves and cells, as certificates have them."""
    leaves = []
    for leaf in step.leaves:
        about: dict[str, Any] = {"kind": leaf.kind, "own": leaf.own, "answer": leaf.answer}
        if leaf.kind != OPEN:
            about["box"] = [_integers(ends) for ends in leaf.box.tolist()]
        if leaf.plane is not None:
            slope, at, *ends, words = leaf.plane
            about |= {"slope": _integers(slope), "at": _integers(at), "words": list(words)}
            about |= dict(zip(("right", "wrong", "bin"), _integers(ends), strict=True))
        leaves.append(about)
    cells: list[Any] = [None] * step.places
    for group in step.groups:
        entries = _entries(group, 0, len(group.cells))
        for place, entry in zip(np.asarray(group.place).tolist(), entries, strict=True):
            cells[place] = entry
    return {"leaves": leaves, "cells": cells}


def _integers(numbers: Iterable[float]) -> list[int]:
    return [int(number / GRAIN) for number in numbers]


def _entries(group: CellGroup, first: int, last: int) -> list[Any]:
    entries: list[Any] = group.leaf[first:last].tolist()
    for i, (side, child, start, stop) in group.children.items():
        if first <= i < last:
            entries[i - first] = [side, _entries(child, start, stop)]
    return entries


def task_words(task: TaskSpec) -> str:
    """Describe a task in words, with the step at which decoding stops."""
    kind, _, size = task.name.partition(":")
    if kind == "add":
        stops = {
            "nondigit": " and then a token that is no digit",
            "zero": " and then a token that is no digit, or the digit 0",
        }
        answer = f"{int(size) + 1} digits of the sum{stops.get(task.stop or '', '')}"
        return (
            f"adding two numbers of {size} digits in base {len(task.digits)} (the answer: {answer})"
        )
    if kind == "cumsum-sign":
        return (
            f"the sign of every running sum of {size} numbers from "
            f"-{task.largest} to {task.largest}"
        )
    if kind == "max":
        return f"the largest of {size} tokens out of {task.tokens}"
    return f"the task {task.name}"


def check_strategy(strategy: str) -> None:
    """Refuse a strategy that is for networks on pairs."""
    if strategy not in ("auto", "cells"):
        raise BadConfig(
            f"strategy {strategy!r} is for networks on pairs; one on sequences "
            "is proved by cells (or auto)"
        )


def certify_sequence(
    weights: Weights, digest: str | None = None, progress: Callable[[str], None] = tell
) -> SequenceCertificate:
    """Decide what a network on sequences answers, over all words of its task (docs/sequences.md).

    Args:
        weights: A network with a `SequenceConfig`.
        digest: SHA-256 of its file; of the file that `save` would write when None.
        progress: Called with what is about to be done.
    """
    with np.errstate(all="ignore"):  # a number that is none proves nothing
        return _decided(Network(weights), digest or sha256(weights), progress)


def _decided(network: Network, digest: str, progress: Callable[[str], None]) -> SequenceCertificate:
    began = time.perf_counter()
    tail = Tail(network)
    numbers = range(len(network.task.steps))
    progress("bounding what attention brings")
    linear = is_linear(network)
    steps = tuple(
        LinearStep(network, i) if linear else StepProof(network, tail, i) for i in numbers
    )
    aim = Aim(_first_words(steps))
    for i, step in enumerate(steps):
        progress(f"step {i + 1} of {len(steps)}: {step.size:,} cells")
        if isinstance(step, StepProof):
            step.decide(aim, all_right)
        else:
            step.decide(aim.target)
    progress("counting what stays open")
    count_open([step for step in steps if isinstance(step, StepProof)], min(aim.target, LEAST_AIM))
    seconds = time.perf_counter() - began
    return SequenceCertificate(network, digest, steps, aim.worst, seconds, is_over())


def _first_words(steps: Sequence[StepProof | LinearStep]) -> Iterator[FoundWord]:
    """Yield each step's first attacked words: at least one, then none once the time is over."""
    for step in steps:
        for word in step.attacks():
            yield word
            if is_over():
                return
