"""Pictures, families of pictures, and public drawings.

A picture is one figure of one model, not drawn yet. A family is a way to draw, and what it makes.
"""

import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from quadlens.analysis.spectrum.of_study import no_waves
from quadlens.base.arguments import checked
from quadlens.base.errors import BadConfig
from quadlens.network.study import Study, by_kind, study_of
from quadlens.show.templates import compiled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = ParamSpec("P")
# What the templates of one picture are filled with.
Values = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Picture:
    """One figure of one model, not drawn yet, with everything a page says about it.

    Attributes:
        name: File name without suffix, and anchor on the page.
        label: The figure's label in the paper; None for figures the paper does not have.
        title: What it is, in a few words.
        finding: What it shows for this model, with numbers: the alternative text.
        how_to_read: What is on the axes, what to look for.
        data: The data file beside the page that holds the numbers drawn.
        draw: Draws it.
    """

    name: str
    label: str | None
    title: str
    finding: str
    how_to_read: str
    data: str
    draw: "Callable[[], Figure]"

    def __post_init__(self) -> None:
        if not self.name.replace("-", "").isalnum():
            raise BadConfig(f"a picture's name is letters, digits and hyphens, got {self.name!r}")
        if not (self.finding and self.how_to_read):
            raise BadConfig(f"picture {self.name} needs a finding and a way to read it")


@dataclass(frozen=True, eq=False)
class Family:
    """One kind of figure: an entry of `figures.toml`, where the fields are described.

    Attributes:
        name: On the command line: all of its pictures.
        draw: The public function, `draw(study, …, ax=None)`.
        values: What the templates need of one model beside the study, for each of its pictures;
            those that `draw` takes are passed to it. None or () if the model has not what the
            figure needs.
        title: A template.
        finding: A template.
        how_to_read: A template.
        data: The data file beside the page.
        picture: Template of the file names; the family's name where it has one picture.
        label: Template of the labels in the paper.
        names: File names and labels of its pictures, where they are not `name`; K is a frequency.
        in_paper: Whether the paper has it.
        needs_proofs: Whether it draws proofs.
        needs_waves: Whether it speaks of frequencies, which not every model has.
    """

    name: str
    draw: "Callable[..., Figure]"
    values: "Callable[[Study], Values | Sequence[Values] | None]"
    title: str
    finding: str
    how_to_read: str
    data: str
    picture: str = ""
    label: str = ""
    names: Collection[str] = ()
    in_paper: bool = False
    needs_proofs: bool = False
    needs_waves: bool = True

    def is_of(self, study: Study) -> bool:
        """Whether it is a figure of this kind of network, pairs or sequences."""
        return bool(vars(self.draw)["is_of"](study))

    def of(self, study: Study) -> tuple[Picture, ...]:
        """Its pictures of one model; () where the model has none."""
        if not self.is_of(study) or (self.needs_waves and study.once(no_waves) is not None):
            return ()
        values = self.values(study)
        each = (values,) if isinstance(values, Mapping) else values or ()
        return tuple(self._picture(study, of_picture) for of_picture in each)

    def _picture(self, study: Study, values: Values) -> Picture:
        def filled(template: str) -> str:
            return compiled(template).render(study=study, **values)

        label = filled(self.label or self.name) if self.in_paper else None
        texts = filled(self.title), filled(self.finding), filled(self.how_to_read), self.data
        taken = inspect.signature(self.draw).parameters
        options = {name: value for name, value in values.items() if name in taken}
        return Picture(
            filled(self.picture or self.name), label, *texts, partial(self.draw, study, **options)
        )

    def makes(self, name: str) -> bool:
        """Whether a picture of this family can have this file name or label."""
        return name in (self.name, *self.names) or re.sub(r"\d+", "K", name) in self.names


def figure(
    ax: str = "Axes to draw on",
    *,
    values: "Callable[[Study], Values | Sequence[Values] | None]" = lambda study: {},
    on_sequences: bool = False,
    **words: str,
) -> "Callable[[Callable[Concatenate[Study, P], Figure]], Callable[Concatenate[Any, P], Figure]]":
    """Make a public function of a drawing.

    It takes all that stands for a model, and its docstring describes its arguments.

    Args:
        ax: The axes it draws on.
        values: What its caption needs of a study (`Family.values`).
        on_sequences: Whether it is of networks on sequences, which have no other figure.
        words: What the parameters are that are its own.
    """
    common = {"study": "A study, a model, a path or the name of a bundled model."}
    described = common | words | {"ax": f"{ax}, or a Figure or SubFigure to make them in."}
    arguments = "\n".join(f"    {name}: {text}" for name, text in described.items())

    def is_of(study: Study) -> bool:
        return on_sequences is by_kind(study, pairs=False, sequences=True)

    def decorate(draw: "Callable[..., Figure]") -> "Callable[..., Figure]":
        checked_draw = checked(draw)

        @functools.wraps(draw)
        def public(study: Any, *others: Any, **options: Any) -> "Figure":
            subject = study_of(study)
            if not is_of(subject):
                kind = (
                    "on sequences"
                    if on_sequences
                    else "that answer pairs; `sequence_axis` is of those on sequences"
                )
                raise BadConfig(f"{draw.__name__} is a figure of networks {kind}")
            return checked_draw(subject, *others, **options)

        vars(public).update(values=values, is_of=is_of)
        public.__doc__ = f"{inspect.cleandoc(draw.__doc__ or '')}\n\nArgs:\n{arguments}\n"
        return public

    return decorate
