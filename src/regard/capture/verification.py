"""Comparison of the outputs of a model with and without a capture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from regard.errors import CaptureError
from regard.maps.records import Record
from regard.maps.unrecorded import Unrecorded

__all__ = ["Repeatable", "Verified", "verify"]

# The number of rows of each map whose sum is checked.
_ROWS = 16


class Repeatable(Protocol):
    """A capture of a model that can be entered again."""

    model: nn.Module

    def __enter__(self) -> Sequence[Record]: ...
    def __exit__(self, kind: Any, error: Any, trace: Any, /) -> None: ...


class Verified(NamedTuple):
    """The result of a comparison of a plain run and a captured run."""

    # The number of compared tensors, and the largest absolute difference between them.
    outputs: int
    difference: float
    bit_equal: bool
    # The number of maps, and the largest distance of the sum of a row from 1, or from 0 for a fully masked row.
    maps: int
    row_error: float


def verify(capture: Repeatable, args: tuple, kwargs: dict[str, Any]) -> Verified:
    """Run the model plain and captured, from the same random state, and compare."""
    model = capture.model
    with _same_start(model):
        plain = list(_tensors(model(*args, **kwargs)))
    with _same_start(model), capture as seen:
        watched = list(_tensors(model(*args, **kwargs)))
    if [x.shape for x in plain] != [x.shape for x in watched]:
        raise CaptureError("the captured run gave outputs of other shapes than the plain one")
    if not plain:
        raise CaptureError("the model returned no tensor, so there is nothing to compare")
    differences = [_difference(x, y) for x, y in zip(plain, watched, strict=True)]
    equal = all(_same_bits(x, y) for x, y in zip(plain, watched, strict=True))
    whole = [record for record in seen if not isinstance(record.map._source, Unrecorded)]
    maps = [record.map for record in whole]
    # Weights that a model changed after its softmax need not sum to 1.
    row_error = max((_row_error(record.map) for record in whole if record.note is None), default=0.0)
    return Verified(len(plain), max(differences, default=0.0), equal, len(maps), row_error)


@contextmanager
def _same_start(model: nn.Module) -> Iterator[None]:
    """Restore the random state and the buffers of the model at the end of the block."""
    buffers = [(x, x.detach().clone()) for x in model.buffers()]
    with torch.random.fork_rng():
        yield
    with torch.no_grad():
        for live, before in buffers:
            if live.shape == before.shape:
                live.copy_(before)


def _tensors(value: object) -> Iterator[Tensor]:
    """Yield all tensors in the output of a model, in order."""
    if isinstance(value, Tensor):
        yield value.detach()
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _tensors(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)
    elif is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            yield from _tensors(getattr(value, each.name))


def _difference(one: Tensor, other: Tensor) -> float:
    if not one.numel():
        return 0.0
    gap = (one.double() - other.double()).abs() if not one.is_complex() else (one - other).abs()
    gap = gap.masked_fill(one.isnan() != other.isnan(), float("inf"))
    return float(gap.masked_fill(_alike(one, other), 0.0).max())


def _alike(one: Tensor, other: Tensor) -> Tensor:
    return (one == other) | (one.isnan() & other.isnan())


def _same_bits(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and bool(_alike(one, other).all())


def _row_error(found: Any) -> float:
    rows = sorted({int(n) for n in torch.linspace(0, found.shape[2] - 1, min(_ROWS, found.shape[2]))})
    if not rows:
        return 0.0
    sums = found.rows(rows).sum(dim=-1)
    return float(torch.minimum((sums - 1).abs(), sums.abs()).max()) if sums.numel() else 0.0
