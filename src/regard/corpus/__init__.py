"""A generator of English, French and Chinese sentences with gold word alignments.

A sentence starts as a meaning tree, which ``statements``, ``clauses`` and ``phrases`` build at random from the words of
``lexicon``. The modules ``english``, ``french`` and ``chinese`` turn the tree into text. The English text determines
the French and the Chinese one, so a translation model can learn this language completely.

>>> triple = next(generate(1, seed=6))
>>> print(triple.english.text, triple.french.text, triple.chinese.text)
My friend's telephones were red. Les téléphones de mon ami étaient rouges. 我的朋友的电话是红色的。
>>> links = triple.links("en", "fr")
>>> [(triple.english.words[i], triple.french.words[j]) for i, j in sorted(links.sure)]
[('My', 'mon'), ('friend', 'ami'), ("'s", 'de'), ('telephones', 'téléphones'), ('were', 'étaient'), ('red', 'rouges'),
 ('.', '.')]
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from hashlib import blake2b
from random import Random

from regard.corpus.chinese import chinese
from regard.corpus.english import english
from regard.corpus.french import french
from regard.corpus.sentences import Links, Sentence, Triple, write_chinese, write_english, write_french
from regard.corpus.statements import StatementMaker
from regard.errors import ArgumentError, UnknownNameError

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
"""Sentences that no split contains, so that translating them tests generalisation."""

_DROPPED = dict.fromkeys(map(ord, " .,?!'-，。？！"))
# The most words of an English sentence.
_LONGEST = 50
# A number of words larger than that of any French sentence in LEFT_OUT.
_SHORT = 16
# After this many duplicates in a row, the generator stops because no new sentences are left.
_PATIENCE = 200_000
# The most sentences of a split that are kept in memory. They take 12 MB.
_MOST_KEPT = 2000
_LONG = (
    ("won't", "will not"),
    ("can't", "cannot"),
    ("n't", " not"),
    ("'m", " am"),
    ("'re", " are"),
    ("'ll", " will"),
)


def _key(text: str) -> str:
    """Return a sentence in lower case, without contractions, punctuation and spaces, so that variants are equal."""
    text = text.lower()
    if "'" in text:
        for short, long in _LONG:
            text = text.replace(short, long)
        text = text.replace("'s", " is") if text.startswith(("he's", "she's", "it's", "there's")) else text
        text = text.replace(" he's", " he is").replace(" she's", " she is").replace(" it's", " it is")
    return text.translate(_DROPPED)


_LEFT_OUT_KEYS = frozenset(_key(text) for text in LEFT_OUT)


def split_of(english_text: str) -> str:
    """Return the split of a sentence by a hash of its English text, 98 % train, 1 % valid and 1 % test.

    Contractions are expanded first, so `he isn't` and `he is not` are always in the same split.

    >>> split_of("The dog isn't tired.") == split_of("The dog is not tired.")
    True
    """
    return _split(_key(english_text))


def _split(key: str) -> str:
    number = int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big") % 100
    return "valid" if number == 0 else "test" if number == 1 else "train"


def generate(count: int | None = None, *, split: str = "train", seed: int = 0) -> Iterator[Triple]:
    """Yield ``count`` different sentences of a split, or all until no new ones are found if ``count`` is None.

    The same ``split`` and ``seed`` give the same sentences on every machine. Within one call, no English sentence is
    repeated. The generator ends early after 200,000 repetitions in a row. Sentences have at most 50 English words. None
    of them is in :data:`LEFT_OUT`. Raises an error for an unknown split or a negative count.

    Up to 2,000 sentences of the valid and test splits are kept in memory for the next call, because only one in a
    hundred generated sentences is in each of these splits.
    """
    if split not in SPLITS:
        raise UnknownNameError("split", split, SPLITS)
    if count is not None and count < 0:
        raise ArgumentError("count", f"expected 0 or more sentences, got {count}", "or give None for all")
    if split == "train" or count is None or count > _MOST_KEPT:
        return _stream(count, split, seed)
    kept = _kept_sentences(split, seed)
    if len(kept) < count:
        kept[:] = _stream(count, split, seed)
    return iter(kept[:count])


@functools.lru_cache(maxsize=2)
def _kept_sentences(split: str, seed: int) -> list[Triple]:
    """Return the list of the first sentences of a split, which :func:`generate` fills."""
    return []


def _stream(count: int | None, split: str, seed: int) -> Iterator[Triple]:
    maker = StatementMaker(Random(f"{split} {seed}"))
    seen: set[bytes] = set()
    remaining = count if count is not None else -1
    duplicates = 0
    while remaining and duplicates < _PATIENCE:
        statement = maker.statement()
        first = write_english(english(statement))
        if len(first.words) > _LONGEST:
            continue
        key = _key(first.text)
        if key in _LEFT_OUT_KEYS or _split(key) != split:
            continue
        digest = blake2b(first.text.encode(), digest_size=8).digest()
        if digest in seen:
            duplicates += 1
            continue
        second, third = write_french(french(statement)), write_chinese(chinese(statement))
        if len(second.words) < _SHORT and (
            _key(second.text) in _LEFT_OUT_KEYS or _key(third.text) in _LEFT_OUT_KEYS
        ):
            continue
        seen.add(digest)
        duplicates = 0
        remaining -= 1
        yield Triple(first, second, third, statement)
