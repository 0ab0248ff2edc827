"""Exact linear algebra: matrices of integers over one power of two.

Many products by the same number are one product of a long integer (Kronecker): integers v_0, v_1, …
with |v_j| below half of 2^(8 size) are the fields of V = Σ_j v_j 2^(8 size j). Sums of such V and
products with integers act on every field at once, exactly, as long as each field stays that small;
then V plus half of 2^(8 size) in every field has fields in 0 … 2^(8 size) - 1, which are its bytes,
`size` at a time.
"""

import math
from collections.abc import Iterable, Sequence
from functools import cache
from operator import mul

from quadlens_checker.reading import Clock, require, ticking

Rows = list[list[int]]
Matrix = tuple[Rows, int]  # (rows, shift): the value is rows / 2^shift


def matrix(
    shape: list[int], values: Sequence[float], height: int | None = None, width: int | None = None
) -> Matrix:
    """Return the first `height` rows and `width` columns (or all) as exact integers.

    They are over their common power of two.
    """
    whole = shape[-1]
    starts = range(0, len(values), whole)[:height]
    ratios = [[x.as_integer_ratio() for x in values[n : n + whole][:width]] for n in starts]
    shift = max(d.bit_length() for row in ratios for _, d in row)
    return [[n << (shift - d.bit_length()) for n, d in row] for row in ratios], shift - 1


def at_shift(x: Matrix, shift: int) -> Rows:
    """The rows of `x` over the larger denominator 2^shift."""
    return [[n << (shift - x[1]) for n in row] for row in x[0]]


def to_bits(x: Matrix, bits: int) -> Rows:
    """The nearest integers over 2^bits, each within half of one."""
    fine = max(x[1], bits + 1)
    return [
        [(n + (1 << (fine - bits - 1))) >> (fine - bits) for n in row] for row in at_shift(x, fine)
    ]


def plus(x: Matrix, y: Matrix) -> Matrix:
    """Add: x + y, where y may be one row that is added to every row of x."""
    shift = max(x[1], y[1])
    X, Y = at_shift(x, shift), at_shift(y, shift)
    Y = Y * len(X) if len(Y) == 1 else Y
    return [[m + n for m, n in zip(r, s, strict=True)] for r, s in zip(X, Y, strict=True)], shift


def minus(x: Matrix, y: Matrix) -> Matrix:
    """Subtract: x - y, where y may be one row."""
    return plus(x, ([[-n for n in row] for row in y[0]], y[1]))


def packed(values: Iterable[int], size: int) -> int:
    """Pack integers as fields of `size` bytes of one integer.

    Each must be smaller than half of 2^(8 size), sign aside.
    """
    fields = [n + (1 << (8 * size - 1)) for n in values]
    return int.from_bytes(
        b"".join([n.to_bytes(size, "little") for n in fields]), "little"
    ) - halves(len(fields), size)


@cache
def halves(count: int, size: int) -> int:
    """Half of 2^(8 size) in each of `count` fields."""
    return int.from_bytes((b"\0" * (size - 1) + b"\x80") * count, "little")


def unpacked(fields: int, count: int, size: int) -> list[int]:
    """The integers in `count` fields; the inverse of `packed`."""
    data, half = (
        (fields + halves(count, size)).to_bytes(size * count, "little"),
        1 << (8 * size - 1),
    )
    return [int.from_bytes(data[n : n + size], "little") - half for n in range(0, len(data), size)]


def field_size(*factors: int, plus: int = 0) -> int:
    """Return the bytes of a field for a product of integers of these sizes.

    It also holds each of them, and one of size `plus` more.
    """
    return (math.prod(max(1, n) for n in factors) + plus).bit_length() // 8 + 1


def largest(x: Iterable[Iterable[int]]) -> int:
    """The largest size of an entry, or 0."""
    return max((max(map(abs, row), default=0) for row in x), default=0)


def times(x: Matrix, y: Matrix, clock: Clock) -> Matrix:
    """The matrix product x y."""
    inner, width = len(y[0]), len(y[0][0])
    require(len(x[0][0]) == inner, "shapes of weights do not fit")
    size = field_size(largest(x[0]), largest(y[0]), inner)
    lines = [packed(row, size) for row in y[0]]
    products = (sum(map(mul, row, lines)) for row in ticking(x[0], clock))
    return [unpacked(fields, width, size) for fields in products], x[1] + y[1]


def scaled(x: Matrix, factor: float) -> Matrix:
    """Scale: x times a float."""
    n, d = factor.as_integer_ratio()
    return [[n * m for m in row] for row in x[0]], x[1] + d.bit_length() - 1


def rows(x: Matrix, start: int, stop: int) -> Matrix:
    """Some rows of a matrix."""
    require(0 <= start < stop <= len(x[0]), "the config names weights that do not exist")
    return x[0][start:stop], x[1]


def transposed(x: Matrix) -> Matrix:
    """Return the transpose."""
    return [list(column) for column in zip(*x[0], strict=True)], x[1]


def absolute(x: Matrix) -> Matrix:
    """The size of every entry."""
    return [[abs(n) for n in row] for row in x[0]], x[1]


def column_maxima(x: Matrix, start: int, stop: int) -> list[int]:
    """The largest entry of each column among some rows."""
    return [max(column) for column in zip(*x[0][start:stop], strict=True)]
