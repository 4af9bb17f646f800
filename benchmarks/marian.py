"""Copy the weights of a Transformer of Regard into a Marian model of Hugging Face, which translates alike."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

from regard.models import Transformer
from regard.positions import sinusoidal

PAD, BOS, EOS = 0, 1, 2


def as_marian(model: Transformer) -> Any:
    """Return a Marian model with the weights of a post-norm model with sinusoidal positions."""
    c = model.config
    if c.norm != "post" or not c.shared_embeddings or c.positions != "sinusoidal" or c.kv_heads is not None:
        raise ValueError("Marian is post-norm, with shared embeddings and sinusoidal positions")
    config = MarianConfig(
        vocab_size=c.source_size,
        d_model=c.width,
        encoder_layers=c.encoder_layers,
        decoder_layers=c.decoder_layers,
        encoder_attention_heads=c.heads,
        decoder_attention_heads=c.heads,
        encoder_ffn_dim=c.feed_forward,
        decoder_ffn_dim=c.feed_forward,
        activation_function=c.activation,
        scale_embedding=True,
        max_position_embeddings=c.max_length,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
        dropout=0.0,
    )
    marian: Any = MarianMTModel(config).eval()
    with torch.no_grad():
        marian.model.shared.weight.copy_(model.encoder.embedding.tokens.weight)
        marian.final_logits_bias.copy_(model.output.bias[None])
        table = sinusoidal(c.max_length, c.width)
        for side, ours in ((marian.model.encoder, model.encoder), (marian.model.decoder, model.decoder)):
            side.embed_positions.weight.copy_(table)
            for theirs, block in zip(side.layers, ours.layers, strict=True):
                _copy_block(theirs, block)
    return marian


def _copy_block(theirs: Any, ours: Any) -> None:
    _copy_attention(theirs.self_attn, ours.self_attention)
    _copy(theirs.self_attn_layer_norm, ours.self_norm)
    if hasattr(theirs, "encoder_attn"):
        _copy_attention(theirs.encoder_attn, ours.cross_attention)
        _copy(theirs.encoder_attn_layer_norm, ours.cross_norm)
    _copy(theirs.fc1, ours.feed_forward.widen)
    _copy(theirs.fc2, ours.feed_forward.narrow)
    _copy(theirs.final_layer_norm, ours.feed_norm)


def _copy_attention(theirs: Any, ours: Any) -> None:
    for name, part in (("q_proj", "W_q"), ("k_proj", "W_k"), ("v_proj", "W_v"), ("out_proj", "W_o")):
        _copy(getattr(theirs, name), getattr(ours, part))


def _copy(theirs: Any, ours: Any) -> None:
    theirs.weight.copy_(ours.weight)
    theirs.bias.copy_(ours.bias)


def generate(marian: Any, ids: Tensor, mask: Tensor, *, beams: int, limit: int, early: bool) -> Tensor:
    """Translate with Hugging Face's ``generate``."""
    with torch.no_grad():
        return marian.generate(
            input_ids=ids,
            attention_mask=mask,
            num_beams=beams,
            max_new_tokens=limit,
            length_penalty=1.0,
            early_stopping=early,
            bad_words_ids=[[PAD], [BOS]],
        )
