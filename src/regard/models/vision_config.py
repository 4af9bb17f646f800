"""The settings of the vision models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from regard.errors import ArgumentError, DtypeError
from regard.models.block_config import BlockConfig, ModelConfig, check_name
from regard.shapes import whole_number

__all__ = ["ImageModelConfig", "VisionTransformerConfig", "check_pair"]

EMBEDDINGS = ("patch", "convolution")
POOLINGS = ("class_token", "mean", "additive", "multihead")
POSITIONS = ("learned", "sinusoidal", "none")
DISTILLATIONS = ("none", "token", "output")


@dataclass(frozen=True, kw_only=True)
class ImageModelConfig(ModelConfig):
    """The settings that every classifier of images has.

    - ``classes`` is the number of classes.
    - ``image_size`` is the height and the width of an image in pixels, or one number for both.
    - ``channels`` is the number of channels, 1 for grey and 3 for colour images.
    - ``patch_size`` is the number of pixels of a patch in each direction. It must divide the image.
    """

    classes: int
    image_size: tuple[int, int] | int = (28, 28)
    channels: int = 1
    patch_size: int = 4

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "image_size", check_pair("image_size", self.image_size))
        for name in ("classes", "channels", "patch_size"):
            whole_number(name, getattr(self, name), least=1)

    @property
    def size(self) -> tuple[int, int]:
        """The height and the width of an image in pixels."""
        assert isinstance(self.image_size, tuple)
        return self.image_size

    @property
    def grid(self) -> tuple[int, int]:
        """The rows and columns of patches in an image."""
        height, width = self.size
        return height // self.patch_size, width // self.patch_size

    def check_patches(self) -> None:
        """Raise ArgumentError unless the patches divide the image."""
        for side in self.size:
            if side % self.patch_size:
                height, width = self.size
                told = f"patches of {self.patch_size} pixels do not divide an image of {height} x {width}"
                fix = f"use a common divisor of {height} and {width}, or images of another size"
                raise ArgumentError("patch_size", told, fix)


@dataclass(frozen=True, kw_only=True)
class VisionTransformerConfig(ImageModelConfig):
    """The settings of a :class:`VisionTransformer`.

    - ``layers``, ``heads``, ``feed_forward``, ``activation``, ``qkv_bias``, ``norm_epsilon`` and
      ``attention_dropout`` are those of the blocks, as in :class:`BlockConfig`. Norms are before each part of a block.
    - ``embedding`` is "patch" (one linear layer on the pixels of a patch) or "convolution" (3 × 3 convolutions with
      stride 2, of which each halves the image, so ``patch_size`` must be a power of 2).
    - ``positions`` are "learned" or "sinusoidal" in two dimensions, or "none".
    - ``pooling`` is "class_token" (the state of a token before the patches), "mean", "additive" or "multihead"
      (attention with learned queries). ``pooling_heads`` is the number of heads of the last two, by default 1.
    - ``distillation`` is "none", "token" (a second token before the patches, as in DeiT) or "output" (the second token
      has an output layer of its own, and the logits are the mean of both). It needs the pooling "class_token".

    >>> VisionTransformerConfig(classes=10, image_size=28, patch_size=5)
    Traceback (most recent call last):
        ...
    regard.errors.ArgumentError: patch_size: patches of 5 pixels do not divide an image of 28 x 28: use a common
    divisor of 28 and 28, or images of another size
    """

    kind: ClassVar[str] = "vision_transformer"
    width: int = 96
    layers: int = 4
    heads: int = 4
    feed_forward: int = 192
    activation: str = "gelu"
    qkv_bias: bool = True
    norm_epsilon: float = 1e-6
    attention_dropout: float = 0.0
    embedding: str = "patch"
    positions: str = "learned"
    pooling: str = "class_token"
    pooling_heads: int = 1
    distillation: str = "none"

    def __post_init__(self):
        super().__post_init__()
        self.check_patches()
        whole_number("layers", self.layers, least=1)
        whole_number("pooling_heads", self.pooling_heads, least=1)
        check_name("embedding", self.embedding, EMBEDDINGS)
        check_name("positions", self.positions, POSITIONS)
        check_name("pooling", self.pooling, POOLINGS)
        check_name("distillation", self.distillation, DISTILLATIONS)
        self.block_config()
        if self.embedding == "convolution" and (
            self.patch_size < 2 or self.patch_size & (self.patch_size - 1)
        ):
            told = (
                f"convolutions that halve the image need 2, 4, 8 or another power of 2, got {self.patch_size}"
            )
            raise ArgumentError("patch_size", told, 'or use embedding="patch"')
        if self.positions == "sinusoidal" and self.width % 4:
            told = f"sinusoidal positions of rows and columns need a multiple of 4, got {self.width}"
            raise ArgumentError("width", told)
        if self.pooling == "multihead" and self.width % self.pooling_heads:
            raise ArgumentError(
                "pooling_heads", f"{self.pooling_heads} heads do not divide width = {self.width}"
            )
        if self.pooling in ("class_token", "mean") and self.pooling_heads != 1:
            told = f"the pooling {self.pooling!r} has no heads, got {self.pooling_heads}"
            raise ArgumentError("pooling_heads", told, 'use pooling="additive" or "multihead"')
        if self.distillation != "none" and self.pooling != "class_token":
            told = f"{self.distillation!r} needs a class token, but the pooling is {self.pooling!r}"
            raise ArgumentError("distillation", told, 'use pooling="class_token"')

    @property
    def extra(self) -> int:
        """The number of tokens before the first patch."""
        return int(self.pooling == "class_token") + int(self.distillation != "none")

    def block_config(self) -> BlockConfig:
        """Return the settings of the Transformer blocks, which have no positions of their own."""
        return self.part(BlockConfig, positions="none")


def check_pair(name: str, value: int | Sequence[int]) -> tuple[int, int]:
    """Return a size as (height, width), or raise an error unless it is one whole number or two, from 1 on.

    >>> check_pair("image_size", 28), check_pair("image_size", [32, 48])
    ((28, 28), (32, 48))
    """
    if isinstance(value, int):
        value = (value, value)
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise DtypeError(name, f"expected a number, or height and width, got {value!r}")
    height, width = (whole_number(name, side, least=1) for side in value)
    return height, width
