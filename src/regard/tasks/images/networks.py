"""The networks that classify pictures, made from the settings of a run."""

from __future__ import annotations

from typing import Any

from torch import nn

from regard import models
from regard.errors import renamed
from regard.settings import part_of
from regard.tasks.images.settings import ImageSettings, stage_depths

__all__ = ["network", "network_config"]

# The names of the configs in regard.models.
_CONFIGS = {
    "vit": "VisionTransformerConfig",
    "swin": "SwinConfig",
    "cnn": "ConvolutionalClassifierConfig",
    "linear": "LinearClassifierConfig",
}
# The positions if the settings do not say which.
_POSITIONS = {"vit": "learned", "swin": "none"}


def network_config(settings: ImageSettings, size: tuple[int, int], channels: int, classes: int) -> Any:
    """Return the settings of the network for pictures of a size, or raise an error if they do not fit together."""
    shape = {"image_size": size, "channels": channels, "classes": classes}
    kind: Any = getattr(models, _CONFIGS[settings.architecture])
    values = {**part_of(settings, kind), **shape}
    if settings.architecture in _POSITIONS:
        values["positions"] = settings.positions or _POSITIONS[settings.architecture]
    if settings.architecture == "swin":
        depths = stage_depths(settings.depths)
        values["depths"] = depths
        values["heads"] = tuple(settings.heads << stage for stage in range(len(depths)))
        values["feed_forward_ratio"] = settings.feed_forward / settings.width
    with renamed(image_size="image_height"):
        return kind(**values)


def network(config: Any) -> nn.Module:
    """Return a new network with random weights."""
    return models.KINDS[config.kind][1](config)
