"""The settings of the vision models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from regard.errors import ArgumentError, DtypeError, option
from regard.models.block_config import BlockConfig, ModelConfig, check_flag, check_name, check_positive
from regard.shapes import whole_number

__all__ = ["ImageModelConfig", "SwinConfig", "VisionTransformerConfig", "check_pair"]

EMBEDDINGS = ("patch", "convolution", "deep_convolution")
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
    - ``embedding`` is "patch" (one linear layer on the pixels of a patch), "convolution" (3 × 3 convolutions with
      stride 2, of which each halves the image, so ``patch_size`` must be a power of 2) or "deep_convolution" (the
      same, with a 3 × 3 convolution of stride 1 before each of them).
    """

    classes: int
    image_size: tuple[int, int] | int = (28, 28)
    channels: int = 1
    patch_size: int = 4
    embedding: str = "patch"

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "image_size", check_pair("image_size", self.image_size))
        for name in ("classes", "channels", "patch_size"):
            whole_number(name, getattr(self, name), least=1)
        check_name("embedding", self.embedding, EMBEDDINGS)
        self._check_patches()

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

    def _check_patches(self) -> None:
        """Raise ArgumentError unless the patches divide the image and fit the embedding."""
        if self.embedding != "patch" and (self.patch_size < 2 or self.patch_size & (self.patch_size - 1)):
            told = (
                f"convolutions that halve the image need 2, 4, 8 or another power of 2, got {self.patch_size}"
            )
            raise ArgumentError("patch_size", told, f"or use {option('embedding', 'patch')}")
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
    positions: str = "learned"
    pooling: str = "class_token"
    pooling_heads: int = 1
    distillation: str = "none"

    def __post_init__(self):
        super().__post_init__()
        whole_number("layers", self.layers, least=1)
        whole_number("pooling_heads", self.pooling_heads, least=1)
        check_name("positions", self.positions, POSITIONS)
        check_name("pooling", self.pooling, POOLINGS)
        check_name("distillation", self.distillation, DISTILLATIONS)
        self.block_config()
        if self.positions == "sinusoidal" and self.width % 4:
            told = f"sinusoidal positions of rows and columns need a multiple of 4, got {self.width}"
            raise ArgumentError("width", told)
        if self.pooling == "multihead" and self.width % self.pooling_heads:
            raise ArgumentError(
                "pooling_heads", f"{self.pooling_heads} heads do not divide width = {self.width}"
            )
        if self.pooling in ("class_token", "mean") and self.pooling_heads != 1:
            told = f"the pooling {self.pooling!r} has no heads, got {self.pooling_heads}"
            raise ArgumentError("pooling_heads", told, f"use {option('pooling', 'additive')} or multihead")
        if self.distillation != "none" and self.pooling != "class_token":
            told = f"{self.distillation!r} needs a class token, but the pooling is {self.pooling!r}"
            raise ArgumentError("distillation", told, f"use {option('pooling', 'class_token')}")

    @property
    def extra(self) -> int:
        """The number of tokens before the first patch."""
        return int(self.pooling == "class_token") + int(self.distillation != "none")

    def block_config(self) -> BlockConfig:
        """Return the settings of the Transformer blocks, which have no positions of their own."""
        return self.part(BlockConfig, positions="none")


@dataclass(frozen=True, kw_only=True)
class SwinConfig(ImageModelConfig):
    """The settings of a :class:`Swin`.

    - ``width`` is that of the first stage. Each further stage has half as many rows and columns and twice the width.
    - ``depths`` and ``heads`` are the numbers of blocks and of heads of each stage.
    - ``window`` is the number of patches of a window in each direction. A stage whose rows or columns are not more
      than it has windows of the smaller of the two numbers, and no shifts.
    - ``feed_forward_ratio`` is the width between the two projections of a feed-forward layer, divided by that of the
      stage.
    - ``activation``, ``qkv_bias``, ``norm_epsilon`` and ``attention_dropout`` are those of the blocks, as in
      :class:`BlockConfig`. Norms are before each part of a block.
    - ``positions`` is "none", or "learned" for a vector that is added to each patch. All windows have a relative
      position bias as well.
    - ``masked_padding`` hides the padding where windows do not divide the rows and columns. Without it, patches attend
      to the padding, as in the models of the paper.

    >>> SwinConfig(classes=10, depths=(2, 2), heads=(3,))
    Traceback (most recent call last):
        ...
    regard.errors.ArgumentError: heads: expected one number for each of 2 stages, got 1
    """

    kind: ClassVar[str] = "swin"
    width: int = 48
    patch_size: int = 2
    depths: tuple[int, ...] = (2, 2)
    heads: tuple[int, ...] = (3, 6)
    window: int = 7
    feed_forward_ratio: float = 2.0
    activation: str = "gelu"
    qkv_bias: bool = True
    norm_epsilon: float = 1e-5
    attention_dropout: float = 0.0
    positions: str = "none"
    masked_padding: bool = True

    def __post_init__(self):
        super().__post_init__()
        for name in ("depths", "heads"):
            numbers = getattr(self, name)
            if not isinstance(numbers, tuple | list) or not numbers:
                raise DtypeError(name, f"expected one whole number for each stage, got {numbers!r}")
            numbers = tuple(whole_number(f"{name}[{i}]", n, least=1) for i, n in enumerate(numbers))
            object.__setattr__(self, name, numbers)
        if len(self.heads) != len(self.depths):
            told = f"expected one number for each of {len(self.depths)} stages, got {len(self.heads)}"
            raise ArgumentError("heads", told)
        whole_number("window", self.window, least=1)
        check_positive("feed_forward_ratio", self.feed_forward_ratio)
        check_name("positions", self.positions, ("none", "learned"))
        check_flag("masked_padding", self.masked_padding)
        for stage in range(len(self.depths)):
            self.block_config(stage)

    def stage_width(self, stage: int) -> int:
        """Return the width of the states of a stage."""
        return self.width * 2**stage

    def stage_grid(self, stage: int) -> tuple[int, int]:
        """Return the rows and columns of a stage, which halve from each stage to the next and are rounded up."""
        rows, columns = self.grid
        return -(-rows // 2**stage), -(-columns // 2**stage)

    def stage_window(self, stage: int) -> tuple[int, int]:
        """Return the side of the windows of a stage, and the shift of every second block."""
        smallest = min(self.stage_grid(stage))
        return (self.window, self.window // 2) if smallest > self.window else (smallest, 0)

    def block_config(self, stage: int) -> BlockConfig:
        """Return the settings of the blocks of a stage."""
        width = self.stage_width(stage)
        return self.part(
            BlockConfig,
            width=width,
            heads=self.heads[stage],
            feed_forward=int(self.feed_forward_ratio * width),
            positions="none",
        )


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
