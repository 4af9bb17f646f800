"""Tests of the models against torch's own Transformer with the same weights and against the NumPy oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from regard import reference
from regard.models import Transformer
from support.small_models import LENGTHS, S, T, build, close, sentences


def copy_attention(ours, theirs: nn.MultiheadAttention) -> None:
    projections = [ours.W_q, ours.W_k, ours.W_v]
    theirs.in_proj_weight.copy_(torch.cat([one.weight for one in projections]))
    theirs.in_proj_bias.copy_(torch.cat([one.bias for one in projections]))
    theirs.out_proj.load_state_dict(ours.W_o.state_dict())


@torch.no_grad()
def as_torch(model: Transformer) -> nn.Transformer:
    """Return torch's Transformer with the weights of a model, which has no final norms if it is post-norm."""
    c = model.config
    shape = {
        "d_model": c.width,
        "nhead": c.heads,
        "dim_feedforward": c.feed_forward,
        "dropout": 0.0,
        "activation": c.activation,
        "batch_first": True,
        "norm_first": c.norm == "pre",
    }
    norms = [nn.LayerNorm(c.width) if c.norm == "pre" else None for _ in range(2)]
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**shape), c.encoder_layers, norms[0], enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**shape), c.decoder_layers, norms[1])
    theirs = nn.Transformer(
        c.width, c.heads, custom_encoder=encoder, custom_decoder=decoder, batch_first=True
    )
    for ours, stack in ((model.encoder, encoder), (model.decoder, decoder)):
        for block, layer in zip(ours.layers, stack.layers, strict=True):
            copy_attention(block.self_attention, layer.self_attn)
            pairs = [(block.self_norm, layer.norm1), (block.feed_norm, layer.norm2)]
            if stack is decoder:
                copy_attention(block.cross_attention, layer.multihead_attn)
                pairs = [*pairs[:1], (block.cross_norm, layer.norm2), (block.feed_norm, layer.norm3)]
            pairs += [(block.feed_forward.widen, layer.linear1), (block.feed_forward.narrow, layer.linear2)]
            for mine, its in pairs:
                its.load_state_dict(mine.state_dict())
        if stack.norm is not None:
            stack.norm.load_state_dict(ours.norm.state_dict())
    return theirs.to(model.output.weight.dtype).eval()


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@torch.no_grad()
def test_the_transformer_equals_torchs(norm, activation):
    model = build({"norm": norm, "activation": activation, "decoder_layers": 3}, torch.float64)
    source, target = sentences()
    theirs = as_torch(model)
    hidden = torch.arange(S) >= LENGTHS[:, None]
    x, y = model.encoder.embedding(source), model.decoder.embedding(target)
    expected = theirs(
        x,
        y,
        tgt_mask=torch.ones(T, T, dtype=torch.bool).triu(1),
        src_key_padding_mask=hidden,
        memory_key_padding_mask=hidden,
        tgt_is_causal=True,
    )
    close(model.hidden(source, target, LENGTHS), expected)


@torch.no_grad()
def test_tokens_enter_scaled_and_with_their_positions():
    model, (source, _) = build({}, torch.float64), sentences()
    embed = model.encoder.embedding
    by_hand = embed.tokens.weight[source].numpy() * np.sqrt(24) + reference.sinusoidal_positions(S, 24)
    close(embed(source), torch.from_numpy(by_hand), 1e-6)  # the table of positions is float32
    close(embed(source[:, 3:], 3), torch.from_numpy(by_hand)[:, 3:], 1e-6)


def oracle_attention(model, query, memory, hidden):
    attend, states = model.attention, memory.states.numpy()
    mask = ~hidden.numpy()[:, None]
    if attend.kind == "additive":
        return reference.additive_attention(
            query,
            states,
            states,
            W_q=attend.W_1.weight.numpy(),
            W_k=attend.W_2.weight.numpy(),
            v=attend.v.numpy(),
            b=attend.W_2.bias.numpy(),
            mask=mask,
        )
    if attend.kind == "bilinear":
        return reference.bilinear_attention(query, states, states, attend.W_2.weight.numpy(), mask=mask)
    name = "dot_attention" if attend.kind == "dot" else "scaled_dot_product_attention"
    return getattr(reference, name)(query, states, states, mask=mask)


@pytest.mark.parametrize("kind", ["additive", "bilinear", "dot", "scaled_dot"])
@pytest.mark.parametrize("fed", [True, False], ids=["fed", "unfed"])
@torch.no_grad()
def test_a_recurrent_step_equals_the_oracle(kind, fed):
    """Compute two steps of GRU, attention and output by hand, with NumPy for the attention."""
    model = build({"cell": "gru", "attention": kind, "input_feeding": fed}, torch.float64)
    source, target = sentences()
    memory = model.encode(source, LENGTHS)
    hidden = torch.arange(S) >= LENGTHS[:, None]
    found = torch.zeros(3, 10, dtype=torch.float64)
    state = model.start(memory)
    layers = state.layers
    for t in range(2):
        x = model.target_embedding(target[:, t])
        reads = torch.cat([x, found], dim=-1) if fed else x
        out, layers = model.decoder(reads[:, None], layers)
        context, weights = oracle_attention(model, out.numpy(), memory, hidden)
        everything = torch.cat([out[:, 0], torch.from_numpy(context)[:, 0], x], dim=-1)
        found = torch.tanh(model.find(everything))
        records: list = []
        close(model.step(target[:, t : t + 1], state, records=records)[:, 0], found)
        close(records[0].map[:, 0], torch.from_numpy(weights))


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
@torch.no_grad()
def test_the_feed_forward_part_is_that_of_the_formula(activation):
    layer: Any = build({"activation": activation}, torch.float64).encoder.layers[0].feed_forward
    x = torch.randn(2, 3, 24, dtype=torch.float64)
    wide = x @ layer.widen.weight.T + layer.widen.bias
    if activation == "relu":
        wide = wide.clamp(min=0)
    elif activation == "gelu":
        wide = wide * (1 + torch.erf(wide / 2**0.5)) / 2
    else:
        wide = wide[..., :13] * wide[..., 13:] / (1 + torch.exp(-wide[..., 13:]))
    close(layer(x), wide @ layer.narrow.weight.T + layer.narrow.bias)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "alibi", "relative", "none"])
@torch.no_grad()
def test_positions_make_the_order_matter(positions):
    """ALiBi depends only on the distance, so a source and its mirror image give the same."""
    model, (source, _) = build({"positions": positions}, torch.float64), sentences()
    if positions == "relative":
        torch.nn.init.normal_(model.encoder.bias.table.weight)
    states = model.encode(source).states
    turned = source[:, torch.randperm(S, generator=torch.Generator().manual_seed(1))]
    mixed = model.encode(turned).states
    difference = (states.sort(dim=1).values - mixed.sort(dim=1).values).abs().max()
    assert (difference < 1e-9) == (positions == "none")
    mirrored = model.encode(source.flip(1)).states.flip(1)
    assert ((mirrored - states).abs().max() < 1e-9) == (positions in ("none", "alibi"))


@torch.no_grad()
def test_relative_positions_of_the_decoder_look_back_only():
    """The decoder has 32 buckets for earlier positions, and the encoder 16 for each direction."""
    model = build({"positions": "relative"}, torch.float64)
    back = -torch.arange(16)
    assert model.decoder.bias.bucket(back).unique().numel() == 16
    assert model.encoder.bias.bucket(back).unique().numel() < 16
    assert model.encoder.bias.bucket(-back[1:]).min() > model.encoder.bias.bucket(back).max()
