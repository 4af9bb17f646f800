"""The entry types of the lexicon, each with its English, French and Chinese forms.

Entries are compared by identity, which makes lookups fast.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.errors import ArgumentError

__all__ = [
    "Adjective",
    "Adverb",
    "Fragment",
    "Modal",
    "Noun",
    "Numeral",
    "Preposition",
    "Pronoun",
    "Spot",
    "Time",
    "Verb",
    "english_plural",
    "fragment",
    "french_plural",
]

# Words with a bit mask of the numbers of their sure units and one of their possible units.
Fragment = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun with its plural forms, French gender, Chinese measure word and semantic classes.

    ``name`` marks the name of a person, which has no article. ``roles`` are the masculine and the feminine French form
    of a profession (infirmier, infirmière). ``inside`` is the Chinese word for `in` after this noun.
    """

    en: str
    en_plural: str
    fr: str
    fr_plural: str
    gender: str  # m or f
    zh: str
    measure: str
    classes: frozenset[str]
    name: bool = False
    roles: tuple[str, str] = ("", "")
    inside: str = "里"

    @property
    def mass(self) -> bool:
        """Whether it is a mass noun, such as water."""
        return "mass" in self.classes

    @property
    def human(self) -> bool:
        """Whether it names a person."""
        return "person" in self.classes


@dataclass(frozen=True, slots=True, eq=False)
class Pronoun:
    """A personal pronoun with all its forms in the three languages."""

    en: str
    en_object: str
    en_owner: str
    fr: str
    fr_object: str  # le chien *me* voit
    fr_to: str  # il *lui* parle
    fr_strong: str  # avec *moi*
    fr_owner: tuple[str, str, str]  # mon, ma, mes
    zh: str
    person: int
    plural: bool
    gender: str


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb with its forms, its valency frame and the noun classes of its subjects and objects.

    - ``frame`` is ``i`` intransitive, ``p`` posture with a place (sit on), ``t`` transitive, ``d`` with an object and a
      receiver, ``g`` motion to a place, ``c`` with a subordinate clause, ``w`` weather, or ``be`` for the copula.
    - ``fr`` is the infinitive without `se`. ``fr_tail`` are words after it (avoir *besoin*, être *assis*), which agree
      if they are a participle. ``fr_link`` is the preposition before the object.
    - ``fr_moving`` is the infinitive for future and modal uses (être assis, but il va s'asseoir).
    - ``zh_link`` comes before the object, which then precedes the verb (和…说话).
    - ``zh_cannot`` is the negative form of resultative verbs (看不见).
    - ``flags`` are explained in :mod:`regard.corpus.lexicon.verbs`.
    """

    en: str
    en_past: str
    en_participle: str
    particle: str  # look *for*, get *up*
    fr: str
    reflexive: bool
    fr_tail: str
    fr_link: str
    fr_moving: str
    zh: str
    zh_link: str
    zh_cannot: str
    frame: str
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    flags: frozenset[str]

    @property
    def state(self) -> bool:
        """True if the verb is stative, with no `-ing` form, the imparfait in French and no 了 in Chinese."""
        return "state" in self.flags


@dataclass(frozen=True, slots=True, eq=False)
class Modal:
    """A modal verb before an infinitive (can, must, want to).

    ``zh_not`` is the Chinese negative, if it is not 不 followed by ``zh``.
    """

    en: str
    en_past: str
    to: bool
    fr: str
    zh: str
    zh_not: str


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective with its forms and the noun classes it applies to.

    - ``en_more`` is the comparative (bigger), empty for `more`, or "-" if there is none.
    - ``fr`` are the forms m, f, m plural and f plural. With ``avoir``, they are the noun (avoir *faim*).
    - ``fr_vowel`` is the masculine form before a vowel (bel, nouvel). ``before`` places it before the French noun.
    - ``style`` is the Chinese construction, ``bare`` 大狗, ``de`` 漂亮的狗, ``shi`` 是红色的, ``le`` 生病了.
    - ``predicate`` allows it after the copula, ``beside`` next to the noun.
    """

    en: str
    en_more: str
    fr: tuple[str, str, str, str]
    fr_vowel: str
    before: bool
    avoir: bool
    zh: str
    style: str
    classes: tuple[str, ...]
    predicate: bool
    beside: bool


@dataclass(frozen=True, slots=True, eq=False)
class Adverb:
    """An adverb, with an optional second part in Chinese (太…了).

    ``verbs`` are the English verbs that an adverb of manner goes with.
    """

    en: str
    fr: str
    zh: str
    zh_after: str = ""
    verbs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Numeral:
    """A numeral in the three languages."""

    en: str
    fr: str
    zh: str


@dataclass(frozen=True, slots=True, eq=False)
class Preposition:
    """A preposition (on, sur, 在…上) with the noun classes it goes with."""

    en: tuple[str, ...]
    fr: tuple[str, ...]
    zh: str
    classes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Spot:
    """A place as a fixed expression (at home, in Paris).

    ``en_to`` is the English form after a verb of motion. ``goal`` says whether it can follow such a verb.
    """

    en: Fragment
    en_to: Fragment
    fr: Fragment
    zh: Fragment
    goal: bool


@dataclass(frozen=True, slots=True, eq=False)
class Time:
    """A time expression with the tenses it goes with.

    ``front`` says whether it may open the sentence.
    """

    en: Fragment
    fr: Fragment
    zh: Fragment
    tenses: tuple[str, ...]
    front: bool


def fragment(text: str) -> Fragment:
    """Parse words with the numbers (1 to 3) of the units they express.

    A number after ``?`` is a possible link, other numbers are sure links. A word without numbers expresses unit 1.

    >>> fragment("la:?2 semaine:2 dernière:1")
    (('la', 0, 4), ('semaine', 4, 0), ('dernière', 2, 0))
    """
    words = []
    for part in text.split():
        word, _, numbers = part.partition(":")
        sure = possible = 0
        uncertain = False
        for character in numbers or "1":
            if character == "?":
                uncertain = True
                continue
            if character not in "123":
                raise ArgumentError("text", f"unit {character!r} in {part!r}", "units are 1, 2 and 3")
            if uncertain:
                possible |= 1 << int(character)
            else:
                sure |= 1 << int(character)
            uncertain = False
        words.append((word, sure, possible))
    return tuple(words)


def english_plural(word: str) -> str:
    """Return the regular plural of an English noun.

    >>> [english_plural(word) for word in ("cat", "box", "city", "boy")]
    ['cats', 'boxes', 'cities', 'boys']
    """
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def french_plural(word: str) -> str:
    """Return the regular plural of a French noun or adjective.

    >>> [french_plural(word) for word in ("chat", "tapis", "gâteau", "cheval")]
    ['chats', 'tapis', 'gâteaux', 'chevaux']
    """
    if word.endswith(("s", "x", "z")):
        return word
    if word.endswith(("eau", "eu")):
        return word + "x"
    if word.endswith("al"):
        return word[:-1] + "ux"
    return word + "s"
