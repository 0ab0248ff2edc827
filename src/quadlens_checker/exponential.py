"""e^y of a rational y in integers, with a proved relative error.

Everything that is not rational comes from here.
"""

from quadlens_checker import limits

BITS = 128  # after the point, of everything below
LOG2_BITS = BITS + 64
LARGEST = 1 << limits.SCORE_BITS  # of |y|
HALVINGS, DEGREE = 8, 12


def twice_atanh(z: int, bits: int) -> int:
    """Return 2 atanh(x) = log((1+x)/(1-x)) of x = z/2^bits, 0 ≤ x ≤ 1/3, bits ≥ 80.

    It is too small by 0 … `bits` in the last place.

    The series is 2 Σ x^(2j+1)/(2j+1). x² is rounded down, and so is each power: of a power's error
    less than 1/9 reaches the next, rounding x² adds at most 1/3 and rounding the power 1, so that
    no power is more than 3/2 too small. A term is then at most 2 (3/2)/3 + 2 = 3 too small (the
    first at most 2). It ends when a power is 0; what is left out is then below 2 (3/2)(9/8)/3 < 2.
    The powers fall by 9 > 2^3.16, so there are at most bits/3.16 + 1: 3 bits/3.16 + 4 < bits. ∎
    """
    square, power, total, odd = z * z >> bits, z, 0, 1
    while power:
        total += 2 * (power // odd)
        power, odd = power * square >> bits, odd + 2
    return total


def log2_below() -> int:
    """Return the largest integer below 2^LOG2_BITS log 2.

    64 bits more are computed, so that rounding does not matter to it.
    """
    bits = LOG2_BITS + 64
    low = twice_atanh((1 << bits) // 3, bits)  # log 2 = 2 atanh(1/3)
    high = low + 2 * bits  # 1/3 was rounded down too, which takes at most 9/4
    if low >> 64 != high >> 64:
        raise ArithmeticError("log 2 is not known well enough")
    return low >> 64


LOG2 = log2_below()


def exponential(numerator: int, denominator: int) -> tuple[int, int]:
    """Return (m, k) with |m 2^(k - BITS) / e^y - 1| ≤ 2^-110, y = numerator/denominator.

    2^(BITS-1) ≤ m < 2^(BITS+1).

    With F = BITS: Y = ⌊y 2^F⌋, and R = 2^64 Y - k LOG2 lies in 0 … LOG2 - 1. For |y| < 2^60, |k| <
    2^61 and so y = k log 2 + r + τ, r = R/2^(F+64) in [0, log 2), |τ| ≤ 2^-F + |k| 2^-(F+64) <
    2^-(F-1). z = ⌊R/2^72⌋ is r/2^8 over 2^F, less than 1 too small; 2^8 times that is less than
    2^(8-F) in r. Horner's rule for Σ_{n≤12} x^n/n!, x = z/2^F < 2^-8: a step rounds down once, by
    less than 1, and divides the error of the step before by more than 256; what is not summed is
    below 2 x^13/13! < 2^-130. Each is less than 2 2^-F, and the sum is at least 1, so its relative
    error is below 3 2^-F. A squaring doubles the relative error and adds less than 2^-F: after
    eight it is below (3 2^8 + 2^8) 2^-F = 2^(10-F). In all: 2^(10-F) + 2^(8-F) + 2^(1-F) < 2^(11-F)
    = 2^-117, and 1.01 times that in the quotient. ∎
    """
    if abs(numerator) >= denominator * LARGEST:
        raise OverflowError("an exponential of more than 2^60")
    k, R = divmod(((numerator << BITS) // denominator) << 64, LOG2)
    z, unit = R >> (64 + HALVINGS), 1 << BITS
    total = unit
    for n in range(DEGREE, 0, -1):
        total = unit + (z * total >> BITS) // n
    for _ in range(HALVINGS):
        total = total * total >> BITS
    return total, k
