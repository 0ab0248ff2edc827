"""A trained network written with few numbers: groups of neurons, planes of the stream.

With C[x] = (cos k w x, sin k w x) for every key frequency and its double, frames of two rows for
each frequency,

    W_E = C E,     W_V = E⁺ V,   W_O = V⁺ A,  W_U = (C Q)ᵀ
    E = C⁺ W_E,    V = E W_V,    A = E OV,    Q = C⁺ W_Uᵀ

are least squares: where W_E puts each frequency, where values have it, where attention writes it,
where W_U reads it. The constant that neurons share has a line for each position in place of a
plane, W_pos itself, likewise in E, V and A: trained networks bring it from there and hardly by
b_in. W_in reads from what attention (and, at the position read, the stream itself) brings of each
frequency what the group's function asks for; W_out writes into what W_U reads; both are the
smallest matrices that do so. What the skip connection adds follows from the planes. All biases are
0.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from quadlens.analysis.parameterisation.groups import FrequencyGroup, fit_groups
from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.base.display import Displayed
from quadlens.base.errors import BadConfig
from quadlens.network.collapse import values_written
from quadlens.network.config import Config
from quadlens.network.ring import FLOATS
from quadlens.network.weights import Weights

# Directions weaker than this share of the strongest are not read: the weights that would do so are
# large, for nothing.
WEAK = 0.01
# What is below this share is rounding.
ROUNDING = 1e-9

Frame = Float[np.ndarray, "rows width"]


@dataclass(frozen=True)
class Numbers:
    """Counts of the numbers that a parameterised network is a function of.

    Attributes:
        frequencies: The key frequencies.
        groups: Which group each neuron belongs to, its place being the order.
        neurons: φ_i, ρ_i and ω_i.
        shared: Constants, double waves, amplitudes of a and b apart, shifts.
        planes: Entries of all frames, lines included.
    """

    frequencies: int
    groups: int
    neurons: int
    shared: int
    planes: int

    @property
    def total(self) -> int:
        """The sum of all of them."""
        return self.frequencies + self.groups + self.neurons + self.shared + self.planes


@dataclass(frozen=True, eq=False, repr=False)
class Parameterised(Displayed):
    """A network with few numbers.

    Attributes:
        model: The network.
        groups: Its neurons.
        numbers: How many numbers it is a function of.
        weights: How many weights the network has that it was fitted to.
    """

    model: Weights
    groups: tuple[FrequencyGroup, ...]
    numbers: Numbers
    weights: int

    def _facts(self) -> dict[str, object]:
        keys = tuple(group.cluster.k for group in self.groups)
        return {
            "keys": keys,
            "numbers": f"{self.numbers.total:,}",
            "of weights": f"{self.weights:,}",
        }


def parameterise(
    anatomy: Anatomy, constant: bool = True, double: bool = True, embedding: bool = True
) -> Parameterised:
    """The network of the module's formulas, fitted to a model's weights; no logit is looked at.

    Args:
        anatomy: The model: one layer, constant attention.
        constant: Whether each frequency's neurons share a constant γ.
        double: Whether they share a double wave η.
        embedding: Whether a and b have amplitudes of their own, as the embedding of b makes them;
            else α = 1 and one η.

    Raises:
        BadConfig: when there is no attention, or it depends on the tokens; when the task does not
            rename a and b alike; when there is no key frequency.
    """
    model, config = anatomy.model, anatomy.config
    config.need_stream(
        "this network has no residual stream, so there are no planes to find; give a transformer"
    )
    groups = fit_groups(anatomy, constant, double, embedding)
    if not groups:
        raise BadConfig(
            "no neuron reads and writes one frequency most, so there is nothing to write with few "
            "numbers"
        )
    planes = _Planes(anatomy, groups, constant)
    tensors = {name: np.zeros(shape) for name, shape in config.shapes.items()}
    for (start, stop), circle, frame in zip(
        config.token_rows, planes.circles, planes.E, strict=False
    ):
        tensors["W_E"][start:stop] = circle @ frame
    tensors["W_pos"][: len(planes.E[2])] = planes.E[2]
    E, V, A = (np.concatenate(frames) for frames in (planes.E, planes.V, planes.A))
    into_values, out_of_values = _inverse(E) @ V, _inverse(V) @ A
    tensors["W_V"] = np.stack(np.split(into_values, config.n_heads, axis=1))
    tensors["W_O"] = np.stack(np.split(out_of_values, config.n_heads))
    tensors["W_U"][:, : config.p] = (planes.circle_c @ planes.Q).T
    tensors["W_in"] = _inverse(planes.brought, WEAK) @ planes.asked(groups)
    tensors["W_out"] = planes.written(groups) @ _inverse(planes.Q.T, WEAK)
    simple = Weights(
        config, **{name: x.astype(model.tensors[name].dtype) for name, x in tensors.items()}
    )
    neurons = sum(len(group.omega) for group in groups)
    numbers_per_group = (
        constant + double * (1 + embedding) + 2 * embedding + (anatomy.spectra.shift is not None)
    )
    numbers = Numbers(
        len(groups), config.d_mlp, 3 * neurons, numbers_per_group * len(groups), planes.size
    )
    return Parameterised(simple, groups, numbers, sum(x.size for x in model.tensors.values()))


class _Planes:
    """Frames of a's tokens and of b's (the same or others), and the lines of all positions.

    Attributes:
        frequencies: Key frequencies and their doubles, two rows of a frame each.
        circles: C for the tokens of a, and of b.
        circle_c: C of the key frequencies for answers.
        E: Frames of W_E, and W_pos.
        V: What values have of them.
        A: What attention writes of them, before its weights.
        Q: Frames that W_U reads, of the key frequencies.
        brought: What reaches W_in of the frequencies of a, of b, and of the constant.
        size: Entries in all.
    """

    def __init__(self, anatomy: Anatomy, groups: Sequence[FrequencyGroup], constant: bool) -> None:
        config, model, new = anatomy.config, anatomy.model, anatomy.config.task.cyclic
        if new is None:
            raise BadConfig(
                f"the task {config.task.name} has no cyclic relabelling, so there are no "
                "frequencies"
            )
        self.p, self.d_mlp, self.keys = (
            config.p,
            config.d_mlp,
            [group.cluster.k for group in groups],
        )
        waves = {m * group.cluster.k for group in groups for m, *_ in group.waves}
        self.frequencies = sorted({_folded(self.p, k)[0] for k in waves})
        circle = _circle(self.p, self.frequencies)
        self.circles, self.circle_c = (
            (circle[new.of_a], circle[new.of_b]),
            _circle(self.p, self.keys)[new.of_c],
        )
        of_a, of_b, *equals = (
            model.W_E[start:stop].astype(float) for start, stop in config.token_rows
        )
        E_a, C_b = _inverse(self.circles[0]) @ of_a, self.circles[1]
        tokens = of_b if config.b_token_offset else self.circles[0] @ E_a
        E_b = _inverse(C_b) @ tokens
        if (
            not config.b_token_offset
            and np.abs(C_b @ E_b - tokens).max() > ROUNDING * np.abs(tokens).max()
        ):
            raise BadConfig(
                "the task renames a and b to different frequencies, and both have the same tokens"
            )
        lines = model.W_pos[: len(config.attention) if constant else 0].astype(float)
        if constant and equals:
            lines[2:] += equals[0]
        self.E = [E_a, E_b, lines]
        W_V, OV = np.concatenate(list(model.W_V), axis=1), values_written(model, FLOATS)
        self.V = [frame @ W_V for frame in self.E]
        self.A = [frame @ OV for frame in self.E]
        self.Q: Frame = _inverse(self.circle_c) @ model.W_U[:, : self.p].T.astype(float)
        self.brought = self._brought(config)
        distinct = (0, 1, 2) if config.b_token_offset else (0, 2)
        self.size = self.Q.size + sum(
            frames[i].size for frames in (self.E, self.V, self.A) for i in distinct
        )

    def _brought(self, config: Config) -> Frame:
        sides = [weight * A for weight, A in zip(config.attention, self.A[:2], strict=False)]
        if config.read_position < len(sides):
            sides[config.read_position] += self.E[config.read_position]
        lines = np.zeros((0, config.d_model))
        if len(self.E[2]):
            lines = (np.array(config.attention) @ self.A[2] + self.E[2][config.read_position])[None]
        return np.concatenate([*sides, lines])

    def asked(self, groups: Sequence[FrequencyGroup]) -> Float[np.ndarray, "rows d_mlp"]:
        """Return what W_in must make of `brought`: waves of a and of b, and the constant."""
        sides, constant = (
            np.zeros((2, 2 * len(self.frequencies), self.d_mlp)),
            np.zeros((1, self.d_mlp)),
        )
        for group in groups:
            cluster, shared = group.cluster, group.shared
            constant[0, cluster.neurons] = cluster.rho * shared.constant
            for m, *sizes in group.waves:
                frequency, sign = _folded(self.p, m * cluster.k)
                place = 2 * self.frequencies.index(frequency)
                for side, (size, turn) in enumerate(
                    zip(sizes, (shared.shift, -shared.shift), strict=True)
                ):
                    wave = cluster.rho * size * _wave(m * (cluster.phi + turn), sign)
                    sides[side, place : place + 2, cluster.neurons] += wave.T
        return np.concatenate([*sides, constant[: len(self.brought) - 2 * sides.shape[1]]])

    def written(self, groups: Sequence[FrequencyGroup]) -> Float[np.ndarray, "d_mlp rows"]:
        """Return each neuron's output in the coordinates of its frequency."""
        coordinates = np.zeros((self.d_mlp, 2 * len(self.keys)))
        for place, group in enumerate(groups):
            coordinates[group.cluster.neurons, 2 * place : 2 * place + 2] = (
                group.omega * _wave(2 * group.cluster.phi, 1)
            ).T
        return coordinates


def _folded(p: int, k: int) -> tuple[int, int]:
    """The frequency in 0 … p/2 that k is, and the sign of its angle.

    >>> _folded(59, 40)
    (19, -1)
    """
    return (k % p, 1) if 2 * (k % p) <= p else (-k % p, -1)


def _circle(p: int, frequencies: Sequence[int]) -> Float[np.ndarray, "p rows"]:
    turns: Int[np.ndarray, "p K"] = np.outer(np.arange(p), frequencies) % p
    return np.stack([np.cos(2 * np.pi / p * turns), np.sin(2 * np.pi / p * turns)], axis=2).reshape(
        p, -1
    )


def _wave(phase: Float[np.ndarray, " n"], sign: int) -> Float[np.ndarray, "2 n"]:
    """cos(±x + φ) = cos φ cos x ∓ sin φ sin x."""
    return np.stack([np.cos(phase), -sign * np.sin(phase)])


def _inverse(x: Float[np.ndarray, "n m"], weak: float = ROUNDING) -> Float[np.ndarray, "m n"]:
    """The pseudo-inverse without weak directions."""
    inverse: Float[np.ndarray, "m n"] = np.linalg.pinv(x, rcond=weak)
    return inverse
