"""Numbers as text, rounded to their safe side, and Arb's precision.

A bound that is printed is still a bound.
"""

import math
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Literal

# What stands where a number has no meaning.
NONE = "–"
# Python refuses to write integers of more than 4,300 digits. A certificate's margin has fewer than
# 4,000; the checker writes them all, and statements have to agree.
LARGEST_WRITTEN_OUT = 10**4000
Direction = Literal["nearest", "down", "up"]
_PRECISION = threading.RLock()
_ROUNDINGS = {"nearest": ROUND_HALF_EVEN, "down": ROUND_FLOOR, "up": ROUND_CEILING}


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Let Arb work with this many bits in the block, in one thread at a time.

    python-flint has one precision for all threads.

    A ball is true at any precision, but its middle alone, taken for near the truth, is not.
    """
    from flint import ctx

    with _PRECISION, ctx.workprec(bits):
        yield


def decimals(
    value: float | Fraction | None, digits: int = 3, towards: Direction = "nearest"
) -> str:
    """Write a number with this many digits after the point.

    None is a dash. A number with too many digits before the point has significant digits
    instead.

    >>> decimals(2 / 3), decimals(Fraction(2, 3), 3, "down"), decimals(None)
    ('0.667', '0.666', '–')
    >>> decimals(Fraction(-2, 3) * 10**5000, 3, "down")
    '-6.66666666667e+4999'
    """
    if value is None:
        return NONE
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if not -LARGEST_WRITTEN_OUT < value < LARGEST_WRITTEN_OUT:
        return significant(value, towards, 12)
    scaled = Fraction(value) * 10**digits
    whole = (
        math.floor(scaled)
        if towards == "down"
        else math.ceil(scaled)
        if towards == "up"
        else round(scaled)
    )
    text = f"{abs(whole):0{digits + 1}d}"
    sign, point, split = "-" if whole < 0 else "", "." if digits else "", len(text) - digits
    return f"{sign}{text[:split]}{point}{text[split:]}"


def at_most(value: float | Fraction | None, digits: int = 4) -> str:
    """Rounded up, so that "at most" stays true."""
    return decimals(value, digits, "up")


def at_least(value: float | Fraction | None, digits: int = 4) -> str:
    """Rounded down, so that "at least" stays true."""
    return decimals(value, digits, "down")


def margin(proved: float | Fraction | None) -> str:
    """Write a proved margin: two decimals, rounded down.

    >>> margin(14.2256), margin(Fraction(877, 100)), margin(None)
    ('14.22', '8.77', '–')
    """
    return at_least(proved, 2)


def bound(value: float | Fraction | None) -> str:
    """Write an upper bound of any size: four significant digits, rounded up.

    >>> bound(72.80205), bound(211.8331), bound(0.5), bound(None)
    ('72.81', '211.9', '0.5', '–')
    """
    return significant(value, "up", 4)


def fit(r2: float | None) -> str:
    """Write an R²: four decimals, rounded down, so that only perfection reads as 1.

    >>> fit(0.99998), fit(0.9998), fit(1.0), fit(None)
    ('0.9999', '0.9998', '1.0000', '–')
    """
    return at_least(r2, 4)


def between(lower: float, upper: float, digits: int) -> str:
    """Write an enclosure: one number where it is narrow, else both ends.

    It is narrow where both ends agree within the last digit. Ends are rounded outwards.

    >>> between(0.12341, 0.12342, 4), between(0.125, 0.25, 4)
    ('0.1234', '0.1250…0.2500')
    """
    if Decimal(upper - lower) > Decimal(1).scaleb(-digits):
        return f"{at_least(lower, digits)}…{at_most(upper, digits)}"
    return decimals(lower + (upper - lower) / 2, digits)


def significant(
    value: float | Fraction | None, towards: Direction = "nearest", digits: int = 6
) -> str:
    """Write at most this many significant digits, rounded as a bound needs it.

    A lower bound is rounded down and an upper bound up.

    >>> significant(2 / 3), significant(2 / 3, "down"), significant(Fraction(1, 3), "up")
    ('0.666667', '0.666666', '0.333334')
    >>> significant(0.5)
    '0.5'
    """
    if value is None:
        return NONE
    context = Context(prec=digits, rounding=_ROUNDINGS[towards])
    if isinstance(value, Fraction):
        number = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    else:
        number = context.create_decimal(Decimal(value))
    plain_notation = not number.is_finite() or -digits <= number.adjusted() < digits
    return f"{number:f}" if plain_notation else f"{number:e}"


def short_of_one(value: float | int, digits: int) -> str:
    """So many significant digits, and more where less than 1 would read as 1: only perfection does.

    >>> short_of_one(0.04585, 3), short_of_one(0.99996, 3), short_of_one(1.0, 3)
    ('0.0459', '0.99996', '1')
    """
    text = f"{value:.{digits}g}"
    while value < 1 <= float(text):
        digits += 1
        text = f"{value:.{digits}g}"
    return text


def percent(share: float, digits: int = 1, towards: Direction = "nearest") -> str:
    """A share in per cent; only perfection reads as 100 %, but for an upper bound.

    >>> percent(0.5), percent(0.99999), percent(1.0), percent(0.99999, 1, "up")
    ('50.0 %', '99.9 %', '100.0 %', '100.0 %')
    >>> percent(0.12399, 1, "down")
    '12.3 %'
    """
    # In floating point the product would be rounded, either way, before it is rounded to its side.
    text = decimals(100 * Fraction(share) if math.isfinite(share) else share, digits, towards)
    if share < 1 and towards != "up" and float(text) >= 100:
        text = f"{100 - 10**-digits:.{digits}f}"
    return f"{text} %"


def cost(share: float) -> str:
    """Write a proof's share of brute force's cost: one decimal, rounded up.

    >>> cost(0.09347), cost(0.1679), cost(1.0)
    ('9.4 %', '16.8 %', '100.0 %')
    """
    return percent(share, 1, "up")


def of_mean_size(error: float) -> str:
    """Write an error as a share of the integral's mean size, rounded up.

    It is a percentage with one decimal.

    >>> of_mean_size(0.029133), of_mean_size(5.9324)
    ('3.0 %', '593.3 %')
    """
    return percent(error, 1, "up")


def neglected(share: float) -> str:
    """Write a share that is left out as a percentage, to the nearest.

    Rounding down would flatter what is left out.

    >>> neglected(0.0059), neglected(0.0004), neglected(0.9999)
    ('0.6 %', 'less than 0.1 %', '99.9 %')
    """
    return "less than 0.1 %" if 0 < share < 0.0005 else percent(share)


def listed(numbers: tuple[int, ...]) -> str:
    """Numbers in a sentence.

    >>> listed((5, 9, 11)), listed((5,)), listed(())
    ('5, 9 and 11', '5', 'none')
    """
    words = [str(number) for number in numbers]
    return (
        words[0]
        if len(words) == 1
        else ", ".join(words[:-1]) + (" and " if words else "none") + "".join(words[-1:])
    )


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "model"), counted(2, "model")
    ('1 model', '2 models')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def double_below(x: Fraction | None) -> float | None:
    """Return the largest double that is not above x.

    Beyond the doubles it is the largest of them or minus infinity.
    """
    if x is None:
        return None
    try:
        nearest = float(x)
    except OverflowError:
        return sys.float_info.max if x > 0 else -math.inf
    return nearest if Fraction(nearest) <= x else math.nextafter(nearest, -math.inf)


def double_above(x: Fraction | None) -> float | None:
    """The smallest double that is not below x."""
    down = double_below(None if x is None else -x)
    return None if down is None else -down + 0.0  # no minus zero
