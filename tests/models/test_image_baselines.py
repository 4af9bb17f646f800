"""Tests of the convolutional and the linear classifier of images."""

import pytest
import torch
import torch.nn.functional as F

from regard.errors import ArgumentError, FileError, ShapeError
from regard.models import (
    ConvolutionalClassifier,
    ConvolutionalClassifierConfig,
    LinearClassifier,
    LinearClassifierConfig,
    load_model,
)

B, C, H, W, CLASSES = 2, 3, 11, 13, 5


def convolutional(**changes):
    sizes = {"classes": CLASSES, "image_size": (H, W), "channels": C, "width": 6, "layers": 2, "dropout": 0.0}
    return ConvolutionalClassifier(ConvolutionalClassifierConfig(**{**sizes, **changes})).eval()


def test_the_linear_model_is_one_matrix_product():
    torch.manual_seed(0)
    model = LinearClassifier(LinearClassifierConfig(classes=CLASSES, image_size=(H, W), channels=C))
    images = torch.randn(B, C, H, W)
    layer = model.output.linear
    torch.testing.assert_close(model(images), images.reshape(B, -1) @ layer.weight.T + layer.bias)
    assert sum(p.numel() for p in model.parameters()) == CLASSES * (C * H * W + 1)


def test_the_convolutional_network_equals_its_formula():
    torch.manual_seed(0)
    model, images = convolutional(), torch.randn(B, C, H, W)
    x = images
    for number, stage in enumerate(model.layers):
        convolutions = [layer for layer in stage.children() if isinstance(layer, torch.nn.Conv2d)]
        norms = [layer for layer in stage.children() if isinstance(layer, torch.nn.GroupNorm)]
        x = F.max_pool2d(x, 2) if number else x
        for convolution, norm in zip(convolutions, norms, strict=True):
            x = F.relu(norm(F.conv2d(x, convolution.weight, padding=1)))
    assert x.shape == (B, 12, H // 2, W // 2)
    head = model.output.linear
    torch.testing.assert_close(model(images), x.mean(dim=(2, 3)) @ head.weight.T + head.bias)


def test_a_shifted_object_has_nearly_the_same_logits():
    """Away from the edges, the mean over all places does not depend on where an object is."""
    torch.manual_seed(0)
    model = convolutional(image_size=32, layers=1)
    here, there = torch.zeros(1, C, 32, 32), torch.zeros(1, C, 32, 32)
    patch = torch.randn(C, 4, 4)
    here[0, :, 10:14, 10:14], there[0, :, 18:22, 15:19] = patch, patch
    torch.testing.assert_close(model(here), model(there), atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["convolutional", "linear"])
def test_models_are_saved_and_loaded(kind, tmp_path):
    torch.manual_seed(0)
    config = LinearClassifierConfig(classes=CLASSES, image_size=(H, W), channels=C)
    model = (convolutional() if kind == "convolutional" else LinearClassifier(config)).eval()
    images = torch.randn(B, C, H, W)
    model.save_pretrained(tmp_path)
    again = load_model(tmp_path)
    assert again.config == model.config
    torch.testing.assert_close(again(images), model(images), atol=0, rtol=0)
    model.save_pretrained(tmp_path, dtype="int8")
    assert (load_model(tmp_path)(images) - model(images)).abs().max() < 0.1
    text = (tmp_path / "config.json").read_text().replace('"classes": 5', '"classes": 6')
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(FileError, match="classes is 6"):
        load_model(tmp_path)


def test_wrong_sizes_are_a_clear_error():
    with pytest.raises(ArgumentError, match="layers: an image of 11 x 13 cannot be halved 4 times: use 4"):
        convolutional(layers=5)
    with pytest.raises(ShapeError, match=r"images: expected \(b,3,11,13\), got \(2,1,11,13\)"):
        convolutional()(torch.zeros(2, 1, H, W))
    assert convolutional(layers=4)(torch.zeros(B, C, H, W)).shape == (B, CLASSES)
