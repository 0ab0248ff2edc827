"""Pizza networks written down by hand (`math.md` §7): any odd p, any width."""

import math
from dataclasses import dataclass, fields
from itertools import chain, islice

import numpy as np
from jaxtyping import Float, Int

from quadlens.base.arguments import above_zero, check_fields
from quadlens.base.display import Displayed
from quadlens.base.errors import BadConfig
from quadlens.network.config import Config, check_modulus, check_size
from quadlens.network.weights import Weights


@dataclass(frozen=True, repr=False)
class Recipe(Displayed):
    """A pizza network to build, from perfect to broken.

    U_a = U_b = cos(k w a + φ) and W_L = ω cos(k w c + 2φ), with equally spaced φ in each cluster.

    >>> from quadlens.network import evaluate
    >>> evaluate(build_transformer(Recipe(p=13, keys=(2, 5), neurons=60)).collapse()).accuracy
    1.0

    Attributes:
        p: Modulus, odd.
        keys: Key frequencies, distinct, each in 1 … (p-1)/2.
        neurons: Neurons in all, shared out evenly over the keys.
        jitter: Standard deviation of the noise on φ, in radians (ψ stays 2φ of the jittered φ).
        noise: Standard deviation of the noise on every weight, as a share of that tensor's root
            mean square.
        missing: Share of the circle, from φ = -π on, whose neurons are left out.
        scale: C_k of every key frequency: logits are close to scale · Σ_k |cos u| cos(k w (a+b-c)).
        seed: Seed of jitter and noise.
    """

    p: int
    keys: tuple[int, ...]
    neurons: int
    jitter: float = 0.0
    noise: float = 0.0
    missing: float = 0.0
    scale: float = 10.0
    seed: int = 0

    def _facts(self) -> dict[str, object]:
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }

    def __post_init__(self) -> None:
        check_fields(self)
        check_modulus(self.p)
        check_size(self.p, 3 * self.p * self.neurons)
        half = (self.p - 1) // 2
        if (
            not self.keys
            or len(set(self.keys)) != len(self.keys)
            or not all(1 <= k <= half for k in self.keys)
        ):
            raise BadConfig(f"keys {list(self.keys)} are not distinct frequencies in 1 … {half}")
        if self.neurons < len(self.keys):
            raise BadConfig(
                f"{self.neurons} neurons cannot serve {len(self.keys)} key frequencies; give at "
                "least one each"
            )
        for name in ("jitter", "noise"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise BadConfig(
                    f"{name} = {getattr(self, name)} is not a finite number of at least 0"
                )
        if not 0 <= self.missing < 1:
            raise BadConfig(f"missing = {self.missing}; expected a share of the circle in [0, 1)")
        above_zero("scale =", self.scale)


def default_keys(p: int) -> tuple[int, ...]:
    """Return three key frequencies, or as many as there are.

    They are 3, 5 and 7 where p allows, else small ones.

    One that shares a factor with p cannot tell all answers apart, so it is passed over.

    >>> default_keys(59), default_keys(11), default_keys(3)
    ((3, 5, 7), (1, 3, 5), (1,))
    """
    half = (p - 1) // 2
    others = (k for k in range(1, half + 1) if k not in (3, 5, 7))
    fitting = (k for k in chain((3, 5, 7), others) if k <= half and math.gcd(k, p) == 1)
    return tuple(sorted(islice(fitting, 3)))


@dataclass(frozen=True, eq=False)
class Neurons:
    """Key frequency, phase and output amplitude of each neuron, ordered as `keys`."""

    key: Int[np.ndarray, " d_mlp"]
    phi: Float[np.ndarray, " d_mlp"]
    omega: Float[np.ndarray, " d_mlp"]


def neurons_of(recipe: Recipe, rng: np.random.Generator) -> Neurons:
    """Lay the neurons out.

    φ is equally spaced in [-π, π), minus the missing arc, plus jitter.
    """
    keys, phis, omegas = [], [], []
    for index, k in enumerate(recipe.keys):
        count = recipe.neurons // len(recipe.keys) + (index < recipe.neurons % len(recipe.keys))
        phi = -np.pi + 2 * np.pi * (np.arange(count) + 0.5) / count
        phi = phi[math.ceil(recipe.missing * count) :] if recipe.missing else phi
        keys.append(np.full(len(phi), k))
        phis.append(phi + recipe.jitter * rng.standard_normal(len(phi)))
        # Σ_i (2π/n) ReLU(2 cos u cos(s+φ_i)) cos(kwc+2φ_i) ≈ (4/3)|cos u| cos(k w (a+b-c)): ω makes
        # that `scale`.
        omegas.append(np.full(len(phi), recipe.scale * 2 * np.pi / count * 3 / 4))
    neurons = Neurons(np.concatenate(keys), np.concatenate(phis), np.concatenate(omegas))
    if len(neurons.key) == 0:
        raise BadConfig(
            f"missing = {recipe.missing} leaves no neuron; lower it or give more neurons"
        )
    return neurons


def waves(
    p: int, keys: Int[np.ndarray, " n"], phases: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "p n"]:
    """Return cos(k w x + phase) for every token x.

    k·x is reduced modulo p first, so that large p loses no digits.
    """
    turns = np.outer(np.arange(p), keys) % p
    return np.cos(turns * (2 * np.pi / p) + phases)


def circle_of(recipe: Recipe) -> Float[np.ndarray, "p two_K"]:
    """Return each token's coordinates: cos(k w x) and sin(k w x) of each key in turn."""
    return waves(recipe.p, np.repeat(recipe.keys, 2), np.tile([0.0, -np.pi / 2], len(recipe.keys)))


def turned(recipe: Recipe, neurons: Neurons, times: int) -> Float[np.ndarray, "two_K d_mlp"]:
    """Return the waves cos(k w x + m φ), m = `times`, in the tokens' coordinates.

    Each neuron has two entries, at its own key.

    cos(k w x + φ) = cos φ cos(k w x) - sin φ sin(k w x).
    """
    is_key, phase = np.array(recipe.keys)[:, None] == neurons.key, times * neurons.phi
    return np.stack([is_key * np.cos(phase), is_key * -np.sin(phase)], axis=1).reshape(
        -1, len(phase)
    )


def build_mlp(recipe: Recipe) -> Weights:
    """Return the recipe as a two-layer MLP, whose weights are U_a, U_b and W_L."""
    rng = np.random.default_rng(recipe.seed)
    neurons, circle = neurons_of(recipe, rng), circle_of(recipe)
    U = circle @ turned(recipe, neurons, 1)
    W_a = _noisy(U, recipe.noise, rng)
    W_b = _noisy(U, recipe.noise, rng) if recipe.noise else W_a
    del U
    W_out = _noisy((turned(recipe, neurons, 2) * neurons.omega).T @ circle.T, recipe.noise, rng)
    return Weights.mlp(Config.mlp(recipe.p, len(neurons.key)), W_a, W_b, W_out)


def plant_error(model: Weights, a: int, b: int) -> Weights:
    """Change the last neuron so that the answer to (a, b), and no other, is wrong.

    The neuron reads 1 from a, 1 from b and -1 from every other token: it fires (with 2) for (a, b)
    alone. It lifts the answer after the right one by 1 % more than what that lacks. (The recipe's
    neuron is gone; others make up for it.)

    Raises:
        BadConfig: for tokens outside 0 … p-1.
    """
    p = model.config.p
    if not (0 <= a < p and 0 <= b < p):
        raise BadConfig(
            f"({a}, {b}) is no input of this model; expected two numbers in 0 … {p - 1}"
        )
    right = int(model.config.task.answers[a, b])
    wrong = (right + 1) % p
    W_a, W_b, W_out = (x.copy() for x in (model.W_a, model.W_b, model.W_out))
    W_a[:, -1], W_b[:, -1], W_out[-1] = -1.0, -1.0, 0.0
    logits = Weights.mlp(model.config, W_a, W_b, W_out).forward(np.array([[a, b]]))[0]
    W_a[a, -1], W_b[b, -1] = 1.0, 1.0
    W_out[-1, wrong] = 1.01 * (float(logits[right]) - float(logits[wrong])) / 2
    return Weights.mlp(model.config, W_a, W_b, W_out)


def build_transformer(recipe: Recipe) -> Weights:
    """Return the recipe as a transformer with attention (½, ½), read at b.

    The residual stream has three parts of 2|K| dimensions: what a token is (W_E), what attention
    brings (W_V W_O copies the first part there), and what the MLP writes (W_out). W_in reads only
    the second and W_U only the third, so the skip connections do not leak and U_a = U_b, S_a = S_b
    = 0 up to the noise.
    """
    rng = np.random.default_rng(recipe.seed)
    neurons, circle, width = neurons_of(recipe, rng), circle_of(recipe), 2 * len(recipe.keys)
    config = Config(
        p=recipe.p,
        d_model=3 * width,
        d_mlp=len(neurons.key),
        n_heads=1,
        d_head=width,
        d_vocab=recipe.p,
        d_vocab_out=recipe.p,
        n_ctx=2,
        attention=(0.5, 0.5),
        read_position=1,
    )
    token, attended, written = (slice(i * width, (i + 1) * width) for i in range(3))
    weights = {
        name: np.zeros(shape) for name, shape in config.shapes.items() if name.startswith("W_")
    }
    weights["W_E"][:, token] = circle
    weights["W_V"][0, token] = np.eye(width)
    weights["W_O"][0, :, attended] = np.eye(width)
    weights["W_in"][attended] = 2 * turned(recipe, neurons, 1)
    weights["W_out"][:, written] = (turned(recipe, neurons, 2) * neurons.omega).T
    weights["W_U"][written] = circle.T
    return Weights.with_zero_biases(
        config, **{name: _noisy(x, recipe.noise, rng) for name, x in weights.items()}
    )


def _noisy(
    weights: Float[np.ndarray, "*shape"], noise: float, rng: np.random.Generator
) -> Float[np.ndarray, "*shape"]:
    """Return `weights` in float32, with Gaussian noise on every entry.

    Its standard deviation is `noise` times their root mean square.
    """
    if noise == 0.0:
        return weights.astype(np.float32)
    spread = noise * float(np.sqrt(np.mean(np.square(weights))))
    return (weights + spread * rng.standard_normal(weights.shape)).astype(np.float32)
