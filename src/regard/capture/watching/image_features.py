"""Reports of pictures that ``generate()`` of Hugging Face encodes before its first forward pass.

The forward pass is then given the result, and neither the pixels nor the sizes of the pictures.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from regard.capture.watching.patches import restore
from regard.torch_private import FunctionModesOff

__all__ = ["report_image_features"]

_NAME = "get_image_features"
Tell = Callable[[nn.Module, dict[str, Any], Any], None]


@contextmanager
def report_image_features(modules: Iterable[nn.Module], tell: Tell) -> Iterator[None]:
    """Call ``tell(module, arguments, result)`` whenever a module has encoded pictures."""
    kinds = {type(module) for module in modules if hasattr(type(module), _NAME)}
    replaced = {kind: vars(kind)[_NAME] for kind in kinds if _NAME in vars(kind)}
    on = [True]
    replacements = {kind: _reporting(encode, tell, on) for kind, encode in replaced.items()}
    for kind, replacement in replacements.items():
        setattr(kind, _NAME, replacement)
    try:
        yield
    finally:
        on.clear()
        for kind, encode in replaced.items():
            restore(kind, _NAME, replacements[kind], encode)


def _reporting(encode: Callable[..., Any], tell: Tell, on: list[bool]) -> Callable[..., Any]:
    """Wrap a method that encodes pictures. The wrapper only calls the method once ``on`` is empty."""
    names = list(inspect.signature(encode).parameters)[1:]  # without self

    @functools.wraps(encode)
    def reported(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = encode(self, *args, **kwargs)
        if on:
            with FunctionModesOff(), torch.no_grad():
                tell(self, dict(zip(names, args, strict=False)) | kwargs, result)
        return result

    return reported
