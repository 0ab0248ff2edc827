#!/usr/bin/env python3
"""Make the table of presets in docs/training.md.

Each is run once, until every input is right and the loss is flat.

    python tools/presets_table.py DIR [NAME …] [--to-the-end]

trains each preset (all of them when none is named) with seed 0 on one thread, leaves the model and
a row in DIR, and prints the rows that are there. A run that was killed resumes from its checkpoint
(whether its loss is flat is then judged from the losses since), one that has its row is not
repeated. Steps do not depend on how many are to come, so that a run stopped after N epochs is
`--preset NAME --epochs N`.
"""

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from quadlens import explain
from quadlens.base.atomic import write_atomic
from quadlens.network.evaluate import evaluate
from quadlens.network.native import save
from quadlens.network.weights import Weights
from quadlens.training.checkpoint import Checkpoint, load_checkpoint
from quadlens.training.config import PRESETS, TrainConfig, load_config
from quadlens.training.engine import StepMeasures
from quadlens.training.history import History
from quadlens.training.layout import Layout
from quadlens.training.train import Hooks, Interrupted, train

# Those on sequences have too many inputs to try: docs/sequences.md.
PAIRS = tuple(name for name in PRESETS if name not in ("adder", "max"))
# Flat: every input is right, and the mean loss of the last so many epochs is at least this share of
# that before them.
WINDOW = 1000
FLAT = 0.9
# More key frequencies than this are counted, not listed.
MOST_LISTED = 8


@dataclass(frozen=True)
class Row:
    """What came of one preset.

    Attributes:
        preset: Its name.
        epochs: Steps taken.
        planned: Steps in its file.
        seconds: Of processor time, for training.
        right_from: The first recorded epoch from which on every pair is right; None where some is
            wrong at the end.
        correct, inputs, min_margin, loss: The trained model on all inputs; the loss is the
            cross-entropy.
        keys: Key frequencies, or the irreps of a group.
    """

    preset: str
    epochs: int
    planned: int
    seconds: float
    right_from: int | None
    correct: int
    inputs: int
    min_margin: float
    loss: float
    keys: str

    def line(self) -> str:
        """One line of the table."""
        epochs = f"{self.epochs:,}" + (
            "" if self.epochs == self.planned else f" of {self.planned:,}"
        )
        since = "–" if self.right_from is None else f"{self.right_from:,}"
        words = (
            f"`{self.preset}`", epochs, f"{self.seconds / 60:.1f}", since, f"{self.correct:,} of "
            f"{self.inputs:,}",
            f"{self.min_margin:.2f}", self.keys,
        )  # fmt: skip
        return f"| {' | '.join(words)} |"


class Flatness:
    """Looks at every step and says when to stop."""

    def __init__(self) -> None:
        self._losses: list[float] = []
        self._held_out = 0.0
        self._trained = 0.0

    def on_step(self, epoch: int, measures: list[StepMeasures]) -> None:
        """Keep the loss, and the accuracies of the last recorded epoch."""
        (one,) = measures
        self._losses.append(one.train.loss)
        self._trained = one.train.accuracy
        if one.validation is not None:
            self._held_out = one.validation.accuracy

    def reached(self) -> bool:
        """Whether every input is right and the loss no longer falls."""
        if min(self._trained, self._held_out) < 1 or len(self._losses) < 2 * WINDOW:
            return False
        return sum(self._losses[-WINDOW:]) >= FLAT * sum(self._losses[-2 * WINDOW : -WINDOW])


def run(preset: str, directory: Path, to_the_end: bool) -> Row:
    """Train one preset, or what is left of it."""
    config, flatness = load_config(preset), Flatness()
    checkpoint, clock = directory / f"{preset}.checkpoint", directory / f"{preset}.seconds"
    before, began = float(clock.read_text()) if clock.exists() else 0.0, time.process_time()

    def keep(saved: list[Checkpoint]) -> None:
        saved[0].save(checkpoint)
        write_atomic(clock, str(before + time.process_time() - began).encode())

    hooks = Hooks(
        on_step=flatness.on_step,
        on_checkpoint=keep,
        should_stop=lambda: not to_the_end and flatness.reached(),
    )
    resume = load_checkpoint(checkpoint) if checkpoint.exists() else None
    model: Weights
    try:
        result = train(config, device="cpu", threads=1, resume=resume, hooks=hooks)
        epochs, model, history = config.epochs, result.params, result.history
    except Interrupted as stop:
        (last,) = stop.checkpoints
        epochs, model, history = last.epoch, Layout.of_run(config).params(last.theta), last.history
    seconds = before + time.process_time() - began
    save(model, directory / f"{preset}.safetensors")
    answers = evaluate(model.collapse())
    row = Row(
        preset,
        epochs,
        config.epochs,
        seconds,
        right_from(history, config),
        answers.correct,
        answers.pairs,
        answers.min_margin,
        answers.loss,
        keys(model),
    )
    write_atomic(directory / f"{preset}.json", json.dumps(asdict(row)).encode())
    checkpoint.unlink(missing_ok=True)
    clock.unlink(missing_ok=True)
    return row


def right_from(history: History, config: TrainConfig) -> int | None:
    """The first recorded epoch from which on all pairs are right."""
    epoch, _, trained, _, held_out = history.curves.T
    # Without held-out pairs their accuracy is not a number.
    right = (trained == 1) & ((held_out == 1) | (config.train_share == 1))
    return None if not right[-1] else int(epoch[len(right) - int(np.argmin([*right[::-1], False]))])


def keys(model: Weights) -> str:
    """Key frequencies, or key irreps with their dimensions."""
    found = explain(model, logits=False).to_dict()
    if frequencies := found["key_frequencies"]:
        return (
            ", ".join(map(str, frequencies))
            if len(frequencies) <= MOST_LISTED
            else f"{len(frequencies)} frequencies"
        )
    return ", ".join(one["name"] for one in found.get("key_irreps") or ()) or "none"


def main() -> None:
    """Run what has no row yet, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("presets", nargs="*", metavar="NAME", help=f"some of {', '.join(PAIRS)}")
    parser.add_argument(
        "--to-the-end", action="store_true", help="as many epochs as the preset says"
    )
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    for preset in options.presets or PAIRS:
        if not (options.directory / f"{preset}.json").exists():
            run(preset, options.directory, options.to_the_end)
    header = (
        "preset", "epochs", "minutes", "all right from", "inputs right", "smallest margin", "key "
        "frequencies, irreps"
    )  # fmt: skip
    print(f"| {' | '.join(header)} |\n{'|---' * len(header)}|")
    for preset in PAIRS:
        if (stored := options.directory / f"{preset}.json").exists():
            print(Row(**json.loads(stored.read_bytes())).line())


if __name__ == "__main__":
    main()
