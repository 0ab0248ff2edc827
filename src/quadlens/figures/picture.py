"""Two values: a picture (one figure of one model, not drawn yet) and a family (a way to draw, and what it makes)."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quadlens.errors import BadConfig
from quadlens.quadrature import ClusterBounds
from quadlens.studies import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    """One kind of figure.

    Attributes:
        name: On the command line: all of its pictures.
        draw: The public function, `draw(study, …, ax=None)`.
        pictures: Its pictures of one model, if the model has what the figure needs; () where there are none.
        names: File names and labels of the paper of its pictures, where they are not `name`; K is a frequency.
        in_paper: Whether the paper has it.
        needs_proofs: Whether it draws proofs.
        needs_waves: Whether it speaks of frequencies, which not every model has.
    """

    name: str
    draw: "Callable[..., Figure]"
    pictures: Callable[[Study], tuple[Picture, ...]]
    names: tuple[str, ...] = ()
    in_paper: bool = False
    needs_proofs: bool = False
    needs_waves: bool = True

    def of(self, study: Study) -> tuple[Picture, ...]:
        """Its pictures of one model; () where the model has none."""
        return () if self.needs_waves and study.no_waves is not None else self.pictures(study)

    def makes(self, name: str) -> bool:
        """Whether a picture of this family can have this file name or label."""
        return name in (self.name, *self.names) or re.sub(r"\d+", "K", name) in self.names


def cluster_of(study: Study, k: int | None) -> ClusterBounds:
    """The cluster of frequency k; without k the first that is drawn.

    Raises:
        BadConfig: if the model has no such quadrature rule.
    """
    bounded = study.bounds.bounded if study.bounds else ()
    found = next((one for one in (study.clusters if k is None else bounded) if k in (None, one.k)), None)
    if found is None:
        there = ", ".join(str(one.k) for one in bounded)
        asked = "this model has no cluster" if k is None else f"frequency {k} of this model is no cluster"
        raise BadConfig(f"{asked} that is a quadrature rule; " + (f"there are: {there}" if there else "there is none"))
    return found
