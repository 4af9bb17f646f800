"""The models, the loss and the token origins that tasks from text to text share."""

from __future__ import annotations

import pytest
import torch

from regard.errors import ArgumentError
from regard.tasks import token_origins
from regard.tasks.encoder_decoder import encoder_decoder, encoder_decoder_config, sentence_loss
from regard.tasks.settings import EncoderDecoderSettings
from regard.text import Batch, ByteVocabulary, pad_sequences

VOCABULARY = ByteVocabulary()
SIZE = len(VOCABULARY)


def build(**settings):
    torch.manual_seed(0)
    small = {"width": 16, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    if settings.get("architecture", "transformer") == "transformer":
        small |= {"heads": 2, "feed_forward": 16}
    settings = EncoderDecoderSettings(**{**small, **settings})
    config = encoder_decoder_config(settings, source_size=SIZE, target_size=SIZE, shared=True)
    return encoder_decoder(config).double().eval()


def batch_of(pairs: list[tuple[str, str]]) -> Batch:
    sources, targets = (VOCABULARY.encode_batch(texts) for texts in zip(*pairs, strict=True))
    source, lengths = pad_sequences(sources, end=VOCABULARY.eos)
    inputs, _ = pad_sequences(targets, start=VOCABULARY.bos)
    outputs, target_lengths = pad_sequences(targets, end=VOCABULARY.eos)
    return Batch(source, lengths, inputs, outputs, target_lengths, torch.arange(len(pairs)))


KINDS = [
    {"architecture": kind, "copy": copy} for kind in ("transformer", "seq2seq") for copy in (False, True)
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@torch.no_grad()
def test_the_loss_is_that_of_the_targets_without_padding(kind):
    model, batch = build(**kind), batch_of([("abc", "acb"), ("a longer text", "shorter")])
    log_p = model(batch.source, batch.target_input, batch.source_lengths).log_softmax(dim=-1)
    right = log_p.gather(-1, batch.target_output[..., None])[..., 0]
    expected = -sum(right[b, :n].sum() for b, n in enumerate(batch.target_lengths.tolist()))
    torch.testing.assert_close(sentence_loss(model, batch, 0.0), expected)


@pytest.mark.parametrize("architecture", ["transformer", "seq2seq"])
@torch.no_grad()
def test_origins_split_the_probability_of_a_token_into_copied_and_generated(architecture):
    model = build(architecture=architecture, copy=True)
    pairs = [("banana", "ab"), ("kiwi", "kiosk")]
    sources, targets = (VOCABULARY.encode_batch(texts) for texts in zip(*pairs, strict=True))
    found = token_origins(model, VOCABULARY, sources, targets)
    batch = batch_of(pairs)
    states = model.hidden(batch.source, batch.target_input, batch.source_lengths)
    log_p = model.output(states)
    for b, (source, target) in enumerate(zip(sources, targets, strict=True)):
        assert len(found[b]) == len(target)
        for t, (token, origin) in enumerate(zip(target, found[b], strict=True)):
            weights = {s: float(states.weights[b, t, s]) for s, other in enumerate(source) if other == token}
            copied = (1 - float(states.gate[b, t].sigmoid())) * sum(weights.values())
            assert origin.probability == pytest.approx(float(log_p[b, t, token].exp()))
            assert origin.copied * origin.probability == pytest.approx(copied)
            assert origin.position == (max(weights, key=weights.__getitem__) if weights else None)
    assert [origin.position is None for origin in found[1]] == [False, False, True, True, False]


def test_origins_of_a_model_that_does_not_copy_are_refused():
    with pytest.raises(ArgumentError, match="model: it has no copy mechanism"):
        token_origins(build(), VOCABULARY, [[5]], [[5]])


def test_settings_that_cannot_copy_are_refused():
    with pytest.raises(ArgumentError, match="copy: copying follows the attention"):
        EncoderDecoderSettings(architecture="seq2seq", score="none", copy=True)
