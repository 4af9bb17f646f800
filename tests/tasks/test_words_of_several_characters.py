"""A token of several Chinese characters is one word in the weights of every predictor, and is never divided."""

import numpy as np
import pytest

import regard.plots
from regard.models import (
    Encoder,
    EncoderConfig,
    TextClassifier,
    TextClassifierConfig,
    TwoWayReader,
    TwoWayReaderConfig,
)
from regard.tasks.answer import Reader
from regard.tasks.classify import Classifier
from regard.tasks.encode import SentenceEncoder
from regard.tasks.encode.sentence_pooling import SentencePooling
from regard.tasks.word_pages import save_word_weights
from regard.text import ClassLabels, train_vocabulary

TEXT = "这部电影很好看。"
TOKENS = ["这部", "电影", "很", "好看", "。"]


@pytest.fixture(scope="module")
def vocabulary():
    texts = ["电影", "这部", "好看", "很", "。"] * 20
    vocabulary = train_vocabulary("bpe", texts, 400)
    assert [TEXT[a:b] for a, b in vocabulary.spans(TEXT)] == TOKENS
    return vocabulary


def classifier(vocabulary):
    sizes = {"vocabulary_size": len(vocabulary), "classes": 2, "width": 16}
    network = TextClassifier(TextClassifierConfig(**sizes, pooling="multihead", pooling_heads=2))
    return Classifier(network, vocabulary, ClassLabels(["bad", "good"]))


def encoder(vocabulary):
    config = EncoderConfig(vocabulary_size=len(vocabulary), width=16, layers=1, heads=2)
    return SentenceEncoder(Encoder(config), vocabulary, SentencePooling("mean", False, 32))


def test_a_classifier_highlights_whole_tokens(vocabulary):
    predictor = classifier(vocabulary)
    (one,) = predictor.classify([TEXT])
    (words,) = predictor.word_weights(one)
    assert words.column_words == [TEXT[a:b] for a, b in words.spans] == TOKENS
    tokens = predictor.attention(one)[-1].map.weights()[0, :, 0, :-1].numpy()  # (h,n) without the end
    np.testing.assert_allclose(words.weights, tokens, atol=1e-6)


def test_an_encoder_has_a_row_and_a_column_for_each_token(vocabulary):
    predictor = encoder(vocabulary)
    (one,) = predictor([TEXT])
    (words,) = predictor.word_weights(one)
    assert words.row_words == words.column_words == TOKENS
    tokens = predictor.attention(one)[-1].map.weights()[0].mean(dim=0)[:-1, :-1].numpy()  # (n,n)
    np.testing.assert_allclose(words.weights, tokens, atol=1e-6)


def test_a_reader_has_a_row_and_a_column_for_each_token(vocabulary):
    network = TwoWayReader(TwoWayReaderConfig(vocabulary_size=len(vocabulary), width=16))
    predictor = Reader(network, vocabulary, {"max_tokens": 32, "stride": 4})
    answer = predictor.ask("电影好看?", TEXT, threshold=0.0)
    (words,) = predictor.word_weights(answer)
    assert words.row_words == ["电影", "好看", "?"]
    assert words.column_words == [TEXT[a:b] for a, b in words.spans] == TOKENS
    record = next(one for one in predictor.attention(answer) if one.name == "to_context")
    np.testing.assert_allclose(words.weights, record.map.weights()[0, 0, :, 1:].numpy(), atol=1e-6)


def test_the_axes_of_self_attention_are_key_and_query(vocabulary, monkeypatch, tmp_path):
    predictor, drawn = encoder(vocabulary), []
    monkeypatch.setattr(regard.plots, "visualize_attention", lambda *_, axes, **__: drawn.append(axes))
    (words,) = predictor.word_weights(predictor(["电影好看"])[0])
    save_word_weights(words, tmp_path / "a.png", title="")
    assert drawn == [("Key", "Query")]
