"""Labels for the rows and columns of a map, spelled from token ids or given by the user."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch import Tensor

from regard._tokens import byte_texts
from regard.errors import ArgumentError, DtypeError
from regard.shapes import check_dense

__all__ = [
    "Labels",
    "Speller",
    "as_batch_labels",
    "as_speller",
    "fitting",
    "ids_as_text",
    "spelled",
]

Speller = Callable[[list[int]], list[str]]
Labels = list[list[str]]


def as_speller(tokenizer: object) -> Speller:
    """Return a function from token ids to words, made from a tokenizer, a processor with a tokenizer, or a callable.

    Without a tokenizer, the words are the ids as text.

    >>> as_speller(None)([7, 11])
    ['7', '11']
    """
    if tokenizer is None:
        return ids_as_text
    # The processor of a vision-language model is callable as well.
    held = getattr(tokenizer, "tokenizer", None)
    if any(hasattr(held, method) for method in ("convert_ids_to_tokens", "pieces", "id_to_token")):
        tokenizer = held
    for method in ("convert_ids_to_tokens", "pieces"):
        if hasattr(tokenizer, method):
            spell = getattr(tokenizer, method)
            read = byte_texts if _spells_bytes(tokenizer) else list
            return lambda ids: read([str(word) for word in spell(ids)])
    if hasattr(tokenizer, "id_to_token"):
        read = byte_texts if _spells_bytes(tokenizer) else list
        return lambda ids: read([str(tokenizer.id_to_token(n)) for n in ids])  # type: ignore[attr-defined]
    if callable(tokenizer):
        return lambda ids: [str(word) for word in tokenizer(ids)]  # type: ignore[operator]
    raise DtypeError(
        "tokenizer",
        f"expected a tokenizer or a callable, got {type(tokenizer).__name__}",
        "it must have convert_ids_to_tokens, pieces or id_to_token, or map a list of ids to a list of words",
    )


def _spells_bytes(tokenizer: Any) -> bool:
    """Return whether a tokenizer writes each byte as a letter, as those of GPT-2, Llama 3 and Qwen do."""
    join = getattr(tokenizer, "convert_tokens_to_string", None)
    join = join or getattr(getattr(tokenizer, "decoder", None), "decode", None)
    try:
        return join is not None and join(["\u00e4\u00bd\u0142"]) == "\u4f60"
    # A tokenizer of another kind may raise any error for an unknown piece.
    except Exception:
        return False


def ids_as_text(ids: list[int]) -> list[str]:
    """Return token ids as text, for models without a tokenizer."""
    return [str(n) for n in ids]


def spelled(ids: Tensor | None, spell: Speller) -> Labels | None:
    """Return the words of token ids ``(b,n)``, or None without ids."""
    return None if ids is None else [spell(row) for row in ids.tolist()]


def as_batch_labels(name: str, tokens: Sequence[Any] | None) -> Labels | None:
    """Read the labels that a user gives, as a list of words or numbers or one list for each sequence.

    >>> import torch
    >>> as_batch_labels("tokens", ["a", "b"]), as_batch_labels("tokens", torch.tensor([[7, 11], [13, 17]]))
    ([['a', 'b']], [['7', '11'], ['13', '17']])
    """
    if tokens is None:
        return None
    if isinstance(tokens, str):
        raise DtypeError(
            name, f"expected a list of words, got the text {tokens!r}", f"use {name}=text.split()"
        )
    rows = _listed(name, tokens)
    if not any(isinstance(row, Iterable) and not isinstance(row, str) for row in rows):
        rows = [rows]
    labels = [[_label(name, word) for word in _listed(name, row)] for row in rows]
    if not labels or not all(labels):
        raise ArgumentError(name, "expected at least one word for each sequence")
    return labels


def _listed(name: str, values: Any) -> list[Any]:
    """Convert a list, a tensor or an array to a list, or raise an error for other values."""
    if isinstance(values, Tensor):
        check_dense(name, values)
        if values.is_meta:
            raise DtypeError(name, "on meta, which holds no numbers", "use a list of words")
    plain = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(plain, str) or not isinstance(plain, Iterable):
        raise DtypeError(name, f"expected a list of words, got {plain!r}", "use [...]")
    return [value.tolist() if hasattr(value, "tolist") else value for value in plain]


def _label(name: str, word: Any) -> str:
    if not isinstance(word, str | int | float):
        raise DtypeError(name, f"expected words or numbers, got {word!r}", "use str(...) or ''")
    return str(word)


def fitting(labels: Labels | None, batch: int, count: int) -> Labels | None:
    """Return the labels for ``batch`` sequences of ``count`` tokens, or None if the labels have other sizes."""
    if labels is None or any(len(row) != count for row in labels):
        return None
    return labels * batch if len(labels) == 1 else labels if len(labels) == batch else None
