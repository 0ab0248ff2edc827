"""The site: `make site` builds it from these pages; nothing on it comes from a network."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src")]

import quadlens  # noqa: E402

project = "quadlens"
author = "the quadlens authors"
version = release = quadlens.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml", "notebooks"]
exclude_patterns = ["_build", "data", "_ext"]
source_suffix = {".md": "myst-nb", ".rst": "restructuredtext"}

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = "auto"
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_code_prompt_show = "Check yourself: show the {type}"
nb_code_prompt_hide = "Hide the {type}"
html_math_renderer = "mathml"

autodoc_member_order = "bysource"
autodoc_typehints = "none"
add_module_names = False
napoleon_google_docstring = True

html_theme = "furo"
html_title = "quadlens"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
default_role = "code"


def _escape_bars(app, what, name, obj, options, lines):  # noqa: ANN001, ANN202, PLR0917
    """|x| in a docstring is an absolute value, not a substitution."""
    lines[:] = [line if ">>>" in line else line.replace("|", r"\|") for line in lines]


_kept = {}


def _keep(app, what, name, obj, options, lines):  # noqa: ANN001, ANN202, PLR0917
    """A property's sentence, before napoleon, which takes what is before a colon for a type."""
    if what == "property" and not any(line.strip() in ("Raises:", "Returns:") for line in lines):
        _kept[name] = list(lines)


def _restore(app, what, name, obj, options, lines):  # noqa: ANN001, ANN202, PLR0917
    """The same sentence, after napoleon."""
    lines[:] = _kept.pop(name, lines)


def setup(app):  # noqa: ANN001, ANN201
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _keep, priority=400)
    app.connect("autodoc-process-docstring", _restore, priority=550)
    app.connect("autodoc-process-docstring", _escape_bars, priority=600)
