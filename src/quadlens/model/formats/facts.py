"""Facts that weights do not say: gathered from flags, sidecar and file, which must not contradict each other."""

import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeVar

from quadlens.errors import BadConfig
from quadlens.model.activation import ACTIVATIONS, Activation, recognise_activation
from quadlens.model.formats.protocol import Hints, SoftmaxAttention

T = TypeVar("T")


def agreed(what: str, source: str, claims: Sequence[tuple[str, T | None]]) -> tuple[T, str] | None:
    """The one value that everybody who speaks claims, and who said it first; None when nobody speaks.

    Raises:
        BadConfig: when two disagree.
    """
    spoken = [(who, value) for who, value in claims if value is not None]
    for who, value in spoken[1:]:
        if value != spoken[0][1]:
            raise BadConfig(
                f"{source}: {what} is {_show(spoken[0][1])} by {spoken[0][0]} but {_show(value)} by {who}; "
                "correct one of them"
            )
    return (spoken[0][1], spoken[0][0]) if spoken else None


def _show(value: object) -> str:
    if isinstance(value, SoftmaxAttention):
        return "the checkpoint's own softmax"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def parse_attention(text: str) -> tuple[float, ...] | SoftmaxAttention:
    """`--attention` as typed: numbers or fractions separated by commas, or softmax, softmax:2, softmax:3.

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
            f"--attention {text!r} is not understood; expected a weight for each position, as in 0.5,0.5 or "
            "1/3,1/3,1/3, or softmax to compute the checkpoint's own"
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


def switch(hints: Hints, key: str) -> bool:
    """A yes or no in the sidecar, as true, false, 0 or 1; absent is no."""
    value = hints.of(key)
    if value is None or (isinstance(value, (bool, int)) and value in (0, 1)):
        return bool(value)
    raise BadConfig(f"{hints.sidecar_name}: {key} is a {type(value).__name__}, expected true or false")


def known_activation(source: str, hints: Hints, by_format: str | None) -> tuple[Activation, str]:
    """σ, and who said so; `by_format` is what the format always has, None when it leaves the choice open.

    Raises:
        BadConfig: when σ is not supported, nobody says it, or two disagree.
    """
    written = hints.of("act_fn", "act_type", "activation")
    claims = [("--activation", hints.activation), (hints.sidecar_name, written), ("the format", by_format)]
    named: list[tuple[str, Activation | None]] = [
        (who, _activation(source, value)) for who, value in claims if value is not None
    ]
    found: tuple[Activation, str] | None = agreed("the activation", source, named)
    if found is None:
        raise BadConfig(
            f"{source}: the weights do not say the activation; give --activation, one of {', '.join(ACTIVATIONS)}"
        )
    return found


def _activation(source: str, name: Any) -> Activation:
    try:
        return recognise_activation(name)
    except BadConfig as error:
        raise BadConfig(f"{source}: {error}") from None


def known_modulus(source: str, hints: Hints, by_file: int | None, by_shape: tuple[int, str]) -> tuple[int, str]:
    """p, and who said so: flag, sidecar, the file's own config; else `by_shape`, a number and where it is from.

    Raises:
        BadConfig: when two disagree, or nobody says it and the shape is even.
    """
    claims = [("--p", hints.p), (hints.sidecar_name, whole_number(hints, "p", "C")), ("the file's config", by_file)]
    found = agreed("p", source, claims)
    if found is not None:
        return found
    if by_shape[0] % 2 == 0:
        raise BadConfig(f"{source}: {by_shape[1]} is {by_shape[0]}, which is even, so it is not p; give p with --p")
    return by_shape


Claim = tuple[float, ...] | SoftmaxAttention | None


def settle_attention(
    source: str, hints: Hints, by_file: Claim, by_format: Claim, compute: Callable[[int | None], tuple[float, ...]]
) -> tuple[tuple[float, ...], str]:
    """The attention weight on each position, and who said so. Never guessed.

    Args:
        source: For messages.
        hints: Flag and sidecar.
        by_file: What the file's own config says.
        by_format: What the format always has, unless someone says otherwise.
        compute: The checkpoint's own softmax attention with so many positions, when it is constant.

    Raises:
        BadConfig: when nobody says it, or two disagree.
    """
    claims: list[tuple[str, Claim]] = [
        ("--attention", hints.attention),
        (hints.sidecar_name, attention_in(hints)),
        ("the file's config", by_file),
    ]
    # `softmax` without a number of positions agrees with any softmax that has one.
    numbered = next((c for _, c in claims if isinstance(c, SoftmaxAttention) and c.positions), None)
    claims = [(who, numbered if numbered and c == SoftmaxAttention() else c) for who, c in claims]
    found: tuple[tuple[float, ...] | SoftmaxAttention, str] | None = agreed("the attention", source, claims)
    claim, who = found if found is not None else (by_format, "the format")
    if claim is None:
        raise BadConfig(
            f"{source}: the attention constant is not in the weights, and a wrong one often still gives 100 % accuracy "
            "while every margin changes. Give it with --attention (0.5,0.5 for a and b; 1/3,1/3,1/3 with '='; "
            "1,1 in Zhong et al.'s models; softmax to compute it from W_Q and W_K), or a config with --config"
        )
    if isinstance(claim, SoftmaxAttention):
        return compute(claim.positions), f"{who}, softmax over every input"
    return claim, who
