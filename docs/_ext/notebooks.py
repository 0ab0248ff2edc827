"""Every tutorial as a notebook to download: the page's own cells, read as MyST-NB reads them, without outputs."""

import re
from pathlib import Path
from typing import Any

import nbformat
from myst_nb.core.read import read_myst_markdown_notebook

FOLDER = "tutorials/"
LINK = re.compile(r"(?<!!)\[([^]]+)\]\((?!https?:)([^)#\s]+)[^)\s]*\)")


def notebook_of(page: str) -> nbformat.NotebookNode:
    """The notebook of a tutorial's Markdown; links lead to the other notebooks, and those to other pages are words."""
    notebook = read_myst_markdown_notebook(page)
    notebook.metadata.pop("jupytext", None)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"  # otherwise drawn at random: the same page gives the same file
        if cell.cell_type == "markdown":
            cell["source"] = LINK.sub(_as_in_a_notebook, cell["source"])
    return notebook


def _as_in_a_notebook(link: re.Match[str]) -> str:
    words, target = link[1], link[2]
    return f"[{words}]({target.removesuffix('.md')}.ipynb)" if re.fullmatch(r"\w+\.md", target) else words


def _link_to_it(app: Any, name: str, source: list[str]) -> None:
    if name.startswith(FOLDER):
        words = (
            f'<p class="notebook"><a href="{Path(name).name}.ipynb" download>This page as a notebook</a> (.ipynb)</p>'
        )
        source[0] = re.sub(r"^# .*$", lambda title: f"{title[0]}\n\n{words}", source[0], count=1, flags=re.M)


def _write(app: Any, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    for name in sorted(app.env.found_docs):
        if name.startswith(FOLDER):
            notebook = notebook_of(Path(app.env.doc2path(name)).read_text(encoding="utf-8"))
            nbformat.write(notebook, Path(app.outdir) / f"{name}.ipynb")


def setup(app: Any) -> dict[str, bool]:
    """A link under each tutorial's title, and the files once the pages are built."""
    app.connect("source-read", _link_to_it)
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
