"""Records the attention weights of any PyTorch model while it runs.

>>> import torch, regard
>>> model = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()
>>> with regard.capture(model) as seen:
...     output = model(torch.randn(3, 5, 8))
>>> seen[0].map
AttentionMap(b=3, h=2, q=5, k=5, recomputed)

This package can be called. ``regard.capture(model)`` calls :func:`regard.capture.capture`, whether the name
``regard.capture`` was imported as a package or as a function.
"""

from __future__ import annotations

import inspect
import sys
import types
from typing import Any

from regard.capture.context_manager import Capture, capture
from regard.capture.recording import Recording
from regard.capture.verification import Verified

__all__ = ["Capture", "Recording", "Verified", "capture"]


class _Callable(types.ModuleType):
    """A module that can be called as the function of the same name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Capture:
        return capture(*args, **kwargs)

    __call__.__signature__ = inspect.signature(capture)


sys.modules[__name__].__class__ = _Callable
