"""The identity component of ReLU as two p × p matrices, and their 2-D Fourier form."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float

from quadlens.display import short
from quadlens.logits.parts import identity_matrices
from quadlens.model.tables import FloatTables
from quadlens.spectrum.amplitude_phase import mean_squares


@short
@dataclass(frozen=True, eq=False)
class IdentityMatrix:
    """A[c,x] = Σ_{k,l} F[k,l] e^{iw(kc+lx)}: one half of the identity component (`sec:identity-component-relu`).

    Attributes:
        matrix: A[c,x], x the token a or b.
        fourier: F = DFT(A)/p², so that a wave D cos(kwc + lwx) + E sin(kwc + lwx) has F[k,l] = (D - iE)/2.
        keys: Key frequencies.
        D: Coefficient of cos(k w (c - 2x)), for each key.
        E: Coefficient of sin(k w (c - 2x)); small where the phases cover the circle.
        share: Share of A's variance that these 2|K| waves hold; None when A does not vary.
    """

    matrix: Float[np.ndarray, "p p"]
    fourier: Complex[np.ndarray, "p p"]
    keys: tuple[int, ...]
    D: Float[np.ndarray, " K"]
    E: Float[np.ndarray, " K"]
    share: float | None

    def largest_waves(self, count: int) -> tuple[tuple[int, int, float, float], ...]:
        """The largest waves A cos(kwc + lwx + θ) as (k, l, A, θ), l in -(p-1)/2 … p/2, the constant left out."""
        p = len(self.matrix)
        half = p // 2
        # A is real, so F[-k,-l] is the conjugate of F[k,l]: half the plane holds every wave once. For even p row p/2 is
        # its own mirror image as row 0 is, and the waves that are their own conjugates stand once, not twice.
        doubled = 2 * self.fourier[: half + 1]
        own = [0] if p % 2 else [0, half]
        doubled[np.ix_(own, own)] /= 2
        size = np.abs(doubled)
        size[own, half + 1 :] = size[0, 0] = -1.0
        order = np.argsort(-size, axis=None, kind="stable")[: min(count, int((size >= 0).sum()))]
        waves = []
        for k, column in zip(*np.unravel_index(order, size.shape), strict=True):
            wave = doubled[k, column]
            signed = int(column) if column <= half else int(column) - p
            waves.append((int(k), signed, float(abs(wave)), float(np.angle(wave))))
        return tuple(waves)


@short
@dataclass(frozen=True, eq=False)
class IdentityComponent:
    """The odd part of the MLP's output: logit_id(a,b,c) = A[c,a] + B[c,b].

    Attributes:
        of_a: A[c,a] = ½ Σ_i W_L[c,i] U_a[a,i]; the paper's `logit_id1` when the output is read at b.
        of_b: B[c,b] = ½ Σ_i W_L[c,i] U_b[b,i], with the residual stream's own copy of b and the biases.
    """

    of_a: IdentityMatrix
    of_b: IdentityMatrix

    @property
    def D(self) -> Float[np.ndarray, " K"]:
        """D_k, two-term form: cos(kw(c-2a)) + cos(kw(c-2b)) = 2 cos 2u cos(kw(a+b-c)), so the halves' D add up."""
        return self.of_a.D + self.of_b.D


def identity_component(collapsed: FloatTables, keys: tuple[int, ...]) -> IdentityComponent:
    """Both matrices with their 2-D Fourier form."""
    A, B = identity_matrices(collapsed)
    return IdentityComponent(_analyse(A, keys), _analyse(B, keys))


def _analyse(matrix: Float[np.ndarray, "p p"], keys: tuple[int, ...]) -> IdentityMatrix:
    p = len(matrix)
    fourier = np.fft.fft2(matrix) / p**2
    k = np.array(keys, dtype=np.int64)
    power = mean_squares(p, k)
    # A sign wave is its own conjugate: it stands once in the spectrum.
    wave = fourier[k, -2 * k % p] / power
    variance = float(matrix.var())
    share = float((power * np.square(np.abs(wave))).sum()) / variance if variance > 0 else None
    return IdentityMatrix(matrix, fourier, keys, wave.real, -wave.imag, share)
