"""Tests of the text that a writer is trained and validated on, and of its training."""

from __future__ import annotations

import gzip
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from regard import tasks
from regard.errors import ArgumentError, FileError
from regard.tasks import find_task
from regard.tasks.write.data import TextSource, prepare, read_chunks
from regard.tasks.write.settings import WritingSettings
from regard.tasks.write.windows import TextWindows
from support.command_line import assert_one_line, run_here
from support.paths import data_folder

LINE = "the cat sat on the mat.\n"
SMALL = {
    "width": 16,
    "heads": 2,
    "layers": 1,
    "feed_forward": 16,
    "context": 16,
    "batch_tokens": 64,
    "warmup": 2,
}


def text_file(path, count=80):
    lines = [f"line {n}: " + "abcdefghij"[n % 7 :] for n in range(count)]
    lines[5] = lines[6] = ""  # empty lines are part of a text
    text = "\n".join(lines) + "\n"
    path.write_text(text, encoding="utf-8")
    return text


# ---- the text


def test_the_last_tenth_is_held_out_and_every_character_is_in_one_part(tmp_path):
    text = text_file(tmp_path / "a.txt")
    for chunk in (1, 100, 10**6):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("regard.tasks.write.data.CHUNK", chunk)
            source = TextSource(WritingSettings(data=str(tmp_path / "a.txt"), steps=1))
            train, valid = "".join(source.training()), "".join(source.validation())
        assert train + valid == text
        assert len(train) == int(0.9 * len(text))


def test_shakespeare_is_split_as_elsewhere():
    path = data_folder("tiny_shakespeare") / "input.txt.gz"
    source = TextSource(WritingSettings(data=str(path), steps=1))
    assert sum(map(len, source.training())) == 1_003_854
    assert sum(map(len, source.validation())) == 111_540
    assert "".join(read_chunks(str(path))) == gzip.decompress(path.read_bytes()).decode()


def test_the_vocabulary_is_learnt_from_the_training_text_alone(tmp_path):
    text = text_file(tmp_path / "a.txt")
    (tmp_path / "a.txt").write_text(text[:-10] + "∂∂∂∂∂∂∂∂∂\n", encoding="utf-8")
    data = prepare(WritingSettings(data=str(tmp_path / "a.txt"), steps=1, context=16), tmp_path / "run")
    assert data.vocabulary.encode("∂") == [data.vocabulary.unk]
    assert (data.valid[data.before :] == data.vocabulary.unk).sum() == 9


def test_validation_reads_the_end_of_the_training_text_and_does_not_score_it(tmp_path):
    text = text_file(tmp_path / "a.txt")
    data = prepare(WritingSettings(data=str(tmp_path / "a.txt"), steps=1, context=16), tmp_path / "run")
    first = int(0.9 * len(text))
    assert data.before == 16
    assert data.vocabulary.decode(data.valid) == text[first - 16 :]
    assert data.characters == {"train": first, "valid": len(text) - first}
    (tmp_path / "b.txt").write_text("line 3: abc\n", encoding="utf-8")
    settings = WritingSettings(
        data=str(tmp_path / "a.txt"), valid=str(tmp_path / "b.txt"), steps=1, context=16
    )
    other = prepare(settings, tmp_path / "other")
    assert (other.before, other.characters["train"]) == (0, len(text))
    assert other.vocabulary.decode(other.valid) == "line 3: abc\n"


@pytest.mark.parametrize(("length", "size"), [(16, 16), (31, 16), (32, 16), (100, 16), (97, 8)])
def test_the_parts_of_an_epoch_are_the_text_without_gaps(length, size):
    data, begins = TextWindows(np.arange(10, 10 + length), size, start=1), set()
    for epoch in range(40):
        batches = list(data.batches(epoch, 0, tokens=3 * size, seed=7))
        assert len(batches) == data.batches_per_epoch(tokens=3 * size)
        places = sorted(int(row[0]) for batch in batches for row in batch.targets)
        assert places == list(range(places[0], places[0] + size * len(places), size))
        assert len(places) == data.count
        begins.add(places[0])
        for batch in batches:
            assert (batch.tokens[:, 0] == 1).all()
            assert (batch.tokens[:, 1:] == batch.targets[:, :-1]).all()
            assert (batch.targets[:, 1:] == batch.targets[:, :-1] + 1).all()
        assert list(map(len, data.batches(epoch, 1, tokens=3 * size, seed=7))) == list(map(len, batches[1:]))
    assert len(begins) > (1 if length > size else 0)


def test_processes_share_each_batch():
    data = TextWindows(np.arange(10, 210), 8, start=1)
    whole = list(data.batches(3, 0, tokens=40, seed=1, world=1))
    shares = [list(data.batches(3, 0, tokens=40, seed=1, rank=rank, world=2)) for rank in range(2)]
    assert len(shares[0]) == len(shares[1]) == data.batches_per_epoch(tokens=40, world=2)
    for one, *parts in zip(whole, *shares, strict=False):
        both = sorted(row for part in parts for row in part.targets.tolist())
        assert both == sorted(one.targets.tolist())


# ---- training


@pytest.mark.parametrize("vocabulary", ["character", "bpe", "byte"])
def test_the_loss_of_a_run_is_that_of_an_evaluation(tmp_path, vocabulary):
    if vocabulary == "bpe":
        pytest.importorskip("tokenizers", reason="the extra text is not installed")
    text_file(tmp_path / "a.txt", 300)
    places = {"data": str(tmp_path / "a.txt"), "vocabulary": vocabulary, "vocabulary_size": 300}
    outcome = tasks.train("write", {**SMALL, **places, "steps": 12}, tmp_path / "run", show=False)
    report = tasks.evaluate("write", tmp_path / "run", {"data": places["data"], "last": 0.1})
    values = report.to_json()
    for name in ("loss", "perplexity", "bits_per_character"):
        assert values[name] == pytest.approx(outcome.best[name], rel=1e-5)
    assert values["perplexity"] == pytest.approx(np.exp(values["loss"]), rel=1e-6)
    if vocabulary == "character":
        assert values["bits_per_character"] == pytest.approx(values["loss"] / np.log(2))
    assert "bits/character" in str(report)


def test_a_writer_learns_a_text(tmp_path):
    (tmp_path / "a.txt").write_text(LINE * 300, encoding="utf-8")
    settings = {**SMALL, "width": 32, "layers": 1, "context": 32, "batch_tokens": 512, "steps": 160}
    settings["learning_rate"] = 0.02
    outcome = tasks.train(
        "write", {**settings, "data": str(tmp_path / "a.txt")}, tmp_path / "run", show=False
    )
    assert outcome.best["loss"] < 0.1
    writer = tasks.load(tmp_path / "run")
    assert writer.write([LINE + "the cat"], max_tokens=16, temperature=0)[0].text == " sat on the mat."
    card = (tmp_path / "run" / "best" / "README.md").read_text(encoding="utf-8")
    assert "regard train write" in card
    tasks.pack(
        tmp_path / "run", tmp_path / "packed", dtype="int8", license="none", notes="It knows one line."
    )
    card = (tmp_path / "packed" / "README.md").read_text(encoding="utf-8")
    assert "It knows one line." in card
    assert card.count("the mat") >= 3
    small = tasks.load(tmp_path / "packed")
    assert small.write([LINE + "the cat"], max_tokens=16, temperature=0)[0].text == " sat on the mat."


def test_training_without_data_uses_the_embedded_corpus(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.tasks.write.data.EMBEDDED_VALID", 20)
    monkeypatch.setattr("regard.tasks.write.task.EMBEDDED_TEST", 30)
    settings = {**SMALL, "embedded": 50, "steps": 5}
    outcome = tasks.train("write", settings, tmp_path / "run", show=False)
    report = tasks.evaluate("write", tmp_path / "run", {})
    assert report.to_json()["characters"] > 300
    assert 0 < outcome.best["loss"] < 10
    assert "embedded corpus" in str(report)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vocabulary": "word"}, "vocabulary: words do not give back the spaces and line ends"),
        ({"context": 7}, "context: expected 8 or more, got 7"),
        ({"batch_tokens": 100}, "batch_tokens: 100 tokens hold no part of context=128 tokens"),
        ({"hold_out": 1.0}, "hold_out: expected a share between 0 and 1, got 1.0"),
        ({"valid": "-"}, "valid: only data= can be read from standard input"),
        ({"embedded": 5}, "embedded: of no use with data="),
        ({"width": 100, "heads": 3}, "heads: 3 heads do not divide width = 100"),
        ({"steps": 5, "minutes": 1.0}, "steps: expected one of steps=, epochs= and minutes="),
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path, settings, message):
    text_file(tmp_path / "a.txt")
    given = {"data": str(tmp_path / "a.txt"), **settings}
    with pytest.raises(ArgumentError, match=message):
        tasks.train("write", given, tmp_path / "run", show=False)
    assert not (tmp_path / "run").exists()


def test_texts_that_cannot_be_used_are_refused(tmp_path):
    (tmp_path / "line.txt").write_bytes(b"a" * (2**24 + 5))
    with pytest.raises(FileError, match="the line is longer than 16 MiB: break it into lines"):
        list(read_chunks(str(tmp_path / "line.txt")))
    text_file(tmp_path / "a.txt")
    (tmp_path / "b.txt").write_text("", encoding="utf-8")
    places = {"data": str(tmp_path / "a.txt"), "valid": str(tmp_path / "b.txt")}
    with pytest.raises(FileError, match="b.txt: there is no character to validate on"):
        tasks.train("write", {**places, **SMALL, "steps": 1}, tmp_path / "run", show=False)


def test_minutes_end_a_run_and_can_be_extended(tmp_path):
    text_file(tmp_path / "a.txt")
    words = ["train", "write", "--data", str(tmp_path / "a.txt"), "--out", str(tmp_path / "run")]
    for name, value in SMALL.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    result = run_here(*words, "--minutes", "0.001")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("finished after ")
    state = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert (state["minutes"], state["steps"], state["epochs"]) == (0.001, None, None)
    before = int(result.stdout.split()[2])
    result = run_here(*words[:2], "--resume", "--out", str(tmp_path / "run"), "--steps", str(before + 2))
    assert f"finished after {before + 2} steps" in result.stdout, result.stderr


@pytest.mark.parametrize("tied", [False, True])
def test_a_new_model_predicts_nearly_the_same_for_all_tokens(tied):
    settings = WritingSettings(data="a.txt", steps=1, tied_output=tied)
    model = find_task("write").build(settings, SimpleNamespace(vocabulary=range(60)))
    torch.manual_seed(0)
    tokens = torch.randint(60, (4, 64))
    loss = cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    assert loss.item() == pytest.approx(math.log(60), abs=0.3)


def test_an_empty_file_to_measure_on_is_bad_content_and_no_wrong_call(tmp_path):
    (tmp_path / "empty.txt").write_text("", encoding="utf-8")
    done = run_here("evaluate", "write", "--data", "empty.txt", cwd=tmp_path)
    assert_one_line(done, 1, "--data: empty.txt: there is no text to measure on")
