"""GGUF files of Llama, Qwen2 and GPT-2 as language models of Regard.

Mistral and SmolLM have the architecture "llama" in these files.
"""

from __future__ import annotations

import os
from typing import Any

from regard.errors import ArgumentError, FileError
from regard.models.config import LanguageModelConfig
from regard.models.decoder_files import DecoderNames, assemble, check_layers
from regard.models.decoder_names import GGUF_GPT2, GGUF_LLAMA, GGUF_QWEN2
from regard.models.gguf_files import GGUFFile
from regard.models.language_model import LanguageModel

__all__ = ["gguf_config", "load_gguf"]

ARCHITECTURES: dict[str, DecoderNames] = {"llama": GGUF_LLAMA, "qwen2": GGUF_QWEN2, "gpt2": GGUF_GPT2}
# The settings of Regard and the fields of the metadata, after the name of the architecture.
_FIELDS = {
    "width": "embedding_length",
    "layers": "block_count",
    "heads": "attention.head_count",
    "feed_forward": "feed_forward_length",
    "max_length": "context_length",
}
_NAMES = {**_FIELDS, "kv_heads": "attention.head_count_kv", "rotary_base": "rope.freq_base"}


def load_gguf(file: str | os.PathLike | GGUFFile) -> LanguageModel:
    """Load the language model of a GGUF file, in float32 and in evaluation mode.

    ``file`` is a path or an open :class:`GGUFFile`. Raises FileError if the file is damaged, or if Regard has no model
    with its architecture.
    """
    file = file if isinstance(file, GGUFFile) else GGUFFile(file)
    config = gguf_config(file)
    architecture = file.metadata["general.architecture"]
    names = ARCHITECTURES[architecture]
    check_layers(names, file, config.layers, f"{architecture}.block_count", str(file.path))
    return assemble(config, names, file, str(file.path))


def gguf_config(file: GGUFFile) -> LanguageModelConfig:
    """Return the settings of the language model of a GGUF file."""
    architecture = file.metadata.get("general.architecture")
    if architecture not in list(ARCHITECTURES):
        told = f"general.architecture is {architecture!r}, which Regard cannot load"
        raise FileError(f"{file.path}: {told}: expected {', '.join(ARCHITECTURES)}")
    _check_usual(file, architecture)
    if "token_embd.weight" not in file.shapes:
        raise FileError(f"{file.path}: token_embd.weight is missing from the weights")
    values: dict[str, Any] = {
        ours: _required(file, f"{architecture}.{theirs}") for ours, theirs in _FIELDS.items()
    }
    values |= {
        "vocabulary_size": file.shapes["token_embd.weight"][0],
        "tied_output": "output.weight" not in file.shapes,
        "output_bias": False,
        "scaled_embeddings": False,
        "dropout": 0.0,
    }
    special = _gpt2(file) if architecture == "gpt2" else _llama(file, architecture)
    try:
        return LanguageModelConfig(**values, **special)
    except (ArgumentError, TypeError) as error:
        named = getattr(error, "argument", "")
        told = error.in_words() if isinstance(error, ArgumentError) else str(error)
        field = f"{architecture}.{_NAMES[named]}" if named in _NAMES else named
        raise FileError(f"{file.path}: {field}: {told}") from None


def _gpt2(file: GGUFFile) -> dict[str, Any]:
    return {
        "norm_epsilon": _required(file, "gpt2.attention.layer_norm_epsilon"),
        "activation": "gelu_tanh",
        "positions": "learned",
    }


def _llama(file: GGUFFile, architecture: str) -> dict[str, Any]:
    metadata = file.metadata
    return {
        "norm_epsilon": _required(file, f"{architecture}.attention.layer_norm_rms_epsilon"),
        "kv_heads": metadata.get(f"{architecture}.attention.head_count_kv"),
        "activation": "swiglu",
        "bias": "blk.0.ffn_down.bias" in file.shapes,
        "qkv_bias": "blk.0.attn_q.bias" in file.shapes,
        "attention_output_bias": "blk.0.attn_output.bias" in file.shapes,
        "norm_type": "rms",
        "positions": "rotary",
        "rotary_layout": "llama",
        "rotary_base": metadata.get(f"{architecture}.rope.freq_base", 10_000.0),
        "rotary_scaling": _scaling(file, architecture),
        "window": metadata.get(f"{architecture}.attention.sliding_window"),
    }


def _scaling(file: GGUFFile, architecture: str) -> dict[str, Any] | None:
    kind = file.metadata.get(f"{architecture}.rope.scaling.type", "none")
    if kind == "none":
        return None
    if kind != "linear":
        told = f"{architecture}.rope.scaling.type is {kind!r}, which Regard cannot read"
        raise FileError(f"{file.path}: {told}: expected none or linear")
    return {"rope_type": "linear", "factor": _required(file, f"{architecture}.rope.scaling.factor")}


def _required(file: GGUFFile, name: str) -> Any:
    if name not in file.metadata:
        raise FileError(f"{file.path}: {name} is missing from the metadata")
    return file.metadata[name]


def _check_usual(file: GGUFFile, architecture: str) -> None:
    """Raise FileError if the file is only a part of a model, or if its attention is not that of Regard."""
    metadata = file.metadata
    if metadata.get("split.count", 1) not in (0, 1):
        told = f"part {metadata.get('split.no', 0) + 1} of {metadata['split.count']}"
        raise FileError(f"{file.path}: {told} of a model: join them with llama-gguf-split --merge")
    if metadata.get("general.type", "model") != "model":
        raise FileError(f"{file.path}: general.type is {metadata['general.type']!r}: expected a model")
    if metadata.get(f"{architecture}.expert_count"):
        raise FileError(f"{file.path}: a mixture of experts, which Regard's language model does not have")
    width, heads = (metadata.get(f"{architecture}.{_FIELDS[name]}") for name in ("width", "heads"))
    if not isinstance(width, int) or not isinstance(heads, int) or not heads:
        return
    for name in ("attention.key_length", "attention.value_length", "rope.dimension_count"):
        length = metadata.get(f"{architecture}.{name}")
        if length is not None and length * heads != width:
            told = f"{architecture}.{name} is {length}, but {heads} heads of a width of {width} have {width / heads:g}"
            raise FileError(f"{file.path}: {told}, and Regard has no such attention")
