"""The embedded corpus: a grammar that makes English, French and Chinese sentences with gold word alignments.

A sentence begins as a meaning (``statements`` → ``grammar`` → ``phrases`` choose words of ``lexicon``), which
``english``, ``french`` and ``chinese`` then say. French and Chinese follow from the English alone, so a translator can
learn this language to the end.

>>> triple = next(generate(1, seed=6))
>>> print(triple.english.text, triple.french.text, triple.chinese.text)
My friend's telephones were red. Les téléphones de mon ami étaient rouges. 我的朋友的电话是红色的。
>>> links = triple.links("en", "fr")
>>> [(triple.english.words[i], triple.french.words[j]) for i, j in sorted(links.sure)]
[('My', 'mon'), ('friend', 'ami'), ("'s", 'de'), ('telephones', 'téléphones'), ('were', 'étaient'), ('red', 'rouges'),
 ('.', '.')]
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from random import Random

from regard.errors import ArgumentError, UnknownNameError
from regard.text.corpus.chinese import chinese
from regard.text.corpus.english import english
from regard.text.corpus.french import french
from regard.text.corpus.sentences import Links, Sentence, Triple, write_chinese, write_english, write_french
from regard.text.corpus.statements import StatementMaker

__all__ = ["LEFT_OUT", "SPLITS", "Links", "Sentence", "Triple", "generate", "split_of"]

SPLITS = ("train", "valid", "test")

LEFT_OUT = (
    "The cat sits on the mat.",
    "The cat sat on the mat.",
    "The cat is sitting on the mat.",
    "The cat was sitting on the mat.",
    "I love you.",
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
    "Le chat est assis sur le tapis.",
    "Le chat était assis sur le tapis.",
    "Je t'aime.",
    "猫坐在垫子上。",
    "我爱你。",
)
"""Sentences of the documents: no split holds them, so that translating them shows what was learnt."""

_DROPPED = dict.fromkeys(map(ord, " .,?!'-，。？！"))
_LONGEST = 50  # words of English
_SHORT = 16  # words: more than any French sentence of LEFT_OUT has
_PATIENCE = 200_000  # so many sentences in a row that were there before: the space is used up
_LONG = (
    ("won't", "will not"),
    ("can't", "cannot"),
    ("n't", " not"),
    ("'m", " am"),
    ("'re", " are"),
    ("'ll", " will"),
)


def _key(text: str) -> str:
    """The sentence without case, contractions and punctuation: what two spellings of one sentence share."""
    text = text.lower()
    if "'" in text:
        for short, long in _LONG:
            text = text.replace(short, long)
        text = text.replace("'s", " is") if text.startswith(("he's", "she's", "it's", "there's")) else text
        text = text.replace(" he's", " he is").replace(" she's", " she is").replace(" it's", " it is")
    return text.translate(_DROPPED)


_LEFT_OUT_KEYS = frozenset(_key(text) for text in LEFT_OUT)


def split_of(english_text: str) -> str:
    """The one split a sentence may be in, by a hash of its English: 98 % train, 1 % valid, 1 % test.

    Contractions do not count: `he isn't` never tells a model about `he is not` across the splits.

    >>> split_of("The dog isn't tired.") == split_of("The dog is not tired.")
    True
    """
    return _split(_key(english_text))


def _split(key: str) -> str:
    number = int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big") % 100
    return "valid" if number == 0 else "test" if number == 1 else "train"


def generate(count: int | None = None, *, split: str = "train", seed: int = 0) -> Iterator[Triple]:
    """Yield ``count`` different sentences of a split; without ``count``, until no new one comes up.

    The same ``split`` and ``seed`` give the same sentences, everywhere. No English sentence comes twice in one call.
    """
    if split not in SPLITS:
        raise UnknownNameError("split", split, SPLITS)
    if count is not None and count < 0:
        raise ArgumentError("count", f"{count} sentences asked for", "give 0 or more, or None for all")
    return _stream(count, split, seed)


def _stream(count: int | None, split: str, seed: int) -> Iterator[Triple]:
    maker = StatementMaker(Random(f"{split} {seed}"))
    seen: set[bytes] = set()
    left = count if count is not None else -1
    stale = 0
    while left and stale < _PATIENCE:
        statement = maker.statement()
        first = write_english(english(statement))
        if len(first.words) > _LONGEST:
            continue
        key = _key(first.text)
        if key in _LEFT_OUT_KEYS or _split(key) != split:
            continue
        mark = blake2b(first.text.encode(), digest_size=8).digest()
        if mark in seen:
            stale += 1
            continue
        second, third = write_french(french(statement)), write_chinese(chinese(statement))
        if len(second.words) < _SHORT and (
            _key(second.text) in _LEFT_OUT_KEYS or _key(third.text) in _LEFT_OUT_KEYS
        ):
            continue
        seen.add(mark)
        stale = 0
        left -= 1
        yield Triple(first, second, third)
