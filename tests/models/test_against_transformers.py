"""The models with the settings and the weights of BERT and Llama, compared with Transformers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from regard.errors import ArgumentError, RegardError, ShapeError
from regard.models import Encoder, EncoderConfig, LanguageModel, LanguageModelConfig, load_model
from support.small_models import LENGTHS, B, S, V, build, close, sentences

transformers = pytest.importorskip("transformers", reason="the peers are in the extra hf")

SIZES = {"vocabulary_size": V, "width": 24, "feed_forward": 13, "layers": 2, "heads": 4, "dropout": 0.0}


def copied(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: x.detach().clone() for name, x in module.state_dict().items()}


def like_bert(theirs: Any) -> Encoder:
    """Return our encoder with the weights of a BertModel."""
    bert = EncoderConfig(
        **SIZES,
        norm="post",
        norm_epsilon=1e-12,
        embedding_norm=True,
        scaled_embeddings=False,
        positions="learned",
        max_length=29,
        token_types=2,
    )
    ours: Any = Encoder(bert)
    table = theirs.embeddings
    pairs: list[tuple[Any, Any]] = [
        (ours.embedding.tokens, table.word_embeddings),
        (ours.embedding.types, table.token_type_embeddings),
        (ours.embedding.positions.pos_embedding, table.position_embeddings),
        (ours.embedding.norm, table.LayerNorm),
    ]
    for block, layer in zip(ours.layers, theirs.encoder.layer, strict=True):
        attend, peer = block.self_attention, layer.attention
        pairs += [(attend.W_q, peer.self.query), (attend.W_k, peer.self.key), (attend.W_v, peer.self.value)]
        pairs += [(attend.W_o, peer.output.dense), (block.self_norm, peer.output.LayerNorm)]
        pairs += [(block.feed_forward.widen, layer.intermediate.dense)]
        pairs += [(block.feed_forward.narrow, layer.output.dense), (block.feed_norm, layer.output.LayerNorm)]
    for mine, its in pairs:
        mine.load_state_dict(copied(its))
    return ours.eval()


@torch.no_grad()
def test_an_encoder_with_the_weights_of_bert_gives_its_states(tmp_path):
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=V,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=13,
        max_position_embeddings=29,
        initializer_range=0.5,
    )
    theirs = transformers.BertModel(config, add_pooling_layer=False).eval()
    ours, (source, _) = like_bert(theirs), sentences()
    types = torch.randint(2, (B, S))
    real = torch.arange(S) < LENGTHS[:, None]
    for given in (types, None):
        expected = theirs(source, attention_mask=real.long(), token_type_ids=given).last_hidden_state
        close(ours(source, LENGTHS, types=given)[real], expected[real], 1e-5)
    ours.save_pretrained(tmp_path)
    close(load_model(tmp_path)(source, types=types), ours(source, types=types), 1e-6)


def like_llama(theirs: Any, **options: Any) -> LanguageModel:
    """Return our language model with the weights of a LlamaForCausalLM."""
    llama = LanguageModelConfig(
        **SIZES,
        kv_heads=2,
        activation="swiglu",
        bias=False,
        norm_type="rms",
        norm_epsilon=1e-6,
        scaled_embeddings=False,
        positions="rotary",
        rotary_layout="llama",
        output_bias=False,
        **options,
    )
    ours: Any = LanguageModel(llama)
    pairs: list[tuple[Any, Any]] = [
        (ours.decoder.embedding.tokens, theirs.model.embed_tokens),
        (ours.decoder.norm, theirs.model.norm),
    ]
    for block, layer in zip(ours.decoder.layers, theirs.model.layers, strict=True):
        attend, peer = block.self_attention, layer.self_attn
        pairs += [(attend.W_q, peer.q_proj), (attend.W_k, peer.k_proj), (attend.W_v, peer.v_proj)]
        pairs += [(attend.W_o, peer.o_proj), (block.feed_forward.narrow, layer.mlp.down_proj)]
        pairs += [(block.self_norm, layer.input_layernorm), (block.feed_norm, layer.post_attention_layernorm)]
        block.feed_forward.widen.weight.copy_(
            torch.cat([layer.mlp.up_proj.weight, layer.mlp.gate_proj.weight])
        )
    if not llama.tied_output:
        pairs.append((ours.output, theirs.lm_head))
    for mine, its in pairs:
        mine.load_state_dict(copied(its))
    return ours.eval()


@pytest.mark.parametrize(("tied", "base"), [(True, 10_000.0), (False, 500.0)])
@torch.no_grad()
def test_a_language_model_with_the_weights_of_llama_gives_its_logits(tied, base, tmp_path):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=V,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=13,
        rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": base},
        tie_word_embeddings=tied,
        initializer_range=0.3,
    )
    theirs = transformers.LlamaForCausalLM(config).eval()
    ours = like_llama(theirs, tied_output=tied, rotary_base=base)
    tokens = torch.randint(V, (B, S))
    expected = theirs(tokens).logits
    close(ours(tokens), expected, 1e-5)
    state = ours.start()
    steps = [ours.output(ours.step(tokens[:, t : t + 1], state)) for t in range(S)]
    close(torch.cat(steps, dim=1), expected, 1e-5)
    ours.save_pretrained(tmp_path)
    close(load_model(tmp_path)(tokens), expected, 1e-5)


def test_without_biases_there_are_none():
    model = build({"vocabulary_size": V, "bias": False, "norm_type": "rms", "output_bias": False})
    assert not any(name.endswith("bias") for name, _ in model.named_parameters())


def test_types_of_tokens_are_checked():
    source, _ = sentences()
    encoder = Encoder(EncoderConfig(**SIZES, token_types=2))
    for types, kind, text in (
        (torch.full((B, S), 2), ArgumentError, "types: token 2, but the vocabulary has 2"),
        (torch.zeros(B, 2).long(), ShapeError, r"types: expected \(3,7\) as tokens, got \(3,2\)"),
    ):
        with pytest.raises(kind, match=text):
            encoder(source, types=types)
    with pytest.raises(ArgumentError, match="types: this encoder has no token types: set token_types"):
        Encoder(EncoderConfig(**SIZES))(source, types=torch.zeros(B, S).long())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"norm_type": "batch"}, "norm_type: unknown name 'batch'"),
        ({"norm_epsilon": 0}, "norm_epsilon: expected a number above 0, got 0"),
        ({"rotary_base": "x"}, "rotary_base: expected a number above 0, got 'x'"),
        ({"rotary_layout": "lama"}, "rotary_layout: unknown name 'lama': did you mean 'llama'"),
        ({"bias": 1}, "bias: expected True or False, got 1"),
        ({"token_types": -1}, "token_types: expected a whole number of 0 or more"),
    ],
)
def test_wrong_settings_are_refused(options, text):
    with pytest.raises(RegardError, match=text):
        EncoderConfig(**{**SIZES, **options})
