"""Tasks against slow, obvious definitions; every relabelling must turn its task into addition."""

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadlens.base.errors import BadConfig, BadFile
from quadlens.network.groups import chughtai_table, group_table
from quadlens.network.task import (
    Task,
    find_cyclic_relabelling,
    smallest_primitive_root,
    task_by_name,
    task_from_file,
    task_from_json,
    task_from_table,
)

GROUPS = [
    "C1xC2",
    "C7",
    "C8",
    "D3",
    "D4",
    "D59",
    "S3",
    "S4",
    "A4",
    "A5",
    "C5xC5",
    "C3xC4",
    "S3xC2",
    "C2xC2xC2",
]


def is_addition_after(task: Task) -> bool:
    """The definition of a cyclic relabelling, entry by entry, with three true permutations."""
    found = task.cyclic
    assert found is not None
    for permutation in (found.of_a, found.of_b, found.of_c):
        assert sorted(permutation.tolist()) == list(range(task.n))
    return all(
        found.of_c[task.answers[a, b]] == (found.of_a[a] + found.of_b[b]) % task.n
        for a in range(task.n)
        for b in range(task.n)
    )


@pytest.mark.parametrize("n", [2, 3, 4, 9, 10, 59])
def test_add_and_subtract_any_n(n: int) -> None:
    for name, sign in (("add", 1), ("subtract", -1)):
        task = task_by_name(name, n)
        assert task.answers.tolist() == [[(a + sign * b) % n for b in range(n)] for a in range(n)]
        assert is_addition_after(task)
        assert task.is_latin_square
        assert task.modulus == n
    assert task_by_name("add", n).is_group
    assert task_by_name("add", 59).words == "a + b mod 59"
    assert task_by_name("subtract", 59).words == "a − b mod 59"


@given(st.integers(2, 40), st.integers(-50, 50), st.integers(-50, 50))
def test_linear(n: int, alpha: int, beta: int) -> None:
    name = f"linear:{alpha},{beta}"
    if np.gcd(alpha, n) != 1 or np.gcd(beta, n) != 1:
        with pytest.raises(BadConfig, match="expected units"):
            task_by_name(name, n)
        return
    task = task_by_name(name, n)
    assert task.answers.tolist() == [
        [(alpha * a + beta * b) % n for b in range(n)] for a in range(n)
    ]
    assert is_addition_after(task)


@pytest.mark.parametrize("p", [3, 5, 7, 23, 59])
def test_multiply_and_divide_on_units(p: int) -> None:
    multiply, divide = task_by_name("multiply", p - 1), task_by_name("divide", p - 1)
    for a in range(1, p):
        for b in range(1, p):
            assert multiply.answers[a - 1, b - 1] + 1 == a * b % p
            assert (divide.answers[a - 1, b - 1] + 1) * b % p == a
    assert is_addition_after(multiply)
    assert is_addition_after(divide)
    assert multiply.is_group
    assert multiply.modulus == p
    assert multiply.cyclic is not None
    assert multiply.cyclic.root == smallest_primitive_root(p)


def test_multiply_with_zero_is_no_latin_square() -> None:
    task = task_by_name("multiply0", 7)
    assert task.answers.tolist() == [[a * b % 7 for b in range(7)] for a in range(7)]
    assert not task.is_latin_square
    assert not task.is_group
    assert task.cyclic is None


@pytest.mark.parametrize("p", [3, 5, 7, 11, 41, 191, 409])
def test_primitive_root_slowly(p: int) -> None:
    slow = next(g for g in range(1, p) if len({pow(g, j, p) for j in range(p - 1)}) == p - 1)
    assert smallest_primitive_root(p) == slow


@pytest.mark.parametrize("name", GROUPS)
def test_named_groups_are_groups(name: str) -> None:
    task = task_by_name(name)
    table = task.answers
    assert task.is_group
    if task.n <= 32:
        assert all(
            table[table[x, y], z] == table[x, table[y, z]]
            for x in range(task.n)
            for y in range(task.n)
            for z in range(task.n)
        )


def test_symmetric_group_slowly() -> None:
    elements = list(permutations(range(4)))
    table = group_table("S4")
    for x, sigma in enumerate(elements):
        for y, tau in enumerate(elements):
            assert elements[table[x, y]] == tuple(sigma[tau[i]] for i in range(4))


def test_dihedral_group_as_matrices() -> None:
    n = 5
    angle = 2 * np.pi / n
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    mirror = np.diag([1.0, -1.0])
    turns = [np.linalg.matrix_power(rotation, i) for i in range(n)]
    matrices = turns + [turn @ mirror for turn in turns]
    table = group_table("D5")
    for x in range(2 * n):
        for y in range(2 * n):
            assert np.allclose(matrices[x] @ matrices[y], matrices[table[x, y]])


@pytest.mark.parametrize(
    ("name", "cyclic"), [("C3xC4", True), ("C5xC5", False), ("S3", False), ("D4", False)]
)
def test_which_groups_are_cyclic(name: str, cyclic: bool) -> None:
    task = task_by_name(name)
    assert (task.cyclic is not None) == cyclic
    if cyclic:
        assert is_addition_after(task)


@given(st.integers(2, 30), st.randoms(use_true_random=False))
def test_a_disguised_addition_is_found(n: int, random: object) -> None:
    rng = np.random.default_rng(random.randrange(2**32))  # type: ignore[attr-defined]
    rows, columns, names = (rng.permutation(n) for _ in range(3))
    answers = names[np.add.outer(np.arange(n), np.arange(n)) % n][np.ix_(rows, columns)]
    assert is_addition_after(task_from_table(answers))
    answers = answers.copy()
    answers[0, 0] = (answers[0, 0] + 1) % n
    assert find_cyclic_relabelling(answers) is None


def test_latin_square_that_is_no_group() -> None:
    # Subtraction modulo 5 has no identity; the loop below has one and is not associative.
    assert not task_by_name("subtract", 5).is_group
    loop = task_from_table(
        np.array(
            [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]]
        )
    )
    assert loop.is_latin_square
    assert loop.identity == 0
    assert not loop.is_group
    assert loop.cyclic is None


@pytest.mark.parametrize("name", ["S3", "S4", "S5", "A5"])
def test_the_order_of_chughtai_is_that_of_sympy(name: str) -> None:
    combinatorics = pytest.importorskip("sympy.combinatorics")
    degree = int(name[1])
    cycle = combinatorics.Permutation([*range(1, degree), 0])
    other = [0, 2, 1, 4, 3] if name == "A5" else [1, 0, *range(2, degree)]
    group = combinatorics.PermutationGroup(cycle, combinatorics.Permutation(other))
    elements = [tuple(element.array_form) for element in group.generate()]
    table = chughtai_table(name)
    assert task_from_table(table, name).is_group
    for x, y in np.random.default_rng(0).integers(0, len(elements), (500, 2)):
        first_x = tuple(elements[y][i] for i in elements[x])
        assert elements[table[x, y]] == first_x


def test_tables_from_files(tmp_path: Path) -> None:
    table = group_table("S3")
    np.save(tmp_path / "s3.npy", table)
    (tmp_path / "s3.csv").write_text("\n".join(",".join(map(str, row)) for row in table))
    for name in ("s3.npy", "s3.csv"):
        task = task_from_file(tmp_path / name)
        assert (task.answers == table).all()
        assert task.name == "table"
        assert task.is_group


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("0,1\n1", BadFile, "not a table of integers"),
        ("0,1\n1,x", BadFile, "not a table of integers"),
        ("", BadFile, "is empty"),
        ("\n\n", BadFile, "not a table of integers"),
        ("0,1,2\n1,2,0", BadConfig, r"shape \(2, 3\); expected n rows of n answers"),
        ("0,1\n1,2", BadConfig, r"has 2 at \[1, 1\]; expected 0 … 1"),
        ("0,1\n1,-1", BadConfig, r"has -1 at \[1, 1\]"),
        ("0", BadConfig, "at least 2 of them"),
    ],
)
def test_bad_tables(tmp_path: Path, content: str, error: type[Exception], message: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(content)
    with pytest.raises(error, match=message):
        task_from_file(path)


def test_other_bad_tables(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="cannot read"):
        task_from_file(tmp_path / "none.csv")
    np.save(tmp_path / "floats.npy", np.zeros((2, 2)))
    with pytest.raises(BadFile, match="expected integers"):
        task_from_file(tmp_path / "floats.npy")
    for array in (
        np.array([0, 1]),
        np.zeros((2, 2), np.uint64),
        np.zeros((2, 2), ">i2"),
        np.asfortranarray([[0, 1], [0, 1]]),
    ):
        np.save(tmp_path / "table.npy", array)
        if array.ndim == 2:
            np.testing.assert_array_equal(task_from_file(tmp_path / "table.npy").answers, array)
        else:
            with pytest.raises(BadConfig, match=r"has shape \(2,\); expected n rows of n answers"):
                task_from_file(tmp_path / "table.npy")
    np.save(tmp_path / "pickled.npy", np.array([{}, {}]), allow_pickle=True)
    with pytest.raises(BadFile, match="not a table"):
        task_from_file(tmp_path / "pickled.npy")


@pytest.mark.parametrize(
    ("name", "n", "message"),
    [
        ("plus", 5, "no task is called 'plus'; expected one of add"),
        ("E8", 5, "no task is called 'E8'"),
        ("S0", None, "no group is called 'S0'"),
        ("S9", None, "more than 2048 elements"),
        ("C99999xC99999", None, "more than 2048"),
        ("S5", 119, "the group S5 has 120 elements, but the model has 119"),
        ("add", None, "needs a number of elements"),
        ("add", 1, "expected at least 2 elements"),
        ("multiply", 8, "would make it 9, which is not prime"),
        ("multiply0", 8, "which is not prime"),
        ("linear:2", 5, "two integers"),
        ("linear:2,x", 5, "two integers"),
    ],
)
def test_bad_names(name: str, n: int | None, message: str) -> None:
    with pytest.raises(BadConfig, match=message):
        task_by_name(name, n)


@pytest.mark.parametrize(
    "name", ["add", "subtract", "linear:2,3", "multiply", "divide", "S3", "D5", "C10"]
)
def test_json_round_trip(name: str) -> None:
    task = (
        task_by_name(name, {"S3": 6}.get(name, 10))
        if name != "linear:2,3"
        else task_by_name(name, 7)
    )
    data = task.to_json()
    again = task_from_json(data, task.n, None if task.by_formula else task.answers, "file")
    assert again == task
    assert hash(again) == hash(task)
    assert isinstance(data, str) == (name not in ("S3", "D5", "C10"))


def test_json_that_does_not_fit() -> None:
    task = task_by_name("S3")
    with pytest.raises(BadConfig, match="comes without its table"):
        task_from_json("S3", 6, None, "file")
    with pytest.raises(BadConfig, match="not the one whose SHA-256"):
        task_from_json(task.to_json(), 6, chughtai_table("S3"), "file")
    with pytest.raises(BadConfig, match="missing or not 6 × 6"):
        task_from_json(task.to_json(), 6, None, "file")
    with pytest.raises(BadConfig, match="expected a name"):
        task_from_json({"name": 3}, 6, None, "file")


def test_a_task_cannot_be_changed() -> None:
    given_table = group_table("S3").copy()
    task = task_from_table(given_table)
    given_table[0, 0] = 5
    assert task.answers[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        task.answers[0, 0] = 1


@pytest.mark.parametrize("name", [*GROUPS, "S5", "D4xD4", "C2xC2xC2xC2xC2"])
def test_a_named_table_is_that_group_in_some_order(name: str) -> None:
    """Any renumbering is the group; one product less is not.

    Neither are zeros, which once were certified as S3.
    """
    table, rng = group_table(name), np.random.default_rng(0)
    n = len(table)
    for _ in range(3):
        order = rng.permutation(n)
        renamed = order[table[np.ix_(np.argsort(order), np.argsort(order))]]
        assert task_from_table(renamed, name).is_group
        x, y = rng.integers(0, n, 2)
        renamed[x, y] = (renamed[x, y] + 1) % n
        with pytest.raises(
            BadConfig, match=f"the table of {name} is not that of the group, in whatever order"
        ):
            task_from_table(renamed, name)
    with pytest.raises(BadConfig, match="is not that of the group"):
        Task(name, n, np.zeros((n, n), dtype=np.int64))


@pytest.mark.parametrize(
    ("name", "other"),
    [("S3", "C6"), ("D60", "S5"), ("C8", "C2xC4"), ("C2xC2xC2", "D4"), ("C4xC4", "C2xC2xC4")],
)
def test_one_group_is_not_another(name: str, other: str) -> None:
    with pytest.raises(BadConfig, match=f"the table of {name} is not that of the group"):
        task_from_table(group_table(other), name)


@pytest.mark.parametrize("m", [3, 5, 7])
def test_groups_that_orders_cannot_tell_apart(m: int) -> None:
    """Heisenberg's group modulo an odd m has orders as C_m × C_m × C_m.

    Every element but one has order m.
    """
    x, y, z = (one.ravel() for one in np.indices((m, m, m)))
    product = ((x[:, None] + x) % m * m + (y[:, None] + y) % m) * m + (
        z[:, None] + z + x[:, None] * y
    ) % m
    assert task_from_table(product).is_group
    with pytest.raises(BadConfig, match="is not that of the group"):
        task_from_table(product, f"C{m}xC{m}xC{m}")
