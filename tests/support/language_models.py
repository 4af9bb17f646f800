"""Small language models of Transformers with random weights, as Hugging Face folders, GGUF files and flat files."""

from __future__ import annotations

import importlib.util
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

V, B, N = 352, 3, 23  # vocabulary, batch, tokens
TEXTS = [
    "Once upon a time there was a lily.",
    "It's 1984, isn't it?  Two spaces\n\nand lines.",
    "naïve 中文 👩‍👧 ½",
]
_SIZES = {
    "vocab_size": V,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
_GPT2_SIZES = {
    "vocab_size": V,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "initializer_range": 0.2,
    "bos_token_id": 0,
    "eos_token_id": 0,
}


def make_model(family: str, **settings: Any) -> Any:
    """Return a small model of Transformers, "Llama", "Mistral", "Qwen2" or "GPT2", with random norms and biases too."""
    transformers = pytest.importorskip("transformers", reason="the peers are in the extra hf")
    sizes = _GPT2_SIZES if family == "GPT2" else _SIZES
    config = getattr(transformers, f"{family}Config")(**{**sizes, **settings})
    torch.manual_seed(3)
    name = "GPT2LMHeadModel" if family == "GPT2" else f"{family}ForCausalLM"
    model = getattr(transformers, name)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def random_tokens() -> torch.Tensor:
    torch.manual_seed(5)
    return torch.randint(V, (B, N))


@torch.no_grad()
def greedy(model: Any, prompt: torch.Tensor, count: int) -> list[int]:
    """Return the tokens that Transformers generates greedily after ``prompt (1,n)``, whatever ends a text."""
    options = {"do_sample": False, "min_new_tokens": count, "max_new_tokens": count, "pad_token_id": 0}
    mask = torch.ones_like(prompt)
    model.generation_config.eos_token_id = None
    return model.generate(prompt, attention_mask=mask, **options)[0, prompt.shape[1] :].tolist()


def byte_level_tokenizer(size: int = V) -> Any:
    """Return a tokenizer of byte pairs that was trained on a few texts."""
    tokenizers = pytest.importorskip("tokenizers", reason="the extra text is not installed")
    trained = tokenizers.ByteLevelBPETokenizer()
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trained.train_from_iterator(TEXTS * 3, vocab_size=size, min_frequency=1, special_tokens=specials)
    return trained


# The names of the tensors of a GGUF file, after those of the blocks, and their names in Transformers.
_GGUF_LLAMA = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_norm": "input_layernorm",
    "ffn_up": "mlp.up_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_norm": "post_attention_layernorm",
}
_GGUF_GPT2 = {
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "attn_norm": "ln_1",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
    "ffn_norm": "ln_2",
}


def in_pairs(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    """Return the rows of each head as llama.cpp stores them, the first half of a head between the second."""
    return tensor.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)


def gguf_tensors(model: Any) -> dict[str, torch.Tensor]:
    """Return the tensors of a model of Transformers as a GGUF file holds them."""
    config, state = model.config, {name: x.detach() for name, x in model.state_dict().items()}
    gpt2 = config.model_type == "gpt2"
    if gpt2:
        tensors = {"token_embd.weight": state["transformer.wte.weight"]}
        tensors["position_embd.weight"] = state["transformer.wpe.weight"]
        tensors |= {f"output_norm.{part}": state[f"transformer.ln_f.{part}"] for part in ("weight", "bias")}
    else:
        tensors = {"token_embd.weight": state["model.embed_tokens.weight"]}
        tensors["output_norm.weight"] = state["model.norm.weight"]
    if not config.tie_word_embeddings:
        tensors["output.weight"] = state["lm_head.weight"]
    for layer in range(config.num_hidden_layers):
        start = f"transformer.h.{layer}." if gpt2 else f"model.layers.{layer}."
        for ours, theirs in (_GGUF_GPT2 if gpt2 else _GGUF_LLAMA).items():
            for part in ("weight", "bias"):
                tensor = state.get(f"{start}{theirs}.{part}")
                if tensor is None:
                    continue
                if gpt2 and tensor.ndim == 2:
                    tensor = tensor.T
                if config.model_type in ("llama", "mistral") and ours in ("attn_q", "attn_k"):
                    heads = config.num_attention_heads if ours == "attn_q" else config.num_key_value_heads
                    tensor = in_pairs(tensor, heads)
                tensors[f"blk.{layer}.{ours}.{part}"] = tensor.contiguous()
    return tensors


def gguf_settings(model: Any) -> dict[str, Any]:
    """Return the metadata of a GGUF file about the architecture of a model."""
    config = model.config
    kind = "llama" if config.model_type == "mistral" else config.model_type
    values: dict[str, Any] = {
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "block_count": config.num_hidden_layers,
        "attention.head_count": config.num_attention_heads,
    }
    if kind == "gpt2":
        values |= {"feed_forward_length": 4 * config.n_embd}
        values |= {"attention.layer_norm_epsilon": float(config.layer_norm_epsilon)}
    else:
        values |= {"feed_forward_length": config.intermediate_size}
        values |= {"attention.head_count_kv": config.num_key_value_heads}
        values |= {"attention.layer_norm_rms_epsilon": float(config.rms_norm_eps)}
        values |= {"rope.freq_base": float(config.rope_parameters["rope_theta"])}
        values |= {"rope.dimension_count": config.hidden_size // config.num_attention_heads}
    return {f"{kind}.{name}": value for name, value in values.items()}


def tokenizer_metadata(words: str = "gpt-2") -> dict[str, Any]:
    """Return the metadata of a GGUF file about a tokenizer of byte pairs."""
    import json

    spec = json.loads(byte_level_tokenizer().to_str())
    vocabulary = byte_level_tokenizer().get_vocab()
    tokens = sorted(vocabulary, key=lambda token: vocabulary[token])
    tokens += [f"<unused{number}>" for number in range(V - len(tokens))]
    pairs = [pair if isinstance(pair, str) else " ".join(pair) for pair in spec["model"]["merges"]]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": words,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * 3 + [1] * (len(tokens) - 3),
        "tokenizer.ggml.merges": pairs,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
    }


def write_gguf(
    path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, Any], kind: str = "F32"
) -> None:
    """Write a GGUF file with the package gguf, with its matrices in a quantisation such as "Q4_1"."""
    gguf = pytest.importorskip("gguf", reason="the extra gguf is not installed")
    metadata = dict(metadata)
    writer = gguf.GGUFWriter(path, metadata.pop("general.architecture"))
    for name, value in metadata.items():
        add = {bool: "bool", int: "uint32", float: "float32", str: "string", list: "array"}[type(value)]
        getattr(writer, f"add_{add}")(name, value)
    for name, tensor in tensors.items():
        wanted = gguf.GGMLQuantizationType[kind if tensor.ndim == 2 else "F32"]
        stored = gguf.quants.quantize(tensor.numpy().astype(np.float32), wanted)
        writer.add_tensor(name, stored, raw_dtype=wanted)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_flat(path: Path, model: Any) -> None:
    """Write a model of Transformers as a flat file of llama2.c."""
    config, tensors = model.config, gguf_tensors(model)
    size = config.vocab_size if config.tie_word_embeddings else -config.vocab_size
    head = (
        config.hidden_size,
        config.intermediate_size,
        config.num_hidden_layers,
        config.num_attention_heads,
    )
    head = (*head, config.num_key_value_heads, size, config.max_position_embeddings)
    kinds = (
        "attn_norm",
        "attn_q",
        "attn_k",
        "attn_v",
        "attn_output",
        "ffn_norm",
        "ffn_gate",
        "ffn_down",
        "ffn_up",
    )
    layers = range(config.num_hidden_layers)
    ordered = [tensors["token_embd.weight"]]
    ordered += [tensors[f"blk.{layer}.{kind}.weight"] for kind in kinds for layer in layers]
    ordered += [tensors["output_norm.weight"]]
    ordered += [torch.zeros(2, config.max_position_embeddings, config.head_dim // 2)]
    ordered += [] if config.tie_word_embeddings else [tensors["output.weight"]]
    with path.open("wb") as file:
        file.write(struct.pack("<7i", *head))
        for tensor in ordered:
            file.write(tensor.numpy().astype("<f4").tobytes())


# Tokens of a small tokenizer as that of Llama, those of a higher score first.
_PIECES = "▁ o n c e ▁t he h t ▁th ▁the on ▁on ce ti m i me time tim ▁o nc nce ▁once 中 it ith er r here ther"


def llama_pieces() -> list[tuple[str, float]]:
    """Return the tokens of a small tokenizer as that of Llama, with their scores."""
    specials = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0)]
    byte_tokens = [(f"<0x{number:02X}>", 0.0) for number in range(256)]
    return [*specials, *byte_tokens, *((word, -float(place)) for place, word in enumerate(_PIECES.split()))]


def write_llama2c(path: Path, pieces: list[tuple[str, float]]) -> None:
    """Write the tokens as llama2.c does, with bytes as they are and spaces for their sign."""
    content = struct.pack("<i", max(len(piece) for piece, _ in pieces))
    for number, (piece, score) in enumerate(pieces):
        text = piece.replace("▁", " ").encode()
        text = (
            bytes([number - 3])
            if 3 <= number < 259
            else f"\n{piece}\n".encode()
            if number in (1, 2)
            else text
        )
        content += struct.pack("<fi", score, len(text)) + text
    path.write_bytes(content)


def real_model(variable: str, name: str) -> Path:
    """Return the path of a real model in an environment variable, or skip the test where it is not set."""
    place = os.environ.get(variable, "")
    if not place or not Path(place).exists():
        pytest.skip(f"{variable} does not name {name}: see docs/en/write.md for where to get it")
    return Path(place)


def needs_gguf() -> None:
    """Skip the test where the extra gguf is not installed."""
    if importlib.util.find_spec("gguf") is None:
        pytest.skip("the extra gguf is not installed")
