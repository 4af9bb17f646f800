"""Tests of highlighted words in plain text, in colour, as HTML and as a picture."""

import contextlib
import io
import re

import numpy as np
import pytest
from rich.console import Console

from regard._highlights import highlighted_html, highlighted_text, stretches, strongest_words
from regard.errors import ArgumentError, ShapeError
from regard.plots import plot_text
from regard.tasks.word_pages import text_page
from regard.terminal import draw_text

TEXT = "A fine film.<br /><br />Not dull <b>at all</b>."
SPANS = [(0, 1), (2, 6), (7, 11), (24, 27), (28, 32)]
WEIGHTS = [0.0, 0.4, 0.1, 0.2, 0.3]


def printed(width=80, **options):
    console = Console(file=io.StringIO(), width=width, highlight=False, **options)
    draw_text(TEXT, SPANS, WEIGHTS, unread=(33, len(TEXT)), console=console)
    return console.file.getvalue()


def test_the_parts_make_up_the_text():
    parts = list(stretches(TEXT, SPANS, WEIGHTS, unread=(33, 40)))
    assert "".join(part.text for part in parts) == "A fine film.\nNot dull <b>at all</b>."
    words = [part for part in parts if part.weight is not None]
    assert [part.text for part in words] == ["A", "fine", "film", "Not", "dull"]
    np.testing.assert_allclose([part.level for part in words], [0, 1, 0, 0, 0.5], atol=1e-12)
    assert "".join(part.text for part in parts if not part.read) == TEXT[33:40]


def test_marks_grow_with_the_weight():
    shown = highlighted_text(TEXT, SPANS, WEIGHTS)
    assert shown.startswith("A ****fine**** film.\nNot **dull** <b>")


def test_nearly_even_weights_are_marked_weakly():
    levels = [
        part.level for part in stretches("a b c", [(0, 1), (2, 3), (4, 5)], [0.36, 0.33, 0.31]) if part.weight
    ]
    np.testing.assert_allclose(levels, [0.08, 0, 0], atol=1e-12)


def test_even_weights_mark_nothing_and_wrong_weights_are_refused():
    assert highlighted_text("a b", [(0, 1), (2, 3)], [0.0, 0.0]) == "a b"
    assert highlighted_text("a b", [(0, 1), (2, 3)], [0.5, 0.5]) == "a b"
    assert highlighted_text("a", [(0, 1)], [0.5]) == "****a****"
    assert highlighted_text("a b", [], []) == "a b"
    assert strongest_words("a b", [], []) == []
    with pytest.raises(ShapeError, match="weights: 1 given for 2 words"):
        highlighted_text("a b", [(0, 1), (2, 3)], [0.5])
    with pytest.raises(ArgumentError, match="expected finite numbers"):
        highlighted_text("a b", [(0, 1), (2, 3)], [0.5, np.nan])


def test_the_terminal_has_colour_where_it_can():
    plain = printed()
    assert "****fine****" in plain
    assert plain.splitlines()[-1] == "largest weights: fine 0.40, dull 0.30, Not 0.20, film 0.10, A 0.00"
    coloured = printed(force_terminal=True, color_system="truecolor")
    assert "\x1b[30;48;2;253;141;60mfine\x1b[0m" in coloured
    assert "*" not in coloured
    assert "\x1b[2m<b>at all</b>." in coloured  # not read
    assert "48;2" not in printed(force_terminal=True, color_system="truecolor", no_color=True)


def test_long_texts_are_wrapped():
    console = Console(file=io.StringIO(), width=40, highlight=False)
    draw_text(
        "word " * 300, [(5 * n, 5 * n + 4) for n in range(300)], np.linspace(0, 1, 300), console=console
    )
    assert max(map(len, console.file.getvalue().splitlines())) <= 40


def test_a_page_escapes_the_text_and_needs_no_network():
    page = text_page(TEXT, SPANS, WEIGHTS, "<title>", (33, len(TEXT)))
    assert "<b>" not in page
    assert "&lt;title&gt;" in page
    assert re.findall(r'title="([\d.]+)">(\w+)<', page)[1] == ("0.400", "fine")
    assert "default-src 'none'" in page
    assert "<i>&lt;b&gt;at all" in page
    assert highlighted_html("a", [(0, 1)], [1.0]).count("<span") == 1


def test_the_picture_wraps_and_colours_the_words(tmp_path, fonts):
    text = "good film " * 60
    spans = [(10 * n, 10 * n + 4) for n in range(60)]
    figure = plot_text(text, spans, np.linspace(0, 1, 60), path=tmp_path / "text.png", title="Attention")
    axes = figure.axes[0]
    assert len(axes.texts) == 120
    lines = {round(word.get_position()[1], 2) for word in axes.texts}
    assert len(lines) > 5
    assert len(axes.collections) == 60
    colours = [tuple(patch.get_facecolor()[0][:3]) for patch in axes.collections]
    assert colours[0] == (1.0, 1.0, 1.0)
    assert colours[-1] == pytest.approx((253 / 255, 141 / 255, 60 / 255))
    assert (tmp_path / "text.png").stat().st_size > 1000


def test_chinese_has_a_place_for_every_character(fonts):
    text = "这部电影非常好看。"
    missing = pytest.warns(UserWarning, match="no installed font has 9 of the characters")
    with missing if fonts == "matplotlib" else contextlib.nullcontext():
        figure = plot_text(text, [(n, n + 1) for n in range(8)], np.full(8, 1 / 8))
    places = [word.get_position()[0] for word in figure.axes[0].texts]
    assert places == sorted(places)
    assert len(set(places)) == 9
