"""Tests of training runs, their report before the first step, and resuming with another folder or moved data."""

import json
import os
import re
import shutil

import pytest

from regard.errors import ArgumentError, FileError
from regard.tasks import find_task
from regard.tasks.card import training_command
from regard.tasks.translate import TranslationSettings, resume_translator, settings_of_run, train_translator
from regard.tasks.translate import data as data_module
from regard.tasks.translate.data import prepare, training_pairs
from regard.training import progress
from regard.training.lock import lock_run
from support.training_runs import checkpoints

TINY = {
    "width": 16,
    "heads": 2,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "feed_forward": 32,
    "vocabulary_size": 300,
    "batch_tokens": 200,
    "validate_sentences": 2,
    "steps": 2,
}
TRAIN = "a dog\tun chien\na dog\tun chien\na cat\tun chat\na cow\tune vache\n\tvide\n"
TASK = find_task("translate")
VALID = "a cat\tun chat\na pig\tun cochon\na hen\tune poule\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with data, and another one to go on from."""
    (tmp_path / "data").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "data" / "train.tsv").write_text(TRAIN, encoding="utf-8")
    (tmp_path / "data" / "valid.tsv").write_text(VALID, encoding="utf-8")
    monkeypatch.chdir(tmp_path / "data")
    return tmp_path


def begin(**more):
    settings = TranslationSettings(data="train.tsv", valid="valid.tsv", **TINY, **more)
    train_translator(settings, "run", show=False)
    return settings


# ---- before the first step


def test_a_run_prints_its_data_vocabulary_and_model(place, capsys):
    settings = TranslationSettings(data="train.tsv", valid="valid.tsv", **TINY)
    train_translator(settings, "run")
    said = capsys.readouterr().err.splitlines()
    size = len(data_module.load_vocabulary("run/tokenizer.json"))
    assert said[0] == "read: source = column 0, target = column 1 (counted from 0)"
    assert said[1] == "data: 5 pairs read, 2 of them to train on"
    assert said[2].startswith(
        "left out of the data: 1 with an empty side (the first: train.tsv, line 5), 1 seen before, 1"
    )
    assert said[3:5] == ["validation: 3 pairs held out", f"vocabulary: bpe, {size} tokens"]
    count = re.search(
        r"`transformer` with ([\d,]+) parameters", (place / "data/run/best/README.md").read_text()
    )
    assert count is not None
    assert said[5] == f"model: transformer, {count.group(1)} parameters"
    assert said[6].startswith("step 1: bleu ")
    train_translator(settings, "quiet", show=False)
    assert capsys.readouterr().err == ""


def test_two_vocabularies_are_printed_by_language(place, capsys):
    settings = TranslationSettings(
        data="train.tsv", valid="valid.tsv", shared_vocabulary=False, vocabulary="word", **TINY
    )
    train_translator(settings, "run")
    assert "vocabulary: word, 7 tokens of en, 8 of fr" in capsys.readouterr().err


def test_preparing_data_reports_progress(place, capsys, monkeypatch):
    monkeypatch.setattr(progress, "TELL_EVERY", 0.0)
    monkeypatch.setattr(progress, "_LOOK_EVERY", 1)
    prepare(
        TranslationSettings(data="train.tsv", valid="valid.tsv", **TINY), place / "run", learn=True, show=True
    )
    said = capsys.readouterr().err.splitlines()
    assert "rows read for the vocabulary: 3 in 0:00" in said
    assert "rows encoded: 3 in 0:00" in said
    prepare(TranslationSettings(data="train.tsv", valid="valid.tsv", **TINY), place / "run2", learn=True)
    assert capsys.readouterr().err == ""


def test_a_run_is_locked_while_it_prepares(place):
    seen = []

    class Locked(Exception):
        pass

    def told(*arguments, **options):
        seen.append((place / "data" / "run" / ".lock").is_file())
        raise Locked

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.tasks.translate.task.prepare", told)
        with pytest.raises(Locked):
            begin()
    assert seen == [True]
    with lock_run(place / "data" / "run"):  # which was given back
        pass


# ---- going on


def test_a_run_is_resumed_from_another_working_folder(place, monkeypatch):
    begin()
    monkeypatch.chdir(place / "other")
    outcome = resume_translator(place / "data" / "run", {"steps": 3}, show=False)
    assert outcome.step == 3
    assert "train.tsv" in training_command(TASK, settings_of_run(place / "data" / "run"))
    assert str(place) not in training_command(TASK, settings_of_run(place / "data" / "run"))


def test_a_run_is_resumed_with_data_that_was_moved(place, monkeypatch):
    begin()
    os.rename("train.tsv", place / "other" / "moved.tsv")
    with pytest.raises(FileError, match="data: no file .*train.tsv.*: say where it is, with data="):
        resume_translator("run", {"steps": 3}, show=False)
    monkeypatch.chdir(place / "other")
    run = place / "data" / "run"
    assert resume_translator(run, {"steps": 3, "data": "moved.tsv"}, show=False).step == 3
    monkeypatch.chdir(place)
    assert resume_translator(run, {"steps": 4}, show=False).step == 4  # the new place is remembered


def test_a_moved_run_with_stored_standard_input_is_resumed(place, monkeypatch):
    begin()
    os.rename("train.tsv", "run/stdin.tsv")  # as if it had been read from there
    path = place / "data" / "run" / "settings.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("data/train.tsv", "data/run/stdin.tsv"), encoding="utf-8")
    shutil.move("run", place / "other" / "run")
    monkeypatch.chdir(place)
    assert resume_translator("other/run", {"steps": 3}, show=False).step == 3


@pytest.mark.parametrize(("name", "what"), [("data", "training"), ("valid", "validation")])
def test_other_contents_are_refused_before_anything_is_written(place, name, what):
    begin()
    with open("other.tsv", "w", encoding="utf-8") as file:
        file.write("a fox\tun renard\n")
    run = place / "data" / "run"
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(
        FileError, match=f"{name}: .*other.tsv: the {what} data is not what the run was started with"
    ):
        resume_translator("run", {"steps": 3, name: "other.tsv"}, show=False)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert resume_translator("run", {"steps": 3}, show=False).step == 3


def test_the_target_side_of_the_validation_counts(place):
    for name, text in (
        ("t.en", "a dog\na cow\n"),
        ("t.fr", "un chien\nune vache\n"),
        ("v.en", "a cat\n"),
        ("v.fr", "un chat\n"),
    ):
        (place / "data" / name).write_text(text, encoding="utf-8")
    files = {"data": "t.en", "target_data": "t.fr", "valid": "v.en", "target_valid": "v.fr"}
    train_translator(TranslationSettings(**files, **TINY), "run", show=False)
    (place / "data" / "v.fr").write_text("un loup\n", encoding="utf-8")
    with pytest.raises(FileError, match="the validation data is not what the run was started with"):
        resume_translator("run", {"steps": 3}, show=False)


def test_a_run_of_an_earlier_version_is_resumed(place):
    """Settings of an earlier version have relative paths and no hashes of the data."""
    begin()
    path = place / "data" / "run" / "settings.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    values = {**values, "data": "train.tsv", "valid": "valid.tsv"}
    del values["contents"]
    path.write_text(json.dumps(values), encoding="utf-8")
    assert resume_translator("run", {"steps": 3}, show=False).step == 3


# ---- a data set with a part to validate on


@pytest.fixture
def data_set(tmp_path):
    pytest.importorskip("datasets")
    folder = tmp_path / "set"
    folder.mkdir()
    for part, text in (("train", TRAIN), ("validation", VALID)):
        rows = [line.split("\t") for line in text.splitlines() if not line.startswith("\t")]
        lines = [json.dumps({"translation": {"en": source, "fr": target}}) for source, target in rows]
        (folder / f"{part}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_the_validation_part_is_used_where_none_is_named(data_set, tmp_path):
    settings = TranslationSettings(data=f"hf:{data_set}", **TINY)
    assert sorted(data_module.validation_pairs(settings))[2] == ("a pig", "un cochon")
    assert list(training_pairs(settings)) == [("a dog", "un chien")] * 2 + [("a cow", "une vache")]
    train_translator(settings, tmp_path / "run", show=False)
    moved = data_set.rename(tmp_path / "elsewhere")  # known by its contents
    changes = {"data": f"hf:{moved}", "steps": 3}
    assert resume_translator(tmp_path / "run", changes, show=False).step == 3
    assert str(tmp_path) not in training_command(TASK, settings_of_run(tmp_path / "run"))


def test_without_a_validation_part_a_share_is_held_out(data_set):
    (data_set / "validation.jsonl").unlink()
    settings = TranslationSettings(data=f"hf:{data_set}", **TINY)
    assert len(data_module.validation_pairs(settings)) == 1  # held out of the training part
    assert len(list(training_pairs(settings))) == 3
    named = TranslationSettings(data=f"hf:{data_set}", valid_split="dev", **TINY)
    with pytest.raises(ArgumentError, match="valid_split: hf:.*set has no part 'dev', but train"):
        data_module.validation_pairs(named)


# ---- settings


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": ""}, "data: expected a value, got an empty text"),
        ({"valid": ""}, "valid: expected a value, got an empty text"),
        ({"width": "abc"}, "width: expected int, got 'abc'"),
        ({"steps": 1.5}, "steps: expected int or nothing, got 1.5"),
        ({"lowercase": 1}, "lowercase: expected bool, got 1"),
        ({"heads": True}, "heads: expected int, got True"),
    ],
)
def test_settings_of_the_wrong_type_are_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        TranslationSettings(**options)


def test_a_weak_run_is_judged_by_its_perplexity(place, capsys):
    train_translator(TranslationSettings(data="train.tsv", valid="valid.tsv", **TINY), "run")
    assert "(best so far, by perplexity: bleu is below 5)" in capsys.readouterr().err
    assert checkpoints(place / "data" / "run")
