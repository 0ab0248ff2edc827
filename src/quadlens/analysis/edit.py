"""Change a model: fewer neurons, turned phases, another activation, other attention.

`quadlens.edit.ablate(model, frequencies=[5])`, and so on. The explorer's dials are these
definitions, with the same draws for the same seed.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from jaxtyping import Bool, Complex, Float, Int

from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.analysis.spectrum.fourier import sequences_of, waves_of
from quadlens.analysis.spectrum.harmonics import doubled, multiples_of
from quadlens.analysis.spectrum.of_study import study_anatomy
from quadlens.base.arguments import checked
from quadlens.base.errors import BadConfig
from quadlens.network.activation import parse_activation
from quadlens.network.collapse import token_streams
from quadlens.network.config import Config
from quadlens.network.study import study_of
from quadlens.network.tables import FloatTables, Tables
from quadlens.network.weights import Weights

if TYPE_CHECKING:
    from quadlens.network.named import ModelLike

__all__ = [
    "ablate",
    "jitter_phases",
    "jitter_weights",
    "mix_attention",
    "resample",
    "swap_activation",
]

KeptPart = Literal["all", "abs", "identity"]
Waves = Literal["all", "secondary", "primary"]
# The weights whose last axis is over neurons: what they read.
READING = ("W_in", "b_in", "W_a", "W_b")


@checked
def ablate(
    model: "ModelLike",
    frequencies: Collection[int] = (),
    neurons: Collection[int] = (),
    keep: KeptPart = "all",
    *,
    waves: Waves = "all",
    share: float = 0.0,
    arc: float = 0.0,
    seed: int = 1,
) -> Weights:
    """The model without some neurons, without a part of σ, or without some waves.

    Args:
        model: A model, a study, a path or the name of a bundled model.
        frequencies: Drop the neurons that read one of these most.
        neurons: Drop these neurons. A dropped neuron stays, and writes nothing.
        keep: all of σ; abs, its even part (|x|/2 of ReLU); or identity, its odd part (x/2 of ReLU).
        waves: all; primary, of each neuron only its own frequency; or secondary, that and twice
            that frequency.
        share: Drop each neuron with this probability.
        arc: Drop the neurons whose phase φ is in this share of the circle, from -π on.
        seed: Of `share`; the explorer drops the same neurons at the same seed.

    >>> import quadlens
    >>> quadlens.evaluate(quadlens.edit.ablate("pizza", keep="abs")).correct
    3481
    >>> quadlens.evaluate(quadlens.edit.ablate("pizza", frequencies=[5, 9])).correct < 3481
    True
    """
    anatomy = _anatomy(model)
    config = anatomy.config
    _check_choice("keep", keep, KeptPart)
    _check_choice("waves", waves, Waves)
    _check_range("share", share, 0.0, 1.0)
    _check_range("arc", arc, 0.0, 1.0)
    wrong = sorted(i for i in neurons if not 0 <= i < config.d_mlp)
    if wrong:
        raise BadConfig(f"there is no neuron {wrong[0]}; expected 0 … {config.d_mlp - 1}")
    off = np.isin(np.arange(config.d_mlp), list(neurons))
    if frequencies:
        off |= _reading(anatomy, frequencies)
    if share:
        _, _, chance = _draws(config.d_mlp, seed)
        off |= chance < share
    if arc:
        off |= (anatomy.roles.phi + np.pi) / (2 * np.pi) % 1 < arc
    changed = (
        anatomy.model if waves == "all" else _with_waves(anatomy, np.zeros(config.d_mlp), waves)
    )
    return _part_of(_scaled(changed, np.where(off, 0.0, 1.0)) if off.any() else changed, keep)


@checked
def jitter_phases(
    model: "ModelLike",
    spread: float,
    *,
    frequencies: Collection[int] = (),
    carry: bool = True,
    seed: int = 1,
) -> Weights:
    """Every neuron moved along the circle by `spread` radians times a normal draw.

    φ_i moves by the draw and ψ_i by twice as much; a wave of m times the neuron's frequency turns
    by m times the draw, as it would if all that the neuron reads were moved.

    Args:
        model: A model with constant attention, a study, a path or the name of a bundled model.
        spread: Standard deviation, in radians.
        frequencies: Only the neurons that read one of these most; all if left out.
        carry: Whether ψ_i follows.
        seed: The explorer moves the same way at the same seed.

    >>> import quadlens
    >>> changed = [quadlens.edit.jitter_phases("pizza", spread) for spread in (0.0, 0.1, 1.0)]
    >>> [quadlens.evaluate(model).correct for model in changed]
    [3481, 3481, 3136]
    """
    anatomy = _anatomy(model)
    _check_range("spread", spread, 0.0, np.inf)
    normal, _, _ = _draws(anatomy.config.d_mlp, seed)
    angle = (
        np.where(_reading(anatomy, frequencies), spread * normal, 0.0)
        if frequencies
        else spread * normal
    )
    return _with_waves(anatomy, angle, "all", carry)


@checked
def jitter_weights(
    model: "ModelLike", spread: float, *, frequencies: Collection[int] = (), seed: int = 1
) -> Weights:
    """Scale what each neuron writes by exp(`spread` times a normal draw).

    The widths of the integral's rectangles become uneven.

    Args:
        model: A model, a study, a path or the name of a bundled model.
        spread: Standard deviation of the logarithm.
        frequencies: Only the neurons that read one of these most; all if left out.
        seed: The explorer draws the same at the same seed.

    >>> import quadlens
    >>> quadlens.evaluate(quadlens.edit.jitter_weights("pizza", 0.1)).correct
    3481
    """
    anatomy = _anatomy(model)
    _check_range("spread", spread, 0.0, np.inf)
    _, normal, _ = _draws(anatomy.config.d_mlp, seed)
    gain = np.exp(spread * normal)
    return _scaled(
        anatomy.model, np.where(_reading(anatomy, frequencies), gain, 1.0) if frequencies else gain
    )


@checked
def resample(model: "ModelLike", neurons: int | None = None, *, seed: int = 1) -> Weights:
    """Draw neurons from the model's with replacement, and scale what they write.

    The mean sum is the same.

    If the hidden layer is a sum that stands for an integral, this is the same integral by random
    nodes.

    Args:
        model: A model, a study, a path or the name of a bundled model.
        neurons: How many to draw; as many as there are if left out.
        seed: Of the draw.

    >>> import quadlens
    >>> quadlens.edit.resample("pizza", 100).config.d_mlp
    100
    """
    weights = _anatomy(model).model
    old = weights.config.d_mlp
    count = old if neurons is None else neurons
    if count < 1:
        raise BadConfig(f"{count} neurons; expected at least 1")
    drawn = np.random.default_rng(seed).integers(old, size=count)
    return _with_neurons(weights, drawn, np.ones(count), np.full(count, old / count))


@checked
def swap_activation(model: "ModelLike", activation: str) -> Weights:
    """Put another σ in: relu, abs, square, quartic, gelu, tanh, silu or softplus.

    >>> import quadlens
    >>> quadlens.evaluate(quadlens.edit.swap_activation("pizza", "square")).correct
    3481
    """
    return _reconfigured(_anatomy(model).model, activation=parse_activation(activation))


@checked
def mix_attention(model: "ModelLike", rate: float) -> Weights:
    """Mix constant attention and softmax: (1 - rate) · mean weight + rate · softmax weight.

    The result is another transformer: its residual stream knows which token stands where, so that
    heads that look the same way at every input can bring each position's mean.

    Args:
        model: A one-layer transformer with softmax attention, a study, a path or the name of a
            bundled model.
        rate: From 0, constant attention, to 1, the model as it is.

    >>> import quadlens
    >>> mixed = [quadlens.edit.mix_attention("clock", rate) for rate in (0.0, 0.5, 1.0)]
    >>> [quadlens.evaluate(model).correct for model in mixed]
    [2013, 3449, 3481]
    """
    _check_range("rate", rate, 0.0, 1.0)
    anatomy = _anatomy(model)
    params, layer, config, softmax = (
        anatomy.model,
        anatomy.layer,
        anatomy.config,
        anatomy.config.softmax,
    )
    _check_one_layer(params)
    if softmax is None:
        raise BadConfig(
            "this is no one-layer transformer whose attention depends on the tokens; there is "
            "nothing to mix"
        )
    if rate in (0.0, 1.0):
        return params if rate else as_transformer(layer.with_mean_gates())
    streams, heads, seen = token_streams(params), config.n_heads, config.positions_seen
    # [position][head]: softmax's part of the weight, in the mean.
    means = np.zeros((len(streams), heads))
    means[:seen] = layer.mean_gates()
    # As many heads more: what they, which look at nothing in particular, put on each position, and
    # what they bring.
    even = np.array(config.attention) + rate * softmax.scale / seen * (
        np.arange(len(streams)) < seen
    )
    if not even.all():
        raise BadConfig(
            "this mixture of a constant and softmax has weight 0 in the mean; it cannot be mixed "
            "further"
        )
    w = {name: array.astype(np.float64) for name, array in params.tensors.items()}
    values = [np.einsum("td,hdk->htk", x, w["W_V"]) + w["b_V"][:, None] for x in streams]
    shares = (1 - rate) * means / even[:, None]
    brought = np.concatenate(
        [share[:, None, None] * value for share, value in zip(shares, values, strict=True)], 1
    )
    tokens = brought.shape[1]
    mixed = replace(
        config,
        d_model=tokens + config.d_model,
        n_heads=2 * heads,
        d_vocab=tokens,
        b_token_offset=config.p,
        n_ctx=len(streams),
        softmax=replace(softmax, scale=rate * softmax.scale),
    )
    # Zeros where the old weights meet which token it is, and where the new heads meet anything
    # else.
    new = {name: np.zeros(shape) for name, shape in mixed.shapes.items()}
    new["W_E"][:] = np.concatenate([np.eye(tokens), np.concatenate(streams)], axis=1)
    new["W_V"][heads:, :tokens] = brought
    new["W_O"][heads:, :, tokens:] = w["W_O"]
    for name in ("W_Q", "W_K", "W_V"):
        new[name][:heads, tokens:] = w[name]
    for name in ("b_Q", "b_K", "b_V"):
        new[name][:heads] = w[name]
    new["W_O"][:heads, :, tokens:] = w["W_O"]
    for name in ("W_in", "W_U", "b_O", "b_out"):
        new[name][tokens:] = w[name]
    new["W_out"][:, tokens:] = w["W_out"]
    new["b_in"], new["b_U"] = w["b_in"], w["b_U"]
    return Weights(mixed, **new)


def _anatomy(model: "ModelLike") -> Anatomy:
    study = study_of(model)
    study.model.config.need_pairs(
        "this network reads sequences of tokens; expected one that answers pairs"
    )
    return study.once(study_anatomy)


def _scaled(model: Weights, gain: Float[np.ndarray, " d_mlp"]) -> Weights:
    """Multiply what neuron i writes by gain[i]."""
    return _with_neurons(model, np.arange(len(gain)), np.ones(len(gain)), gain)


def as_transformer(collapsed: FloatTables) -> Weights:
    """A transformer that collapses to exactly these numbers, without rounding.

    The residual stream is one-hot: a, b and the answer have p dimensions each. '=' reads a and b
    with weight 1 each and adds nothing of its own, so that W_in holds U_a over U_b, W_U holds S_a
    over S_b over the identity.
    """
    p, d_mlp, width = collapsed.p, collapsed.d_mlp, 2 * collapsed.p
    config = Config(
        p=p,
        d_model=width + p,
        d_mlp=d_mlp,
        n_heads=1,
        d_head=width,
        d_vocab=width + 1,
        d_vocab_out=p,
        n_ctx=3,
        attention=(1.0, 1.0, 0.0),
        read_position=2,
        activation=collapsed.activation,
        b_token_offset=p,
        task=collapsed.task,
    )
    weights = {
        name: np.zeros(shape) for name, shape in config.shapes.items() if name.startswith("W_")
    }
    weights["W_E"][:width, :width] = np.eye(width)
    weights["W_V"][0, :width] = np.eye(width)
    weights["W_O"][0, :, :width] = np.eye(width)
    weights["W_in"][:width] = np.concatenate([collapsed.U_a, collapsed.U_b])
    weights["W_out"][:, width:] = collapsed.W_L.T
    weights["W_U"][:] = np.concatenate([collapsed.S_a, collapsed.S_b, np.eye(p)])
    return Weights.with_zero_biases(config, **weights)


def _draws(neurons: int, seed: int) -> Float[np.ndarray, "3 d_mlp"]:
    """Return two normal draws and a uniform one per neuron.

    They are the explorer's for this seed: mulberry32, three numbers each.
    """
    if not 0 <= seed < 2**32:
        raise BadConfig(f"seed = {seed}; expected 0 … {2**32 - 1}")
    state = (seed + 0x6D2B79F5 * np.arange(1, 3 * neurons + 1, dtype=np.uint64)).astype(np.uint32)
    t = (state ^ (state >> np.uint32(15))) * (state | np.uint32(1))
    t ^= t + (t ^ (t >> np.uint32(7))) * (t | np.uint32(61))
    uniform = ((t ^ (t >> np.uint32(14))) / 2**32).reshape(neurons, 3)
    radius, angle = np.sqrt(-2 * np.log1p(-uniform[:, 0])), 2 * np.pi * uniform[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), uniform[:, 2]])


def _reading(anatomy: Anatomy, frequencies: Collection[int]) -> Bool[np.ndarray, " d_mlp"]:
    """The neurons that read one of these frequencies most."""
    wrong = [k for k in frequencies if not 1 <= k <= anatomy.config.p // 2]
    if wrong:
        raise BadConfig(f"there is no frequency {wrong[0]}; expected 1 … {anatomy.config.p // 2}")
    k_in = anatomy.roles.k_in
    unread = sorted(set(frequencies) - set(k_in.tolist()))
    if unread:
        read = ", ".join(map(str, np.unique(k_in).tolist()))
        raise BadConfig(
            f"no neuron reads frequency {unread[0]} most, so that nothing would change; expected "
            f"some of {read}"
        )
    return np.isin(k_in, list(frequencies))


def _with_waves(
    anatomy: Anatomy, angle: Float[np.ndarray, " d_mlp"], keep: Waves, carry: bool = True
) -> Weights:
    """Turn every neuron's waves and keep some of them.

    The collapsed model changes, so this is a new one.
    """
    collapsed, k_in, k_out = anatomy.collapsed, anatomy.roles.k_in, anatomy.roles.k_out
    task, p = anatomy.config.task, collapsed.p
    names = task.cyclic
    if names is None:
        raise BadConfig(
            f"no renaming of its elements turns {task.words} into addition, so there are no waves "
            "to change"
        )
    turned = _turned(p, k_in, angle)
    out = _turned(p, k_in, 2 * angle) if carry else np.ones_like(turned)
    # Element t of the task is element names.of_a[t] of the addition that it is.
    U_a = _waves(collapsed.U_a, turned, k_in, keep)[names.of_a]
    U_b = _waves(collapsed.U_b, turned, k_in, keep)[names.of_b]
    W_L = _waves(collapsed.W_L, out, k_out, keep)[names.of_c]
    if anatomy.config.is_collapsed:
        return Weights.mlp(anatomy.config, U_a, U_b, W_L.T)
    skip = anatomy.layer
    return as_transformer(Tables(task, collapsed.activation, U_a, U_b, W_L, skip.S_a, skip.S_b))


def _turned(
    p: int, k: Int[np.ndarray, " d_mlp"], angle: Float[np.ndarray, " d_mlp"]
) -> Complex[np.ndarray, "frequencies d_mlp"]:
    """Return e^{i m angle} for the wave j of each neuron.

    m is the smallest with m·k ≡ ±j (mod p), with that sign.
    """
    times = np.zeros((p // 2 + 1, len(k)))
    for own in np.unique(k):
        multiple, mirrored = multiples_of(int(own), p)
        times[1:, k == own] = np.where(mirrored, -multiple, multiple)[:, None]
    return np.exp(1j * times * angle)


def _waves(
    rows: Float[np.ndarray, "p d_mlp"],
    turned: Complex[np.ndarray, "frequencies d_mlp"],
    own_frequency: Int[np.ndarray, " d_mlp"],
    keep: Waves,
) -> Float[np.ndarray, "p d_mlp"]:
    """Return columns with their waves turned.

    Kept are all waves, the neuron's own, or its own and the one of twice its frequency.
    """
    p, j = len(rows), np.arange(len(rows) // 2 + 1)[:, None]
    double = np.array([doubled(k, p) for k in own_frequency.tolist()])
    kept = (
        (keep == "all")
        | (j == own_frequency)
        | ((keep == "secondary") & (j == double) & (double > 0))
    )
    return sequences_of(waves_of(rows) * turned * kept, p)


def _part_of(model: Weights, keep: KeptPart) -> Weights:
    """σ replaced by its even part ("abs"; |x|/2 of ReLU) or its odd part ("identity"; x/2 of ReLU).

    For ReLU's even part the activation is abs; else every neuron is there twice: (σ(x) ± σ(-x))/2.
    """
    count = model.config.d_mlp
    if keep == "all":
        return model
    if keep == "abs" and model.config.activation == "relu":
        return _scaled(_reconfigured(model, activation="abs"), np.full(count, 0.5))
    sign = 1.0 if keep == "abs" else -1.0
    both, ones = np.tile(np.arange(count), 2), np.ones(count)
    return _with_neurons(
        model, both, np.concatenate([ones, -ones]), np.concatenate([ones, sign * ones]) / 2
    )


def _with_neurons(
    model: Weights,
    neurons: Int[np.ndarray, " n"],
    read: Float[np.ndarray, " n"],
    written: Float[np.ndarray, " n"],
) -> Weights:
    """The model with these of its neurons, what each reads and writes times a factor."""
    _check_one_layer(model)
    changed = {
        name: _times(model.tensors[name][..., neurons], read)
        for name in READING
        if name in model.tensors
    }
    changed["W_out"] = _times(model.W_out[neurons].T, written).T
    return Weights(replace(model.config, d_mlp=len(neurons)), **{**model.tensors, **changed})


def _times(
    matrix: Float[np.ndarray, "*rows n"], factor: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "*rows n"]:
    """Return an array in the type of the weights, if that loses nothing.

    Factors such as 0, -1 and ½ keep float32.
    """
    product = matrix.astype(np.float64) * factor
    narrow = product.astype(matrix.dtype)
    return narrow if np.array_equal(narrow, product) else product


def _reconfigured(model: Weights, **changes: object) -> Weights:
    """Return these weights under another config."""
    _check_one_layer(model)
    return Weights(replace(model.config, **changes), **model.tensors)  # type: ignore[arg-type]


def _check_one_layer(model: Weights) -> None:
    if model.config.no_tables is not None:
        raise BadConfig(f"{model.config.no_tables}; expected one hidden layer without norms")


def _check_choice(name: str, value: str, choices: object) -> None:
    if value not in get_args(choices):
        raise BadConfig(f"{name} = {value!r}; expected one of {', '.join(get_args(choices))}")


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise BadConfig(f"{name} = {value}; expected a number from {low:g} to {high:g}")
