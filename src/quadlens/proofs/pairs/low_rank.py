"""Hints found in float64: a low rank for `moments`, directions for `thin`.

Any hints would be sound.

A low-rank form of the output map is W_L[c,i] ≈ Σ_f basis[f,c] coefficients[f,i], in short integers.

The finding behind it: a trained model's W_L has rank about 2|K| up to a few parts in ten thousand,
whether or not its neurons are tidy. In the Fourier basis a hard model needs many frequencies; in
its own basis (singular vectors, neurons weighted by the size of what they read) it does not.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from quadlens.base.display import short
from quadlens.network.dyadic import Dyadic
from quadlens.network.tables import FloatTables
from quadlens_checker import limits

BASIS_BITS = 20
COEFFICIENT_BITS = 26
# The checker reads integers of so many characters, a sign among them.
LARGEST_COEFFICIENT = 10 ** (limits.MAX_INTEGER_DIGITS - 1)
# Singular values below this share of the whole (root of the sum of squares) are left to the
# remainder.
TAIL = 2e-3
# Steps of the search for a turned basis.
TURNS = 100
# Bits of the directions P: |D| is of this size, and an error of |A| |D| |F| must not be felt.
DIRECTION_BITS = 24
# How much more the reading side weighs than the writing side when directions are chosen; the best
# is kept.
BALANCES = (0.5, 1.0, 2.0, 4.0)


@short
@dataclass(frozen=True, eq=False)
class LowRank:
    """The form basis · coefficients · 2^-shift of W_L.

    It is a hint: the remainder W_L - basis · coefficients is computed exactly from it.

    Attributes:
        basis: m functions of the answer c.
        coefficients: m weights of each neuron, in the order of the neurons of the model.
        shift: Exponent of the denominator of the product.
    """

    basis: Int[np.ndarray, "m p"]
    coefficients: Int[np.ndarray, "m d_mlp"]
    shift: int

    @property
    def rank(self) -> int:
        """How many functions, m."""
        return len(self.basis)

    @property
    def terms(self) -> int:
        """How many coefficients are not 0; the sums over neurons have no others."""
        return int(np.count_nonzero(self.coefficients))


@dataclass(frozen=True, eq=False)
class OutputSpectrum:
    """Singular vectors of W_L over c, with what does not depend on c taken out.

    Attributes:
        W_L: The output map in float64, mean over c removed.
        vectors: Left singular vectors of W_L, neurons weighted by the size of their input, columns
            in falling order.
        tails: tails[m] = share of the weighted W_L beyond rank m, as root of sums of squares.
    """

    W_L: Float[np.ndarray, "p d_mlp"]
    vectors: Float[np.ndarray, "p n"]
    tails: Float[np.ndarray, " n_plus_1"]

    @property
    def natural_rank(self) -> int:
        """The smallest rank whose tail is below `TAIL`."""
        return int(np.argmax(self.tails <= TAIL))


def arcs_spectrum(collapsed: FloatTables) -> OutputSpectrum:
    """Return the output map of a ReLU model, neurons weighted by their inputs.

    The map is that of `integer_model`.
    """
    size = np.sqrt(np.square(collapsed.U_a).mean(axis=0) + np.square(collapsed.U_b).mean(axis=0))
    return output_spectrum(collapsed.W_L * (2.0 if collapsed.activation == "abs" else 1.0), size)


def output_spectrum(
    output: Float[np.ndarray, "p d_mlp"], size: Float[np.ndarray, " d_mlp"]
) -> OutputSpectrum:
    """Singular values and vectors of the output map, each neuron weighted by its size."""
    W_L = output - output.mean(axis=0)
    vectors, values, _ = np.linalg.svd(W_L * size, full_matrices=False)
    energy = np.concatenate([np.cumsum(np.square(values)[::-1])[::-1], [0.0]])
    tails = np.sqrt(energy / energy[0]) if energy[0] > 0 else np.zeros(len(energy))
    return OutputSpectrum(W_L, vectors, tails)


def low_rank(spectrum: OutputSpectrum, rank: int) -> LowRank:
    """Round the first `rank` singular vectors and their least-squares coefficients.

    Raises:
        ValueError: for weights whose coefficients have more digits than the checker reads.
    """
    vectors = spectrum.vectors[:, :rank]
    largest = np.abs(vectors).max(axis=0, initial=1e-300)
    basis = np.rint(vectors / largest * (1 << BASIS_BITS)).astype(np.int64).T
    real = np.linalg.lstsq(basis.T / (1 << BASIS_BITS), spectrum.W_L, rcond=None)[0]
    exponent = int(np.frexp(np.abs(real).max(initial=0.0))[1])
    # Large weights have a negative number of bits after the point: short integers are what a
    # checker accepts. Weights so small that their denominator is beyond it are cut off, which
    # leaves them to the remainder.
    bits = min(max(-BASIS_BITS, COEFFICIENT_BITS - exponent), limits.MAX_SHIFT - BASIS_BITS)
    coefficients = np.rint(np.ldexp(real, bits))
    if np.abs(coefficients).max(initial=0.0) >= LARGEST_COEFFICIENT:
        raise ValueError("coefficients of W_L are too large for a certificate")
    return LowRank(basis, coefficients.astype(np.int64), BASIS_BITS + bits)


def turned(
    spectrum: OutputSpectrum, rank: int, size: Float[np.ndarray, " d_mlp"]
) -> OutputSpectrum:
    """Turn the first `rank` vectors among themselves (varimax).

    Each neuron then writes along few of them.
    """
    V = spectrum.vectors[:, :rank]
    weights, turn = (spectrum.W_L * size).T @ V, np.eye(rank)
    for _ in range(TURNS):
        seen = weights @ turn
        left, _, right = np.linalg.svd(weights.T @ (seen**3 - seen * np.square(seen).mean(axis=0)))
        turn = left @ right
    return replace(spectrum, vectors=V @ turn)


def without_least(form: LowRank, size: Float[np.ndarray, " d_mlp"], count: int) -> LowRank:
    """Set the `count` coefficients that write least to 0.

    The remainder takes what they wrote.
    """
    reach = np.ptp(form.basis, axis=1).astype(float)[:, None] * size
    coefficients = form.coefficients.copy()
    coefficients.ravel()[
        np.argsort(np.abs(coefficients) * reach, axis=None, kind="stable")[:count]
    ] = 0
    return replace(form, coefficients=coefficients)


def directions(
    read: Float[np.ndarray, "rows d"], write: Float[np.ndarray, "d columns"], r: int
) -> Dyadic:
    """Return the r directions along which both sides are large, as a hint.

    Of a few balances it takes the one that leaves least.
    """
    # Principal axes of both sides together: of the d × d sum of their squares, which is small
    # whatever the rows.
    squares = [x / (float(np.trace(x)) or 1.0) for x in (read.T @ read, write @ write.T)]
    best: tuple[float, np.ndarray] | None = None
    for balance in BALANCES:
        P = np.linalg.eigh(balance**2 * squares[0] + squares[1])[1][:, ::-1][:, :r]
        left = np.linalg.norm(read - read @ P @ P.T, axis=1).max() * np.linalg.norm(
            write - P @ (P.T @ write), axis=0
        )
        if best is None or left.sum() < best[0]:
            best = (float(left.sum()), P)
    if best is None:
        raise RuntimeError("no balance was tried")
    return hint(best[1])


def token_mean(X: Dyadic) -> Dyadic:
    """The mean over the tokens, nearly: as a hint."""
    return hint(X.to_floats().mean(axis=0, keepdims=True))


def hint(x: Float[np.ndarray, "rows columns"]) -> Dyadic:
    """Round to DIRECTION_BITS after the point: any numbers that a certificate can hold."""
    scaled = np.rint(np.ldexp(x, DIRECTION_BITS))
    if np.abs(scaled).max(initial=0.0) >= LARGEST_COEFFICIENT:
        raise ValueError("the residual stream is too large for a certificate")
    return Dyadic.from_floats(scaled / (1 << DIRECTION_BITS))
