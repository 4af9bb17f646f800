"""Whether the settings of a model fit the tensors of its file, seen before a model of that size is built."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod

from regard.errors import FileError
from regard.models.config import ModelConfig, Seq2SeqConfig, TransformerConfig

__all__ = ["check_sizes"]

Shapes = Mapping[str, tuple[int, ...]]
MOST_POSITIONS = 2**20  # rows of a table that is computed, not read from the file

# Where a setting can be read off a tensor: its name, and the axis.
_PLACES: dict[str, list[tuple[str, int]]] = {
    "source_size": [("source_embedding.weight", 0)],
    "target_size": [("target_embedding.weight", 0)],
    "width": [("source_embedding.weight", 1), ("target_embedding.weight", 1)],
    "feed_forward": [
        ("encoder.layers.0.feed_forward.narrow.weight", 1),
        ("decoder.layers.0.feed_forward.narrow.weight", 1),
    ],
    "max_length": [("positions.pos_embedding.weight", 0)],
}
_LAYER = {
    "encoder_layers": re.compile(r"encoder\.(?:layers\.|rnn\.weight_ih_l)(\d+)(?![\d_])"),
    "decoder_layers": re.compile(r"decoder\.(?:layers\.|weight_ih_l)(\d+)(?![\d_])"),
}


def check_sizes(config: ModelConfig, shapes: Shapes, where: str) -> None:
    """Refuse settings that ask for more, or less, than a file of weights holds.

    The sizes and numbers of layers are compared one by one, so that an error names the setting. The sum of all
    weights bounds the rest: whatever else the settings say, no model much larger than its file is built.
    """
    for name, places in _PLACES.items():
        for tensor, axis in places:
            shape = shapes.get(tensor, ())
            if len(shape) > axis and shape[axis] != getattr(config, name, shape[axis]):
                told = f"{name} is {getattr(config, name)}, but {tensor} in the file of weights is {shape}"
                raise FileError(f"{where}: {told}")
    for name, layer in _LAYER.items():
        count = len({found.group(1) for found in map(layer.match, shapes) if found})
        if getattr(config, name) != count:
            told = f"{name} is {getattr(config, name)}, but the file of weights has {count}"
            raise FileError(f"{where}: {told}")
    least, held = _least_numbers(config), sum(prod(shape) for shape in shapes.values())
    if least > held:
        told = f"the settings ask for {least:,} numbers or more, the file of weights has {held:,}"
        raise FileError(f"{where}: {told}")
    rows = (
        config.max_length if isinstance(config, TransformerConfig) and config.positions == "sinusoidal" else 0
    )
    if rows > MOST_POSITIONS:
        raise FileError(f"{where}: max_length is {rows}, expected {MOST_POSITIONS} or less")


def _least_numbers(config: ModelConfig) -> int:
    """How many numbers a model has, biases and smaller parts left out."""
    width, tables = config.width, max(config.source_size, config.target_size) * config.width
    if isinstance(config, TransformerConfig):
        layers = config.encoder_layers + config.decoder_layers
        tables = (config.target_size if config.decoder_layers else config.source_size) * width
        return tables + layers * 2 * width * (width + config.feed_forward)
    if isinstance(config, Seq2SeqConfig):
        return tables + 3 * width * width
    return tables
