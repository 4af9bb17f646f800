"""The cache of Hugging Face among the arguments of a module."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from regard.capture.reading.running_modules import RunningModule

__all__ = ["cache_given"]

_CACHES = "transformers.cache_utils"


def cache_given(modules: Iterable[RunningModule]) -> Any:
    """The cache of Hugging Face among the arguments of some modules, or None."""
    caches = sys.modules.get(_CACHES)
    if caches is None:
        return None
    for running in modules:  # loops, since a generator takes twice as long
        for x in (*running.kwargs.values(), *running.args):
            if isinstance(x, caches.Cache):
                return x
    return None
