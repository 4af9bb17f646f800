"""The directive ``{attention}``, which embeds a picture of the viewer in a page."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from page_code import picture_name

WORDS = {"en": "Open alone", "zh": "单独打开"}


class Attention(SphinxDirective):
    """Show the picture that ``build.py`` made of the block. The argument is its caption.

    ``:height:`` is the height in pixels, and ``:state:`` the state of the viewer as in its address, as
    ``view=heat&head=2``.
    """

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar = {"height": directives.nonnegative_int, "state": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        docname = self.env.docname
        number = self.env.temp_data["live_pictures"] = self.env.temp_data.get("live_pictures", 0) + 1
        language = self.config.language[:2]
        name = picture_name(docname, number, language)
        pictures = Path(self.env.app.outdir).parent / "pictures"
        if not (pictures / name).is_file():
            raise self.error(f"{pictures / name} is missing: build the site with  make docs")
        address = "../" * (docname.count("/") + 1) + "pictures/" + name
        state = f"#{self.options['state']}" if "state" in self.options else ""
        caption = self.arguments[0] if self.arguments else ""
        html = (
            f'<figure class="live"><iframe src="{escape(address + state)}" data-src="{escape(address + state)}" '
            f'title="{escape(caption)}" height="{self.options.get("height", 600)}" loading="lazy"></iframe>'
            f'<figcaption>{escape(caption)} <a class="whole" href="{escape(address + state)}">'
            f"{WORDS[language]} ↗</a></figcaption></figure>"
        )
        return [nodes.raw("", html, format="html")]


def setup(app: Any) -> dict[str, bool]:
    """Register the directive with Sphinx. It replaces the box of this name that docutils has."""
    app.add_directive("attention", Attention, override=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
