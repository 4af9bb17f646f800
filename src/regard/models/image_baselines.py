"""Classifiers of images without attention, a convolutional network and a linear model, to compare others with."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from regard.errors import ArgumentError
from regard.models.block_config import ModelConfig
from regard.models.heads import ClassificationHead
from regard.models.pretrained import Pretrained
from regard.models.records import Record
from regard.models.vision_config import check_pair
from regard.models.vision_embedding import check_images
from regard.shapes import whole_number

__all__ = [
    "ConvolutionalClassifier",
    "ConvolutionalClassifierConfig",
    "LinearClassifier",
    "LinearClassifierConfig",
]

# The most groups of channels that are normalised together.
_GROUPS = 8


@dataclass(frozen=True, kw_only=True)
class LinearClassifierConfig(ModelConfig):
    """The settings of a :class:`LinearClassifier`.

    ``classes`` is the number of classes, ``image_size`` the height and the width of an image in pixels (or one number
    for both), and ``channels`` the number of channels. ``dropout`` is that of the pixels. ``width`` has no effect.
    """

    kind: ClassVar[str] = "linear_classifier"
    classes: int
    image_size: tuple[int, int] | int = (28, 28)
    channels: int = 1
    dropout: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "image_size", check_pair("image_size", self.image_size))
        for name in ("classes", "channels"):
            whole_number(name, getattr(self, name), least=1)

    @property
    def size(self) -> tuple[int, int]:
        """The height and the width of an image in pixels."""
        assert isinstance(self.image_size, tuple)
        return self.image_size


@dataclass(frozen=True, kw_only=True)
class ConvolutionalClassifierConfig(LinearClassifierConfig):
    """The settings of a :class:`ConvolutionalClassifier`.

    ``width`` is the number of channels of the first of ``layers`` stages. Each further stage has twice the channels and
    half the rows and columns.

    >>> ConvolutionalClassifierConfig(classes=10, image_size=8, layers=5)
    Traceback (most recent call last):
        ...
    regard.errors.ArgumentError: layers: an image of 8 x 8 cannot be halved 4 times: use 4 stages or fewer
    """

    kind: ClassVar[str] = "convolutional_classifier"
    width: int = 32
    layers: int = 3
    dropout: float = 0.1

    def __post_init__(self):
        super().__post_init__()
        whole_number("layers", self.layers, least=1)
        height, width = self.size
        most = min(height, width).bit_length()
        if self.layers > most:
            told = f"an image of {height} x {width} cannot be halved {self.layers - 1} times"
            raise ArgumentError("layers", told, f"use {most} stages or fewer")


class LinearClassifier(Pretrained, nn.Module):
    """One linear layer from the pixels of an image to the logits of the classes.

    >>> import torch
    >>> LinearClassifier(LinearClassifierConfig(classes=10, image_size=8))(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """

    def __init__(self, config: LinearClassifierConfig):
        super().__init__()
        self.config: LinearClassifierConfig = config
        height, width = config.size
        pixels = config.channels * height * width
        self.output = ClassificationHead(pixels, config.classes, dropout=config.dropout)

    def forward(self, images: Tensor, *, records: list[Record] | None = None) -> Tensor:
        """Return the logits of the classes, ``(b,classes)``, for ``images (b,c,height,width)``.

        There is no attention to append to ``records``.
        """
        config: Any = self.config
        check_images(images, config)
        return self.output(images.flatten(1))


class ConvolutionalClassifier(Pretrained, nn.Module):
    """Stages of two 3 × 3 convolutions each, the mean of all places, and a linear layer.

    Each convolution is followed by a group norm and a ReLU. Between stages, the largest of each 2 × 2 places is kept.

    >>> import torch
    >>> config = ConvolutionalClassifierConfig(classes=10, image_size=28, channels=3, width=8)
    >>> ConvolutionalClassifier(config)(torch.zeros(2, 3, 28, 28)).shape
    torch.Size([2, 10])
    """

    def __init__(self, config: ConvolutionalClassifierConfig):
        super().__init__()
        self.config: ConvolutionalClassifierConfig = config
        widths = [config.channels, *(config.width << stage for stage in range(config.layers))]
        self.layers = nn.ModuleList(
            _stage(before, after, first=number == 0)
            for number, (before, after) in enumerate(itertools.pairwise(widths))
        )
        self.output = ClassificationHead(widths[-1], config.classes, dropout=config.dropout)

    def forward(self, images: Tensor, *, records: list[Record] | None = None) -> Tensor:
        """Return the logits of the classes, ``(b,classes)``, for ``images (b,c,height,width)``.

        There is no attention to append to ``records``.
        """
        config: Any = self.config
        check_images(images, config)
        x = images
        for stage in self.layers:
            x = stage(x)  # (b,channels,rows,columns)
        return self.output(x.mean(dim=(2, 3)))


def _stage(before: int, after: int, *, first: bool) -> nn.Sequential:
    """Make the layers of a stage from ``before`` to ``after`` channels.

    Unless it is the first, it halves the image.
    """
    layers: list[nn.Module] = [] if first else [nn.MaxPool2d(2)]
    for channels in (before, after):
        groups = next(number for number in range(_GROUPS, 0, -1) if after % number == 0)
        layers += [
            nn.Conv2d(channels, after, 3, padding=1, bias=False),
            nn.GroupNorm(groups, after),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers)
