"""Directions of the residual stream that are worth trying: hints for `thin`, found in float64; any would be sound."""

import numpy as np
from jaxtyping import Float

from quadlens.model.dyadic import Dyadic
from quadlens.proofs.low_rank import LARGEST_COEFFICIENT
from quadlens.proofs.streams import Streams

# Bits of the directions P: |D| is of this size, and an error of |A| |D| |F| must not be felt.
DIRECTION_BITS = 24
# How much more the reading side weighs than the writing side when directions are chosen; the best is kept.
BALANCES = (0.5, 1.0, 2.0, 4.0)


def directions(read: Float[np.ndarray, "rows d"], write: Float[np.ndarray, "d columns"], r: int) -> Dyadic:
    """The r directions along which both sides are large, as a hint: of a few balances the one that leaves least."""
    # Principal axes of both sides together: of the d × d sum of their squares, which is small whatever the rows.
    squares = [x / (float(np.trace(x)) or 1.0) for x in (read.T @ read, write @ write.T)]
    best: tuple[float, np.ndarray] | None = None
    for balance in BALANCES:
        P = np.linalg.eigh(balance**2 * squares[0] + squares[1])[1][:, ::-1][:, :r]
        left = np.linalg.norm(read - read @ P @ P.T, axis=1).max() * np.linalg.norm(write - P @ (P.T @ write), axis=0)
        if best is None or left.sum() < best[0]:
            best = (float(left.sum()), P)
    if best is None:
        raise RuntimeError("no balance was tried")
    return hint(best[1])


def token_mean(X: Dyadic) -> Dyadic:
    """The mean over the tokens, nearly: as a hint."""
    return hint(floats_of(X).mean(axis=0, keepdims=True))


def stacked(streams: Streams) -> Float[np.ndarray, "rows d"]:
    """X_a and X_b less their means, in float64: what directions are chosen by."""
    both = [floats_of(X) for X in (streams.X_a, streams.X_b)]
    return np.vstack([x - x.mean(axis=0) for x in both])


def floats(array: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows columns"]:
    """As float64."""
    return array.astype(np.float64)


def floats_of(x: Dyadic) -> Float[np.ndarray, "rows columns"]:
    """Rounded to float64: for hints only."""
    unit = 1 << x.shift
    return np.array([int(n) / unit for n in x.numerators.entries()]).reshape(x.shape)


def hint(x: Float[np.ndarray, "rows columns"]) -> Dyadic:
    """Rounded to DIRECTION_BITS after the point: any numbers will do that a certificate can hold."""
    scaled = np.rint(np.ldexp(x, DIRECTION_BITS))
    if np.abs(scaled).max(initial=0.0) >= LARGEST_COEFFICIENT:
        raise ValueError("the residual stream is too large for a certificate")
    return Dyadic.from_floats(scaled / (1 << DIRECTION_BITS))
