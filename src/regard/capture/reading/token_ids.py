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

__all__ = ["TARGET", "TokenIds", "ids_in", "may_hold_ids", "without_words"]

TARGET = re.compile(r"decoder|tgt|trg|target|(?:^|[._])dec(?:[._]|$)", re.IGNORECASE)
"""Names of modules and arguments on the side of a decoder."""
_SOURCE = re.compile(r"encoder|src|source|(?:^|_)enc(?:_|$)", re.IGNORECASE)
_NOT_TOKENS = re.compile(
    r"mask|position|type|label|segment|length|cache|size|index|bbox|speaker|(?:^|_)(?:pos|seg|lang)s?(?:_|$)",
    re.IGNORECASE,
)
_SIDE = r"(?:(?:encoder|decoder|enc|dec|src|tgt|trg|source|target)_)?"
# Names of token ids, the surest first.
_TOKEN_NAMES = [
    re.compile(f"{_SIDE}(?:{names})", re.IGNORECASE)
    for names in (
        r"input_ids?",
        r"(?:input_)?(?:tokens?|token_ids?|ids|words?|word_ids?|text|sentences?)",
        r"inputs?|idx|seq|sequences?|src|tgt|trg|source|prompts?",
    )
]
# Targets of a loss.
_OF_LOSS = ("target", "targets")
_NOT_WORDS = re.compile(r"pixel|image|img|picture|video|grid_thw|input_features|input_values", re.IGNORECASE)
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
        elif _is_mapping(type(x)):
            return True
    return False


def ids_in(where: str, arguments: Mapping[str, Any]) -> list[TokenIds]:
    """Return the token ids ``(b,n)`` among the arguments of a module, also inside dictionaries.

    Of several arguments of one shape, the name tells which holds the token ids. Where no name tells, all are returned
    as rivals of each other.
    """
    found = {
        name: value
        for name, value in _tensors(arguments)
        if value.dtype in _IDS and value.ndim == 2 and not _names_no_tokens(name)
    }
    if len(found) > 1 and not any(map(_SOURCE.search, found)):
        for name in _OF_LOSS:
            found.pop(name, None)
    plain = {name: local_tensor(value.detach()) for name, value in found.items()}
    by_name = {name: x.cpu().clone() for name, x in plain.items() if x is not None}
    return [
        TokenIds(f"{where}.{name}", by_name[name], tuple(names) if len(names) > 1 else ())
        for names in _groups(by_name)
        for name in names
    ]


def _groups(found: Mapping[str, Tensor]) -> list[list[str]]:
    """Return the names of token ids in groups, each with the rivals that have one shape and one side."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for name, x in found.items():
        groups.setdefault((x.shape, bool(TARGET.search(name))), []).append(name)
    return [_best_named(names, found) for names in groups.values()]


def _best_named(names: list[str], found: Mapping[str, Tensor]) -> list[str]:
    """Return the names that most surely mean token ids, or one name if all hold the same numbers."""
    if len(names) == 1:
        return names
    if all(torch.equal(found[name], found[names[0]]) for name in names[1:]):
        return names[:1]
    for pattern in _TOKEN_NAMES:
        if any(map(pattern.fullmatch, names)):
            # The source of an encoder is not the same text as other tokens.
            return [name for name in names if pattern.fullmatch(name) or _SOURCE.search(name)]
    return names


def without_words(module: nn.Module, arguments: Mapping[str, Any]) -> bool:
    """Return whether a module was given an image or a sound.

    A tensor with four axes need not be an image, since rotary angles and biases have four as well.
    """
    shapes = []
    for name, x in _tensors(arguments):
        if _names_no_tokens(name):
            continue
        if _names_no_words(name):
            return True
        if x.ndim == 4 and x.is_floating_point():
            shapes.append(x.shape)
    return any(shape[1] == _CHANNELS for shape in shapes) or (bool(shapes) and _convolves(module))


@functools.lru_cache(maxsize=1024)
def _is_mapping(kind: type) -> bool:
    """Return whether a class is a mapping, which isinstance would find out anew for every value."""
    return issubclass(kind, Mapping)


def _tensors(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    """Yield the names and values of the tensors among some arguments, also inside dictionaries."""
    for name, value in arguments.items():
        if isinstance(value, Tensor):
            yield name, value
        elif _is_mapping(type(value)):
            yield from ((str(key), x) for key, x in value.items() if isinstance(x, Tensor))


def _convolves(module: nn.Module) -> bool:
    return any(isinstance(part, nn.Conv2d) for part in module.modules())


@dataclass(frozen=True)
class TokenIds:
    """Token ids that a module was given."""

    # The names of the module and of the argument, joined by a dot.
    name: str
    values: Tensor  # (b,n) on the CPU
    # The names of all arguments that fit as well, this one included, or () if the name tells that these are token ids.
    rivals: tuple[str, ...] = ()
