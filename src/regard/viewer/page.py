"""The viewer and its maps as one self-contained HTML file, which opens from disk without a network."""

from __future__ import annotations

import base64
import html as entities
import json
import os
from collections.abc import Sequence
from pathlib import Path

from regard.errors import ArgumentError
from regard.files import write_atomically
from regard.maps import Record
from regard.viewer import assets
from regard.viewer.languages import LANGUAGES, texts_in
from regard.viewer.payload import Document, embedded

__all__ = ["HEAD", "html", "in_language", "page_of", "save_html"]

# The head of every page, which fetches nothing.
HEAD = """<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
"""
_PAGE = (
    """<!doctype html>
<html lang="{language}" class="regard-page">
"""
    + HEAD
    + """<body>
<div id="regard"><noscript>{noscript}</noscript></div>
<script type="application/json" id="regard-document">{document}</script>
{blobs}<script type="module">{script}</script>
</body>
</html>
"""
)


def html(
    records: Sequence[Record], *, title: str | None = None, images: object = None, language: str = "en"
) -> str:
    """Return records as the text of a self-contained HTML page.

    ``language`` is that of the buttons and messages, "en" or "zh".
    ``images`` are drawn below the attention of records whose keys are patches. There is one for each sequence of the
    batch, or for a vision-language model one for each picture, in the order of the prompts. An image is a file, bytes,
    a PIL image, or an array of numbers between 0 and 1.

    >>> import torch
    >>> from regard.maps import AttentionMap
    >>> half = AttentionMap.from_weights(torch.full((2, 2), 0.5))
    >>> "</script><b>" in html([Record(name="</script><b>", layer=0, kind="self", map=half)])
    False
    """
    title = texts_in(language).title if title is None else title
    return page_of(embedded(records, title=title, images=images), language=language)


def save_html(
    records: Sequence[Record],
    path: str | os.PathLike,
    *,
    title: str | None = None,
    images: object = None,
    language: str = "en",
) -> None:
    """Write records to a self-contained HTML page, which opens in any current browser without a network.

    ``images`` and ``language`` are as for :func:`html`. The progress of a page that takes long is shown if
    the error stream is a terminal.
    """
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise ArgumentError("path", f"expected a name that ends in .html, got {Path(path).name!r}")
    page = html(records, title=title, images=images, language=language)
    write_atomically(path, lambda part: part.write_text(page, encoding="utf-8", newline="\n"))


def page_of(document: Document, *, connect: str = "'none'", language: str = "en") -> str:
    """Return the text of a page.

    ``connect`` is the source of its content security policy that it may fetch from, ``'none'`` or ``'self'`` in quotes.
    """
    script = assets.page_script()
    blobs = "".join(
        f'<script type="text/plain" id="regard-blob-{n}">{base64.b64encode(data).decode("ascii")}</script>\n'
        for n, data in enumerate(document.blobs)
    )
    texts = texts_in(language)
    return _PAGE.format(
        language=texts.code,
        noscript=texts.page_needs_script,
        policy=entities.escape(assets.security_policy(script, connect=connect), quote=True),
        title=_as_title(document.values["title"]),
        style=assets.style(),
        document=as_inert_json(document.values),
        blobs=blobs,
        script=script,
    )


def in_language(page: str, language: str, *, title: str | None = None) -> str:
    """Return an English page of :func:`html` in another language.

    ``title`` replaces the title that :func:`html` gives a page without one. A title of its own stays as it is.
    """
    english, other = LANGUAGES["en"], texts_in(language)
    for old, new in (
        (f'<html lang="{english.code}"', f'<html lang="{other.code}"'),
        (f"<noscript>{english.page_needs_script}<", f"<noscript>{other.page_needs_script}<"),
    ):
        if old not in page:
            raise ArgumentError(
                "page", f"expected an English page of the viewer, without {old!r} in {page[:40]!r}"
            )
        page = page.replace(old, new, 1)
    return page if title is None else _titled(page, title)


def _titled(page: str, title: str) -> str:
    """Return a page with a title in its head and in its document, if it has none of its own."""
    before, opening, rest = page.partition('<script type="application/json" id="regard-document">')
    document, closing, after = rest.partition("</script>")
    values = json.loads(document)
    if values["title"] != LANGUAGES["en"].title:
        return page
    before = before.replace(
        f"<title>{_as_title(values['title'])}</title>", f"<title>{_as_title(title)}</title>", 1
    )
    return before + opening + as_inert_json(values | {"title": title}) + closing + after


def as_inert_json(values: object) -> str:
    """Return JSON that is safe inside an HTML element, as ASCII without ``<``, ``>`` and ``&``.

    Raises ValueError if a number is infinite or NaN.

    >>> as_inert_json(["</script>", "a & b", "猫"])
    '["\\\\u003c/script\\\\u003e", "a \\\\u0026 b", "\\\\u732b"]'
    """
    text = json.dumps(values, ensure_ascii=True, allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _as_title(title: str) -> str:
    """Return a title as the text of an HTML element, without control characters."""
    shown = "".join(sign for sign in title if sign.isprintable())
    return entities.escape(shown.encode("utf-8", "replace").decode("utf-8") + " · Regard", quote=True)
