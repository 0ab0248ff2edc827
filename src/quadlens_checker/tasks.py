"""The task: which answer is right for each pair.

It is given by a name and the rules below, or by a table of answers.

Formulas on 0 … n-1: `add` a + b, `subtract` a - b, `linear:α,β` αa + βb (units), all modulo n;
`multiply0` a·b modulo a prime n; `multiply` and `divide` on the residues 1 … n modulo the prime n +
1, element i being the residue i + 1.

Groups: `Cn`, element i is the i-th power of a generator; `Dn`, the rotations r^i and then the
reflections r^i s, with s r s = r^-1; `Sn` and `An`, permutations as tuples of images in
lexicographic order, x·y being first y, then x; and products `GxH`, pairs in lexicographic order. A
table that is named after a group must be one of that group, up to the order of the elements. Other
tables are called `table` and need not be groups.
"""

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

from quadlens_checker.reading import Clock, integers, keys, require, ticking

Table = list[list[int]]


@dataclass(frozen=True)
class Task:
    """An operation on 0 … n-1: its name in files, its answers, and its name in a statement."""

    value: Any
    answers: Table
    words: str


def prime(n: int) -> bool:
    """Whether n is a prime number."""
    return n > 1 and all(n % q for q in range(2, math.isqrt(n) + 1))


def by_formula(name: str, n: int) -> Task:
    """A task whose name and n say everything."""
    if name in ("multiply", "divide", "multiply0"):
        units = name != "multiply0"
        p = n + 1 if units else n
        require(prime(p), f"{name} is about a prime modulus, not {p}")
        if not units:
            return Task(
                name,
                [[a * b % p for b in range(n)] for a in range(n)],
                f"a · b mod {p}, 0 included,",
            )
        factors = [pow(b, 1 if name == "multiply" else -1, p) for b in range(1, p)]
        answers = [[a * b % p - 1 for b in factors] for a in range(1, p)]
        sign = "·" if name == "multiply" else "/"
        return Task(name, answers, f"a {sign} b mod {p} (element i being the residue i + 1)")
    linear = re.fullmatch(r"linear:(-?[0-9]{1,9}),(-?[0-9]{1,9})", name)
    require(linear or name in ("add", "subtract"), f"unknown task {name[:80]}")
    alpha, beta = (int(linear[1]), int(linear[2])) if linear else (1, 1 if name == "add" else -1)
    require(
        math.gcd(alpha, n) == math.gcd(beta, n) == 1,
        f"{name}: a factor that is not a unit modulo {n}",
    )
    signs = {"add": "a + b", "subtract": "a − b"}
    words = f"{signs.get(name, f'{alpha % n}a + {beta % n}b')} mod {n}"
    return Task(name, [[(alpha * a + beta * b) % n for b in range(n)] for a in range(n)], words)


def order(kind: str, degree: int) -> int:
    """Number of elements of Cn, Dn, Sn or An, or more than are read."""
    many = math.factorial(min(degree, 20))
    return {"C": degree, "D": 2 * degree, "S": many, "A": max(1, many // 2)}[kind]


def factor(kind: str, degree: int) -> Table:
    """The product of Cn, Dn, Sn or An."""
    if kind == "C":
        return [[(a + b) % degree for b in range(degree)] for a in range(degree)]
    if kind == "D":  # r^i s^x · r^j s^y = r^(i ± j) s^(x + y), minus after a reflection
        elements = list(product((0, 1), range(degree)))
        return [
            [(x + y) % 2 * degree + (i - j if x else i + j) % degree for y, j in elements]
            for x, i in elements
        ]
    chosen = [
        x
        for x in permutations(range(degree))
        if kind == "S" or sum(x[i] > x[j] for j in range(degree) for i in range(j)) % 2 == 0
    ]
    number = {x: index for index, x in enumerate(chosen)}
    return [[number[tuple([x[image] for image in y])] for y in chosen] for x in chosen]


def group_factors(name: str, n: int) -> list[tuple[str, int]]:
    """The factors of the group called `name`, as kinds and degrees; it must have n elements."""
    parts = [re.fullmatch(r"([CDSA])([1-9][0-9]{0,5})", part) for part in name.split("x")]
    require(len(parts) <= 16 and all(parts), f"unknown group {name[:80]}")
    factors = [(part[1], int(part[2])) for part in parts if part]
    elements = math.prod(order(kind, degree) for kind, degree in factors)
    require(elements == n, f"the group {name[:80]} does not have {n} elements")
    return factors


def group(name: str, n: int) -> Table:
    """The product of the group called `name`, in the order of this module's rules."""
    table = [[0]]
    for kind, degree in group_factors(name, n):
        right = factor(kind, degree)
        size = len(right)
        table = [[x * size + y for x in row for y in line] for row in table for line in right]
    return table


def orders(table: Table) -> list[int]:
    """For each element x, count x, x·x, … before one comes again: its order, in a group."""
    sizes = []
    for x, row in enumerate(table):
        seen, power = {x}, row[x]
        while power not in seen:
            seen.add(power)
            power = row[power]
        sizes.append(len(seen))
    return sizes


def generated(
    table: Table, chosen: list[int], other: Table, images: list[int]
) -> dict[int, int] | None:
    """Extend images of chosen elements to the map of all their products, or return None.

    Products x·g, g chosen, are taken to products.
    """
    mapped = dict(zip(chosen, images, strict=True))
    if len(set(mapped.values())) < len(mapped):
        return None
    queue = list(mapped)
    for x in queue:
        for g, image in zip(chosen, images, strict=True):
            y, target = table[x][g], other[mapped[x]][image]
            if y not in mapped:
                mapped[y] = target
                queue.append(y)
            elif mapped[y] != target:
                return None
    return mapped


def same_group(table: Table, known: Table, clock: Clock) -> bool:
    """Say whether renaming elements turns `known`, a group, into `table`.

    Images of generators are tried.

    A map is believed only when it is one to one and every product is looked at, so that yes is
    always right.
    """
    n, sizes, targets = len(known), orders(known), orders(table)
    if sorted(sizes) != sorted(targets):
        return False
    chosen: list[int] = []
    while len(inside := generated(known, chosen, known, chosen) or {}) < n:
        chosen.append(max((x for x in range(n) if x not in inside), key=sizes.__getitem__))

    def search(images: list[int]) -> bool:
        mapped = generated(known, chosen[: len(images)], table, images)
        if mapped is None:
            return False
        if len(images) < len(chosen):
            here = [y for y in range(n) if targets[y] == sizes[chosen[len(images)]]]
            return any(search([*images, y]) for y in ticking(here, clock))
        f = [mapped[x] for x in range(n)]
        products = (table[f[x]][f[y]] == f[known[x][y]] for x in range(n) for y in range(n))
        return sorted(f) == list(range(n)) and all(products)

    return search([])


def fingerprint(table: Table) -> str:
    """SHA-256 of a table as little-endian 32-bit integers, row by row."""
    return hashlib.sha256(
        b"".join(x.to_bytes(4, "little") for row in table for x in row)
    ).hexdigest()


def read_task(value: Any, n: int, table: Sequence[int] | None) -> Task:
    """The task that a model file names, whose table, if it has one, is in the file too."""
    if isinstance(value, str):
        require(table is None, "a table of answers for a task that is given by a formula")
        return by_formula(value, n)
    keys(value, ("name", "sha256"), "task")
    name, sha256, entries = value["name"], value["sha256"], list(table or ())
    require(
        isinstance(name, str) and isinstance(sha256, str) and len(entries) == n * n,
        "a task without name or table",
    )
    answers = [integers(entries[a * n : a * n + n], "task.answers", n, 0, n - 1) for a in range(n)]
    require(
        fingerprint(answers) == sha256,
        "the task's table does not have the SHA-256 that the file gives",
    )
    if name == "table":
        return Task(value, answers, f"a·b by the table with SHA-256 {sha256}")
    group_factors(name, n)
    return Task(value, answers, f"the product a·b in {name} (table with SHA-256 {sha256})")


def check_task(task: Task, value: Any, answers: Any, clock: Clock) -> None:
    """Require that the certificate's task is the model's and is what it is called.

    Its table is there unless the name gives it.
    """
    require(value == task.value, "the certificate's task is not the model's")
    n, name = len(task.answers), "table" if isinstance(task.value, str) else task.value["name"]
    known = None if name == "table" else group(name, n)
    derived = isinstance(task.value, str) or known == task.answers
    if answers is not None:
        rows = [integers(row, "answers", n, 0, n - 1) for row in answers]
        require(rows == task.answers, "the certificate's table of answers is not the model's")
        require(
            not derived, "the certificate has a table of answers that follows from the task's name"
        )
    else:
        require(
            derived,
            "the certificate lacks the table of answers, which does not "
            "follow from the task's name",
        )
    if known is not None and known != task.answers:
        require(
            same_group(task.answers, known, clock),
            f"the task's table is not one of the group {name}",
        )
