"""Tables that say which tokens of a byte-level vocabulary keep a text valid UTF-8.

A character of UTF-8 has up to four bytes, and a token may end in the middle of one. The state of a text says which
bytes its last character lacks. A table holds the next state for each state and token. It is computed once for a
vocabulary, and following a hypothesis is a lookup in it. The replacement character U+FFFD is treated as invalid,
because it only stands for text that could not be read.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

__all__ = ["COMPLETE", "Utf8Table", "utf8_table"]

COMPLETE = 0  # the state after a whole character
_INVALID = 10  # the state after bytes that no text has
# For each state but the last, the ranges of bytes that may follow and the state after them (RFC 3629, section 4).
_RULES: list[list[tuple[int, int, int]]] = [
    # After a whole character: the first byte of a character of 1, 2, 3 or 4 bytes.
    [
        *[
            (0x00, 0x7F, 0),
            (0xC2, 0xDF, 1),
            (0xE0, 0xE0, 4),
            (0xE1, 0xEC, 2),
            (0xED, 0xED, 5),
            (0xEE, 0xEE, 2),
        ],
        *[(0xEF, 0xEF, 8), (0xF0, 0xF0, 6), (0xF1, 0xF3, 3), (0xF4, 0xF4, 7)],
    ],
    [(0x80, 0xBF, 0)],  # one byte is missing
    [(0x80, 0xBF, 1)],  # two bytes
    [(0x80, 0xBF, 2)],  # three bytes
    [(0xA0, 0xBF, 1)],  # after E0, shorter forms exist of what is left out
    [(0x80, 0x9F, 1)],  # after ED, no surrogates
    [(0x90, 0xBF, 2)],  # after F0, as after E0
    [(0x80, 0x8F, 2)],  # after F4, up to U+10FFFF
    [(0x80, 0xBE, 1), (0xBF, 0xBF, 9)],  # after EF
    [(0x80, 0xBC, 0), (0xBE, 0xBF, 0)],  # after EF BF, all but U+FFFD
    [],
]


@dataclass(frozen=True)
class Utf8Table:
    """The next state and the blocked tokens for each state of a text.

    ``following`` is the state after each token. ``blocked`` says which tokens make the text invalid if r more tokens
    may follow. Its first axis is r, up to the number of tokens that any character needs at most.
    """

    following: Tensor  # (states,v)
    blocked: Tensor  # (r,states,v), bool
    # The ids of the tokens that may not follow a whole character, if there is room for any.
    never_first: Tensor

    def complete(self, tokens: Sequence[int]) -> list[int]:
        """Return the tokens up to the last that ends with a whole character.

        >>> table = utf8_table((b"a", b"\\xc3", b"\\xa9"), ends=(), banned=())
        >>> table.complete([0, 1, 2, 1])
        [0, 1, 2]
        """
        whole, state = 0, COMPLETE
        for place, token in enumerate(tokens, start=1):
            state = int(self.following[state, token])
            whole = place if state == COMPLETE else whole
        return list(tokens[:whole])

    def after(self, tokens: Tensor) -> Tensor:
        """Return the state ``(b,)`` after the tokens ``(b,n)`` of a given text, which counts as whole if invalid."""
        states = torch.zeros(len(tokens), dtype=torch.int64, device=tokens.device)
        for column in tokens.unbind(dim=1):
            states = self.following.to(tokens.device)[states, column]
        return states.masked_fill(states == _INVALID, COMPLETE)


@functools.lru_cache(maxsize=16)
def utf8_table(
    token_bytes: tuple[bytes, ...], *, ends: tuple[int, ...], banned: tuple[int, ...]
) -> Utf8Table:
    """Return the table of a vocabulary, given the bytes of each token (none for special tokens).

    The tokens ``ends``, which end a text, may only follow a whole character. The ``banned`` tokens cannot complete one.
    """
    following = _following(token_bytes)  # (states,v)
    usable = np.ones(len(token_bytes), dtype=bool)
    usable[[*ends, *banned]] = False
    needed = _needed(following[:, usable])  # (states,)
    most = int(needed[np.isfinite(needed)].max())
    blocked = needed[following] > np.arange(most + 1)[:, None, None]  # (r,states,v)
    blocked[:, COMPLETE + 1 :, list(ends)] = True
    (never_first,) = blocked[most, COMPLETE].nonzero()
    return Utf8Table(*(torch.from_numpy(x) for x in (following, blocked, never_first)))


def _following(token_bytes: tuple[bytes, ...]) -> np.ndarray:
    """Return the state after each token in each state, (states, v)."""
    of_byte = np.full((len(_RULES), 257), _INVALID)
    for state, rules in enumerate(_RULES):
        for first, last, after in rules:
            of_byte[state, first : last + 1] = after
    # The 257th column stands for no byte, after the end of a token.
    of_byte[:, 256] = np.arange(len(_RULES))
    padded = np.full((len(token_bytes), max(map(len, token_bytes), default=0)), 256)
    for row, token in zip(padded, token_bytes, strict=True):
        row[: len(token)] = list(token)
    states = np.repeat(np.arange(len(_RULES))[:, None], len(token_bytes), axis=1)  # (states,v)
    for column in padded.T:
        states = of_byte[states, column]
    return states


def _needed(following: np.ndarray) -> np.ndarray:
    """Return the least number of tokens that complete a character in each state, infinite if none do."""
    needed = np.full(len(_RULES), np.inf)
    needed[COMPLETE] = 0
    for _ in _RULES:
        needed[1:] = np.minimum(needed, 1 + needed[following].min(axis=1, initial=np.inf))[1:]
    return needed
