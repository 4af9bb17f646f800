"""Checks of the texts that predictors are given."""

from __future__ import annotations

from collections.abc import Iterable

from regard.errors import DtypeError

__all__ = ["checked_texts"]


def checked_texts(texts: Iterable[str]) -> list[str]:
    """Return the texts as a list, or raise DtypeError if some are no texts."""
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
