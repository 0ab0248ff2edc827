#!/usr/bin/env python3
"""Tables of the documents that have the paper's numbers beside ours; the paper's come from published.json alone.

python tools/paper_tables.py original    # docs/population.md: the paper's own model
python tools/paper_tables.py pizza    # docs/start.md: the bundled model beside it
python tools/paper_tables.py rules       # docs/start.md: its errors and bounds
"""

import sys

import quadlens
from quadlens.explanation.value import beside_paper
from quadlens.numbers import decimals
from quadlens.published import read_published
from quadlens.table import Table


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
    for name, part, theirs in (("all logits", whole, paper.r2[:2]), ("absolute-value part alone", even, paper.r2[2:])):
        ours = " / ".join(decimals(value, 2) for value in (part.pizza, part.clock))
        rows.append((f"{name}: R² pizza / clock", ours, " / ".join(f"{value:.2f}" for value in theirs)))
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


def main() -> None:
    """Print the tables of one name, in Markdown."""
    named = {"original": original, "pizza": pizza, "rules": rules}
    if sys.argv[1:] not in [[name] for name in named]:
        raise SystemExit(__doc__)
    sys.stdout.write("\n\n".join(table.to_markdown() for table in named[sys.argv[1]]()) + "\n")


if __name__ == "__main__":
    main()
