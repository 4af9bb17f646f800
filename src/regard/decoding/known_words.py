"""The constraint that a text of a byte-level vocabulary consists of known words.

A text is a sequence of units. A unit is a word, which is a run of letters and digits, or any other character beyond
ASCII. Characters of scripts without spaces, such as Chinese, are units of their own. Signs of ASCII stand between units
and are always allowed. Known units are the same for all texts, or are those of the source of a text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["KnownWords", "WordTable"]

_NO_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003fffd"
)
_LETTER = rf"[^\W_{_NO_SPACES}]"
# Bytes of a character that is not complete are decoded to single surrogates.
_PART = "[\udc80-\udcff]"
_UNIT = re.compile(rf"{_LETTER}+|[^\x00-\x7f\udc80-\udcff]")
_OPEN = re.compile(rf"{_LETTER}*{_PART}*\Z")
_START = re.compile(rf"{_PART}*{_LETTER}*{_PART}*")
_PARTS = re.compile(rf"({_LETTER}*)({_PART}*)\Z")


class _State(NamedTuple):
    """The bytes of the unit at the end of a text, and the word before it, or nothing after another character."""

    unit: bytes
    before: bytes


class _Units:
    """A sorted list of units, as bytes in lower case."""

    def __init__(self, units: Iterable[str]):
        self.all = sorted({unit.encode("utf-8", "surrogateescape") for unit in units})
        self.symbols = [unit for unit in self.all if not re.match(_LETTER, unit.decode())]

    def __contains__(self, unit: bytes) -> bool:
        place = bisect_left(self.all, unit)
        return place < len(self.all) and self.all[place] == unit

    def starting(self, start: bytes) -> list[bytes]:
        """Return the units that start with some bytes."""
        first = bisect_left(self.all, start)
        # No byte of UTF-8 is 255.
        return self.all[first : bisect_left(self.all, start + b"\xff", first)]

    def has_start(self, start: bytes) -> bool:
        """Return whether a unit starts with some bytes."""
        place = bisect_left(self.all, start)
        return place < len(self.all) and self.all[place].startswith(start)

    def has_symbol(self, start: bytes) -> bool:
        """Return whether a unit that is no word starts with some bytes."""
        return any(symbol.startswith(start) for symbol in self.symbols)


class WordTable:
    """The tokens of a byte-level vocabulary by their bytes, and the words that every text may have.

    ``token_bytes`` are those of :func:`regard.decoding.decode`. The characters of tokens that are in no word, such as
    dashes, are known too. With ``lowercase``, a token with a capital is part of no known word. Otherwise case is
    ignored.

    >>> table = WordTable([b"", b" the", b" ca", b"t", b"p"], ["the", "cat"])
    >>> table.continuations(b"ca").tolist()
    [3]
    """

    def __init__(self, token_bytes: Sequence[bytes], words: Iterable[str], *, lowercase: bool = False):
        self.lowercase = lowercase
        self.texts = [self._form(one.decode("utf-8", "surrogateescape")) for one in token_bytes]
        symbols = [unit for text in self.texts for unit in _UNIT.findall(text) if not re.match(_LETTER, unit)]
        self.units = _Units([*symbols, *(unit for word in words for unit in _UNIT.findall(word.lower()))])
        # By the bytes of the part of a word that a token starts with, the tokens and the rest of each.
        self.inner: defaultdict[bytes, list[tuple[int, str]]] = defaultdict(list)
        # Tokens that start with another sign, or with the first bytes of a character.
        self.outer: list[tuple[int, str]] = []
        self.ending_in: defaultdict[bytes, list[int]] = defaultdict(list)
        for number, text in enumerate(self.texts):
            start = _START.match(text)
            if start and start.group():
                self.inner[_encoded(start.group())].append((number, text[start.end() :]))
            if text and not re.match(rf"{_LETTER}|[\udc80-\udcbf]", text):
                self.outer.append((number, text))
                self.ending_in[_encoded(_split(text)[1])].append(number)
        self.known_outer = torch.zeros(len(token_bytes), dtype=torch.bool)
        self.known_outer[[number for number, text in self.outer if _fits(text, [self.units])]] = True
        self.other_outer = [(number, text) for number, text in self.outer if not self.known_outer[number]]
        self._continuations: dict[bytes, Tensor] = {}

    def _form(self, text: str) -> str:
        return text if self.lowercase else text.lower()

    def continuations(self, unit: bytes) -> Tensor:
        """Return the ids of the tokens that continue a unit to a known one or to the start of one."""
        if unit not in self._continuations:
            tokens = self.tokens_after(unit, self.units, [self.units])
            self._continuations[unit] = torch.tensor(tokens, dtype=torch.int64)
        return self._continuations[unit]

    def tokens_after(self, unit: bytes, units: _Units, known: Sequence[_Units]) -> list[int]:
        """Return the ids of the tokens that continue a unit to one of ``units``, where the rest of a token is known."""
        tokens: set[int] = set()
        for whole in units.starting(unit):
            for end in range(len(unit) + 1, len(whole) + 1):
                for number, rest in self.inner.get(whole[len(unit) : end], ()):
                    if not rest or (end == len(whole) and _fits(rest, known)):
                        tokens.add(number)
        return sorted(tokens)

    def after(self, state: _State, token: int) -> _State:
        """Return the state after one more token."""
        text = state.unit.decode("utf-8", "surrogateescape") + self.texts[token]
        # A character is complete only now.
        text = self._form(_encoded(text).decode("utf-8", "surrogateescape"))
        units, last = _split(text)
        before = units[-1] if units and re.match(_LETTER, units[-1]) else ""
        return _State(_encoded(last), _encoded(before) if units else state.before)


class _Source:
    """The units of one source, with the tokens that may follow a state."""

    def __init__(self, table: WordTable, text: str):
        found = _UNIT.findall(text.lower())
        self.table, self.units = table, _Units(found)
        self.known = [table.units, self.units]
        self.doubled = {_encoded(unit) for unit, after in pairwise(found) if unit == after}
        self._allowed: dict[_State, Tensor] = {}
        self.outer = table.known_outer.clone()  # (v,)
        self.outer[[number for number, text in table.other_outer if _fits(text, self.known)]] = True

    def allowed(self, state: _State, ends: Sequence[int]) -> Tensor:
        """Return which tokens may follow a state, ``(v,)``."""
        if state not in self._allowed:
            self._allowed[state] = self._computed(state, ends)
        return self._allowed[state]

    def _computed(self, state: _State, ends: Sequence[int]) -> Tensor:
        mask = torch.zeros_like(self.outer)
        if self.may_end(state):
            mask |= self.outer
            mask[list(ends)] = True
            mask[self._repeats(state.unit or state.before)] = False
        mask[self.table.continuations(state.unit)] = True
        mask[self.table.tokens_after(state.unit, self.units, self.known)] = True
        mask[self._symbols_after(state.unit)] = True
        mask[self._continued_repeats(state)] = False
        return mask

    def may_end(self, state: _State) -> bool:
        """Return whether the unit at the end is known, and not the word before it."""
        unit, before = state
        repeated = bool(unit) and unit == before and unit not in self.doubled
        return not unit or (not repeated and any(unit in units for units in self.known))

    def _repeats(self, word: bytes) -> list[int]:
        """Return the ids of the tokens with which only the same word can start."""
        starts = (word[:end] for end in range(1, len(word) + 1))
        return [
            number
            for start in starts
            for number in self._if_only(start, word, self.table.ending_in.get(start, []))
        ]

    def _continued_repeats(self, state: _State) -> list[int]:
        """Return the ids of the tokens that continue a word to one that can only be the word before it."""
        unit, before = state
        if not before.startswith(unit):
            return []
        ends = range(len(unit) + 1, len(before) + 1)
        tokens = {end: [one for one, _ in self.table.inner.get(before[len(unit) : end], [])] for end in ends}
        return [number for end in ends for number in self._if_only(before[:end], before, tokens[end])]

    def _if_only(self, start: bytes, word: bytes, tokens: list[int]) -> list[int]:
        """Return the tokens if no other known word starts like this one, and it may not be repeated."""
        if not tokens or word in self.doubled:
            return []
        return tokens if all(one == word for units in self.known for one in units.starting(start)) else []

    def _symbols_after(self, unit: bytes) -> list[int]:
        """Return the ids of the tokens that continue a character that comes after a word without a space."""
        word, part = next(_PARTS.finditer(unit.decode("utf-8", "surrogateescape"))).groups()
        if not (word and part) or not any(_encoded(word) in units for units in self.known):
            return []
        start = _encoded(part)
        return [
            number
            for units in self.known
            for symbol in units.symbols
            if symbol.startswith(start)
            for end in range(len(start) + 1, len(symbol) + 1)
            for number, rest in self.table.inner.get(symbol[len(start) : end], ())
            if not rest
        ]


class KnownWords:
    """The rule that a text has only the words of a table and those of its source, and repeats no word directly.

    ``sources`` are the texts of the n sources, and ``ends`` the tokens that end a text. A word may follow itself if it
    does so in the source.
    """

    def __init__(self, table: WordTable, sources: Iterable[str], ends: Sequence[int]):
        self.table, self.ends = table, ends
        self.sources = [_Source(table, text) for text in sources]
        self.states = [[_State(b"", b"")] for _ in self.sources]  # of w hypotheses

    def block(self, scores: Tensor, tokens: Tensor, room: Tensor) -> None:
        """Forbid tokens that start or continue no known word, or that end a word which is not known."""
        rows = [
            torch.stack([source.allowed(state, self.ends) for state in states])
            for source, states in zip(self.sources, self.states, strict=True)
        ]
        allowed = torch.stack(rows).to(scores.device)  # (n,w,v), or (n,1,v) in the first step
        scores.masked_fill_(~allowed, -torch.inf)

    def follow(self, rows: Tensor | None, tokens: Tensor) -> None:
        """Update the words at the end of the hypotheses."""
        written: list[list[int]] = tokens.tolist()
        if rows is None:
            old = [
                states * (len(row) // len(states)) for states, row in zip(self.states, written, strict=True)
            ]
        else:
            flat = [state for states in self.states for state in states]
            old = [[flat[place] for place in row] for row in rows.tolist()]
        self.states = [
            [self.table.after(state, token) for state, token in zip(states, row, strict=True)]
            for states, row in zip(old, written, strict=True)
        ]

    def keep(self, sentences: Tensor) -> None:
        """Keep the sources and the states of some sentences."""
        kept: list[int] = sentences.tolist()
        self.sources = [self.sources[place] for place in kept]
        self.states = [self.states[place] for place in kept]

    def shortened(self, tokens: list[int], sentence: int) -> list[int]:
        """Return the tokens up to the last word that is complete."""
        source, state, whole = self.sources[sentence], _State(b"", b""), 0
        for place, token in enumerate(tokens, start=1):
            state = self.table.after(state, token)
            whole = place if source.may_end(state) else whole
        return tokens[:whole]


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _split(text: str) -> tuple[list[str], str]:
    """Return the units of a text that are complete, and the unit at its end, which may go on."""
    start = next(_OPEN.finditer(text)).start()
    return _UNIT.findall(text[:start]), text[start:]


def _fits(text: str, known: Sequence[_Units]) -> bool:
    """Return whether the units in a text are known, and the last is known or the start of one."""
    units, last = _split(text)
    if any(not any(_encoded(unit) in one for one in known) for unit in units):
        return False
    # The first bytes of a character are no start of a word here, since they may come after one.
    starts = _Units.has_symbol if last == text and re.match(_PART, text) else _Units.has_start
    return not last or any(starts(one, _encoded(last)) for one in known)
