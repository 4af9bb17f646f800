"""Tests of the shipped classifier, its size, its card and its accuracy."""

import json
import re

import pytest
from safetensors import safe_open

from regard import tasks
from regard.tasks.classify import Classifier
from regard.tasks.registry import find_model
from support.command_line import run_here
from support.paths import data_folder

FOLDER = find_model("classify", "sentiment-en")


@pytest.fixture(scope="module")
def classifier():
    return Classifier.load("sentiment-en")


def test_it_takes_at_most_5_megabytes_in_float16():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 5e6
    with safe_open(FOLDER / "model.safetensors", "pt") as tensors:
        kinds = {tensors.get_slice(one).get_dtype() for one in tensors.keys()}  # noqa: SIM118
    assert kinds == {"F16"}


def test_it_labels_plain_sentences(classifier):
    good = ["A film of great warmth and wit.", "A moving, beautifully acted drama.", "funny and touching"]
    bad = ["The plot is thin and the jokes are worse.", "dull, tedious and far too long", "a boring mess"]
    assert {one.label for one in classifier.classify(good)} == {"positive"}
    assert {one.label for one in classifier.classify(bad)} == {"negative"}


def test_the_command_needs_no_model_and_says_how_sure_it_is(tmp_path):
    result = run_here("classify", "A film of great warmth and wit.", "--attention", cwd=tmp_path)
    assert re.match(r"positive\t0\.9\d\d\n", result.stdout), result.stderr
    assert "*warmth*" in result.stdout


def test_a_text_without_a_known_word_is_said_to_be_a_guess(tmp_path):
    result = run_here("classify", "这部电影很好看", "A good film.", cwd=tmp_path)
    assert result.returncode == 0
    assert "the model knows no word of '这部电影很好看': the label is a guess" in result.stderr
    assert "A good film" not in result.stderr


def test_the_card_has_licence_figure_command_and_calibration():
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    for words in ("CC BY 4.0", "accuracy 78.67 %", "regard train classify", "expected calibration error"):
        assert words in card


def test_it_is_as_good_as_its_card_says(classifier):
    path = data_folder("rt_polarity") / "test.tsv.gz"
    report = tasks.evaluate("classify", classifier, {"data": str(path), "columns": "1,0"}).to_json()
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"accuracy {report['accuracy']:.2f} %" in card
    assert f"calibration error {report['calibration_error']:.2f} %" in card
    assert json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))["temperature"] != 1
