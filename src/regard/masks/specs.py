"""Conversion of masks to JSON values and tensors and back, for saving maps with their masks."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from torch import Tensor

from regard.errors import ArgumentError, FileError
from regard.masks.base import And, Mask, Not, Or
from regard.masks.rules import Blocks, Causal, GlobalTokens, SizedCausal, Window
from regard.masks.stored import Padding, StoredMask

__all__ = ["mask_from_spec", "mask_spec"]

# The names in files, which must not change with the names of the classes.
_KINDS: dict[str, type[Mask]] = {
    "And": And,
    "Or": Or,
    "Not": Not,
    "Causal": Causal,
    "SizedCausal": SizedCausal,
    "Window": Window,
    "GlobalTokens": GlobalTokens,
    "Blocks": Blocks,
    "Padding": Padding,
    "Stored": StoredMask,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def mask_spec(mask: Mask, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Describe a mask as JSON values from which :func:`mask_from_spec` rebuilds it.

    The tensors of the mask are added to ``tensors`` under new names, which the description refers to. A mask class that
    is not of Regard raises ArgumentError.
    """
    # A subclass is saved as its base class, which hides the same pairs.
    kind = next((kind for kind in type(mask).__mro__ if kind in _NAMES), None)
    if kind is None:
        raise ArgumentError(
            "mask",
            f"a map with a {type(mask).__name__}, a mask class of your own, cannot be saved by its parts",
            "use save(path, as_weights=True)",
        )
    spec: dict[str, Any] = {"kind": _NAMES[kind]}
    for field in fields(mask):  # type: ignore[arg-type]  # every concrete mask is a dataclass
        value = getattr(mask, field.name)
        if isinstance(value, Mask):
            value = mask_spec(value, tensors)
        elif isinstance(value, Tensor):
            name = f"mask.{len(tensors)}"
            tensors[name] = value.contiguous()
            value = {"tensor": name}
        spec[field.name] = value
    return spec


def mask_from_spec(spec: dict[str, Any], tensors: dict[str, Tensor]) -> Mask:
    """Rebuild a mask from the description and the tensors of :func:`mask_spec`."""
    kind = _KINDS.get(spec.get("kind", ""))
    if kind is None:
        raise FileError(f"unknown kind {spec.get('kind')!r}", argument="mask")
    values = {}
    for field in fields(kind):  # type: ignore[arg-type]
        value = spec[field.name]
        if isinstance(value, dict):
            value = tensors[value["tensor"]] if "tensor" in value else mask_from_spec(value, tensors)
        values[field.name] = tuple(value) if isinstance(value, list) else value
    return kind(**values)
