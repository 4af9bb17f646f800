"""Joining of word pieces to words, by the markers in the tokens themselves."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from regard._tokens import SPECIAL, token_texts
from regard.analysis.words import HAN, merge_tokens
from regard.checks import whole_number
from regard.errors import ArgumentError
from regard.maps import AttentionMap, Record

__all__ = ["as_words", "join_pieces"]

# WordPiece (BERT) marks a piece that continues a word.
_CONTINUES = "##"
# The replacement character, for the bytes of an incomplete character.
_PART = "\ufffd"


def join_pieces(tokens: list[str]) -> tuple[list[str], list[int]]:
    """Join word pieces to words, and return the words and the word index of each token.

    The markers of WordPiece (``##ing``), SentencePiece (``▁sat``) and byte-level BPE (``Ġsat``) are recognised. If no
    token has a marker, every token is a word. Punctuation marks, special tokens and the label ``[sink]`` are words of
    their own. Chinese has no spaces, so each piece of Han characters is a word.

    >>> join_pieces(["[CLS]", "un", "##believ", "##able", "!", "[SEP]"])
    (['[CLS]', 'unbelievable', '!', '[SEP]'], [0, 1, 1, 1, 2, 3])
    >>> join_pieces(["The", "Ġmat", "ador", "."])
    (['The', 'matador', '.'], [0, 1, 1, 2])
    >>> join_pieces(["▁我", "爱", "你们"])
    (['我', '爱', '你们'], [0, 1, 2])
    """
    texts = token_texts(tokens)
    mark = _mark_of(texts)
    begins = _beginnings(texts, mark)
    places = [place for place, new in enumerate(begins) if new]
    words = [_joined(texts[a:b], mark) for a, b in pairwise([*places, len(texts)])]
    return words, [int(n) - 1 for n in np.cumsum(begins)]


def _mark_of(texts: list[str]) -> str:
    """Return what marks the pieces of a sequence, a space before a word or "##" within it, or "" for nothing."""
    # Where spaces are marked, "##" is ordinary text such as a Markdown heading.
    if any(text.startswith(" ") for text in texts):
        return " "
    return _CONTINUES if any(text.startswith(_CONTINUES) and text != _CONTINUES for text in texts) else ""


def _beginnings(tokens: list[str], mark: str) -> list[bool]:
    """Return for each token whether it begins a word."""
    if not mark:
        return [True] * len(tokens)
    if mark == " ":
        marked = _after_spaces(tokens)
    else:
        marked = [place == 0 or not token.startswith(_CONTINUES) for place, token in enumerate(tokens)]
    bare = [_without_marker(token, mark) for token in tokens]
    return [
        new or _is_han_boundary(before, piece)
        for new, before, piece in zip(marked, ["", *bare[:-1]], bare, strict=True)
    ]


def _after_spaces(tokens: list[str]) -> list[bool]:
    """Return for each token whether it begins a word, for tokens with their spaces.

    A word begins after a space, and before and after a special token or punctuation mark.
    """
    begins, after_separate = [], True
    for token in tokens:
        bare = _without_marker(token, " ")
        separate = bool(SPECIAL.fullmatch(token)) or not any(c.isalnum() or c == _PART for c in bare)
        begins.append(after_separate or separate or token.startswith(" "))
        # A single space belongs to the word after it.
        after_separate = separate and bare != ""
    return begins


def _is_han_boundary(before: str, piece: str) -> bool:
    """Return whether a word ends between two adjacent pieces because one of the characters there is Chinese."""
    # A single space belongs to the next word, and an incomplete character is completed by the next piece.
    if not before or before.endswith(_PART):
        return False
    return bool(HAN.match(before[-1]) or HAN.match(piece))


def _joined(pieces: list[str], mark: str) -> str:
    word = "".join(_without_marker(piece, mark) for piece in pieces)
    # The complete character is in the piece that completes it.
    return word.replace(_PART, "") or word


def _without_marker(token: str, mark: str) -> str:
    return token.removeprefix(mark) if token != _CONTINUES else token


def as_words(record: Record, batch: int = 0) -> Record:
    """Return a copy of a record in which the word pieces of one sequence are merged into words.

    ``batch`` is the index of the sequence. The new record has a batch of one. Weights are summed over the pieces of a
    key word and averaged over the pieces of a query word, so rows still sum to 1. Raises ArgumentError if the record
    has no tokens.

    >>> weights = AttentionMap.from_weights(torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.1, 0.4], [0.2, 0.2, 0.6]]))
    >>> pieces = Record(name="0", layer=0, kind="self", map=weights, query_tokens=[["a", "mat", "##ador"]])
    >>> words = as_words(pieces)
    >>> words.query_tokens, words.map.weights()[0, 0]
    ([['a', 'matador']], tensor([[0.5000, 0.5000],
            [0.3500, 0.6500]]))
    """
    queries, keys = _tokens("query_tokens", record, batch), _tokens("key_tokens", record, batch)
    (q_words, query_of), (k_words, key_of) = join_pieces(queries), join_pieces(keys)
    rows = np.eye(len(q_words))[:, query_of]  # (words, q)
    columns = np.eye(len(k_words))[:, key_of]  # (words, k)
    heads = record.map.select(batch=batch).weights()[0].double().cpu().numpy()  # (h,q,k)
    merged = np.stack([merge_tokens(head, rows, columns) for head in heads])  # (h, words, words)
    return replace(
        record,
        map=AttentionMap.from_weights(torch.from_numpy(merged).float()[None], unnormalized=True),
        query_tokens=[q_words],
        key_tokens=[k_words] if record.key_tokens else None,
        sinks=tuple(key_of[key] for key in record.sinks),
        pictures=None if record.pictures is None else record.pictures.merged(batch, key_of),
    )


def _tokens(side: str, record: Any, batch: int) -> list[str]:
    labels = getattr(record, side)
    if labels is None and side == "key_tokens" and record.kind != "cross":
        labels = record.query_tokens
    if labels is None:
        problem = f"the record of {record.name} has no {side.replace('_', ' ')}"
        raise ArgumentError("record", problem, "give capture() a tokenizer, or call seen.label(words)")
    if not -len(labels) <= whole_number("batch", batch) < len(labels):
        raise ArgumentError("batch", f"expected one of {len(labels)} sequences, counted from 0, got {batch}")
    return labels[batch]
