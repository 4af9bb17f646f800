"""Small models of many architectures, built from their configs without downloads.

Each entry makes a model for an attention implementation and the inputs to call it with; both implementations start from
the same random weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

B, N, M = 2, 7, 5  # batch, tokens, tokens of a decoder
VOCABULARY = 53


class Architecture(NamedTuple):
    config: str
    model: str
    settings: dict[str, Any]
    inputs: Callable[[], dict[str, Any]]
    # The outputs of the eager mode, in the order of the calls.
    made: tuple[str, ...] = ("attentions",)


def ids(n: int = N, low: int = 4) -> torch.Tensor:
    return torch.randint(low, VOCABULARY, (B, n), generator=torch.Generator().manual_seed(n))


def text(n: int = N) -> dict[str, Any]:
    return {"input_ids": ids(n)}


def padded(n: int = N) -> dict[str, Any]:
    mask = torch.ones(B, n, dtype=torch.long)
    mask[1, -2:] = 0
    return {"input_ids": ids(n), "attention_mask": mask}


def padded_left(n: int = N) -> dict[str, Any]:
    mask = torch.ones(B, n, dtype=torch.long)
    mask[1, :2] = 0
    return {"input_ids": ids(n), "attention_mask": mask}


def two_texts() -> dict[str, Any]:
    return {**padded(), "decoder_input_ids": ids(M)}


def picture(side: int = 24, height: int | None = None) -> Callable[[], dict[str, Any]]:
    return lambda: {
        "pixel_values": torch.randn(
            B, 3, side if height is None else height, side, generator=torch.Generator().manual_seed(3)
        )
    }


def sound() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(5)
    return {"input_features": torch.randn(B, 8, 22, generator=generator), "decoder_input_ids": ids(M)}


def text_and_picture() -> dict[str, Any]:
    return {**padded(), **picture()()}


WORDS = {"vocab_size": VOCABULARY}
BERT = WORDS | {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 64,
}
LLAMA = BERT | {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32}
VIT = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "image_size": 24,
    "patch_size": 8,
}
BART = WORDS | {
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 20,
    "max_position_embeddings": 64,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
T5 = WORDS | {
    "d_model": 24,
    "d_kv": 8,
    "d_ff": 20,
    "num_layers": 2,
    "num_heads": 3,
    "decoder_start_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
SEQ2SEQ = ("encoder_attentions", "decoder_attentions", "cross_attentions")
ALBERT = BERT | {"embedding_size": 12, "num_hidden_layers": 3, "inner_group_num": 1}

ARCHITECTURES: dict[str, Architecture] = {
    "bert": Architecture("BertConfig", "BertModel", BERT, padded),
    "roberta": Architecture("RobertaConfig", "RobertaModel", BERT | {"pad_token_id": 1}, padded),
    "distilbert": Architecture(
        "DistilBertConfig",
        "DistilBertModel",
        WORDS | {"dim": 24, "n_layers": 2, "n_heads": 3, "hidden_dim": 20, "max_position_embeddings": 64},
        padded,
    ),
    "albert": Architecture("AlbertConfig", "AlbertModel", ALBERT, padded),
    "electra": Architecture("ElectraConfig", "ElectraModel", BERT | {"embedding_size": 12}, padded),
    "mpnet": Architecture("MPNetConfig", "MPNetModel", BERT | {"pad_token_id": 1}, padded),
    "deberta-v2": Architecture(
        "DebertaV2Config",
        "DebertaV2Model",
        BERT | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "max_relative_positions": 8},
        padded,
    ),
    "xlm-roberta": Architecture("XLMRobertaConfig", "XLMRobertaModel", BERT | {"pad_token_id": 1}, padded),
    "gpt2": Architecture(
        "GPT2Config",
        "GPT2LMHeadModel",
        WORDS | {"n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 64},
        padded,
    ),
    "gpt-neox": Architecture("GPTNeoXConfig", "GPTNeoXForCausalLM", BERT, padded),
    "opt": Architecture(
        "OPTConfig",
        "OPTForCausalLM",
        BERT | {"ffn_dim": 20, "word_embed_proj_dim": 24, "pad_token_id": 1},
        padded,
    ),
    "bloom": Architecture(
        "BloomConfig", "BloomForCausalLM", WORDS | {"hidden_size": 24, "n_layer": 2, "n_head": 3}, padded
    ),
    "llama": Architecture("LlamaConfig", "LlamaForCausalLM", LLAMA, padded),
    "mistral": Architecture("MistralConfig", "MistralForCausalLM", LLAMA | {"sliding_window": 3}, padded),
    "qwen2": Architecture("Qwen2Config", "Qwen2ForCausalLM", LLAMA, padded),
    "gemma": Architecture("GemmaConfig", "GemmaForCausalLM", LLAMA | {"head_dim": 8}, padded),
    "phi": Architecture("PhiConfig", "PhiForCausalLM", BERT | {"partial_rotary_factor": 0.5}, padded),
    "t5": Architecture("T5Config", "T5ForConditionalGeneration", T5, two_texts, SEQ2SEQ),
    "bart": Architecture("BartConfig", "BartForConditionalGeneration", BART, two_texts, SEQ2SEQ),
    "marian": Architecture("MarianConfig", "MarianMTModel", BART, two_texts, SEQ2SEQ),
    "whisper": Architecture(
        "WhisperConfig",
        "WhisperForConditionalGeneration",
        BART | {"num_mel_bins": 8, "max_source_positions": 11, "max_target_positions": 32},
        sound,
        SEQ2SEQ,
    ),
    "vit": Architecture("ViTConfig", "ViTModel", VIT, picture()),
    "deit": Architecture("DeiTConfig", "DeiTModel", VIT, picture()),
    "beit": Architecture("BeitConfig", "BeitModel", VIT | {"use_relative_position_bias": True}, picture()),
    "dinov2": Architecture("Dinov2Config", "Dinov2Model", VIT | {"mlp_ratio": 2}, picture()),
    "swin": Architecture(
        "SwinConfig",
        "SwinModel",
        {
            "image_size": 32,
            "patch_size": 4,
            "embed_dim": 12,
            "depths": [2, 1],
            "num_heads": [2, 3],
            "window_size": 4,
        },
        picture(32),
    ),
    "clip": Architecture(
        "CLIPConfig",
        "CLIPModel",
        {"text_config": BERT | {"eos_token_id": 2}, "vision_config": VIT, "projection_dim": 16},
        text_and_picture,
        ("vision_model_output", "text_model_output"),
    ),
}


def make(name: str, implementation: str, **more: Any) -> torch.nn.Module:
    """A small model in evaluation mode, the same weights every time."""
    import transformers

    entry = ARCHITECTURES[name]
    config = getattr(transformers, entry.config)(**entry.settings, **more)
    config._attn_implementation = implementation
    torch.manual_seed(11)
    model = getattr(transformers, entry.model)(config).eval()
    # New models have weights near zero, with nearly uniform attention.
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.15)
    return model


def eager_weights(name: str, inputs: dict[str, Any]) -> list[list[torch.Tensor]]:
    """Return the weights of the model's own eager mode, for each output with weights those of its layers."""
    entry, model = ARCHITECTURES[name], make(name, "eager")
    inside: list[torch.Tensor] = []
    # Its output leaves out all but the last layer of each stage.
    if name == "swin":
        for module in model.modules():
            if type(module).__name__ == "SwinAttention":
                module.register_forward_hook(lambda _module, _args, out: inside.append(out[1]))
    with torch.no_grad():
        output = model(**inputs, output_attentions=True)
    if inside:
        return [inside]
    parts = [output[made] for made in entry.made]
    return [list(part if isinstance(part, tuple) else part.attentions) for part in parts]
