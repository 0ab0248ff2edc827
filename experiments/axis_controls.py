"""The controls of the axis of s, over the middle digits of adders: data/axis_controls.csv.

    python experiments/axis_controls.py DIR
    python experiments/axis_controls.py --table  # the table of docs/sequences.md

Measured are the bundled adder, and those right ones of adders.toml that lie in DIR.

Shares are means over the answers z1 … z9. Networks whose attention output has one coordinate are
left out: there s is all that attention brings. So are those that read a token after the digits.
"""

import csv
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import adders
import quadlens
from quadlens.base.numbers import percent
from quadlens.network.weights import Weights
from quadlens.proofs.sequences.axis_controls import axis_controls
from quadlens.proofs.sequences.explain import axis_of
from quadlens.proofs.sequences.tables import Network
from quadlens.readers import import_file

DATA = Path(__file__).parent / "data" / "axis_controls.csv"
SHARES = ("s_alone", "without_s", "as_drawn", "linear", "lower_sum_shuffled")
FIELDS = ("network", "coordinates", "variance", *SHARES)
HEADER = ("network", "coordinates", "variance along s", "s alone", "without s", "as drawn",
          "linear in both sums", "lower sum of another input")  # fmt: skip


def means(weights: Weights) -> dict[str, float] | None:
    """Return the controls' means over the middle digits; None where no digit has an axis."""
    network = Network(weights)
    axes = [axis_of(network, step) for step in range(1, network.task.letters - 1)]
    drawn = [(axis, axis_controls(network, axis)) for axis in axes if axis is not None]
    if not drawn or len(network.rows) == 1:
        return None
    found = {name: float(np.mean([getattr(one, name) for _, one in drawn])) for name in SHARES}
    variance = float(np.mean([axis.share for axis, _ in drawn]))
    return {"coordinates": len(network.rows), "variance": variance, **found}


def right_ones(directory: Path) -> Iterator[tuple[str, Weights]]:
    """Yield the bundled adder, then the certified networks of adders.toml below a directory."""
    yield "adder", quadlens.load("adder")
    known = tomllib.loads(adders.FACTS.read_text(encoding="utf-8"))["adder"]
    with adders.DATA.open(encoding="utf-8", newline="") as file:
        right = {(row["repository"], row["path"]): row for row in csv.DictReader(file)}
    for path in adders.checkpoints(directory, known):
        fact = adders.facts_of(path, known)
        row = right.get((fact.get("repository", ""), fact.get("path", "")))
        if row is not None and row["verdict"] == "CERTIFIED" and "task" not in fact:
            yield (
                adders.name_of(row),
                import_file(adders.with_weights(path, path.with_suffix(".npz"))).model,
            )


def table() -> str:
    """Return the table of docs/sequences.md."""
    with DATA.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [f"| {' | '.join(HEADER)} |", f"|{'---|' * len(HEADER)}"]
    for row in rows:
        shares = (percent(float(row[name])) for name in ("variance", *SHARES))
        lines.append(f"| {' | '.join((row['network'], row['coordinates'], *shares))} |")
    return "\n".join(lines)


def main(directory: Path) -> None:
    """Write a row per network."""
    with DATA.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for name, weights in right_ones(directory):
            found = means(weights)
            if found is not None:
                told = {key: f"{value:.6g}" for key, value in found.items()}
                writer.writerow({"network": f"`{name}`" if "`" not in name else name, **told})
                file.flush()


if __name__ == "__main__":
    if sys.argv[1] == "--table":
        print(table())
    else:
        main(Path(sys.argv[1]))
