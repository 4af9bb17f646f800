"""Pictures and pages of attention weights between words."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard._drawing import row_marks
from regard._highlights import highlighted_html, strongest_words
from regard._tokens import label_of
from regard.files import write_atomically
from regard.tasks.base import WordWeights

__all__ = ["is_picture", "is_text", "mean_of_rows", "save_word_weights", "text_page", "word_weights_page"]

_STYLE = (
    "body{font:16px system-ui,sans-serif;margin:2em;color:#222;background:#fff}"
    "table{border-collapse:collapse}"
    "td{width:3.2em;height:2em;text-align:center;font-size:.8em;border:1px solid #fff}"
    "th{font-weight:600;padding:.2em .5em;white-space:nowrap}th[scope=row]{text-align:right}"
    "caption{text-align:left;padding-bottom:1em}"
    "h1{font-size:1em}p{max-width:44em;line-height:1.7;white-space:pre-wrap}"
    "td.none{color:#666;background:repeating-linear-gradient(135deg,#fff 0 5px,#ddd 5px 6px)}"
    "p span{border-radius:.2em;padding:.1em 0}p i{color:#999;font-style:normal}small{color:#666}"
)


def save_word_weights(found: WordWeights, path: Path, *, title: str) -> None:
    """Write a heat map to a .png, .svg or .pdf file, or a page without scripts to .html.

    The axes of the heat map are named after the ``axes`` of the weights, by default ("Key", "Query"). Weights that have
    a ``text`` and the ``spans`` of its words are shown as that text with highlighted words. Weights over the cells of a
    ``picture`` are shown over it, word by word. Their .html file is the page of their ``recording`` in the viewer.
    """
    if is_text(found):
        _save_text(found, path, title)
        return
    if is_picture(found):
        _save_picture(found, path, title)
        return
    if path.suffix.lower() == ".html":
        page = word_weights_page(found, title)
        write_atomically(path, lambda part: part.write_text(page, encoding="utf-8"))
        return
    from regard.plots import visualize_attention

    labels = (found.column_words, found.row_words)
    further = {name: getattr(found, name) for name in ("axes", "marks", "notes") if hasattr(found, name)}
    further = {"axes": ("Key", "Query"), **further}
    visualize_attention(found.weights, *labels, path=path, title=title, **further)


def mean_of_rows(weights: np.ndarray) -> np.ndarray:
    """Return the mean ``(columns,)`` of the rows that have weights, or zeros if none has.

    >>> mean_of_rows(np.ma.masked_array([[1.0, 0.0], [0.5, 0.5]], [[True, True], [False, False]])).tolist()
    [0.5, 0.5]
    """
    return np.ma.filled(np.ma.asarray(weights).mean(axis=0), 0.0)


def is_text(found: Any) -> bool:
    """Whether weights are shown as a running text, and not as a table."""
    return bool(getattr(found, "spans", ()))


def is_picture(found: Any) -> bool:
    """Whether the columns of weights are cells of a picture."""
    return getattr(found, "picture", None) is not None


def _save_picture(found: Any, path: Path, title: str) -> None:
    """Write weights over a picture, as the page of the viewer or with an image for each word."""
    if path.suffix.lower() == ".html":
        found.recording.save_html(path, title=title, images=[found.picture])
        return
    from regard.plots import plot_image_words

    plot_image_words(found.picture, found.weights, found.row_words, grid=found.grid, title=title, path=path)


def _save_text(found: Any, path: Path, title: str) -> None:
    """Write a text with its words highlighted by the mean of their weights over the rows."""
    weights = mean_of_rows(found.weights)  # (words,)
    if path.suffix.lower() == ".html":
        lines = [*(found.lines() if hasattr(found, "lines") else ()), *getattr(found, "notes", ())]
        table = getattr(found, "table", None)
        page = text_page(found.text, found.spans, weights, title, found.unread, table, lines)
        write_atomically(path, lambda part: part.write_text(page, encoding="utf-8"))
        return
    from regard.plots import plot_text

    plot_text(found.text, found.spans, weights, unread=found.unread, title=title, path=path)


def text_page(
    text: str,
    spans: Sequence[tuple[int, int]],
    weights: Any,
    title: str,
    unread: tuple[int, int] | None = None,
    table: Any = None,
    lines: Sequence[str] = (),
) -> str:
    """Return a self-contained page of a text with highlighted words, without scripts or network.

    ``lines`` of text, such as the origins of words, and a ``table`` of weights between words are shown below the text.

    >>> page = text_page("a <b>", [(0, 1), (3, 4)], [0.1, 0.9], "Attention")
    >>> 'title="0.900">b</span>&gt;' in page
    True
    """
    words = ", ".join(
        f"{html.escape(word)} {weight:.2f}" for word, weight in strongest_words(text, spans, weights)
    )
    body = f"<p>{highlighted_html(text, spans, weights, unread)}</p>\n<small>Largest weights: {words}</small>"
    notes = f"\n<pre>{html.escape(chr(10).join(lines))}</pre>" if lines else ""
    below = "" if table is None else f"\n<div>{_table(table, '')}</div>"
    return _page(f"<h1>{html.escape(title)}</h1>\n{body}{notes}{below}")


def word_weights_page(found: WordWeights, title: str) -> str:
    """Return a self-contained page with a table of weights, without scripts or network.

    >>> from types import SimpleNamespace
    >>> page = word_weights_page(SimpleNamespace(column_words=["<b>"], row_words=["chat"], weights=[[0.5]]), "")
    >>> "<b>" in page, "&lt;b&gt;" in page
    (False, True)
    """
    return _page(_table(found, title))


def _table(found: Any, title: str) -> str:
    """Return an HTML table of the weights between words, with ``title`` as its caption.

    ``found`` has the attributes of :class:`WordWeights`.
    """
    weights = np.ma.asarray(found.weights)
    marks = row_marks("marks", weights, getattr(found, "marks", None))
    columns = "".join(_heading(word, "col") for word in found.column_words)
    rows = "\n".join(
        f"<tr>{_heading(word, 'row')}{_cells(row, mark)}</tr>"
        for word, row, mark in zip(found.row_words, weights, marks, strict=True)
    )
    notes = "\n".join(f"<p><small>{html.escape(note)}</small></p>" for note in getattr(found, "notes", ()))
    table = f"<table><caption>{html.escape(title)}</caption>\n<tr><td></td>{columns}</tr>\n{rows}\n</table>"
    return f"{table}\n{notes}" if notes else table


def _cells(weights: np.ma.MaskedArray, mark: str) -> str:
    """Return the cells of a row, or one cell with a mark for a row without weights."""
    if mark:
        return f'<td class="none" colspan="{max(1, len(weights))}">{html.escape(mark)}</td>'
    return "".join('<td class="none"></td>' if w is None else _cell(w) for w in weights.tolist())


def _page(body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f'<meta name="viewport" content="width=device-width"><title>Attention</title><style>{_STYLE}</style></head>\n'
        f"<body>{body}</body></html>\n"
    )


def _heading(word: str, scope: str) -> str:
    """Return the heading of a row or column, with the whole word as its title where it is cut."""
    label = label_of(word)
    title = "" if label == word else f' title="{html.escape(word)}"'
    return f'<th scope="{scope}"{title}>{html.escape(label)}</th>'


def _cell(weight: float) -> str:
    """Return a cell that is darker for a larger weight, with its number in a colour that contrasts."""
    share = min(1.0, max(0.0, weight))
    red, green, blue = (round(255 + (end - 255) * share) for end in (8, 48, 107))
    ink = "#fff" if share > 0.5 else "#222"
    return f'<td style="background:rgb({red},{green},{blue});color:{ink}">{weight:.2f}</td>'
