"""Places that are not ours alone: directories that cannot be written, two runs at once, links that
change meanwhile.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from places import TESTS
from quadlens.base.atomic import TEMPORARY
from quadlens.base.errors import BadFile
from quadlens.network import Recipe, build_mlp, load, save
from quadlens.network.native import load_with_sha256

# Root may write everywhere; without these rights it is an owner like others.
UNPRIVILEGED = ("setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner")
EVERY_COMMAND = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from cli.test_writing import WRITING
from cli_runner import quadlens
place = Path(sys.argv[2])
for name, (words, suffix) in WRITING.items():
    flag = () if words[-1] in ("--neurons", "--figures") else ("-o",)
    run = quadlens(*words, *flag, place / f"new{suffix}")
    print(json.dumps([name, run.code, run.out, run.err]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="permissions and setpriv as Linux has them")
def test_every_command_refuses_a_directory_that_it_may_not_write(tmp_path: Path) -> None:
    place = tmp_path / "closed"
    place.mkdir(mode=0o555)
    before: tuple[str, ...] = ()
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root cannot be kept from writing without setpriv")
        before = UNPRIVILEGED
    run = subprocess.run(
        [*before, sys.executable, "-c", EVERY_COMMAND, str(TESTS), str(place)],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(rows) > 12
    for name, code, out, err in rows:
        assert (code, out) == (2, ""), (name, code, out, err)
        assert err.startswith("error: cannot "), (name, err)
        assert "Permission denied" in err, (name, err)
    assert list(place.iterdir()) == []


SETTINGS = (
    "--p",
    "5",
    "--d-model",
    "8",
    "--d-mlp",
    "8",
    "--n-heads",
    "1",
    "--d-head",
    "4",
    "--epochs",
    "20",
)
AT_ONCE = {
    "sweep": ("sweep", *SETTINGS, "--seeds", "0:3", "-o", "OUT"),
    "certify --all": ("certify", "MODEL", "--all", "-o", "OUT"),
    "report": ("report", "MODEL", "--no-proofs", "--workers", "1", "-o", "OUT"),
    "train": ("train", *SETTINGS, "--threads", "1", "--snapshots", "4", "-o", "OUT/m.safetensors"),
}
# Files that hold times, and what is a cache of them, differ from run to run.
TIMED = (".json", ".parquet", ".html", ".checkpoint", ".optimiser", ".lock", ".log", "frontier.csv")


def files_of(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): ""
        if path.name.endswith(TIMED)
        else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", AT_ONCE)
def test_two_runs_at_once_in_one_directory_leave_what_one_leaves(name: str, tmp_path: Path) -> None:
    model = tmp_path / "small.safetensors"
    save(build_mlp(Recipe(p=7, keys=(1, 2), neurons=24)), model)

    def start(out: Path) -> subprocess.Popen[str]:
        words = [
            word.replace("OUT", str(out)).replace("MODEL", str(model)) for word in AT_ONCE[name]
        ]
        command = [sys.executable, "-m", "quadlens", *words, "-q"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    alone, shared = tmp_path / "alone", tmp_path / "shared"
    for out in (alone, shared):
        out.mkdir()
    _, err = (first := start(alone)).communicate()
    assert first.returncode == 0, err
    both = [start(shared), start(shared)]
    ends = [(run.communicate()[1], run.returncode) for run in both]
    # The second may find that the first is at work and say so; one of them does the work.
    assert 0 in [code for _, code in ends], ends
    for err, code in ends:
        assert code == 0 or (code == 2 and err.startswith("error: ")), (code, err)
    assert files_of(shared) == files_of(alone)
    assert not [path for path in shared.rglob("*") if path.name.endswith(TEMPORARY)]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_that_changes_while_it_is_read_is_one_of_its_files(tmp_path: Path) -> None:
    """What is hashed, loaded and named is one file: the one that the link led to when opened."""
    digests = {}
    for i, keys in enumerate(((1, 2), (2, 3))):
        save(build_mlp(Recipe(p=7, keys=keys, neurons=24)), tmp_path / f"{i}.safetensors")
        digests[hashlib.sha256((tmp_path / f"{i}.safetensors").read_bytes()).hexdigest()] = i
    link, stop = tmp_path / "link.safetensors", threading.Event()
    link.symlink_to(tmp_path / "0.safetensors")

    def swap() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            (tmp_path / "next").symlink_to(tmp_path / f"{number % 2}.safetensors")
            os.replace(tmp_path / "next", link)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        seen = set()
        for _ in range(150):
            model, digest = load_with_sha256(link)
            true = load(tmp_path / f"{digests[digest]}.safetensors")
            assert all(
                np.array_equal(model.tensors[name], true.tensors[name]) for name in true.tensors
            )
            seen.add(digest)
    finally:
        stop.set()
        thread.join()
    assert seen == set(digests)


def header_with(content: bytes, change: object) -> bytes:
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    change(header)  # type: ignore[operator]
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + size :]


def overlap(header: dict[str, dict[str, list[int]]]) -> None:
    """Two tensors of the same bytes."""
    header["mlp.W_b"]["data_offsets"] = header["mlp.W_a"]["data_offsets"]


def one_more(header: dict[str, object]) -> None:
    """The same bytes under another name."""
    header["mlp.W_c"] = header["mlp.W_a"]


@pytest.mark.parametrize("change", [overlap, one_more])
def test_tensors_that_share_bytes_are_refused_by_both_readers(
    tmp_path: Path, change: object
) -> None:
    from quadlens_checker.model_file import read_model
    from quadlens_checker.reading import Rejected

    good, bad = tmp_path / "good.safetensors", tmp_path / "bad.safetensors"
    save(build_mlp(Recipe(p=7, keys=(1, 2), neurons=24)), good)
    bad.write_bytes(header_with(good.read_bytes(), change))
    with pytest.raises(BadFile):
        load(bad)
    with pytest.raises(Rejected):
        read_model(bad.read_bytes())


def test_a_tensor_named_twice_is_refused_by_both_readers(tmp_path: Path) -> None:
    from quadlens_checker.model_file import read_model
    from quadlens_checker.reading import Rejected

    good, bad = tmp_path / "good.safetensors", tmp_path / "bad.safetensors"
    save(build_mlp(Recipe(p=7, keys=(1, 2), neurons=24)), good)
    content = good.read_bytes()
    size = int.from_bytes(content[:8], "little")
    text = content[8 : 8 + size]
    entry = json.dumps(json.loads(text)["mlp.W_b"]).encode()
    twice = text.rstrip()[:-1] + b',"mlp.W_a":' + entry + b"}"
    bad.write_bytes(len(twice).to_bytes(8, "little") + twice + content[8 + size :])
    with pytest.raises(BadFile):
        load(bad)
    with pytest.raises(Rejected):
        read_model(bad.read_bytes())
