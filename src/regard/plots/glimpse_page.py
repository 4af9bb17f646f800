"""A self-contained page that shows the glimpses at a picture, with a slider and without a network."""

from __future__ import annotations

import base64
import hashlib
import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.plots.glimpses import COLORS, GlimpseFrame, _check, _pillow, as_pixels, overhang

__all__ = ["glimpse_page"]

_FOLDER = Path(__file__).parent / "static"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title} · Regard</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
<p class="controls">
<button type="button" id="play" aria-pressed="false">Play</button>
<input type="range" id="step" min="1" max="{count}" value="{count}" aria-label="Glimpse">
<output id="number" for="step">{count} of {count}</output>
</p>
<main>
{sections}
</main>
<script>{script}</script>
</body>
</html>
"""


def glimpse_page(picture: Any, frames: Sequence[GlimpseFrame], *, title: str = "Glimpses") -> str:
    """Return the text of a page on which a slider moves through the glimpses.

    Without JavaScript, the page shows all of them below one another.

    >>> frame = GlimpseFrame([(2, 2, 4)], np.zeros((1, 4, 4, 1)), [("<b>", 0.9)])
    >>> page = glimpse_page(np.zeros((8, 8)), [frame, frame], title="A <seven>")
    >>> page.count("<section"), "<b>" in page, "A &lt;seven&gt;" in page
    (2, False, True)
    """
    pixels = as_pixels(picture)
    _check(frames)
    image, margin = _data_url(pixels), overhang(pixels.shape, frames) + 1
    sections = "\n".join(
        _section(number, frames, image, pixels.shape, margin) for number in range(len(frames))
    )
    style, script = (_read(name) for name in ("glimpses.css", "glimpses.js"))
    policy = (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return _PAGE.format(
        policy=html.escape(policy, quote=True),
        title=html.escape(title),
        style=style,
        count=len(frames),
        sections=sections,
        script=script,
    )


def _section(
    number: int, frames: Sequence[GlimpseFrame], image: str, shape: tuple[int, ...], margin: int
) -> str:
    """Return one glimpse as HTML, with the path so far over the picture, what was seen and the answers."""
    frame, (rows, columns) = frames[number], shape[:2]
    box = f"{-margin} {-margin} {columns + 2 * margin} {rows + 2 * margin}"
    squares = "".join(
        f'<rect x="{left}" y="{top}" width="{side}" height="{side}" fill="none" '
        f'stroke="{COLORS[scale % len(COLORS)]}" stroke-width="2" vector-effect="non-scaling-stroke"/>'
        for scale, (top, left, side) in reversed(list(enumerate(frame.squares)))
    )
    views = "".join(
        f'<figure><img alt="What scale {scale + 1} shows" src="{_data_url(as_pixels(view))}" '
        f'class="scale{scale % len(COLORS)}"><figcaption>{side}×{side} pixels</figcaption></figure>'
        for scale, (view, (_, _, side)) in enumerate(zip(frame.views, frame.squares, strict=True))
    )
    answers = "".join(
        f'<tr><th scope="row">{html.escape(label)}</th>'
        f'<td><meter min="0" max="1" value="{share:.4f}"></meter></td><td>{100 * share:.1f} %</td></tr>'
        for label, share in frame.answers
    )
    row, column = frame.centre
    return (
        f'<section id="glimpse{number + 1}" aria-label="Glimpse {number + 1}">'
        f'<svg viewBox="{box}" role="img" aria-label="The picture, glimpse {number + 1}">'
        f'<rect x="{-margin}" y="{-margin}" width="100%" height="100%" class="outside"/>'
        f'<image href="{image}" width="{columns}" height="{rows}" class="pixels"/>{squares}'
        f"{_path(frames[: number + 1], max(rows, columns))}</svg>"
        f"<div><h2>Glimpse {number + 1}: row {row:g}, column {column:g}</h2>"
        f'<div class="views">{views}</div><table>{answers}</table></div></section>'
    )


def _path(frames: Sequence[GlimpseFrame], side: int) -> str:
    """Return the path of the eye as SVG, with a dot at each glimpse."""
    points = [(column, row) for row, column in (frame.centre for frame in frames)]
    line = " ".join(f"{x:g},{y:g}" for x, y in points)
    dots = "".join(
        f'<circle cx="{x:g}" cy="{y:g}" r="{side / (55 if last else 90):.3g}" class="{"now" if last else "then"}"/>'
        for last, (x, y) in ((place == len(points) - 1, point) for place, point in enumerate(points))
    )
    return f'<polyline points="{line}" class="under"/><polyline points="{line}" class="path"/>{dots}'


def _data_url(pixels: np.ndarray) -> str:
    held = io.BytesIO()
    _pillow().fromarray(pixels).save(held, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(held.getvalue()).decode('ascii')}"


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def _source(text: str) -> str:
    """Return the hash by which the content security policy allows an inline script or style."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
