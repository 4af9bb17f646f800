"""Hugging Face folders of ViT, DeiT and Swin as vision models of Regard, without the package ``transformers``.

A folder holds a classifier of images, with ``config.json`` and safetensors as those of
:mod:`regard.models.huggingface`. Images have to be normalised as the folder's ``preprocessor_config.json`` says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import ArgumentError, FileError
from regard.models.huggingface_families import ACTIVATIONS
from regard.models.huggingface_labels import check_labels
from regard.models.pretrained import fill, read_config
from regard.models.safetensors_files import SafetensorsFiles
from regard.models.sizes import without_memory
from regard.models.swin import Swin
from regard.models.vision_config import SwinConfig, VisionTransformerConfig
from regard.models.vision_transformer import VisionTransformer
from regard.models.weight_files import CONFIG

__all__ = ["VISION", "load_vision"]

# The class of Regard for each ``model_type`` of ``config.json``.
VISION: dict[str, type[VisionTransformer] | type[Swin]] = {
    "vit": VisionTransformer,
    "deit": VisionTransformer,
    "swin": Swin,
}
# The settings of Regard and the fields of config.json that give them.
_COMMON = {
    "image_size": "image_size",
    "channels": "num_channels",
    "patch_size": "patch_size",
    "activation": "hidden_act",
    "qkv_bias": "qkv_bias",
    "norm_epsilon": "layer_norm_eps",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
}
_VIT_FIELDS = {
    **_COMMON,
    "width": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "feed_forward": "intermediate_size",
}
_SWIN_FIELDS = {
    **_COMMON,
    "width": "embed_dim",
    "depths": "depths",
    "heads": "num_heads",
    "window": "window_size",
    "feed_forward_ratio": "mlp_ratio",
}
# The values of fields that a folder may leave out.
_DEFAULTS = {"channels": 3, "activation": "gelu", "qkv_bias": True, "dropout": 0.0, "attention_dropout": 0.0}
_EPSILONS = {"vit": 1e-12, "deit": 1e-12, "swin": 1e-5}

# The names of modules of Regard, and of modules of Hugging Face after the prefix.
_BLOCK = {
    "self_attention.W_o": "attention.output.dense",
    "self_norm": "layernorm_before",
    "feed_norm": "layernorm_after",
    "feed_forward.widen": "intermediate.dense",
    "feed_forward.narrow": "output.dense",
}
_VIT_BLOCK = _BLOCK | {
    f"self_attention.W_{name[0]}": f"attention.attention.{name}" for name in ("query", "key", "value")
}
_SWIN_BLOCK = _BLOCK | {
    f"self_attention.W_{name[0]}": f"attention.self.{name}" for name in ("query", "key", "value")
}
_VIT_NAMES = {
    "encoder.embedding.patches": "embeddings.patch_embeddings.projection",
    "encoder.embedding": "embeddings",
    "encoder.norm": "layernorm",
}
_SWIN_NAMES = {
    "patches": "embeddings.patch_embeddings.projection",
    "patch_norm": "embeddings.norm",
    "": "embeddings",
    "norm": "layernorm",
}
_PARAMETERS = {
    "class_token": "cls_token",
    "positions": "position_embeddings",
    "relative_bias": "attention.self.relative_position_bias_table",
}
# Tensors that some files hold and no classifier needs.
_UNUSED = re.compile(r".*\.(mask_token|relative_position_index)|(\w+\.)?pooler\..*")


def load_vision(folder: Path, model: type[VisionTransformer] | type[Swin]) -> VisionTransformer | Swin:
    """Load a folder as a model of this class, in float32 and in evaluation mode.

    Raises FileError if the folder has another architecture, no output layer, or tensors that do not fit its settings.
    """
    settings, path = read_config(folder), str(folder / CONFIG)
    kind = settings.get("model_type")
    if VISION.get(str(kind)) is not model:
        known = ", ".join(name for name, known in VISION.items() if known is model)
        told = f"model_type is {kind!r}, which Regard cannot load as a {model.__name__}: expected {known}"
        if kind in list(VISION):
            told = f"model_type is {kind!r}: load it with load_huggingface(folder, {VISION[kind].__name__})"
        raise FileError(f"{path}: {told}")
    files = SafetensorsFiles(folder)
    outputs = _output_names(folder, str(kind), files)
    classes = files.shapes[f"{outputs['output.linear']}.weight"][0]
    check_labels(settings, classes, path)
    config = _config(settings, classes, "distillation_output.linear" in outputs, path)
    _check_layers(config, files, path)
    with without_memory(path):
        built: Any = model(config)  # type: ignore[arg-type]
    names = {name: _theirs(name, f"{kind}.", outputs) for name in built.state_dict()}
    _check_shapes(built, names, files, folder)
    tensors = files.read(list(names.values()))
    shapes = {name: tensor.shape for name, tensor in built.state_dict().items()}
    fill(built, {ours: tensors[theirs].reshape(shapes[ours]) for ours, theirs in names.items()}, str(folder))
    return built.eval()


def _output_names(folder: Path, kind: str, files: SafetensorsFiles) -> dict[str, str]:
    """Return the names of the output layers in the folder by their names in Regard."""
    if kind == "deit" and "cls_classifier.weight" in files.shapes:
        names = {"output.linear": "cls_classifier", "distillation_output.linear": "distillation_classifier"}
    else:
        names = {"output.linear": "classifier"}
    for name in names.values():
        if f"{name}.weight" not in files.shapes:
            told = f"the model has no output for classes of images ({name}.weight is missing)"
            raise FileError(f"{folder}: {told}")
    return names


def _config(
    settings: Mapping[str, Any], classes: int, two_outputs: bool, path: str
) -> VisionTransformerConfig | SwinConfig:
    kind = settings["model_type"]
    fields = _SWIN_FIELDS if kind == "swin" else _VIT_FIELDS
    try:
        if settings.get("quantization_config") is not None:
            raise ArgumentError("quantization_config", "Regard has no quantised vision models")
        values = _values(settings, fields)
        if kind == "swin":
            positions = "learned" if settings.get("use_absolute_embeddings") else "none"
            return SwinConfig(classes=classes, **values, positions=positions, masked_padding=False)
        distillation = "none" if kind == "vit" else "output" if two_outputs else "token"
        return VisionTransformerConfig(classes=classes, **values, distillation=distillation)
    except (ArgumentError, TypeError) as error:
        named = getattr(error, "argument", "")
        told = error.in_words() if isinstance(error, ArgumentError) else str(error)
        raise FileError(f"{path}: {fields.get(named, named)}: {told}") from None


def _values(settings: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of Regard that ``config.json`` holds, or raise ArgumentError if one is missing."""
    values = _DEFAULTS | {"norm_epsilon": _EPSILONS[settings["model_type"]]}
    for ours, theirs in fields.items():
        if settings.get(theirs) is not None:
            values[ours] = settings[theirs]
        elif ours not in values:
            raise ArgumentError(ours, "is missing")
    if values["activation"] not in list(ACTIVATIONS):
        told = f"{values['activation']!r}, which Regard cannot compute: expected {', '.join(ACTIVATIONS)}"
        raise ArgumentError("activation", told)
    values["activation"] = ACTIVATIONS[values["activation"]]
    patch = values["patch_size"]
    if isinstance(patch, list):
        if len(set(patch)) != 1:
            raise ArgumentError("patch_size", f"Regard's patches are squares, got {patch}")
        values["patch_size"] = patch[0]
    return values


def _check_layers(config: VisionTransformerConfig | SwinConfig, files: SafetensorsFiles, path: str) -> None:
    """Raise FileError if the number of blocks is not that of the file, before a model of that size is built."""
    pattern = (
        r"swin\.encoder\.layers\.(\d+)\.blocks\.(\d+)\."
        if isinstance(config, SwinConfig)
        else (r"(?:vit|deit)\.encoder\.(layer)\.(\d+)\.")
    )
    blocks = {match.groups() for match in (re.match(pattern, name) for name in files.shapes) if match}
    if isinstance(config, SwinConfig):
        stages = sorted({stage for stage, _ in blocks}, key=int)
        counts = tuple(sum(stage == other for other, _ in blocks) for stage in stages)
        if counts != config.depths:
            raise FileError(
                f"{path}: depths is {list(config.depths)}, but the file of weights has {list(counts)}"
            )
    elif len(blocks) != config.layers:
        raise FileError(
            f"{path}: num_hidden_layers is {config.layers}, but the file of weights has {len(blocks)}"
        )


def _theirs(name: str, prefix: str, outputs: Mapping[str, str]) -> str:
    """Return the name in the folder of the tensor that Regard's model calls ``name``."""
    module, _, part = name.rpartition(".")
    if module in outputs:
        return f"{outputs[module]}.{part}"
    part = _PARAMETERS.get(part, part)
    if prefix != "swin.":
        if match := re.fullmatch(r"encoder\.layers\.(\d+)\.(.*)", module):
            return f"{prefix}encoder.layer.{match[1]}.{_VIT_BLOCK[match[2]]}.{part}"
        return f"{prefix}{_VIT_NAMES[module]}.{part}"
    if match := re.fullmatch(r"stages\.(\d+)\.layers\.(\d+)(?:\.(.*))?", module):
        block = f"{prefix}encoder.layers.{match[1]}.blocks.{match[2]}"
        return f"{block}.{part}" if match[3] is None else f"{block}.{_SWIN_BLOCK[match[3]]}.{part}"
    if match := re.fullmatch(r"stages\.(\d+)\.merging\.(.*)", module):
        return f"{prefix}encoder.layers.{match[1]}.downsample.{match[2]}.{part}"
    return f"{prefix}{_SWIN_NAMES[module]}.{part}"


def _check_shapes(built: Any, names: Mapping[str, str], files: SafetensorsFiles, folder: Path) -> None:
    """Raise FileError unless the folder has the tensors of the model, in its shapes, and no others."""
    for ours, tensor in built.state_dict().items():
        theirs, shape = names[ours], tuple(tensor.shape)
        if theirs not in files.shapes:
            raise FileError(f"{folder}: {theirs} is missing from the weights")
        if _without_ones(files.shapes[theirs]) != _without_ones(shape):
            told = f"{theirs} is {files.shapes[theirs]}, but {CONFIG} says {shape}"
            raise FileError(f"{files.where(theirs)}: {told}")
    for name in sorted(files.shapes.keys() - set(names.values())):
        if not _UNUSED.fullmatch(name):
            told = f"{name} is a part of the model that Regard's {type(built).__name__} does not have"
            raise FileError(f"{files.where(name)}: {told}")


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without the axes of size 1 before all others, which tokens and positions have in the folder."""
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    return shape
