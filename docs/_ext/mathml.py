"""Formulas as MathML, which browsers draw themselves: no script and no font from anywhere."""

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

THIN = '<mspace width="0.167em" />'
NAME = "<mi>(?:cos|sin|tan|log|exp|arg)</mi>"


def mathml(latex: str, display: str = "inline") -> str:
    """A formula as browsers draw it: as in TeX, space around the names of functions and none at bars."""
    text = convert(latex, display=display)
    text = re.sub(rf"(</m(?:i|n|sub|sup)>)(?={NAME})", rf"\1{THIN}", text)
    text = re.sub(rf"({NAME})(?=<m(?:i|n|sub|sup)>)", rf"\1{THIN}", text)
    return text.replace(
        '<mo stretchy="false">&#x0007C;</mo>', '<mo stretchy="false" lspace="0" rspace="0">&#x0007C;</mo>'
    )


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def _display(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="formula">{mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer under the name `mathml`."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
