"""Links between the two languages, and to files that are not pages of the site."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes

OTHER = {"en": ("zh", "中文"), "zh": ("en", "English")}
CODES = {"en": "en", "zh": "zh-CN"}


def short(language: str) -> str:
    """Return ``zh`` for ``zh_CN``."""
    return language[:2]


def to_other_language(app: Any, doctree: nodes.document) -> None:
    """Make links to the sources of the other language links to its pages.

    The site has the folders of the sources, so a relative link keeps its form.
    """
    other, _ = OTHER[short(app.config.language)]
    tree = Path(app.srcdir).parent / other
    here = Path(app.env.doc2path(app.env.docname)).parent
    for node in list(doctree.findall(addnodes.pending_xref)):
        target = Path("/", node["reftarget"])
        if node.get("refdomain") == "doc" and tree in target.parents:
            anchor = f"#{node['reftargetid']}" if node.get("reftargetid") else ""
            address = f"{os.path.relpath(target, here)}.html{anchor}"
            node.replace_self(nodes.reference("", "", *node.children, refuri=address, internal=True))


def without_switch(app: Any, doctree: nodes.document) -> None:
    """Remove the link to the other language below the title, which the bar above the page has."""
    _, name = OTHER[short(app.config.language)]
    for paragraph in list(doctree.findall(nodes.paragraph)):
        if paragraph.astext().strip() == name:
            paragraph.parent.remove(paragraph)


PUNCTUATION = r"\u3000-\u303f\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65“”‘’…"
JOINED = re.compile(rf"[\u3400-\u9fff{PUNCTUATION}]{{2}}|[{PUNCTUATION}].|.[{PUNCTUATION}]", re.DOTALL)


def join_chinese_lines(app: Any, doctree: nodes.document) -> None:
    """Remove line breaks between Chinese characters and at their punctuation, which a browser shows as spaces."""
    if short(app.config.language) != "zh":
        return
    # There is an empty text before bold text at the start of a line.
    texts = [text for text in doctree.findall(nodes.Text) if str(text)]
    for before, text, after in zip(texts, texts[1:], texts[2:], strict=False):
        if str(text) == "\n" and JOINED.fullmatch(str(before)[-1:] + str(after)[:1]):
            # Equal texts are equal to one another, so the place is found by identity.
            siblings = text.parent.children
            text.parent[next(i for i, node in enumerate(siblings) if node is text)] = nodes.Text("")


def add_context(app: Any, pagename: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Tell the templates the address of the page in the other language."""
    other, name = OTHER[short(app.config.language)]
    there = Path(app.srcdir).parent / other / f"{pagename}.md"
    target = pagename if there.is_file() else "index"
    up = "../" * (pagename.count("/") + 1)
    context["other_language_page"] = f"{up}{other}/{target}.html"
    context["other_language_code"] = CODES[other]
    context["other_language_name"] = name


def setup(app: Any) -> dict[str, bool]:
    """Register the changes of links with Sphinx."""
    app.connect("doctree-read", to_other_language)
    app.connect("doctree-read", without_switch)
    app.connect("doctree-read", join_chinese_lines)
    app.connect("html-page-context", add_context)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
