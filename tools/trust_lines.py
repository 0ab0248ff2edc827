#!/usr/bin/env python3
"""Count the lines that one has to trust, as docs/trust.md prints them.

Lines of Python are rounded, those of proved/ exact.

python tools/trust_lines.py
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "src"
PROVED = SOURCES.parent / "proved"
PACKAGE, CHECKER = SOURCES / "quadlens", SOURCES / "quadlens_checker"
# Modules of the checker that certificates about pairs never reach (a test follows the imports).
OF_SEQUENCES = (
    *("automata", "cells", "counting", "curves", "histogram", "linear", "sequence_file"),
    *("sequence_tables", "sequence_verdict", "sequences", "tail", "union"),
)


def lines(files: list[Path]) -> int:
    """Return the number of lines, comments and docstrings included."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def of_package() -> int:
    """Return the lines of quadlens without the checker, to the nearest 5,000."""
    return rounded(lines(sorted(PACKAGE.rglob("*.py"))), 5_000)


def of_checker() -> int:
    """Return the lines of the checker, to the nearest 500."""
    return rounded(lines(sorted(CHECKER.rglob("*.py"))), 500)


def of_sequences() -> int:
    """Return the lines of the checker for certificates about sequences alone.

    They are rounded to the nearest 500.
    """
    return rounded(lines([CHECKER / f"{name}.py" for name in OF_SEQUENCES]), 500)


def of_pairs() -> int:
    """Return the other lines of the checker, to the nearest 500."""
    whole = lines(sorted(CHECKER.rglob("*.py")))
    return rounded(whole - lines([CHECKER / f"{name}.py" for name in OF_SEQUENCES]), 500)


def of_proved(*names: str) -> int:
    """Return the lines of files of `proved/`.

    Comments and empty lines of the OCaml program do not count.
    """
    total = 0
    for name in names:
        text = (PROVED / name).read_text(encoding="utf-8")
        if name.endswith(".ml"):
            text = re.sub(r"\(\*.*?\*\)", "", text, flags=re.DOTALL)
        total += sum(bool(line.strip()) or name.endswith(".v") for line in text.splitlines())
    return total


def rounded(count: int, step: int) -> int:
    """Return the nearest multiple of a step: code changes daily, and its size hardly."""
    return round(count / step) * step


COUNTS: dict[str, Callable[[], int]] = {
    "quadlens": of_package,
    "its checker": of_checker,
    "for sequences alone": of_sequences,
    "for pairs": of_pairs,
}


if __name__ == "__main__":
    sys.stdout.write(
        "".join(f"{words}: some {count():,} lines\n" for words, count in COUNTS.items())
    )
