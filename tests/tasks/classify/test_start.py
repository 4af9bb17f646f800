"""Classifiers that start from a pretrained encoder."""

import pytest
import torch

from regard import tasks
from regard.errors import ArgumentError
from regard.models import Encoder, load_huggingface
from regard.tasks.classify import Classifier
from support.pretrained_folders import write_encoder

pytest.importorskip("tokenizers", reason="the extra text is not installed")


@pytest.fixture
def folder(tmp_path):
    write_encoder(tmp_path / "bert", "bert")
    rows = [f"the quick fox {n}\tx\na lazy dog {n}\ty\n" for n in range(20)]
    (tmp_path / "rows.tsv").write_text("".join(rows), encoding="utf-8")
    return tmp_path


def settings(folder, **changes):
    given = {"data": str(folder / "rows.tsv"), "start": str(folder / "bert"), "steps": 2, "max_tokens": 12}
    return {**given, "batch_tokens": 64, **changes}


def test_a_started_classifier_has_the_encoder_and_its_special_tokens(folder):
    tasks.train("classify", settings(folder, learning_rate=1e-9), folder / "run", show=False)
    classifier = Classifier.load(folder / "run")
    theirs = load_huggingface(folder / "bert", Encoder)
    for name, weight in theirs.state_dict().items():
        torch.testing.assert_close(classifier.model.encoder.state_dict()[name], weight, atol=1e-6, rtol=0)
    assert classifier.encoder.framing.start is not None
    (one,) = classifier.classify(["the quick fox"])
    record = classifier.attention(one)[-1]
    assert record.key_tokens is not None
    assert record.key_tokens[0][0] == "<s>"
    assert record.map.weights().shape[-1] == len(one.token_ids) + 2
    (words,) = classifier.word_weights(one)
    assert words.column_words == ["the", "quick", "fox"]
    expected = record.map.weights()[0, :, 0, 1:-1].sum(dim=-1).double()
    torch.testing.assert_close(torch.from_numpy(words.weights.sum(axis=1)), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    "name", ["architecture", "ngrams", "ngram_buckets", "convolution", "width", "vocabulary"]
)
def test_settings_of_the_encoder_are_refused(folder, name):
    values = {"architecture": "encoder", "vocabulary": "bpe"}
    changed = settings(folder, **{name: values.get(name, 7)})
    with pytest.raises(ArgumentError, match=f"{name}: of no use with start="):
        tasks.train("classify", changed, folder / "run", show=False)


def test_more_tokens_than_the_encoder_reads_are_refused(folder):
    with pytest.raises(ArgumentError, match="max_tokens: .* tokens of a text at most, got 5000"):
        tasks.train(
            "classify", settings(folder, max_tokens=5000, batch_tokens=9000), folder / "run", show=False
        )
    assert not (folder / "run").exists()
