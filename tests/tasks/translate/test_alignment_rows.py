"""One row of an alignment for each token or word that the model wrote, also in Chinese."""

import json
import re

import numpy as np
import pytest

import regard.plots
from regard.analysis import join_words
from regard.tasks.translate import Translator, align

TEXT = "The cat sits on the mat."


@pytest.fixture(scope="module")
def translator():
    return Translator.load("en-zh", device="cpu")


@pytest.fixture(scope="module")
def translation(translator):
    return translator.translate([TEXT])[0]


@pytest.fixture(scope="module")
def rows(translator, translation):
    """The texts of the tokens that the model wrote, of which each contains whole characters here."""
    spans = translator.target_spans(translation)
    return [translation.text[a:b] for a, b in spans]


def test_a_token_of_several_characters_is_one_row(translator, translation, rows):
    assert any(len(row) > 1 for row in rows)  # otherwise this shows nothing
    found = align(translator, translation)
    assert found.target_words == rows
    assert "".join(found.target_words) == translation.text
    for first, second in zip(found.weights, found.weights[1:], strict=False):
        assert not np.allclose(first, second)


def test_the_source_side_has_a_column_for_each_token(translator):
    """A translator from Chinese reads tokens of several characters."""
    turned = Translator(
        translator.model, translator.target, translator.source, source_language="zh", target_language="en"
    )
    (found,) = turned.translate(["猫坐在垫子上。"])
    columns = align(turned, found).source_words
    assert columns == ["猫", "坐在", "垫", "子上", "。"]


@pytest.mark.parametrize("ending", ["html", "png"])
def test_pictures_have_a_row_for_each_token(translator, translation, rows, tmp_path, monkeypatch, ending):
    from regard.tasks.word_pages import save_word_weights

    drawn = []

    def draw(weights, columns, labels, *, axes, **_):
        assert axes == ("Source", "Target")
        drawn.extend(labels)

    monkeypatch.setattr(regard.plots, "visualize_attention", draw)
    path = tmp_path / f"a.{ending}"
    save_word_weights(align(translator, translation), path, title="")
    if ending == "html":
        drawn = re.findall(r'<th scope="row">(.*?)</th>', path.read_text(encoding="utf-8"))
    assert drawn == rows


def test_the_command_line_has_a_row_for_each_token(rows, capsys, monkeypatch):
    from regard.cli.main import app

    monkeypatch.setenv("COLUMNS", "100")
    words = ["translate", TEXT, "--to", "zh", "--device", "cpu", "--attention"]
    app(words, standalone_mode=False)
    drawn = [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:] if line.strip()]
    assert drawn == rows
    app([*words, "--json"], standalone_mode=False)
    values = json.loads(capsys.readouterr().out)
    assert values["target_words"] == rows
    assert len(values["attention"]) == len(rows)


def test_words_are_joined_by_each_token_that_has_characters_of_both():
    words = [(0, 2), (2, 5)]  # L' and ami
    assert join_words(words, [(0, 1), (1, 2), (2, 5)]) == words
    assert join_words(words, [(0, 1), (1, 5)]) == [(0, 5)]
    assert join_words(words, [(0, 5)]) == [(0, 5)]
    assert join_words(words, []) == words
    assert join_words([(0, 1)], [(0, 1), (0, 1), (0, 1)]) == [(0, 1)]  # a character of three bytes
