#!/usr/bin/env python3
"""Keep output quoted in the documents true: rerun each command and put its output back; and the shipped summary.

A block starts with `<!-- output of: quadlens … -->` and ends with `<!-- end of output -->`. From the root:

    python tools/refresh_docs.py            # rewrite what changed
    python tools/refresh_docs.py --check    # say what changed, exit 1 if anything did
"""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

START, END = re.compile(r"<!-- output of: quadlens (.+?) -->"), "<!-- end of output -->"
# A block may be empty, but it never reaches over another comment.
BLOCK = re.compile(rf"{START.pattern}\n((?:(?!<!--).)*){END}", re.DOTALL)


def refreshed(text: str) -> str:
    """The document with every block as its command prints it now."""

    def again(match: re.Match[str]) -> str:
        words = [sys.executable, "-m", "quadlens", *shlex.split(match[1])]
        output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        return f"<!-- output of: quadlens {match[1]} -->\n\n{output.strip()}\n\n{END}"

    blocks, starts = len(BLOCK.findall(text)), len(START.findall(text))
    if blocks != starts:
        raise ValueError(f"{starts} blocks of output begin and {blocks} end")
    return BLOCK.sub(again, text)


def refresh_summary() -> None:
    """The summary of the shipped population that pages and figures read instead of the whole dataset."""
    from quadlens.population.comparison import compare, summarise
    from quadlens.population.dataset import read, shipped_path

    summary = summarise(compare(read(shipped_path())))
    text = json.dumps({"models": summary.models, **summary.to_dict()}, indent=1) + "\n"
    shipped_path().with_suffix(".json").write_text(text, encoding="utf-8")


def main() -> int:
    """Every document; the number of those that changed decides the exit code of --check."""
    if "--check" not in sys.argv:
        refresh_summary()
    changed = []
    for path in [Path("README.md"), *sorted(Path("docs").glob("*.md"))]:
        before = path.read_text()
        after = refreshed(before)
        if after != before:
            changed.append(path)
            if "--check" not in sys.argv:
                path.write_text(after)
    sys.stdout.write("".join(f"{path} changed\n" for path in changed))
    return int(bool(changed) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
