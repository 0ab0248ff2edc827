#!/usr/bin/env python3
"""Make the tables of docs/lens-models.md: the lens on many models.

They are the bundled models and every checkpoint of some directories.

    python tools/lens_tables.py DIR … [--rows FILE] [--activation relu] [--skip REGEX] [--write
        docs/lens-models.md] [--picture docs/pictures/lens-products.png] [--sweep DIR]

Each DIR is searched for checkpoints; files that are refused, or whose task has no cyclic
relabelling, are left out, with the reason on stderr. With --rows FILE results are kept there, one
JSON object per line, and files that it has already are not read again. With --write the tables
replace those between `<!-- table: NAME -->` and `<!-- end of table -->`.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quadlens.analysis.infinite_width.of_study import no_lens
from quadlens.base.errors import QuadlensError
from quadlens.base.table import Table
from quadlens.network.bundled import bundled_names, bundled_on_pairs
from quadlens.network.study import Study, study_of
from quadlens.readers import Hints, import_file
from quadlens.readers.registry import checkpoints_in
from quadlens.show.figures.style import FREQUENCY_COLOURS, style, write_figures
from quadlens.training.population.analysis import attention_measures
from quadlens.training.population.store import Store

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from lens_swap import swap_activations

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Single epochs of a run, and groups that no renaming makes cyclic: reading them only to leave them
# out takes minutes.
SKIPPED = r"/(epoch_)?\d+\.pth?$|/[SAD]\d+_"
# Models whose activation is replaced: a table of all would be too wide to read.
SWAPPED = (
    r"q9rsl94xlv|ReLU_random_scale_0.1_decay_0_08142058|^(pizza|original|mismatched|clock|times)$"
)
ZHONG = ("gradient_symmetricity", "distance_irrelevance")
# Whose files have such names.
OWNERS = {
    "model_": "Zhong",
    r"C\d+_(T|MLP)_": "Chughtai",
    r"p_\d+_dmlp_": "He",
    r".*mod_addition": "Nanda",
}
# What the name of a model of our own sweep starts with.
SWEPT = "sweep/"
BLOCK = re.compile(r"<!-- table: (\S+) -->\n.*?<!-- end of table -->", re.DOTALL)
KINDS = {
    "constant": "constant attention",
    "softmax": "softmax attention",
    "mixture": "mixture of both",
    "none": "two-layer MLP",
}


@dataclass(frozen=True)
class Measured:
    """One model in the scatter of the lens against the measures of Zhong et al.

    Attributes:
        kind: What models of one colour have in common.
        product_share: Share of product waves in what its neurons read.
        gradient_symmetricity: Their measure.
        distance_irrelevance: Their measure.
    """

    kind: str
    product_share: float
    gradient_symmetricity: float
    distance_irrelevance: float


def draw_measured(models: Sequence[Measured]) -> "Figure":
    """Draw the share of product waves against two published measures.

    They are gradient symmetricity and distance irrelevance; a dot is a model.
    """
    from matplotlib.figure import Figure
    from scipy.stats import spearmanr

    with style():
        figure = Figure(figsize=(8.6, 3.8))
        panels = figure.subplots(1, 2)
        names = (
            ("gradient_symmetricity", "gradient symmetricity"),
            ("distance_irrelevance", "distance irrelevance"),
        )
        for axis, (name, label) in zip(panels, names, strict=True):
            for at, kind in enumerate(dict.fromkeys(one.kind for one in models)):
                these = [one for one in models if one.kind == kind]
                x, y = (
                    [100 * one.product_share for one in these],
                    [getattr(one, name) for one in these],
                )
                axis.plot(
                    x,
                    y,
                    "os^Dvp"[at % 6],
                    color=FREQUENCY_COLOURS[at % 8],
                    ms=5.5,
                    alpha=0.8,
                    label=kind,
                )
            axis.set(
                xlabel="product waves in what neurons read, %", ylabel=label, ylim=(None, 1.03)
            )
            # Shares that are nothing but rounding are equal.
            shares = np.round([one.product_share for one in models], 9)
            ranked = spearmanr(shares, [getattr(one, name) for one in models]).statistic
            axis.set_title(f"{len(models)} models, rank correlation {ranked:.2f}", loc="left")
        panels[1].legend(fontsize=8, loc="lower right")
        return figure


@dataclass(frozen=True)
class Row:
    """One model.

    Attributes:
        path: Below its directory, or the name of a bundled model.
        attention: constant, softmax, mixture, or none for a two-layer MLP.
        layers: How many.
        inputs: How many there are.
        right: How many are answered right.
        measures: Those of Zhong et al. and the share of product waves, of a transformer.
        lens: What `quadlens lens --json` prints, without the strengths.
        swaps: With each other activation the accuracy that the integral predicts, and the
            network's.
    """

    path: str
    attention: str
    layers: int
    inputs: int
    right: int
    measures: dict[str, float | None] | None
    lens: dict[str, Any]
    swaps: dict[str, tuple[float, float]]

    @property
    def name(self) -> str:
        """Whose it is, and its file, short enough for a table."""
        owner = next(
            (f"{name} " for start, name in OWNERS.items() if re.match(start, self.path)), ""
        )
        shorter = re.sub(
            r"^model_|/(model|final)\.pth?$|(/\d+)?\.(pth?|safetensors)$|_dmlp_\d+", "", self.path
        )
        return owner + re.sub(r"(_random)?_scale_|_decay_", " ", shorter)

    @property
    def epoch(self) -> int | None:
        """Which moment of a run the file is, if its name is a number."""
        found = re.search(r"/(\d+)\.(pth?|safetensors)$", self.path)
        return None if found is None else int(found[1])

    @property
    def kind(self) -> str:
        """What the model's attention is, and how many layers it has if more than one."""
        kind = KINDS[self.attention]
        return (
            kind if self.layers == 1 else f"{kind.removeprefix('two-layer ')}, {self.layers} layers"
        )

    @property
    def accurate(self) -> bool:
        """Whether every input is answered right."""
        return self.right == self.inputs

    @property
    def r2(self) -> dict[str, float]:
        """R² of all logits."""
        return dict(self.lens["r2"])


def row_of(study: Study, name: str) -> Row:
    """The lens of one model."""
    document = study.lens.to_dict()
    for cluster in document["clusters"]:
        del cluster["strength"]
    layer, config = study.anatomy.layer, study.config
    swaps = swap_activations(layer) if re.search(SWAPPED, name) else ()
    return Row(
        name,
        getattr(config, "attention_kind", "none"),
        getattr(config, "depth", 1),
        study.evaluation.pairs,
        study.evaluation.correct,
        attention_measures(study)
        if study.once(no_lens) is None and getattr(config, "depth", 1) == 1
        else None,
        document,
        {one.function: (one.predicted, one.accuracy) for one in swaps},
    )


def found(rows: Sequence[Row]) -> Table:
    """One line per model, every claim with its control."""

    def said(row: Row, *names: str) -> str:
        """Two controls side by side."""
        return " / ".join(
            "–" if row.lens["controls"][x] is None else f"{row.lens['controls'][x]:.2f}"
            for x in names
        )

    lines = [
        [
            row.name + ("" if row.accurate else f", {row.inputs - row.right:,} wrong"),
            row.kind,
            {True: "yes", False: "no", None: "–"}[row.lens["integrates"]],
            f"{row.r2['shared']:.3f} / {row.lens['controls']['shared_permuted']:.1f}",
            f"{row.lens['answers_right']:.3f}",
            f"{row.lens['numbers']:,} / {row.lens['weights']:,}",
            said(row, "resampled_even", "resampled_half"),
            said(row, "residual", "residual_permuted"),
            said(row, "residual_correlation"),
            said(row, "spacing", "spacing_permuted"),
            f"{row.r2['symmetric_part']:.3f} of {row.r2['ceiling']:.3f}",
            "; ".join("→".join(map(str, one)) for one in row.lens["chains"][:3]) or "–",
        ]
        for row in sorted(rows, key=lambda row: (not row.accurate, row.kind, -row.r2["shared"]))
    ]
    header = (
        "model",
        "kind",
        "integrates",
        "shared / permuted",
        "right",
        "numbers / weights",
        "even / half",
    )
    header += (
        "residual R² / permuted",
        "its correlation",
        "spacing / permuted 95 %",
        "symmetric part of ceiling",
    )
    return Table("What it finds", (*header, "chains"), lines)


def swapped(rows: Sequence[Row]) -> Table:
    """Return predicted and measured accuracy with other activations.

    They are in bold where they differ by 0.1 or more.
    """
    chosen = [row for row in rows if row.swaps]
    lines = []
    for function in chosen[0].swaps if chosen else ():
        pairs = [row.swaps[function] for row in chosen]
        texts = [
            (f"{predicted:.3f} / {accuracy:.3f}", abs(predicted - accuracy) >= 0.1)
            for predicted, accuracy in pairs
        ]
        lines.append([function, *(f"**{text}**" if apart else text for text, apart in texts)])
    return Table("Another activation after training", ("σ", *(row.name for row in chosen)), lines)


def measured(rows: Sequence[Row]) -> Table:
    """Return the lens beside the measures of Zhong et al., fewest products first.

    Models are accurate transformers.
    """
    lines = [
        [
            row.name,
            row.kind,
            f"{100 * one['product_share']:.1f} %",
            f"{min(cluster['dip'] for cluster in row.lens['clusters']):.2f} … "
            f"{max(cluster['dip'] for cluster in row.lens['clusters']):.2f}",
            f"{one['gradient_symmetricity']:.3f}",
            f"{one['distance_irrelevance']:.3f}",
        ]
        for row, one in sorted(_with_measures(rows), key=lambda pair: pair[1]["product_share"])
    ]
    header = (
        "model",
        "kind",
        "product waves",
        "dip",
        "gradient symmetricity",
        "distance irrelevance",
    )
    return Table("Beside the measures of Zhong et al.", header, lines)


def delta(rows: Sequence[Row]) -> Table:
    """Clusters of accurate two-layer MLPs: what δ alone says of the strength, and the strength."""
    clusters = [
        cluster
        for row in rows
        if row.accurate and row.attention == "none"
        for cluster in row.lens["clusters"]
    ]
    lines = []
    for kind in dict.fromkeys(cluster["kind"] for cluster in clusters):
        dips = [cluster["dip"] for cluster in clusters if cluster["kind"] == kind]
        lines.append([kind, str(len(dips)), f"{min(dips):.2f}", f"{max(dips):.2f}"])
    return Table("δ", ("δ says", "clusters", "smallest dip", "largest dip"), lines)


def _with_measures(rows: Sequence[Row]) -> list[tuple[Row, dict[str, float]]]:
    """Accurate transformers with all that the scatter needs."""
    pairs = [
        (row, {key: x for key, x in (row.measures or {}).items() if x is not None})
        for row in rows
        if row.accurate
    ]
    return [(row, one) for row, one in pairs if {"product_share", *ZHONG} <= set(one)]


TABLES: dict[str, Callable[[Sequence[Row]], Table]] = {
    "found": found,
    "swapped": swapped,
    "measured": measured,
    "delta": delta,
}


def rows_of_sweep(directory: Path, known: dict[str, Row]) -> Iterable[Row]:
    """Every finished model of a sweep of attention rates that is not known yet."""
    store = Store(directory)
    configs = [store.finished(run_id).read_manifest().config for run_id in store.run_ids()]
    for one in sorted(configs, key=lambda one: (one.initial_rule, one.attention_rate, one.seed)):
        name = f"{SWEPT}{one.initial_rule}, {one.attention_rate:g}, {one.seed}"
        if name not in known:
            model = store.finished(one.run_id()).path / "model.safetensors"
            yield row_of(study_of(model), name)


def rows_of(
    directories: Iterable[Path], known: dict[str, Row], skip: str, hints: Hints
) -> Iterable[Row]:
    """Every model that is not known yet."""
    for name in bundled_on_pairs():
        if name not in known:
            yield row_of(study_of(name), name)
    for directory in directories:
        for path in checkpoints_in(directory):
            name = str(path.relative_to(directory))
            if re.search(skip, str(path)) or name in known:
                continue
            try:
                yield row_of(study_of(import_file(path, hints=hints)), name)
            except QuadlensError as error:
                print(f"{name} is left out: {error}", file=sys.stderr)


def main() -> None:
    """Every model, then the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directories", type=Path, nargs="*")
    parser.add_argument("--activation", default=None)
    parser.add_argument("--skip", default=SKIPPED)
    parser.add_argument("--rows", type=Path, default=None)
    parser.add_argument("--write", type=Path, default=None)
    parser.add_argument(
        "--picture",
        type=Path,
        default=None,
        help="scatter of product waves and measures, a .png file",
    )
    parser.add_argument(
        "--sweep", type=Path, default=None, help="a sweep of attention rates, for the picture"
    )
    options = parser.parse_args()
    rows: dict[str, Row] = {}
    if options.rows is not None and options.rows.exists():
        rows = {
            row.path: row
            for row in (Row(**json.loads(text)) for text in options.rows.read_text().splitlines())
        }
    more = rows_of(options.directories, rows, options.skip, Hints(activation=options.activation))
    swept = () if options.sweep is None else rows_of_sweep(options.sweep, rows)
    for row in chain(more, swept):
        rows[row.path] = row
        if options.rows is not None:
            with options.rows.open("a") as stream:
                stream.write(json.dumps(asdict(row)) + "\n")
    ours = [row for row in rows.values() if row.path.startswith(SWEPT)]
    final = [row for row in rows.values() if row.epoch is None and row not in ours]
    tables = {name: make(final).to_markdown() for name, make in TABLES.items()}
    if options.picture is not None:
        scatter = [
            Measured(f"public, {row.kind}", one["product_share"], *(one[name] for name in ZHONG))
            for row, one in _with_measures(final)
            if row.path not in bundled_names()
        ]
        scatter += [
            Measured(
                "our sweep of attention rates", one["product_share"], *(one[name] for name in ZHONG)
            )
            for _, one in _with_measures(ours)
        ]
        write_figures(
            [(options.picture.stem, draw_measured(scatter))], options.picture.parent, ("png",)
        )
    if options.write is None:
        print("\n\n".join(f"{name}\n\n{text}" for name, text in tables.items()))
        return
    text = options.write.read_text(encoding="utf-8")
    put = BLOCK.sub(
        lambda old: f"<!-- table: {old[1]} -->\n\n{tables[old[1]]}\n\n<!-- end of table -->", text
    )
    options.write.write_text(put, encoding="utf-8")


if __name__ == "__main__":
    main()
