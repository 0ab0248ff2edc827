"""One HTML file with everything inside: no script, no font, no picture from anywhere else."""

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from quadlens import __version__
from quadlens.figures.neurons import ACTIVATION_WORDS
from quadlens.figures.registry import FIGURES, pictures_by_family
from quadlens.figures.style import PNG_PIXELS
from quadlens.glossary import typeset
from quadlens.integration import CLEAR_RELATION, NO_INTEGRAL, alone, doubles
from quadlens.pages.render import Rendered
from quadlens.pages.tables import page_tables
from quadlens.published import MODELS, MODELS_IN_FIGURES
from quadlens.studies import MAX_FREQUENCIES, Study
from quadlens.templates import environment

if TYPE_CHECKING:
    from jinja2 import Template

PAGE_PIXELS = 100


def size_of(rendered: Rendered) -> tuple[int, int]:
    """Width and height on the page, from the PNG's header (bytes 16 to 24): a hundred CSS pixels per inch."""
    header, scale = rendered.content("png")[16:24], PAGE_PIXELS / PNG_PIXELS
    return round(int.from_bytes(header[:4], "big") * scale), round(int.from_bytes(header[4:], "big") * scale)


@cache
def template(name: str) -> "Template":
    """A page's template of this folder, compiled once; all of them know the style and the version."""
    from jinja2 import PackageLoader
    from markupsafe import Markup

    pages = environment(loader=PackageLoader("quadlens.pages", "."), autoescape=True)
    pages.globals["style"] = Markup((files("quadlens.pages") / "page.css").read_text(encoding="utf-8"))
    pages.globals["version"] = __version__
    pages.filters["thousands"] = lambda value: f"{value:,}"
    pages.filters["math"] = lambda latex: Markup(typeset().formulas[latex])
    pages.filters["formula"] = lambda latex: Markup(typeset().formulas[latex].replace("inline", "block", 1))
    return pages.get_template(name)


def page_html(study: Study, rendered: dict[str, Rendered], explorer: str | None = None) -> str:
    """The page; `explorer` is the address of the interactive one, where there is one beside it."""
    pictures, tables = pictures_by_family(study), page_tables(study)
    first = study.clusters[0].k if study.clusters else None
    return template("page.html.j2").render(
        study=study,
        activation=ACTIVATION_WORDS.get(study.config.activation, study.config.activation),
        certificate=study.certificate,
        rules=study.rules,
        integration=study.integration,
        clear_relation=CLEAR_RELATION,
        alone=alone,
        doubles=doubles,
        says_nothing=NO_INTEGRAL,
        adds_by=study.config.adds_by,
        strongest=study.strongest_keys,
        most=MAX_FREQUENCIES,
        angle_r2=next((phases.r2 for phases in study.explanation.phases if phases.k == first), None) if first else None,
        pictures=pictures,
        paper_pictures=[picture for family in FIGURES if family.in_paper for picture in pictures[family.name]],
        bound_tables=[table for table in tables if not table.name.endswith("-facts")],
        tables={table.name: table for table in tables},
        paper_models=MODELS,
        paper_models_in_figures=MODELS_IN_FIGURES,
        explorer=explorer,
        addresses={name: picture.address for name, picture in rendered.items()},
        sizes={name: size_of(picture) for name, picture in rendered.items()},
        glossary=typeset().entries,
    )
