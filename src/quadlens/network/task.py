"""The task of a model: a binary operation on n elements, given by its answers."""

import hashlib
import io
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from jaxtyping import Bool, Int

from quadlens.base.errors import BadConfig, BadFile, WrongArgument, kind_of
from quadlens.base.reading import read_limited
from quadlens.network.groups import GROUP_NAME, MAX_ELEMENTS, group_table, is_group_called

FORMULAS = "add, subtract, linear:α,β, multiply, divide, multiply0"
# As many answers as a table may have, eight bytes or characters each, and a header.
MAX_TABLE_BYTES = 8 * MAX_ELEMENTS**2 + 4096
NPY_HEADER = re.compile(
    rb"\{'descr': '([<>|=]?[bifu][1248])', 'fortran_order': (True|False), "
    rb"'shape': \(([0-9]{0,9}(?:, ?[0-9]{0,9}){0,8})\), \}\s*"
)


@dataclass(frozen=True, eq=False)
class CyclicRelabelling:
    """Permutations of the elements that turn the task into addition.

    of_c[answers[a,b]] ≡ of_a[a] + of_b[b] (mod n).

    Attributes:
        of_a: New number of each a.
        of_b: New number of each b.
        of_c: New number of each answer.
        root: The primitive root whose discrete logarithm they are, for `multiply` and `divide`.
    """

    of_a: Int[np.ndarray, " n"]
    of_b: Int[np.ndarray, " n"]
    of_c: Int[np.ndarray, " n"]
    root: int | None = None

    @property
    def is_identity(self) -> bool:
        """Whether nothing is renamed: the task is addition itself."""
        return all(np.array_equal(x, np.arange(len(x))) for x in (self.of_a, self.of_b, self.of_c))


@dataclass(frozen=True, eq=False)
class Task:
    """A binary operation on 0 … n-1.

    Attributes:
        name: `add`, `linear:2,3`, `S5`, or `table` for a table that came without a name.
        n: Number of elements.
        table: The answers, read-only; None where a formula gives them, so that large n costs
            nothing.
    """

    name: str
    n: int
    table: Int[np.ndarray, "n n"] | None = None

    def __post_init__(self) -> None:
        if self.table is None:
            _check_formula(self.name, self.n)
            return
        table = np.array(self.table, dtype=np.int64, order="C")
        what = "the table" if self.name == "table" else f"the table of {self.name}"
        if table.shape != (self.n, self.n) or self.n < 2:
            raise BadConfig(
                f"{what} has shape {table.shape}; expected one row and one column per element, at "
                "least 2 of them"
            )
        wrong = np.argwhere((table < 0) | (table >= self.n))
        if len(wrong):
            a, b = (int(i) for i in wrong[0])
            raise BadConfig(f"{what} has {table[a, b]} at [{a}, {b}]; expected 0 … {self.n - 1}")
        if self.name != "table" and not is_group_called(self.name, table):
            raise BadConfig(
                f"{what} is not that of the group, in whatever order of its elements; a table that "
                "is no known group is called `table`"
            )
        table.flags.writeable = False
        object.__setattr__(self, "table", table)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Task)
            and (self.name, self.n) == (other.name, other.n)
            and (self.table is other.table or np.array_equal(self.answers, other.answers))
        )

    def __hash__(self) -> int:
        return hash((self.name, self.n))

    def __repr__(self) -> str:
        return f"Task({self.name!r}, n={self.n}: {self.words})"

    @cached_property
    def answers(self) -> Int[np.ndarray, "n n"]:
        """answers[a, b] is the right answer; read-only."""
        if self.table is not None:
            return self.table
        elements = np.arange(self.n)
        grid = self.answer(elements[:, None], elements[None, :])
        grid.flags.writeable = False
        return grid

    def answer(
        self, a: Int[np.ndarray, "*#pairs"], b: Int[np.ndarray, "*#pairs"]
    ) -> Int[np.ndarray, "..."]:
        """Return the right answers to pairs (a, b).

        Where a formula gives them, the whole table is not made.
        """
        if self.table is not None:
            return self.table[a, b]
        if self.name == "multiply0":
            return a * b % self.n
        if self.name in ("multiply", "divide"):
            p = self.n + 1
            inverse = np.array([pow(x, -1, p) for x in range(1, p)])
            return (a + 1) * (b + 1 if self.name == "multiply" else inverse[b]) % p - 1
        alpha, beta = _coefficients(self.name, self.n)
        return (alpha * a + beta * b) % self.n

    @property
    def modulus(self) -> int | None:
        """The modulus, where there is one: n, or n + 1 on the units of Z_p."""
        return None if self.table is not None else self.n + self.on_units

    @property
    def words(self) -> str:
        """The operation in words, as `a + b mod 59`."""
        return f"{self.symbols} {self.place}" + (", 0 included" if self.name == "multiply0" else "")

    @property
    def symbols(self) -> str:
        """The operation without its modulus, as `a − b` or `σ·τ`."""
        if self.table is not None:
            return "σ·τ" if self.name[0] in "SA" else "a·b"
        if self.name.startswith("linear:"):
            alpha, beta = _coefficients(self.name, self.n)
            return f"{alpha}a + {beta}b"
        return {"add": "a + b", "subtract": "a − b", "divide": "a / b"}.get(self.name, "a · b")

    def element(self, i: int) -> str:
        """Return the name of element i: a residue for `multiply` and `divide`.

        The elements of these two start at 1.
        """
        return str(i + 1 if self.on_units else i)

    def question(self, a: int, b: int) -> str:
        """Return one input in the task's own words.

        >>> task_by_name("subtract", 7).question(3, 5), task_by_name("linear:2,3", 7).question(3, 5)
        ('3 − 5', '2·3 + 3·5')
        >>> task_by_name("multiply", 6).question(3, 5), task_by_name("S3").question(3, 5)
        ('4 · 6', 'σ·τ with σ = 3, τ = 5')
        """
        x, y = self.element(a), self.element(b)
        if self.symbols == "σ·τ":
            return f"σ·τ with σ = {x}, τ = {y}"
        letters = {"a": x, "b": y}
        return re.sub(
            r"(\d*)([ab])",
            lambda m: f"{m[1]}·{letters[m[2]]}" if m[1] else letters[m[2]],
            self.symbols,
        )

    @property
    def place(self) -> str:
        """Where the operation lives: `mod 59`, `in S5`, `by a table`."""
        if self.table is not None:
            return "by a table" if self.name == "table" else f"in {self.name}"
        return f"mod {self.modulus}"

    @property
    def on_units(self) -> bool:
        """Whether element i is the residue i + 1."""
        return self.name in ("multiply", "divide")

    def sentence(self, a: int, b: int, c: int) -> str:
        """Return an input with an answer, as a reader writes it.

        >>> task_by_name("subtract", 5).sentence(1, 3, 3)
        '1 − 3 ≡ 3'
        >>> task_by_name("multiply", 4).sentence(1, 2, 0)
        '2 · 3 ≡ 1'
        """
        return (
            f"{a}·{b} = {c}"
            if self.table is not None
            else f"{self.question(a, b)} ≡ {self.element(c)}"
        )

    @cached_property
    def is_latin_square(self) -> bool:
        """Whether every row and every column has each element once.

        Then a · x = b and x · a = b have one solution each.
        """
        elements = np.arange(self.n)
        rows, columns = np.sort(self.answers, axis=1), np.sort(self.answers, axis=0)
        return bool((rows == elements).all() and (columns == elements[:, None]).all())

    @cached_property
    def identity(self) -> int | None:
        """The element e with e·x = x·e = x, if there is one."""
        elements = np.arange(self.n)
        both = (self.answers == elements).all(axis=1) & (self.answers == elements[:, None]).all(
            axis=0
        )
        return int(both.argmax()) if both.any() else None

    @cached_property
    def is_group(self) -> bool:
        """Whether the operation is a group's.

        Then it is an associative Latin square with an identity.

        Light's test: the x with (a·x)·b = a·(x·b) for all a, b are closed under the product, so
        that generators of the whole are enough to try.
        """
        if not self.is_latin_square or self.identity is None:
            return False
        table = self.answers
        return all((table[table[:, x]] == table[:, table[x]]).all() for x in _generators(table))

    @cached_property
    def cyclic(self) -> CyclicRelabelling | None:
        """The relabelling that makes this task addition modulo n; None if there is none.

        For a formula it is the natural one (identity, b ↦ -b, the discrete logarithm to the
        smallest primitive root); for a table it is searched for (`find_cyclic_relabelling`). The
        identity is preferred.
        """
        return _natural_relabelling(self) or find_cyclic_relabelling(self.answers)

    @cached_property
    def is_addition(self) -> bool:
        """Whether the table is that of a + b mod n, whatever its name."""
        if self.table is None and not self.name.startswith(("multiply", "divide")):
            return _coefficients(self.name, self.n) == (1, 1)
        elements = np.arange(self.n)
        return bool((self.answers == np.add.outer(elements, elements) % self.n).all())

    @property
    def by_formula(self) -> bool:
        """Whether the name and n say everything, so that files need no table."""
        return self.table is None

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the table as little-endian 32-bit integers, row by row."""
        return hashlib.sha256(self.answers.astype("<i4").tobytes()).hexdigest()

    def to_json(self) -> str | dict[str, str]:
        """Return the name where it suffices, else the name and the table's SHA-256."""
        return self.name if self.by_formula else {"name": self.name, "sha256": self.sha256}


def task(what: "str | Path | Sequence[Sequence[int]] | np.ndarray", n: int | None = None) -> Task:
    """Return a task: by its name, by its table, or by a file that has the table.

    Every function that takes a task's name takes this value, too; `model.asked(task)` asks a model
    another one.

    Args:
        what: A name, as "add", "linear:2,3", "multiply" or "S5"; n rows of n answers; or a path to
            a table (CSV, .npy).
        n: Number of elements, for a name that leaves it open.

    Raises:
        BadConfig, BadFile: when the name is not known or does not fit n, or the table is none.

    >>> task("subtract", 5).answers[1].tolist()
    [1, 0, 4, 3, 2]
    >>> task([[0, 1], [1, 0]]).words
    'a·b by a table'
    """
    if isinstance(what, Path) or (isinstance(what, str) and what.endswith((".csv", ".npy"))):
        return task_from_file(Path(what))
    if isinstance(what, str):
        return task_by_name(what, n)
    table = np.asarray(what)
    if table.ndim != 2 or len(set(table.shape)) != 1 or not np.issubdtype(table.dtype, np.integer):
        raise BadConfig(
            f"a table of {table.dtype}, {table.shape}; expected n rows of n integers from 0 to n - "
            "1"
        )
    return task_from_table(table.astype(np.int64))


class TensorLike(Protocol):
    """A tensor of PyTorch, as far as it is used."""

    def detach(self) -> Any:
        """The numbers without their gradient."""


# What callers may pass as a task: a name, a table, a path to one, a task.
TaskLike = str | Path | Task | Sequence[Sequence[int]] | np.ndarray | TensorLike


def task_given(what: Any) -> "str | Task | None":
    """Return the task that a caller passed: its name, or a `Task`.

    A table (rows, array or tensor) is made a `Task`.

    Raises:
        WrongArgument: for anything else; the message says what to pass.
        BadConfig: when the table is none.

    >>> task_given("add"), task_given([[0, 1], [1, 0]])
    ('add', Task('table', n=2: a·b by a table))
    """
    if what is None or isinstance(what, str | Task):
        return what
    if isinstance(what, Path):
        return task_from_file(what)
    try:
        array = np.asarray(what.detach().cpu() if hasattr(what, "detach") else what)
    except ValueError:  # rows of several lengths
        array = np.asarray(None)
    if array.ndim == 0:
        raise WrongArgument(
            f"task: got {kind_of(what)}; expected a name, as 'add' or 'S5', a table of n rows of n "
            "answers, a path to "
            "one, or a quadlens.task(…)"
        )
    return task(array)


def is_formula(name: str) -> bool:
    """Whether a name is that of a formula, whatever the number of elements."""
    return name.startswith("linear:") or name in FORMULAS.split(", ")


def task_by_name(name: str, n: int | None = None) -> Task:
    """Return the task called `name` on n elements; a group has its own n.

    >>> task_by_name("subtract", 5).answers[1].tolist(), task_by_name("multiply", 4).words
    ([1, 0, 4, 3, 2], 'a · b mod 5')

    Raises:
        BadConfig: when the name is not known, or does not fit n.
    """
    if re.fullmatch(GROUP_NAME, name):
        table = group_table(name)
        if n is not None and n != len(table):
            raise BadConfig(f"the group {name} has {len(table)} elements, but the model has {n}")
        return Task(name, len(table), table)
    if n is None:
        raise (
            BadConfig(f"the task {name!r} needs a number of elements n")
            if is_formula(name)
            else _unknown(name)
        )
    return Task(name, n)


def task_from_table(answers: Int[np.ndarray, "n n"], name: str = "table") -> Task:
    """Return the task of a table.

    A group's name may be given; its elements are then in the table's order.
    """
    if name != "table" and len(group_table(name)) != len(answers):
        raise BadConfig(
            f"the table has {len(answers)} elements, but {name} has {len(group_table(name))}"
        )
    return Task(name, len(answers), answers)


def task_from_rows(text: str) -> Task:
    """Return the task whose table has these rows.

    >>> task_from_rows("0,1;1,0").answers.tolist()
    [[0, 1], [1, 0]]
    """
    try:
        return task_from_table(
            np.array([[int(word) for word in row.split(",")] for row in text.split(";")])
        )
    except ValueError:
        raise BadConfig(
            f"the table {text[:40]!r} … is not rows of numbers such as 0,1;1,0"
        ) from None


def task_from_file(path: Path) -> Task:
    """Read a Cayley table from CSV or `.npy`.

    A CSV file has integers separated by commas, row a, column b.

    Raises:
        BadFile: when the file is missing or holds no integers.
        BadConfig: when it is no n × n table of 0 … n-1.
    """
    content = read_limited(path, MAX_TABLE_BYTES)
    table = _numpy_table(content, path) if path.suffix == ".npy" else _text_table(content, path)
    if not np.issubdtype(table.dtype, np.integer):
        raise BadFile(f"{path} holds {table.dtype} numbers; expected integers")
    if table.ndim != 2 or table.shape[0] != table.shape[1] or len(table) > MAX_ELEMENTS:
        raise BadConfig(
            f"{path} has shape {table.shape}; expected n rows of n answers, with n at most "
            f"{MAX_ELEMENTS}"
        )
    try:
        return task_from_table(table.astype(np.int64))
    except BadConfig as error:
        raise BadConfig(f"{path}: {error}") from None


def _numpy_table(content: bytes, path: Path) -> np.ndarray:
    """Return the numbers in a `.npy` file.

    Its header is matched with what NumPy writes, never evaluated, and measured.
    """
    start = 10 if content[6:7] == b"\x01" else 12
    end = start + int.from_bytes(content[8:start], "little")
    header = (
        NPY_HEADER.fullmatch(content[start:end])
        if content.startswith(b"\x93NUMPY") and end <= 4096
        else None
    )
    if header is None:
        raise BadFile(
            f"{path} is not a table of integers (CSV or .npy): its header is not one that "
            "numpy.save writes"
        )
    kind, shape = (
        np.dtype(header[1].decode()),
        tuple(int(word) for word in header[3].split(b",") if word.strip()),
    )
    if math.prod(shape) * kind.itemsize != len(content) - end:
        raise BadFile(
            f"{path} has {len(content) - end} bytes of numbers, but its header says shape {shape} "
            f"of {kind}; "
            "get the file again"
        )
    return np.frombuffer(content, kind, offset=end).reshape(
        shape, order="F" if header[2] == b"True" else "C"
    )


def _text_table(content: bytes, path: Path) -> np.ndarray:
    """Return the numbers in a CSV file."""
    if content.partition(b"\n")[0].count(b",") >= MAX_ELEMENTS:
        raise BadConfig(
            f"{path} has more than {MAX_ELEMENTS} answers in its first row; expected at most so "
            "many"
        )
    try:
        with warnings.catch_warnings():
            # A file of blank lines is only a warning to NumPy.
            warnings.simplefilter("error")
            return np.loadtxt(
                io.BytesIO(content),
                delimiter=",",
                dtype=np.int64,
                ndmin=2,
                max_rows=MAX_ELEMENTS + 1,
            )
    except (ValueError, UserWarning) as error:
        raise BadFile(
            f"{path} is not a table of integers (CSV or .npy): {str(error)[:200]}"
        ) from None


def task_from_json(data: Any, n: int, table: Int[np.ndarray, "..."] | None, where: str) -> Task:
    """Read what `Task.to_json` wrote; `table` is what the file holds beside it.

    Raises:
        BadConfig: when the name is not known, or the table is missing or not the one the hash is
            of.
    """
    if isinstance(data, str):
        task = task_by_name(data, n)
        if not task.by_formula:
            raise BadConfig(f"{where}: the task {data} comes without its table")
        return task
    if (
        not isinstance(data, Mapping)
        or set(data) != {"name", "sha256"}
        or not isinstance(data["name"], str)
    ):
        raise BadConfig(
            f"{where}: the task is {data!r}; expected a name, or a name with the SHA-256 of a table"
        )
    if table is None or table.shape != (n, n):
        raise BadConfig(
            f"{where}: the table of the task {data['name']} is missing or not {n} × {n}"
        )
    task = task_from_table(table, data["name"])
    if task.sha256 != data["sha256"]:
        raise BadConfig(
            f"{where}: the table of the task {task.name} is not the one whose SHA-256 is given"
        )
    return task


def find_cyclic_relabelling(answers: Int[np.ndarray, "n n"]) -> CyclicRelabelling | None:
    """Return permutations that turn a table into addition, if there are any.

    Renaming a by its column 0 and b by its row 0 makes a loop, M[answers[a,0], answers[0,b]] =
    answers[a,b]; if any renaming gives addition, that loop is a cyclic group (Albert 1943). A
    generator's powers then number the elements.
    """
    n, elements = len(answers), np.arange(len(answers))
    column, row = answers[:, 0], answers[0]
    if not all(np.array_equal(np.sort(line), elements) for line in (column, row)):
        return None
    loop = np.empty_like(answers)
    loop[np.ix_(column, row)] = answers
    # All powers of all elements at once: powers[j, g] = g^j.
    powers = np.empty((n, n), dtype=np.int64)
    powers[0] = answers[0, 0]
    for j in range(1, n):
        powers[j] = loop[powers[j - 1], elements]
    generators = np.flatnonzero((np.sort(powers, axis=0) == elements[:, None]).all(axis=0))
    if not len(generators):
        return None
    logarithm = np.empty(n, dtype=np.int64)
    logarithm[powers[:, generators[0]]] = elements
    relabelling = CyclicRelabelling(logarithm[column], logarithm[row], logarithm)
    return relabelling if _holds(relabelling, answers) else None


def _holds(relabelling: CyclicRelabelling, answers: Int[np.ndarray, "n n"]) -> bool:
    total = np.add.outer(relabelling.of_a, relabelling.of_b) % len(answers)
    return bool((relabelling.of_c[answers] == total).all())


def _natural_relabelling(task: Task) -> CyclicRelabelling | None:
    """Return the relabelling of a formula; addition under any name needs none."""
    i = np.arange(task.n)
    if task.name == "subtract" or task.name.startswith("linear:"):
        alpha, beta = _coefficients(task.name, task.n)
        return CyclicRelabelling(alpha * i % task.n, beta * i % task.n, i)
    if task.name in ("multiply", "divide"):
        root = smallest_primitive_root(task.n + 1)
        logarithm = np.empty(task.n, dtype=np.int64)
        logarithm[np.array([pow(root, int(j), task.n + 1) for j in i]) - 1] = i
        of_b = logarithm if task.name == "multiply" else -logarithm % task.n
        return CyclicRelabelling(logarithm, of_b, logarithm, root)
    return CyclicRelabelling(i, i, i) if task.is_addition else None


def smallest_primitive_root(p: int) -> int:
    """Return the smallest g whose powers are all of 1 … p-1, for a prime p.

    >>> smallest_primitive_root(7), smallest_primitive_root(59), smallest_primitive_root(191)
    (3, 2, 19)
    """
    factors = [q for q in range(2, p) if (p - 1) % q == 0 and _is_prime(q)]
    return next(g for g in range(1, p) if all(pow(g, (p - 1) // q, p) != 1 for q in factors))


def _generators(table: Int[np.ndarray, "n n"]) -> list[int]:
    """Return elements that generate all others as products.

    Each is the smallest that the ones before it do not reach.
    """
    chosen: list[int] = []
    reached: Bool[np.ndarray, " n"] = np.zeros(len(table), dtype=bool)
    while not reached.all():
        chosen.append(int(reached.argmin()))
        reached[chosen] = True
        before = 0
        while before != (before := int(reached.sum())):
            reached[table[reached][:, chosen]] = True
    return chosen


def _coefficients(name: str, n: int) -> tuple[int, int]:
    if name in ("add", "subtract"):
        return 1, 1 if name == "add" else n - 1
    match = re.fullmatch(r"linear:(-?[0-9]{1,9}),(-?[0-9]{1,9})", name)
    if match is None:
        raise BadConfig(f"the task {name!r} is not linear:α,β with two integers, as in linear:2,3")
    for value in (int(match[1]), int(match[2])):
        if math.gcd(value, n) != 1:
            raise BadConfig(
                f"{name}: {value} and n = {n} have a common factor; expected units modulo n"
            )
    return int(match[1]) % n, int(match[2]) % n


def _check_formula(name: str, n: int) -> None:
    if n < 2:
        raise BadConfig(f"n = {n} is not supported; expected at least 2 elements")
    if name in ("multiply", "divide", "multiply0"):
        p = n if name == "multiply0" else n + 1
        if not _is_prime(p):
            with_zero = (
                f"; with 0 … {n - 1} as elements it is multiply0"
                if name == "multiply" and _is_prime(n)
                else ""
            )
            raise BadConfig(
                f"{name} is about a prime modulus; {n} elements would make it {p}, which is not "
                "prime"
                + (
                    ""
                    if name == "multiply0"
                    else f" (the elements are the residues 1 … p-1){with_zero}"
                )
            )
    elif name in ("add", "subtract") or name.startswith("linear:"):
        _coefficients(name, n)
    else:
        raise _unknown(name)


def _unknown(name: str) -> BadConfig:
    of_sequences = re.fullmatch(r"(add|cumsum-sign|max):[0-9]+", name)
    more = (
        f"; {name} is a task on sequences, which a file of such a network says itself"
        if of_sequences
        else ""
    )
    return BadConfig(
        f"no task is called {name!r}; expected one of {FORMULAS}, or a group such as S5, D59 or "
        f"C5xC5{more}"
    )


def _is_prime(p: int) -> bool:
    return p >= 2 and all(p % q for q in range(2, math.isqrt(p) + 1))
