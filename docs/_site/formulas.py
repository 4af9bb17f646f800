"""Formulas as MathML, which browsers draw without a program from elsewhere."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

import latex2mathml.converter
import ziamath.fonts
from docutils import nodes

# The converter writes a command that it does not know as the name of a variable.
UNKNOWN = re.compile(r"<mi>(\\\w+|&)</mi>")


def math_font() -> Path:
    """Return the file of the font STIX Two Math, which comes with the package ziamath."""
    return Path(ziamath.fonts.__file__).parent / "STIXTwoMath-Regular.ttf"


def mathml(formula: str, *, block: bool) -> str:
    """Return a formula of LaTeX as a MathML element, with its source as the label for screen readers."""
    # The converter knows align* and not aligned, which GitHub knows.
    source = formula.strip().replace("{aligned}", "{align*}")
    element = latex2mathml.converter.convert(source, display="block" if block else "inline")
    if unknown := UNKNOWN.search(element):
        raise ValueError(f"{unknown[1]} cannot be drawn: {formula}")
    return element.replace("<math ", f'<math aria-label="{escape(formula.strip())}" ', 1)


def visit_inline(self: Any, node: nodes.math) -> None:
    """Write a formula inside a line."""
    self.body.append(mathml(node.astext(), block=False))
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.math_block) -> None:
    """Write a formula that stands alone."""
    self.body.append(f'<div class="formula">{mathml(node.astext(), block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer with Sphinx."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.connect("config-inited", lambda app, config: setattr(config, "html_math_renderer", "mathml"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
