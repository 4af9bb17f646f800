"""Encoder–decoder models for the tasks that write a text for a text, and their loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.copying import CopyStates
from regard.models import Seq2Seq, Seq2SeqConfig, Transformer, TransformerConfig
from regard.settings import part_of
from regard.tasks.settings import EncoderDecoderSettings
from regard.text import Batch, BucketedBatches, PairData
from regard.training import copy_cross_entropy, output_cross_entropy

__all__ = ["encoder_decoder", "encoder_decoder_config", "perplexity", "sentence_loss", "target_loss"]


def encoder_decoder_config(
    settings: EncoderDecoderSettings, *, source_size: int, target_size: int, shared: bool
) -> TransformerConfig | Seq2SeqConfig:
    """Return the config of the model for vocabularies of these sizes, which are one vocabulary if ``shared``."""
    common: dict[str, Any] = {"source_size": source_size, "target_size": target_size}
    common["shared_embeddings"] = shared
    if settings.architecture == "transformer":
        return TransformerConfig(**part_of(settings, TransformerConfig), **common)
    attention = None if settings.score == "none" else settings.score
    return Seq2SeqConfig(**part_of(settings, Seq2SeqConfig), attention=attention, **common)


def encoder_decoder(config: TransformerConfig | Seq2SeqConfig) -> Transformer | Seq2Seq:
    """Return a new model with random weights."""
    return Transformer(config) if isinstance(config, TransformerConfig) else Seq2Seq(config)


def sentence_loss(model: Any, batch: Batch, smoothing: float) -> Tensor:
    """Return the cross-entropy summed over the tokens of the targets, without their padding.

    ``model`` is a Transformer or Seq2Seq, with or without a copy mechanism. ``smoothing`` is label smoothing.

    >>> model = Transformer(TransformerConfig(source_size=9, target_size=9, width=8, heads=2, copy=True))
    >>> tokens, lengths = torch.full((2, 3), 5), torch.tensor([3, 3])
    >>> sentence_loss(model, Batch(tokens, lengths, tokens, tokens, lengths, lengths), 0.1).shape
    torch.Size([])
    """
    hidden = model.hidden(batch.source, batch.target_input, batch.source_lengths)  # (b,t,m), or CopyStates
    return target_loss(model, hidden, batch.target_output, smoothing)


def target_loss(model: Any, hidden: Tensor | CopyStates, target: Tensor, smoothing: float) -> Tensor:
    """Return the cross-entropy of ``target (b,t)`` for the hidden states ``(b,t,m)``, summed without padding."""
    real = target != 0  # (b,t); 0 is padding in every vocabulary
    layer = (model.output.weight, model.output.bias)
    if isinstance(hidden, CopyStates):
        return copy_cross_entropy(hidden, *layer, target, counted=real, smoothing=smoothing)
    return output_cross_entropy(hidden[real], *layer, target[real], smoothing=smoothing)


def perplexity(model: nn.Module, data: PairData) -> float:
    """Return the perplexity of the targets of some pairs."""
    device, loss, tokens = next(model.parameters()).device, 0.0, 0
    for batch in BucketedBatches(data, shuffle=False).epoch(0):
        loss += float(sentence_loss(model, batch if device.type == "cpu" else batch.to(device), 0.0))
        tokens += batch.tokens
    return float(torch.tensor(loss / tokens).exp())
