"""Tests of the shipped writer, its size, its card and its loss."""

import re

import pytest

from regard import tasks
from regard.errors import FileError
from regard.tasks.registry import find_model
from support.command_line import run_here
from support.paths import data_folder

try:
    FOLDER = find_model("write", "shakespeare")
except FileError:
    pytest.skip("the model shakespeare is not installed", allow_module_level=True)


def test_it_takes_at_most_5_megabytes():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 5e6


def test_the_command_needs_neither_a_model_nor_a_prompt(tmp_path):
    result = run_here("write", "ROMEO:", "--max-tokens", "80", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("ROMEO:")
    words = re.findall(r"[a-z]{2,}", result.stdout)
    assert len(words) > 8
    assert {"the", "and", "to", "of", "my", "you", "that", "in"} & set(words)
    (tmp_path / "empty.txt").write_text("", encoding="utf-8")
    again = run_here("write", "--file", "empty.txt", "--max-tokens", "20", cwd=tmp_path)
    assert len(again.stdout) > 20


def test_the_card_has_licence_figure_and_command():
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    for words in ("ublic domain", "regard train write", "every character once"):
        assert words in card


@pytest.mark.slow
def test_it_is_as_good_as_its_card_says():
    path = data_folder("tiny_shakespeare") / "input.txt.gz"
    report = tasks.evaluate("write", "shakespeare", {"data": str(path), "last": 0.1}).to_json()
    assert report["characters"] == 111_540
    assert f"loss {report['loss']:.3f}" in (FOLDER / "README.md").read_text(encoding="utf-8")
