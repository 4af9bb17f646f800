"""Small summarisers with random weights, and texts for them."""

from __future__ import annotations

import functools

import torch

from regard.models import Seq2Seq, Seq2SeqConfig, Transformer, TransformerConfig
from regard.tasks.summarize import Summarizer
from regard.tasks.summarize.words import common_words
from regard.text import Vocabulary, train_vocabulary

TEXT = "Few tools exist.\n\n  We present ZEBRA, a corpus of Faroese.  ZEBRA holds 12 songs."
ROWS = [(f"We present a corpus of songs number {n}. It holds few tools.", f"A corpus {n}") for n in range(6)]


@functools.cache
def _vocabulary(lowercase: bool) -> Vocabulary:
    texts = [f" {text}" for row in [*ROWS, (" ".join(TEXT.split()), "")] * 3 for text in row if text]
    return train_vocabulary("bpe", texts, 420, lowercase=lowercase)


def small_summarizer(
    kind: str = "transformer",
    *,
    copy: bool = True,
    max_tokens: int = 60,
    lowercase: bool = True,
    **extra,
) -> Summarizer:
    """Make a summariser of random weights, whose vocabulary has the words of :data:`TEXT`."""
    torch.manual_seed(3)
    vocabulary = _vocabulary(lowercase)
    sizes = {"source_size": len(vocabulary), "target_size": len(vocabulary), "shared_embeddings": True}
    common = {**sizes, "width": 16, "copy": copy, "encoder_layers": 1, "decoder_layers": 1}
    if kind == "transformer":
        model = Transformer(TransformerConfig(**common, heads=2, feed_forward=16))
    else:
        model = Seq2Seq(Seq2SeqConfig(**common))
    settings = {"max_tokens": max_tokens, "max_summary": 12, **extra}
    return Summarizer(model.eval(), vocabulary, settings, common_words(ROWS))
