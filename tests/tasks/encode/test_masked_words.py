"""Tests of masked-word training, its choice of tokens, metrics, data and runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from regard import tasks
from regard.errors import ArgumentError, FileError, RegardError
from regard.models import MaskedLanguageModel, MaskedLanguageModelConfig
from regard.tasks import find_task
from regard.tasks.encode import EncodingSettings, SentenceEncoder
from regard.tasks.encode.data import TextSource, read_texts
from regard.tasks.encode.masking import Masking, ordinary_ids
from regard.tasks.encode.measures import UnigramBaseline, measure_masked
from regard.text import ByteVocabulary, Skipped, TextPieces
from support.pretrained_folders import write_encoder

SMALL = {"width": 16, "layers": 1, "heads": 2, "feed_forward": 16, "batch_tokens": 200, "max_tokens": 32}
RUN = {**SMALL, "vocabulary": "word", "vocabulary_size": 300, "steps": 2, "warmup": 1}


def pieces(count=40, longest=30):
    rng = np.random.default_rng(0)
    letters = "abcdefghij"
    texts = ["".join(rng.choice(list(letters), rng.integers(1, longest))) for _ in range(count)]
    return TextPieces.in_memory(texts, VOCABULARY, max_tokens=longest + 1)


VOCABULARY = ByteVocabulary(specials=["<mask>"])
MASKING = Masking(VOCABULARY.mask or 0, ordinary_ids(VOCABULARY), 0.15, seed=7)


def test_fifteen_percent_are_hidden_and_no_special_token_is():
    data = pieces(400)
    batch = data.batch(range(400))
    masked = MASKING(batch, 0, (0, 1))
    counts = masked.hidden.sum(dim=1)
    assert counts.tolist() == [max(1, round(0.15 * (n - 1))) for n in batch.lengths.tolist()]
    ends = batch.lengths - 1
    assert not masked.hidden[torch.arange(400), ends].any()
    assert torch.equal(masked.labels, batch.tokens[masked.hidden])
    assert torch.equal(masked.tokens[~masked.hidden], batch.tokens[~masked.hidden])


def test_hidden_tokens_are_80_percent_masks_10_percent_random_and_10_percent_kept():
    batch = pieces(4000).batch(range(4000))
    masked = MASKING(batch, 0, (0, 1))
    now = masked.tokens[masked.hidden]
    share = {
        "mask": (now == VOCABULARY.mask).float().mean().item(),
        "same": (now == masked.labels).float().mean().item(),
    }
    share["other"] = 1 - share["mask"] - share["same"]
    deviation = 4 * math.sqrt(0.25 / len(now))
    assert share["mask"] == pytest.approx(0.8, abs=deviation)
    assert share["same"] == pytest.approx(0.1 + 0.1 / 256, abs=deviation)
    assert share["other"] == pytest.approx(0.1, abs=deviation)
    assert int(now[now != VOCABULARY.mask].min()) >= len(VOCABULARY.specials)


def test_the_hidden_tokens_depend_on_epoch_and_piece_alone():
    data = pieces()
    whole = MASKING(data.batch(range(40)), 3, (0, 1))
    alone = MASKING(data.batch([17]), 3, (0, 1))
    n = int(alone.lengths[0])
    assert torch.equal(whole.tokens[17, :n], alone.tokens[0, :n])
    assert torch.equal(whole.hidden[17, :n], alone.hidden[0, :n])
    assert not torch.equal(whole.hidden, MASKING(data.batch(range(40)), 4, (0, 1)).hidden)
    other = Masking(MASKING.mask, MASKING.ordinary, 0.15, seed=8)
    assert not torch.equal(whole.hidden, other(data.batch(range(40)), 3, (0, 1)).hidden)


class Knows(torch.nn.Module):
    """Predicts token 110 with a probability of one half, and the others evenly."""

    def forward(self, tokens, lengths, *, at):
        assert bool((tokens[at] == VOCABULARY.mask).all())  # nothing of the hidden tokens is shown
        logits = torch.zeros(int(at.sum()), len(VOCABULARY))
        logits[:, 110] = math.log(len(VOCABULARY) - 1)
        return logits


def test_accuracy_and_perplexity_are_those_computed_by_hand():
    data = pieces()
    scores, labels = measure_masked(Knows(), data, VOCABULARY)
    known = (labels == 110).mean()
    other = 2 * (len(VOCABULARY) - 1)
    assert scores.tokens == len(labels)
    assert scores.accuracy == pytest.approx(100 * known)
    assert scores.perplexity == pytest.approx(2**known * other ** (1 - known), rel=1e-5)


def test_the_baseline_is_that_of_the_training_frequencies():
    baseline = UnigramBaseline(np.array([0, 5, 1, 0]))
    scores = baseline.scores(np.array([1, 1, 2, 3]))
    assert scores.accuracy == 50.0
    assert scores.perplexity == pytest.approx(((6 / 10) ** 2 * (2 / 10) * (1 / 10)) ** (-1 / 4))


def test_logits_of_some_positions_are_those_of_all():
    config = MaskedLanguageModelConfig(vocabulary_size=11, width=8, heads=2, layers=1)
    model = MaskedLanguageModel(config).eval()
    tokens, lengths = torch.randint(11, (2, 5)), torch.tensor([5, 3])
    at = torch.tensor([[True, False, True, False, False], [False, True, False, False, False]])
    torch.testing.assert_close(model(tokens, lengths, at=at), model(tokens, lengths)[at])


def test_long_texts_are_cut_and_nothing_is_lost(tmp_path):
    words = [f"w{number}" for number in range(3000)]
    (tmp_path / "long.txt").write_text(" ".join(words[:1500]) + "\n\n" + " ".join(words[1500:]) + "\n")
    found = list(read_texts(str(tmp_path / "long.txt")))
    assert " ".join(found).split() == words
    assert max(map(len, found)) <= 2000
    (tmp_path / "wrapped.txt").write_text("\n".join(words))
    joined = list(read_texts(str(tmp_path / "wrapped.txt"), join_lines=True))
    assert " ".join(joined).split() == words
    assert len(joined) < 20
    assert list(read_texts(str(tmp_path / "wrapped.txt")))[:2] == ["w0", "w1"]
    data = TextPieces.in_memory(joined, VOCABULARY, max_tokens=20)
    assert data.lengths().max() == 20
    assert int(data.store.lengths().sum()) == sum(len(text.encode()) for text in joined)


def test_a_column_of_a_table_is_read(tmp_path):
    (tmp_path / "t.tsv").write_text("x\t1\ta good film\ny\t2\ta bad film\n")
    (tmp_path / "t.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    assert list(read_texts(str(tmp_path / "t.tsv"), "2")) == ["a good film", "a bad film"]
    assert list(read_texts(str(tmp_path / "t.jsonl"), "text")) == ["one", "two"]


def test_held_out_texts_are_not_trained_on(tmp_path):
    lines = [f"text {number % 50}" for number in range(200)]
    (tmp_path / "t.txt").write_text("\n".join(lines))
    source = TextSource(EncodingSettings(data=str(tmp_path / "t.txt"), steps=1))
    skipped = Skipped()
    trained, valid = list(source.training(skipped)), source.validation()
    assert valid
    assert not set(trained) & set(valid)
    assert len(trained) + skipped.held_out == 200
    (tmp_path / "v.txt").write_text("text 1\ntext 2\n")
    both = TextSource(EncodingSettings(data=str(tmp_path / "t.txt"), valid=str(tmp_path / "v.txt"), steps=1))
    assert sorted(both.validation()) == ["text 1", "text 2"]
    assert not {"text 1", "text 2"} & set(both.training())


def test_a_single_text_is_too_few_to_hold_some_out(tmp_path):
    (tmp_path / "one.txt").write_text("only one text\n")
    with pytest.raises(FileError, match=r"data: .*one.txt: there are too few texts to hold some out"):
        tasks.train("encode", {**RUN, "data": str(tmp_path / "one.txt")}, tmp_path / "run", show=False)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"mask_share": 1.0}, "mask_share: expected a share between 0 and 1"),
        ({"pooling": "median"}, "pooling: unknown name 'median'"),
        ({"column": "text"}, "column: of no use without data="),
        ({"data": "x", "embedded": 5}, "embedded: of no use with data="),
        ({"data": "x", "valid": "x"}, "valid: the same as data=x"),
        ({"data": "x", "column": "1", "join_lines": True}, "join_lines: of no use with column="),
        ({"max_tokens": 4}, "max_tokens: expected 8 or more"),
        ({"start": "minilm", "width": 64}, "width: of no use with start=minilm"),
        ({"language": "de"}, "language: unknown name 'de'"),
        ({"embedded": 0}, "embedded: nothing to train on"),
    ],
)
def test_settings_that_make_no_sense_are_named(settings, text):
    with pytest.raises(RegardError, match=text):
        EncodingSettings(**settings)


def test_training_learns_what_frequencies_do_not_tell(tmp_path):
    """The second half of each text repeats the first, so a hidden word can be read from the other half."""
    rng = np.random.default_rng(0)
    words = ["red", "green", "blue", "black", "white", "grey", "pink", "brown"]
    halves = [" ".join(rng.choice(words, 3)) for _ in range(400)]
    (tmp_path / "t.txt").write_text("".join(f"{half} and {half}\n" for half in halves))
    settings = {**RUN, "width": 64, "heads": 4, "feed_forward": 64, "layers": 2, "steps": 250, "warmup": 20}
    settings |= {"data": str(tmp_path / "t.txt"), "learning_rate": 3e-3, "batch_tokens": 400, "dropout": 0.0}
    outcome = tasks.train("encode", {**settings, "average": 0.0}, tmp_path / "run", show=False)
    best = outcome.best
    assert best["accuracy"] > 2 * best["unigram_accuracy"]
    assert best["perplexity"] < 0.5 * best["unigram_perplexity"]


@pytest.mark.parametrize(("family", "kind"), [("bert", "ForMaskedLM"), ("roberta", "Model")])
def test_training_starts_from_a_folder(family, kind, tmp_path):
    write_encoder(tmp_path / "start", family, kind)
    (tmp_path / "t.txt").write_text("".join(f"a lazy dog {n}\n" for n in range(40)))
    settings = {"data": str(tmp_path / "t.txt"), "start": str(tmp_path / "start"), "max_tokens": 32}
    settings |= {"steps": 2, "warmup": 1, "batch_tokens": 200, "learning_rate": 1e-9, "average": 0.0}
    settings["precision"] = "bfloat16" if family == "bert" else "float32"
    outcome = tasks.train("encode", settings, tmp_path / "run", show=False)
    assert math.isfinite(outcome.best["perplexity"])
    trained, start = (SentenceEncoder.load(tmp_path / name) for name in ("run", "start"))
    np.testing.assert_allclose(trained.vectors(["a dog"]), start.vectors(["a dog"]), rtol=1e-3, atol=1e-4)
    assert trained.vocabulary == start.vocabulary
    # What was trained is a start too, with its output for masked words.
    again = find_task("encode")
    model = again.build(EncodingSettings(start=str(tmp_path / "run"), max_tokens=32), None)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, trained.model.state_dict()[name])


def test_more_tokens_than_the_start_reads_are_refused(tmp_path):
    write_encoder(tmp_path / "start")
    with pytest.raises(ArgumentError, match="max_tokens: the encoder reads 32 tokens, got 64"):
        find_task("encode").check(EncodingSettings(start=str(tmp_path / "start"), max_tokens=64))


def test_an_encoder_without_an_output_for_words_cannot_be_measured(tmp_path):
    write_encoder(tmp_path)
    with pytest.raises(ArgumentError, match="model: .* has no output for hidden words"):
        tasks.evaluate("encode", tmp_path)


def test_an_evaluation_has_the_baseline_of_the_training(tmp_path):
    settings = {**RUN, "embedded": 200, "hold_out_most": 50}
    tasks.train("encode", settings, tmp_path / "run", show=False)
    report = tasks.evaluate("encode", tmp_path / "run", {"limit": 60}, compare=[tmp_path / "run" / "best"])
    values = report.to_json()
    assert values["hidden_tokens"] > 50
    assert 0 < values["unigram_accuracy"] < 50
    assert values["compared"][str(tmp_path / "run" / "best")]["perplexity"] == values["perplexity"]
    assert "token frequencies" in str(report)
    (tmp_path / "run" / "best" / "unigrams.safetensors").write_bytes(b"x")
    with pytest.raises(FileError, match="unigrams.safetensors: cut short or not a file of token frequencies"):
        tasks.load(tmp_path / "run")
