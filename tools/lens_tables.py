#!/usr/bin/env python3
"""The tables of docs/lens.md: the lens on every checkpoint of some directories, one row per model.

    python tools/lens_tables.py DIR … [--rows FILE] [--activation relu] [--skip REGEX]

Each DIR is searched for checkpoints; files that are refused, or whose task has no cyclic relabelling, are left out. With
--rows FILE results are kept there, one JSON object per line, and files that it has already are not read again.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from quadlens.errors import QuadlensError
from quadlens.infinite_width.swap import swap_activations
from quadlens.model.formats import Hints, import_file
from quadlens.model.formats.registry import checkpoints_in
from quadlens.studies import Study, study_of
from quadlens.table import Table

# Single epochs of a run, and groups that no renaming makes cyclic: reading them only to leave them out takes minutes.
SKIPPED = r"/(epoch_)?\d+\.pth?$|/[SAD]\d+_"

# Models whose activation is replaced: a table of all would be too wide to read.
SWAPPED = r"q9rsl94xlv|ReLU_random_scale_0.1_decay_0_08142058|^(mainline|mismatched|clock|times)$"


@dataclass(frozen=True)
class Row:
    """One model.

    Attributes:
        path: Below its directory.
        attention: constant, softmax, mixture, or none for a two-layer MLP.
        activation: σ.
        inputs: How many there are.
        right: How many are answered right.
        lens: What `quadlens lens --json` prints, without the strengths.
        swaps: Accuracy with each other activation, and whether λ₂ predicts it right.
    """

    path: str
    attention: str
    activation: str
    inputs: int
    right: int
    lens: dict[str, Any]
    swaps: dict[str, tuple[bool, float]]

    @property
    def r2(self) -> float:
        return float(self.lens["r2"]["unfitted"])


def read(path: Path, directory: Path, hints: Hints) -> Row | None:
    """The lens of one file; None where there is none."""
    try:
        return row_of(study_of(import_file(path, hints=hints)), str(path.relative_to(directory)))
    except QuadlensError as error:
        print(f"{path}: {error}"[:200], file=sys.stderr)
        return None


def row_of(study: Study, name: str) -> Row:
    document = study.lens.to_dict()
    for cluster in document["clusters"]:
        del cluster["strength"]
    swaps = {}
    if re.search(SWAPPED, name):
        swaps = {one.function: (one.predicted, one.accuracy) for one in swap_activations(study.anatomy.layer)}
    return Row(
        name,
        getattr(study.config, "attention_kind", "none"),
        study.config.activation,
        study.evaluation.pairs,
        study.evaluation.correct,
        document,
        swaps,
    )


def main() -> None:
    """Every model, then the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directories", type=Path, nargs="*")
    parser.add_argument("--activation", default=None)
    parser.add_argument("--skip", default=SKIPPED)
    parser.add_argument("--rows", type=Path, default=None)
    options = parser.parse_args()
    rows: dict[str, Row] = {}
    if options.rows is not None and options.rows.exists():
        rows = {row.path: row for row in (Row(**json.loads(text)) for text in options.rows.read_text().splitlines())}
    for directory in options.directories:
        for path in checkpoints_in(directory):
            if re.search(options.skip, str(path)) or str(path.relative_to(directory)) in rows:
                continue
            row = read(path, directory, Hints(activation=options.activation))
            if row is not None:
                rows[row.path] = row
                if options.rows is not None:
                    with options.rows.open("a") as stream:
                        stream.write(json.dumps(asdict(row)) + "\n")
    for r in rows.values():
        c = r.lens["cancelling"]
        print(
            r.path[-60:],
            r.attention,
            r.activation,
            r.right,
            r.inputs,
            {k: round(v, 3) for k, v in r.lens["r2"].items()},
            r.lens["answers_right"],
            {k: round(v, 3) for k, v in r.lens["residual"].items()},
            len(r.lens["clusters"]),
        )


if __name__ == "__main__":
    main()
