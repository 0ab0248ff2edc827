#!/usr/bin/env python3
"""Make the gallery (docs/gallery.md): one card per network, by the number of inputs.

Networks are bundled and public ones.

    python tools/gallery.py [DIR…] [--only NAME]   # measure, draw, and write the page
    python tools/gallery.py --page                 # print the cards; nothing is measured

Bundled networks are always measured. Public ones are named in docs/data/gallery.toml and known by
their SHA-256; those that lie below a DIR are measured, the others keep what docs/data/gallery.json
says of them.
"""

import argparse
import csv
import functools
import hashlib
import itertools
import json
import re
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from quadlens.network.study import Study
    from quadlens.proofs.sequences.explain import SequenceExplanation

PAGE, PICTURES = Path("docs/gallery.md"), Path("docs/pictures/gallery")
# How many of 20,000 random inputs each public network on sequences answers wrong.
RANDOM = Path(__file__).parents[1] / "experiments" / "data" / "adders.csv"
PUBLIC, FACTS = Path("docs/data/gallery.toml"), Path("docs/data/gallery.json")
# Of a thumbnail: inches, pixels per inch, colours. Whole pages of them stay below a megabyte.
SIZE, PIXELS, COLOURS = (4.0, 2.3), 180, 48
MARGIN_DIGITS = 4
# Numbers with more digits than this are not written out.
LONG = 7
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
SENTENCE = re.compile(r"(?<=[.]) (?=[A-Z0-9])")


def found_below(
    directories: Iterable[Path], wanted: Mapping[str, Mapping[str, Any]]
) -> dict[str, Path]:
    """Public networks by name → a file with their bytes."""
    names = {entry["sha256"]: name for name, entry in wanted.items()}
    files = (
        path
        for top in directories
        for path in sorted(top.rglob("*"))
        if path.suffix in (".pt", ".pth", ".npz")
    )
    hashes = (
        (hashlib.sha256(path.read_bytes()).hexdigest(), path) for path in files if path.is_file()
    )
    return {names[sha256]: path for sha256, path in hashes if sha256 in names}


def on_sequences(study: "Study") -> "SequenceExplanation | None":
    """What each step reads, of a network on sequences."""
    import quadlens
    from quadlens.proofs.sequences.explain import SequenceExplanation

    found: object = quadlens.explain(study)
    return found if isinstance(found, SequenceExplanation) else None


def told(study: "Study") -> str:
    """What the network computes: one sentence of those that `explain` has for it."""
    import quadlens

    reading = on_sequences(study)
    if reading is not None:
        if reading.axis is not None:
            return SENTENCE.split(reading.axis.words())[-1]
        return min((step.words() for step in reading.steps[2:]), key=len)
    sentences = SENTENCE.split(quadlens.explain(study).summary())
    lead = ("This model", "Key frequencies", "W_L is made of")
    return next(one for start in lead for one in sentences if one.startswith(start))


def facts(study: "Study") -> dict[str, Any]:
    """What the card says, from the program; `seconds` is the processor's time for the proof."""
    import quadlens
    from quadlens.base.numbers import significant
    from quadlens.proofs.pairs.certificate import summary

    begun = time.process_time()
    certificate = quadlens.certify(study)
    seconds = time.process_time() - begun
    on_pairs = on_sequences(study) is None
    said = summary(certificate) if on_pairs else certificate.summary()
    example = None if on_pairs else said["counter_example"]
    return {
        "task": study.model.config.task.words if on_pairs else said["task"],
        "parameters": sum(tensor.size for tensor in study.model.tensors.values()),
        "inputs": said["inputs"],
        "right": study.evaluation.correct if on_pairs else None,
        "wrong_inputs": None if on_pairs else said["wrong_inputs"],
        "counter_example": example and {key: example[key] for key in ("input", "answered")},
        "computes": told(study),
        "verdict": said["verdict"],
        "strategy": said["strategy"],
        "certified_inputs": said["certified_inputs"],
        "margin": said["margin_lower_bound"]
        and significant(said["margin_lower_bound"], "down", MARGIN_DIGITS),
        "seconds": round(seconds, 1),
    }


def draw(study: "Study", axes: "Axes") -> str:
    """The figure that fits the network, on small axes; returns what there is to see."""
    from quadlens.analysis.quadrature.of_study import rule_clusters
    from quadlens.analysis.spectrum.irreps import irreps_of
    from quadlens.show import figures

    reading = on_sequences(study)
    if reading is not None and reading.axis is not None:
        figures.sequence_axis(study, ax=axes)
        for label in list(axes.texts):
            label.remove()
        i = reading.axis.step
        axes.set(
            xlabel=f"what attention brings, per value of x{i} + y{i} + carry", ylabel=f"z{i - 1}"
        )
        axes.set_yticklabels([str(token) for token in reading.axis.own])
        return (
            f"Intervals on an axis for every value of x{i} + y{i} + carry, on bands of the digit "
            "that wins"
        )
    if reading is not None:
        _draw_attention(reading, axes)
        return "Where attention looks at each step of decoding"
    if study.once(irreps_of) is not None and study.model.config.task.cyclic is None:
        figures.irreps(study, ax=axes)
        return "Shares of the group's irreps in what neurons read and write"
    clusters = study.once(rule_clusters)
    if clusters:
        widest = max(clusters, key=lambda one: one.scheme.n).k
        figures.quadrature(study, k=widest, ax=axes)
        return f"The neurons of frequency {widest} as rectangles under the curve they integrate"
    figures.shared_function(study, ax=axes)
    return "Neurons of one frequency at their phases, and the function that they share"


def _draw_attention(reading: "SequenceExplanation", axes: "Axes") -> None:
    """Return the least attention of head 0 on each letter's positions.

    It has one row per step; constants are the last column.
    """
    import numpy as np

    steps = reading.steps
    least = np.zeros((len(steps), len(steps) + 1))
    for row, step in enumerate(steps):
        for share in step.shares[0]:
            letter = re.match(r"(?:[xyz]|position )(\d+)", share.names)
            least[row, int(letter[1]) if letter else -1] = share.low
    axes.imshow(least, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.grid(visible=False)
    axes.set(xlabel="letter (last: constant tokens)", ylabel="step")


def save_thumbnail(study: "Study", path: Path) -> str:
    """The picture as a small PNG, without title and legend; returns its text."""
    import io

    from matplotlib.figure import Figure
    from PIL import Image

    from quadlens.show.figures.style import style

    with style():
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.subplots()
        said = draw(study, axes)
        axes.set_title("", loc="left")
        legend = axes.get_legend()
        if legend is not None:
            legend.remove()
        axes.tick_params(labelsize=8)
        stream = io.BytesIO()
        figure.savefig(stream, format="png", dpi=PIXELS)
    stream.seek(0)
    Image.open(stream).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(
        path, optimize=True
    )
    return said


def count(n: int) -> str:
    """Write a number of inputs; a long one by a power, rounded down.

    An exact power stands as such, any other number by three digits.
    """
    for base in (10, 11):
        power = next((k for k in range(9, 40) if base**k == n), None)
        if power is not None:
            return f"{base}{str(power).translate(SUPERSCRIPTS)}"
    power = len(str(n)) - 1
    return (
        f"{n:,}"
        if power < LONG
        else f"{n // 10 ** (power - 2) / 100:.2f}·10{str(power).translate(SUPERSCRIPTS)}"
    )


def answers(card: Mapping[str, Any]) -> str:
    """How many are right: all pairs are tried, of sequences it is what is proved."""
    if card["right"] is not None:
        return f"{card['right']:,} of {card['inputs']:,}"
    least, most = card["wrong_inputs"]
    proved = (
        f"at least {count(card['certified_inputs'])} right, " if card["certified_inputs"] else ""
    )
    return "all" if most == 0 else f"{proved}at least {count(least)} wrong"


def witness(card: Mapping[str, Any]) -> str:
    """A wrong input as `x + y → z`."""
    (x, y), tokens = card["counter_example"]["input"], card["counter_example"]["answered"]
    digits = list(itertools.takewhile(lambda token: token < 10, tokens))
    return f"{x} + {y} → {sum(digit * 10**i for i, digit in enumerate(digits))}"


@functools.cache
def right_at_random() -> dict[tuple[str, str], int]:
    """Return how many random inputs each network of `experiments/adders.py` answers right."""
    with RANDOM.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        (row["repository"], row["path"]): int(row["drawn"]) - int(row["drawn_wrong"])
        for row in rows
    }


def commands(name: str, entry: Mapping[str, Any] | None) -> str:
    """What to type."""
    if entry is None:
        return f"quadlens certify {name}"
    hints = "".join(f" --{key} {entry[key]}" for key in ("task", "activation") if key in entry)
    path = Path(entry["path"])
    # A name that many runs share says little, and some readers look at the directory and at what
    # lies beside the file.
    file = (
        path.name
        if path.stem not in ("model", "final", "best")
        else f"{path.parent.name}/{path.name}"
    )
    return f"quadlens import {file}{hints} -o m.safetensors\nquadlens certify m.safetensors"


def shown(name: str, card: Mapping[str, Any], entry: Mapping[str, Any] | None) -> str:
    """One card, in Markdown."""
    own = entry or {}
    random = right_at_random().get((own.get("repository", ""), own.get("path", "")))
    whole = card["certified_inputs"] == card["inputs"]
    rows = [
        ("task", f"`{card['task']}`"),
        ("parameters", f"{own.get('parameters', card['parameters']):,}"),
        ("inputs", count(card["inputs"])),
        *([("its authors state", own["stated"])] if "stated" in own else []),
        ("right", answers(card)),
        *(
            [("right of 20,000 random inputs", f"{random:,}")]
            if card["verdict"] == "WRONG" and random is not None
            else []
        ),
        (
            "verdict",
            f"**{card['verdict']}**"
            + (f" by `{card['strategy']}`" if card["certified_inputs"] else ""),
        ),
        *(
            [(f"margin{'' if whole else ' of those'}, at least", card["margin"])]
            if card["margin"]
            else []
        ),
        *([("wrong on", witness(card))] if card["counter_example"] else []),
        ("seconds to decide", str(card["seconds"])),
    ]
    where = f"[{own['repository']}](https://github.com/{own['repository']})" if entry else "bundled"
    table = "\n".join(f"| {key} | {value} |" for key, value in rows)
    return (
        f"## {own.get('title', name)}\n\n"
        f"![{card['picture']}]({(PICTURES / name).relative_to('docs')}.png)\n\n"
        f"{card['computes'].replace('|', chr(92) + '|')}\n\n| network | {where} "
        f"|\n|---|---|\n{table}\n\n"
        f"```text\n{commands(name, entry)}\n```\n"
    )


def page(cards: Mapping[str, Mapping[str, Any]], public: Mapping[str, Mapping[str, Any]]) -> str:
    """Every card, fewest inputs first; of as many inputs, the smaller network first."""

    def place(name: str) -> tuple[int, int, str]:
        return (
            cards[name]["inputs"],
            public.get(name, {}).get("parameters", cards[name]["parameters"]),
            name,
        )

    return "\n".join(
        shown(name, cards[name], public.get(name)) for name in sorted(cards, key=place)
    )


def measure(directories: Sequence[Path], only: str | None) -> dict[str, dict[str, Any]]:
    """The facts of every network at hand, and of the others what was known of them."""
    import quadlens
    from quadlens.network.bundled import bundled_names
    from quadlens.readers import Hints, import_file

    public = tomllib.loads(PUBLIC.read_text(encoding="utf-8"))
    known = json.loads(FACTS.read_text(encoding="utf-8")) if FACTS.exists() else {}
    files: dict[str, Path | None] = {
        **dict.fromkeys(bundled_names()),
        **found_below(directories, public),
    }
    cards = {name: card for name, card in known.items() if name in public or name in files}
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, path in files.items():
        if only not in (None, name):
            continue
        hints = Hints(
            activation=public.get(name, {}).get("activation"), task=public.get(name, {}).get("task")
        )
        study = quadlens.study(name if path is None else import_file(path, hints=hints))
        cards[name] = facts(study) | {"picture": save_thumbnail(study, PICTURES / f"{name}.png")}
        print(f"{name}: {cards[name]['verdict']}, {cards[name]['seconds']} s", flush=True)
        FACTS.write_text(
            json.dumps(cards, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    return cards


def main() -> None:
    """Measure and write the page, or print its cards."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directories", type=Path, nargs="*")
    parser.add_argument("--only", help="one network by name")
    parser.add_argument("--page", action="store_true", help="print the cards as they are known")
    given = parser.parse_args()
    public = tomllib.loads(PUBLIC.read_text(encoding="utf-8"))
    if given.page:
        print(page(json.loads(FACTS.read_text(encoding="utf-8")), public))
        return
    cards = measure(given.directories, given.only)
    start, end = "<!-- output of: tools/gallery.py --page -->", "<!-- end of output -->"
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(start)
    text = f"{before}{start}\n\n{page(cards, public).strip()}\n\n{end}{rest.partition(end)[2]}"
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
