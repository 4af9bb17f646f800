"""The Vision Transformer, a classifier of images by attention between their patches."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard.models.blocks import Stack
from regard.models.heads import ClassificationHead, make_pooling
from regard.models.pretrained import Pretrained
from regard.models.records import Record, set_patch_grid
from regard.models.vision_config import VisionTransformerConfig
from regard.models.vision_embedding import ImageEmbedding, check_images

__all__ = ["VisionEncoder", "VisionTransformer"]


class VisionEncoder(Stack):
    """Transformer blocks on the patches of images, with the settings of a :class:`VisionTransformerConfig`.

    ``name`` is the name of the encoder in a larger model, for the records of its attention.

    >>> import torch
    >>> encoder = VisionEncoder(VisionTransformerConfig(classes=3, image_size=(8, 12), width=8))
    >>> encoder(torch.zeros(2, 1, 8, 12)).shape
    torch.Size([2, 7, 8])
    """

    def __init__(self, config: VisionTransformerConfig, *, name: str = ""):
        embedding: Any = ImageEmbedding(config)
        super().__init__(
            config.block_config(), embedding, layers=config.layers, causal=False, cross=False, name=name
        )
        self.config = config

    def forward(self, images: Tensor, *, records: list[Record] | None = None) -> Tensor:
        """Return the states ``(b,n,m)`` of the extra tokens and the patches of ``images (b,c,height,width)``.

        ``config.extra`` tokens are before the patches, which are in the order of their rows. If ``records`` is a list,
        the attention of every layer is appended to it, with the grid of the patches.
        """
        check_images(images, self.config)
        first = 0 if records is None else len(records)
        states = self.run(self.embedding(images), None, records=records)  # (b,n,m)
        if records is not None:
            set_patch_grid(records, first, self.config.grid, self.config.extra)
        return states

    def patch_states(self, images: Tensor, *, records: list[Record] | None = None) -> Tensor:
        """Return the states of the patches alone, ``(b,rows * columns,m)``, for models that attend to them."""
        return self(images, records=records)[:, self.config.extra :]


class VisionTransformer(Pretrained, nn.Module):
    """A Vision Transformer from images to classes, built from a :class:`VisionTransformerConfig`.

    ``encoder`` is its :class:`VisionEncoder`, whose states other models can use.

    >>> import torch
    >>> config = VisionTransformerConfig(classes=10, image_size=28, patch_size=7, width=8, heads=2, layers=1)
    >>> model, records = VisionTransformer(config), []
    >>> model(torch.rand(2, 1, 28, 28), records=records).shape
    torch.Size([2, 10])
    >>> records[0].map.shape, records[0].key_grid, records[0].key_extra
    (torch.Size([2, 2, 17, 17]), (4, 4), 1)
    """

    def __init__(self, config: VisionTransformerConfig):
        super().__init__()
        self.config: VisionTransformerConfig = config
        self.encoder = VisionEncoder(config, name="encoder")
        kind = "first" if config.pooling == "class_token" else config.pooling
        self.pooling = make_pooling(kind, config.width, config.pooling_heads, name="pooling")
        self.output = ClassificationHead(config.width, config.classes, dropout=config.dropout)
        self.distillation_output: nn.Module | None = None
        if config.distillation == "output":
            self.distillation_output = ClassificationHead(
                config.width, config.classes, dropout=config.dropout
            )

    def forward(self, images: Tensor, *, records: list[Record] | None = None) -> Tensor:
        """Return the logits of the classes, ``(b,classes)``, for ``images (b,c,height,width)``.

        With the distillation "output" they are the mean of the logits of both output layers. If ``records`` is a list,
        the attention of every layer and of the pooling is appended to it, with the grid of the patches.
        """
        states = self.encoder(images, records=records)  # (b,n,m)
        logits = self.output(self._pooled(states, records))  # (b,classes)
        if self.distillation_output is None:
            return logits
        return (logits + self.distillation_output(states[:, 1])) / 2

    def pooled(self, images: Tensor, *, records: list[Record] | None = None) -> Tensor:
        """Return one vector for each image, ``(b,m)``, which is the input of the output layer."""
        return self._pooled(self.encoder(images, records=records), records)

    def _pooled(self, states: Tensor, records: list[Record] | None) -> Tensor:
        first = 0 if records is None else len(records)
        pooled = self.pooling(states, records=records)  # (b,m)
        if records is not None:
            set_patch_grid(records, first, self.config.grid, self.config.extra)
        return pooled
