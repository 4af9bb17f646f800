"""The modules of a model that are worth watching, and their names."""

from __future__ import annotations

import dis
import functools
from enum import Enum
from types import CodeType

from torch import nn

from regard.torch_private import parts_of

__all__ = ["is_simple", "may_attend", "named_modules", "parts_called_by"]

# Ends of the names of classes in Hugging Face models. Wav2Vec2EncoderStableLayerNorm is no norm, but it has parts.
_FEED_FORWARD = ("Intermediate", "MLP", "Output")
_NORMS = ("LayerNorm", "RMSNorm")
_SIMPLE = {nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.Embedding, nn.Dropout}
_SIMPLE |= {nn.GELU, nn.ReLU, nn.SiLU, nn.Sigmoid, nn.Tanh, nn.Identity}

# Instructions of Python that read or write names outside of a function.
_OUTSIDE = {"LOAD_GLOBAL", "LOAD_NAME", "IMPORT_NAME", "STORE_GLOBAL", "STORE_ATTR"}


class _Duty(Enum):
    """The duty of a module, known from its class."""

    SIMPLE = 0  # a layer, a norm, an activation or dropout, unless it has parts
    FEED_FORWARD = 1  # a feed-forward part of a Hugging Face model
    ATTENTION = 2  # an attention of torch, or a convolution that may cut an image into patches
    CONTAINER = 3  # another class of torch
    OWN = 4  # a class of the model's author


@functools.lru_cache(maxsize=8192)
def _duty_of_class(kind: type[nn.Module]) -> _Duty:
    home, name = kind.__module__, kind.__name__
    in_transformers = home.startswith("transformers.models.")
    if kind in _SIMPLE or home == "transformers.activations":
        return _Duty.SIMPLE
    if home == "transformers.pytorch_utils" and name == "Conv1D":
        return _Duty.SIMPLE
    if in_transformers and name.endswith(_NORMS):
        return _Duty.SIMPLE
    if in_transformers and name.endswith(_FEED_FORWARD):
        return _Duty.FEED_FORWARD
    if issubclass(kind, nn.Conv2d | nn.MultiheadAttention):
        return _Duty.ATTENTION
    return _Duty.CONTAINER if home.startswith("torch.nn.modules") else _Duty.OWN


def is_simple(module: nn.Module) -> bool:
    """Whether a module is known to do nothing but a layer, a norm, an activation or dropout.

    >>> is_simple(nn.Linear(2, 3)), is_simple(nn.MultiheadAttention(4, 2))
    (True, False)
    """
    return not parts_of(module) and _duty_of_class(type(module)) is _Duty.SIMPLE


@functools.lru_cache(maxsize=8192)
def parts_called_by(kind: type[nn.Module]) -> tuple[str, ...] | None:
    """The parts that the ``forward`` of a class calls, if it only calls parts and adds or multiplies their results.

    None for any other ``forward``. This is read from its code, in which no other names, matrix products or indices may
    occur.

    >>> class Gated(nn.Module):
    ...     def forward(self, x):
    ...         return x + self.gate(x) * self.up(x)
    >>> parts_called_by(Gated), parts_called_by(nn.MultiheadAttention)
    (('gate', 'up'), None)
    """
    code, defaults = getattr(kind.forward, "__code__", None), getattr(kind.forward, "__defaults__", None)
    if code is None or defaults or kind.forward.__kwdefaults__ or code.co_freevars:
        return None
    if any(isinstance(constant, CodeType) for constant in code.co_consts):
        return None
    for step in dis.get_instructions(code):
        if step.opname in _OUTSIDE or "SUBSCR" in step.opname or "SLICE" in step.opname:
            return None
        if step.opname == "BINARY_OP" and step.argrepr.rstrip("=") not in ("+", "-", "*", "/"):
            return None
    return code.co_names


def may_attend(module: nn.Module) -> bool:
    """Whether a module is worth watching.

    A layer of torch that has no others inside is not, and neither is a feed-forward part of a Hugging Face model.
    Operations of a module that is not watched count as those of the module around it.
    """
    duty = _duty_of_class(type(module))
    if duty is _Duty.SIMPLE or duty is _Duty.CONTAINER:
        return bool(parts_of(module))
    return duty is not _Duty.FEED_FORWARD


def named_modules(model: nn.Module) -> dict[nn.Module, str]:
    """The modules of a model and their names. The name of the model itself is that of its class."""
    names = {model: type(model).__name__}
    _add_parts(model, "", names)
    return names


def _add_parts(module: nn.Module, prefix: str, names: dict[nn.Module, str]) -> None:
    """Add the modules inside another, in the order of ``named_modules()`` of torch, which is slower."""
    for name, part in parts_of(module).items():
        if part is not None and part not in names:
            names[part] = prefix + name
            if parts_of(part):
                _add_parts(part, f"{prefix}{name}.", names)
