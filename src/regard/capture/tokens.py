"""The words behind the rows and columns of a map: from a tokenizer, from the inputs, or by hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.errors import ArgumentError, DtypeError

if TYPE_CHECKING:
    from regard.capture.stitching import Beams
    from regard.capture.strands import Ids, Piece

__all__ = [
    "Labels",
    "Speller",
    "as_labels",
    "as_numbers",
    "as_speller",
    "fitting",
    "ids_in",
    "key_ids",
    "query_ids",
    "spelled",
    "without_words",
]

Speller = Callable[[list[int]], list[str]]
Labels = list[list[str]]

_NOT_TOKENS = re.compile(r"mask|position|type|label|segment|length|cache|size|index|bbox", re.IGNORECASE)
_NOT_WORDS = ("pixel_values", "input_features", "input_values")
_TARGET = re.compile(r"decoder|tgt|target", re.IGNORECASE)


def as_speller(tokenizer: object) -> Speller:
    """How ids become words: with a tokenizer of Hugging Face or of Regard, with a callable, or as numbers.

    >>> as_speller(None)([7, 11])
    ['7', '11']
    """
    if tokenizer is None:
        return as_numbers
    for method in ("convert_ids_to_tokens", "pieces"):
        if hasattr(tokenizer, method):
            spell = getattr(tokenizer, method)
            return lambda ids: [str(word) for word in spell(ids)]
    if hasattr(tokenizer, "id_to_token"):
        return lambda ids: [str(tokenizer.id_to_token(n)) for n in ids]  # type: ignore[attr-defined]
    if callable(tokenizer):
        return lambda ids: [str(word) for word in tokenizer(ids)]  # type: ignore[operator]
    raise DtypeError(
        "tokenizer",
        f"expected a tokenizer or a callable, got {type(tokenizer).__name__}",
        "it must have convert_ids_to_tokens, pieces or id_to_token, or map a list of ids to a list of words",
    )


def as_numbers(ids: list[int]) -> list[str]:
    """Ids as they are, where nobody knows their words."""
    return [str(n) for n in ids]


def ids_in(where: str, arguments: Mapping[str, Any]) -> list[Ids]:
    """The token ids among what a module was given: integers, ``(b,n)``."""
    from regard.capture.strands import Ids

    return [
        Ids(f"{where}.{name}", value.detach().cpu().clone())
        for name, value in arguments.items()
        if isinstance(value, Tensor)
        and value.dtype in (torch.int64, torch.int32)
        and value.ndim == 2
        and not _NOT_TOKENS.search(name)
    ]


def without_words(arguments: Mapping[str, Any]) -> bool:
    """Whether a module was given a picture or a sound."""
    return any(
        isinstance(value, Tensor) and (name in _NOT_WORDS or (value.ndim == 4 and value.is_floating_point()))
        for name, value in arguments.items()
        if not _NOT_TOKENS.search(name)
    )


def query_ids(run: list[Piece], decoder: bool, beams: Beams | None = None) -> Tensor | None:
    """The ids of the queries of a run, ``(b,q)``; None where they are unknown."""
    parts = []
    for n, piece in enumerate(run):
        part = _choose(piece.inputs, piece.grid.b, piece.grid.q, decoder)
        if part is None:
            return None
        parts.append(part if beams is None else part[beams.rows(n)])
    return torch.cat(parts, dim=1)


def key_ids(run: list[Piece], seen: list[Ids], beams: Beams | None = None) -> Tensor | None:
    """The ids of the keys of a cross attention, ``(b,k)``: those of the encoder, whose call may be long over."""
    piece = run[-1]
    known = [x for x in (*piece.inputs, *seen[::-1]) if not _TARGET.search(x.name)]
    found = _choose(known, piece.grid.b, piece.grid.k, decoder=False)
    return found if found is None or beams is None else found[beams.rows(len(run) - 1)]


def _choose(inputs: Sequence[Ids], batch: int, count: int, decoder: bool) -> Tensor | None:
    """The nearest ids of the right size; of several such, those whose name speaks of the right side."""
    fitting = [x for x in inputs if x.values.shape[1] == count and batch % max(len(x.values), 1) == 0]
    if not fitting:
        return None
    ours = [x for x in fitting if bool(_TARGET.search(x.name)) == decoder]
    values = (ours or fitting)[0].values
    return values.repeat_interleave(batch // len(values), dim=0)  # beams: each sequence several times


def spelled(ids: Tensor | None, spell: Speller) -> Labels | None:
    """Ids ``(b,n)`` as words."""
    return None if ids is None else [spell(row) for row in ids.tolist()]


def as_labels(name: str, tokens: Sequence[Any] | None) -> Labels | None:
    """Labels as a user gives them: a list of words, or one for each sequence.

    >>> as_labels("tokens", ["a", "b"])
    [['a', 'b']]
    """
    if tokens is None:
        return None
    if isinstance(tokens, str):
        raise DtypeError(
            name, f"expected a list of words, got the text {tokens!r}", "use tokens=text.split()"
        )
    rows = list(tokens)
    if all(isinstance(word, str) for word in rows):
        rows = [rows]
    labels = [[str(word) for word in row] for row in rows]
    if not labels or not all(labels):
        raise ArgumentError(name, "expected at least one word for each sequence")
    return labels


def fitting(labels: Labels | None, batch: int, count: int) -> Labels | None:
    """Labels for a batch of so many tokens, or None where they are made for other sizes."""
    if labels is None or any(len(row) != count for row in labels):
        return None
    return labels * batch if len(labels) == 1 else labels if len(labels) == batch else None
