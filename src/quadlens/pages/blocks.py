"""What a page is made of: sections of blocks, each block a small frozen value the template knows how to show."""

from dataclasses import dataclass

from quadlens.figures.picture import Picture
from quadlens.pages.tables import ReportTable


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind: str = "text"


@dataclass(frozen=True)
class Formula:
    """A line of mathematics."""

    text: str
    kind: str = "formula"


@dataclass(frozen=True)
class Notice:
    """Something a reader must not miss."""

    text: str
    kind: str = "notice"


@dataclass(frozen=True)
class Steps:
    """A numbered list."""

    items: tuple[str, ...]
    kind: str = "steps"


@dataclass(frozen=True)
class Facts:
    """Names with values."""

    items: tuple[tuple[str, str], ...]
    kind: str = "facts"


@dataclass(frozen=True)
class Verdict:
    """One word, and what it says."""

    word: str
    text: str
    kind: str = "verdict"


@dataclass(frozen=True, eq=False)
class Figures:
    """Pictures, one below the other, or side by side where they are small."""

    pictures: tuple[Picture, ...]
    small: bool = False
    kind: str = "figures"


@dataclass(frozen=True, eq=False)
class Tables:
    """Tables, one below the other."""

    tables: tuple[ReportTable, ...]
    kind: str = "tables"


@dataclass(frozen=True)
class Links:
    """Names that lead to anchors or files: (name, address, remark)."""

    items: tuple[tuple[str, str, str], ...]
    kind: str = "links"


Block = Text | Formula | Notice | Steps | Facts | Verdict | Figures | Tables | Links


@dataclass(frozen=True, eq=False)
class Section:
    """A part of the page.

    Attributes:
        name: Anchor.
        title: Heading.
        blocks: What it shows, in order.
    """

    name: str
    title: str
    blocks: tuple[Block, ...]
