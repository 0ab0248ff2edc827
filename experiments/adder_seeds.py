"""Experiment 6: how many adders that pass 10,010 samples are right on all 10^20 inputs?

    python experiments/adder_seeds.py DIR     # adder_SEED.safetensors → data/adder_seeds.csv
    python experiments/adder_seeds.py --table # what docs/sequences.md shows of them

A network that does not pass is not certified: a sample is a counter-example.
"""

import csv
import json
import sys
import time
from pathlib import Path
from typing import Any

from quadlens.base.numbers import at_least, at_most
from quadlens.network import load
from quadlens.proofs.sequences.certificate import certify_sequence

DATA = Path(__file__).parent / "data" / "adder_seeds.csv"
FIELDS = (
    *("seed", "epochs", "lr", "right", "tried", "sampled_margin", "loss", "verdict"),
    *("proved_margin", "attained_margin", "worst_input", "worst_step"),
    *("wrong_at_least", "wrong_at_most", "seconds"),
)


def verdict(path: Path) -> dict[str, Any]:
    """What `quadlens certify` proves of one network over all inputs."""
    began = time.process_time()
    certificate = certify_sequence(load(path))
    least, most = certificate.wrong_inputs
    return {
        "attained_margin": certificate.worst_margin[1],
        "worst_step": certificate.worst.step,
        "worst_input": " + ".join(map(str, certificate.told(certificate.worst.word))),
        "verdict": certificate.verdict,
        "proved_margin": "" if certificate.margin is None else float(certificate.margin),
        "wrong_at_least": least,
        "wrong_at_most": most,
        "seconds": round(time.process_time() - began, 1),
    }


def main(directory: Path) -> None:
    """One row per network; those that are there stay."""
    rows = {int(row["seed"]): row for row in csv.DictReader(DATA.open())} if DATA.exists() else {}
    for path in directory.glob("adder_*.manifest.json"):
        manifest = json.loads(path.read_bytes())
        config, outcome = manifest["config"], manifest["outcome"]
        row = dict.fromkeys(FIELDS, "") | rows.get(config["seed"], {})
        row |= {name: config[name] for name in ("seed", "epochs", "lr")}
        row |= {"right": outcome["correct"], "tried": outcome["pairs"]}
        row |= {"sampled_margin": outcome["min_margin"], "loss": outcome["loss"]}
        rows[config["seed"]] = row
    for seed, row in sorted(rows.items()):
        if row["right"] == row["tried"] and not row["verdict"]:
            row.update(verdict(directory / f"adder_{seed}.safetensors"))
        with DATA.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[one] for one in sorted(rows))


def table() -> None:
    """The networks that pass, as in docs/sequences.md."""
    rows = list(csv.DictReader(DATA.open()))
    print(
        "| seed | steps | smallest margin of 10,010 samples | over all 10^20 inputs | "
        "smallest margin found | on |"
    )
    print("|---|---|---|---|---|---|")
    for row in rows:
        if row["right"] == row["tried"]:
            what = "**wrong**"
            if row["verdict"] == "CERTIFIED":
                what = (
                    f"right everywhere, margin at least {at_least(float(row['proved_margin']), 3)}"
                )
            elif row["verdict"] != "WRONG":
                what = (
                    f"open, at most {at_most(100 * int(row['wrong_at_most']) / 10**20, 2)} % wrong"
                )
            found = f"{float(row['attained_margin']):.3f}" if row["attained_margin"] else "–"
            cells = (
                row["seed"],
                row["epochs"],
                f"{float(row['sampled_margin']):.2f}",
                what,
                found,
                row["worst_input"],
            )
            print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    table() if sys.argv[1] == "--table" else main(Path(sys.argv[1]))
