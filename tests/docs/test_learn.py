"""Tests that the page on the exercises lists them as they are."""

import re

import pytest

from regard.learn.bank import EXERCISES
from regard.learn.questions import is_clear, measure_heads, measure_scaling, measure_shuffling
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


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_messages_on_the_page_are_those_of_the_checker(language, tmp_path):
    source, two_mistakes, unknown = re.findall(
        r"^```text\n(.*?)^```", page(language), flags=re.MULTILINE | re.DOTALL
    )
    rounded = source.replace("Q @ K.T\n", "Q @ K.T / np.sqrt(Q.shape[-1])\n").replace(
        "    weights = np.exp(scores) / np.exp(scores).sum(axis=0)\n",
        "    weights = np.exp(scores)\n"
        "    weights = weights / weights.sum(axis=-1, keepdims=True)\n"
        "    weights = weights.round(1)\n",
    )
    # The page has line breaks of its own, and Chinese has no spaces at them.
    said = check("simple_attention", write(tmp_path, source), language=language).text
    assert "".join(said.split()) == "".join(two_mistakes.split())
    said = check("simple_attention", write(tmp_path, rounded), language=language).text
    assert "".join(said.split()).startswith("".join(unknown.split()))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_tables_of_the_questions_are_measured(language):
    text = page(language)
    for row in measure_scaling():
        numbers = " | ".join(f"{number:.2f}" for number in row[2:])
        assert f"| {row.width} | {numbers} |" in text
    for one in measure_shuffling():
        assert f" | {one.self_attention:.3f} | {one.cross_attention:.3f} |" in text


# The sentence on the heads of the translator, of which the numbers are those before, at and after the token.
HEADS = {
    "en": "{before} of {number} heads look at the token before, {itself} at the token itself and {after} at the token "
    "after, at least three times as much as equal weights would.",
    "zh": "{number} 个头里有 {before} 个看前一个词元，{itself} 个看自身，{after} 个看后一个词元，"
    "权重至少是均匀权重的三倍。",
}


@pytest.mark.slow
def test_the_numbers_of_heads_are_measured():
    equal, heads = measure_heads()
    places = [
        [place for place in ("before", "itself", "after") if is_clear(one, equal, place)] for one in heads
    ]
    counts = {place: sum(place in found for found in places) for place in ("before", "itself", "after")}
    # The pages name the only head that looks at two places, the first one of the second layer.
    assert [n for n, found in enumerate(places) if len(found) > 1] == [4]
    for language in ("en", "zh"):
        sentence = HEADS[language].format(**counts, number=len(heads))
        assert "".join(sentence.split()) in "".join(page(language).split())
