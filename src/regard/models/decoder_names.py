"""The names of the tensors of Llama and GPT-2 in Hugging Face folders and in GGUF files."""

from __future__ import annotations

from regard.models.decoder_files import DecoderNames

__all__ = ["GGUF_GPT2", "GGUF_LLAMA", "GGUF_QWEN2", "GPT2", "LLAMA"]

# The part of each module that joins queries, keys and values.
_THIRDS = {"self_attention.W_q": (0, 3), "self_attention.W_k": (1, 3), "self_attention.W_v": (2, 3)}

# Llama, Mistral and Qwen2.
LLAMA = DecoderNames(
    prefix="model.",
    blocks="layers",
    names={"decoder.embedding.tokens": "embed_tokens", "decoder.norm": "norm"},
    block={
        "self_attention.W_q": ("self_attn.q_proj",),
        "self_attention.W_k": ("self_attn.k_proj",),
        "self_attention.W_v": ("self_attn.v_proj",),
        "self_attention.W_o": ("self_attn.o_proj",),
        "self_norm": ("input_layernorm",),
        "feed_forward.widen": ("mlp.up_proj", "mlp.gate_proj"),
        "feed_forward.narrow": ("mlp.down_proj",),
        "feed_norm": ("post_attention_layernorm",),
    },
    output="lm_head",
    ignored=r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",
)
GPT2 = DecoderNames(
    prefix="transformer.",
    blocks="h",
    names={
        "decoder.embedding.tokens": "wte",
        "decoder.embedding.positions.pos_embedding": "wpe",
        "decoder.norm": "ln_f",
    },
    block={
        "self_attention.W_q": ("attn.c_attn",),
        "self_attention.W_k": ("attn.c_attn",),
        "self_attention.W_v": ("attn.c_attn",),
        "self_attention.W_o": ("attn.c_proj",),
        "self_norm": ("ln_1",),
        "feed_forward.widen": ("mlp.c_fc",),
        "feed_forward.narrow": ("mlp.c_proj",),
        "feed_norm": ("ln_2",),
    },
    output="lm_head",
    shares=_THIRDS,
    transposed=frozenset({*_THIRDS, "self_attention.W_o", "feed_forward.widen", "feed_forward.narrow"}),
    ignored=r"h\.\d+\.attn\.(masked_)?bias",
)
# The names of Qwen2 and, with pairs of rows, of Llama.
GGUF_QWEN2 = DecoderNames(
    prefix="",
    blocks="blk",
    names={"decoder.embedding.tokens": "token_embd", "decoder.norm": "output_norm"},
    block={
        "self_attention.W_q": ("attn_q",),
        "self_attention.W_k": ("attn_k",),
        "self_attention.W_v": ("attn_v",),
        "self_attention.W_o": ("attn_output",),
        "self_norm": ("attn_norm",),
        "feed_forward.widen": ("ffn_up", "ffn_gate"),
        "feed_forward.narrow": ("ffn_down",),
        "feed_norm": ("ffn_norm",),
    },
    output="output",
)
GGUF_LLAMA = DecoderNames(
    prefix="",
    blocks="blk",
    names=GGUF_QWEN2.names,
    block=GGUF_QWEN2.block,
    output="output",
    interleaved=frozenset({"self_attention.W_q", "self_attention.W_k"}),
)
GGUF_GPT2 = DecoderNames(
    prefix="",
    blocks="blk",
    names={**GGUF_QWEN2.names, "decoder.embedding.positions.pos_embedding": "position_embd"},
    block={
        "self_attention.W_q": ("attn_qkv",),
        "self_attention.W_k": ("attn_qkv",),
        "self_attention.W_v": ("attn_qkv",),
        "self_attention.W_o": ("attn_output",),
        "self_norm": ("attn_norm",),
        "feed_forward.widen": ("ffn_up",),
        "feed_forward.narrow": ("ffn_down",),
        "feed_norm": ("ffn_norm",),
    },
    output="output",
    shares=_THIRDS,
)
