"""Characters of the symmetric groups, by partitions and cycle types."""

from quadlens.network.groups import Permutation


def cycle_type(permutation: Permutation) -> tuple[int, ...]:
    """Return the lengths of its cycles, longest first.

    >>> cycle_type((1, 0, 3, 4, 2))
    (3, 2)
    """
    lengths, seen = [], set()
    for start in range(len(permutation)):
        length, i = 0, start
        while i not in seen:
            seen.add(i)
            i = permutation[i]
            length += 1
        lengths += [length] if length else []
    return tuple(sorted(lengths, reverse=True))


def partitions(n: int, largest: int | None = None) -> list[tuple[int, ...]]:
    """Return all ways to write n as a sum, parts in descending order.

    >>> partitions(4)
    [(4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1)]
    """
    if n == 0:
        return [()]
    return [
        (part, *rest)
        for part in range(min(n, largest or n), 0, -1)
        for rest in partitions(n - part, part)
    ]


def specht_character(shape: tuple[int, ...], cycles: tuple[int, ...]) -> int:
    """Return the character of an irrep of S_n at a cycle type.

    The irrep belongs to a partition; the rule is that of Murnaghan and Nakayama.

    Taking a rim hook of length m off a partition lowers one of its first-column hook lengths by m;
    the sign is minus for every other hook length that is jumped over.

    >>> specht_character((4, 1), (2, 1, 1, 1)), specht_character((2, 2, 1), (5,))
    (2, 0)
    """
    rows = len(shape)
    return _by_hooks(frozenset(part + rows - 1 - i for i, part in enumerate(shape)), cycles)


def _by_hooks(hooks: frozenset[int], cycles: tuple[int, ...]) -> int:
    if not cycles:
        return 1
    total = 0
    for hook in hooks:
        lower = hook - cycles[0]
        if lower >= 0 and lower not in hooks:
            jumped = sum(lower < other < hook for other in hooks)
            total += (-1) ** jumped * _by_hooks(hooks - {hook} | {lower}, cycles[1:])
    return total
