"""Tests of the text in pictures, the files that are written, and the error messages."""

import doctest
import importlib.util
import itertools
import pkgutil
import re
import struct
import sys
import warnings
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

from regard import AttentionMap, _fonts, plot_attention_weights, plot_weights, plots, visualize_attention
from regard.errors import ArgumentError, DtypeError, FileError, MissingExtraError, ShapeError, install_command
from regard.maps import Record
from support.fonts import chinese_labels

EYE = np.eye(3) * 0.7 + 0.1
WORDS = ["the", "cat", "sat"]
CHINESE = ["我", "爱", "你"]
PACKAGED_FONTS = _fonts._packaged_fonts  # as it is, before a fixture narrows the fonts


pytestmark = pytest.mark.usefixtures("fonts")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def texts(labels) -> list[str]:
    return [label.get_text() for label in labels]


def assert_nothing_is_cut(figure):
    """Every text of the figure lies within it."""
    figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    for text in figure.findobj(lambda artist: hasattr(artist, "get_text") and artist.get_text()):
        box = text.get_window_extent()
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= width, text
        assert box.y1 <= height, text


# ---- calls of the source documents


def test_plot_attention_weights_writes_the_file_and_says_so(tmp_path, capsys):
    figure = plot_attention_weights(EYE, WORDS)
    assert capsys.readouterr().out == "Attention heatmap saved as 'attention_heatmap.png'\n"
    ax = figure.axes[0]
    assert texts(ax.get_xticklabels()) == texts(ax.get_yticklabels()) == WORDS
    assert ax.get_title() == "Attention Weights Heatmap"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Key Tokens", "Query Tokens")
    np.testing.assert_array_equal(ax.images[0].get_array(), EYE)
    assert ax.images[0].get_cmap().name == "viridis"
    data = (tmp_path / "attention_heatmap.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    size = np.array(struct.unpack(">II", data[16:24]))
    np.testing.assert_allclose(size, figure.get_size_inches() * 150, atol=1)
    assert list(tmp_path.iterdir()) == [tmp_path / "attention_heatmap.png"]


def test_the_title_is_the_third_argument():
    assert plot_attention_weights(EYE, WORDS, "Mine", path=None).axes[0].get_title() == "Mine"


def test_path_none_writes_nothing_and_says_nothing(tmp_path, capsys):
    plot_attention_weights(EYE, WORDS, path=None)
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == []


def test_visualize_attention_writes_the_numbers_into_their_cells():
    weights = np.array([[0.25, 0.75], [1.0, 0.0], [0.126, 0.874]])
    figure = visualize_attention(weights, ["I", "am"], ["je", "suis", "là"])
    ax = figure.axes[0]
    written = {(text.get_position()[1], text.get_position()[0]): text.get_text() for text in ax.texts}
    cells = {(i, j): f"{weights[i, j]:.2f}" for i in range(3) for j in range(2)}
    assert written == cells
    assert texts(ax.get_xticklabels()) == ["I", "am"]
    assert texts(ax.get_yticklabels()) == ["je", "suis", "là"]
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("Source", "Target", "Attention Weights")


def test_numbers_contrast_with_their_cells():
    ax = visualize_attention([[0.0, 1.0]], ["a", "b"], ["c"]).axes[0]
    assert [text.get_color() for text in ax.texts] == ["white", "black"]


def test_plot_weights_draws_bars():
    ax = plot_weights(torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)).axes[0]
    assert [bar.get_height() for bar in ax.patches] == [0.7, 0.2, 0.1]
    assert texts(ax.get_xticklabels()) == ["0", "1", "2"]
    assert ax.get_title() == "Additive Attention Weights"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Input position", "Attention weight")


def test_plot_weights_writes_tokens_and_a_file(tmp_path):
    figure = plot_weights([0.5, 0.5], ["a", "b"], path=tmp_path / "bars.png", title="T")
    assert texts(figure.axes[0].get_xticklabels()) == ["a", "b"]
    assert (tmp_path / "bars.png").read_bytes()[1:4] == b"PNG"


# ---- what may be drawn


@pytest.mark.parametrize(
    "weights",
    [
        EYE.tolist(),
        EYE.astype(np.float16),
        EYE[None, None],
        AttentionMap.from_weights(torch.tensor(EYE)),
        torch.tensor(EYE, requires_grad=True),
        torch.tensor(EYE).to(torch.bfloat16),
    ],
    ids=["lists", "float16", "one head", "map", "requires_grad", "bfloat16"],
)
def test_everything_that_holds_weights_is_taken(weights):
    figure = visualize_attention(weights, WORDS, WORDS)
    np.testing.assert_allclose(figure.axes[0].images[0].get_array(), EYE, atol=4e-3)


@pytest.mark.parametrize("zeros", [np.zeros((3, 3)), np.eye(3) - 0.5])
def test_all_zero_and_negative_numbers_can_be_drawn(zeros):
    figure = visualize_attention(zeros, WORDS, WORDS, path="zeros.png")
    low, high = figure.axes[0].images[0].get_clim()
    assert low <= zeros.min() < high
    assert "-0.00" not in texts(figure.axes[0].texts)


@pytest.mark.parametrize("ending", ["png", "svg", "pdf", "PNG"])
def test_the_ending_decides_the_format(tmp_path, ending):
    visualize_attention(EYE, WORDS, WORDS, path=tmp_path / f"picture.{ending}")
    start = (tmp_path / f"picture.{ending}").read_bytes()[:400]
    assert {"png": b"PNG", "svg": b"<svg", "pdf": b"%PDF"}[ending.lower()] in start


def test_plots_draw_into_given_axes(tmp_path):
    figure, axes = plt.subplots(1, 2)
    try:
        assert plot_attention_weights(EYE, WORDS, path=tmp_path / "mine.png", ax=axes[1]) is figure
        assert texts(axes[1].get_xticklabels()) == WORDS
        assert not axes[0].images
    finally:
        plt.close(figure)


# ---- labels


@pytest.mark.parametrize("count", [1, 2, 7, 25, 120])
def test_no_label_is_cut_or_lost_at_any_length(count):
    words = [f"token{i}" for i in range(count)]
    figure = plot_attention_weights(np.eye(count), words, path=None)
    assert texts(figure.axes[0].get_xticklabels()) == words
    assert_nothing_is_cut(figure)


def test_labels_do_not_overlap():
    figure = plot_attention_weights(np.eye(120), [f"token{i}" for i in range(120)], path=None)
    figure.canvas.draw()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert all(above.y0 >= below.y1 - 1 for above, below in itertools.pairwise(boxes))


def test_long_tokens_and_long_titles_are_whole():
    words = ["x" * 120, "short", "y" * 60]
    assert_nothing_is_cut(visualize_attention(EYE, words, words, title="A title " * 12))
    assert_nothing_is_cut(plot_weights([0.1, 0.2, 0.7], words, title="A title " * 12))


LONG = "x" * 100_000


def drawn_with(tokens: list[str], title: str) -> list[matplotlib.figure.Figure]:
    """Return every plot that has labels, of three tokens and a title."""
    weights = torch.eye(3)[None]
    record = Record(
        name="0", layer=0, kind="self", map=AttentionMap.from_weights(weights), query_tokens=[tokens]
    )
    picture = np.zeros((8, 8))
    return [
        plot_attention_weights(EYE, tokens, title, path=None),
        visualize_attention(EYE, tokens, tokens, title=title, window=False),
        plot_weights([0.1, 0.2, 0.7], tokens, title=title),
        plots.plot_heads(weights, tokens, title=title),
        plots.plot_model([record], title=title),
        plots.show(record, title=title),
        plots.plot_image_words(picture, np.full((3, 4), 0.25), tokens, grid=(2, 2), title=title),
    ]


def test_labels_are_the_texts_of_tokens_in_every_plot():
    for figure in drawn_with(["The", "Ġcat", "Ċ"], "Tokens"):
        ax = figure.axes[0]
        titles = [one.get_title() for one in figure.axes]
        assert ["The", "␣cat", "⏎"] in (texts(ax.get_xticklabels()), texts(ax.get_yticklabels()), titles)


def test_long_labels_and_titles_are_cut_before_they_widen_a_figure():
    """At 150 dots per inch, 20 inches are 3,000 pixels."""
    for figure in drawn_with([LONG, "cat", "e\u0301" * 900], "A title " * 10_000):
        assert max(figure.get_size_inches()) < 20
    assert max(plots.plot_text(f"a {LONG[:900]}", [(0, 1), (2, 902)], [0.2, 0.8]).get_size_inches()) < 20


def test_thousands_of_tokens_are_thinned_out_not_piled_up():
    figure = plot_attention_weights(np.eye(1500), [str(i) for i in range(1500)], path=None)
    shown = texts(figure.axes[0].get_xticklabels())
    assert shown[:2] == ["0", str(int(shown[1]))]
    assert 100 < len(shown) < 1500
    assert max(figure.get_size_inches()) < 60


def test_dollars_and_line_breaks_are_tokens_not_markup(tmp_path):
    figure = visualize_attention(
        EYE, ["$5", r"$\frac$", "a\nb"], ["_x^2", "\t", ""], path=tmp_path / "marks.png"
    )
    assert texts(figure.axes[0].get_xticklabels()) == ["$5", r"$\frac$", "a⏎b"]
    assert texts(figure.axes[0].get_yticklabels()) == ["_x^2", "⇥", ""]


# ---- Chinese, and other characters that the default font has not


def a_character_of(family: str) -> str:
    """One that this font, which comes with matplotlib, has and the default font has not."""
    default = FT2Font(font_manager.findfont("DejaVu Sans")).get_charmap()
    other = FT2Font(font_manager.findfont(family)).get_charmap()
    return chr(min(code for code in set(other) - set(default) if code > 0x2000))


def test_a_font_with_the_characters_is_found(tmp_path):
    odd = a_character_of("STIXGeneral")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = visualize_attention(EYE, [odd, "a", "b"], WORDS, path=tmp_path / "odd.png")
    families = figure.axes[0].get_xticklabels()[0].get_fontfamily()
    have = set().union(*(_fonts._glyphs(font_manager.findfont(name)) for name in families[1:]))
    assert ord(odd) in have


def test_chinese_is_drawn_or_one_warning_names_the_package(tmp_path):
    with chinese_labels():
        figure = plot_attention_weights(EYE, CHINESE, path=tmp_path / "chinese.png")
    assert texts(figure.axes[0].get_xticklabels()) == CHINESE
    assert (tmp_path / "chinese.png").stat().st_size > 1000


def test_names_of_axes_are_drawn_like_the_labels():
    with chinese_labels():
        figure = visualize_attention(EYE, WORDS, WORDS, title="$x", axes=("源$a$", "目标"))
    with chinese_labels():
        families = _fonts.families_for(["源目标"])
    ax = figure.axes[0]
    for text in (ax.title, ax.xaxis.label, ax.yaxis.label):
        assert text.get_parse_math() is False
        assert families is None or text.get_fontfamily() == families


def test_without_a_chinese_font_there_is_exactly_one_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(_fonts, "_cover", lambda codes, fonts: ([], codes))
    with pytest.warns(UserWarning, match="no installed font") as seen:
        plot_attention_weights(EYE, CHINESE, path=tmp_path / "chinese.png")
    assert len(seen) == 1
    advice = str(seen[0].message).partition("for Chinese: ")[2]
    assert advice.startswith(f"{install_command('chinese')}, or the Debian package fonts-noto-cjk")
    assert "我" in str(seen[0].message)
    assert seen[0].filename == __file__


@pytest.fixture
def packaged_fonts(fonts):
    """Give matplotlib's fonts the extra's beside them. The patch ends before the one of ``fonts`` does."""
    with pytest.MonkeyPatch.context() as patch:
        if fonts == "matplotlib":  # where no font of the machine has Chinese
            patch.setattr(_fonts, "_packaged_fonts", PACKAGED_FONTS)
            patch.setattr(font_manager.fontManager, "ttflist", [*font_manager.fontManager.ttflist])
            _fonts.missing_from.cache_clear()
        yield


def test_chinese_is_drawn_with_matplotlibs_fonts_and_the_extra(tmp_path, fonts, packaged_fonts):
    spec = importlib.util.find_spec("zhplot")
    if spec is None:
        pytest.skip("the extra is not installed: pip install 'regard[chinese]'")
    before, settings = {*sys.modules}, dict(matplotlib.rcParams)
    figure = plot_attention_weights(EYE, CHINESE, path=tmp_path / "chinese.svg")  # warnings are errors
    families = figure.axes[0].get_xticklabels()[0].get_fontfamily()
    if fonts == "matplotlib":
        assert families[-1] == "Noto Sans SC"
        font = font_manager.findfont("Noto Sans SC", fallback_to_default=False)
        assert Path(font).resolve().is_relative_to(Path(spec.origin).resolve().parent)
    # Each character has an outline of its own; missing ones would share the box of the default font.
    outlines = re.findall(r'<path id="(?!DejaVu)([^"]+-[0-9a-f]+)"', (tmp_path / "chinese.svg").read_text())
    assert len({*outlines}) == len(CHINESE)
    assert not {name for name in {*sys.modules} - before if name.startswith("zhplot")}
    assert dict(matplotlib.rcParams) == settings


def test_latin_text_asks_for_no_other_font():
    assert _fonts.families_for(["The cat sat.", "là", "Ġtoken"]) is None


# ---- the examples in the docstrings


PARTS = [f"regard.plots.{part.name}" for part in pkgutil.iter_modules(plots.__path__)]


@pytest.mark.parametrize("name", ["regard.plots", *PARTS])
def test_the_examples_in_the_docstrings_pass(name):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(importlib.import_module(name), optionflags=flags).failed == 0


# ---- errors


def test_sizes_that_do_not_fit_are_named():
    with pytest.raises(
        ShapeError, match=r"^tokens: 2 tokens given, 3 rows and columns in attention_weights \(3,3\)"
    ):
        plot_attention_weights(EYE, ["a", "b"])
    with pytest.raises(
        ShapeError, match=r"^source_tokens: 4 tokens given, 3 columns in attention_weights \(2,3\)"
    ):
        visualize_attention(EYE[:2], list("abcd"), list("ab"))
    with pytest.raises(
        ShapeError, match=r"^target_tokens: 3 tokens given, 2 rows in attention_weights \(2,3\)"
    ):
        visualize_attention(EYE[:2], list("abc"), list("abc"))
    with pytest.raises(ShapeError, match=r"^tokens: 2 tokens given, 3 weights \(3,\)"):
        plot_weights([1, 2, 3], ["a", "b"])


def test_wrong_number_of_axes_says_how_to_pick():
    with pytest.raises(
        ShapeError, match=r"expected \(q,k\), got \(2, 5, 3, 3\): pick one, such as .*\[0, 0\]"
    ):
        plot_attention_weights(np.zeros((2, 5, 3, 3)), WORDS)
    with pytest.raises(
        ShapeError, match=r"^weights: expected \(k,\), got \(2, 3\): pick one, such as weights\[0\]"
    ):
        plot_weights([[1, 2, 3], [4, 5, 6]])
    with pytest.raises(ShapeError, match=r"expected as many queries as keys, got \(q,k\) = \(2,3\)"):
        plot_attention_weights(EYE[:2], WORDS)
    with pytest.raises(ShapeError, match=r"expected \(q,k\), got \(0, 3\)"):
        visualize_attention(np.zeros((0, 3)), WORDS, [])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused_with_their_place(bad):
    weights = EYE.copy()
    weights[1, 2] = bad
    with pytest.raises(
        ArgumentError, match=r"^attention_weights: expected finite numbers, got \w+ at q=1, k=2"
    ):
        visualize_attention(weights, WORDS, WORDS)


def test_a_string_is_not_a_list_of_tokens():
    with pytest.raises(DtypeError, match="tokens: expected a list of tokens, got one string 'cat'"):
        plot_attention_weights(EYE, "cat")
    with pytest.raises(DtypeError, match="weights: expected numbers"):
        plot_weights(["a", "b"])


def test_paths_are_checked_before_drawing(tmp_path):
    with pytest.raises(
        ArgumentError, match=r"path: unknown ending '.bmp' in 'x.bmp': use one of .png, .svg, .pdf"
    ):
        plot_attention_weights(EYE, WORDS, path="x.bmp")
    with pytest.raises(FileError, match="the folder 'nowhere' of 'nowhere/x.png' does not exist"):
        visualize_attention(EYE, WORDS, WORDS, path="nowhere/x.png")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(FileError, match=r"'folder.png' is a folder"):
        plot_weights([1.0], path="folder.png")


def test_a_failed_write_leaves_the_old_picture_and_no_temporary_file(tmp_path, monkeypatch):
    target = tmp_path / "kept.png"
    target.write_bytes(b"old")
    figure = visualize_attention(EYE, WORDS, WORDS)

    def half_written(part, **_):
        part.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(figure, "savefig", half_written)
    with pytest.raises(FileError, match="cannot write .*No space left on device"):
        plots.figures.save(figure, target)
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_picture_is_renamed_into_place_not_written_over_the_old_one(tmp_path):
    target = tmp_path / "kept.png"
    target.write_bytes(b"old")
    with target.open("rb") as reader:
        visualize_attention(EYE, WORDS, WORDS, path=target)
        assert reader.read() == b"old"
    assert target.read_bytes()[1:4] == b"PNG"


def test_without_matplotlib_the_error_has_the_command(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        MissingExtraError, match=r"needs matplotlib: install it with  pip install .*\[plot\]'"
    ):
        plot_weights([1.0])


# ---- screens


def test_nothing_is_left_in_pyplot():
    before = plt.get_fignums()
    plot_attention_weights(EYE, WORDS, path=None)
    visualize_attention(EYE, WORDS, WORDS)
    plot_weights([1.0])
    assert plt.get_fignums() == before


def test_show_without_a_screen_is_an_error_and_never_shows(monkeypatch):
    monkeypatch.setattr(plots.figures, "_has_screen", lambda: False)
    monkeypatch.setattr(plt, "show", lambda: pytest.fail("shown without a screen"))
    visualize_attention(EYE, WORDS, WORDS)
    with pytest.raises(ArgumentError, match="window: there is no display"):
        visualize_attention(EYE, WORDS, WORDS, window=True)


def test_with_a_screen_it_shows_once_and_cleans_up(monkeypatch):
    shown = []
    monkeypatch.setattr(plots.figures, "_has_screen", lambda: True)
    monkeypatch.setattr(plt, "show", lambda: shown.append(plt.get_fignums()))
    visualize_attention(EYE, WORDS, WORDS)
    plot_weights([1.0], path="bars.png")  # with a path, no window opens
    visualize_attention(EYE, WORDS, WORDS, window=False)
    assert len(shown) == 1
    assert plt.get_fignums() == []


# ---- quality by length


ROWS = {
    "attention": [("1-10", 13, 31.5), ("11-20", 7, 30.0), ("21-", 5, 29.0)],
    "注意力 $x$ none": [("1-10", 13, 28.0), ("11-20", 7, 20.0), ("21-", 5, 11.0)],
}


def test_plot_by_length_draws_a_line_for_each_model(tmp_path):
    with chinese_labels():
        figure = plots.plot_by_length(ROWS, path=tmp_path / "x.svg")
    ax = figure.axes[0]
    assert [list(line.get_ydata()) for line in ax.get_lines()] == [[31.5, 30.0, 29.0], [28.0, 20.0, 11.0]]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1-10\n(13)", "11-20\n(7)", "21-\n(5)"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(ROWS)
    assert (tmp_path / "x.svg").stat().st_size > 1000


@pytest.mark.parametrize(
    ("rows", "part"),
    [
        ({}, "at least one model"),
        ({"a": []}, "no rows"),
        ({"a": ROWS["attention"], "b": []}, "same sentences"),
    ],
)
def test_rows_that_cannot_be_compared_are_refused(rows, part):
    with pytest.raises(ArgumentError, match=part):
        plots.plot_by_length(rows)
