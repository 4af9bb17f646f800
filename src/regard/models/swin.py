"""The Swin Transformer, a classifier of images by attention inside windows of patches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.layers import KeyValueCache, MultiHeadAttention
from regard.maps import AttentionMap
from regard.maps.image_windows import ImageWindows
from regard.masks import Mask
from regard.models.blocks import Block
from regard.models.dropout import Dropout
from regard.models.heads import ClassificationHead, MeanPooling
from regard.models.pretrained import Pretrained
from regard.models.records import Record, add_record
from regard.models.vision_config import SwinConfig
from regard.models.vision_embedding import SMALL, check_images, make_patch_layers
from regard.models.windows import from_windows, relative_index, to_windows, window_mask

__all__ = ["Swin", "SwinBlock", "SwinStage"]

# The norms of the embedding and of the merging of patches, which no setting changes.
EPSILON = 1e-5


class SwinBlock(Block):
    """A Transformer block whose self-attention is inside windows of patches, with a relative position bias.

    ``number`` is that of the block in its stage. Every second block shifts the windows. ``layer`` is the number of the
    block in the model.
    """

    def __init__(self, config: SwinConfig, stage: int, number: int, layer: int):
        blocks = config.block_config(stage)
        super().__init__(blocks, f"stages.{stage}.layers.{number}", causal=False, cross=False)
        self.layer = layer
        # A capture reads these three names.
        self.input_dimensions = config.stage_grid(stage)
        self.window_size, shift = config.stage_window(stage)
        self.shift_size = shift if number % 2 else 0
        self.masked_padding = config.masked_padding
        self.relative_bias = nn.Parameter(torch.empty((2 * self.window_size - 1) ** 2, blocks.heads))
        nn.init.normal_(self.relative_bias, std=SMALL)

    def _attend(
        self,
        part: str,
        kind: str,
        query: Tensor,  # (b,n,m)
        key: Tensor | None,
        mask: Mask | None,
        cache: KeyValueCache | None,
        bias: Any,
        records: list[Record] | None,
    ) -> Tensor:
        layer: MultiHeadAttention = getattr(self, part)
        grid, side, shift = self.input_dimensions, self.window_size, self.shift_size
        x = to_windows(query.unflatten(1, grid), side, shift)  # (b * windows,side²,m)
        kept = window_mask(grid, side, shift, padding=self.masked_padding)
        if kept is not None:
            # len(x) would fix the batch size of an exported graph.
            kept = kept.to(x.device).repeat(x.shape[0] // len(kept), 1, 1)  # (b * windows,side²,side²)
        y, weights = layer(x, mask=kept, bias=self._bias(), need_weights=records is not None)
        if records is not None and weights is not None:
            self._record(records, f"{self.name}.{part}", kind, weights)
        return from_windows(y, grid, side, shift).flatten(1, 2)  # (b,n,m)

    def _bias(self) -> Tensor:
        """Return the bias of the pairs of patches of a window, ``(1,h,side²,side²)``."""
        index = relative_index(self.window_size).to(self.relative_bias.device)
        return F.embedding(index, self.relative_bias).permute(2, 0, 1)[None]

    def _record(self, records: list[Record], name: str, kind: str, weights: Tensor) -> None:
        add_record(records, name=name, kind=kind, layer=self.layer, weights=weights)
        grid = self.input_dimensions
        source = ImageWindows(records[-1].map._source, grid, self.window_size, self.shift_size)
        records[-1] = replace(records[-1], map=AttentionMap(source), query_grid=grid, key_grid=grid)


class PatchMerging(nn.Module):
    """A layer from each 2 × 2 patches to one of twice the width.

    A last row or column without a partner is padded with zeros.

    >>> PatchMerging(4)(torch.ones(2, 3, 5, 4)).shape
    torch.Size([2, 2, 3, 8])
    """

    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(4 * width, eps=EPSILON)
        self.reduction = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # (b,rows,columns,m) -> (b,rows / 2,columns / 2,2m)
        """Return the merged patches of ``x (b,rows,columns,m)``."""
        x = F.pad(x, (0, 0, 0, x.shape[2] % 2, 0, x.shape[1] % 2))
        parts = [x[:, row::2, column::2] for column in range(2) for row in range(2)]
        return self.reduction(self.norm(torch.cat(parts, dim=-1)))


class SwinStage(nn.Module):
    """The blocks of one stage, and the merging of patches before the next stage, if there is one."""

    def __init__(self, config: SwinConfig, stage: int):
        super().__init__()
        self.grid = config.stage_grid(stage)
        before = sum(config.depths[:stage])
        self.layers = nn.ModuleList(
            SwinBlock(config, stage, number, before + number) for number in range(config.depths[stage])
        )
        last = stage == len(config.depths) - 1
        self.merging = None if last else PatchMerging(config.stage_width(stage))

    def forward(self, x: Tensor, *, records: list[Record] | None = None) -> Tensor:
        """Return the states of the next stage, or of the last stage, from states ``(b,n,m)`` of this one."""
        for layer in self.layers:
            x = layer(x, None, records=records)
        return x if self.merging is None else self.merging(x.unflatten(1, self.grid)).flatten(1, 2)


class Swin(Pretrained, nn.Module):
    """A Swin Transformer from images to classes, built from a :class:`SwinConfig`.

    Its blocks attend inside windows of patches, and every second block inside shifted windows (Liu et al. 2021). The
    logits are those of the mean of the last states. The windows of an image are a batch, because they all have the same
    size. On a CPU, a block-sparse mask over all patches takes 2 to 10 times as long, with 14 to 112 patches in each
    direction (``benchmarks/bench_windows.py``).

    >>> config = SwinConfig(classes=10, image_size=28, width=8, heads=(2, 4), depths=(2, 1))
    >>> model, records = Swin(config), []
    >>> model(torch.rand(2, 1, 28, 28), records=records).shape
    torch.Size([2, 10])
    >>> [(record.map.shape, record.key_grid) for record in records[1:]]
    [(torch.Size([2, 2, 196, 196]), (14, 14)), (torch.Size([2, 4, 49, 49]), (7, 7))]
    """

    def __init__(self, config: SwinConfig):
        super().__init__()
        self.config: SwinConfig = config
        rows, columns = config.grid
        self.patches = make_patch_layers(config)
        self.patch_norm = nn.LayerNorm(config.width, eps=EPSILON)
        self.positions = None
        if config.positions == "learned":
            self.positions = nn.Parameter(torch.empty(rows * columns, config.width))
            nn.init.normal_(self.positions, std=config.width**-0.5)
        self.dropout = Dropout(config.dropout)
        self.stages = nn.ModuleList(SwinStage(config, stage) for stage in range(len(config.depths)))
        width = config.stage_width(len(config.depths) - 1)
        self.norm = nn.LayerNorm(width, eps=config.norm_epsilon)
        self.pooling = MeanPooling()
        self.output = ClassificationHead(width, config.classes, dropout=config.dropout)

    def forward(self, images: Tensor, *, records: list[Record] | None = None) -> Tensor:
        """Return the logits of the classes, ``(b,classes)``, for ``images (b,c,height,width)``.

        If ``records`` is a list, the attention of every block is appended to it, between all patches of the stage.
        """
        return self.output(self.pooled(images, records=records))

    def pooled(self, images: Tensor, *, records: list[Record] | None = None) -> Tensor:
        """Return one vector for each image, ``(b,m)``, which is the input of the output layer."""
        return self.pooling(self.patch_states(images, records=records))

    def patch_states(self, images: Tensor, *, records: list[Record] | None = None) -> Tensor:
        """Return the states of the last stage, ``(b,rows * columns,m)``, for models that attend to them."""
        check_images(images, self.config)
        x = self.patch_norm(self.patches(images).flatten(2).transpose(1, 2))  # (b,n,m)
        if self.positions is not None:
            x = x + self.positions
        x = self.dropout(x)
        for stage in self.stages:
            x = stage(x, records=records)
        return self.norm(x)
