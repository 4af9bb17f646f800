"""Finds token ids among the arguments of a module."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.capture.reading.tensor_subclasses import local_tensor

__all__ = ["TokenIds", "ids_in", "may_hold_ids", "without_words"]

_SOURCE = re.compile(r"encoder|src|source", re.IGNORECASE)
_NOT_TOKENS = re.compile(r"mask|position|type|label|segment|length|cache|size|index|bbox", re.IGNORECASE)
_NOT_WORDS = re.compile(r"pixel|image|img|picture|video|input_features|input_values", re.IGNORECASE)
# The number of colours of an image.
_CHANNELS = 3
_IDS = (torch.int64, torch.int32)


@functools.lru_cache(maxsize=8192)
def _names_no_tokens(name: str) -> bool:
    return _NOT_TOKENS.search(name) is not None


@functools.lru_cache(maxsize=8192)
def _names_no_words(name: str) -> bool:
    return _NOT_WORDS.search(name) is not None


def may_hold_ids(args: tuple, kwargs: Mapping[str, Any]) -> bool:
    """Return whether there may be token ids among some arguments, before these are bound to their names."""
    for x in (*args, *kwargs.values()):  # a loop, which is faster than any() with a generator
        if isinstance(x, Tensor):
            if x.ndim == 2 and x.dtype in _IDS:
                return True
        elif not isinstance(x, _NO_MAPPING):
            return True
    return False


def ids_in(where: str, arguments: Mapping[str, Any]) -> list[TokenIds]:
    """Return the token ids ``(b,n)`` among the arguments of a module, also inside dictionaries."""
    found = {
        name: value
        for name, value in _tensors(arguments)
        if value.dtype in _IDS and value.ndim == 2 and not _names_no_tokens(name)
    }
    if not found:
        return []
    if len(found) > 1 and not any(map(_SOURCE.search, found)):
        # The targets of a loss are not an input.
        found.pop("targets", None)
    plain = {name: local_tensor(value.detach()) for name, value in found.items()}
    return [TokenIds(f"{where}.{name}", x.cpu().clone()) for name, x in plain.items() if x is not None]


def without_words(module: nn.Module, arguments: Mapping[str, Any]) -> bool:
    """Return whether a module was given an image or a sound.

    A tensor with four axes need not be an image, since rotary angles and biases have four as well.
    """
    given = [(name, x) for name, x in _tensors(arguments) if not _names_no_tokens(name)]
    if any(_names_no_words(name) for name, _ in given):
        return True
    shapes = [x.shape for _, x in given if x.ndim == 4 and x.is_floating_point()]
    return any(shape[1] == _CHANNELS for shape in shapes) or (bool(shapes) and _convolves(module))


# Frequent types that are no mappings. This check is faster than isinstance with an abstract class.
_NO_MAPPING = (type(None), int, float, str, tuple, list)


def _tensors(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    """Yield the names and values of the tensors among some arguments, also inside dictionaries."""
    for name, value in arguments.items():
        if isinstance(value, Tensor):
            yield name, value
        elif not isinstance(value, _NO_MAPPING) and isinstance(value, Mapping):
            yield from ((str(key), x) for key, x in value.items() if isinstance(x, Tensor))


def _convolves(module: nn.Module) -> bool:
    return any(isinstance(part, nn.Conv2d) for part in module.modules())


@dataclass(frozen=True)
class TokenIds:
    """Token ids that a module was given."""

    # The names of the module and of the argument, joined by a dot.
    name: str
    values: Tensor  # (b,n) on the CPU
