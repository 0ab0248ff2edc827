"""The page of a network on sequences.

It shows what each step reads, the algorithm as a picture, and what is proved.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from quadlens.base.numbers import at_most
from quadlens.network.study import Study
from quadlens.proofs.pairs.of_study import with_proofs
from quadlens.proofs.sequences.certificate import SequenceCertificate, certify_sequence
from quadlens.proofs.sequences.explain import Axis
from quadlens.proofs.sequences.steps import steps_of
from quadlens.show.figures.registry import all_pictures
from quadlens.show.pages.data_files import csv_bytes, json_bytes
from quadlens.show.pages.page import size_of, template
from quadlens.show.pages.render import figure_files, rendered_picture


def sequence_report(
    study: Study, progress: Callable[[str], None]
) -> tuple[dict[str, bytes], str | None]:
    """The files of the report of a network on sequences, and what the proof says."""
    config: Any = study.model.config
    progress("what each step reads")
    explanation = study.once(steps_of)
    axis, pictures = explanation.axis, all_pictures(study)
    certificate = (
        certify_sequence(study.model, study.sha256, progress) if study.once(with_proofs) else None
    )
    facts = [
        ("task", config.task.name),
        ("weights", f"{sum(array.size for array in study.model.tensors.values()):,}"),
        *(
            (name, getattr(config, name))
            for name in ("d_model", "n_heads", "d_head", "d_value", "d_mlp")
        ),
    ]
    progress("the picture")
    rendered = {picture.name: rendered_picture(picture) for picture in pictures}
    page = template("sequence.html.j2").render(
        study=study,
        task=config.task,
        sentences=explanation.sentences(),
        facts=facts,
        pictures=[
            (picture, rendered[picture.name].address, size_of(rendered[picture.name]))
            for picture in pictures
        ],
        certificate=certificate,
        more=[] if certificate is None else _beside_the_statement(certificate),
    )
    files = {"index.html": page.encode(), **figure_files(rendered)}
    files["data/explanation.json"] = json_bytes(explanation.to_dict())
    if axis is not None:
        files["data/axis.csv"] = _axis_csv(axis)
    return files, None if certificate is None else certificate.verdict


def _beside_the_statement(certificate: SequenceCertificate) -> list[str]:
    """The worst input that was found, beside what is proved."""
    worst_input = " and ".join(f"{part:,}" for part in certificate.told(certificate.worst.word))
    example = certificate.counter_example
    if example is not None:
        return [
            f"The verdict is WRONG: on {worst_input} it answers the tokens {example['answered']}."
        ]
    if certificate.margin_attained is None:
        right = certificate.network.task.right(
            np.array([certificate.worst.word]), certificate.worst.step
        )
        found = (
            "every token is right on the inputs that were tried"
            if right.all()
            else "margins are beyond float64"
        )
        return [f"The verdict is {certificate.verdict}: {found}."]
    return [
        f"The verdict is {certificate.verdict}. The smallest margin that was found is "
        f"{at_most(certificate.margin_attained, 6)}, at step {certificate.worst.step} of the input "
        f"{worst_input}."
    ]


def _axis_csv(axis: Axis) -> bytes:
    """One row per own digit and value of x + y + carry that there is."""
    rows = [
        (own, value, low, high)
        for own, lows, highs in zip(axis.own, axis.low.tolist(), axis.high.tolist(), strict=True)
        for value, (low, high) in enumerate(zip(lows, highs, strict=True))
        if low <= high
    ]
    return csv_bytes(("own", "value", "low", "high"), rows)
