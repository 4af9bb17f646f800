"""Tests of whole texts with line breaks, cutting, label names, bad labels, calibration and default settings."""

import json
import shutil

import numpy as np
import pytest
import torch

from regard import tasks
from regard.errors import ArgumentError, FileError, UnknownNameError
from regard.metrics import calibration_error
from regard.tasks.classify import ClassificationSettings, Classifier
from regard.tasks.classify.calibration import fit_temperature
from regard.tasks.classify.data import LabelledSource
from regard.tasks.classify.settings import BY_SIZE, bytes_of, label_names
from regard.tasks.text_encoder import TextEncoder, without_line_breaks
from regard.text import LABEL_FIELDS, ClassLabels, train_vocabulary

GOOD, BAD = "good fine great", "bad poor dull"
SMALL = {"width": 8, "ngram_buckets": 50, "steps": 40, "warmup": 2, "learning_rate": 0.05, "average": 0.0}
SMALL |= {"dropout": 0.0, "word_dropout": 0.0, "validate_every": 40}


def write_rows(path, count=60, labels=("0", "1")):
    words = [BAD.split(), GOOD.split()]
    lines = []
    for n in range(count):
        side = n % 2
        text = f"film {n} is {words[side][n % 3]} <br /><br />and {words[side][(n + 1) % 3]}"
        lines.append(f"{labels[side]}\t{n}\t{text}\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    data = write_rows(folder / "rows.tsv")
    settings = {**SMALL, "data": str(data), "columns": "2,0", "labels": "0=negative,1=positive"}
    tasks.train("classify", settings, folder / "run", show=False)
    return folder / "run"


def test_line_breaks_of_html_are_spaces_of_the_same_length():
    assert without_line_breaks("a<br />b<BR>c<br/>d") == "a      b    c     d"
    assert without_line_breaks("<b>a</b> <brr>") == "<b>a</b> <brr>"


@pytest.mark.parametrize(("cut", "kept"), [("end", "abcde"), ("middle", "abcmn")])
def test_a_long_text_is_cut_at_its_end_or_in_the_middle(cut, kept):
    letters = train_vocabulary("character", ["abcdefghijklmn"], 30)
    encoder = TextEncoder(letters, 5, cut)
    assert encoder.encode(["abcdefghijklmn", "abc"]) == [
        (letters.encode(kept), True),
        (letters.encode("abc"), False),
    ]
    assert "".join("abcdefghijklmn"[a:b] for a, b in encoder.spans("abcdefghijklmn")) == kept
    with pytest.raises(UnknownNameError, match="cut: unknown name 'start'"):
        TextEncoder(letters, 5, "start")
    assert encoder.fingerprint != TextEncoder(letters, 6, cut).fingerprint


def test_training_and_use_read_the_same_tokens(run):
    classifier = Classifier.load(run)
    settings = tasks.settings_of_run(run)
    from regard.tasks.classify.data import prepare

    data = prepare(settings, run, learn=False)
    rows = [line.split("\t")[2] for line in (run.parent / "rows.tsv").read_text().splitlines()]
    expected = {tuple(ids) for ids in classifier.encoder.encode_batch(rows)}
    assert {tuple(data.train.source[place].tolist()) for place in range(len(data.train))} <= expected
    broken, spaced = classifier.encoder.encode_batch(["good<br /><br />bad", "good            bad"])
    assert broken == spaced
    assert classifier.vocabulary.unk not in broken


def test_labels_get_the_names_of_the_settings(run):
    classifier = Classifier.load(run)
    assert classifier.labels.names == ["negative", "positive"]
    found = classifier.classify(["film 7 is good and fine", "film 7 is bad and poor"])
    assert [one.label for one in found] == ["positive", "negative"]
    report = tasks.evaluate("classify", run, {"data": str(run.parent / "rows.tsv"), "columns": "2,0"})
    assert report.to_json()["classes"] == ["negative", "positive"]
    assert report.to_json()["accuracy"] > 90
    saved = run.parent / "saved"
    classifier.save(saved)
    assert Classifier.load(saved).labels.aliases == {"0": "negative", "1": "positive"}


@pytest.mark.parametrize("labels", ["0", "0=", "=x", "0=a,0=b", ""])
def test_bad_names_of_labels_are_refused(labels):
    with pytest.raises(ArgumentError, match="labels: "):
        ClassificationSettings(data="x.tsv", labels=labels)
    assert label_names(None) == {}


def test_names_for_missing_labels_are_refused(tmp_path):
    data = write_rows(tmp_path / "rows.tsv")
    settings = {**SMALL, "data": str(data), "columns": "2,0", "labels": "7=seven"}
    with pytest.raises(ArgumentError, match="labels: '7' is not a label of the data, which has 0, 1"):
        tasks.train("classify", settings, tmp_path / "run", show=False)


def test_contradictory_aliases_are_refused():
    with pytest.raises(ArgumentError, match="aliases: "):
        ClassLabels(["a", "b"], {"a": "b"})
    with pytest.raises(ArgumentError, match="aliases: "):
        ClassLabels(["a", "b"], {"0": "c"})


def test_an_unknown_label_is_named_with_its_line(run, tmp_path):
    data = tmp_path / "test.tsv"
    data.write_text("1\t0\tgood\n2\t0\tbad\n0\t0\tdull\n", encoding="utf-8")
    options = {"data": str(data), "columns": "2,0"}
    with pytest.raises(FileError, match=r"test\.tsv, line 2: the label '2' is not one of negative, positive"):
        tasks.evaluate("classify", run, options)
    report = tasks.evaluate("classify", run, {**options, "skip_bad_rows": True})
    assert report.to_json()["texts"] == 2
    assert "line 2" in report.notes[0]


def test_an_unknown_label_in_the_validation_data_is_an_error_or_left_out(tmp_path):
    data, valid = write_rows(tmp_path / "rows.tsv"), tmp_path / "valid.tsv"
    valid.write_text("0\t0\tbad\nmaybe\t0\tfine\n", encoding="utf-8")
    settings = {**SMALL, "data": str(data), "valid": str(valid), "columns": "2,0", "steps": 1}
    with pytest.raises(FileError, match=r"valid: .*valid\.tsv, line 2: the label 'maybe' is not one of 0, 1"):
        tasks.train("classify", settings, tmp_path / "run", show=False)
    with pytest.warns(UserWarning, match=r"valid: left out: 1 .*line 2"):
        tasks.train("classify", {**settings, "skip_bad_rows": True}, tmp_path / "two", show=False)


def test_a_column_of_texts_is_no_column_of_labels(tmp_path):
    data = tmp_path / "rows.tsv"
    data.write_text("".join(f"{n}\ttext number {n}\n" for n in range(2500)), encoding="utf-8")
    with pytest.raises(FileError, match="more than 1,000 different labels, such as 'text number .*columns"):
        tasks.train("classify", {**SMALL, "data": str(data), "columns": "0,1"}, tmp_path / "run", show=False)


def test_data_with_one_class_is_refused(tmp_path):
    data = write_rows(tmp_path / "rows.tsv", labels=("x", "x"))
    with pytest.raises(FileError, match="data: there is one class only, 'x'"):
        tasks.train("classify", {**SMALL, "data": str(data), "columns": "2,0"}, tmp_path / "run", show=False)


def test_the_temperature_makes_the_probabilities_right():
    torch.manual_seed(0)
    true = torch.randn(5000, 3)
    expected = torch.distributions.Categorical(logits=true).sample()
    assert fit_temperature(true * 4, expected) == pytest.approx(4, rel=0.1)
    assert fit_temperature(true / 3, expected) == pytest.approx(1 / 3, rel=0.1)
    sure, found = (true * 4).softmax(-1).max(-1)
    calibrated = (true * 4 / fit_temperature(true * 4, expected)).softmax(-1).max(-1).values
    right = (found == expected).tolist()
    assert calibration_error(sure.tolist(), right) > 0.15
    assert calibration_error(calibrated.tolist(), right) < 0.03


def test_the_calibration_error_by_hand():
    assert calibration_error([0.85, 0.95, 0.55], [True, False, True], bins=10) == pytest.approx(
        (0.15 + 0.95 + 0.45) / 3
    )
    assert calibration_error([1.0, 1.0], [True, True]) == 0
    with pytest.raises(ArgumentError, match="probabilities: "):
        calibration_error([], [])


def test_a_few_texts_that_are_all_right_do_not_make_a_model_sure_without_limit():
    logits = torch.tensor([[3.0, 0.0], [0.0, 3.0], [2.0, 0.0], [0.0, 2.0]])
    temperature = fit_temperature(logits, torch.tensor([0, 1, 0, 1]))
    assert (logits / temperature).softmax(-1).max() < 0.97


def test_columns_that_leave_nothing_to_train_on_are_refused(tmp_path):
    data = tmp_path / "rows.tsv"
    data.write_text("".join(f"{n % 2}\ttext {n}\n" for n in range(50)), encoding="utf-8")
    with pytest.raises(FileError, match=r"data: there are 50 different labels in 50 rows, .* see columns="):
        tasks.train("classify", {**SMALL, "data": str(data)}, tmp_path / "run", show=False)


def test_a_folder_of_texts_by_class_is_trained_on_and_measured(tmp_path):
    for number in range(40):
        label, word = [("good", "fine"), ("bad", "poor")][number % 2]
        folder = tmp_path / "data" / ("test" if number > 29 else "train") / label
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.txt").write_text(f"a {word} film\nnumber {number}", encoding="utf-8")
    data = {"data": str(tmp_path / "data")}
    assert bytes_of(data["data"]) == sum(path.stat().st_size for path in tmp_path.rglob("*.txt"))
    tasks.train("classify", {**SMALL, **data, "steps": 60}, tmp_path / "run", show=False)
    assert tasks.evaluate("classify", tmp_path / "run", data).to_json()["texts"] == 10
    # The texts are identified by the names of their folders too.
    (tmp_path / "data" / "train" / "good" / "0.txt").rename(tmp_path / "data" / "train" / "bad" / "0.txt")
    with pytest.raises(FileError, match="the training data is not what the run was started with"):
        tasks.resume(tmp_path / "run", {"steps": 70}, show=False)


def test_labels_that_are_rare_are_warned_of(tmp_path):
    data = tmp_path / "rows.tsv"
    data.write_text("".join(f"text {n}\t{n % 26}\n" for n in range(50)), encoding="utf-8")
    with pytest.warns(UserWarning, match="data: there are 26 different labels in 50 rows"):
        tasks.train("classify", {**SMALL, "data": str(data)}, tmp_path / "run", show=False)


def test_a_trained_model_has_the_temperature_of_its_validation(run):
    kept = json.loads((run / "best" / "config.json").read_text(encoding="utf-8"))
    assert kept["temperature"] == kept["results"]["temperature"] > 0
    classifier = Classifier.load(run)
    (cold,) = classifier.classify(["film is good"])
    classifier.extra["temperature"] = 10 * kept["temperature"]
    (hot,) = classifier.classify(["film is good"])
    assert hot.label == cold.label
    assert hot.sure < cold.sure
    logits = classifier.logits(classifier.encoder.encode_batch(["film is good"]))
    np.testing.assert_allclose(cold.sure, (logits / kept["temperature"]).softmax(-1).max().item(), rtol=1e-5)


@pytest.mark.parametrize("value", [0, -1, "hot", None])
def test_a_bad_temperature_is_refused(run, tmp_path, value):
    shutil.copytree(run / "best", tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    values = json.loads(path.read_text(encoding="utf-8")) | {"temperature": value}
    path.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(FileError, match=r"config\.json: temperature: expected a number above 0"):
        Classifier.load(tmp_path / "model")


def test_texts_are_answered_in_their_order_whatever_their_length(run):
    classifier = Classifier.load(run)
    texts = [f"{'good ' * (n % 7)}{'bad ' * (n % 5)}" for n in range(1, 100)]
    together = classifier.classify(texts, batch_size=8)
    for text, one in zip(texts, together, strict=True):
        (alone,) = classifier.classify([text])
        assert one.source == text
        assert one.sure == pytest.approx(alone.sure, abs=1e-5)


def test_words_that_are_not_read_have_no_weight(run):
    classifier = Classifier.load(run)
    classifier.encoder = TextEncoder(classifier.vocabulary, 4, "middle")
    (one,) = classifier.classify(["good film is bad and<br />dull fine great"])
    assert one.cut_off
    (words,) = classifier.word_weights(one)
    assert words.column_words == ["good", "film", "fine", "great"]
    assert [words.text[a:b] for a, b in words.spans] == words.column_words
    assert words.unread is not None
    assert words.text[slice(*words.unread)].strip() == "is bad and<br />dull"


def test_defaults_follow_the_size_of_the_data(tmp_path):
    small, large = tmp_path / "small.tsv", tmp_path / "large.tsv.gz"
    small.write_bytes(b"x" * 1000)
    with open(large, "wb") as file:
        file.truncate(20_000_000)
    assert bytes_of(str(small)) == 1000
    assert bytes_of(str(large)) == 54_000_000
    assert bytes_of("-") == bytes_of("hf:imdb") == 1e7
    found = [ClassificationSettings.complete({"data": str(path)})["epochs"] for path in (small, large)]
    assert found == [BY_SIZE[0][1]["epochs"], BY_SIZE[1][1]["epochs"]]
    assert ClassificationSettings.complete({"data": str(small), "steps": 5}).get("epochs") is None


@pytest.mark.parametrize(
    "options", [{"architecture": "recurrent", "layers": 2}, {"ngrams": 1, "convolution": 0}]
)
def test_recurrent_networks_and_ngrams_are_trained_and_loaded(tmp_path, options):
    data = write_rows(tmp_path / "rows.tsv")
    settings = {**SMALL, **options, "data": str(data), "columns": "2,0", "steps": 3}
    tasks.train("classify", settings, tmp_path / "run", show=False)
    config = Classifier.load(tmp_path / "run").model.config
    assert config.recurrent_layers == options.get("layers", 0)
    assert config.layers == 0
    assert config.ngrams == options.get("ngrams", 2)


def test_batches_have_at_most_so_many_texts(tmp_path):
    data = write_rows(tmp_path / "rows.tsv")
    settings = ClassificationSettings(data=str(data), columns="2,0", batch_texts=7)
    from regard.tasks.classify.task import ClassifyTask

    task = ClassifyTask()
    objective = task.objective(settings, task.prepare(settings, tmp_path / "run", learn=True))
    sizes = [len(batch) for batch in objective.batches(0, 0, 0, 1)]
    assert max(sizes) == 7
    assert sum(sizes) == len(objective.train)
    with pytest.raises(ArgumentError, match="batch_texts: expected 1 or more"):
        ClassificationSettings(data=str(data), batch_texts=0)


def test_the_first_row_of_test_and_validation_data_is_kept_if_its_label_is_known(run, tmp_path):
    data = tmp_path / "test.tsv"
    data.write_text("0\t0\tbad film\n1\t0\tgood film\n1\t0\tgood book\n", encoding="utf-8")
    assert tasks.evaluate("classify", run, {"data": str(data), "columns": "2,0"}).to_json()["texts"] == 3
    data.write_text("negative\t0\tbad film\n1\t0\tgood film\n1\t0\tgood book\n", encoding="utf-8")
    assert tasks.evaluate("classify", run, {"data": str(data), "columns": "2,0"}).to_json()["texts"] == 3
    data.write_text("neg\t0\tbad film\npos\t0\tgood film\npos\t0\tgood book\n", encoding="utf-8")
    rows = write_rows(tmp_path / "rows.tsv", labels=("neg", "pos"))
    settings = ClassificationSettings(data=str(rows), valid=str(data), columns="2,0")
    assert len(LabelledSource(settings, 2000, reading={"fields": LABEL_FIELDS}).validation()) == 3
