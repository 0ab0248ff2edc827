"""What a neuron would read if its whole group were copies of one function: the Z of `arcs_bounded.py`."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from quadlens.model.collapsed import Collapsed
from quadlens.proofs.order import Group
from quadlens.spectrum.amplitude_phase import amplitude_phase

# `math.md` §5 has degree 2. With 4 the bundled `mismatched` needs one attempt fewer; on `mainline` the margins differ
# by less than 0.001.
DEGREE = 4
# Irregular neurons spoil the fit of the others: leave them out and fit again.
FITS = 3


@dataclass(frozen=True, eq=False)
class SharedFunctions:
    """Z_i(a,b) = Z_a[a,i] + Z_b[b,i] = ρ_i (g_a(k w a + φ_i) + g_b(k w b + φ_i)), g_a and g_b shared by a group.

    Attributes:
        Z_a: What a adds; U_a itself for the neurons that are too irregular.
        Z_b: The same for b.
        irregular: Which neurons those are.
    """

    Z_a: Float[np.ndarray, "p d_mlp"]
    Z_b: Float[np.ndarray, "p d_mlp"]
    irregular: Bool[np.ndarray, " d_mlp"]


def shared_functions(collapsed: Collapsed, groups: tuple[Group, ...], most: float) -> SharedFunctions:
    """Fit g_a and g_b, trigonometric polynomials of degree `DEGREE`, to every group by least squares.

    Args:
        collapsed: U_a and U_b in float64.
        groups: Neurons that read the same frequency k.
        most: A neuron is irregular when the mean of |U_a - Z_a| + |U_b - Z_b| over tokens exceeds `most` · ρ_i.
    """
    spectrum = amplitude_phase((collapsed.U_a + collapsed.U_b) / 2)
    rho, phi = spectrum.at(spectrum.primary)
    Z_a, Z_b = collapsed.U_a.copy(), collapsed.U_b.copy()
    irregular = np.ones(len(rho), dtype=bool)
    for group in groups:
        mine = group.neurons
        angle = 2 * np.pi * group.k * np.arange(collapsed.p)[:, None] / collapsed.p + phi[mine]
        waves = [np.ones_like(angle), *(f(m * angle) for m in range(1, DEGREE + 1) for f in (np.cos, np.sin))]
        shapes = np.stack(waves, axis=-1) * rho[mine][:, None]
        regular = np.ones(len(mine), dtype=bool)
        fitted_a = fitted_b = np.zeros_like(angle)
        for _ in range(FITS):
            if not regular.any():
                break
            fitted_a = _fit(collapsed.U_a[:, mine], shapes, regular)
            fitted_b = _fit(collapsed.U_b[:, mine], shapes, regular)
            away = np.abs(collapsed.U_a[:, mine] - fitted_a) + np.abs(collapsed.U_b[:, mine] - fitted_b)
            regular = np.asarray(away.mean(axis=0) <= most * rho[mine])
        kept = mine[regular]
        Z_a[:, kept], Z_b[:, kept] = fitted_a[:, regular], fitted_b[:, regular]
        irregular[kept] = False
    return SharedFunctions(Z_a, Z_b, irregular)


def _fit(
    U: Float[np.ndarray, "p n"], shapes: Float[np.ndarray, "p n waves"], regular: Bool[np.ndarray, " n"]
) -> Float[np.ndarray, "p n"]:
    """One combination of the waves for all neurons, fitted to the regular ones."""
    chosen = shapes[:, regular].reshape(-1, shapes.shape[-1])
    combination = np.linalg.lstsq(chosen, U[:, regular].ravel(), rcond=None)[0]
    return np.asarray(shapes @ combination)
