"""The one real Fourier transform: x[t] = c_0 + Σ_k Re(c_k e^{ikwt}), k = 1 … ⌊n/2⌋, w = 2π/n.

For even n the last wave is (-1)^t: its coefficient is real, and stands once in the spectrum, where
all others stand twice, with their conjugates.
"""

import numpy as np
from jaxtyping import Complex, Float


def waves_of(x: Float[np.ndarray, " n *rest"]) -> Complex[np.ndarray, " half *rest"]:
    """c_k of every sequence along the first axis, row k.

    >>> waves_of(np.array([3.0, 1.0, 3.0, 1.0])).real.tolist()
    [2.0, 0.0, 1.0]
    """
    n = len(x)
    waves = np.fft.rfft(x, axis=0) * (2 / n)
    waves[0] /= 2
    if n % 2 == 0:
        waves[-1] /= 2
    return waves


def sequences_of(
    waves: Complex[np.ndarray, " half *rest"], n: int
) -> Float[np.ndarray, " n *rest"]:
    """The sequences of length n that have these waves."""
    spectrum = waves * (n / 2)
    spectrum[0] *= 2
    if n % 2 == 0:
        spectrum[-1] *= 2
    return np.fft.irfft(spectrum, n=n, axis=0)
