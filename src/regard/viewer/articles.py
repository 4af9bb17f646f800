"""Text, pictures and several viewers as one self-contained HTML page."""

from __future__ import annotations

import base64
import html as entities
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import ArgumentError
from regard.files import write_atomically
from regard.maps import Record
from regard.viewer import assets
from regard.viewer.languages import PageTexts, texts_of_code
from regard.viewer.page import HEAD, as_inert_json
from regard.viewer.payload import Document, embedded

__all__ = ["Block", "Picture", "Text", "View", "article", "save_article"]

# The elements that a text may be.
_TAGS = {"title": "h1", "heading": "h2", "paragraph": "p", "note": 'p class="note"', "verbatim": "pre"}
_PAGE = (
    """<!doctype html>
<html lang="{language}">
"""
    + HEAD
    + """<body>
<article>
{body}
</article>
{data}<script type="module">{script}</script>
</body>
</html>
"""
)


@dataclass(frozen=True)
class Text:
    """A text, as a "title", a "heading", a "paragraph", a "note" or a "verbatim" text with its line breaks."""

    kind: str
    text: str


@dataclass(frozen=True)
class Picture:
    """The bytes of a PNG file, the text that describes it, and its width on the page in pixels if it is not its own."""

    png: bytes
    description: str
    width: int | None = None


@dataclass(frozen=True)
class View:
    """Records in a viewer of their own.

    ``images`` are as for :func:`regard.viewer.html`. ``height`` is in pixels.
    """

    records: Sequence[Record]
    title: str | None = None
    images: object = None
    height: int = 600


Block = Text | Picture | View


def article(title: str, blocks: Sequence[Block], *, language: str = "en") -> str:
    """Return a page of texts, pictures and viewers, which opens in any current browser without a network.

    ``title`` is that of the browser's window, and ``language`` the code of the language of the texts, such as "zh-CN".
    The viewers are in Chinese if it is Chinese, and otherwise in English.

    >>> page = article("Two", [Text("heading", "a < b"), Text("verbatim", "x\\ny")])
    >>> "<h2>a &lt; b</h2>" in page, "<pre>x\\ny</pre>" in page
    (True, True)
    """
    documents: list[Document] = []
    texts = texts_of_code(language)
    body = "\n".join(_element(block, documents, texts) for block in blocks)
    script, style = assets.article_script(), assets.article_style()
    return _PAGE.format(
        language=entities.escape(language, quote=True),
        policy=entities.escape(assets.security_policy(script, css=style), quote=True),
        title=entities.escape(title, quote=True),
        style=style,
        body=body,
        data="".join(_data(number, document) for number, document in enumerate(documents)),
        script=script,
    )


def save_article(
    path: str | os.PathLike, title: str, blocks: Sequence[Block], *, language: str = "en"
) -> None:
    """Write the page of :func:`article` to a file."""
    page = article(title, blocks, language=language)
    write_atomically(path, lambda part: part.write_text(page, encoding="utf-8", newline="\n"))


def _element(block: Any, documents: list[Document], texts: PageTexts) -> str:
    """Return the HTML element of a block, and append the document of a view to ``documents``."""
    if isinstance(block, Text):
        tag = _TAGS.get(block.kind)
        if tag is None:
            raise ArgumentError(
                "blocks", f"unknown kind of text {block.kind!r}", f"known are {', '.join(_TAGS)}"
            )
        return f"<{tag}>{entities.escape(block.text)}</{tag.split()[0]}>"
    if isinstance(block, Picture):
        source = f"data:image/png;base64,{base64.b64encode(block.png).decode('ascii')}"
        width = "" if block.width is None else f' width="{int(block.width)}"'
        description = entities.escape(block.description, quote=True)
        return f'<figure><img src="{source}" alt="{description}"{width}></figure>'
    if not isinstance(block, View):
        raise ArgumentError("blocks", f"expected a Text, a Picture or a View, got {type(block).__name__}")
    title = texts.title if block.title is None else block.title
    documents.append(embedded(block.records, title=title, images=block.images))
    number = len(documents) - 1
    return (
        f'<div class="place" data-view="{number}" data-height="{int(block.height)}">'
        f"<noscript>{texts.view_needs_script}</noscript></div>"
    )


def _data(number: int, document: Document) -> str:
    """Return the elements that hold the document of a view and its blobs."""
    blobs = "".join(
        f'<script type="text/plain" id="regard-blob-{number}-{n}">{base64.b64encode(data).decode("ascii")}</script>\n'
        for n, data in enumerate(document.blobs)
    )
    values = as_inert_json(document.values)
    return f'<script type="application/json" id="regard-document-{number}">{values}</script>\n{blobs}'
