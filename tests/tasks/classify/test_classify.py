"""Tests of the task classify, its settings, labels, poolings, word weights, class weights and commands."""

import json

import numpy as np
import pytest
import torch

from regard import tasks
from regard.errors import ArgumentError
from regard.tasks.classify import ClassificationSettings, Classifier
from regard.tasks.classify.data import embedded_rows, prepare
from regard.tasks.classify.task import ClassificationObjective, ClassifyTask
from regard.text import ClassLabels
from support.command_line import assert_one_line, run_here

SMALL = {
    "embedded": 400,
    "vocabulary_size": 400,
    "width": 16,
    "batch_tokens": 300,
    "steps": 30,
    "warmup": 3,
    "max_tokens": 300,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    settings = {**SMALL, "pooling": "multihead", "heads": 2, "learning_rate": 0.01, "average": 0.0}
    settings |= {"embedded": 2000, "steps": 250}
    tasks.train("classify", settings, folder, show=False)
    return folder


def test_a_classifier_learns_and_says_how_sure_it_is(run):
    classifier = Classifier.load(run)
    texts = ["Who was tall", "", "The fox wakes up. " * 100]
    found = classifier.classify(texts)
    assert [one.source for one in found] == texts
    assert all(sum(one.probabilities.values()) == pytest.approx(1) for one in found)
    assert all(one.sure == max(one.probabilities.values()) for one in found)
    assert [one.cut_off for one in found] == [False, False, True]
    report = tasks.evaluate("classify", classifier, {"limit": 200}).to_json()
    assert report["accuracy"] > 70
    assert "the test part of the embedded corpus" in report["measured_on"]
    assert sum(map(sum, report["confusion"])) == report["texts"] >= 200


def test_the_weights_of_words_are_those_of_the_tokens(run):
    classifier = Classifier.load(run)
    (one,) = classifier.classify(["The tourist is visiting me"])
    (words,) = classifier.word_weights(one)
    assert words.column_words == ["The", "tourist", "is", "visiting", "me"]
    assert words.row_words == ["head 0", "head 1"]
    record = classifier.attention(one)[-1]
    whole = record.map.weights()[0, :, 0, :-1].sum(dim=-1).numpy()  # all but the end of the sentence
    # A token that is a space belongs to no word.
    assert (words.weights.sum(axis=1) <= whole + 1e-5).all()
    assert (words.weights.sum(axis=1) > 0.5).all()
    assert record.key_tokens is not None
    assert record.key_tokens[0][-1] == "</s>"


@pytest.mark.parametrize(
    "options",
    [
        {"architecture": "encoder", "layers": 1, "heads": 2, "feed_forward": 16, "pooling": "mean"},
        {"language": "zh", "vocabulary": "character", "class_weights": True, "label_smoothing": 0.1},
    ],
    ids=["encoder", "Chinese"],
)
def test_encoders_and_chinese_texts_are_trained_and_loaded(tmp_path, options):
    outcome = tasks.train("classify", {**SMALL, **options, "steps": 2}, tmp_path / "run", show=False)
    assert outcome.best["accuracy"] > 0
    classifier = tasks.load(tmp_path / "run")
    assert classifier.attends
    assert classifier(["谁很高"])[0].label in classifier.labels.names


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_without_attention_in_the_pooling_the_last_layer_weighs_the_words(tmp_path, pooling):
    encoder = {"architecture": "encoder", "layers": 1, "heads": 2, "feed_forward": 16, "pooling": pooling}
    tasks.train("classify", {**SMALL, **encoder, "steps": 2}, tmp_path / "run", show=False)
    classifier = tasks.load(tmp_path / "run")
    (one,) = classifier.classify(["Who cooks"])
    weights = classifier.attention(one)[-1].map.weights()[0].double()  # (h,q,k)
    rows = weights.mean(dim=1) if pooling == "mean" else weights[:, 0]  # (h,k)
    (words,) = classifier.word_weights(one)
    spans = classifier.encoder.spans("Who cooks")
    by_token = {span: rows[:, place].numpy() for place, span in enumerate(spans)}
    expected = sum(weight for (start, _), weight in by_token.items() if start < 3)
    np.testing.assert_allclose(words.weights[:, 0], expected, atol=1e-6)


def test_a_network_without_any_attention_shows_none(tmp_path):
    tasks.train("classify", {**SMALL, "pooling": "mean", "steps": 2}, tmp_path / "run", show=False)
    assert not tasks.load(tmp_path / "run").attends


def test_a_text_without_a_known_word_is_told(run):
    classifier = Classifier.load(run)
    found = classifier.classify(["", "   ", "Who cooks"])
    assert [classifier.knows_no_word(one) for one in found] == [True, True, False]


def test_class_weights_make_classes_equal(tmp_path):
    settings = ClassificationSettings(**{**SMALL, "class_weights": True})
    data = prepare(settings, tmp_path, learn=True)
    weights = ClassificationObjective(ClassifyTask(), settings, data).weights
    counts = torch.from_numpy(data.train.labels()).bincount()
    assert weights is not None
    np.testing.assert_allclose((weights * counts).numpy(), len(data.train) / len(counts), rtol=1e-5)


def test_embedded_sentences_are_labelled_by_their_meaning():
    rows = dict(embedded_rows("en", 3, "train", 25))
    assert rows["Their grandmother didn't stay in the garden today"] == "denial"
    assert rows["Who cooks in the village"] == "question"
    assert not any(text.endswith((".", "?", "!")) for text in rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "max"}, "pooling: unknown name 'max'"),
        ({"layers": 3}, "layers: of no use for architecture=pooling: .* architecture=recurrent"),
        ({"heads": 2}, "heads: of no use for pooling=additive"),
        ({"data": "x.tsv", "embedded": 5}, "embedded: of no use with data="),
        ({"embedded": 0}, "embedded: nothing to train on"),
        ({"language": "de"}, "language: unknown name 'de'"),
    ],
)
def test_wrong_settings_are_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        ClassificationSettings(**options)
    with pytest.raises(ArgumentError):
        ClassificationSettings(**ClassificationSettings.complete(options))


def test_fewer_than_two_labels_are_refused():
    assert ClassLabels.of([("a", " x"), ("b", "y ")]).names == ["x", "y"]
    with pytest.raises(ArgumentError, match="labels: expected two different classes or more, got 'x'"):
        ClassLabels(["x"])


def test_the_classify_command_lists_draws_and_scores(run, tmp_path):
    (tmp_path / "in.txt").write_text("Who was tall\n\nShout\n", encoding="utf-8")
    words = ["classify", "--model", str(run)]
    listed = run_here(*words, "--file", "in.txt", "--json", "--attention", cwd=tmp_path)
    rows = [json.loads(line) for line in listed.stdout.splitlines()]
    assert [row["source"] for row in rows] == ["Who was tall", "", "Shout"]
    assert rows[0]["words"] == ["Who", "was", "tall"]
    drawn = run_here(*words, "Who was tall", "--attention", "--save-attention", "x.html", cwd=tmp_path)
    assert "largest weights: " in drawn.stdout
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert page.count("<span style=") == 3
    shown = run_here(*words, "Shout", "--scores", cwd=tmp_path).stdout
    assert len(shown.splitlines()) == 4
    looked = run_here(*words, "Shout", "--look", cwd=tmp_path)
    assert looked.stderr.splitlines()[-1].endswith("look.html")
    measured = run_here("evaluate", "classify", "--model", str(run), "--limit", "50", cwd=tmp_path).stdout
    assert "measured on 50 texts of the test part of the embedded corpus" in measured
    assert "macro F1" in measured


def test_a_file_name_given_as_text_is_warned_of(run, tmp_path):
    (tmp_path / "in.txt").write_text("Shout\n", encoding="utf-8")
    result = run_here("classify", "--model", str(run), "in.txt", cwd=tmp_path)
    assert_one_line(result, 0, "in.txt is read as a text", "--file in.txt")
