"""A low-rank form of the output map: W_L[c,i] ≈ Σ_f basis[f,c] coefficients[f,i], in short integers.

The finding behind it: a trained model's W_L has rank about 2|K| up to a few parts in ten thousand, whether or not its
neurons are tidy. In the Fourier basis a hard model needs many frequencies; in its own basis (singular vectors, neurons
weighted by the size of what they read) it does not.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from quadlens.model.collapsed import Collapsed

BASIS_BITS = 20
COEFFICIENT_BITS = 26
# The checker reads integers of up to 18 characters, a sign among them.
LARGEST_COEFFICIENT = 10**17
# Singular values below this share of the whole (root of the sum of squares) are left to the remainder.
TAIL = 2e-3


@dataclass(frozen=True, eq=False)
class LowRank:
    """basis · coefficients · 2^-shift. A hint: the remainder W_L - basis · coefficients is computed exactly from it.

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


@dataclass(frozen=True, eq=False)
class OutputSpectrum:
    """Singular vectors of W_L over c, with what does not depend on c taken out.

    Attributes:
        W_L: The output map in float64, mean over c removed; doubled for abs, as in `integer_model`.
        vectors: Left singular vectors of W_L, neurons weighted by the size of their input, columns in falling order.
        tails: tails[m] = share of the weighted W_L beyond rank m, as root of sums of squares.
    """

    W_L: Float[np.ndarray, "p d_mlp"]
    vectors: Float[np.ndarray, "p n"]
    tails: Float[np.ndarray, " n_plus_1"]

    @property
    def natural_rank(self) -> int:
        """The smallest rank whose tail is below `TAIL`."""
        return int(np.argmax(self.tails <= TAIL))


def output_spectrum(collapsed: Collapsed) -> OutputSpectrum:
    """Singular values and vectors of the output map."""
    W_L = (collapsed.W_L - collapsed.W_L.mean(axis=0)) * (2.0 if collapsed.activation == "abs" else 1.0)
    size = np.sqrt(np.square(collapsed.U_a).mean(axis=0) + np.square(collapsed.U_b).mean(axis=0))
    vectors, values, _ = np.linalg.svd(W_L * size, full_matrices=False)
    energy = np.concatenate([np.cumsum(np.square(values)[::-1])[::-1], [0.0]])
    tails = np.sqrt(energy / energy[0]) if energy[0] > 0 else np.zeros(len(energy))
    return OutputSpectrum(W_L, vectors, tails)


def low_rank(spectrum: OutputSpectrum, rank: int) -> LowRank:
    """The first `rank` singular vectors, rounded to short integers, and the least-squares coefficients, rounded too.

    Raises:
        ValueError: for weights whose coefficients have more digits than the checker reads.
    """
    vectors = spectrum.vectors[:, :rank]
    largest = np.abs(vectors).max(axis=0, initial=1e-300)
    basis = np.rint(vectors / largest * (1 << BASIS_BITS)).astype(np.int64).T
    real = np.linalg.lstsq(basis.T / (1 << BASIS_BITS), spectrum.W_L, rcond=None)[0]
    exponent = int(np.frexp(np.abs(real).max(initial=0.0))[1])
    # Large weights have a negative number of bits after the point: short integers are what a checker accepts.
    bits = max(-BASIS_BITS, COEFFICIENT_BITS - exponent)
    coefficients = np.rint(np.ldexp(real, bits))
    if np.abs(coefficients).max(initial=0.0) >= LARGEST_COEFFICIENT:
        raise ValueError("coefficients of W_L are too large for a certificate")
    return LowRank(basis, coefficients.astype(np.int64), BASIS_BITS + bits)
