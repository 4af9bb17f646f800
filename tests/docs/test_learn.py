"""Tests that the page on the exercises lists them as they are."""

import re

import pytest

from regard.learn.bank import EXERCISES
from regard.learn.questions import measure_scaling, measure_shuffling
from support.exercise_files import check, write
from support.paths import ROOT


def page(language: str) -> str:
    return (ROOT / "docs" / language / "learn.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_table_has_every_exercise_and_the_number_of_its_mistakes(language):
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| (.*) \| (\d+) \|$", page(language), flags=re.MULTILINE)
    expected = [
        (str(number), one.name, one.title.say(language), str(len(one.mistakes)))
        for number, one in enumerate(EXERCISES, start=1)
    ]
    assert rows == expected


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_numbers_of_exercises_and_mistakes_are_those_of_the_bank(language):
    numbers = {int(number) for number in re.findall(r"\d+", page(language).split("##")[0])}
    assert {len(EXERCISES), sum(len(one.mistakes) for one in EXERCISES)} <= numbers


def test_the_messages_on_the_page_are_those_of_the_checker(tmp_path):
    source, two_mistakes, unknown = re.findall(
        r"^```text\n(.*?)^```", page("en"), flags=re.MULTILINE | re.DOTALL
    )
    rounded = source.replace("Q @ K.T\n", "Q @ K.T / np.sqrt(Q.shape[-1])\n").replace(
        "    weights = np.exp(scores) / np.exp(scores).sum(axis=0)\n",
        "    weights = np.exp(scores)\n"
        "    weights = weights / weights.sum(axis=-1, keepdims=True)\n"
        "    weights = weights.round(1)\n",
    )
    said = check("simple_attention", write(tmp_path, source)).text
    assert said.split() == two_mistakes.split()
    said = check("simple_attention", write(tmp_path, rounded)).text
    assert said.split()[: len(unknown.split())] == unknown.split()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_tables_of_the_questions_are_measured(language):
    text = page(language)
    for row in measure_scaling():
        numbers = " | ".join(f"{number:.2f}" for number in row[2:])
        assert f"| {row.width} | {numbers} |" in text
    for one in measure_shuffling():
        assert f" | {one.self_attention:.3f} | {one.cross_attention:.3f} |" in text
