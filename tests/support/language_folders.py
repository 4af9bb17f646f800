"""Small Hugging Face folders of GPT-2 and Llama whose weights are given by a formula, for tests of text generation.

They are written without Transformers, and every version of it can read them.
"""

from __future__ import annotations

import json
from pathlib import Path

from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from support.formula_weights import norm, values

WIDTH, LAYERS, HEADS, INNER, LONGEST = 32, 2, 4, 48, 96
SPECIALS = ["<s>", "<pad>", "</s>", "<|user|>", "<|assistant|>"]
TEMPLATE = (
    "<s>{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
# The settings of generation_config.json beside each kind of folder, None for no such file.
KINDS: dict[str, dict | None] = {
    "gpt2": None,
    "llama": None,
    "llama-settings": {"max_length": 40, "top_k": 3, "eos_token_id": [2, 236]},
}


def write_language_folder(folder: Path, kind: str) -> Path:
    """Write config.json, model.safetensors and the tokenizer files of one kind of language model into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    llama = kind.startswith("llama")
    tokenizer = _byte_pairs(llama)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **names, "model_max_length": LONGEST}
    settings["clean_up_tokenization_spaces"] = False
    _write(folder / "tokenizer_config.json", settings | ({"chat_template": TEMPLATE} if llama else {}))
    size = tokenizer.get_vocab_size()
    _write(folder / "config.json", _llama_settings(size) if llama else _gpt2_settings(size))
    if KINDS[kind] is not None:
        _write(folder / "generation_config.json", {**(KINDS[kind] or {}), "bos_token_id": 0})
    weights = _llama_weights(size) if llama else _gpt2_weights(size)
    arrays = {name: values(name, shape) for name, shape in weights.items()}
    save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _write(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def _byte_pairs(llama: bool) -> Tokenizer:
    pieces = [*SPECIALS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    merges = [
        ("t", "h"),
        ("th", "e"),
        ("c", "a"),
        ("ca", "t"),
        ("Ġ", "s"),
        ("Ġ", "c"),
        ("Ġ", "the"),
        ("Ġ", "."),
    ]
    pieces += [a + b for a, b in merges]
    tokenizer = Tokenizer(models.BPE({piece: number for number, piece in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if llama:
        start = [("<s>", 0)]
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=start)
    tokenizer.add_special_tokens(SPECIALS)
    return tokenizer


def _gpt2_settings(size: int) -> dict:
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": size,
        "n_embd": WIDTH,
        "n_layer": LAYERS,
        "n_head": HEADS,
        "n_inner": INNER,
        "n_positions": LONGEST,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    }


def _llama_settings(size: int) -> dict:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": size,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": 2,
        "intermediate_size": INNER,
        "max_position_embeddings": LONGEST,
        "rms_norm_eps": 1e-6,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "tie_word_embeddings": False,
    }


def _gpt2_weights(size: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (size, WIDTH), "wpe.weight": (LONGEST, WIDTH)}
    for layer in range(LAYERS):
        at = f"h.{layer}"
        shapes |= norm(f"{at}.ln_1", WIDTH) | norm(f"{at}.ln_2", WIDTH)
        # The weights of Conv1D have the inputs first.
        for name, inner, out in (
            ("attn.c_attn", WIDTH, 3 * WIDTH),
            ("attn.c_proj", WIDTH, WIDTH),
            ("mlp.c_fc", WIDTH, INNER),
            ("mlp.c_proj", INNER, WIDTH),
        ):
            shapes |= {f"{at}.{name}.weight": (inner, out), f"{at}.{name}.bias": (out,)}
    shapes |= norm("ln_f", WIDTH)
    return {f"transformer.{name}": shape for name, shape in shapes.items()}


def _llama_weights(size: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (size, WIDTH)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        for name, out, inner in (
            ("self_attn.q_proj", WIDTH, WIDTH),
            ("self_attn.k_proj", WIDTH // 2, WIDTH),
            ("self_attn.v_proj", WIDTH // 2, WIDTH),
            ("self_attn.o_proj", WIDTH, WIDTH),
            ("mlp.up_proj", INNER, WIDTH),
            ("mlp.gate_proj", INNER, WIDTH),
            ("mlp.down_proj", WIDTH, INNER),
        ):
            shapes[f"{at}.{name}.weight"] = (out, inner)
        shapes |= {
            f"{at}.{name}.weight": (WIDTH,) for name in ("input_layernorm", "post_attention_layernorm")
        }
    return shapes | {"model.norm.weight": (WIDTH,), "lm_head.weight": (size, WIDTH)}
