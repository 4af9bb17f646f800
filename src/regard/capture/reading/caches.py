"""The cache of Hugging Face among the arguments of a module."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from regard.capture.reading.running_modules import RunningModule

__all__ = ["cache_given"]

_CACHES = "transformers.cache_utils"


def cache_given(frames: Iterable[RunningModule]) -> Any:
    """The cache of Hugging Face among the arguments of some modules, or None."""
    caches = sys.modules.get(_CACHES)
    if caches is None:
        return None
    given = (x for f in frames for x in (*f.kwargs.values(), *f.args))
    return next((x for x in given if isinstance(x, caches.Cache)), None)
