"""Facts that weights do not say: gathered from settings, sidecar and file, which must not contradict each other."""

import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeVar

from quadlens.errors import BadConfig
from quadlens.model.activation import ACTIVATIONS, Activation, recognise_activation
from quadlens.model.formats.protocol import Hints, SoftmaxAttention

T = TypeVar("T")


class Missing:
    """What nobody says of a checkpoint, each fact with how to say it, so that one message tells all of them."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._told: list[str] = []
        self._settings: list[str] = []

    def add(self, what: str, how: str, *settings: str) -> None:
        """Note that `what` is not known; `how` says how to give it, by these settings."""
        self._told.append(f"{what}: {how}")
        self._settings += settings

    def __bool__(self) -> bool:
        return bool(self._told)

    def error(self) -> BadConfig:
        """The refusal that tells them all."""
        words = f"{self._source}: the weights do not say {'; nor '.join(self._told)}"
        return BadConfig(words, settings=self._settings)


def agreed(what: str, source: str, claims: Sequence[tuple[str, T | None]], *settings: str) -> tuple[T, str] | None:
    """The one value that everybody who speaks claims, and who said it first; None when nobody speaks.

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
                f"{source}: {what} is {_show(spoken[0][1])} by {spoken[0][0]} but {_show(value)} by {who}; "
                "correct one of them",
                settings=settings,
            )
    return (spoken[0][1], spoken[0][0]) if spoken else None


def _show(value: object) -> str:
    if isinstance(value, SoftmaxAttention):
        return "the checkpoint's own softmax"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def parse_attention(text: str) -> tuple[float, ...] | SoftmaxAttention:
    """Attention as typed: numbers or fractions separated by commas, or softmax, softmax:2, softmax:3.

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
            f"attention {text[:80]!r} is not understood; expected a weight for each position, as in 0.5,0.5 or "
            "1/3,1/3,1/3, or softmax to compute the checkpoint's own",
            settings=("attention",),
        ) from None


def attention_in(hints: Hints) -> tuple[float, ...] | SoftmaxAttention | None:
    """`attention` in the sidecar: a list of numbers, or "softmax"."""
    value = hints.of("attention")
    if value is None:
        return None
    if isinstance(value, str):
        return parse_attention(value)
    if not isinstance(value, list):
        raise BadConfig(f"{hints.sidecar_name}: attention is a {type(value).__name__}, expected a list of numbers")
    return tuple(finite_number(hints.sidecar_name, "attention", x) for x in value)


def finite_number(where: str, key: str, value: Any) -> float:
    """`value` as a float; `where` and `key` name it in the message."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max:
        return float(value)
    raise BadConfig(f"{where}: {key} is not a finite number")


def whole_number(hints: Hints, *keys: str) -> int | None:
    """An integer in the sidecar."""
    value = hints.of(*keys)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadConfig(f"{hints.sidecar_name}: {keys[0]} is {type(value).__name__}, expected a whole number")
    return value


def odd_or_open(width: int, what: str) -> tuple[int | None, str]:
    """The modulus by a width that is p or 2p in the layout it belongs to: p where it is odd, else open."""
    return (width, what) if width % 2 else (None, f"{what} is {width}, which may be p or 2p")


def switch(hints: Hints, key: str) -> bool | None:
    """A yes or no in the sidecar, as true, false, 0 or 1; None where it is silent."""
    value = hints.of(key)
    if value is None:
        return None
    if isinstance(value, (bool, int)) and value in (0, 1):
        return bool(value)
    raise BadConfig(f"{hints.sidecar_name}: {key} is a {type(value).__name__}, expected true or false")


def known_activation(
    source: str, hints: Hints, by_file: str | None, where: str, missing: Missing
) -> tuple[Activation, str] | None:
    """σ, and who said so; `by_file` is what the file's config says, None when it is silent. Never assumed.

    Raises:
        BadConfig: when σ is not supported, or two disagree.
    """
    written = hints.of("act_fn", "act_type", "activation")
    claims = [("the setting activation", hints.activation), (hints.sidecar_name, written), (where, by_file)]
    named: list[tuple[str, Activation | None]] = [
        (who, _activation(source, value)) for who, value in claims if value is not None
    ]
    found: tuple[Activation, str] | None = agreed("the activation", source, named, "activation")
    if found is None:
        names = ", ".join(ACTIVATIONS)
        missing.add("the activation", f"give activation=NAME ({names}), or a config that has act_fn", "activation")
    return found


def _activation(source: str, name: Any) -> Activation:
    try:
        return recognise_activation(name)
    except BadConfig as error:
        raise error.about(source) from None


def known_modulus(
    source: str, hints: Hints, by_file: tuple[str, int | None], by_shape: tuple[int | None, str], missing: Missing
) -> tuple[int, str] | None:
    """p, and who said so: setting, sidecar, something in the file; else `by_shape`, p and where it is from.

    Where shapes leave p open, `by_shape` has None and what they say.

    Raises:
        BadConfig: when two disagree.
    """
    claims = [("the setting p", hints.p), (hints.sidecar_name, whole_number(hints, "p", "C")), by_file]
    found = agreed("p", source, claims, "p")
    if found is None and by_shape[0] is not None:
        return by_shape[0], by_shape[1]
    if found is None:
        missing.add("p", f"{by_shape[1]}; give it with p=N", "p")
    return found
