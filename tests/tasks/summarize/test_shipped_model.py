"""The shipped model that writes titles."""

from __future__ import annotations

import gzip
import itertools
import json
import re

import pytest

from regard.tasks.registry import find_model
from regard.tasks.summarize import Summarizer
from regard.tasks.summarize.task import SAMPLE_ABSTRACTS
from regard.tasks.summarize.words import words_of
from support.command_line import run_here
from support.paths import data_folder

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


BUDGET = (
    "The city council voted on Tuesday to close the Marlow Street bridge for eighteen months while its rusty steel "
    "cables are replaced. Drivers will have to cross the river two miles north. The mayor said that taxpayers would "
    "not pay for the repairs, but several residents doubted it."
)


def test_a_text_of_another_field_is_told_in_one_line():
    words = ["--beams", "1", "--max-length", "4"]
    one = run_here("summarize", BUDGET, *words)
    assert [line for line in one.stderr.splitlines() if "unlike" in line] == [
        "regard: the text is unlike those that the model was trained on: its summary may be wrong"
    ]
    two = run_here("summarize", CITE_GUARD, BUDGET, "--json", *words)
    assert [json.loads(line)["far_from_training"] for line in two.stdout.splitlines()] == [False, True]
    told = [line for line in two.stderr.splitlines() if "unlike" in line]
    assert told == [
        "regard: 1 of 2 texts are unlike those that the model was trained on: their summaries may be wrong"
    ]
    # A text in another language is told once.
    assert "unlike" not in run_here("summarize", "今天天气很好，我们去公园散步。", *words).stderr
    assert "unlike" not in run_here("summarize", CITE_GUARD, *words).stderr


def test_the_field_is_told_from_others_on_texts_that_it_was_not_chosen_on(titles: Summarizer):
    """Even lines of the validation abstracts chose the limit."""

    def share(texts):
        return sum(map(bool, map(titles.is_far, texts))) / len(texts)

    def lines(name):
        return (
            gzip.decompress((data_folder(name.split("/")[0]).parent / name).read_bytes())
            .decode()
            .splitlines()
        )

    abstracts = [line.split("\t")[2] for line in lines("acl_titles/valid.tsv.gz")[1::2]]
    assert share(abstracts) <= 0.01
    assert share([abstract.split(". ")[0] for abstract in abstracts]) <= 0.02
    reviews = [line.split("\t")[3] for line in lines("imdb/test.tsv.gz")]
    assert share(reviews[::10]) > 0.9
    articles = json.loads("".join(lines("squad/valid.json.gz")))["data"]
    assert share([one["context"] for article in articles for one in article["paragraphs"]]) > 0.95
    speech = [line for line in lines("tiny_shakespeare/input.txt.gz") if line]
    assert share([" ".join(speech[start : start + 15]) for start in range(0, 6000, 15)]) > 0.95
    news = [line.split("\t")[0] for line in lines("long_sentences/ntrex.en-fr.tsv.gz")]
    assert share([" ".join(news[start : start + 6]) for start in range(0, len(news), 6)]) > 0.9
