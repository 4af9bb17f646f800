"""The arguments of ``Translator.translate``, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from regard.decoding import DecodingOptions
from regard.errors import DtypeError, UnknownArgumentError, did_you_mean

__all__ = ["checked_texts", "options_with"]


def checked_texts(texts: Iterable[str]) -> list[str]:
    """Return the texts as a list, or raise if some are no texts."""
    if isinstance(texts, str):
        raise DtypeError("texts", "expected a list of texts, got one string", "put it in a list")
    if not isinstance(texts, Iterable):
        raise DtypeError("texts", f"expected a list of texts, got {texts!r}", "put them in a list")
    texts = list(texts)
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            told = f"expected texts, got {text!r} at place {place}"
            raise DtypeError("texts", told, "leave it out, or give an empty text")
    return texts


def options_with(options: DecodingOptions | None, settings: dict[str, Any]) -> DecodingOptions:
    """Return the options with some settings replaced.

    Without options there are 5 beams, or as many as translations are asked for.

    >>> options_with(None, {"n_best": 7}).beams, options_with(DecodingOptions(beams=3), {"n_best": 2}).beams
    (7, 3)
    """
    known = [field.name for field in dataclasses.fields(DecodingOptions)]
    for name in settings:
        if name not in known:
            fix = f"{did_you_mean(name, known)}known are {', '.join(known)}"
            raise UnknownArgumentError(name, "not a setting of translate()", fix)
    if options is not None:
        return dataclasses.replace(options, **settings)
    wanted = settings.get("n_best", 1)
    return DecodingOptions(**{"beams": max(5, wanted) if isinstance(wanted, int) else 5, **settings})
