"""The page of a network on sequences: what each step reads, the algorithm as a picture, what is proved."""

import csv
import io
import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from quadlens import __version__
from quadlens.figures.registry import all_pictures
from quadlens.numbers import at_most
from quadlens.pages.directory import replaced_directory
from quadlens.pages.manifest import write_manifest
from quadlens.pages.page import size_of
from quadlens.pages.render import rendered_picture, write_rendered
from quadlens.sequences.certificate import SequenceCertificate, certify_sequence
from quadlens.sequences.explain import Axis
from quadlens.studies import Study
from quadlens.templates import environment


def sequence_page(
    study: Study, output: Path, command: str, proofs: bool, progress: Callable[[str], None]
) -> tuple[str, tuple[str, ...], str | None]:
    """Write the report of a network on sequences; returns the page, all files and what the proof says."""
    from jinja2 import PackageLoader

    config: Any = study.model.config
    progress("what each step reads")
    explanation = study.explain()
    axis, pictures = explanation.axis, all_pictures(study)
    certificate = certify_sequence(study.model, study.sha256, progress) if proofs else None
    facts = [
        ("task", config.task.name),
        ("weights", f"{sum(array.size for array in study.model.tensors.values()):,}"),
        *((name, getattr(config, name)) for name in ("d_model", "n_heads", "d_head", "d_value", "d_mlp")),
    ]
    with replaced_directory(output) as fresh:
        (fresh / "data").mkdir()
        (fresh / "data" / "explanation.json").write_text(json.dumps(explanation.to_dict(), indent=1), encoding="utf-8")
        progress("the picture")
        drawn = {one.name: rendered_picture(one) for one in pictures}
        write_rendered(drawn, fresh)
        if axis is not None:
            (fresh / "data" / "axis.csv").write_text(_axis_csv(axis), encoding="utf-8")
        template = environment(loader=PackageLoader("quadlens.pages", "."), autoescape=True)
        page = template.get_template("sequence.html.j2").render(
            study=study,
            task=config.task,
            sentences=explanation.sentences(),
            facts=facts,
            pictures=[(one, drawn[one.name].address, size_of(drawn[one.name])) for one in pictures],
            certificate=certificate,
            more=[] if certificate is None else _beside_the_statement(certificate),
            style=(files("quadlens.pages") / "page.css").read_text(encoding="utf-8"),
            version=__version__,
        )
        (fresh / "index.html").write_text(page, encoding="utf-8")
        manifest = write_manifest(fresh, study, command)
    return page, tuple(manifest["files"]), None if certificate is None else certificate.verdict


def _beside_the_statement(certificate: SequenceCertificate) -> list[str]:
    """The worst input that was found, beside what is proved."""
    told = " and ".join(f"{part:,}" for part in certificate.told(certificate.worst.word))
    example = certificate.counter_example
    if example is not None:
        return [f"The verdict is WRONG: on {told} it answers the tokens {example['answered']}."]
    return [
        f"The verdict is {certificate.verdict}. The smallest margin that was found is "
        f"{at_most(certificate.worst_margin[1], 6)}, at step {certificate.worst.step} of the input {told}."
    ]


def _axis_csv(axis: Axis) -> str:
    """One row per own digit and value of x + y + carry that there is."""
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(("own", "value", "low", "high"))
    for row, own in enumerate(axis.own):
        there = (value for value in range(axis.low.shape[1]) if axis.low[row, value] <= axis.high[row, value])
        rows.writerows((own, value, float(axis.low[row, value]), float(axis.high[row, value])) for value in there)
    return out.getvalue()
