"""Tests of weights in the terminal, their columns and colours."""

import io

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from regard.errors import ArgumentError, ShapeError
from regard.terminal import draw_grids, draw_weights, weights_text

WEIGHTS = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
WORDS = ["the", "猫", "sat"]


def drawn(encoding="utf-8", **options) -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    draw_weights(WEIGHTS, WORDS, ["a", "b", "c"], console=Console(file=file, highlight=False, **options))
    file.flush()
    return file.buffer.getvalue().decode(encoding)


def test_numbers_stand_under_their_words():
    lines = weights_text(WEIGHTS, WORDS).splitlines()
    assert [line.split()[0] for line in lines[1:]] == WORDS
    assert lines[3].split()[1::2] == ["0.20", "0.30", "0.50"]
    ends = [cell_len(line) for line in weights_text(np.ones((3, 3)), WORDS).splitlines()]
    assert len(set(ends)) == 1  # every line is as wide as the others, wide characters included


def test_marks_grow_with_the_weight():
    first = weights_text([[0.0, 0.25, 0.5, 0.75, 1.0]], ["q"], list("abcde")).splitlines()[1]
    assert first.split() == ["q", "0.00", "0.25", ".", "0.50", ":", "0.75", "*", "1.00", "#"]


def test_a_wide_table_goes_on_below_and_loses_nothing():
    text = weights_text(np.full((2, 40), 0.025), ["q0", "q1"], [f"key{i}" for i in range(40)], width=60)
    assert max(map(cell_len, text.splitlines())) <= 60
    assert text.count("0.03") == 80 or text.count("0.02") == 80
    assert all(f"key{i}" in text.split() for i in range(40))


def test_a_file_gets_plain_ascii_marks():
    assert "\x1b" not in (text := drawn())
    assert text.replace("猫", "").isascii()


def test_a_terminal_gets_colours():
    assert "48;2;253;231;37" in drawn(
        force_terminal=True, color_system="truecolor"
    )  # viridis' yellow, for 1.0


def test_a_terminal_without_colours_gets_shades():
    text = drawn(force_terminal=True, color_system=None)
    assert "\x1b" not in text
    assert "1.00 █" in text


def test_long_tokens_are_shortened_and_line_breaks_have_a_sign():
    text = weights_text([[1.0]], ["a\nb"], ["x" * 50])
    assert "a⏎b" in text
    assert "x" * 15 + "~" in text
    assert len(text.splitlines()) == 2


def test_sizes_are_checked():
    with pytest.raises(ShapeError, match=r"key_tokens: 2 tokens given, 3 columns in weights \(3,3\)"):
        weights_text(WEIGHTS, WORDS, ["a", "b"])


def test_negative_weights_have_a_sign_and_a_note():
    lines = weights_text([[1.5, -0.5]], ["q"], ["a", "b"]).splitlines()
    assert lines[1].split() == ["q", "1.50", "#", "-0.50", "."]
    assert lines[-1] == "The marks show the size of a weight without its sign."
    file = io.StringIO()
    draw_weights(
        [[1.5, -0.5]], ["q"], ["a", "b"],
        console=Console(file=file, force_terminal=True, color_system="truecolor", highlight=False),
    )  # fmt: skip
    assert "48;2;178;24;43" in file.getvalue(), "the largest weight is red"
    assert "48;2;181;204;227" in file.getvalue(), "a third of the way to blue"
    assert "blue weights are negative" in file.getvalue()


def test_draw_grids_draws_two_rows_of_cells_in_a_line():
    out = io.StringIO()
    weights = [[4.0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1.0, 2.0], [0, 0, 0, 0, 0, 0]]
    draw_grids(weights, ["seven", "to", "的"], (3, 2), console=Console(file=out, width=15))
    # 15 columns have room for two maps of 5 + 2 columns. The third row of cells is repeated.
    expected = ["seven  to", ":", "       :#", "的", "", ""]
    assert [line.rstrip() for line in out.getvalue().splitlines()] == expected


def test_draw_grids_colours_the_upper_and_the_lower_cell():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system="truecolor", width=40)
    draw_grids([[1.0, 0.0]], ["a"], (2, 1), console=console)
    assert "38;2;253;231;37;48;2;68;1;84m▀" in out.getvalue()  # the ends of the colour scale


def test_a_masked_weight_is_no_zero():
    weights = np.ma.masked_array([[0.5, 0.0], [9.0, 0.9], [np.nan, np.nan]], [[0, 0], [1, 0], [1, 1]])
    lines = weights_text(weights, ["zero", "half", "none"], ["a", "b"]).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["zero", "0.50", ":", "0.00"],
        ["half", "0.90", "#"],
        ["none", "no", "weights"],
    ]
    assert lines[2].index("0.90") == lines[1].index("0.00")  # the masked cell before it is empty
    file = io.StringIO()
    draw_weights(weights, list("xyz"), list("ab"), marks=["", "", "copied"], console=Console(file=file))
    assert file.getvalue().splitlines()[-1].split() == ["z", "copied"]
    with pytest.raises(ShapeError, match="marks: 1 tokens given, 3 rows of weights"):
        draw_weights(weights, list("xyz"), list("ab"), marks=["copied"])
    with pytest.raises(ArgumentError, match="expected finite numbers"):
        draw_weights(weights.data, list("xyz"), list("ab"))
