"""Facts that weights do not contain, from settings, config file and checkpoint.

Sources must not contradict each other.
"""

import math
import sys
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, TypeVar

from quadlens.base.errors import BadConfig
from quadlens.network.activation import ACTIVATIONS, Activation, recognise_activation
from quadlens.network.config import Config
from quadlens.network.norm import Norm
from quadlens.network.sequence import SequenceConfig
from quadlens.network.tensor_names import unnumbered
from quadlens.readers.protocol import Hints, SoftmaxAttention

T = TypeVar("T")
# Who says a fact, and what; None where they do not say it.
Claim = tuple[str, T | None]
# Facts that settings can say of a network that says them itself.
SETTINGS = ("p", "attention", "activation", "read_position", "answers")
# What TransformerLens calls norms; those with Pre have no weights.
NORM_KINDS = ("LN", "LNPre", "RMS", "RMSPre")


class Missing:
    """Facts that nobody gives, each with how to give it, for one message."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._unknown: list[str] = []
        self._settings: list[str] = []

    def add(self, what: str, how: str, *settings: str) -> None:
        """Note that `what` is not known; `how` says how to give it, by these settings."""
        self._unknown.append(f"{what}: {how}")
        self._settings += settings

    def __bool__(self) -> bool:
        return bool(self._unknown)

    def error(self) -> BadConfig:
        """The refusal that tells them all."""
        words = f"{self._source}: the weights do not say {'; nor '.join(self._unknown)}"
        return BadConfig(words, settings=self._settings)


def agreed(
    what: str, source: str, claims: Sequence[Claim[T]], *settings: str
) -> tuple[T, str] | None:
    """Return the one claimed value and its first source; None without a claim.

    Args:
        what: What is claimed, for the message.
        source: The file.
        claims: Who may speak, and what they say; None where they do not.
        settings: By which a user speaks.

    Raises:
        BadConfig: when two disagree.
    """
    spoken = [(who, value) for who, value in claims if value is not None]
    for who, value in spoken[1:]:
        if value != spoken[0][1]:
            raise BadConfig(
                f"{source}: {what} is {_show(spoken[0][1])} by {spoken[0][0]} but {_show(value)} "
                f"by {who}; correct one of them",
                settings=settings,
            )
    return (spoken[0][1], spoken[0][0]) if spoken else None


def check_settings(hints: Hints, config: Config | SequenceConfig, source: str, who: str) -> None:
    """Refuse settings that say other than `who` does, or of what the network does not have.

    Raises:
        BadConfig: with the first of them.
    """
    own = config.settings
    for name in SETTINGS:
        given = getattr(hints, name)
        if given is not None and name not in own:
            raise BadConfig(
                f"{name} was given, which {config.kind_words} does not have; leave it out",
                settings=(name,),
            )
        if name == "activation" and given is not None:
            given = recognise_activation(given)
        if isinstance(given, SoftmaxAttention):
            whole = given.positions is None and str(own[name]).startswith("softmax")
            given = (
                own[name]
                if whole
                else f"softmax:{given.positions}"
                if given.positions
                else "softmax"
            )
        agreed(name.replace("_", " "), source, [("the setting", given), (who, own.get(name))], name)


def _show(value: object) -> str:
    if isinstance(value, SoftmaxAttention):
        return "the checkpoint's own softmax"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def parse_attention(text: str) -> tuple[float, ...] | SoftmaxAttention:
    """Parse attention as typed: numbers, fractions, or softmax, softmax:2, softmax:3.

    Commas separate the weights of the positions.

    >>> parse_attention("1/2,0.5")
    (0.5, 0.5)
    >>> parse_attention("softmax:3")
    SoftmaxAttention(positions=3)
    """
    if text in ("softmax", "softmax:2", "softmax:3"):
        return SoftmaxAttention(int(text[-1]) if text[-1].isdigit() else None)
    try:
        return tuple(float(Fraction(part.strip())) for part in text.split(","))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise BadConfig(
            f"attention {text[:80]!r} is not understood; expected a weight for each position, as "
            "in 0.5,0.5 or 1/3,1/3,1/3, or softmax to compute the checkpoint's own",
            settings=("attention",),
        ) from None


def attention_in(hints: Hints) -> tuple[float, ...] | SoftmaxAttention | None:
    """`attention` in the sidecar: a list of numbers, or "softmax"."""
    value = hints.in_config("attention")
    if value is None:
        return None
    if isinstance(value, str):
        return parse_attention(value)
    if not isinstance(value, list):
        raise BadConfig(
            f"{hints.sidecar_name}: attention is a {type(value).__name__}, expected a list of "
            "numbers"
        )
    return tuple(finite_number(hints.sidecar_name, "attention", x) for x in value)


def finite_number(where: str, key: str, value: Any) -> float:
    """`value` as a float; `where` and `key` name it in the message."""
    if (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and abs(value) <= sys.float_info.max
    ):
        return float(value)
    raise BadConfig(f"{where}: {key} is not a finite number")


def whole_number(hints: Hints, *keys: str) -> int | None:
    """An integer in the sidecar."""
    value = hints.in_config(*keys)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadConfig(
            f"{hints.sidecar_name}: {keys[0]} is {type(value).__name__}, expected a whole number"
        )
    return value


def odd_or_open(width: int, what: str) -> tuple[int | None, str]:
    """Return the modulus by a width that is p or 2p: p where it is odd, else None."""
    return (width, what) if width % 2 else (None, f"{what} is {width}, which may be p or 2p")


def switch(hints: Hints, key: str) -> bool | None:
    """A yes or no in the sidecar, as true, false, 0 or 1; None where it is silent."""
    value = hints.in_config(key)
    if value is None:
        return None
    if isinstance(value, (bool, int)) and value in (0, 1):
        return bool(value)
    raise BadConfig(
        f"{hints.sidecar_name}: {key} is a {type(value).__name__}, expected true or false"
    )


def known_activation(
    source: str, hints: Hints, by_file: Claim[str], missing: Missing
) -> tuple[Activation, str] | None:
    """σ, and who said so. Never assumed.

    Raises:
        BadConfig: when σ is not supported, or two disagree.
    """
    written = hints.in_config("act_fn", "act_type", "activation")
    claims = [("the setting activation", hints.activation), (hints.sidecar_name, written), by_file]
    named: list[tuple[str, Activation | None]] = [
        (who, _activation(source, value)) for who, value in claims if value is not None
    ]
    activation: tuple[Activation, str] | None = agreed(
        "the activation", source, named, "activation"
    )
    if activation is None:
        names = ", ".join(ACTIVATIONS)
        missing.add(
            "the activation",
            f"give activation=NAME ({names}), or a config that has act_fn",
            "activation",
        )
    return activation


def _activation(source: str, name: Any) -> Activation:
    try:
        return recognise_activation(name)
    except BadConfig as error:
        raise error.about(source) from None


def known_modulus(
    source: str,
    hints: Hints,
    by_file: Claim[int],
    by_shape: tuple[int | None, str],
    missing: Missing,
) -> tuple[int, str] | None:
    """Return p and its source: the setting, the config, the file, or the shapes.

    `by_shape` is p by the shapes, and which shape.

    Where shapes leave p open, `by_shape` has None and what they say.

    Raises:
        BadConfig: when two disagree.
    """
    claims = [
        ("the setting p", hints.p),
        (hints.sidecar_name, whole_number(hints, "p", "C")),
        by_file,
    ]
    p = agreed("p", source, claims, "p")
    if p is None and by_shape[0] is not None:
        return by_shape[0], by_shape[1]
    if p is None:
        missing.add("p", f"{by_shape[1]}; give it with p=N", "p")
    return p


def known_norm(
    source: str, hints: Hints, weights: Iterable[str], missing: Missing, eps: float | None = None
) -> Norm | None:
    """Return the norm of all places, as a config says it.

    A state dict shows norms with weights alone.

    Args:
        source: The file.
        hints: What the user says.
        weights: The names of all weights, some of them norms'.
        missing: Where it is noted if nobody says it.
        eps: What the program adds where no config says it; None where a config must.

    Raises:
        BadConfig: when the kind is not known, or the weights are not its.
    """
    kind, written = hints.in_config("normalization_type"), hints.in_config("eps")
    held = sorted({name for name in weights if unnumbered(name).startswith("ln")})
    if kind is None and not held:
        return None
    if kind is None or (written is None and eps is None):
        has = f"it has {', '.join(held[:3])}; " if held else ""
        kinds = ", ".join(NORM_KINDS)
        asked_for = f"normalization_type ({kinds})" + (" and eps" if eps is None else "")
        missing.add("the norm", f"{has}give a config that has {asked_for}", "config")
        return None
    if kind not in NORM_KINDS or (held and kind.endswith("Pre")):
        beside = f", and the weights have {', '.join(held[:3])}" if held else ""
        raise BadConfig(
            f"{source}: normalization_type is {str(kind)[:40]!r} in {hints.sidecar_name}{beside}; "
            "expected one of "
            f"{', '.join(NORM_KINDS)}, Pre being without weights, or null where there is none"
        )
    added = eps if written is None else written
    return Norm(
        "layer" if kind.startswith("LN") else "rms", finite_number(hints.sidecar_name, "eps", added)
    )


def known_divisor(hints: Hints, d_head: int, otherwise: str) -> tuple[float, str]:
    """Return the divisor of attention scores and its source.

    TransformerLens' attn_scale is -1 where it is √d_head.

    `otherwise` says why it is √d_head where no config says anything.
    """
    usual, scaled, scale = (
        math.sqrt(d_head),
        switch(hints, "use_attn_scale"),
        hints.in_config("attn_scale"),
    )
    if scaled is False:
        return 1.0, f"use_attn_scale in {hints.sidecar_name}"
    if scale not in (None, -1):
        divisor = finite_number(hints.sidecar_name, "attn_scale", scale)
        if divisor <= 0:
            raise BadConfig(
                f"{hints.sidecar_name}: attn_scale is {divisor:g}, expected a number above 0"
            )
        return divisor, f"attn_scale in {hints.sidecar_name}"
    if scaled or scale == -1:
        return usual, f"√d_head by {hints.sidecar_name}"
    return usual, f"√d_head, {otherwise}"
