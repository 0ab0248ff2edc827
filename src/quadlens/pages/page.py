"""One HTML file with everything inside: no script, no font, no picture from anywhere else."""

import base64
import io
from importlib.resources import files
from urllib.parse import quote

from quadlens import __version__
from quadlens.figures.style import PNG_PIXELS
from quadlens.pages.render import Rendered
from quadlens.pages.story import lead, story, summary_facts, warnings
from quadlens.studies import Results

# A vector picture larger than this is put on the page as pixels; the vector file is beside the page anyway.
LARGEST_SVG = 72_000
COLOURS = 128
PAGE_PIXELS = 100
# Characters that may stand in a data address inside double quotes; the others are percent-encoded.
PLAIN = " !$&'()*+,-./:;=?@[]^_`{|}~"


def data_address(rendered: Rendered) -> str:
    """The picture as an address that holds the picture itself."""
    svg = rendered.content("svg")
    if len(svg) <= LARGEST_SVG:
        text = svg[svg.index(b"<svg") :].decode().replace('"', "'").replace("\n", " ")
        return "data:image/svg+xml," + quote(text, safe=PLAIN.replace("&", ""))
    return "data:image/png;base64," + base64.b64encode(_few_colours(rendered.content("png"))).decode()


def _few_colours(png: bytes) -> bytes:
    """The same pixels in 128 colours: a third of the size, and no eye sees it in a drawing."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as image:
        reduced = image.convert("RGB").quantize(COLOURS, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    stream = io.BytesIO()
    reduced.save(stream, "PNG", optimize=True)
    return stream.getvalue()


def size_of(rendered: Rendered) -> tuple[int, int]:
    """Width and height on the page, from the PNG's header (bytes 16 to 24): a hundred CSS pixels an inch."""
    header, scale = rendered.content("png")[16:24], PAGE_PIXELS / PNG_PIXELS
    return round(int.from_bytes(header[:4], "big") * scale), round(int.from_bytes(header[4:], "big") * scale)


def page_html(results: Results, rendered: dict[str, Rendered], explorer: str | None = None) -> str:
    """The page; `explorer` is the address of the interactive one, where there is one beside it."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("quadlens.pages", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["thousands"] = lambda value: f"{value:,}"
    return environment.get_template("page.html.j2").render(
        results=results,
        explorer=explorer,
        sections=story(results),
        facts=summary_facts(results),
        warnings=warnings(results),
        lead=lead(results),
        summary=results.explanation.summary(),
        addresses={name: data_address(one) for name, one in rendered.items()},
        sizes={name: size_of(one) for name, one in rendered.items()},
        style=(files("quadlens.pages") / "page.css").read_text(encoding="utf-8"),
        version=__version__,
    )
