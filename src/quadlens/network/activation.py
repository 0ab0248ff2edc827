"""The activations of a hidden layer, each with all that the package uses of it.

A new one is one entry here, its name in `Activation`, and the checker.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float

from quadlens.base.errors import BadConfig

Activation = Literal["relu", "abs", "square", "quartic", "gelu", "tanh", "silu", "softplus"]

# Of the trapezoidal rule for λ_2.
MOST_NODES = 1 << 16

ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)

Floats = Float[np.ndarray, "*shape"]
# One node of an ONNX graph: operator, inputs, output. "pre" comes in and "post" goes out.
OnnxNode = tuple[str, tuple[str, ...], str]


@dataclass(frozen=True, eq=False)
class Nonlinearity:
    """σ, with what the mathematics asks about it (`docs/lens.md`).

    Attributes:
        name: As in our files.
        formula: σ(x) in words.
        apply: σ of floats, accurate to a few units in the last place.
        derivative: σ'(x), with σ'(0) = 0 at a kink, as PyTorch has it.
        enclose: σ of an Arb ball: a ball that holds every σ(x) with x in it.
        exact: σ of an integer (any exact number), for a homogeneous σ; None for one that is not
            rational.
        degree: The d with σ(t x) = t^d σ(x) for t > 0; None where there is none.
        odd_slope: The s with σ(x) - σ(-x) = 2 s x; None where the odd part is not linear.
        lambda_2_closed: λ_2(r) in closed form (see `lambda_2`); None where it is integrated
            numerically.
        other_names: Names in other people's files, in lower case, without our own.
        onnx: The nodes of an ONNX graph from "pre" to "post".
        onnx_constants: Scalars that these nodes name.
        far: What σ(x) is within 2^-50 of for |x| ≥ 40, where σ is not exact. For such a σ, |σ'| ≤
            1.13 and
            |σ''| ≤ 0.8 everywhere (`proofs.float_layer` needs it, and a test looks).
    """

    name: Activation
    formula: str
    apply: Callable[[Any], Any]
    derivative: Callable[[Any], Any]
    enclose: Callable[[Any], Any]
    onnx: tuple[OnnxNode, ...]
    exact: Callable[[Any], Any] | None = None
    degree: int | None = None
    odd_slope: float | None = None
    lambda_2_closed: Callable[[Any], Any] | None = None
    other_names: tuple[str, ...] = ()
    onnx_constants: tuple[tuple[str, float], ...] = ()
    far: Callable[[Any], Any] | None = None

    @property
    def is_piecewise_linear(self) -> bool:
        """Whether σ is linear on each side of 0.

        The signs of the pre-activations then decide everything.
        """
        return self.degree == 1

    @property
    def is_even(self) -> bool:
        """Whether σ has no odd part."""
        return self.odd_slope == 0.0

    def odd(self, x: Floats) -> Floats:
        """Return the odd part (σ(x) - σ(-x))/2."""
        return (
            self.odd_slope * x
            if self.odd_slope is not None
            else (self.apply(x) - self.apply(-x)) / 2
        )

    def even(self, x: Floats) -> Floats:
        """Return the even part (σ(x) + σ(-x))/2."""
        return self.apply(x) - self.odd(x)

    def lambda_2(self, r: Floats) -> Floats:
        """Return λ_2(r) = (1/2π) ∫ σ(r cos θ) cos 2θ dθ (`docs/lens.md` 4).

        It is the amplitude of the wave of twice the phase in σ of a wave.

        Without a closed form by the trapezoidal rule, whose error falls exponentially in the number
        of nodes over r. Past r = 1,024 the nodes are as many as they get; σ then has kinks, and the
        error is some 1e-9 of r.
        """
        if self.lambda_2_closed is not None:
            return self.lambda_2_closed(r)
        nodes = max(256, 64 * int(np.ceil(min(MOST_NODES / 64, np.abs(r).max(initial=0.0)))))
        total = np.zeros_like(r)
        for theta in 2 * np.pi * np.arange(nodes) / nodes:
            total += self.apply(r * np.cos(theta)) * np.cos(2 * theta)
        return total / nodes


def _normal_cdf(x: Floats) -> Floats:
    from scipy.special import ndtr

    return ndtr(x)


def _sigmoid(x: Floats) -> Floats:
    from scipy.special import expit

    return expit(x)


def _gelu_slope(x: Floats) -> Floats:
    return _normal_cdf(x) + x * np.exp(-np.square(x) / 2) / np.sqrt(2 * np.pi)


def _enclose_gelu(x: Any) -> Any:
    from flint import arb

    return x * (-x / arb(2).sqrt()).erfc() / 2


def _silu_slope(x: Floats) -> Floats:
    s = _sigmoid(x)
    return s * (1 + x * (1 - s))


NONLINEARITIES: dict[Activation, Nonlinearity] = {
    sigma.name: sigma
    for sigma in (
        Nonlinearity(
            name="relu",
            formula="max(x, 0)",
            apply=lambda x: np.maximum(x, 0.0),
            derivative=lambda x: (x > 0).astype(np.float64),
            enclose=lambda x: x.max(0),
            onnx=(("Relu", ("pre",), "post"),),
            exact=lambda x: x if x > 0 else 0,
            degree=1,
            odd_slope=0.5,
            lambda_2_closed=lambda r: np.abs(r) / (3 * np.pi),
        ),
        Nonlinearity(
            name="abs",
            formula="|x|",
            apply=np.abs,
            derivative=np.sign,
            enclose=abs,
            onnx=(("Abs", ("pre",), "post"),),
            exact=abs,
            degree=1,
            odd_slope=0.0,
            lambda_2_closed=lambda r: 2 * np.abs(r) / (3 * np.pi),
        ),
        Nonlinearity(
            name="square",
            formula="x²",
            apply=np.square,
            derivative=lambda x: 2 * x,
            enclose=lambda x: x * x,
            onnx=(("Mul", ("pre", "pre"), "post"),),
            exact=lambda x: x * x,
            degree=2,
            odd_slope=0.0,
            lambda_2_closed=lambda r: np.square(r) / 4,
            other_names=("quad", "x2", "quadratic"),
        ),
        Nonlinearity(
            name="quartic",
            formula="x⁴",
            apply=lambda x: np.square(np.square(x)),
            derivative=lambda x: 4 * x**3,
            enclose=lambda x: (x * x) * (x * x),
            onnx=(("Mul", ("pre", "pre"), "squared"), ("Mul", ("squared", "squared"), "post")),
            exact=lambda x: x * x * x * x,
            degree=4,
            odd_slope=0.0,
            lambda_2_closed=lambda r: np.square(np.square(r)) / 4,
            other_names=("x4",),
        ),
        Nonlinearity(
            name="gelu",
            formula="x Φ(x), Φ the normal distribution (with erf, not its tanh approximation)",
            apply=lambda x: x * _normal_cdf(x),
            derivative=_gelu_slope,
            enclose=_enclose_gelu,
            onnx=(
                ("Mul", ("pre", "root_half"), "scaled"),
                ("Erf", ("scaled",), "erf"),
                ("Add", ("erf", "one"), "twice_cdf"),
                ("Mul", ("pre", "half"), "half_pre"),
                ("Mul", ("half_pre", "twice_cdf"), "post"),
            ),
            odd_slope=0.5,
            onnx_constants=(("root_half", 0.5**0.5), ("one", 1.0), ("half", 0.5)),
            far=lambda x: np.maximum(x, 0.0),
        ),
        Nonlinearity(
            name="tanh",
            formula="tanh x",
            apply=np.tanh,
            derivative=lambda x: 1 - np.square(np.tanh(x)),
            enclose=lambda x: x.tanh(),
            onnx=(("Tanh", ("pre",), "post"),),
            far=np.sign,
            lambda_2_closed=np.zeros_like,
        ),
        Nonlinearity(
            name="silu",
            formula="x/(1 + e^-x)",
            apply=lambda x: x * _sigmoid(x),
            derivative=_silu_slope,
            enclose=lambda x: x / (1 + (-x).exp()),
            onnx=(("Sigmoid", ("pre",), "sigmoid"), ("Mul", ("pre", "sigmoid"), "post")),
            odd_slope=0.5,
            other_names=("swish",),
            far=lambda x: np.maximum(x, 0.0),
        ),
        Nonlinearity(
            name="softplus",
            formula="log(1 + e^x)",
            apply=lambda x: np.logaddexp(0.0, x),
            derivative=_sigmoid,
            enclose=lambda x: x.exp().log1p(),
            onnx=(("Softplus", ("pre",), "post"),),
            far=lambda x: np.maximum(x, 0.0),
            odd_slope=0.5,
        ),
    )
}


def parse_activation(name: object) -> Activation:
    """Return `name` as an `Activation`, or say which ones there are."""
    for known in ACTIVATIONS:
        if name == known:
            return known
    raise BadConfig(
        f"activation {str(name)[:40]!r} is not supported; expected one of {', '.join(ACTIVATIONS)}"
    )


def recognise_activation(name: object) -> Activation:
    """Return the activation that another project calls `name`, in upper or lower case.

    >>> recognise_activation("Quad"), recognise_activation("GeLU")
    ('square', 'gelu')
    """
    written = str(name).lower()
    for known in NONLINEARITIES.values():
        if written in known.other_names:
            return known.name
    return parse_activation(written)


def apply_activation(activation: Activation, x: Floats) -> Floats:
    """Return σ(x), elementwise.

    >>> apply_activation("relu", np.array([-2.0, 3.0])).tolist()
    [0.0, 3.0]
    """
    return NONLINEARITIES[activation].apply(x)
