"""Meaning trees: what a sentence says, before any language says it.

Every part that becomes a word holds a *unit*, a bit of its own. The three realisers mark their words with the units
they express, and words that share a unit are linked. Trees are made by ``grammar``; tests may make their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.text.corpus.lexemes import Adjective, Adverb, Modal, Noun, Preposition, Pronoun, Spot, Time, Verb
from regard.text.corpus.lexicon.settings import Connective

__all__ = [
    "Clause",
    "Compound",
    "Pair",
    "Person",
    "Phrase",
    "Place",
    "Quality",
    "Statement",
    "Thing",
    "Units",
    "When",
]


class Units:
    """Hands out units: 1, 2, 4, 8 …"""

    __slots__ = ("next",)

    def __init__(self) -> None:
        self.next = 1

    def take(self) -> int:
        unit = self.next
        self.next = unit << 1
        return unit

    def take_three(self) -> int:
        """The unit *before* three new ones, to be shifted by the numbers of a fragment."""
        unit = self.next
        self.next = unit << 4
        return unit


@dataclass(slots=True, eq=False)
class Quality:
    """An adjective with its degree; compared if ``than`` is given."""

    adjective: Adjective
    unit: int
    degree: Adverb | None = None
    degree_unit: int = 0
    than: Phrase | None = None
    than_unit: int = 0


@dataclass(slots=True, eq=False)
class Person:
    """A personal pronoun."""

    pronoun: Pronoun
    unit: int

    @property
    def person(self) -> int:
        return self.pronoun.person

    @property
    def plural(self) -> bool:
        return self.pronoun.plural

    @property
    def gender(self) -> str:
        return self.pronoun.gender


@dataclass(slots=True, eq=False)
class Thing:
    """A noun with all that depends on it.

    ``determiner``: the, a, bare, this, that, some, many, every, a number, none (names), a pronoun's key for its
    possessive (I → my), ``owner`` if ``owner`` is given (Tom's), ``role`` for a bare predicate (is a doctor).
    """

    noun: Noun
    unit: int
    determiner: str
    unit_determiner: int
    plural: bool = False
    quality: Quality | None = None
    second: Quality | None = None
    owner: Phrase | None = None
    whole: Thing | None = None  # the door *of the house*
    of_unit: int = 0
    relative: Clause | None = None
    relative_unit: int = 0

    person = 3

    @property
    def gender(self) -> str:
        return self.noun.gender


@dataclass(slots=True, eq=False)
class Pair:
    """Two phrases joined by `and`."""

    first: Phrase
    second: Phrase
    unit: int

    person = 3
    plural = True

    @property
    def gender(self) -> str:
        return "f" if self.first.gender == "f" and self.second.gender == "f" else "m"


Phrase = Person | Thing | Pair


@dataclass(slots=True, eq=False)
class Place:
    """Where: a preposition with a phrase, or a spot that is all in one."""

    unit: int
    preposition: Preposition | None = None
    phrase: Thing | None = None
    spot: Spot | None = None


@dataclass(slots=True, eq=False)
class When:
    """A time, with the unit before the three it may use."""

    time: Time
    unit: int
    front: bool = False


@dataclass(slots=True, eq=False)
class Clause:
    """One verb and what belongs to it.

    ``tense``: present (eats), past (ate), future (will eat), now (is eating), then (was eating), perfect (has already
    eaten), command (eat!). ``subject`` is None in commands and where a relative clause has its gap (``head`` is what
    fills it); ``gap`` is ``object`` where the object is what is missing. ``ask``: yes, why, when, where, what, whom.
    """

    verb: Verb
    unit: int
    helper: int  # the unit of the auxiliary
    tense: str
    subject: Phrase | None = None
    negative: int = 0  # the unit of the negation, 0 if there is none
    modal: Modal | None = None
    modal_unit: int = 0
    object: Phrase | None = None
    receiver: Phrase | None = None
    quality: Quality | None = None  # is *tired*
    place: Place | None = None
    goal: Place | None = None
    time: When | None = None
    often: Adverb | None = None
    often_unit: int = 0
    manner: Adverb | None = None
    manner_unit: int = 0
    said: Clause | Compound | None = None
    said_unit: int = 0
    that: bool = True  # whether English writes the `that` of what is said
    short: bool = False  # doesn't, I'm
    moved: bool = False  # gives him a book, not: gives a book to him
    head: Phrase | None = None
    gap: str = ""
    ask: str = ""
    ask_unit: int = 0
    kind: str = ""  # weather, there, is (this is …)
    extra: int = 0  # the unit of it, there, already, please
    mark: int = 0  # the unit of the question mark, which 吗 and est-ce que also express
    polite: bool = False
    during: bool = False  # inside 当…的时候, where 了 is not said
    stands_for: frozenset[str] | None = None  # the classes of what a pronoun subject takes up


@dataclass(slots=True, eq=False)
class Compound:
    """Two clauses and the word between them; ``before``: When he came, … instead of … when he came."""

    connective: Connective
    unit: int
    first: Clause | Compound
    second: Clause | Compound
    before: bool = False
    comma_unit: int = 0


@dataclass(slots=True, eq=False)
class Statement:
    """A whole sentence with its final mark."""

    body: Clause | Compound
    mark: str
    mark_unit: int
