"""Every Hugging Face architecture that can be built small from its config, for the tests of attn_implementation."""

from __future__ import annotations

import importlib.util
import inspect
import warnings
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

BATCH, TOKENS, TARGETS = 2, 7, 5

SMALL: dict[str, Any] = {
    name: size
    for size, names in {
        24: "hidden_size d_model n_embd dim embed_dim word_embed_proj_dim emb_dim embedding_size projection_dim",
        2: "num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers num_encoder_layers "
        "num_decoder_layers depth index_topk_blocks index_block_size num_experts_per_tok type_vocab_size "
        "num_conv_pos_embedding_groups",
        3: "num_attention_heads n_head n_heads num_heads attention_heads encoder_attention_heads "
        "decoder_attention_heads num_encoder_attention_heads num_decoder_attention_heads num_key_value_heads "
        "index_topk",
        8: "head_dim d_kv v_head_dim q_lora_rank kv_lora_rank index_head_dim attention_head_dim",
        4: "qk_rope_head_dim qk_nope_head_dim rotary_dim num_conv_pos_embeddings patch_size num_experts "
        "num_local_experts n_routed_experts",
        16: "intermediate_size ffn_dim encoder_ffn_dim decoder_ffn_dim d_ff n_inner hidden_dim moe_intermediate_size",
        97: "vocab_size",
        64: "max_position_embeddings n_positions n_ctx max_source_positions max_target_positions",
        20: "image_size",
        0: "pad_token_id",
    }.items()
    for name in names.split()
}
"""Sizes by the names that configs have for them."""

TWEAKS: dict[str, dict[str, Any]] = {
    "codegen": {"n_embd": 32, "n_head": 4, "rotary_dim": 4},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "yolos": {"image_size": [20, 20]},
    "minimax_m3_vl_text": {
        "layer_types": ["full_attention", "minimax_m3_sparse"],
        "index_n_heads": 3,
        "index_local_blocks": 1,
    },
    "gptj": {"n_embd": 24, "n_head": 3, "rotary_dim": 4},
}
"""What single architectures need."""

LARGE = ("blt", "emu3", "vibevoice", "vibevoice_asr", "vibevoice_acoustic_tokenizer")
"""Architectures with parts whose sizes have other names, which take a minute or more to build."""

WIDER = {3: 4, 24: 32}
"""Sizes in the place of others, for architectures that cannot be built with the first ones."""


def names() -> list[str]:
    """Return the architectures that have a model, without importing them."""
    return [name for name in CONFIG_MAPPING_NAMES if name in MODEL_MAPPING_NAMES and name not in LARGE]


def small_config(name: str, wider: bool = False) -> Any:
    """A config of a few thousand weights."""
    sizes = _sizes(CONFIG_MAPPING[name], wider)
    return CONFIG_MAPPING[name](**sizes | TWEAKS.get(name, {}))


def _sizes(kind: type, wider: bool) -> dict[str, Any]:
    default = kind()
    sizes: dict[str, Any] = {}
    for name, value in default.to_dict().items():
        part = getattr(default, name, None)
        if isinstance(part, transformers.PretrainedConfig):
            sizes[name] = _sizes(type(part), wider)
        elif name in SMALL and (value is None or isinstance(value, int)) and not isinstance(value, bool):
            sizes[name] = WIDER.get(SMALL[name], SMALL[name]) if wider else SMALL[name]
            if wider and name.endswith(("hidden_layers", "n_layer", "num_layers")):
                sizes[name] = 4  # every fourth layer of some attends
        elif name == "rope_parameters" and _has_sections(kind):
            # three coordinates share the pairs of columns of a head
            sizes[name] = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
    return sizes


def _has_sections(kind: type) -> bool:
    found = importlib.util.find_spec(kind.__module__.replace("configuration_", "modeling_"))
    return (
        found is not None and found.origin is not None and "mrope_section" in Path(found.origin).read_text()
    )


def build(name: str, how: str, wider: bool = False) -> nn.Module:
    """The base model of an architecture, with attention that is far from even."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = transformers.AutoModel.from_config(small_config(name, wider), attn_implementation=how).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1 and parameter.is_floating_point():
                parameter.normal_(0, 0.3, generator=generator)
    return model


def inputs(model: Any) -> dict[str, Any]:
    """Return the inputs of a model by its main argument, where one of two texts is padded."""
    config, generator = model.config, torch.Generator().manual_seed(0)
    takes = inspect.signature(model.forward).parameters
    main = model.main_input_name
    if main == "input_ids":
        given: dict[str, Any] = {"input_ids": torch.randint(3, 90, (BATCH, TOKENS), generator=generator)}
        if "attention_mask" in takes:
            given["attention_mask"] = torch.ones(BATCH, TOKENS, dtype=torch.long)
            given["attention_mask"][1, -2:] = 0
        if getattr(config, "is_encoder_decoder", False):
            given["decoder_input_ids"] = torch.randint(3, 90, (BATCH, TARGETS), generator=generator)
        return given
    if main == "pixel_values":
        size = getattr(config, "image_size", None) or 20
        rows, columns = size if isinstance(size, list | tuple) else (size, size)
        return {
            main: torch.randn(BATCH, getattr(config, "num_channels", 3), rows, columns, generator=generator)
        }
    if main == "input_values":
        return {main: torch.randn(BATCH, 3000, generator=generator)}
    return {main: torch.randn(BATCH, getattr(config, "num_mel_bins", 80), 128, generator=generator)}


@torch.no_grad()
def outputs(model: nn.Module, given: dict[str, Any]) -> list[Tensor]:
    """All floating results of a call."""
    # Some draw random numbers in evaluation too.
    torch.manual_seed(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _tensors(model(**given))


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, dict):
        value = list(value.values())
    return [x for part in value for x in _tensors(part)] if isinstance(value, list | tuple) else []


def difference(found: list[Tensor], expected: list[Tensor], given: dict[str, Any]) -> float:
    """The largest difference, relative to the largest number, leaving out rows of padding."""
    if [x.shape for x in found] != [x.shape for x in expected]:
        return float("inf")
    worst = 0.0
    mask = given.get("attention_mask")
    for got, want in zip(found, expected, strict=True):
        off = (got - want).abs()
        if mask is not None and off.shape[:2] == mask.shape:
            off = off[mask.bool()]
        if off.numel():
            worst = max(
                worst,
                float(off.nan_to_num(float("inf")).max() / want[want.isfinite()].abs().max().clamp(min=1e-6)),
            )
    return worst
