"""Finite groups by name, as Cayley tables: `C118`, `D59`, `S5` and `C5xC5`.

The order of the elements, by which tokens are numbered:

- `Cn`: element i is the i-th power of one generator.
- `Dn` (2n elements): the rotations r^0 … r^(n-1), then the reflections r^0 s … r^(n-1) s, with s r
  s = r^-1.
- `Sn`, `An`: permutations of 0 … n-1 as tuples (σ(0), …, σ(n-1)) in lexicographic order; σ·τ is
  "first τ, then σ".
- `GxH`: pairs (g, h), h running fastest.
"""

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations

import numpy as np
from jaxtyping import Int

from quadlens.base.errors import BadConfig

MAX_ELEMENTS = 2048
# Of a search for a renumbering, products looked up: seconds.
MAX_STEPS = 10_000_000
# Letters of the groups that have names, and how a product of them is called.
KINDS = "CDSA"
GROUP_NAME = rf"[{KINDS}]\d+(x[{KINDS}]\d+)*"
KNOWN = "C118, D59, S5, A5 or a product such as C5xC5"

Permutation = tuple[int, ...]


@lru_cache(maxsize=8)
def group_table(name: str) -> Int[np.ndarray, "n n"]:
    """Return table[x, y] = x·y of the group called `name`; read-only.

    >>> group_table("D3")[3, 1], group_table("C2xC2")[1].tolist()
    (np.int64(5), [1, 0, 3, 2])

    Raises:
        BadConfig: when no group is called that, or it has more than 2,048 elements.
    """
    factors = [re.fullmatch(rf"([{KINDS}])([1-9][0-9]{{0,5}})", part) for part in name.split("x")]
    kinds = [(match[1], int(match[2])) for match in factors if match is not None]
    if len(kinds) < len(factors):
        raise BadConfig(f"no group is called {name!r}; expected {KNOWN}")
    if math.prod(_order(kind, degree) for kind, degree in kinds) > MAX_ELEMENTS:
        raise BadConfig(
            f"the group {name} has more than {MAX_ELEMENTS} elements; expected a smaller one"
        )
    table = np.zeros((1, 1), dtype=np.int64)
    for kind, degree in kinds:
        factor = _factor(kind, degree)
        # (g, h)·(g', h') = (g·g', h·h'), numbered g |H| + h.
        table = np.kron(table, np.ones_like(factor)) * len(factor) + np.tile(factor, table.shape)
    table.flags.writeable = False
    return table


def is_group_called(name: str, table: Int[np.ndarray, "n n"]) -> bool:
    """Whether a table is that of the group `name`, its elements in any order.

    Images of generators are tried until a map is one to one and takes every product to the product:
    yes is always right. No is said, too, where the search is given up, after more steps than any
    group up to S6 takes.

    >>> swapped = np.array([2, 1, 0])
    >>> table = swapped[group_table("C3")[np.ix_(swapped, swapped)]]
    >>> is_group_called("C3", table), is_group_called("C3", np.zeros((3, 3), dtype=np.int64))
    (True, False)

    Raises:
        BadConfig: when no group is called that.
    """
    known = group_table(name)
    if table.shape != known.shape:
        return False
    if np.array_equal(table, known) or np.array_equal(table, known.T):
        return True
    sizes, targets = _kinds(known), _kinds(table)
    if not np.array_equal(np.sort(sizes), np.sort(targets)):
        return False
    search = _Renumbering(known.tolist(), table.tolist(), sizes, targets)
    images = search.images()
    if images is None or len(set(images)) < len(images):
        return False
    renamed = np.array(images)
    return bool((table[np.ix_(renamed, renamed)] == renamed[known]).all())


def _kinds(table: Int[np.ndarray, "n n"]) -> Int[np.ndarray, " n"]:
    """Return a number for each x that no renumbering changes.

    It holds the order of x, how many elements commute with x, and how many roots x has.

    The order is how many of x, x·x, … there are before x comes again, 0 where it does not.
    """
    n = len(table)
    start = power = np.arange(n)
    orders = np.zeros(n, dtype=np.int64)
    for j in range(1, n + 1):
        power = table[power, start]
        orders[(orders == 0) & (power == start)] = j
        if orders.all():
            break
    commuting, roots = (table == table.T).sum(axis=1), np.bincount(np.diagonal(table), minlength=n)
    return (orders * (n + 1) + commuting) * (n + 1) + roots


class _Renumbering:
    """The search for images of generators of a known group in a table."""

    def __init__(
        self, known: list[list[int]], table: list[list[int]], sizes: np.ndarray, targets: np.ndarray
    ) -> None:
        self._known, self._table, self._steps = known, table, 0
        self._sizes, self._targets = sizes.tolist(), targets.tolist()
        self._generators: list[int] = []
        inside: dict[int, int] | None = {}
        while inside is not None and len(inside) < len(known):
            free = [x for x in range(len(known)) if x not in inside]
            self._generators.append(max(free, key=self._sizes.__getitem__))
            inside = self._map(known, self._generators, self._sizes)
        self._candidates = [np.flatnonzero(targets == sizes[x]).tolist() for x in self._generators]

    def images(self) -> list[int] | None:
        """Return the image of every element, or None where no map keeps products.

        The map keeps products as far as generators tell.
        """
        if not self._generators:  # of one element
            return [0]
        images = self._search([])
        return None if images is None else [images[x] for x in range(len(self._known))]

    def _search(self, chosen: list[int]) -> dict[int, int] | None:
        mapped = self._map(self._table, chosen, self._targets) if chosen else {}
        if mapped is None or len(chosen) == len(self._generators):
            return mapped
        taken = set(mapped.values())
        for image in self._candidates[len(chosen)]:
            if self._steps > MAX_STEPS:
                return None
            if image not in taken and (whole := self._search([*chosen, image])) is not None:
                return whole
        return None

    def _map(
        self, table: list[list[int]], images: list[int], targets: list[int]
    ) -> dict[int, int] | None:
        """Extend images of generators to all their products; None at a contradiction.

        An element of another kind than its image is one, found before the whole map is.
        """
        pairs = list(zip(self._generators, images, strict=False))
        mapped = dict(pairs)
        queue = list(mapped)
        for x in queue:
            row, target_row = self._known[x], table[mapped[x]]
            self._steps += len(pairs)
            for g, image in pairs:
                y, target = row[g], target_row[image]
                if mapped.setdefault(y, target) != target or self._sizes[y] != targets[target]:
                    return None
                if len(mapped) > len(queue):
                    queue.append(y)
        return mapped


def _order(kind: str, degree: int) -> int:
    """Return the number of elements, without making any.

    S and A of large degree count as too many.
    """
    if kind in "SA":
        return math.factorial(min(degree, 20)) // (2 if kind == "A" and degree > 1 else 1)
    return 2 * degree if kind == "D" else degree


def _factor(kind: str, degree: int) -> Int[np.ndarray, "n n"]:
    i = np.arange(degree)
    if kind == "C":
        return np.add.outer(i, i) % degree
    if kind == "D":
        add, subtract = np.add.outer(i, i) % degree, np.subtract.outer(i, i) % degree
        return np.block([[add, add + degree], [subtract + degree, subtract]])
    return permutation_table([p for p in permutations(range(degree)) if kind == "S" or is_even(p)])


def is_even(permutation: Permutation) -> bool:
    """Whether the number of pairs out of order is even.

    >>> is_even((1, 2, 0)), is_even((1, 0, 2))
    (True, False)
    """
    return sum(x > y for i, x in enumerate(permutation) for y in permutation[i + 1 :]) % 2 == 0


def permutation_table(elements: Sequence[Permutation]) -> Int[np.ndarray, "n n"]:
    """Return table[x, y] = the number of "first element y, then element x"."""
    number = {element: index for index, element in enumerate(elements)}
    arrays = np.array(elements)
    return np.array([[number[tuple(row)] for row in x[arrays].tolist()] for x in arrays])


# Base and strong generators that SymPy finds for (0 1 … n-1), (0 1) and, for A5, (0 1 2 3 4), (1
# 2)(3 4). Chughtai et al. number the elements of their groups by the cosets of this chain.
_CHAINS: dict[str, tuple[Permutation, tuple[Permutation, ...]]] = {
    "S3": ((0, 1), ((1, 2, 0), (1, 0, 2), (0, 2, 1))),
    "S4": ((0, 1, 2), ((1, 2, 3, 0), (1, 0, 2, 3), (0, 3, 1, 2), (0, 1, 3, 2))),
    "S5": (
        (0, 1, 3, 2),
        ((1, 2, 3, 4, 0), (1, 0, 2, 3, 4), (0, 4, 1, 2, 3), (0, 1, 2, 4, 3), (0, 1, 4, 3, 2)),
    ),
    "S6": (
        (0, 1, 4, 2, 3),
        (
            (1, 2, 3, 4, 5, 0),
            (1, 0, 2, 3, 4, 5),
            (0, 5, 1, 2, 3, 4),
            (0, 1, 2, 3, 5, 4),
            (0, 1, 3, 5, 4, 2),
            (0, 1, 2, 5, 4, 3),
        ),
    ),
    "A5": ((0, 1, 2), ((1, 2, 3, 4, 0), (0, 2, 1, 4, 3), (0, 4, 2, 1, 3), (0, 1, 3, 4, 2))),
}


def chughtai_table(name: str) -> Int[np.ndarray, "n n"]:
    """Return the group `name` as in the checkpoints of Chughtai et al.

    Their cyclic and dihedral groups are ours. Permutations come in the order of a stabiliser chain,
    the coset of the first base point running fastest, and x·y is "first x, then y".
    """
    if name not in _CHAINS:
        if name[:1] in ("S", "A"):
            raise BadConfig(
                f"Chughtai et al.'s order of {name} is not known; expected one of "
                f"{', '.join(_CHAINS)}"
            )
        return group_table(name)
    return permutation_table(_chain_elements(name)).T


def group_orders(name: str) -> dict[str, Int[np.ndarray, "n n"]]:
    """Return every known numbering of the group `name`, by what it is called.

    Equal tables come once.

    x·y may be "first y, then x" (a product of functions) or "first x, then y": the second is the
    transposed table.

    >>> [order for order in group_orders("S3")][:2]
    ['our order', 'our order, first x then y']
    >>> [order for order in group_orders("C3xC3")]
    ['our order']
    """
    ours = group_table(name)
    orders = {"our order": ours, "our order, first x then y": ours.T}
    if name in _CHAINS:
        theirs = chughtai_table(name)
        orders |= {
            "Chughtai et al.'s order": theirs,
            "Chughtai et al.'s order, first y then x": theirs.T,
        }
    kept: dict[str, Int[np.ndarray, "n n"]] = {}
    for order, table in orders.items():
        if not any(np.array_equal(table, other) for other in kept.values()):
            kept[order] = table
    return kept


def _chain_elements(name: str) -> list[Permutation]:
    base, generators = _CHAINS[name]
    elements: list[Permutation] = [tuple(range(len(generators[0])))]
    for level in reversed(range(len(base))):
        fixing = [g for g in generators if all(g[point] == point for point in base[:level])]
        cosets = _transversal(base[level], fixing)
        elements = [tuple(u[i] for i in g) for g in elements for _, u in sorted(cosets.items())]
    return elements


def _transversal(point: int, generators: Sequence[Permutation]) -> dict[int, Permutation]:
    """Return, for each image of `point`, the first product of generators to it.

    The products are tried breadth first.
    """
    reached = {point: tuple(range(len(generators[0])))}
    queue = [point]
    for image in queue:
        for generator in generators:
            if generator[image] not in reached:
                reached[generator[image]] = tuple(generator[i] for i in reached[image])
                queue.append(generator[image])
    return reached


def elements_of(name: str, table: Int[np.ndarray, "n n"]) -> list[Permutation] | None:
    """Return the permutations that the elements of S_n or A_n are.

    None if the table has neither our order nor Chughtai et al.'s.
    """
    match = re.fullmatch(r"([SA])([0-9]+)", name)
    if match is None:
        return None
    if np.array_equal(table, group_table(name)):
        return [p for p in permutations(range(int(match[2]))) if match[1] == "S" or is_even(p)]
    if name in _CHAINS and np.array_equal(table, chughtai_table(name)):
        return _chain_elements(name)
    return None
