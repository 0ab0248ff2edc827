"""The forward pass over Arb's balls of 200 bits: what enclosures are compared with."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from flint import arb, ctx, fmpq

from quadlens.network.activation import NONLINEARITIES, Activation
from quadlens.network.config import Config
from quadlens.network.weights import Weights

BITS = 200


class Balls:
    """Arrays of balls; see `Ring`."""

    def of(self, floats: np.ndarray) -> np.ndarray:
        return np.vectorize(lambda x: arb(fmpq(*float(x).as_integer_ratio())), otypes=[object])(
            floats
        )

    def scaled(self, x: np.ndarray, factor: float) -> np.ndarray:
        return x * arb(fmpq(*factor.as_integer_ratio()))

    def repeated(self, x: np.ndarray, rows: int) -> np.ndarray:
        return np.repeat(x, rows, axis=0)

    def transposed(self, x: np.ndarray) -> np.ndarray:
        return x.T

    def diagonal(self, x: np.ndarray, along_a: bool) -> np.ndarray:
        return np.diagonal(x)[:, None] if along_a else np.diagonal(x)[None]

    def heads(self, tables: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        return tuple(tables)

    def sigma(self, activation: Activation, x: np.ndarray) -> np.ndarray:
        return np.vectorize(NONLINEARITIES[activation].enclose, otypes=[object])(x)

    def softmax(self, scores: Sequence[np.ndarray]) -> list[np.ndarray]:
        powers = [np.vectorize(lambda x: x.exp(), otypes=[object])(score) for score in scores]
        return [power / sum(powers) for power in powers]

    def inner(self, x: np.ndarray, y: np.ndarray, divisor: float) -> np.ndarray:
        return (x * y).sum(axis=1, keepdims=True) / arb(fmpq(*divisor.as_integer_ratio()))

    def inverse_root(self, x: np.ndarray) -> np.ndarray:
        return np.vectorize(lambda x: x.rsqrt(), otypes=[object])(x)


BALLS: Any = Balls()


@contextmanager
def precise() -> Iterator[None]:
    """Balls of `BITS` bits."""
    with ctx.workprec(BITS):
        yield


def drawn(
    config: Config, rng: np.random.Generator, size: float = 0.5, dtype: type = np.float64
) -> Weights:
    """A network with normal weights; those of norms are around 1."""
    one = {
        name: 1.0 if name.endswith(("ln1_w", "ln2_w", "ln_final_w")) else 0.0
        for name in config.shapes
    }
    shapes = config.shapes.items()
    return Weights(
        config, **{n: (one[n] + size * rng.standard_normal(s)).astype(dtype) for n, s in shapes}
    )
