"""Conversion of masks to JSON values and tensors and back, for saving maps with their masks."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from torch import Tensor

from regard.errors import FileError
from regard.masks.base import And, Mask, Not, Or
from regard.masks.rules import Blocks, Causal, GlobalTokens, SizedCausal, Window
from regard.masks.stored import Padding, Stored

__all__ = ["mask_from_spec", "mask_spec"]

_KINDS: dict[str, type[Mask]] = {
    kind.__name__: kind
    for kind in (And, Or, Not, Causal, SizedCausal, Window, GlobalTokens, Blocks, Padding, Stored)
}


def mask_spec(mask: Mask, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Describe a mask as JSON values from which :func:`mask_from_spec` rebuilds it.

    The tensors of the mask are added to ``tensors`` under new names, which the description refers to.
    """
    spec: dict[str, Any] = {"kind": type(mask).__name__}
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
        raise FileError(f"mask: unknown kind {spec.get('kind')!r}")
    values = {}
    for field in fields(kind):  # type: ignore[arg-type]
        value = spec[field.name]
        if isinstance(value, dict):
            value = tensors[value["tensor"]] if "tensor" in value else mask_from_spec(value, tensors)
        values[field.name] = tuple(value) if isinstance(value, list) else value
    return kind(**values)
