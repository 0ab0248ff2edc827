"""Experiment 6: of the adders in a directory that pass 10,010 samples, how many are right on all 10^20 inputs?

    python experiments/adder_seeds.py DIR     # adder_SEED.safetensors with their manifests → data/adder_seeds.csv

A network that does not pass is not certified: a sample is a counter-example. Proofs aim at `SHARE` of the smallest margin
that was found: `quadlens certify` aims higher, and takes longer.
"""

import csv
import json
import sys
import time
from pathlib import Path

from quadlens.model import load
from quadlens.model.native import sha256
from quadlens.sequences.certificate import SequenceCertificate
from quadlens.sequences.decide import StepProof
from quadlens.sequences.tables import Network
from quadlens.sequences.tail import Tail

DATA = Path(__file__).parent / "data" / "adder_seeds.csv"
SHARE, LEAST = 0.3, 2.0**-10
FIELDS = ("seed", "epochs", "lr", "right", "tried", "sampled_margin", "loss", "verdict", "proved_margin",
          "attained_margin", "worst_input", "wrong_at_least", "wrong_at_most", "seconds")  # fmt: skip


def verdict(path: Path) -> dict[str, object]:
    """What is proved of one network over all inputs."""
    began = time.process_time()
    weights = load(path)
    network = Network(weights)
    tail = Tail(network)
    steps = tuple(StepProof(network, tail, i) for i in range(len(network.task.steps)))
    worst = min((found for step in steps for found in step.attacks()), key=lambda found: found.margin)
    for step in steps:
        step.decide(SHARE * worst.margin if worst.margin > 0 else LEAST)
    proved = SequenceCertificate(network, sha256(weights), steps, worst, 0.0)
    least, most = proved.wrong_inputs
    return {
        "verdict": proved.verdict,
        "proved_margin": "" if proved.margin is None else float(proved.margin),
        "attained_margin": proved.worst_margin[1],
        "worst_input": " + ".join(map(str, proved.told(worst.word))),
        "wrong_at_least": least,
        "wrong_at_most": most,
        "seconds": round(time.process_time() - began, 1),
    }


def main(directory: Path) -> None:
    """One row per network; those that are there stay."""
    rows = {int(row["seed"]): row for row in csv.DictReader(DATA.open())} if DATA.exists() else {}
    for path in sorted(directory.glob("adder_*.manifest.json")):
        manifest = json.loads(path.read_bytes())
        config, outcome = manifest["config"], manifest["outcome"]
        row = rows.get(config["seed"], {name: "" for name in FIELDS})
        row |= {name: config[name] for name in ("seed", "epochs", "lr")}
        row |= {"right": outcome["correct"], "tried": outcome["pairs"]}
        row |= {"sampled_margin": outcome["min_margin"], "loss": outcome["loss"]}
        if outcome["correct"] == outcome["pairs"] and not row["verdict"]:
            row |= verdict(path.with_name(path.name.replace(".manifest.json", ".safetensors")))
        rows[config["seed"]] = row
        with DATA.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[seed] for seed in sorted(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
