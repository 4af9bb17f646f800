"""Hugging Face folders of ViT, DeiT and Swin loaded into Regard's models, compared with Transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.errors import FileError
from regard.models import Encoder, Swin, VisionTransformer, load_huggingface, load_model

transformers = pytest.importorskip("transformers", reason="the peers are in the extra hf")

CLASSES = 5
VIT = {
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 17,
    "image_size": (8, 12),
    "patch_size": 4,
    "num_labels": CLASSES,
    "initializer_range": 0.3,
}
SWIN = {
    "embed_dim": 12,
    "depths": [2, 2],
    "num_heads": [3, 2],
    "window_size": 3,
    "mlp_ratio": 1.5,
    "image_size": 24,
    "patch_size": 2,
    "num_labels": CLASSES,
    "initializer_range": 0.3,
}
# The class of Transformers, its settings, and the class of Regard. Windows of 3 divide 12 rows, and not 7 or 14.
PEERS: dict[str, tuple[str, str, dict[str, Any], type]] = {
    "vit": ("ViTForImageClassification", "ViTConfig", VIT, VisionTransformer),
    "vit of one channel": (
        "ViTForImageClassification",
        "ViTConfig",
        {**VIT, "num_channels": 1, "qkv_bias": False, "hidden_act": "gelu_new", "layer_norm_eps": 1e-3},
        VisionTransformer,
    ),
    "deit": ("DeiTForImageClassificationWithTeacher", "DeiTConfig", VIT, VisionTransformer),
    "deit with one output": ("DeiTForImageClassification", "DeiTConfig", VIT, VisionTransformer),
    "swin": ("SwinForImageClassification", "SwinConfig", SWIN, Swin),
    "swin with padding": (
        "SwinForImageClassification",
        "SwinConfig",
        {**SWIN, "image_size": 28, "use_absolute_embeddings": True, "layer_norm_eps": 1e-3},
        Swin,
    ),
}


def saved(name: str, folder: Path) -> Any:
    """Save a model of Transformers with random weights, also in its biases, norms and tables, and return it."""
    torch.manual_seed(3)
    kind, config, settings, _ = PEERS[name]
    model = getattr(transformers, kind)(getattr(transformers, config)(**settings)).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.ndim == 1 or any(part in parameter_name for part in ("token", "position")):
                parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return model


def pictures(model: Any) -> torch.Tensor:
    channels, size = model.config.num_channels, model.config.image_size
    height, width = size if isinstance(size, tuple | list) else (size, size)
    return torch.randn(2, channels, height, width, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("name", PEERS)
def test_the_logits_are_those_of_transformers(name, tmp_path):
    theirs, kind = saved(name, tmp_path / "theirs"), PEERS[name][3]
    ours = load_huggingface(tmp_path / "theirs", kind)
    images = pictures(theirs)
    with torch.no_grad():
        expected = theirs(images).logits
        found = ours(images)
    assert expected.abs().max() > 0.1
    assert (found - expected).abs().max() < 1e-5
    assert not ours.training
    ours.save_pretrained(tmp_path / "ours")
    with torch.no_grad():
        assert load_model(tmp_path / "ours")(images).equal(found)


def test_the_weights_of_a_shifted_layer_are_those_of_transformers(tmp_path):
    theirs = saved("swin", tmp_path)
    ours, records = load_huggingface(tmp_path, Swin), []
    images = pictures(theirs)
    theirs.set_attn_implementation("eager")
    with torch.no_grad():
        ours(images, records=records)
        # Transformers returns the weights of the last block of each stage, window by window.
        expected = theirs(images, output_attentions=True).attentions[0]
    assert (records[1].map._source.source.values - expected).abs().max() < 1e-5


def edited(folder: Path, **values: Any) -> None:
    file = folder / "config.json"
    settings = json.loads(file.read_text())
    settings.update(values)
    file.write_text(json.dumps({name: value for name, value in settings.items() if value is not None}))


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("vit", {"num_hidden_layers": 3}, "num_hidden_layers is 3, but the file of weights has 2"),
        ("vit", {"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ("vit", {"image_size": 8}, r"position_embeddings is \(1, 7, 12\), but config.json says \(5, 12\)"),
        ("vit", {"patch_size": 3}, "patch_size: patches of 3 pixels do not divide an image of 8 x 12"),
        ("vit", {"patch_size": [2, 4]}, "patch_size: Regard's patches are squares"),
        ("vit", {"hidden_act": "mish"}, "hidden_act: 'mish', which Regard cannot compute"),
        ("vit", {"hidden_size": None}, "hidden_size: is missing"),
        ("vit", {"num_attention_heads": 5}, "num_attention_heads: 5 heads do not divide width = 12"),
        ("vit", {"num_channels": 1}, r"projection.weight is \(12, 3, 4, 4\), but config.json says \(12, 1, 4, 4\)"),
        ("vit", {"id2label": {"0": "a", "1": "b"}}, "id2label is for 2 classes, but the model has 5 outputs"),
        ("vit", {"model_type": "swin"}, r"load it with load_huggingface\(folder, Swin\)"),
        ("vit", {"model_type": "beit"}, "cannot load as a VisionTransformer: expected vit, deit"),
        ("vit", {"model_type": ["vit"]}, "cannot load as a VisionTransformer"),
        ("swin", {"depths": [2, 1]}, r"depths is \[2, 1\], but the file of weights has \[2, 2\]"),
        ("swin", {"window_size": 4}, r"bias_table is \(25, 3\), but config.json says \(49, 3\)"),
        ("swin", {"num_heads": [3]}, "num_heads: expected one number for each of 2 stages, got 1"),
        ("swin", {"use_absolute_embeddings": True}, "position_embeddings is missing from the weights"),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_are_rejected_by_name(name, values, words, tmp_path):
    saved(name, tmp_path)
    edited(tmp_path, **values)
    with pytest.raises(FileError, match=words):
        load_huggingface(tmp_path, PEERS[name][3])


def test_folders_with_other_tensors_are_rejected_by_name(tmp_path):
    saved("deit", tmp_path)
    with pytest.raises(
        FileError, match=r"a vision model: load it with load_huggingface\(folder, VisionTransformer\)"
    ):
        load_huggingface(tmp_path, Encoder)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    save_file({**tensors, "deit.encoder.layer.0.gate": torch.ones(3)}, file)
    with pytest.raises(
        FileError, match=r"layer\.0\.gate is a part of the model that Regard's VisionTransformer"
    ):
        load_huggingface(tmp_path, VisionTransformer)
    save_file({name: value for name, value in tensors.items() if "layernorm_after" not in name}, file)
    with pytest.raises(FileError, match="layernorm_after.* is missing from the weights"):
        load_huggingface(tmp_path, VisionTransformer)
    save_file({name: value for name, value in tensors.items() if "distillation_classifier" not in name}, file)
    with pytest.raises(FileError, match=r"no output for classes of images \(distillation_classifier.weight"):
        load_huggingface(tmp_path, VisionTransformer)


def test_the_index_tables_of_older_files_and_poolers_are_not_needed(tmp_path):
    theirs = saved("swin", tmp_path)
    file = tmp_path / "model.safetensors"
    index = "swin.encoder.layers.0.blocks.0.attention.self.relative_position_index"
    extra = {index: torch.zeros(9, 9, dtype=torch.long), "swin.pooler.dense.bias": torch.ones(3)}
    save_file({**load_file(file), **extra}, file)
    with torch.no_grad():
        images = pictures(theirs)
        assert (load_huggingface(tmp_path, Swin)(images) - theirs(images).logits).abs().max() < 1e-5
