"""Tests of the rows that are held out of the training data: their number, repeated texts, rare classes, one text."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from regard import tasks
from regard.errors import FileError
from regard.tasks.answer.data import QuestionSource
from regard.tasks.answer.settings import AnswerSettings
from regard.tasks.classify.data import LabelledSource
from regard.tasks.classify.settings import ClassificationSettings
from regard.tasks.encode.data import TextSource
from regard.tasks.encode.settings import EncodingSettings
from regard.tasks.pairs import PairSource
from regard.tasks.sampling import held_out_keys
from regard.tasks.translate.settings import TranslationSettings
from regard.text import LABEL_FIELDS, Skipped
from support.paths import ROOT

SMALL = {"width": 8, "ngram_buckets": 50, "steps": 1, "warmup": 1, "dropout": 0.0, "word_dropout": 0.0}
DATA = Path(os.environ.get("REGARD_DATA", ROOT.parent / "shared" / "data"))


def write(path, rows):
    path.write_text("".join(f"{text}\t{label}\n" for text, label in rows), encoding="utf-8")
    return str(path)


def labelled(data, **options):
    settings = ClassificationSettings(data=data, **options)
    return LabelledSource(
        settings, settings.hold_out_most, reading={"fields": LABEL_FIELDS, "max_words": None}
    )


@pytest.mark.parametrize("texts", [5, 20, 200, 1000])
def test_at_most_the_share_of_the_rows_is_held_out_however_often_texts_repeat(tmp_path, texts):
    rows = [(f"film {n % texts}", "ab"[n % texts % 2]) for n in range(1000)]
    source = labelled(write(tmp_path / "rows.tsv", rows), hold_out=0.2)
    valid, train = source.validation(), list(source.training())
    assert (len(valid), len(train)) == (200, 800)
    assert not {text for text, _ in valid} & {text for text, _ in train}


@pytest.mark.parametrize("source", ["pairs", "texts"])
def test_translations_and_lines_are_held_out_by_the_same_rule(tmp_path, source):
    data = write(tmp_path / "rows.tsv", [(f"a word {n % 20}", f"un mot {n}") for n in range(1000)])
    if source == "pairs":
        settings = TranslationSettings(data=data, source_language="en", target_language="fr")
        held = len(PairSource(settings, 2000).validation())
    else:
        lines = tmp_path / "lines.txt"
        lines.write_text("".join(f"a word {n % 20}\n" for n in range(1000)), encoding="utf-8")
        skipped = Skipped()
        assert len(list(TextSource(EncodingSettings(data=str(lines))).training(skipped))) == 900
        held = skipped.held_out
    assert held == 100


def test_a_text_with_more_rows_than_the_share_is_trained_on():
    keys = [*["often"] * 90, *(f"once {n}" for n in range(10))]
    for seed in range(20):
        held = held_out_keys(keys, share=0.05, most=100, seed=seed)
        assert len(held) in (4, 5)
        assert "often" not in held


def test_the_rarest_text_is_held_out_if_every_text_has_more_rows_than_the_share():
    for seed in range(10):
        assert held_out_keys(["a", "b", "b", "c", "c", "c"], share=0.1, most=9, seed=seed) == {"a"}


def test_no_class_is_held_out_as_a_whole(tmp_path):
    rows = [(f"film {n}", "ab"[n % 2]) for n in range(120)] + [(f"rare {n}", f"r{n}") for n in range(20)]
    data = write(tmp_path / "rows.tsv", rows)
    without_classes = PairSource(ClassificationSettings(data=data), 2000)
    assert any(text.startswith("rare") for text in without_classes.chosen_keys)
    source = labelled(data)
    assert {label for _, label in source.training()} == {label for _, label in rows}
    # Only the texts that a class needs are given back.
    rest = {text for text in without_classes.chosen_keys if not text.startswith("rare")}
    assert source.chosen_keys == rest
    assert len(source.chosen_keys) > 5


def test_a_class_of_two_texts_that_would_both_be_held_out_keeps_one(tmp_path):
    rows = [(f"film {n}", "ab"[n % 2]) for n in range(100)]
    source = PairSource(ClassificationSettings(data=write(tmp_path / "rows.tsv", rows)), 2000)
    first, second = sorted(source.chosen_keys)[:2]
    rare = [(text, "rare" if text in (first, second) else label) for text, label in rows]
    chosen = labelled(write(tmp_path / "rare.tsv", rare)).chosen_keys
    assert len(chosen) == 9
    assert len(chosen & {first, second}) == 1


def test_classes_of_one_text_each_are_refused_in_words(tmp_path):
    data = write(tmp_path / "rows.tsv", [("good", "pos"), ("bad", "neg")])
    told = r"no row of .*rows\.tsv can be held out .* each class has one text only.* with valid="
    with pytest.raises(FileError, match=told):
        tasks.train("classify", {**SMALL, "data": data}, tmp_path / "run", show=False)
    three = labelled(write(tmp_path / "three.tsv", [("bad", "neg"), ("good", "pos"), ("poor", "neg")]))
    assert three.chosen_keys <= {"bad", "poor"}
    assert len(three.chosen_keys) == 1


def test_labels_that_contradict_each_other_are_warned_of(tmp_path):
    rows = [(f"film {n}", label) for n in range(60) for label in "ab"]
    data = write(tmp_path / "rows.tsv", rows)
    told = r"data: 54 rows have the text of an earlier row with another label \(the first: 'film 0'\)"
    with pytest.warns(UserWarning, match=told):
        tasks.train("classify", {**SMALL, "data": data}, tmp_path / "run", show=False)


def test_one_context_cannot_be_on_both_sides(tmp_path):
    answer = {"text": "red", "answer_start": 7}
    rows = [{"question": f"Q{n}?", "context": "It was red.", "answers": [answer]} for n in range(80)]
    data = tmp_path / "one.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    source = QuestionSource(AnswerSettings(data=str(data)), 1000)
    with pytest.raises(FileError, match=r"all rows of .*one\.jsonl have the same context.*with valid="):
        source.validation()


@pytest.mark.slow
def test_the_rows_of_the_published_figures_are_held_out():
    if not (DATA / "imdb").is_dir():
        pytest.skip("needs the reviews of IMDb and SQuAD, see REGARD_DATA")
    source = labelled(str(DATA / "imdb" / "train.tsv.gz"), columns="3,0")
    assert (len(source.chosen_keys), len(source.validation())) == (2000, 2006)
    assert _digest(source.chosen_keys) == "d721c6e005afb818"
    questions = QuestionSource(AnswerSettings(data=str(DATA / "squad" / "train.json.gz")), 1000)
    valid = questions.validation()
    assert (len(valid), len({row.article for row in valid})) == (754, 3)
    assert _digest(questions.chosen_keys) == "7f93b17066249081"


def _digest(keys):
    return hashlib.sha256("\n".join(sorted(keys)).encode()).hexdigest()[:16]
