"""What every reader offers, and the values that pass between a reader and whoever uses it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from quadlens.base.display import Displayed, printable
from quadlens.network.task import Task
from quadlens.network.weights import Weights
from quadlens.readers.checkpoint import Checkpoint


@dataclass(frozen=True)
class Sniff:
    """How sure a reader is that a checkpoint is its own, and why.

    Attributes:
        confidence: 0 not mine · ½ could be read as mine · 1 has my marks.
        reasons: One clause for each mark found or missed.
    """

    confidence: float
    reasons: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.confidence not in (0.0, 0.5, 1.0):
            raise ValueError(f"confidence {self.confidence} is not 0, ½ or 1")


@dataclass(frozen=True)
class SoftmaxAttention:
    """The checkpoint's own attention, computed from its W_Q and W_K.

    Attributes:
        positions: How many positions are fed, None when the checkpoint says.
    """

    positions: int | None = None


@dataclass(frozen=True)
class Hints:
    """What a user says about a checkpoint, beside the file itself.

    Attributes:
        attention: The weight on each position, or the checkpoint's own softmax.
        p: The modulus.
        activation: The name of σ.
        sidecar: The config file beside the weights, parsed.
        sidecar_name: What it is called, for messages.
        read_position: Which position is read, the last one when None.
        task: Its name, or the task itself.
        answers: A file with the task's table, or `model` for the model's own answers.
        checkpoint: Which of several state dicts in one file, from 0.
        map: Which weight is which, in an MLP whose weights have names of their own (`mlps.py`).
    """

    attention: tuple[float, ...] | SoftmaxAttention | None = None
    p: int | None = None
    activation: str | None = None
    sidecar: Mapping[str, Any] | None = None
    sidecar_name: str = "the config file"
    read_position: int | None = None
    task: str | Task | None = None
    answers: str | None = None
    checkpoint: int | None = None
    map: Mapping[str, str] | None = None

    def in_config(self, *keys: str) -> Any:
        """Return the first of these keys that the sidecar has, None when it has none.

        Keys are looked up at its top and one level down.
        """
        if self.sidecar is None:
            return None
        levels = [
            self.sidecar,
            *(value for value in self.sidecar.values() if isinstance(value, Mapping)),
        ]
        return next(
            (level[key] for level in levels for key in keys if level.get(key) is not None), None
        )


@dataclass(frozen=True, repr=False)
class Imported(Displayed):
    """A model read from someone else's checkpoint.

    Attributes:
        model: The model.
        format: Which format the file was read as.
        notes: How each fact that the weights do not say was settled, for the user to check.
        task: What the file's own config says the task is, None when it is silent.
        correct: How many inputs the model answers right, so that a wrong hint shows; None until
            that is counted.
        pairs: Of how many: all p², or those drawn where p² are too many.
    """

    model: Weights
    format: str
    notes: tuple[str, ...] = ()
    task: str | None = None
    correct: int | None = None
    pairs: int | None = None

    def summary(self) -> str:
        """How many inputs are answered right, then the notes."""
        right = f"{self.correct} of {self.pairs} inputs"
        notes = [f"  {note}" for note in self.notes if not note.startswith(right)]
        return printable("\n".join([f"{right} right ({self.model.config.task.words})", *notes]))

    def _facts(self) -> dict[str, object]:
        right = f"{self.correct} of {self.pairs}"
        return {
            "right": right,
            "format": self.format,
            "model": self.model,
            "notes": len(self.notes),
        }


@dataclass(frozen=True, eq=False)
class Exported:
    """A model as another program's file.

    Attributes:
        content: Its bytes.
        sidecar: JSON to write beside it, None when the file says everything.
        notes: What the user should know.
    """

    content: bytes
    sidecar: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()


@runtime_checkable
class Reader(Protocol):
    """One kind of checkpoint: recognise it and read it."""

    @property
    def name(self) -> str:
        """What the setting `format` calls it."""

    def sniff(self, checkpoint: Checkpoint, hints: Hints) -> Sniff:
        """Whether the checkpoint has this format's marks."""

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """The model; refuses what cannot be one."""


class Marked:
    """A reader that knows its checkpoints by tensors that no other program has together.

    Attributes:
        marks: Their names; of several lists any one.
        others: Names with which it is another program's.
    """

    marks: tuple[tuple[str, ...], ...]
    others: ClassVar[tuple[str, ...]] = ()

    def sniff(self, checkpoint: Checkpoint, hints: Hints) -> Sniff:
        """Return 1 where a checkpoint has all tensors of a list, else 0.

        It is ½ where it has another program's, too.
        """
        beside = [name for name in self.others if name in checkpoint.tensors]
        sniffs = []
        for names in self.marks:
            if all(name in checkpoint.tensors for name in names):
                clauses = (
                    *(f"has {name}" for name in names),
                    *(f"but {name} lies beside it" for name in beside[:1]),
                )
                sniffs.append(Sniff(0.5 if beside else 1.0, clauses))
        wanted = " and no ".join(" with ".join(names[:2]) for names in self.marks)
        return max(
            sniffs, key=lambda sniff: sniff.confidence, default=Sniff(0.0, (f"no {wanted}",))
        )
