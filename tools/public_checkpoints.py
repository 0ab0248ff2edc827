#!/usr/bin/env python3
"""Make the table of public checkpoints in docs/formats.md.

It has read or refused, inputs right, margin, frequencies, seconds.

    python tools/public_checkpoints.py DIR [--activation relu] [--only TEXT] [--rows FILE]

One row per file. Files that differ by a seed or by an epoch only, and have the same fate, share one
row: so many files, from the fewest inputs right to the most, and likewise their smallest margins.
With --rows FILE results are kept there, one JSON object per line, and files that it has already are
not tried again.
"""

import argparse
import json
import re
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from quadlens import explain
from quadlens.base.errors import QuadlensError
from quadlens.network.evaluate import evaluate
from quadlens.readers import Hints, Imported, import_file
from quadlens.readers.registry import checkpoints_in

# More key frequencies than this are counted, not listed.
MOST = 12


@dataclass(frozen=True)
class Row:
    """One file: its path below the directory, and what came of it."""

    path: str
    seconds: float
    refusal: str | None = None
    format: str | None = None
    inputs: int = 0
    right: int = 0
    margin: float = 0.0
    frequencies: str = ""

    @property
    def family(self) -> tuple[str, str]:
        """Return what rows must have in common to share a line.

        It is the name without seed or epoch, and the fate.

        Files of one name that are refused for one reason, as the data beside each run, share it
        anywhere.
        """
        name = re.sub(r"seed\d+", "seed*", self.path)
        if self.refusal is not None and "/" in name:
            name = f"*/{Path(name).name}"
        return re.sub(r"/(epoch_)?\d+(\.pth?)$", r"/\1*\2", name), self.refusal or str(self.format)


def tried(path: Path, directory: Path, hints: Hints) -> Row:
    """The file read and evaluated on all inputs."""
    name, start = str(path.relative_to(directory)), time.process_time()
    try:
        imported = import_file(path, hints=hints)
        found = evaluate(imported.model.collapse())
    except QuadlensError as error:
        told = str(error).replace(str(path), "").lstrip(": ")
        # What differs from file to file of one family is not its reason, nor are all the formats it
        # is not in.
        told = re.sub(r"\d{3,}", "…", re.sub(r" \((quadlens|zhong): .*", "", told))
        return Row(name, time.process_time() - start, told)
    seconds, keys = time.process_time() - start, key_frequencies(imported)
    return Row(
        name, seconds, None, imported.format, found.pairs, found.correct, found.min_margin, keys
    )


def key_frequencies(imported: Imported) -> str:
    """Those that `explain` names, or that there are none."""
    if imported.model.config.task.cyclic is None:
        return "no cyclic relabelling"
    try:
        found = explain(imported, logits=False).key_frequencies
    except QuadlensError as error:
        return str(error)
    shown = ", ".join(map(str, found or ()))
    return (shown if len(found or ()) <= MOST else f"{len(found or ())} frequencies") or "none"


def line(rows: Sequence[Row]) -> str:
    """One line of the table."""
    first = rows[0]
    name = first.path if len(rows) == 1 else f"{first.family[0]} ({len(rows)} files)"
    seconds = f"{max(row.seconds for row in rows):.1f}"
    if first.refusal is not None:
        return f"| `{name}` | refused: {first.refusal} | | | | {seconds} |"
    low, high = min(row.right for row in rows), max(row.right for row in rows)
    right = f"{low:,}" if low == high else f"{low:,} … {high:,}"
    margins = sorted({f"{row.margin:.3g}" for row in rows}, key=float)
    margin = margins[0] if len(margins) == 1 else f"{margins[0]} … {margins[-1]}"
    keys = first.frequencies if len({row.frequencies for row in rows}) == 1 else "they differ"
    return (
        f"| `{name}` | {first.format} | {right} of {first.inputs:,} | {margin} | {keys} | "
        f"{seconds} |"
    )


def main() -> None:
    """Try every file, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--activation", default=None)
    parser.add_argument("--only", default="", help="files whose path has this text")
    parser.add_argument("--rows", type=Path, default=None)
    options = parser.parse_args()
    rows: dict[str, Row] = {}
    if options.rows is not None and options.rows.exists():
        rows = {
            row.path: row
            for row in (Row(**json.loads(text)) for text in options.rows.read_text().splitlines())
        }
    for path in checkpoints_in(options.directory):
        if options.only not in str(path) or str(path.relative_to(options.directory)) in rows:
            continue
        row = tried(path, options.directory, Hints(activation=options.activation))
        rows[row.path] = row
        if options.rows is not None:
            with options.rows.open("a") as stream:
                stream.write(json.dumps(asdict(row)) + "\n")
    families: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows.values():
        families[row.family].append(row)
    header = (
        "checkpoint",
        "read as",
        "inputs right",
        "smallest margin",
        "key frequencies",
        "processor seconds",
    )
    print(f"| {' | '.join(header)} |\n{'|---' * len(header)}|")
    print("\n".join(line(family) for family in families.values()))


if __name__ == "__main__":
    main()
