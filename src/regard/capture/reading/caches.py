"""Finds the Hugging Face cache among the arguments of modules."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from regard.capture.reading.running_modules import RunningModule

__all__ = ["cache_given"]

_CACHES = "transformers.cache_utils"


def cache_given(modules: Iterable[RunningModule]) -> Any:
    """Return the Hugging Face cache among the arguments of some modules, or None if there is none."""
    caches = sys.modules.get(_CACHES)
    if caches is None:
        return None
    # This runs in every call, so it is written without a generator.
    for running in modules:
        for x in (*running.kwargs.values(), *running.args):
            if isinstance(x, caches.Cache):
                return x
    return None
