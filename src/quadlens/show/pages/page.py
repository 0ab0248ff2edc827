"""One HTML file with everything inside: no script, no font, no picture from anywhere else."""

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from quadlens.analysis.explanation.of_study import explanation_of, outline_of, strongest_keys_of
from quadlens.analysis.infinite_width.of_study import integration_of, lens_if_any, no_lens
from quadlens.analysis.integration import CLEAR_RELATION, NO_INTEGRAL, alone, doubles
from quadlens.analysis.published import MODELS, MODELS_IN_FIGURES, read_population
from quadlens.analysis.quadrature.of_study import bounds_if_any, rule_clusters, worst_errors
from quadlens.analysis.spectrum.of_study import MAX_FREQUENCIES, evaluation_of, keys_of, no_waves
from quadlens.base.version import VERSION
from quadlens.network.bundled import is_bundled_file
from quadlens.network.study import Study
from quadlens.proofs.pairs.of_study import (
    certificate_of,
    certificates_of,
    no_proofs,
    proofs_of,
    with_proofs,
)
from quadlens.show.figures.neurons import ACTIVATION_WORDS
from quadlens.show.figures.registry import FIGURES, pictures_by_family
from quadlens.show.figures.style import PNG_PIXELS
from quadlens.show.glossary import typeset
from quadlens.show.pages.render import Rendered
from quadlens.show.pages.tables import page_tables
from quadlens.show.templates import environment

if TYPE_CHECKING:
    from jinja2 import Template

PAGE_PIXELS = 100


def size_of(rendered: Rendered) -> tuple[int, int]:
    """Return width and height on the page, from the PNG's header.

    They are bytes 16 to 24; an inch is a hundred CSS pixels.
    """
    header, scale = rendered.content("png")[16:24], PAGE_PIXELS / PNG_PIXELS
    return round(int.from_bytes(header[:4], "big") * scale), round(
        int.from_bytes(header[4:], "big") * scale
    )


@cache
def template(name: str) -> "Template":
    """Return a page's template of this folder, compiled once.

    All templates know the style and the version.
    """
    from jinja2 import PackageLoader
    from markupsafe import Markup

    pages = environment(loader=PackageLoader(__package__, "."), autoescape=True)
    pages.globals["style"] = Markup((files(__package__) / "page.css").read_text(encoding="utf-8"))
    pages.globals["version"] = VERSION
    pages.filters["thousands"] = lambda value: f"{value:,}"
    pages.filters["math"] = lambda latex: Markup(typeset().formulas[latex])
    pages.filters["formula"] = lambda latex: Markup(
        typeset().formulas[latex].replace("inline", "block", 1)
    )
    return pages.get_template(name)


def page_html(study: Study, rendered: dict[str, Rendered], explorer: str | None = None) -> str:
    """The page; `explorer` is the address of the interactive one, where there is one beside it."""
    pictures, tables = pictures_by_family(study), page_tables(study)
    clusters, keys, explanation = (
        study.once(rule_clusters),
        study.once(keys_of),
        study.once(explanation_of),
    )
    first = clusters[0].k if clusters else None
    return template("page.html.j2").render(
        study=study,
        activation=ACTIVATION_WORDS.get(study.config.activation, study.config.activation),
        certificate=study.once(certificate_of),
        rules=study.once(worst_errors),
        integration=study.once(integration_of),
        clear_relation=CLEAR_RELATION,
        alone=alone,
        doubles=doubles,
        says_nothing=NO_INTEGRAL,
        adds_by=study.config.adds_by,
        strongest=study.once(strongest_keys_of),
        most=MAX_FREQUENCIES,
        angle_r2=next((phases.r2 for phases in explanation.phases if phases.k == first), None)
        if first
        else None,
        answers=study.once(evaluation_of),
        keys=keys,
        clusters=clusters,
        explanation=explanation,
        outline=study.once(outline_of),
        bounds=study.once(bounds_if_any),
        lens=study.once(lens_if_any),
        no_waves=study.once(no_waves),
        no_lens=study.once(no_lens),
        no_proofs=study.once(no_proofs),
        with_proofs=study.once(with_proofs),
        proofs=study.once(proofs_of) if study.once(certificates_of) else (),
        certificates=study.once(certificates_of),
        population_models=read_population().models,
        is_bundled=is_bundled_file(study.name, study.file),
        pictures=pictures,
        paper_pictures=[
            picture for family in FIGURES if family.in_paper for picture in pictures[family.name]
        ],
        bound_tables=[table for table in tables if not table.name.endswith("-facts")],
        tables={table.name: table for table in tables},
        paper_models=MODELS,
        paper_models_in_figures=MODELS_IN_FIGURES,
        explorer=explorer,
        addresses={name: picture.address for name, picture in rendered.items()},
        sizes={name: size_of(picture) for name, picture in rendered.items()},
        glossary=typeset().entries,
    )
