"""Does what neurons write at other frequencies cancel the error of the quadrature rules?

At each key frequency k there are two unwanted amplitudes over the inputs: the error E_k of k's own rule (finite sum
minus integral), and the cross-writing X_k, what neurons of other clusters write at k. If the readout cancels errors,
their correlation Re⟨E, X⟩ / (‖E‖ ‖X‖) is negative. Both have a constant, the mean over all inputs: an offset
of the logits that favours some answers whatever is asked, which any trained network has to lose. The question proper is
about what varies, E and X less their means. Beside its correlation stand an interval, from resampling the differences
a - b, and a control: the same when each cluster's neurons swap what they write at other frequencies.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Complex, Float, Int

from quadlens.infinite_width.inputs import Inputs
from quadlens.infinite_width.parts import Parts
from quadlens.numbers import percent
from quadlens.table import Table

RESAMPLES = 1000
SHUFFLES = 200


@dataclass(frozen=True)
class Varying:
    """The correlation of what varies with the inputs.

    Attributes:
        varying: The correlation.
        ci95: Its 95 % interval, differences a - b resampled.
        control95: Where 95 % of it lies when neurons swap what they write at other frequencies.
    """

    varying: float
    ci95: tuple[float, float]
    control95: tuple[float, float]

    @property
    def holds(self) -> bool:
        """Whether more than the constant is cancelled: the interval is below 0 and below the control."""
        return self.ci95[1] < min(0.0, self.control95[0])

    def row(self, name: str) -> list[str]:
        """For a table."""
        intervals = [f"{low:.2f} … {high:.2f}" for low, high in (self.ci95, self.control95)]
        return [name, f"{self.varying:.2f}", *intervals, "yes" if self.holds else "not shown"]


@dataclass(frozen=True)
class Cancelling(Varying):
    """Correlations between quadrature error and cross-writing over all inputs and key frequencies.

    Attributes:
        correlation: Of E and X as they are: -1 where one is the other with the opposite sign, 0 for no relation.
        constant_share: Share of ‖E‖² and of ‖X‖² that does not depend on the inputs.
        per_key: What varies at each key frequency: of its own rule's error and what other clusters write there.
        rms: Root mean squares of the logits of E, of X and of E + X, constants included.
    """

    correlation: float
    constant_share: tuple[float, float]
    per_key: dict[int, Varying]
    rms: tuple[float, float, float]

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "holds": self.holds}

    def table(self) -> Table:
        """All frequencies together, then one by one."""
        rows = [self.row("all"), *(one.row(str(k)) for k, one in self.per_key.items())]
        header = ("k", "correlation", "95 % interval", "neurons swapped, 95 %", "cancels")
        caption = "Quadrature error against cross-writing, constants taken away: -1 where one undoes the other."
        return Table("Does cross-writing cancel the quadrature error?", header, rows, left=(4,), caption=caption)

    @property
    def sentence(self) -> str:
        """The result in words."""
        error, cross, together = self.rms
        more = "more than the constant is cancelled" if self.holds else "not shown to cancel more than the constant"
        return (
            f"Quadrature error and cross-writing correlate by {self.correlation:.2f} (root mean squares {error:.2f} "
            f"and {cross:.2f}, together {together:.2f}); {percent(self.constant_share[0])} and "
            f"{percent(self.constant_share[1])} of them are constants that no input changes. What varies correlates by "
            f"{self.varying:.2f} ({self.ci95[0]:.2f} … {self.ci95[1]:.2f}; neurons swapped {self.control95[0]:.2f} … "
            f"{self.control95[1]:.2f}): {more}."
        )


def cancelling(parts: Parts, inputs: Inputs, seed: int = 0) -> Cancelling | None:
    """The measured quantities of the module; None where there are fewer than two clusters, or nothing to compare."""
    keys, n = parts.keys, inputs.n
    if len(keys) < 2:
        return None
    # Mean squares over c: ½ of the squared amplitude, all of it for the sign wave of k = n/2.
    scale = np.array([1.0 if 2 * k == n else 0.5**0.5 for k in keys])
    error = (parts.quadrature_error + parts.higher_waves)[..., keys] * scale
    cross = parts.cross_writing[..., keys] * scale
    varying_error, varying_cross = error - error.mean(axis=(0, 1)), cross - cross.mean(axis=(0, 1))
    if not (np.abs(varying_error).max() > 0 and np.abs(varying_cross).max() > 0):
        return None
    rng, b = np.random.default_rng(seed), np.arange(n)
    # One row per difference a - b: inputs with the same difference are one family of rotations, not n observations.
    e, x = (one[(b + b[:, None]) % n, b] for one in (varying_error, varying_cross))
    sums = np.stack([(y * z.conj()).real.sum(axis=1) for y, z in ((e, x), (e, e), (x, x))])
    drawn: Int[np.ndarray, "resamples n"] = rng.integers(0, n, (RESAMPLES, n))
    again = np.stack([one[drawn].sum(axis=1) for one in sums])
    control = _shuffled(parts, inputs, varying_error / scale, np.square(scale), rng)
    found = [
        Varying(
            float(_quotient(sums[..., chosen].sum(axis=1))),
            *(_middle95(_quotient(x[..., chosen])) for x in (again, control)),
        )
        for chosen in (list(range(len(keys))), *([j] for j in range(len(keys))))
    ]
    return Cancelling(
        **vars(found[0]),
        correlation=_correlation(error, cross),
        constant_share=(_constant_share(error), _constant_share(cross)),
        per_key=dict(zip(keys, found[1:], strict=True)),
        rms=(_rms(error), _rms(cross), _rms(error + cross)),
    )


def _quotient(sums: Float[np.ndarray, "3 *many keys"]) -> Float[np.ndarray, "*many"]:
    """Σ ex / √(Σ e² Σ x²), sums over the keys; 0 where there is nothing to compare."""
    product, e, x = sums.sum(axis=-1)
    return np.divide(product, np.sqrt(e * x), out=np.zeros_like(product), where=e * x > 0)


def _shuffled(
    parts: Parts,
    inputs: Inputs,
    error: Complex[np.ndarray, "n n keys"],
    weights: Float[np.ndarray, " keys"],
    rng: np.random.Generator,
) -> Float[np.ndarray, "3 shuffles keys"]:
    """Σ ex, Σ e², Σ x² after random permutations, within each cluster, of what its neurons write at other frequencies.

    From ⟨E_k, h_i⟩ and the Gram matrix of the activations h_i less their means, so that no permutation needs a pass
    over the inputs.
    """
    keys, clusters = parts.keys, [one.cluster.neurons for one in parts.readings]
    inside, stops = np.concatenate(clusters), np.cumsum([len(one) for one in clusters])
    hidden = inputs.sigma.apply(inputs.pre[:, :, inside]).reshape(-1, len(inside))
    hidden = hidden - hidden.mean(axis=0)
    gram, with_error = hidden.T @ hidden, hidden.T @ error.reshape(-1, len(keys))
    written = parts.written[keys][:, inside]
    for j, stop in enumerate(stops):
        written[j, stop - len(clusters[j]) : stop] = 0  # a cluster's own frequency is no cross-writing
    result = np.zeros((3, SHUFFLES, len(keys)))
    result[1] = np.square(np.abs(error)).sum(axis=(0, 1)) * weights
    for index in range(SHUFFLES):
        pieces = zip(clusters, stops, strict=True)
        order = np.concatenate([stop - len(one) + rng.permutation(len(one)) for one, stop in pieces])
        swapped = written[:, order]
        result[0, index] = (swapped * with_error.T.conj()).real.sum(axis=1) * weights
        result[2, index] = ((swapped @ gram) * swapped.conj()).real.sum(axis=1) * weights
    return result


def _constant_share(x: Complex[np.ndarray, "n n keys"]) -> float:
    return float(np.square(np.abs(x.mean(axis=(0, 1)))).sum() / np.square(np.abs(x)).sum(axis=2).mean())


def _rms(x: Complex[np.ndarray, "n n keys"]) -> float:
    return float(np.sqrt(np.square(np.abs(x)).sum(axis=2).mean()))


def _correlation(x: Complex[np.ndarray, "n n *keys"], y: Complex[np.ndarray, "n n *keys"]) -> float:
    size = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float((x * y.conj()).real.sum()) / size if size > 0 else 0.0


def _middle95(values: Float[np.ndarray, " m"]) -> tuple[float, float]:
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)
