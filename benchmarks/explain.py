"""How long `explain` takes: the computation alone, and the command with everything it imports.

Run: python benchmarks/explain.py [MODEL]; without MODEL a hand-built one with p = 59 and 512
neurons is measured.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from quadlens.analysis.explanation import explain
from quadlens.network import Recipe, build_transformer, load, save

REPEATS = 15
COMMANDS = 5


def seconds(work: Callable[[], object], repeats: int, clock: Callable[[], float]) -> list[float]:
    """Time each repetition by the clock given: wall time or processor time.

    Other programs do not lengthen processor time.
    """
    times = []
    for _ in range(repeats):
        start = clock()
        work()
        times.append(clock() - start)
    return sorted(times)


def main(path: Path) -> dict[str, float | int]:
    """Measure one model file."""
    model = load(path)
    explain(model)
    computation = seconds(lambda: explain(model), REPEATS, time.perf_counter)
    busy = seconds(lambda: explain(model), REPEATS, time.process_time)
    command = [sys.executable, "-m", "quadlens", "explain", str(path)]
    whole = seconds(
        lambda: subprocess.run(command, check=True, capture_output=True),
        COMMANDS,
        time.perf_counter,
    )
    return {
        "p": model.config.p,
        "d_mlp": model.config.d_mlp,
        "computation_ms_min": 1e3 * computation[0],
        "computation_ms_median": 1e3 * computation[len(computation) // 2],
        "computation_processor_ms_min": 1e3 * busy[0],
        "command_s_min": whole[0],
        "command_s_median": whole[len(whole) // 2],
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        file = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(directory) / "pizza.safetensors"
        if len(sys.argv) == 1:
            save(build_transformer(Recipe(59, (3, 5, 7, 11), 512)), file)
        sys.stdout.write(json.dumps(main(file), indent=1) + "\n")
