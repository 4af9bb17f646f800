"""Small classifiers of pictures with random weights."""

import torch

from regard.models import (
    ConvolutionalClassifier,
    ConvolutionalClassifierConfig,
    Swin,
    SwinConfig,
    VisionTransformer,
    VisionTransformerConfig,
)
from regard.tasks.images import ImageClassifier
from regard.text import ClassLabels

SIZES = {"classes": 3, "image_size": (8, 12), "channels": 1, "width": 8, "dropout": 0.0}


def small_image_classifier(kind="vit", **settings):
    """Return a classifier of pictures of 8 × 12 pixels into the classes cat, dog and hen."""
    torch.manual_seed(0)
    given = {**SIZES, **settings}
    if kind == "vit":
        config = VisionTransformerConfig(**{"heads": 2, "layers": 2, "feed_forward": 8, **given})
        model = VisionTransformer(config)
    elif kind == "swin":
        model = Swin(SwinConfig(**{"patch_size": 1, "window": 4, "heads": (1, 2), **given}))
    else:
        model = ConvolutionalClassifier(ConvolutionalClassifierConfig(**{"layers": 1, **given}))
    channels = given["channels"]
    extra = {"mean": [0.25] * channels, "deviation": [0.5] * channels, "temperature": 0.5}
    return ImageClassifier(model.eval(), ClassLabels(["cat", "dog", "hen"]), extra)
