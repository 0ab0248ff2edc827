"""Irreps from Cayley tables: known character tables, projections the slow way, frequencies of
cyclic groups."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from quadlens.analysis.spectrum.irreps import Irreps, find_irreps
from quadlens.analysis.spectrum.key import is_key
from quadlens.analysis.spectrum.symmetric_groups import cycle_type, partitions, specht_character
from quadlens.base.errors import BadConfig
from quadlens.network import Weights
from quadlens.network.config import Config, Softmax
from quadlens.network.evaluate import evaluate
from quadlens.network.groups import chughtai_table, elements_of
from quadlens.network.task import Task, task_by_name, task_from_table

GROUPS = [
    "C2",
    "C7",
    "C12",
    "D3",
    "D4",
    "D9",
    "S3",
    "S4",
    "A4",
    "A5",
    "S5",
    "C5xC5",
    "S3xC4",
    "C2xC2xC2",
]


def quaternions() -> Task:
    """±1, ±i, ±j, ±k as 2 × 2 matrices: the smallest group with an irrep of quaternionic type."""
    i, j = np.array([[1j, 0], [0, -1j]]), np.array([[0, 1], [-1, 0]])
    half = [np.eye(2), i, j, i @ j]
    elements = [*half, *(-x for x in half)]

    def number(x: np.ndarray) -> int:
        return next(n for n, y in enumerate(elements) if np.allclose(x, y))

    return task_from_table(np.array([[number(x @ y) for y in elements] for x in elements]))


def all_groups() -> list[Task]:
    return [*(task_by_name(name) for name in GROUPS), quaternions(), task_by_name("multiply", 12)]


@pytest.mark.parametrize("task", all_groups(), ids=repr)
def test_projections_are_projections(task: Task) -> None:
    irreps = find_irreps(task)
    projections = [irreps.projection(part) for part in irreps.parts]
    assert np.allclose(sum(projections), np.eye(task.n), atol=1e-9)
    left = np.eye(task.n)[task.answers]  # left[x] is the matrix that takes f(y) to f(x·y)
    for part, P in zip(irreps.parts, projections, strict=True):
        assert np.allclose(P @ P, P, atol=1e-9)
        assert np.allclose(P, P.T, atol=1e-9)
        assert np.trace(P) == pytest.approx(part.rank)
        assert np.allclose(left[1] @ P, P @ left[1], atol=1e-9)
    assert sum(part.rank for part in irreps.parts) == task.n
    assert irreps.parts[0].name == "trivial"
    assert np.allclose(projections[0], 1 / task.n)
    assert len({part.name for part in irreps.parts}) == len(irreps.parts)


@pytest.mark.parametrize("task", all_groups(), ids=repr)
def test_shares_by_explicit_projections(task: Task) -> None:
    irreps = find_irreps(task)
    f = np.random.default_rng(0).standard_normal((task.n, 5))
    slow = np.array([np.square(irreps.projection(part) @ f).sum() for part in irreps.parts])
    assert np.allclose(irreps.energies(f @ f.T), slow, atol=1e-9)
    shares = irreps.shares(f)
    assert shares[0] == 0
    assert np.allclose(shares[1:], slow[1:] / slow[1:].sum())


def test_conjugacy_classes_slowly() -> None:
    task = task_by_name("A4")
    table, irreps = task.answers, find_irreps(task)
    for x in range(task.n):
        mine = {int(table[table[y, x], irreps.inverse[y]]) for y in range(task.n)}
        assert {z for z in range(task.n) if irreps.class_of[z] == irreps.class_of[x]} == mine


@pytest.mark.parametrize(
    ("task", "dimensions"),
    [
        (task_by_name("S4"), [1, 1, 2, 3, 3]),
        (task_by_name("A5"), [1, 3, 3, 4, 5]),
        (task_by_name("S5"), [1, 1, 4, 4, 5, 5, 6]),
        (
            task_by_name("A4"),
            [1, 2, 3],
        ),  # the two complex ones count as one real one of dimension 2
        (task_by_name("C6"), [1, 1, 2, 2]),
        (quaternions(), [1, 1, 1, 1, 4]),
    ],
    ids=repr,
)
def test_dimensions(task: Task, dimensions: list[int]) -> None:
    assert [part.dimension for part in find_irreps(task).parts] == dimensions


@pytest.mark.parametrize("n", [7, 12])
def test_frequencies_of_a_cyclic_group(n: int) -> None:
    irreps = find_irreps(task_by_name("add", n))
    f = np.random.default_rng(1).standard_normal((n, 3))
    power = np.square(np.abs(np.fft.rfft(f, axis=0))).sum(axis=1)
    power[1 : (n + 1) // 2] *= 2
    for part, energy in zip(irreps.parts, irreps.energies(f @ f.T), strict=True):
        k = (
            {"trivial": 0, "sign": n // 2}.get(part.name)
            if "frequency" not in part.name
            else int(part.name[10:])
        )
        assert k is not None
        assert energy == pytest.approx(power[k] / n)


def test_names() -> None:
    assert [part.name for part in find_irreps(task_by_name("S3")).parts] == [
        "trivial",
        "sign",
        "standard",
    ]
    assert {part.name for part in find_irreps(task_by_name("S5")).parts} == {
        "trivial", "sign", "standard", "standard-sign", "5d (3,2)", "5d (2,2,1)", "6d (3,1,1)",
    }  # fmt: skip
    assert [part.name for part in find_irreps(task_by_name("A5")).parts] == [
        "trivial", "3d-a", "3d-b", "standard", "5d (3,2)",
    ]  # fmt: skip
    assert {part.name for part in find_irreps(task_by_name("D5")).parts} == {
        "trivial", "sign", "frequency 1", "frequency 2",
    }  # fmt: skip
    # A table in an order nobody knows has dimensions only.
    shuffle = np.random.default_rng(0).permutation(120)
    S5 = task_by_name("S5").answers
    shuffled = np.argsort(shuffle)[S5[np.ix_(shuffle, shuffle)]]
    assert "4d-a" in {part.name for part in find_irreps(task_from_table(shuffled)).parts}


def test_characters_of_permutations_slowly() -> None:
    """Standard: fixed points less one; and the rows of S_5's table are orthogonal with the right
    dimensions."""
    elements = elements_of("S5", chughtai_table("S5"))
    assert elements is not None
    shapes = partitions(5)
    rows = np.array(
        [[specht_character(shape, cycle_type(x)) for x in elements] for shape in shapes]
    )
    assert np.array_equal(rows @ rows.T, 120 * np.eye(len(shapes)))
    fixed = np.array([sum(i == x for i, x in enumerate(element)) for element in elements])
    assert np.array_equal(rows[shapes.index((4, 1))], fixed - 1)


def test_no_group_no_irreps() -> None:
    with pytest.raises(BadConfig, match="is no group, so it has no irreps"):
        find_irreps(task_by_name("subtract", 5))


# --- public checkpoints
# -------------------------------------------------------------------------------------------


def peers() -> Path:
    directory = os.environ.get("QUADLENS_PEERS")
    if directory is None:
        pytest.skip("QUADLENS_PEERS names no directory of public checkpoints")
    return Path(directory)


def chughtai_transformer(directory: Path, run: str) -> Weights:
    """A checkpoint of Chughtai et al. with the task and attention its config names."""
    from quadlens.readers.zip_files import read_torch

    path = directory / "chughtai" / run / "model.pt"
    tensors = read_torch(path.read_bytes(), str(path))
    weights = {
        name.rsplit(".", 1)[-1]: array
        for name, array in tensors.items()
        if name.startswith(("embed.", "pos_embed.", "unembed.", "blocks."))
        and "mask" not in name
        and "IG" not in name
    }
    name = run.partition("_")[0]
    task = task_from_table(chughtai_table(name), name)
    heads, d_model, d_head = weights["W_Q"].shape
    config = Config(
        p=task.n,
        d_model=d_model,
        d_mlp=weights["W_in"].shape[1],
        n_heads=heads,
        d_head=d_head,
        d_vocab=len(weights["W_E"]),
        d_vocab_out=weights["W_U"].shape[1],
        n_ctx=len(weights["W_pos"]),
        attention=(0.0, 0.0, 0.0),
        read_position=2,
        softmax=Softmax(1.0, math.sqrt(d_head)),
        task=task,
    )
    return Weights(config=config, **weights)


def key_irreps(irreps: Irreps, shares: np.ndarray) -> set[str]:
    return {part.name for part, share in zip(irreps.parts, shares, strict=True) if is_key(share)}


@pytest.mark.parametrize(
    "run", ["S5_T_seed1", "D59_T_seed1", "C113_T_seed1", "C118_T_seed2", "S6_T_seed1"]
)
def test_key_irreps_are_the_published_ones(run: str) -> None:
    directory = peers()
    rows = json.loads((directory / "chughtai.json").read_text())["rows"]
    published = next(row["key_irreps"] for row in rows if row["run"] == run)
    # Their 5d-b of S6 is the partition (2,2,2).
    theirs = {"5d-b": "5d (2,2,2)"} | {str(k): f"frequency {k}" for k in range(1, 60)}
    model = chughtai_transformer(directory, run)
    irreps = find_irreps(model.config.task)
    shares = irreps.shares(model.collapse().W_L)
    assert key_irreps(irreps, shares) == {theirs.get(name, name) for name in published}
    if run == "S5_T_seed1":
        found = {part.name: share for part, share in zip(irreps.parts, shares, strict=True)}
        assert found["standard-sign"] == pytest.approx(0.959, abs=0.0005)
        assert found["sign"] == pytest.approx(0.041, abs=0.0005)


@pytest.mark.parametrize("run", ["A5_T_seed1", "S5_T_seed1"])
def test_public_transformers_answer_every_input(run: str) -> None:
    result = evaluate(chughtai_transformer(peers(), run).collapse())
    assert result.correct == result.pairs
