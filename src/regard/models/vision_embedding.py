"""The embedding of images as patches with two-dimensional positions."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor, nn

from regard.errors import DtypeError, ShapeError
from regard.models.dropout import Dropout
from regard.models.vision_config import ImageModelConfig, VisionTransformerConfig
from regard.positions import sinusoidal
from regard.shapes import axes

__all__ = ["ImageEmbedding", "check_images", "make_patch_layers", "sinusoidal_grid"]

# The standard deviation of new class tokens and relative biases.
SMALL = 0.02


class ImageEmbedding(nn.Module):
    """A layer from images to the vectors of their patches, after those of the class and distillation tokens.

    >>> from regard.models import VisionTransformerConfig
    >>> embed = ImageEmbedding(VisionTransformerConfig(classes=3, image_size=(8, 12), width=8))
    >>> embed(torch.zeros(2, 1, 8, 12)).shape
    torch.Size([2, 7, 8])
    """

    def __init__(self, config: VisionTransformerConfig):
        super().__init__()
        rows, columns = config.grid
        self.grid = config.grid
        self.patches = make_patch_layers(config)
        self.class_token = self.distillation_token = self.positions = None
        if config.pooling == "class_token":
            self.class_token = nn.Parameter(torch.empty(config.width))
            nn.init.normal_(self.class_token, std=SMALL)
        if config.distillation != "none":
            self.distillation_token = nn.Parameter(torch.empty(config.width))
            nn.init.normal_(self.distillation_token, std=SMALL)
        if config.positions == "learned":
            self.positions = nn.Parameter(torch.empty(config.extra + rows * columns, config.width))
            # The vectors have a norm of about 1, so that a short training tells the patches apart.
            nn.init.normal_(self.positions, std=config.width**-0.5)
        self.sinusoidal = config.positions == "sinusoidal"
        self.dropout = Dropout(config.dropout)

    def forward(self, images: Tensor) -> Tensor:  # (b,c,height,width) -> (b,n,m)
        """Return the vectors ``(b,n,m)`` of the extra tokens and then of the patches, row by row."""
        x = self.patches(images).flatten(2).transpose(1, 2)  # (b,m,rows,columns) -> (b,rows * columns,m)
        if self.sinusoidal:
            x = x + sinusoidal_grid(*self.grid, x.shape[-1], like=x)
        tokens = [token for token in (self.class_token, self.distillation_token) if token is not None]
        x = torch.cat([*(token.expand(x.shape[0], 1, -1) for token in tokens), x], dim=1)  # (b,n,m)
        if self.positions is not None:
            x = x + self.positions
        return self.dropout(x)


def make_patch_layers(config: ImageModelConfig) -> nn.Module:
    """Make the layer from images ``(b,c,height,width)`` to vectors of patches ``(b,m,rows,columns)``.

    With "convolution", each of several 3 × 3 convolutions halves the image and doubles the width, up to that of the
    model. With "deep_convolution", a convolution of stride 1 is before each of them. Between convolutions are
    activations.
    """
    if config.embedding == "patch":
        return nn.Conv2d(config.channels, config.width, config.patch_size, config.patch_size)
    steps = round(math.log2(config.patch_size))
    widths = [config.channels, *(max(1, config.width >> (steps - i)) for i in range(1, steps)), config.width]
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        between = before
        if config.embedding == "deep_convolution":
            # A stride of 1 keeps the size of the image. Half of the channels limits the cost.
            between = max(1, after // 2)
            layers += [nn.Conv2d(before, between, 3, padding=1), nn.GELU()]
        layers += [nn.Conv2d(between, after, 3, stride=2, padding=1), nn.GELU()]
    return nn.Sequential(*layers[:-1])


def sinusoidal_grid(rows: int, columns: int, width: int, *, like: Tensor) -> Tensor:
    """Return the sinusoidal positions ``(rows * columns,m)`` of patches, row by row.

    The first half of a vector encodes the row and the second half the column. ``width`` is a multiple of 4. The dtype
    and the device are those of ``like``.

    >>> sinusoidal_grid(2, 2, 4, like=torch.zeros(1))[1]
    tensor([0.0000, 1.0000, 0.8415, 0.5403])
    """
    half = width // 2
    options = {"dtype": like.dtype, "device": like.device}
    by_row = sinusoidal(rows, half, **options)[:, None].expand(-1, columns, -1)  # (rows,columns,m/2)
    by_column = sinusoidal(columns, half, **options)[None].expand(rows, -1, -1)  # (rows,columns,m/2)
    return torch.cat([by_row, by_column], dim=-1).flatten(0, 1)


def check_images(images: Tensor, config: ImageModelConfig) -> None:
    """Raise an error unless ``images`` is a tensor of floats ``(b,c,height,width)`` of the model's size.

    >>> from regard.models import VisionTransformerConfig
    >>> check_images(torch.zeros(2, 28, 28), VisionTransformerConfig(classes=10))
    Traceback (most recent call last):
        ...
    regard.errors.ShapeError: images: expected (b,1,28,28), got (2,28,28): use images[:, None] to add the channel
    """
    if not isinstance(images, Tensor):
        raise DtypeError("images", f"expected a torch.Tensor, got {type(images).__name__}")
    if not images.is_floating_point():
        raise DtypeError("images", f"expected floats, got {images.dtype}", "use images.float() / 255")
    expected = (config.channels, *config.size)
    if images.ndim == 4 and tuple(images.shape[1:]) == expected:
        return
    fix = ""
    if tuple(images.shape) == expected:
        fix = "use images[None] for one image"
    elif config.channels == 1 and images.ndim == 3 and tuple(images.shape[1:]) == config.size:
        fix = "use images[:, None] to add the channel"
    elif images.ndim == 4 and tuple(images.shape[1:]) == (*config.size, config.channels):
        fix = "use images.permute(0, 3, 1, 2), because channels come first"
    wanted = f"(b,{','.join(map(str, expected))})"
    raise ShapeError("images", f"expected {wanted}, got {axes(images.shape)}", fix)
