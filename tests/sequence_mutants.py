"""Mutants of a certificate about sequences, through the checker.

    python sequence_mutants.py CERTIFICATE MODEL NUMBER [SEED]

One field anywhere in the file is changed, in half of the mutants with the statement put right. A
mutant is rejected, or it claims nothing that the certificate, number is verified first, does not:
the same counts, and no larger margin. Steps whose hints and margin are those of the certificate are
not proved again, so that a mutant takes a fraction of a check.
"""

import copy
import json
import random
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

from quadlens_checker import sequences
from quadlens_checker.reading import Rejected
from quadlens_checker.sequence_verdict import statement
from quadlens_checker.sequences import CellProver
from quadlens_checker.verdict import verify

REFUSALS = (
    Rejected,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


def no_clock(operations: int) -> None:
    """As much time as it takes."""


def a_place(value: Any, draw: random.Random) -> tuple[Any, Any]:
    """A container inside a JSON value and a key of it, going down at random."""
    while True:
        key = draw.choice(list(value) if isinstance(value, dict) else range(len(value)))
        inner = value[key]
        if not isinstance(inner, dict | list) or not inner or draw.random() < 0.1:
            return value, key
        value = inner


def changed(value: Any, draw: random.Random) -> Any:
    """Something else of this kind, or of none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value + draw.choice(
            [-1, 1, -value, 1 << 20, -(1 << 20), 1 << 36, -(1 << 36), -value // 8 or 2]
        )
    if isinstance(value, str):
        return draw.choice(
            ["right", "wrong", "open", "counted", "linear", value[:-1], "1/1", "+", "-"]
        )
    if isinstance(value, list) and value:
        return draw.choice([value[:-1], [*value, value[0]], value[::-1], None])
    return draw.choice([None, 0, 1, [], {}])


def restated(certificate: Any) -> Any:
    """With the words that fit its claims, where there are such."""
    try:
        claims = certificate["claims"]
        margin = None if claims["margin"] is None else Fraction(claims["margin"])
        least, most = claims["wrong_inputs"]
        words = statement(certificate["model"]["task"], claims["inputs"], least, most, margin)
        return certificate | {"statement": words}
    except (*REFUSALS,):
        return certificate


def is_weaker(mutant: Any, honest: Any) -> bool:
    """Whether what a verified mutant claims follows from the certificate's claims."""
    mine, its = mutant["claims"], honest["claims"]
    (least, most), (few, many) = mine["wrong_inputs"], its["wrong_inputs"]
    margins = [Fraction(claims["margin"] or 0) for claims in (mine, its)]
    return (
        mine["inputs"] == its["inputs"]
        and least <= few
        and many <= most
        and margins[0] <= margins[1]
    )


def main(certificate: Path, model: Path, number: int, seed: int = 0) -> None:
    """Count what becomes of the mutants."""
    honest, content = json.loads(certificate.read_bytes()), model.read_bytes()
    known: dict[Any, Any] = {}
    prove = CellProver.step

    def step(self: CellProver, number: int, hints: Any) -> Any:
        same = (
            self.margin == Fraction(honest["claims"]["margin"] or 0)
            and hints == honest["hints"]["steps"][number]
        )
        same = (
            same
            and self.tables.basis == honest["hints"]["basis"]
            and self.bits == honest["hints"]["bits"]
        )
        if same and number in known:
            return known[number]
        found = prove(self, number, hints)
        if same:
            known[number] = found
        return found

    sequences.CellProver.step = step  # type: ignore[method-assign]
    verify(copy.deepcopy(honest), content, no_clock)
    draw, fate = random.Random(seed), Counter[str]()
    for _ in range(number):
        mutant = copy.deepcopy(honest)
        where, key = a_place(mutant, draw)
        where[key] = changed(where[key], draw)
        if mutant == honest:
            fate["unchanged"] += 1
            continue
        try:
            verify(mutant if draw.random() < 0.5 else restated(mutant), content, no_clock)
        except REFUSALS:
            fate["rejected"] += 1
            continue
        if not is_weaker(mutant, honest):
            raise SystemExit(
                f"a false mutant is VERIFIED: {key!r} → {json.dumps(where[key])[:200]}"
            )
        fate["verified, and claims no more"] += 1
        print(dict(fate), flush=True)
    print(dict(fate))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), *map(int, sys.argv[4:]))
