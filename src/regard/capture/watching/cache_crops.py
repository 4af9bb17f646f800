"""Reports of caches that ``generate()`` of Hugging Face crops to the draft tokens that the model accepts."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from regard.capture.watching.patches import restore

__all__ = ["report_cache_crops"]

_CACHES = "transformers.cache_utils"


@contextmanager
def report_cache_crops(tell: Callable[[Any, int], None]) -> Iterator[None]:
    """Call ``tell(cache, removed tokens)`` whenever ``generate()`` crops a cache."""
    caches = sys.modules.get(_CACHES)
    kinds = [] if caches is None else [caches.Cache, *_subclasses(caches.Cache)]
    replaced = {kind: vars(kind)["crop"] for kind in kinds if "crop" in vars(kind)}
    on = [True]
    replacements = {kind: _reporting(crop, tell, on) for kind, crop in replaced.items()}
    for kind, replacement in replacements.items():
        kind.crop = replacement
    try:
        yield
    finally:
        on.clear()
        for kind, crop in replaced.items():
            restore(kind, "crop", replacements[kind], crop)


def _subclasses(kind: type) -> Iterator[type]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)


def _reporting(
    crop: Callable[..., Any], tell: Callable[[Any, int], None], on: list[bool]
) -> Callable[..., Any]:
    """Wrap a method that crops a cache. The wrapper only calls the method once ``on`` is empty."""

    @functools.wraps(crop)
    def reported(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not on:
            return crop(self, *args, **kwargs)
        caller = sys._getframe(1).f_globals.get("__name__", "")
        before = self.get_seq_length()
        result = crop(self, *args, **kwargs)
        # A user who crops a cache goes on with other tokens, and the records of both stay.
        if caller.startswith("transformers.generation"):
            tell(self, int(before) - int(self.get_seq_length()))
        return result

    return reported
