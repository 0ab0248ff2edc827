#!/usr/bin/env python3
"""The table of certified public checkpoints in docs/certificates.md.

    python tools/certificates_table.py DIR [--activation relu] [--only TEXT] [--rows FILE]
    [--strategy S] [--no-check]

One row per file that `quadlens import` reads: inputs proved, strategy and rank, margin proved and
true (float64), cost as a share of brute force with everything included, and the checker's processor
seconds. With --rows FILE results are kept there, one JSON object per line, and files that it has
already are not tried again.
"""

import argparse
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.base.errors import QuadlensError
from quadlens.base.numbers import significant
from quadlens.network.evaluate import evaluate
from quadlens.network.native import save
from quadlens.proofs.pairs.produce import Prover
from quadlens.readers import Hints, import_file
from quadlens.readers.registry import checkpoints_in
from quadlens_checker.verdict import check_here

MAX_SECONDS = 1200.0  # of a check; beyond it the float64 enclosure stands alone


@dataclass(frozen=True)
class Row:
    """What was proved of one file."""

    path: str
    n: int
    proved: int
    right: int
    strategy: str
    rank: int | None
    settled: int
    margin: float | None
    true: float
    cost: float
    verdict: str
    seconds: float

    @property
    def cells(self) -> tuple[str, ...]:
        """As in the docs."""
        inputs = self.n**2
        rest = "" if self.proved == inputs else f", the other {inputs - self.proved:,} "
        rest += (
            ""
            if self.proved == inputs
            else ("are wrong" if self.right == self.proved else "not all wrong")
        )
        rank = "" if self.rank is None else f", {self.rank}"
        return (
            self.path,
            str(self.n),
            f"{self.proved:,} of {inputs:,}{rest}",
            f"`{self.strategy}`{rank}" + (f", {self.settled:,} settled" if self.settled else ""),
            "–" if self.margin is None else significant(self.margin, "down", 3),
            f"{self.true:.3g}" if self.true > 0 else "wrong",
            f"{self.cost:.1%}".replace("%", " %"),
            f"{self.seconds:.0f} s" if self.verdict == "VERIFIED" else self.verdict,
        )


def tried(path: Path, directory: Path, hints: Hints, strategy: str, check: bool) -> Row:
    """One file, proved and checked."""
    model = import_file(path, hints=hints).model
    found = evaluate(model.collapse())
    with tempfile.TemporaryDirectory() as folder:
        weights, certificate = Path(folder) / "m.safetensors", Path(folder) / "c.json"
        save(model, weights)
        one = Prover(Anatomy(model)).certify(strategy, checkable=True)
        verdict, began = one.obstacle or "not checked", time.process_time()
        if check and one.checkable and one.proof.margin is not None:
            one.save(certificate)
            began = time.process_time()
            verdict = check_here(str(certificate), str(weights), MAX_SECONDS).verdict
        seconds = time.process_time() - began
    form, exact = getattr(one.proof.hints, "form", None), getattr(one.proof.hints, "exact", ())
    return Row(
        path=str(path.relative_to(directory)),
        n=model.config.p,
        proved=one.certified_inputs,
        right=found.correct,
        strategy=one.proof.strategy,
        rank=None if form is None else form.rank,
        settled=len(exact),
        margin=None if one.proof.margin is None else float(one.proof.margin),
        true=found.min_margin,
        cost=one.cost_share,
        verdict=verdict,
        seconds=seconds,
    )


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--activation", help="for files that do not say it")
    parser.add_argument("--only", default="", help="paths that contain this")
    parser.add_argument("--rows", type=Path, help="keep results here")
    parser.add_argument("--strategy", default="auto")
    parser.add_argument("--no-check", action="store_true", help="do not run the checker")
    options = parser.parse_args()
    rows: dict[str, Row] = {}
    if options.rows is not None and options.rows.exists():
        rows = {row.path: row for row in (Row(**json.loads(line)) for line in options.rows.open())}
    for path in checkpoints_in(options.directory):
        name = str(path.relative_to(options.directory))
        if options.only not in name or name in rows:
            continue
        try:
            hints = Hints(activation=options.activation)
            rows[name] = tried(
                path, options.directory, hints, options.strategy, not options.no_check
            )
        except QuadlensError as error:
            print(f"<!-- {name}: {str(error).splitlines()[0][:200]} -->")
            continue
        if options.rows is not None:
            with options.rows.open("a") as file:
                file.write(json.dumps(asdict(rows[name])) + "\n")
    print(
        "| checkpoint | n | inputs proved | strategy, rank | margin proved | true | cost | checker "
        "(processor) |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in rows.values():
        if options.only in row.path:
            print(f"| {' | '.join(row.cells)} |")


if __name__ == "__main__":
    main()
