"""The shipped model that writes titles."""

from __future__ import annotations

import itertools
import re

import pytest

from regard.tasks.registry import find_model
from regard.tasks.summarize import Summarizer
from regard.tasks.summarize.task import SAMPLE_ABSTRACTS
from regard.tasks.summarize.words import words_of
from support.command_line import run_here

CITE_GUARD = (
    "Large language models invent references. CiteGuard is a retrieval-augmented agent that verifies citations in "
    "generated text. On a benchmark of scientific papers, CiteGuard improves accuracy by 12 points over prompting."
)


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
    (tmp_path / "paper.txt").write_text(CITE_GUARD, encoding="utf-8")
    done = run_here("summarize", "paper.txt", "--attention", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "CiteGuard" in done.stdout.splitlines()[0]
    assert "copied from 'CiteGuard'" in done.stdout


OTHER_TEXTS = [
    "The city council voted on Tuesday to close the Marlow Street bridge for eighteen months while its steel "
    "cables are replaced.",
    "Hypertension is a leading cause of cardiovascular death. We randomised 4,212 adults with stage 1 "
    "hypertension to amlodipine or chlorthalidone. Over 3.2 years, "
    "systolic pressure fell by 11 mmHg in the chlorthalidone arm.",
    "Hi",
    "今天天气很好，我们去公园散步。",
    "🙂🙂🙂",
    CITE_GUARD,
]


@pytest.mark.parametrize("text", OTHER_TEXTS)
@pytest.mark.parametrize("beams", [1, 5])
def test_every_word_is_of_the_text_or_of_the_training_and_is_not_repeated(titles: Summarizer, text, beams):
    (found,) = titles.summarize([text], beams=beams)
    assert titles.common is not None
    known, words = set(words_of(text)), words_of(found.text)
    assert [one for one in words if one not in known and titles.common.unk in titles.common.encode(one)] == []
    assert not any(one == after for one, after in itertools.pairwise(words))
    # Characters beyond ASCII are of the text, or quotes and dashes.
    assert set(re.findall(r"[^\x00-\x7f]", found.text)) <= {*text, *"“”‘’–—‐→↔"}


def test_a_text_in_another_language_is_told_in_one_line():
    done = run_here("summarize", "今天天气很好，我们去公园散步。", "--beams", "1", "--max-length", "4")
    told = [line for line in done.stderr.splitlines() if "seems to be" in line]
    assert told == ["regard: the text seems to be Chinese, but the model was trained on texts in English"]
    assert "seems to be" not in run_here("summarize", CITE_GUARD, "--beams", "1").stderr


def test_a_rare_name_is_written_whole(titles: Summarizer):
    (found,) = titles.summarize([CITE_GUARD])
    assert "CiteGuard" in found.text
