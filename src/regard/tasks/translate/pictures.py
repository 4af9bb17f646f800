"""Pictures of what the words of a translation looked at."""

from __future__ import annotations

import html
from pathlib import Path

from regard.files import write_atomically
from regard.tasks.translate.alignment import WordAlignment

__all__ = ["alignment_page", "save_alignment"]

_STYLE = (
    "body{font:16px system-ui,sans-serif;margin:2em;color:#222;background:#fff}"
    "table{border-collapse:collapse}"
    "td{width:3.2em;height:2em;text-align:center;font-size:.8em;border:1px solid #fff}"
    "th{font-weight:600;padding:.2em .5em;white-space:nowrap}th[scope=row]{text-align:right}"
    "caption{text-align:left;padding-bottom:1em}"
)


def save_alignment(alignment: WordAlignment, path: Path) -> None:
    """Write a heat map to a .png, .svg or .pdf file, or a page of its own to .html."""
    if path.suffix.lower() == ".html":
        write_atomically(path, lambda part: part.write_text(alignment_page(alignment), encoding="utf-8"))
        return
    from regard.plots import visualize_attention

    visualize_attention(
        alignment.weights,
        alignment.source_words,
        alignment.target_words,
        path=path,
        title="What each word looked at (cross attention)",
    )


def alignment_page(alignment: WordAlignment) -> str:
    """A page that needs no script and asks for nothing from elsewhere.

    >>> import numpy as np
    >>> page = alignment_page(WordAlignment(["<b>"], ["chat"], np.array([[0.5]])))
    >>> "<b>" in page, "&lt;b&gt;" in page
    (False, True)
    """
    columns = "".join(f'<th scope="col">{html.escape(word)}</th>' for word in alignment.source_words)
    rows = "\n".join(
        f'<tr><th scope="row">{html.escape(word)}</th>{"".join(_cell(float(w)) for w in row)}</tr>'
        for word, row in zip(alignment.target_words, alignment.weights, strict=True)
    )
    caption = "What each word of the translation (rows) looked at in the source (columns): cross attention"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f'<meta name="viewport" content="width=device-width"><title>Attention</title><style>{_STYLE}</style></head>\n'
        f"<body><table><caption>{caption}</caption>\n<tr><td></td>{columns}</tr>\n{rows}\n</table></body></html>\n"
    )


def _cell(weight: float) -> str:
    """Darker for more, with the number in a colour that can be read on it."""
    share = min(1.0, max(0.0, weight))
    red, green, blue = (round(255 + (end - 255) * share) for end in (8, 48, 107))
    ink = "#fff" if share > 0.5 else "#222"
    return f'<td style="background:rgb({red},{green},{blue});color:{ink}">{weight:.2f}</td>'
