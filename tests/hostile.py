"""A file read in a process of limited memory: what it says, and what it takes.

Times are those of a processor, which do not depend on what else runs.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SECONDS = 30
# Address space of the child, most of which is what its libraries reserve; and what reading the file
# may add.
ADDRESS_SPACE = 3 << 30

CHILD = """
import json, resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
from pathlib import Path
from quadlens.base.errors import QuadlensError
from quadlens.network import load
from quadlens.readers import import_directory, import_file
from quadlens.network.task import task_from_file
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
path, before, start = Path(sys.argv[1]), peak(), time.process_time()
try:
    if sys.argv[3] == "load":
        load(path)
    elif sys.argv[3] == "task":
        task_from_file(path)
    elif path.is_dir():
        [outcome.refusal for outcome in import_directory(path)]
    else:
        import_file(path)
    said = "read"
except QuadlensError as error:
    said = str(error)
print(json.dumps({"said": said, "seconds": time.process_time() - start, \
"megabytes": peak() - before}))
"""


# A process starts with the peak of the one it was forked from, so a small one stands between the
# tests and the child.
LAUNCHER = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"


def attacked(path: Path, how: str = "import") -> dict[str, Any]:
    """Read `path` in a process of limited address space.

    Return what the process said, how long it took and what it added to the peak of memory.
    """
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            LAUNCHER,
            sys.executable,
            "-c",
            CHILD,
            str(path),
            str(ADDRESS_SPACE),
            how,
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=10 * SECONDS,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def sparse(path: Path) -> None:
    """A file of 8 GB that takes no place."""
    with path.open("wb") as stream:
        stream.truncate(1 << 33)
