"""A picture: a figure that can be drawn, with everything a page says about it."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING

from quadlens.errors import BadConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Picture:
    """One figure of one model, not drawn yet.

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


def percent(share: float, digits: int = 1) -> str:
    """A share as words; only perfection reads as 100 %."""
    text = f"{100 * share:.{digits}f}"
    return f"{text if share >= 1 or float(text) < 100 else f'{100 - 10**-digits:.{digits}f}'} %"


def listed(numbers: tuple[int, ...]) -> str:
    """5, 9 and 11."""
    words = [str(number) for number in numbers]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + (" and " if words else "none") + "".join(words[-1:])


def at_most(value: float, digits: int = 4) -> str:
    """Rounded up, so that "at most" stays true."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_CEILING))


def at_least(value: float, digits: int = 4) -> str:
    """Rounded down, so that "at least" stays true."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_FLOOR))
