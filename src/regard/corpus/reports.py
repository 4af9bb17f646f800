"""Generated English reports about several people, each with a headline.

The headline is about the person that the report names most often. It is the first sentence about this person, without
adverbials of time, manner and place. The names are made up, and a name of one split is in no other split, so a model
has to copy the names.

>>> report = next(reports(1, seed=4))
>>> report.text[:70], report.headline
('Mevas got up. Trapox will sit on this chair next month. Tritind will n', 'Trapox will sit on this chair')
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from random import Random
from typing import NamedTuple

from regard.corpus.english import english
from regard.corpus.lexicon.nouns import BY_CLASS
from regard.corpus.meaning import Clause, Statement, Thing, Units
from regard.corpus.questions import is_plain
from regard.corpus.sentences import write_english
from regard.corpus.statements import StatementMaker
from regard.errors import ArgumentError, UnknownNameError

__all__ = ["Report", "reports"]

# The least and the most sentences about the person of the headline, and the numbers of the other people.
ABOUT_MAIN, OTHERS = (2, 3), (2, 3)
# Of ten names, those of each split.
_SHARES = {"train": range(8), "valid": range(8, 9), "test": range(9, 10)}
_STARTS = (
    "b",
    "d",
    "f",
    "g",
    "k",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "t",
    "v",
    "z",
    "br",
    "dr",
    "gr",
    "kr",
    "st",
    "tr",
)
_VOWELS = ("a", "e", "i", "o", "u")
_ENDS = ("n", "r", "l", "s", "x", "th", "m", "nd")
_TENSES = ("past", "present", "future")


class Report(NamedTuple):
    """A text of some sentences, and its headline without a final mark."""

    text: str
    headline: str


def reports(count: int, *, split: str = "train", seed: int = 0) -> Iterator[Report]:
    """Yield ``count`` reports of four to six sentences.

    The person of the headline is the subject of two or three sentences, and two or three other people are the subjects
    of one sentence each, in random order. The same ``split`` and ``seed`` give the same reports. An unknown split
    raises UnknownNameError.
    """
    if split not in _SHARES:
        raise UnknownNameError("split", split, _SHARES)
    if count < 0:
        raise ArgumentError("count", f"expected 0 or more reports, got {count}")
    return _stream(count, split, seed)


def _stream(count: int, split: str, seed: int) -> Iterator[Report]:
    chance = Random(f"reports {split} {seed}")
    maker = StatementMaker(Random(f"clauses {split} {seed}"))
    for _ in range(count):
        number = 1 + chance.randint(*OTHERS)
        names: list[str] = []
        while len(names) < number:
            name = made_up_name(chance)
            if _share_of(name) in _SHARES[split] and name not in names:
                names.append(name)
        subjects = [names[0]] * chance.randint(*ABOUT_MAIN) + names[1:]
        chance.shuffle(subjects)
        genders = {name: chance.choice("mf") for name in names}
        clauses = [(name, _clause(maker, name, genders[name])) for name in subjects]
        first = next(clause for name, clause in clauses if name == names[0])
        text = " ".join(_written(clause) for _, clause in clauses)
        yield Report(text, _written(_shortened(first)).rstrip("."))


def made_up_name(chance: Random) -> str:
    """Return a name of two syllables that is in no dictionary, one of 80,000.

    >>> made_up_name(Random(3))
    'Nukreth'
    """
    parts = [chance.choice(options) for options in (_STARTS, _VOWELS, _STARTS, _VOWELS, _ENDS)]
    return "".join(parts).capitalize()


def _share_of(name: str) -> int:
    return blake2b(name.encode(), digest_size=8).digest()[0] % 10


def _clause(maker: StatementMaker, name: str, gender: str) -> Clause:
    """Generate a plain clause about a person."""
    person = next(noun for noun in BY_CLASS["name"] if noun.gender == gender)
    while True:
        maker.units = Units()
        maker.joining = False
        subject = Thing(replace(person, en=name), maker.units.take(), "none", 0)
        clause = maker.clause(subject=subject, tenses=_TENSES)
        if is_plain(Statement(clause, ".", 0)):
            return clause


def _shortened(clause: Clause) -> Clause:
    """Return a clause without time and manner, and without a place that its verb does not need."""
    needed = clause.verb.frame not in ("i", "t")
    return replace(clause, time=None, manner=None, place=clause.place if needed else None)


def _written(clause: Clause) -> str:
    return write_english(english(Statement(clause, ".", 0))).text
