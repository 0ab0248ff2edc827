"""Make the table of docs/trust.md: costs of the proved checker and of the Python one.

They are processor seconds and memory.

    python tools/proved_table.py            # bundled exact models, then one by hand, p = 59, 113

Each check is a process of its own; its user and system time are added, so that other programs
matter little.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from quadlens.network.bundled import resolve
from quadlens.network.handmade import Recipe, build_mlp
from quadlens.network.native import load_file, save, sha256
from quadlens.proofs.pairs import certify
from quadlens.proofs.proved import program

KEYS = 3, 7, 11, 16, 19, 22, 25, 28
STRATEGIES = "brute", "moments"


def cost(*command: str | Path) -> tuple[float, float]:
    """Processor seconds and megabytes of a command that must say VERIFIED."""
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True)
    said = process.stdout.read() if process.stdout else ""
    _, _, usage = os.wait4(process.pid, 0)
    if "VERIFIED" not in said:
        raise SystemExit(f"{command}: {said}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


def main() -> None:
    """Print the rows."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        models = {name: resolve(name) for name in ("pizza", "mismatched", "original", "times")}
        for p in (59, 113):
            models[f"hand-built MLP, p = {p}"] = folder / f"{p}.safetensors"
            save(
                build_mlp(Recipe(p, KEYS, 512, jitter=0.05, noise=0.001)),
                folder / f"{p}.safetensors",
            )
        sys.stdout.write(
            "| network | strategy | proved checker | memory | Python checker "
            "|\n|---|---|---|---|---|\n"
        )
        for name, path in models.items():
            for strategy in STRATEGIES:
                model, certificate = load_file(path), folder / "certificate.json"
                certify(model, strategy, sha256(model)).save(certificate)
                seconds, megabytes = cost(program(), certificate, path)
                python, _ = cost(sys.executable, "-m", "quadlens_checker", certificate, path)
                row = (
                    f"| {name} | `{strategy}` | {seconds:.1f} s | {megabytes:.0f} MB | "
                    f"{python:.1f} s |\n"
                )
                sys.stdout.write(row)
                sys.stdout.flush()


if __name__ == "__main__":
    main()
