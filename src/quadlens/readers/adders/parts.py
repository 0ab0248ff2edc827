"""Shared by the readers of adders: tensors by name and shape, settings by type."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float

from quadlens.base.errors import BadConfig, BadFile, QuadlensError
from quadlens.network.native import tensor_list
from quadlens.network.sequence import SequenceConfig, TaskSpec
from quadlens.network.weights import Weights
from quadlens.readers.checkpoint import Checkpoint
from quadlens.readers.facts import Missing, check_settings
from quadlens.readers.protocol import Hints, Imported

Array = Float[np.ndarray, "..."]
T = TypeVar("T", bool, int, float, str)

DIGITS = 10
RESOLVED = (
    "parameters that the program computes from others are computed in float64 from the file's "
    "numbers"
)


class Parts:
    """Give each tensor of a checkpoint once, in float64; refuse those left over.

    A width that shapes share is known by a letter: the first tensor that has it says how large it
    is.
    """

    def __init__(self, checkpoint: Checkpoint, renamed: Mapping[str, str] | None = None) -> None:
        """`renamed`: beginnings of names in the file → what stands for them here."""
        self.source = checkpoint.source
        self.notes: list[str] = []
        self._widths: dict[str, int] = {}
        self._left: dict[str, np.ndarray] = {}
        for name, array in checkpoint.tensors.items():
            start = next(
                (beginning for beginning in renamed or () if name.startswith(beginning)), None
            )
            short = (
                name
                if start is None or renamed is None
                else renamed[start] + name.removeprefix(start)
            )
            if short in self._left:
                raise BadFile(f"{self.source}: two tensors are its {short[:80]}; expected one")
            self._left[short] = array

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str, *shape: int | str, finite: bool = True) -> Array:
        """A tensor of this shape, a letter standing for a width.

        Raises:
            BadFile: when it is missing, of another shape, or does not hold floats, finite ones
                unless told otherwise.
        """
        if name not in self._left:
            raise BadFile(f"{self.source}: missing tensors: {name}")
        array = self._left.pop(name)
        if array.ndim == len(shape):
            for width, found in zip(shape, array.shape, strict=True):
                if isinstance(width, str):
                    self._widths.setdefault(width, found)
        expected = tuple(
            self._widths.get(width, -1) if isinstance(width, str) else width for width in shape
        )
        if array.shape != expected or array.dtype.kind != "f" or 0 in array.shape:
            told = ", ".join(
                f"{w} = {self._widths[w]}" if w in self._widths else str(w) for w in map(str, shape)
            )
            raise BadFile(
                f"{self.source}: {name} has shape {array.shape} of {array.dtype}, expected floats "
                f"({told})"
            )
        if finite and not np.isfinite(array).all():
            raise BadFile(
                f"{self.source}: {name} has NaN or infinity in it; expected finite weights"
            )
        return array.astype(np.float64)

    def take_if(self, name: str, *shape: int | str) -> Array | None:
        """Return what `take` does, or None where the file does not have it."""
        return self.take(name, *shape) if name in self else None

    def width(self, letter: str) -> int:
        """How large a width is, after a tensor that has it was taken."""
        return self._widths[letter]

    def drop(self, why: str, *names: str) -> None:
        """Leave out what the authors' program leaves out, too, and say so."""
        dropped = [name for name in names if self._left.pop(name, None) is not None]
        if dropped:
            self.notes.append(f"left out {', '.join(dropped)}: {why}")

    def finish(self) -> None:
        """Refuse what nothing was made of."""
        if self._left:
            raise BadFile(f"{self.source}: {tensor_list('unknown', sorted(self._left))}")


class Settings:
    """A config that a program saved, read by type: what is not there has the program's default."""

    def __init__(self, source: str, values: Any) -> None:
        self._source = source
        self._values: Mapping[str, Any] = values if isinstance(values, Mapping) else {}

    @classmethod
    def saved_with(cls, checkpoint: Checkpoint, hints: Hints, name: str) -> "Settings":
        """Return the settings under this name in the file, else the config that a user gives."""
        saved = checkpoint.extras.get(name)
        return cls(checkpoint.source, saved if saved is not None else hints.sidecar)

    def need(self, there: object, what: str, how: str = "give a config that has them") -> None:
        """Refuse a checkpoint of which the config does not say something that no weight says.

        Raises:
            BadConfig: with what is missing, unless `there`.
        """
        if not there:
            missing = Missing(self._source)
            missing.add(what, how, "config")
            raise missing.error()

    def __bool__(self) -> bool:
        return bool(self._values)

    def get(self, key: str, default: T) -> T:
        """The value, of the default's type; a whole number stands for a float.

        Raises:
            BadConfig: when it has another type.
        """
        value = self._values.get(key, default)
        if isinstance(default, float) and type(value) is int:
            value = float(value)
        if type(value) is not type(default):
            raise BadConfig(
                f"{self._source}: {key} in its config is {type(value).__name__}, expected "
                f"{type(default).__name__}"
            )
        return value

    def only(self, **expected: bool | int | str) -> None:
        """Refuse a config with a setting that no public checkpoint has."""
        for key, value in expected.items():
            found = self._values.get(key, value)
            if type(found) is not type(value) or found != value:
                # Of a pickle only plain values are shown: anything else can be made to print
                # without end.
                told = (
                    f"{found!r}"[:40]
                    if isinstance(found, bool | int | str)
                    else f"a {type(found).__name__}"
                )
                raise BadConfig(
                    f"{self._source}: {key} is {told} in its config; quadlens reads {value!r}"
                )


def add_task(
    plus: int, equals: int, *, highest_first: bool = False, stop: bool = False
) -> TaskSpec:
    """Numbers x + y = z of digits: operands from either end, the answer lowest digit first.

    Args:
        plus: The token between x and y.
        equals: The token after y.
        highest_first: How x and y are written.
        stop: Whether a twelfth token is read, which must be no digit, or 0.
    """
    x, y = (_digits_of(name, DIGITS)[:: -1 if highest_first else 1] for name in "xy")
    return TaskSpec(
        "add:10",
        template=(*x, plus, *y, equals, *_digits_of("z", DIGITS + 1)),
        digits=tuple(range(DIGITS)),
        stop="zero" if stop else None,
    )


def framed_task() -> TaskSpec:
    """Return the task of networks whose ten tokens are the digits.

    They are fed 0 x 0 0 y 0 z, lowest digits first; 0 stands for all that is no digit.
    """
    x, y, z = _digits_of("x", DIGITS), _digits_of("y", DIGITS), _digits_of("z", DIGITS + 1)
    return TaskSpec("add:10", template=(0, *x, 0, 0, *y, 0, *z), digits=tuple(range(DIGITS)))


def _digits_of(name: str, n: int) -> tuple[str, ...]:
    return tuple(f"{name}{i}" for i in range(n))


def reading_heads(weight: Float[np.ndarray, "rows d"], n_heads: int) -> Float[np.ndarray, "h d k"]:
    """Cut an `nn.Linear` that makes queries, keys or values into heads.

    It is [heads · k, d].
    """
    rows, d = weight.shape
    return weight.reshape(n_heads, rows // n_heads, d).transpose(0, 2, 1)


def writing_heads(
    weight: Float[np.ndarray, "d columns"], n_heads: int
) -> Float[np.ndarray, "h k d"]:
    """An `nn.Linear` that reads all heads' values, [d, heads · k], one matrix for each head."""
    d, columns = weight.shape
    return weight.T.reshape(n_heads, columns // n_heads, d)


def check_heads(source: str, width: int, n_heads: int) -> None:
    """Refuse a width that so many heads cannot share.

    Raises:
        BadConfig: with both.
    """
    if n_heads < 1 or width % n_heads:
        raise BadConfig(f"{source}: a width of {width} cannot be {n_heads} heads")


def narrowed(
    W_V: Float[np.ndarray, "h d k"], W_O: Float[np.ndarray, "h k d"], live: Sequence[int]
) -> dict[str, Array]:
    """Return W_V and W_O of the same product, with values as narrow as their inputs.

    Args:
        W_V: Values of each head.
        W_O: What they write.
        live: The entries of the stream that attention reads here; all others are 0 on every input,
            or are not read.
    """
    if len(live) >= W_V.shape[2]:
        return {"W_V": W_V, "W_O": W_O}
    chosen = np.zeros((len(W_V), W_V.shape[1], len(live)))
    chosen[:, live, np.arange(len(live))] = 1.0
    return {"W_V": chosen, "W_O": W_V[:, live] @ W_O}


def factored(
    W_V: Float[np.ndarray, "h d k"], A: Float[np.ndarray, "rows r"], B: Float[np.ndarray, "r d"]
) -> dict[str, Array]:
    """Return values as narrow as the rank of A B, and what they write.

    Each head has its rows of A, which values go through first.
    """
    heads = A.reshape(len(W_V), -1, A.shape[1])
    return {"W_V": W_V @ heads, "W_O": np.stack([B] * len(W_V))}


def built(
    parts: Parts,
    hints: Hints,
    format_name: str,
    task: TaskSpec,
    tensors: Mapping[str, Array | None],
    **settings: Any,
) -> Imported:
    """The network: widths are those of its tensors (None: left out), scores are divided by √d_head.

    Args:
        parts: Where the tensors are from; nothing may be left over in it.
        hints: What the user says, which must not contradict the file.
        format_name: The reader's name.
        task: What it is asked.
        tensors: By our short names.
        settings: Other fields of `SequenceConfig`.

    Raises:
        QuadlensError: when something is left over, a hint contradicts, or the weights do not fit.
    """
    parts.finish()
    present = {name: array for name, array in tensors.items() if array is not None}
    heads, d, d_head = present["W_Q"].shape
    fields = {"divisor": math.sqrt(d_head)} | settings
    try:
        config = SequenceConfig(
            d_vocab=len(present["W_E"]),
            d_vocab_out=present["W_U"].shape[1],
            n_ctx=len(present["W_pos"]) if "W_pos" in present else len(task.template),
            d_model=d,
            n_heads=heads,
            d_head=d_head,
            d_value=present["W_V"].shape[2],
            d_mlp=present["W_in"].shape[1] if "W_in" in present else 0,
            task=task,
            **fields,
        )
        model = Weights(config, **present)
    except QuadlensError as error:
        raise error.about(parts.source) from None
    check_settings(hints, config, parts.source, "the program that wrote the file")
    return Imported(model, format_name, (*parts.notes, RESOLVED), task.name)
