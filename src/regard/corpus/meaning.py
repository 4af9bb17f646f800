"""Meaning trees, the language-independent representation of sentences.

Every part that becomes a word holds a *unit*, an integer with one bit set. The modules ``english``, ``french`` and
``chinese`` mark each word with the units it expresses. Words of two languages that share a unit are aligned. The trees
are built by ``clauses``.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.corpus.lexemes import Adjective, Adverb, Modal, Noun, Preposition, Pronoun, Spot, Time, Verb
from regard.corpus.lexicon.function_words import Connective

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
    """A generator of the units 1, 2, 4, 8 …"""

    __slots__ = ("next",)

    def __init__(self) -> None:
        self.next = 1

    def take(self) -> int:
        """Return the next unit."""
        unit = self.next
        self.next = unit << 1
        return unit

    def take_three(self) -> int:
        """Reserve three units, and return the unit before them.

        Shifting it by the numbers 1 to 3 of a fragment gives the three units.
        """
        unit = self.next
        self.next = unit << 4
        return unit


@dataclass(slots=True, eq=False)
class Quality:
    """An adjective with an optional degree adverb, in the comparative if ``than`` is given."""

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
        """The grammatical person, 1 to 3."""
        return self.pronoun.person

    @property
    def plural(self) -> bool:
        """Whether the pronoun is plural."""
        return self.pronoun.plural

    @property
    def gender(self) -> str:
        """The grammatical gender, m or f."""
        return self.pronoun.gender


@dataclass(slots=True, eq=False)
class Thing:
    """A noun with its determiner, adjectives, possessor and relative clause.

    ``determiner`` is the, a, bare, this, that, some, many, every, a number, none (for names), the key of a pronoun for
    its possessive (I → my), ``owner`` for a possessor in the field ``owner`` (Tom's), or ``role`` for a profession as
    predicate (is a doctor). ``whole`` is the noun after `of` (the door of the house).
    """

    noun: Noun
    unit: int
    determiner: str
    unit_determiner: int
    plural: bool = False
    quality: Quality | None = None
    second: Quality | None = None
    owner: Phrase | None = None
    whole: Thing | None = None
    of_unit: int = 0
    relative: Clause | None = None
    relative_unit: int = 0

    person = 3

    @property
    def gender(self) -> str:
        """The grammatical gender of the noun, m or f."""
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
        """The grammatical gender, f if both phrases are feminine."""
        return "f" if self.first.gender == "f" and self.second.gender == "f" else "m"


Phrase = Person | Thing | Pair


@dataclass(slots=True, eq=False)
class Place:
    """A place adverbial, either a preposition with a noun phrase or a fixed expression (``spot``)."""

    unit: int
    preposition: Preposition | None = None
    phrase: Thing | None = None
    spot: Spot | None = None


@dataclass(slots=True, eq=False)
class When:
    """A time adverbial, at the front of the clause if ``front`` is True.

    ``unit`` comes from :meth:`Units.take_three`.
    """

    time: Time
    unit: int
    front: bool = False


@dataclass(slots=True, eq=False)
class Clause:
    """A clause, which is a verb with its subject, objects and adverbials.

    - ``tense`` is present (eats), past (ate), future (will eat), now (is eating), then (was eating), perfect (has
      already eaten) or command (eat!).
    - ``subject`` is None in commands and in a relative clause whose subject is the noun it modifies. That noun is
      ``head``. ``gap`` is ``object`` in a relative clause whose object is the noun it modifies.
    - ``ask`` is the kind of a question, yes, why, when, where, what or whom.
    - ``kind`` is weather (it rains), there (there is), this, that, these or those (this is), or empty.
    - ``negative`` is the unit of the negation, or 0 without one. ``helper`` is the unit of the auxiliary.
    - ``that`` says whether English writes the conjunction before ``said``. ``short`` selects contractions (doesn't).
    - ``moved`` puts the receiver before the object (gives him a book).
    - ``extra`` is the unit of `it`, `there`, `this`, `already`, `please` or `to`.
    - ``mark`` is the unit of the question mark, which 吗 and est-ce que also express.
    - ``during`` is True inside 当…的时候, where 了 is left out.
    - ``stands_for`` holds the noun classes of the antecedent of a pronoun subject.
    """

    verb: Verb
    unit: int
    helper: int
    tense: str
    subject: Phrase | None = None
    negative: int = 0
    modal: Modal | None = None
    modal_unit: int = 0
    object: Phrase | None = None
    receiver: Phrase | None = None
    quality: Quality | None = None
    place: Place | None = None
    goal: Place | None = None
    time: When | None = None
    often: Adverb | None = None
    often_unit: int = 0
    manner: Adverb | None = None
    manner_unit: int = 0
    said: Clause | Compound | None = None
    said_unit: int = 0
    that: bool = True
    short: bool = False
    moved: bool = False
    head: Phrase | None = None
    gap: str = ""
    ask: str = ""
    ask_unit: int = 0
    kind: str = ""
    extra: int = 0
    mark: int = 0
    polite: bool = False
    during: bool = False
    stands_for: frozenset[str] | None = None


@dataclass(slots=True, eq=False)
class Compound:
    """Two clauses joined by a connective.

    ``second`` is the clause of the connective. With ``before``, English and French put it first (When he came, she
    left).
    """

    connective: Connective
    unit: int
    first: Clause | Compound
    second: Clause | Compound
    before: bool = False
    comma_unit: int = 0


@dataclass(slots=True, eq=False)
class Statement:
    """A whole sentence with its final punctuation mark."""

    body: Clause | Compound
    mark: str
    mark_unit: int
