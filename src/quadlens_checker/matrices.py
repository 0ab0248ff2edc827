"""Exact linear algebra: matrices of integers over one power of two."""

from collections.abc import Sequence
from operator import mul

from quadlens_checker.reading import Clock, require, ticking

Rows = list[list[int]]
Matrix = tuple[Rows, int]  # (rows, shift): the value is rows / 2^shift


def matrix(shape: list[int], values: Sequence[float], height: int | None = None, width: int | None = None) -> Matrix:
    """The first `height` rows and `width` columns (or all) as integers over their common power of two."""
    whole = shape[-1]
    starts = range(0, len(values), whole)[:height]
    ratios = [[x.as_integer_ratio() for x in values[n : n + whole][:width]] for n in starts]
    shift = max(d.bit_length() for row in ratios for _, d in row)
    return [[n << (shift - d.bit_length()) for n, d in row] for row in ratios], shift - 1


def at_shift(x: Matrix, shift: int) -> Rows:
    """The rows of `x` over the larger denominator 2^shift."""
    return [[n << (shift - x[1]) for n in row] for row in x[0]]


def plus(x: Matrix, y: Matrix) -> Matrix:
    """Add: x + y, where y may be one row that is added to every row of x."""
    shift = max(x[1], y[1])
    X, Y = at_shift(x, shift), at_shift(y, shift)
    Y = Y * len(X) if len(Y) == 1 else Y
    return [[m + n for m, n in zip(r, s, strict=True)] for r, s in zip(X, Y, strict=True)], shift


def minus(x: Matrix, y: Matrix) -> Matrix:
    """Subtract: x - y, where y may be one row."""
    return plus(x, ([[-n for n in row] for row in y[0]], y[1]))


def times(x: Matrix, y: Matrix, clock: Clock) -> Matrix:
    """The matrix product x y."""
    require(len(x[0][0]) == len(y[0]), "shapes of weights do not fit")
    columns = list(zip(*y[0], strict=True))
    return [[sum(map(mul, row, column)) for column in columns] for row in ticking(x[0], clock)], x[1] + y[1]


def scaled(x: Matrix, factor: float) -> Matrix:
    """Scale: x times a float."""
    n, d = factor.as_integer_ratio()
    return [[n * m for m in row] for row in x[0]], x[1] + d.bit_length() - 1


def rows(x: Matrix, start: int, stop: int) -> Matrix:
    """Some rows of a matrix."""
    require(0 <= start < stop <= len(x[0]), "the config names weights that do not exist")
    return x[0][start:stop], x[1]


def transposed(x: Matrix) -> Matrix:
    """The transpose."""
    return [list(column) for column in zip(*x[0], strict=True)], x[1]


def absolute(x: Matrix) -> Matrix:
    """The size of every entry."""
    return [[abs(n) for n in row] for row in x[0]], x[1]


def column_maxima(x: Matrix, start: int, stop: int) -> list[int]:
    """The largest entry of each column among some rows."""
    return [max(column) for column in zip(*x[0][start:stop], strict=True)]
