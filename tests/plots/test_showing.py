"""Tests that ``regard.show`` and ``Recording.show`` only return an object that a notebook displays."""

import os

import numpy as np
import pytest

import regard
from regard import analysis, plots, viewer
from regard.capture import Recording
from regard.errors import UnknownArgumentError

pytest.importorskip("matplotlib", reason="needs the extra plot")

WORDS = ["a", "b", "c"]
WEIGHTS = np.full((3, 3), 1 / 3)
PATCHES = np.full((2, 2), 0.25)
ROWS = {"model": [("1-10", 9, 31.0), ("11-20", 5, 30.0)]}


def recording() -> Recording:
    return Recording.from_weights([WEIGHTS, WEIGHTS], WORDS)


# Every function that draws, but for those of the source documents, which write a file or open a window as there.
DRAWING = {
    "show a matrix": lambda: regard.show(WEIGHTS, WORDS),
    "show a row": lambda: regard.show(WEIGHTS[0], WORDS),
    "show heads": lambda: regard.show(np.stack([WEIGHTS, WEIGHTS]), WORDS),
    "show layers": lambda: regard.show(recording()),
    "plot_heads": lambda: regard.plot_heads(WEIGHTS[None], WORDS),
    "plot_model": lambda: regard.plot_model(recording()),
    "plot_weights": lambda: regard.plot_weights(WEIGHTS[0], WORDS),
    "plot_by_length": lambda: regard.plot_by_length(ROWS),
    "plot_image_attention": lambda: regard.plot_image_attention(np.zeros((8, 8)), PATCHES),
    "Recording.show": lambda: widget_of(lambda: recording().show()),
    "viewer.widget": lambda: widget_of(lambda: viewer.widget(recording())),
    "viewer.html": lambda: viewer.html(recording()),
    "head_table": lambda: analysis.head_table(recording()),
}


def widget_of(make):
    pytest.importorskip("anywidget", reason="needs the extra view")
    return make()


@pytest.fixture
def screen(monkeypatch):
    """A display on which pyplot would open windows. Returns a list that gets an entry for each window."""
    import matplotlib.pyplot as plt

    opened: list[list[int]] = []
    monkeypatch.setattr(plots.figures, "_has_screen", lambda: True)
    monkeypatch.setattr(plt, "show", lambda: opened.append(plt.get_fignums()))
    return opened


@pytest.mark.parametrize("name", DRAWING)
def test_in_a_script_nothing_is_written_opened_or_printed(name, screen, fonts, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert DRAWING[name]() is not None
    assert screen == []
    assert os.listdir(tmp_path) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "display"),
    [("show layers", "image/png"), ("Recording.show", "application/vnd.jupyter.widget-view+json")],
)
def test_a_notebook_displays_the_result(name, display, fonts):
    formatters = pytest.importorskip("IPython.core.formatters", reason="needs IPython")
    shown, _ = formatters.DisplayFormatter().format(DRAWING[name]())
    assert display in shown


@pytest.mark.parametrize("weights", [WEIGHTS, WEIGHTS[0], WEIGHTS[None].repeat(2, 0), [WEIGHTS, WEIGHTS]])
def test_a_window_opens_where_it_is_asked_for(weights, screen, fonts):
    regard.show(weights, WORDS, window=True)
    assert len(screen) == 1


def test_a_window_and_a_file_may_be_asked_for_at_once(screen, fonts, tmp_path):
    regard.show(WEIGHTS, WORDS, path=tmp_path / "map.png", window=True)
    assert len(screen) == 1
    assert (tmp_path / "map.png").exists()


def test_the_function_of_the_documents_opens_a_window_by_itself(screen, fonts):
    regard.visualize_attention(WEIGHTS, WORDS, WORDS)
    assert len(screen) == 1


def test_the_former_name_of_window_is_answered_with_the_present_one():
    with pytest.raises(
        UnknownArgumentError, match="^show: no longer an argument of plot_weights.*: use window=$"
    ):
        regard.plot_weights(WEIGHTS[0], show=True)
