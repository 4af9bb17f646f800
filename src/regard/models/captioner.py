"""A network that describes a picture in words, with attention to a grid of its parts or with one fixed vector."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.copying import CopyStates
from regard.errors import ArgumentError, DtypeError, ShapeError
from regard.models.block_config import ModelConfig, check_flag, check_name
from regard.models.config import CELLS, SCORES
from regard.models.inputs import embedding
from regard.models.pretrained import Pretrained
from regard.models.records import Record
from regard.models.recurrent_decoder import RecurrentDecoder
from regard.models.state import Memory
from regard.shapes import axes, whole_number

__all__ = ["CaptionNetwork", "CaptionNetworkConfig", "GridEncoder"]

PATCHES = (4, 8, 16, 32)
CHANNELS = (1, 3)
# Channels of the coarse features that the vector of the whole picture is computed from, without and with attention.
# With attention they only have to say where something is. What it is, the decoder reads from the cells.
_SUMMARY = {False: 32, True: 8}


@dataclass(frozen=True, kw_only=True)
class CaptionNetworkConfig(ModelConfig):
    """The settings of a :class:`CaptionNetwork`.

    - ``target_size`` is the number of ids of the vocabulary of captions.
    - ``image_height`` and ``image_width`` are the sizes of a picture in pixels, and ``channels`` is 1 or 3.
    - ``patch`` is the side of a cell of the grid in pixels, 4, 8, 16 or 32. It divides both sizes.
    - ``encoder_layers`` is the number of convolutional blocks, and ``feed_forward`` the width inside them. A block lets
      a cell see its eight neighbours, so few blocks keep the features of a cell local.
    - ``attention``, ``cell``, ``decoder_layers``, ``input_feeding`` and ``tied_output`` are those of
      :class:`~regard.models.Seq2SeqConfig`. Without input feeding, the state that attends depends on the words
      before it and on the vector of the whole picture, but not on earlier attention.
    """

    kind: ClassVar[str] = "captioner"
    copy: ClassVar[bool] = False  # a picture has no words to copy

    target_size: int
    width: int = 96
    image_height: int = 64
    image_width: int = 64
    channels: int = 1
    patch: int = 4
    encoder_layers: int = 3
    feed_forward: int = 192
    attention: str | None = "additive"
    cell: str = "gru"
    decoder_layers: int = 1
    input_feeding: bool = False
    tied_output: bool = True

    def __post_init__(self):
        super().__post_init__()
        for name in ("target_size", "feed_forward", "decoder_layers"):
            whole_number(name, getattr(self, name), least=1)
        whole_number("encoder_layers", self.encoder_layers, least=0)
        for name in ("input_feeding", "tied_output"):
            check_flag(name, getattr(self, name))
        check_name("cell", self.cell, CELLS)
        if self.attention is not None:
            check_name("attention", self.attention, SCORES)
        for name, known in (("patch", PATCHES), ("channels", CHANNELS)):
            if getattr(self, name) not in known:
                expected = " or ".join(map(str, known))
                raise ArgumentError(name, f"expected {expected}, got {getattr(self, name)!r}")
        for name in ("image_height", "image_width"):
            size = whole_number(name, getattr(self, name), least=1)
            if size % self.patch:
                nearest = max(1, round(size / self.patch)) * self.patch
                problem = f"cells of {self.patch} pixels do not divide {size} pixels"
                raise ArgumentError("patch", problem, f"use pictures of {nearest} pixels, or another patch")

    @property
    def grid(self) -> tuple[int, int]:
        """The rows and columns of cells."""
        return self.image_height // self.patch, self.image_width // self.patch


class _ConvolutionBlock(nn.Module):
    """A convolution over the eight neighbours of each cell, then a feed-forward layer, added to the input."""

    def __init__(self, width: int, inner: int):
        super().__init__()
        self.neighbours = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm = nn.LayerNorm(width)
        self.widen, self.narrow = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return features ``(b,m,rows,columns)`` of features of the same shape."""
        y = self.neighbours(x).permute(0, 2, 3, 1)  # (b,rows,columns,m)
        y = self.narrow(functional.gelu(self.widen(self.norm(y))))  # (b,rows,columns,m)
        return x + y.permute(0, 3, 1, 2)


class GridEncoder(nn.Module):
    """A small convolutional network that computes a vector for each cell of a grid over a picture.

    The features are local. With a patch of 4 pixels and n blocks, a cell sees a square of 9 + 8 n pixels around it.
    A learned vector of its row and one of its column tell cells apart, if the decoder attends to them.
    """

    def __init__(self, config: CaptionNetworkConfig):
        super().__init__()
        width, (rows, columns) = config.width, config.grid
        steps = PATCHES.index(config.patch)
        narrow = max(8, width // 3)
        self.edges = nn.Conv2d(config.channels, narrow, 5, stride=2, padding=2)
        sizes = [narrow, *[width] * (steps + 1)]
        self.halving = nn.ModuleList(
            nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in itertools.pairwise(sizes)
        )
        self.layers = nn.ModuleList(
            _ConvolutionBlock(width, config.feed_forward) for _ in range(config.encoder_layers)
        )
        self.norm = nn.LayerNorm(width)
        attends = config.attention is not None
        self.row_positions = nn.Parameter(torch.randn(rows, width) * 0.3) if attends else None
        self.column_positions = nn.Parameter(torch.randn(columns, width) * 0.3) if attends else None
        coarse = _SUMMARY[attends]
        self.summary = nn.Conv2d(width, coarse, 3, stride=2, padding=1)
        self.final = nn.Linear(coarse * ((rows + 1) // 2) * ((columns + 1) // 2), width)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the vectors of cells ``(b,k,m)`` and of whole pictures ``(b,m)``, for ``pixels (b,c,h,w)``.

        Pixels are numbers from 0 to 1. The k cells are in the order of their rows.
        """
        x = functional.gelu(self.edges(pixels.contiguous(memory_format=torch.channels_last)))
        for convolution in self.halving:
            x = functional.gelu(convolution(x))
        for layer in self.layers:
            x = layer(x)
        cells = self.norm(x.permute(0, 2, 3, 1))  # (b,rows,columns,m)
        coarse = functional.gelu(self.summary(cells.permute(0, 3, 1, 2)))  # (b,c,rows/2,columns/2)
        final = torch.tanh(self.final(coarse.flatten(1)))  # (b,m)
        if self.row_positions is not None and self.column_positions is not None:
            cells = cells + self.row_positions[:, None] + self.column_positions  # (b,rows,columns,m)
        return cells.flatten(1, 2), final


class CaptionNetwork(Pretrained, RecurrentDecoder):
    """A :class:`GridEncoder` and a recurrent decoder with attention to its cells (Xu et al. 2015, arXiv 1502.03044).

    With ``attention=None`` in the config, the decoder sees the picture only as one vector, at every step.

    >>> network = CaptionNetwork(CaptionNetworkConfig(target_size=13, width=8, image_height=16, image_width=8))
    >>> network(torch.rand(2, 1, 16, 8), torch.randint(3, 13, (2, 7))).shape
    torch.Size([2, 7, 13])
    """

    def __init__(self, config: CaptionNetworkConfig):
        super().__init__()
        self.config: CaptionNetworkConfig = config
        self.target_embedding = embedding(config.target_size, config.width)
        self.encoder = GridEncoder(config)
        self.make_decoder()

    def forward(self, pixels: Tensor, target: Tensor, *, records: list[Record] | None = None) -> Tensor:
        """Return the logits of the next token, ``(b,t,vocabulary)``, for ``pixels (b,c,h,w)`` and ``target (b,t)``.

        If ``records`` is a list, the attention is appended to it.
        """
        return self.output(self.hidden(pixels, target, records=records))

    def hidden(
        self, pixels: Tensor, target: Tensor, *, records: list[Record] | None = None
    ) -> Tensor | CopyStates:
        """Return the hidden states ``(b,t,m)`` of the decoder, which are the input of the output layer."""
        return self.decode(self.encode(pixels), target, records=records)

    def encode(self, pixels: Tensor) -> Memory:
        """Return the vectors of the cells of pictures ``(b,c,h,w)``, whose pixels are numbers from 0 to 1."""
        config = self.config
        expected = (config.channels, config.image_height, config.image_width)
        if not isinstance(pixels, Tensor) or not pixels.is_floating_point():
            kind = pixels.dtype if isinstance(pixels, Tensor) else type(pixels).__name__
            raise DtypeError("pixels", f"expected a tensor of numbers from 0 to 1, got {kind}")
        if pixels.ndim != 4 or tuple(pixels.shape[1:]) != expected:
            raise ShapeError(
                "pixels", f"expected (b,c,h,w) = (b,{axes(expected)[1:]}, got {axes(pixels.shape)}"
            )
        cells, final = self.encoder(pixels)
        cells = self.dropout(cells)
        keys = None if self.attention is None else self.attention.keys(cells)
        return Memory(cells, None, keys, final)
