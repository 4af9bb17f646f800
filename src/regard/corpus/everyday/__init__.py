"""Everyday phrases and sentences in English, French and Chinese, such as greetings, orders and questions for the way.

>>> phrases = everyday_phrases()
>>> phrases[0]
('Hello.', 'Bonjour.', '你好。')
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

from regard.errors import ArgumentError

__all__ = ["everyday_phrases", "generate_everyday", "written_sentences"]

Texts = tuple[str, str, str]  # English, French, Chinese

_SLOT = re.compile(r"\{([a-z_]+)\}")
# The French prepositions "de" and "à" are written as one word with the articles "le" and "les".
_CONTRACTIONS = {"de le ": "du ", "de les ": "des ", "à le ": "au ", "à les ": "aux "}
_UNCONTRACTED = re.compile(r"\b(?:de|à) les? ", re.IGNORECASE)


@functools.cache
def everyday_phrases() -> tuple[Texts, ...]:
    """Return the phrases of ``phrases.txt`` as (English, French, Chinese), one for each English wording."""
    return tuple(
        (wording, french, chinese)
        for several, french, chinese in _rows("phrases.txt")
        for wording in several.split(" / ")
    )


@functools.cache
def written_sentences() -> tuple[Texts, ...]:
    """Return the sentences of ``sentences.txt`` as (English, French, Chinese).

    They have frequent words that small parallel corpora lack, and constructions such as conditionals and comparisons.

    >>> len(written_sentences()) > 9000
    True
    """
    return tuple((english, french, chinese) for english, french, chinese in _rows("sentences.txt"))


def generate_everyday(count: int, *, seed: int = 0) -> Iterator[Texts]:
    """Yield ``count`` everyday sentences as (English, French, Chinese).

    A sentence is a frame of ``frames.txt``, whose slots are filled with expressions of ``fillers.txt``. A sentence may
    appear more than once. The same arguments give the same sentences on every machine.

    >>> for texts in generate_everyday(1, seed=1):
    ...     print(*texts)
    It's very cool in this room. Il fait très frais dans cette pièce. 这个房间里很凉快。
    """
    if count < 0:
        raise ArgumentError("count", f"expected 0 or more sentences, got {count}")
    random = Random(f"everyday {seed}")
    frames = _frames()
    return (_sentence(random, random.choice(frames)) for _ in range(count))


def _sentence(random: Random, frame: Texts) -> Texts:
    chosen = {slot: random.choice(_fillers()[slot]) for slot in dict.fromkeys(_SLOT.findall(frame[0]))}
    english, french, chinese = (
        _capitalised(_SLOT.sub(lambda match, side=side: chosen[match.group(1)][side], text))
        for side, text in enumerate(frame)
    )
    return english, _contracted(french), chinese


def _contracted(french: str) -> str:
    """Return a French text in which prepositions and articles are written as one word.

    >>> _contracted("La gare est à côté de le parc.")
    'La gare est à côté du parc.'
    """
    written = _UNCONTRACTED.sub(lambda match: _CONTRACTIONS[match.group().lower()], french)
    return _capitalised(written) if french[:1].isupper() else written


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


@functools.cache
def _frames() -> tuple[Texts, ...]:
    return tuple((english, french, chinese) for english, french, chinese in _rows("frames.txt"))


@functools.cache
def _fillers() -> dict[str, list[Texts]]:
    """Return the expressions of ``fillers.txt`` by the name of their slot."""
    found: dict[str, list[Texts]] = {}
    slot = ""
    for row in _rows("fillers.txt"):
        if len(row) == 1:
            slot = row[0].strip("[]")
        else:
            english, french, chinese = row
            found.setdefault(slot, []).append((english, french, chinese))
    return found


def _rows(name: str) -> list[list[str]]:
    """Return the columns of the lines of a file of this folder, without empty lines and comments."""
    lines = (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()
    return [line.split(" | ") for line in lines if line and not line.startswith("#")]
