"""Small models that read pictures in glimpses, and pictures for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.models import DensePictureConfig, DensePictureModel, GlimpseConfig, GlimpseModel
from regard.tasks.glimpse import GlimpseClassifier

LABELS = ["one", "two", "three"]
SIZES = {"glimpses": 3, "glimpse_size": 4, "scales": 2, "width": 16, "glimpse_width": 8}


def classifier(
    mode: str = "plain", size: tuple[int, int] = (11, 13), labels: Sequence[str] = LABELS, **settings: Any
) -> GlimpseClassifier:
    """Return a classifier with random weights."""
    torch.manual_seed(0)
    model = GlimpseModel(GlimpseConfig(classes=len(labels), **{**SIZES, **settings}))
    extra = {"mode": mode, "canvas": size[0], "clutter": 2, "clutter_size": 3, "size": list(size)}
    return GlimpseClassifier(model.eval(), labels, {**extra, "background": [0]})


def dense_classifier(size: tuple[int, int] = (11, 13)) -> GlimpseClassifier:
    """Return a classifier without glimpses, with random weights."""
    torch.manual_seed(0)
    config = DensePictureConfig(classes=len(LABELS), rows=size[0], columns=size[1], width=8)
    return GlimpseClassifier(DensePictureModel(config).eval(), LABELS, {"mode": "plain", "size": list(size)})


def save_squares(path: Path, number: int = 30, side: int = 8) -> Path:
    """Write pictures of three classes to a .npz file, a bright bar at one of three places."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 60, (number, side, side), dtype=np.uint8)
    labels = np.arange(number) % 3
    for image, label in zip(images, labels, strict=True):
        image[:, 2 * label : 2 * label + 2] += 190
    np.savez(path, images=images, labels=labels, classes=np.array(LABELS))
    return path
