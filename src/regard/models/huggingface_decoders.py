"""Hugging Face folders of Llama, Mistral, Qwen2 and GPT-2 as language models of Regard.

SmolLM, TinyLlama and many other models have the architecture of Llama. A folder holds ``config.json`` and safetensors,
as those of :mod:`regard.models.huggingface` do.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import ArgumentError, FileError
from regard.models.config import LanguageModelConfig
from regard.models.decoder_files import assemble, check_layers
from regard.models.decoder_names import GPT2, LLAMA
from regard.models.huggingface_families import ACTIVATIONS
from regard.models.language_model import LanguageModel
from regard.models.pretrained import read_config
from regard.models.safetensors_files import SafetensorsFiles
from regard.models.weight_files import CONFIG

__all__ = ["DECODERS", "huggingface_config", "load_decoder"]

DECODERS = ("llama", "mistral", "qwen2", "gpt2")

# The settings of Regard and the fields of config.json that give them.
_LLAMA_FIELDS = {
    "vocabulary_size": "vocab_size",
    "width": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "feed_forward": "intermediate_size",
    "norm_epsilon": "rms_norm_eps",
    "max_length": "max_position_embeddings",
    "attention_dropout": "attention_dropout",
    "tied_output": "tie_word_embeddings",
}
_GPT2_FIELDS = {
    "vocabulary_size": "vocab_size",
    "width": "n_embd",
    "layers": "n_layer",
    "heads": "n_head",
    "feed_forward": "n_inner",
    "norm_epsilon": "layer_norm_epsilon",
    "max_length": "n_positions",
    "dropout": "resid_pdrop",
    "attention_dropout": "attn_pdrop",
    "tied_output": "tie_word_embeddings",
}
# Settings that a folder may leave out, with the values that they then have.
_LLAMA_DEFAULTS = {"kv_heads": None, "norm_epsilon": 1e-6, "attention_dropout": 0.0, "tied_output": False}
_GPT2_DEFAULTS = {"norm_epsilon": 1e-5, "dropout": 0.1, "attention_dropout": 0.1, "tied_output": True}
# Fields that change what a model computes, and the values that Regard computes.
_USUAL: dict[str, tuple[Any, ...]] = {
    "add_cross_attention": (False,),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "quantization_config": (),
    "partial_rotary_factor": (1, 1.0),
    "use_sliding_window": (False,),
}


def load_decoder(folder: Path) -> LanguageModel:
    """Load a folder as a language model, in float32 and in evaluation mode.

    Raises FileError if Regard has no model with such settings, or if they do not fit the weights.
    """
    config, gpt2 = huggingface_config(folder), read_config(folder)["model_type"] == "gpt2"
    fields = _GPT2_FIELDS if gpt2 else _LLAMA_FIELDS
    files = SafetensorsFiles(folder)
    names = (GPT2 if gpt2 else LLAMA).in_file(files)
    check_layers(names, files, config.layers, fields["layers"], str(folder / CONFIG))
    return assemble(config, names, files, str(folder / CONFIG))


def huggingface_config(folder: Path) -> LanguageModelConfig:
    """Return the settings of the language model of a folder, without reading its weights.

    ``max_length`` is the number of tokens that the model was trained to read. Raises FileError if Regard has no model
    with such settings.
    """
    settings, path = read_config(folder), folder / CONFIG
    kind = settings.get("model_type")
    if kind not in DECODERS:
        told = f"model_type is {kind!r}, which Regard cannot load as a language model"
        raise FileError(f"{path}: {told}: expected {', '.join(DECODERS)}")
    for name, values in _USUAL.items():
        if settings.get(name) is not None and settings[name] not in values:
            raise FileError(
                f"{path}: {name} is {settings[name]!r}, which Regard's language model does not have"
            )
    if any(kind != "full_attention" for kind in settings.get("layer_types") or ()):
        raise FileError(
            f"{path}: layer_types: Regard's language model has one kind of attention in all layers"
        )
    gpt2 = settings["model_type"] == "gpt2"
    fields = _GPT2_FIELDS if gpt2 else _LLAMA_FIELDS
    try:
        values = _values(settings, fields, _GPT2_DEFAULTS if gpt2 else _LLAMA_DEFAULTS)
        return _gpt2(settings, values) if gpt2 else _llama(settings, values)
    except (ArgumentError, TypeError) as error:
        named = getattr(error, "argument", "")
        told = error.in_words() if isinstance(error, ArgumentError) else str(error)
        raise FileError(f"{path}: {fields.get(named, named)}: {told}") from None


def _values(
    settings: Mapping[str, Any], fields: Mapping[str, str], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings of Regard that fields of ``config.json`` hold, or raise ArgumentError if one is missing."""
    values: dict[str, Any] = {}
    for ours, theirs in fields.items():
        if settings.get(theirs) is not None:
            values[ours] = settings[theirs]
        elif ours in defaults:
            values[ours] = defaults[ours]
        elif theirs != "n_inner":
            raise ArgumentError(ours, "is missing")
    return values


def _gpt2(settings: Mapping[str, Any], values: dict[str, Any]) -> LanguageModelConfig:
    values.setdefault("feed_forward", 4 * values["width"])
    activation = settings.get("activation_function", "gelu_new")
    if activation not in list(ACTIVATIONS):
        raise ArgumentError("activation_function", _unknown_activation(activation, ACTIVATIONS))
    return LanguageModelConfig(
        **values,
        activation=ACTIVATIONS[activation],
        positions="learned",
        scaled_embeddings=False,
        output_bias=False,
    )


def _llama(settings: Mapping[str, Any], values: dict[str, Any]) -> LanguageModelConfig:
    kind = settings["model_type"]
    if kind != "llama" and values["kv_heads"] is None:
        raise ArgumentError("kv_heads", "is missing")
    activation = settings.get("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise ArgumentError("hidden_act", _unknown_activation(activation, ("silu",)))
    head_width = settings.get("head_dim")
    if head_width is not None and head_width * values["heads"] != values["width"]:
        told = (
            f"{head_width} columns in each of {values['heads']} heads are not hidden_size = {values['width']}"
        )
        raise ArgumentError("head_dim", f"{told}, and Regard has no such attention")
    base, scaling = _rotary(settings, values["max_length"])
    biased = bool(settings.get("attention_bias", False))
    return LanguageModelConfig(
        **values,
        dropout=0.0,
        activation="swiglu",
        bias=bool(settings.get("mlp_bias", False)),
        qkv_bias=biased or kind == "qwen2",
        attention_output_bias=biased,
        norm_type="rms",
        scaled_embeddings=False,
        positions="rotary",
        rotary_layout="llama",
        rotary_base=base,
        rotary_scaling=scaling,
        window=settings.get("sliding_window", 4096) if kind == "mistral" else None,
        output_bias=False,
    )


def _rotary(settings: Mapping[str, Any], max_length: int) -> tuple[float, dict[str, Any] | None]:
    """Return the base of the rotary positions and their scaling, which is None if there is none."""
    # Transformers 5 writes rope_parameters, and earlier versions write rope_theta and rope_scaling.
    given = settings.get("rope_parameters") or settings.get("rope_scaling") or {}
    if not isinstance(given, Mapping):
        raise ArgumentError("rope_parameters", f"expected an object, got {given!r}")
    values = {name: value for name, value in given.items() if value is not None}
    base = values.pop("rope_theta", settings.get("rope_theta", 10_000.0))
    if values.pop("partial_rotary_factor", 1) != 1:
        raise ArgumentError("partial_rotary_factor", "Regard's language model rotates all columns")
    kind = values.get("rope_type", values.get("type", "default"))
    if kind == "default":
        return base, None
    if kind in ("dynamic", "yarn", "llama3"):
        values.setdefault("original_max_position_embeddings", max_length)
    return base, values


def _unknown_activation(activation: object, known: Any) -> str:
    return f"{activation!r}, which Regard cannot compute: expected {', '.join(known)}"
