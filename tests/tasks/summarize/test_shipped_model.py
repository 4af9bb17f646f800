"""The shipped model that writes titles."""

from __future__ import annotations

import pytest

from regard.tasks.registry import find_model
from regard.tasks.summarize import Summarizer
from regard.tasks.summarize.task import SAMPLE_ABSTRACTS
from support.command_line import run_here


@pytest.fixture(scope="module")
def titles() -> Summarizer:
    return Summarizer.load("titles-en")


def test_it_takes_less_than_ten_megabytes_and_is_the_default():
    folder = find_model("summarize")
    assert folder.name == "titles-en"
    assert sum(path.stat().st_size for path in folder.rglob("*")) <= 10e6


def test_the_samples_of_its_card_are_what_it_writes(titles: Summarizer):
    card = (find_model("summarize") / "README.md").read_text(encoding="utf-8")
    for found in titles.summarize(SAMPLE_ABSTRACTS):
        assert f"| {found.source} | {found.text} |" in card


def test_a_name_that_it_never_saw_is_copied_and_its_place_is_told(titles: Summarizer):
    text = "We present Zorblatt, a corpus of spoken Welsh. Zorblatt has 40 hours of conversations."
    (found,) = titles.summarize([text])
    origin = next(one for one in titles.origins(found) if one.word == "Zorblatt")
    assert origin.copied
    assert text[origin.start : origin.end] == "Zorblatt"


def test_the_command_needs_no_model(tmp_path):
    (tmp_path / "paper.txt").write_text(SAMPLE_ABSTRACTS[0], encoding="utf-8")
    done = run_here("summarize", "paper.txt", "--attention", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "PotPourri" in done.stdout.splitlines()[0]
    assert "copied from 'PotPourri'" in done.stdout
