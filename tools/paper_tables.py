#!/usr/bin/env python3
"""Make the tables that have the paper's numbers beside ours.

The paper's come from published.json alone.

python tools/paper_tables.py original    # docs/population.md: the paper's own model
python tools/paper_tables.py pizza    # docs/start.md: the bundled model beside it
python tools/paper_tables.py rules       # docs/start.md: its errors and bounds
python tools/paper_tables.py agreement FILE    # docs/quadrature.md §10: equal numbers of two runs
"""

import sys
from collections.abc import Callable

import quadlens
from quadlens.analysis.explanation.value import beside_paper
from quadlens.analysis.published import read_published
from quadlens.analysis.quadrature import tables
from quadlens.analysis.quadrature.claims import printed
from quadlens.base.numbers import decimals
from quadlens.base.table import Table


def original() -> tuple[Table, ...]:
    """What `quadlens explain original` has beside the paper."""
    found = quadlens.explain("original")
    assert isinstance(found, quadlens.Explanation)
    return beside_paper(found)


def pizza() -> tuple[Table, ...]:
    """Key frequencies and R², both rounded as the paper rounds."""
    found, paper = quadlens.explain("pizza"), read_published()
    assert isinstance(found, quadlens.Explanation)
    assert found.logits is not None
    whole, even = found.logits.r2.all_logits, found.logits.r2.abs_component
    rows = [
        (
            "key frequencies",
            ", ".join(map(str, found.key_frequencies)),
            ", ".join(str(k) for k, _ in paper.key_neurons),
        )
    ]
    for name, part, theirs in (
        ("all logits", whole, paper.r2[:2]),
        ("absolute-value part alone", even, paper.r2[2:]),
    ):
        ours = " / ".join(decimals(value, 2) for value in (part.pizza, part.clock))
        rows.append(
            (f"{name}: R² pizza / clock", ours, " / ".join(f"{value:.2f}" for value in theirs))
        )
    return (Table("", ("", "pizza", "paper"), rows),)


def rules() -> tuple[Table, ...]:
    """The paper's bound, the moment bound and the exact error, all rounded up."""
    rows = [
        (
            str(one.k),
            decimals(one.relative_bound.value, 2, "up"),
            decimals(one.relative_moment_bound_psi.value, 2, "up"),
            decimals(one.relative_exact_psi.upper, 3, "up"),
        )
        for one in quadlens.bounds("pizza").bounded
    ]
    return (Table("", ("frequency", "paper's bound", "moment bound (20 moments)", "exact"), rows),)


def cells(model: str) -> dict[tuple[str, str, int], str]:
    """Return what `quadlens bounds` prints where the paper prints a number, to its two digits."""
    return {
        (table.name, row.name, k): decimals(printed(claim), 2)
        for table in tables(quadlens.bounds(model))
        for row in table.rows
        if row.paper is not None and "baseline" not in row.name
        for k, claim in zip(table.frequencies, row.claims, strict=True)
    }


def agreement(first: str, second: str = "original") -> tuple[Table, ...]:
    """Count the numbers that two runs of one training share, to the two digits of the paper."""
    ours, again = cells(first), cells(second)
    if ours.keys() != again.keys():
        raise SystemExit(f"{first} and {second} have different key frequencies")
    kinds: dict[str, Callable[[str], bool]] = {
        "all": lambda name: True,
        "without the ReLU bounds": lambda name: "relu_bound" not in name,
        "without the ReLU bounds and angle errors": lambda name: (
            "relu_bound" not in name and "angle" not in name
        ),
    }
    rows = []
    for words, belongs in kinds.items():
        some = [cell for cell in ours if belongs(cell[1])]
        rows.append((words, str(len(some)), str(sum(ours[cell] == again[cell] for cell in some))))
    return (Table("", ("numbers", "how many", "equal in both runs"), rows),)


def main() -> None:
    """Print the tables of one name, in Markdown."""
    named: dict[str, Callable[[], tuple[Table, ...]]] = {
        "original": original,
        "pizza": pizza,
        "rules": rules,
    }
    if sys.argv[1:2] == ["agreement"] and len(sys.argv) in (3, 4):
        named["agreement"] = lambda: agreement(*sys.argv[2:])
    elif sys.argv[1:] not in [[name] for name in named]:
        raise SystemExit(__doc__)
    sys.stdout.write("\n\n".join(table.to_markdown() for table in named[sys.argv[1]]()) + "\n")


if __name__ == "__main__":
    main()
