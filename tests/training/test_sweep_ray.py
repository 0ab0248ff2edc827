"""The Ray backend on a local cluster: the same bytes, also if a node is killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from places import ROOT
from quadlens.training.population import Store, SweepReport, SweepState, sweep
from sweep_help import (
    EVERY,
    LONG,
    STRATEGIES,
    TINY,
    has_checkpoint,
    hashes,
    seeds,
    undisturbed_sweep,
    wait_for,
)

ray = pytest.importorskip("ray", reason="Ray is not installed (pip install 'quadlens[cluster]')")

# Ray's own warnings (about its future versions, and sockets of processes it has killed) are not
# ours to fix.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

CONFIGS = [*seeds(LONG, 2), *seeds(TINY, 2)]


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children(pid: int) -> list[int]:
    text = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    return [int(word) for word in text.split()]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head without cores and two worker nodes of one core each."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    # Workers import the package that is under test, without the type-checking hook.
    source = str(ROOT / "src")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([source, os.environ.get("PYTHONPATH", "")]))
    small = {"object_store_memory": 80 << 20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
    yield made
    ray.shutdown()
    made.shutdown()  # type: ignore[no-untyped-call]


def test_a_node_killed_in_the_middle(
    cluster: Any, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    from quadlens.training.population.backends import RayBackend

    nodes = [cluster.add_node(num_cpus=1, object_store_memory=80 << 20) for _ in range(2)]
    cluster.wait_for_nodes()
    backend = RayBackend(cluster.address, 1)
    notes: list[str] = []
    killed: list[int] = []

    def kill_one_node(state: SweepState) -> None:
        if killed or not state.running:
            return
        long = CONFIGS[:2]
        wait_for(lambda: any(has_checkpoint(tmp_path, config) for config in long))
        (victim, *_) = [config for config in long if has_checkpoint(tmp_path, config)]
        worker = int(Store(tmp_path).lock(victim.run_id()).read_text().split()[1])
        raylet = parent(worker)
        assert raylet in {process.pid for node in nodes for _, process in node.live_processes()}
        # The whole node: the raylet and every worker it has.
        for pid in (worker, raylet, *children(raylet)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    report = sweep(
        CONFIGS,
        tmp_path,
        backend,
        strategies=STRATEGIES,
        checkpoint_every=EVERY,
        on_state=kill_one_node,
        on_note=notes.append,
    )
    assert killed
    assert report == SweepReport(total=4, made=4, already=0, failed={}, left=0)
    assert any("trying again from its last checkpoint" in line for line in notes), notes
    assert hashes(tmp_path) == hashes(undisturbed_sweep(tmp_path_factory, CONFIGS))
    assert not [file for file in (tmp_path / "unfinished").iterdir() if file.is_dir()]


def test_a_cluster_that_is_not_there_is_said(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "quadlens",
        "sweep",
        "--backend",
        "ray",
        "--address",
        "127.0.0.1:1",
        "-o",
    ]
    done = subprocess.run([*words, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no Ray cluster at --address '127.0.0.1:1'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_starts_a_cluster_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    settings = (
        "--set d_model=12 --set d_mlp=24 --set n_heads=2 --set d_head=6 --set history_every=50"
    )
    more = "--set spectrum_every=100 --epochs 200 --strategies brute,arcs"
    flags = f"--p 11 --seeds 0:2 {settings} {more}".split()
    words = [
        sys.executable,
        "-m",
        "quadlens",
        "sweep",
        *flags,
        "--backend",
        "ray",
        "--json",
        "-o",
        str(tmp_path),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["made"] == 2
    expected = hashes(undisturbed_sweep(tmp_path_factory, CONFIGS))
    mine = hashes(tmp_path)
    assert mine == {run_id: expected[run_id] for run_id in Store(tmp_path).run_ids()}
