"""Tests of the translator in Python, with names, iterables, settings and alignments of any text."""

import json
import re

import numpy as np
import pytest

from regard.decoding import DecodingOptions
from regard.errors import ArgumentError, DtypeError, FileError, UnknownArgumentError
from regard.tasks.translate import Translator, align, find_translator
from support.command_line import assert_one_line, run_here

LONG = "The cat is black. " * 25
CAT = "The cat is black."


@pytest.fixture(scope="module")
def translator():
    return Translator.load("en-fr")


# ---- load


def test_load_takes_a_name_a_folder_or_a_run(translator, tmp_path):
    assert (translator.source_language, translator.target_language) == ("en", "fr")
    translator.save(tmp_path / "run" / "best")
    for place in (find_translator("en-fr"), tmp_path / "run" / "best", str(tmp_path / "run")):
        assert Translator.load(place).translate([CAT])[0].text == "Le chat est noir."
    with pytest.raises(
        FileError, match="model: en-xx is neither a folder with a model nor a name; installed are"
    ):
        Translator.load("en-xx")


# ---- translate


def test_any_iterable_of_texts_is_translated(translator):
    several = [CAT, "", "A dog sleeps."]
    expected = [one.text for one in translator.translate(several)]
    assert expected == ["Le chat est noir.", "", "Un chien dort."]
    for texts in (tuple(several), iter(several), (text for text in several), dict.fromkeys(several)):
        assert [one.text for one in translator.translate(texts)] == expected
    assert translator.translate(iter([])) == []


@pytest.mark.parametrize(
    ("texts", "part"),
    [
        (None, "texts: expected a list of texts, got None"),
        (CAT, "texts: expected a list of texts, got one string: put it in a list"),
        (7, "texts: expected a list of texts, got 7"),
        ([CAT, None], "texts: expected texts, got None at place 1"),
        ([b"cat"], "texts: expected texts, got b'cat' at place 0"),
    ],
)
def test_inputs_that_are_not_text_are_refused(translator, texts, part):
    with pytest.raises(DtypeError, match=part):
        translator.translate(texts)


def test_decoding_settings_are_keywords_of_translate(translator):
    greedy = translator.translate([CAT], DecodingOptions(beams=1))[0]
    assert translator.translate([CAT], beams=1)[0] == greedy
    assert len(translator.translate([CAT], n_best=7)[0].alternatives) == 6
    both = translator.translate([CAT], DecodingOptions(beams=3, n_best=2), max_length=2)[0]
    assert len(both.alternatives) == 1
    assert both.cut_off
    with pytest.raises(UnknownArgumentError, match="beam: not a setting of translate.*did you mean 'beams'"):
        translator.translate([CAT], beam=3)
    with pytest.raises(ArgumentError, match="n_best: expected at most 3"):
        translator.translate([CAT], beams=3, n_best=4)


def test_a_batch_has_the_size_that_is_asked_for(translator, monkeypatch):
    sizes, decoded = [], translator.decoded
    monkeypatch.setattr(
        translator, "decoded", lambda ids, *rest: sizes.append(len(ids)) or decoded(ids, *rest)
    )
    texts = [f"The cat sees {n} dogs." for n in range(2, 9)]
    expected = [one.text for one in translator.translate(texts)]
    for size, batches in ((3, [3, 3, 1]), (1, [1] * 7), (None, [7])):
        sizes.clear()
        assert [one.text for one in translator.translate(texts, batch_size=size)] == expected
        assert sizes == batches
    with pytest.raises(ArgumentError, match="batch_size: expected a whole number of 1 or more, got 0"):
        translator.translate(texts, batch_size=0)


# ---- scores


def test_scores_are_normalised_alike_by_search_and_by_sampling(translator):
    (found,) = translator.translate([CAT], beams=1)
    drawn = [one for seed in range(20) for one in translator.translate([CAT], sample=True, seed=seed)]
    same = [one for one in drawn if one.target_ids == found.target_ids]
    assert same
    assert same[0].score == pytest.approx(found.score, abs=1e-5)
    # The unnormalised log-probability is several times this: one token after the other multiplies it.
    assert found.score > -1


def test_the_score_of_a_long_text_is_that_of_its_tokens(translator):
    long = translator.translate([LONG], n_best=2)[0]
    assert len(long.parts) > 1
    lengths = [len(part.target_ids) + 1 for part in long.parts]
    expected = sum(n * part.score for n, part in zip(lengths, long.parts, strict=True)) / sum(lengths)
    assert long.score == pytest.approx(expected)
    with_copied = translator.translate([f"{LONG} {'x' * 2000}"], n_best=2)[0]
    assert len(with_copied.alternatives) == 1
    assert with_copied.score == pytest.approx(expected, abs=0.2)


def test_a_truncated_translation_says_so(translator):
    assert not translator.translate([CAT])[0].cut_off
    assert translator.translate([CAT], max_length=2)[0].cut_off
    assert translator.translate([LONG], max_length=2)[0].cut_off
    assert not translator.translate([""], max_length=2)[0].cut_off


# ---- align


def test_a_text_that_was_split_is_aligned_part_by_part(translator):
    (done,) = translator.translate([LONG])
    found = align(translator, done)
    assert found.weights.shape == (len(found.target_words), len(found.source_words))
    assert found.source_words == ["The", "cat", "is", "black", "."] * 25
    assert "".join(found.target_words) == done.text.replace(" ", "")
    assert found.weights.sum(axis=1).min() > 0.3
    first = align(translator, done.parts[0])
    rows, columns = first.weights.shape
    np.testing.assert_array_equal(found.weights[:rows, :columns], first.weights)
    assert found.weights.mask[:rows, columns:].all()  # nothing was computed there
    assert not found.weights.mask[:rows, :columns].any()
    best = {
        (word, found.source_words[row.argmax()])
        for word, row in zip(found.target_words, found.weights, strict=True)
    }
    assert {("chat", "cat"), ("noir", "black")} <= best


@pytest.mark.parametrize("text", ["", "   "])
def test_an_empty_text_has_an_empty_alignment(translator, text):
    found = align(translator, translator.translate([text])[0])
    assert (found.source_words, found.target_words, found.weights.shape) == ([], [], (0, 0))


def test_a_text_with_a_copied_word_is_aligned(translator):
    (done,) = translator.translate([f"{CAT} {'x' * 2000} A dog sleeps."])
    found = align(translator, done)
    copied = next(i for i, word in enumerate(found.target_words) if word.startswith("xxx"))
    assert (found.marks[copied], found.weights[copied].mask.all()) == ("copied", True)


def test_the_docstring_names_methods_that_exist():
    words = Translator.__doc__ or ""
    named = re.findall(r"``(?:Translator\.)?(\w+)\(", words)
    assert named == ["load", "translate"]
    assert all(hasattr(Translator, name) for name in named)
    assert "regard.tasks.translate.align" in words


# ---- on the command line


def test_every_line_of_n_best_has_its_score():
    result = run_here("translate", CAT, "--n-best", "3")
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert len(lines) == 3
    scores = [float(score) for _, score in lines]
    assert scores == sorted(scores, reverse=True)
    assert lines[0][0] == "Le chat est noir."
    assert run_here("translate", CAT).stdout == "Le chat est noir.\n"


def test_json_output_marks_truncated_translations():
    values = [
        json.loads(run_here("translate", CAT, "--json", *more).stdout) for more in ([], ["--max-length", "2"])
    ]
    assert [one["cut_off"] for one in values] == [False, True]


def test_the_batch_size_option_is_used(monkeypatch, tmp_path):
    asked, translate = [], Translator.translate
    monkeypatch.setattr(
        Translator,
        "translate",
        lambda self, *a, **k: asked.append(k["batch_size"]) or translate(self, *a, **k),
    )
    (tmp_path / "in.txt").write_text("A dog.\nA cat.\nA dog sleeps.\n", encoding="utf-8")
    result = run_here("translate", "--file", "in.txt", "--batch-size", "2", cwd=tmp_path)
    assert result.stdout.splitlines() == ["Un chien.", "Un chat.", "Un chien dort."]
    assert set(asked) == {2}
    assert_one_line(run_here("translate", "A dog.", "--batch-size", "0"), 2, "--batch-size")


def test_the_first_of_compared_models_is_named(tmp_path, translator):
    translator.save(tmp_path / "other")
    (tmp_path / "x.tsv").write_text(f"{CAT}\tLe chat est noir.\n", encoding="utf-8")
    words = ["evaluate", "translate", "--data", "x.tsv", "--compare", "other"]
    shown = run_here(*words, cwd=tmp_path).stdout.splitlines()
    assert [line for line in shown if line.endswith(":") and " " not in line] == ["en-fr:", "other:"]
    values = json.loads(run_here(*words, "--json", cwd=tmp_path).stdout)
    assert values["model"] == "en-fr"
    assert [*values["compared"]] == ["other"]
