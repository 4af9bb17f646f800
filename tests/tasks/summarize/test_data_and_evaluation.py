"""Tests of the data of summarisers, of its test part, and of their evaluation."""

import gzip
import json

import pytest

from regard import tasks
from regard.corpus.reports import reports
from regard.errors import ArgumentError, FileError, UnknownNameError
from regard.metrics import mean_rouge
from regard.tasks.sampling import in_test_part
from regard.tasks.summarize import SummarySettings, scores_of
from regard.tasks.summarize.data import SummarySource, prepare, with_first_space
from regard.tasks.summarize.heuristics import HEURISTICS
from regard.tasks.summarize.words import common_words
from regard.text import Skipped
from support.paths import data_folder
from support.summarizers import small_summarizer

TITLES = {f"We study topic {n} of {100 - n} topics.": f"Topic {n}" for n in range(100)}


def write_titles(folder, rows=None):
    path = folder / "titles.tsv"
    lines = [f"{text}\t{title}\n" for text, title in (rows or TITLES.items())]
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


def settings(data, **values):
    small = {"vocabulary_size": 300, "test_share": 0.3, "validate_texts": 10, "epochs": 1.0}
    return SummarySettings(data=data, **{**small, **values})


def parts(data, **values):
    """Return the texts that are trained on, validated on, and in neither part."""
    source = SummarySource(settings(data, **values), 10, None, 0, {"max_words": None})
    train, valid = ({text.strip() for text, _ in rows} for rows in (source.training(), source.validation()))
    return train, valid, {*TITLES} - train - valid


# -- the test part ---------------------------------------------------------------------------------------------------


def test_the_test_part_is_neither_trained_on_nor_validated_on(tmp_path):
    train, valid, test = parts(write_titles(tmp_path))
    assert 15 < len(test) < 45
    assert len(valid) == (100 - len(test)) // 10
    assert train.isdisjoint(valid)
    assert test == {text for text in TITLES if in_test_part(with_first_space(text), 0.3, 0)}


def test_the_test_part_depends_on_its_seed_and_not_on_the_order_or_the_seed_of_the_run(tmp_path):
    data = write_titles(tmp_path)
    test = parts(data)[2]
    assert parts(data, test_seed=1)[2] != test
    assert parts(data, seed=5)[2] == test
    assert parts(write_titles(tmp_path, [*TITLES.items()][::-1]))[2] == test
    assert parts(data, test_share=0.0)[2] == set()


def test_the_rows_of_the_test_part_are_counted_as_held_out(tmp_path):
    data, skipped = write_titles(tmp_path), Skipped()
    source = SummarySource(settings(data), 10, None, 0, {"max_words": None})
    count = sum(1 for _ in source.training(skipped))
    assert count + skipped.held_out == 100


def test_the_test_part_of_a_model_is_measured(tmp_path):
    data = write_titles(tmp_path)
    test = parts(data, test_seed=2)[2]
    summarizer = small_summarizer(test_share=0.3, test_seed=2)
    measured = []
    whole = summarizer.summarize
    summarizer.summarize = lambda texts, *rest: measured.extend(texts) or whole(texts, *rest, max_length=3)
    report = tasks.evaluate("summarize", summarizer, {"data": data, "test_part": True, "beams": 1})
    assert {text.strip() for text in measured} == test
    assert report.to_json()["texts"] == len(test)
    assert report.measured_on == f"{len(test)} texts of the test part of {data}"
    # A sample is taken of the test part.
    report = tasks.evaluate(
        "summarize", summarizer, {"data": data, "test_part": True, "beams": 1, "limit": 5}
    )
    assert report.to_json()["texts"] == 5


def test_models_with_another_test_part_are_not_compared(tmp_path):
    data = write_titles(tmp_path)
    for seed in (1, 2):
        small_summarizer(test_share=0.3, test_seed=seed).save(tmp_path / str(seed))
    small_summarizer().save(tmp_path / "none")
    options = {"data": data, "test_part": True}
    with pytest.raises(ArgumentError, match="compare: .*/2 was trained with another test part"):
        tasks.evaluate("summarize", str(tmp_path / "1"), options, compare=[str(tmp_path / "2")])
    with pytest.raises(
        ArgumentError, match="test_part: the training of .*none kept none: train with test_share="
    ):
        tasks.evaluate("summarize", str(tmp_path / "none"), options)


# -- data ------------------------------------------------------------------------------------------------------------


def test_long_texts_are_cut_and_long_summaries_left_out(tmp_path):
    rows = [*TITLES.items(), ("word " * 5000, "Long text"), ("A long title", "word " * 50)]
    limits = {"max_tokens": 40, "max_summary": 20, "test_share": 0.0}
    data = prepare(settings(write_titles(tmp_path, rows), **limits), tmp_path / "run", learn=True)
    lengths = data.train.lengths() - 1  # without the end
    assert lengths[:, 0].max() == 40
    assert lengths[:, 1].max() <= 20
    assert data.train.skipped.too_long == 1


def test_another_limit_of_summaries_builds_the_cache_again(tmp_path):
    data = write_titles(tmp_path)
    first = prepare(settings(data), tmp_path / "run", learn=True)
    again = prepare(settings(data), tmp_path / "run")
    other = prepare(settings(data, max_summary=3), tmp_path / "run")
    assert first.train.manifest["fingerprint"] == again.train.manifest["fingerprint"]
    assert first.train.manifest["fingerprint"] != other.train.manifest["fingerprint"]


@pytest.mark.parametrize("names", [("abstract", "title"), ("document", "summary"), ("article", "highlights")])
def test_fields_of_texts_and_summaries_are_found_by_their_names(names, tmp_path):
    path = tmp_path / "data.jsonl"
    rows = [{"id": str(n), names[1]: title, names[0]: text} for n, (text, title) in enumerate(TITLES.items())]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    source = SummarySource(settings(str(path), test_share=0.0), 10, None, 0, {"max_words": None})
    text, title = next(source.training())
    assert text.startswith(" We study topic")
    assert title.startswith(" Topic")


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"test_share": 1.0}, "test_share: expected a share from 0 to below 1, got 1.0"),
        ({"test_share": 0.0, "test_seed": 3}, "test_seed: of no use without a test part: add test_share="),
        ({"validate_texts": 0}, "validate_texts: expected 1 or more, got 0"),
        ({"max_summary": 0}, "max_summary: expected 1 or more, got 0"),
        ({"architecture": "seq2seq", "heads": 8}, "heads: of no use for architecture=seq2seq"),
        ({"architecture": "seq2seq", "score": "none"}, "copy: .*score=none"),
    ],
)
def test_settings_that_cannot_work_are_named(values, problem):
    with pytest.raises(ArgumentError, match=problem):
        settings("x.tsv", **values)


def test_settings_without_data():
    with pytest.raises(ArgumentError, match="embedded: nothing to train on: got 0"):
        SummarySettings(embedded=0)
    with pytest.raises(ArgumentError, match="test_share: of no use without data="):
        SummarySettings(test_share=0.1)
    assert SummarySettings.complete({})["steps"]
    assert SummarySettings.complete({"data": "x.tsv"}) == {"epochs": 10.0, "data": "x.tsv"}
    assert "epochs" not in SummarySettings.complete({"data": "x.tsv", "minutes": 3.0})
    assert "heads" not in SummarySettings.complete({"architecture": "seq2seq"})


def test_common_words_are_in_five_rows():
    words = common_words([("cat cat cat", "x")] * 4 + [("dog", "Dog")] * 5)
    assert [words.unk in words.encode(word) for word in ("cat", "x", "dog", "Dog")] == [
        True,
        True,
        False,
        False,
    ]


# -- the embedded reports --------------------------------------------------------------------------------------------


def test_a_headline_is_about_the_person_named_most_often():
    for report in reports(50, split="valid", seed=3):
        name = report.headline.split()[0]
        assert report.text.count(name) >= 2
        subjects = [sentence.split()[0] for sentence in report.text.split(". ")]
        assert max(subjects, key=subjects.count) == name
        assert [one for one in subjects if one != name] == [
            *dict.fromkeys(one for one in subjects if one != name)
        ]


def test_names_of_one_split_are_in_no_other():
    names = {
        split: {report.headline.split()[0] for report in reports(300, split=split)}
        for split in ("train", "valid", "test")
    }
    assert names["train"].isdisjoint(names["valid"] | names["test"])
    assert names["valid"].isdisjoint(names["test"])
    assert list(reports(3, seed=1)) == list(reports(3, seed=1)) != list(reports(3, seed=2))
    with pytest.raises(UnknownNameError, match="split"):
        reports(1, split="dev")


# -- measures --------------------------------------------------------------------------------------------------------


def test_scores_are_those_computed_by_hand():
    common = common_words([("a new model of words", "x")] * 5)
    rows = [("A new model BERTIX of words.", "BERTIX: a model"), ("Words of ZARF.", "ZARF words new")]
    scores = scores_of(["a bertix model", "a new"], rows, common, stemmer=False)
    assert scores.rouge1 == pytest.approx((100 + 100 * 2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3)) / 2)
    assert scores.length_ratio == 5 / 6
    assert scores.novel == 40.0  # "a" and "new" are not in the second text
    # Rare are bertix and zarf. "new" of the second reference is not in its text.
    assert (scores.rare_words, scores.rare_recall) == (2, 50.0)
    assert scores_of(["x"], rows[:1]).rare_words is None
    assert scores_of(["x"], [("a model", "a model")], common).rare_recall is None
    with pytest.raises(ArgumentError, match="data: there is nothing to measure on"):
        scores_of([], [])


def test_a_report_shows_the_models_beside_the_heuristics(tmp_path):
    for name in ("one", "two"):
        small_summarizer(max_tokens=8).save(tmp_path / name)
    models = [str(tmp_path / name) for name in ("one", "two")]
    report = tasks.evaluate("summarize", models[0], {"limit": 5, "beams": 1}, compare=models[1:])
    text, values = str(report), report.to_json()
    assert "ROUGE is the mean F1, with the stemmer" in text
    assert [line.split("  ")[0] for line in text.splitlines()[3:7]] == [
        *models,
        "first 12 words",
        "central sentence",
    ]
    assert values["compared"][models[1]]["rouge1"] == values["rouge1"]
    assert values["heuristics"]["central sentence"]["rouge1"] > values["rouge1"]
    assert f"{models[0]}: 5 of 5 texts have more than 8 tokens: their end was not read" in report.notes
    plain = tasks.evaluate("summarize", models[0], {"limit": 5, "beams": 1, "stemmer": False})
    assert "without the stemmer" in str(plain)


def test_predictions_are_written_line_by_line_and_unknown_scripts_are_told(tmp_path):
    data = write_titles(tmp_path, [("We study topics.", "Topics"), ("我们研究模型。", "模型")])
    options = {"data": data, "out": str(tmp_path / "out.txt"), "beams": 1}
    report = tasks.evaluate("summarize", small_summarizer(), options)
    assert len((tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()) == 2
    assert report.notes == ["1 references have no letter from a to z and no digit, so their ROUGE is 0"]
    with pytest.raises(ArgumentError, match="out: its lines would be those of the test part"):
        tasks.evaluate("summarize", small_summarizer(), {**options, "test_part": True})


def test_the_validation_data_of_a_run_chooses(tmp_path):
    """The validation has ROUGE and perplexity of the validation rows."""
    data = write_titles(tmp_path)
    small = {"width": 16, "heads": 2, "feed_forward": 16, "encoder_layers": 1, "decoder_layers": 1}
    values = {**small, "data": data, "test_share": 0.3, "vocabulary_size": 300, "steps": 2, "warmup": 1}
    outcome = tasks.train("summarize", {**values, "validate_texts": 5}, tmp_path / "run", show=False)
    assert set(outcome.best) == {"rouge1", "rouge2", "rougeL", "perplexity"}
    saved = tasks.load(tmp_path / "run")
    assert (saved.extra["test_share"], saved.extra["test_seed"]) == (0.3, 0)


def test_the_heuristics_have_the_scores_on_titles_of_papers_that_the_guide_states():
    with gzip.open(data_folder("acl_titles") / "valid.tsv.gz", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    scores = {
        name: mean_rouge(make([row[2] for row in rows]), [row[1] for row in rows])["rouge1"]
        for name, make in HEURISTICS.items()
    }
    assert scores["first 12 words"] == pytest.approx(25.35, abs=0.01)
    assert scores["central sentence"] == pytest.approx(21.76, abs=0.01)


def test_data_without_two_columns_is_an_error(tmp_path):
    path = tmp_path / "bad.tsv"
    path.write_text("alone\n", encoding="utf-8")
    with pytest.raises(FileError, match="data: .*line 1"):
        tasks.train("summarize", {"data": str(path), "steps": 1}, tmp_path / "run", show=False)
