"""The comparison of a model's settings with the tensors of its file, before any memory is allocated for the model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from regard.errors import FileError
from regard.models.config import BlockConfig, ModelConfig
from regard.models.vision_config import SwinConfig

__all__ = ["Shapes", "check_settings", "check_shapes", "without_memory"]

Shapes = Mapping[str, tuple[int, ...]]
# The largest number of elements of a table of sinusoidal positions, which is computed and not read from the file.
MOST_POSITION_NUMBERS = 2**27

# The tensors, with an axis of each, that have the size of a setting.
_PLACES: dict[str, list[tuple[str, int]]] = {
    "source_size": [("encoder.embedding.tokens.weight", 0), ("source_embedding.weight", 0)],
    "target_size": [("decoder.embedding.tokens.weight", 0), ("target_embedding.weight", 0)],
    "vocabulary_size": [
        ("embedding.tokens.weight", 0),
        ("encoder.embedding.tokens.weight", 0),
        ("decoder.embedding.tokens.weight", 0),
    ],
    "width": [
        ("embedding.tokens.weight", 1),
        ("encoder.embedding.tokens.weight", 1),
        ("decoder.embedding.tokens.weight", 1),
        ("source_embedding.weight", 1),
        ("target_embedding.weight", 1),
    ],
    "max_length": [
        ("embedding.positions.pos_embedding.weight", 0),
        ("encoder.embedding.positions.pos_embedding.weight", 0),
        ("decoder.embedding.positions.pos_embedding.weight", 0),
    ],
    "feed_forward": [
        ("layers.0.feed_forward.narrow.weight", 1),
        ("encoder.layers.0.feed_forward.narrow.weight", 1),
        ("decoder.layers.0.feed_forward.narrow.weight", 1),
    ],
    "classes": [("output.linear.weight", 0)],
    "token_types": [("embedding.types.weight", 0), ("encoder.embedding.types.weight", 0)],
}
# The names of tensors in layer number (\d+), for each setting that counts layers.
_LAYERS = {
    "layers": re.compile(r"(?:encoder\.|decoder\.)?layers\.(\d+)\."),
    "encoder_layers": re.compile(r"encoder\.(?:layers\.|rnn\.weight_ih_l)(\d+)(?![\d_])"),
    "decoder_layers": re.compile(r"decoder\.(?:layers\.|weight_ih_l)(\d+)(?![\d_])"),
}
# The names of tensors in a block of a stage.
_STAGE = re.compile(r"stages\.(\d+)\.layers\.(\d+)\.")


def check_settings(config: ModelConfig, shapes: Shapes, where: str) -> None:
    """Raise FileError if a size or a number of layers in the settings is not that of the file of weights.

    ``shapes`` are those of the file of weights, and ``where`` is the path of the settings, for the error. A tensor that
    is missing from the file is left to :func:`check_shapes`.
    """
    for setting, places in _PLACES.items():
        value = getattr(config, setting, None)
        for name, axis in places:
            shape = shapes.get(name, ())
            if value is not None and len(shape) > axis and shape[axis] != value:
                problem = f"{setting} is {value}, but {name} in the file of weights is {shape}"
                raise FileError(f"{where}: {problem}")
    for setting, pattern in _LAYERS.items():
        expected = getattr(config, setting, None)
        count = len({match.group(1) for match in map(pattern.match, shapes) if match})
        if expected is not None and expected != count:
            raise FileError(f"{where}: {setting} is {expected}, but the file of weights has {count}")
    if isinstance(config, SwinConfig):
        numbers = Counter(
            stage for stage, _ in {match.groups() for match in map(_STAGE.match, shapes) if match}
        )
        counts = tuple(numbers[str(stage)] for stage in range(len(numbers)))
        if counts != config.depths:
            raise FileError(f"{where}: depths is {config.depths}, but the file of weights has {counts}")


def check_shapes(config: ModelConfig, expected: Shapes, shapes: Shapes, settings: str, weights: str) -> None:
    """Raise FileError unless the tensors of a file have exactly the names and shapes of a model's tensors.

    ``expected`` are the shapes of the model, and ``shapes`` those of the file. The size of a computed table of
    positions, which is not in the file, is limited. ``settings`` and ``weights`` are the paths of the two files, for
    the error.
    """
    for name, shape in expected.items():
        if name not in shapes:
            raise FileError(f"{weights}: {name} is missing: the file belongs to another model")
        if shapes[name] != shape:
            raise FileError(f"{weights}: {name} is {shapes[name]}, the settings say {shape}")
    unknown = sorted(shapes.keys() - expected.keys())
    if unknown:
        raise FileError(
            f"{weights}: {unknown[0]} is not a part of this model: the file belongs to another one"
        )
    if isinstance(config, BlockConfig) and config.positions == "sinusoidal":
        most = max(1, MOST_POSITION_NUMBERS // config.width)
        if config.max_length > most:
            raise FileError(f"{settings}: max_length is {config.max_length}, expected {most} or less")


@contextmanager
def without_memory(where: str) -> Iterator[None]:
    """Return a context manager that builds modules on the meta device, whose tensors have shapes and take no memory.

    Initial values are not drawn, because drawing them on the meta device would load torch's compiler. Sizes
    beyond 64 bits raise FileError, which names the file of the settings, ``where``.
    """
    try:
        with torch.device("meta"), _NoInitialValues():
            yield
    except (RuntimeError, OverflowError) as error:
        raise FileError(f"{where}: the settings ask for tensors that no machine can hold ({error})") from None


class _NoInitialValues(TorchFunctionMode):
    """A mode in which the functions of ``torch.nn.init`` return their tensor unchanged."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == nn.init.__name__:
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)
