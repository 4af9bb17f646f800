"""What the dictionary says of a word: one entry, three languages.

Entries are compared by identity, so that they are quick to look up while sentences are made.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.errors import ArgumentError

__all__ = [
    "Adjective",
    "Adverb",
    "Fragment",
    "Measure",
    "Modal",
    "Noun",
    "Preposition",
    "Pronoun",
    "Spot",
    "Time",
    "Verb",
    "english_plural",
    "fragment",
    "french_plural",
]

Fragment = tuple[tuple[str, int, int], ...]  # (word, numbers of its sure units, of its possible units)


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A thing or a person. Plural forms are spelled out, so that irregular ones are nothing special."""

    en: str
    en_plural: str
    fr: str
    fr_plural: str
    gender: str  # of the French noun: m, f
    zh: str
    measure: str  # the Chinese measure word
    classes: frozenset[str]
    name: bool = False  # a person's name: no article
    roles: tuple[str, str] = (
        "",
        "",
    )  # of a calling, what a man and what a woman is called: infirmier, infirmière
    inside: str = "里"  # the Chinese word that makes a place of it after `in`

    @property
    def mass(self) -> bool:
        return "mass" in self.classes

    @property
    def human(self) -> bool:
        return "person" in self.classes


@dataclass(frozen=True, slots=True, eq=False)
class Pronoun:
    """A personal pronoun in the forms that the three languages ask for."""

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
    """A verb with the frame it stands in and the classes of what it is said of.

    Frames: ``i`` alone, ``p`` posture (sit on), ``t`` with an object, ``d`` with an object and a receiver, ``g``
    towards a place, ``c`` with a clause, ``be`` the copula.
    """

    en: str
    en_past: str
    en_participle: str
    particle: str  # look *for*, get *up*
    fr: str  # the infinitive, without `se`
    reflexive: bool
    fr_tail: str  # avoir *besoin*, être *assis*; it agrees if it is a participle
    fr_link: str  # the preposition before the object
    fr_moving: str  # the infinitive for what is yet to happen: être assis, but il va s'asseoir
    zh: str
    zh_link: str  # 和…说话: what stands before the object, which then precedes the verb
    zh_cannot: str  # 看不见: the negative of verbs that carry their result
    frame: str
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    flags: frozenset[str]

    @property
    def state(self) -> bool:
        """A state has no `-ing`, takes the imparfait and no 了."""
        return "state" in self.flags


@dataclass(frozen=True, slots=True, eq=False)
class Modal:
    """can, must, want to: what stands before an infinitive."""

    en: str
    en_past: str
    to: bool
    fr: str
    zh: str
    zh_not: str  # where the negative is not 不 and the word


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """A quality. ``style`` is the Chinese one: ``bare`` 大狗, ``de`` 漂亮的狗, ``shi`` 是红色的."""

    en: str
    en_more: str  # bigger; empty if `more` is said, "-" if it does not compare
    fr: tuple[str, str, str, str]  # m, f, m plural, f plural; of `avoir` the noun: faim
    fr_vowel: str  # bel, nouvel, vieil
    before: bool  # stands before the French noun
    avoir: bool  # avoir faim
    zh: str
    style: str
    classes: tuple[str, ...]
    predicate: bool
    beside: bool


@dataclass(frozen=True, slots=True, eq=False)
class Adverb:
    """One word in each language, except for what a Chinese one adds at the end (太…了)."""

    en: str
    fr: str
    zh: str
    zh_after: str = ""
    verbs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """A number, or a word that counts: many, every."""

    en: str
    fr: str
    zh: str


@dataclass(frozen=True, slots=True, eq=False)
class Preposition:
    """on: sur, 在…上."""

    en: tuple[str, ...]
    fr: tuple[str, ...]
    zh: str
    classes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Spot:
    """A place that needs no noun phrase: at home, in Paris."""

    en: Fragment
    en_to: Fragment
    fr: Fragment
    zh: Fragment
    goal: bool  # one can go there


@dataclass(frozen=True, slots=True, eq=False)
class Time:
    """When: the tenses it goes with, and whether it may open the sentence."""

    en: Fragment
    fr: Fragment
    zh: Fragment
    tenses: tuple[str, ...]
    front: bool


def fragment(text: str) -> Fragment:
    """Words with the numbers of the units they stand for; ``?`` before a number says: a possible link only.

    >>> fragment("la:?2 semaine:2 dernière:1")
    (('la', 0, 4), ('semaine', 4, 0), ('dernière', 2, 0))
    """
    words = []
    for part in text.split():
        word, _, numbers = part.partition(":")
        sure = possible = 0
        maybe = False
        for sign in numbers or "1":
            if sign == "?":
                maybe = True
                continue
            if sign not in "123":
                raise ArgumentError("text", f"unit {sign!r} in {part!r}", "units are 1, 2 and 3")
            if maybe:
                possible |= 1 << int(sign)
            else:
                sure |= 1 << int(sign)
            maybe = False
        words.append((word, sure, possible))
    return tuple(words)


def english_plural(word: str) -> str:
    """The regular plural.

    >>> [english_plural(word) for word in ("cat", "box", "city", "boy")]
    ['cats', 'boxes', 'cities', 'boys']
    """
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def french_plural(word: str) -> str:
    """The regular plural.

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
