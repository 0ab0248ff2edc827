"""`Study`: one network and what has been computed of it.

It knows no room: a part is a function of a study.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from quadlens.base.display import Displayed
from quadlens.base.door import DOOR
from quadlens.base.errors import BadFile
from quadlens.network.native import sha256
from quadlens.network.weights import Weights

if TYPE_CHECKING:
    from quadlens.network.config import Config
    from quadlens.network.named import ModelLike, Named
else:
    Config = Any  # of a network on sequences it is a SequenceConfig

    class Named:
        """Nothing of its own: the door names the parts."""


T = TypeVar("T")
IN_MEMORY = "model"


@dataclass(frozen=True, eq=False, repr=False)
class Study(Displayed, Named):
    """One network and what is known of it; each part is computed once, when asked for.

    >>> import quadlens
    >>> study = quadlens.study("pizza")
    >>> study.explanation.key_frequencies, study.evaluation.correct
    ((5, 9, 11), 3481)

    Attributes:
        model: The weights.
        name: A bundled name, a file name without its suffix, or "model".
        file: The model's file; None for a model in memory.
        file_sha256: The SHA-256 of that file.
    """

    model: Weights
    name: str = IN_MEMORY
    file: Path | None = None
    file_sha256: str | None = None
    _memory: dict[Callable[["Study"], Any], Any] = field(default_factory=dict, init=False)

    @property
    def config(self) -> Config:
        """The network's config."""
        return self.model.config

    @property
    def p(self) -> int:
        """How many elements a and b have."""
        return self.model.config.need_pairs().p

    @property
    def sha256(self) -> str:
        """The SHA-256 of the network's file, or of the file that `save` would write."""
        return self.once(_sha256)

    def once(self, part: Callable[["Study"], T]) -> T:
        """What a function says of this study; it is called at most once."""
        if part not in self._memory:
            self._memory[part] = part(self)
        value: T = self._memory[part]
        return value

    def __contains__(self, part: Callable[["Study"], Any]) -> bool:
        """Whether a part has been computed."""
        return part in self._memory

    def given(
        self, parts: Mapping[Callable[["Study"], Any], Any] | None = None, /, **values: Any
    ) -> "Study":
        """Return a copy in which some values are given instead of computed.

        The copy keeps what has been computed.

        Args:
            parts: Parts by their functions.
            values: Parts and attributes by their names.
        """
        attributes = {one.name for one in fields(self) if one.init}
        other = replace(
            self, **{name: value for name, value in values.items() if name in attributes}
        )
        named = {
            DOOR.part_named(name): value for name, value in values.items() if name not in attributes
        }
        other._memory.update({**self._memory, **(parts or {}), **named})
        return other

    def __getattr__(self, name: str) -> Any:
        """A part by the name that the door gives it."""
        if name not in DOOR.parts.keys() | DOOR.methods.keys():
            known = ", ".join(one for one in dir(self) if not one.startswith("_"))
            raise AttributeError(f"a study has no {name!r}; it has {known}")
        part = DOOR.part_named(name)
        return partial(part, self) if name in DOOR.methods else self.once(part)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *DOOR.parts, *DOOR.methods})

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take a study from another process.

        One that another version wrote has no memory of this kind.
        """
        if state.keys() != {one.name for one in fields(self)}:
            raise BadFile(
                "this study was pickled by another version of quadlens, which computed other "
                "parts; "
                "make it again with quadlens.study(…)"
            )
        vars(self).update(state)

    def _computed(self) -> dict[str, Any]:
        """The parts that users have names for, as far as they are computed."""
        known = {(part.__module__, part.__name__): value for part, value in self._memory.items()}
        return {name: known[home] for name, home in DOOR.parts.items() if home in known}

    def _facts(self) -> dict[str, object]:
        return {
            "name": self.name,
            **self.model.config.brief,
            "computed": ", ".join(self._computed()) or "nothing yet",
        }

    def _repr_html_(self) -> str:
        """What has been computed so far, for a notebook: showing a study computes nothing."""
        parts = [value for value in self._computed().values() if hasattr(value, "_repr_html_")]
        return super()._repr_html_() + "".join(part._repr_html_() for part in parts)


def by_kind(study: Study, *, pairs: Any, sequences: Any) -> Any:
    """What holds of networks on pairs, or of networks on sequences."""
    return sequences if study.model.config.on_sequences else pairs


def _sha256(study: Study) -> str:
    return study.file_sha256 or sha256(study.model)


def study_of(model: "ModelLike", name: str | None = None) -> Study:
    """Return a study of anything that stands for a network.

    This is a study itself, weights, an anatomy, a path or a bundled name.

    Raises:
        WrongArgument: for anything else; the message says what to pass.
    """
    if isinstance(model, Study):
        return model
    study: Study = DOOR.study_of(model, name)
    return study
