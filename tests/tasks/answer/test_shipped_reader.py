"""Tests of the shipped model `answer-en`, its size, its licence, its card and its figures."""

import json
import re
from collections import Counter

import pytest

from regard import tasks
from regard.analysis import word_spans
from regard.metrics import exact_match, normalized_answer
from regard.tasks.answer import Reader
from regard.tasks.registry import find_model
from regard.text.questions import read_questions
from support.command_line import run_here
from support.paths import ROOT, data_folder

FOLDER = find_model("answer", "answer-en")


def test_the_shipped_reader_is_small_and_says_its_licence():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 10e6
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert "CC BY-SA 4.0" in card
    assert "SQuAD" in card
    assert "## Limits" in card


@pytest.mark.parametrize("guide", ["en/answer.md", "zh/answer.md"])
def test_the_guide_names_the_licence_of_the_shipped_reader_and_its_data(guide):
    text = (ROOT / "docs" / guide).read_text(encoding="utf-8")
    licences = [line for line in text.splitlines() if "CC BY-SA 4.0" in line]
    assert len(licences) == 1
    assert "`answer-en`" in licences[0]
    assert "SQuAD 1.1" in text[text.index(licences[0]) :]


def test_a_question_is_answered_without_naming_a_model():
    context = "The lighthouse on Fair Island was built in 1874. Eleven ships had been lost there."
    done = run_here("answer", "How many ships had been lost?", "--context", context, "--json")
    found = json.loads(done.stdout)
    assert (found["answer"], found["start"], found["end"]) == ("Eleven", 49, 55)
    assert found["confidence"] > 0.5
    done = run_here("answer", "How tall is Mount Everest?", "--context", context)
    assert done.stdout.startswith("no answer found\t")


def test_a_fact_that_is_told_three_times_is_found_and_answered_in_few_words():
    """The questions are in four groups of ten."""
    questions = list(read_questions(ROOT / "benchmarks" / "repeated_facts.jsonl"))
    answers = Reader.load("answer-en").answer(questions, top=3)
    right: Counter[int] = Counter()
    for place, (question, answer) in enumerate(zip(questions, answers, strict=True)):
        assert normalized_answer(question.context).count(normalized_answer(question.texts[0])) == 3
        # The model may choose the wrong fact, but never one text with two mentions, nor a part of a word.
        assert len(answer.text) <= 20
        words = {end for span in word_spans(question.context) for end in span}
        assert all({one.start, one.end} <= words for one in answer.candidates)
        right[place // 10] += exact_match(answer.text, question.texts) == 1
    assert len(right) == 4
    assert min(right.values()) >= 9


def test_the_reader_has_a_threshold():
    assert 0.05 < Reader.load("answer-en").threshold < 0.9


def test_the_card_the_results_and_the_guide_have_the_measured_figures():
    options = {"data": str(data_folder("squad") / "valid.json.gz"), "baseline": True}
    report = tasks.evaluate("answer", "answer-en", options).to_json()
    exact, f1, baseline = report["exact"], report["f1"], report["compared"]["sliding window"]["f1"]
    assert f1 >= baseline + 8
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"exact match {exact:.2f}, F1 {f1:.2f}" in card
    row = re.search(r"shipped `answer-en`.*", (ROOT / "docs/en/results.md").read_text(encoding="utf-8"))
    assert row is not None
    assert f"**{exact:.2f}** | **{f1:.2f}**" in row[0]
    assert f"its F1 is {f1:.1f}." in (ROOT / "docs/en/answer.md").read_text(encoding="utf-8")
