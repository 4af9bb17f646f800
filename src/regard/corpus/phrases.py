"""Random generation of noun phrases, adjectives, places and times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from random import Random
from typing import TypeVar

from regard.corpus.lexemes import Adjective, Noun, Preposition
from regard.corpus.lexicon.adjectives import BESIDE, DEGREES, PREDICATE
from regard.corpus.lexicon.function_words import BY_TENSE, PREPOSITIONS, PRONOUNS, SPOTS, TOWARDS
from regard.corpus.lexicon.nouns import BY_CLASS, NOUNS
from regard.corpus.meaning import Pair, Person, Phrase, Place, Quality, Thing, Units, When

__all__ = ["HUMAN", "PhraseMaker", "qualities_of", "weighted"]

T = TypeVar("T")

HUMAN = frozenset(("person", "adult", "young"))


def weighted(**weights: int) -> tuple[str, ...]:
    """Repeat each name as often as its weight, so that a uniform choice is weighted."""
    return tuple(name for name, weight in weights.items() for _ in range(weight))


_COMMON = tuple(noun for noun in BY_CLASS["person"] if not noun.name)
_SPEAKERS = weighted(I=4, you=3, he=3, she=3, we=2, they=2)
_LATE_SPEAKERS = weighted(I=4, you=3, he=3, she=3, we=2)
_OBJECTS = weighted(I=3, you=2, he=3, she=3, we=2, they=2)
_NUMBERS = weighted(two=4, three=3, four=1, five=1, six=1, ten=1)
_WHOLES = tuple(
    NOUNS[name] for name in ("house", "church", "school", "hotel", "castle", "station", "hospital", "library")
)
_DETERMINERS = {
    "subject": weighted(the=50, own=18, this=6, that=4, a=6, number=4, many=2, every=3, owner=7),
    "topic": weighted(the=60, own=18, this=8, that=6, owner=8),
    "object": weighted(the=30, own=14, this=5, that=3, a=28, number=5, many=3, some=3, bare=10, owner=4),
    "not": weighted(the=36, own=16, this=6, that=4, a=22, bare=12, owner=4),
    "place": weighted(the=70, own=10, this=6, that=4, a=8, owner=2),
    "person": weighted(the=52, own=26, this=5, that=4, a=8, owner=5),
    "there": weighted(a=60, number=22, many=10, some=8),
}
_MASS = {
    "subject": weighted(the=60, own=25, this=15),
    "topic": weighted(the=60, own=18, this=8, that=6, owner=8),
    "object": weighted(the=30, own=10, some=15, bare=45),
    "not": weighted(the=35, own=10, bare=55),
    "there": weighted(some=100),
}
_KIN = weighted(own=8, owner=2, number=1, a=1)
_SIZES = "大小老新"
_MAYBE_PLURAL = frozenset(("the", "own", "this", "that", "owner"))
_ALWAYS_PLURAL = frozenset(("number", "many", "bare"))


@cache
def qualities_of(classes: frozenset[str], beside: bool) -> tuple[Adjective, ...]:
    """Return the adjectives for nouns of these classes, next to the noun if ``beside``, else as predicate."""
    table = BESIDE if beside else PREDICATE
    return tuple(dict.fromkeys(each for name in sorted(classes) for each in table.get(name, ())))


@cache
def _sites(preposition: Preposition, event: bool, human: bool = False) -> tuple[Noun, ...]:
    """Return the nouns that a preposition combines with to a place.

    For events these are only places. For a ``human`` subject, small containers are excluded.
    """
    nouns = dict.fromkeys(noun for name in preposition.classes for noun in BY_CLASS[name])
    large = (noun for noun in nouns if not (human and "hollow" in noun.classes))
    return tuple(noun for noun in large if not event or "place" in noun.classes)


_EVENT = (
    tuple(each for each in PREPOSITIONS if _sites(each, True) and each.en != ("on",)) + (PREPOSITIONS[1],) * 2
)
_STILL = (*PREPOSITIONS, PREPOSITIONS[0], PREPOSITIONS[0], PREPOSITIONS[1])
_NEAR_SPOTS = tuple(spot for spot in SPOTS if not spot.goal)
_GOAL_SPOTS = tuple(spot for spot in SPOTS if spot.goal)


@cache
def _owned(noun: Noun) -> bool:
    """Return whether the noun takes a possessive, unlike a wolf, a bridge or a soldier."""
    classes = noun.classes
    if noun.human:
        return bool(classes & {"kin", "spouse", "hired"})
    if "place" in classes:
        return "owned" in classes
    if "vehicle" in classes:
        return "fixed" in classes or "built" in classes
    return not classes & {"wild", "sky"} and noun.en != "tree"


class PhraseMaker:
    """A random generator of the phrases of a sentence."""

    def __init__(self, random: Random) -> None:
        self.random = random.random
        self.units = Units()
        # True in sentences of several clauses, where the antecedent of `them` would be ambiguous.
        self.joining = False

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options at random."""
        return options[int(self.random() * len(options))]

    def chance(self, share: float) -> bool:
        """Return True with the probability ``share``."""
        return self.random() < share

    def person(self, key: str) -> Person:
        """Return the pronoun of a key of PRONOUNS, such as "I", "they f" or "who", with a new unit."""
        return Person(PRONOUNS[key], self.units.take())

    def name(self) -> Thing:
        """Generate a first name."""
        return Thing(self.pick(BY_CLASS["name"]), self.units.take(), "none", 0)

    def speaker(self, late: bool) -> Phrase:
        """Generate a human subject, which is a pronoun, a name, a noun, or a pair.

        With ``late`` (after another clause), `they` is excluded because it would refer back.
        """
        chance = self.random()
        if chance < 0.45:
            return self.person(self.pick(_LATE_SPEAKERS if late else _SPEAKERS))
        if chance < 0.64:
            return self.name()
        if chance < 0.68:
            return self.pair()
        return self.thing(self.pick(_COMMON), "subject")

    def pair(self) -> Pair:
        """Generate two people joined by `and`."""
        first = self.name() if self.chance(0.6) else self.thing(self.pick(_COMMON), "person", plain=True)
        second = self.name()
        if first.noun is second.noun:
            second = self.thing(self.pick(BY_CLASS["kin"]), "person", plain=True)
        return Pair(first, second, self.units.take())

    def other(self, subject: Phrase | None, classes: Iterable[str]) -> Phrase:
        """Generate a human object, whose name or first or second person differs from the subject.

        ``classes`` are the noun classes that the verb takes. With "job" or "kin" among them, there is no pronoun.
        """
        if self.chance(0.45) and not {"job", "kin"} & set(classes):
            key = self.pick(_OBJECTS[:-2] if self.joining else _OBJECTS)
            person = PRONOUNS[key].person
            if person == 3 or person != (subject.person if subject is not None else 2):
                return self.person(key)
        if self.chance(0.4):
            name = self.name()
            if not (isinstance(subject, Thing) and subject.noun is name.noun) and not isinstance(
                subject, Pair
            ):
                return name
        return self.thing(self.pick(_COMMON), "person")

    def thing(self, noun: Noun, role: str, *, plain: bool = False, owner: str = "") -> Thing:
        """Generate a noun phrase with a determiner for its role, and perhaps an adjective.

        ``role`` is a key of _DETERMINERS. ``plain`` excludes adjectives. ``owner`` is the key of the preferred
        possessive pronoun, or empty.
        """
        units = self.units
        if noun.name:
            return Thing(noun, units.take(), "none", 0)
        classes = noun.classes
        name = self._determiner(noun, role)
        plural = name in _ALWAYS_PLURAL or (name in _MAYBE_PLURAL and self.chance(0.22)) or name == "some"
        if noun.mass or (plural and "single" in classes and name != "number"):
            plural = False
        if role == "place" and plural and self.chance(0.8):
            plural = False
        thing = Thing(noun, units.take(), name, units.take(), plural)
        if name == "number":
            thing.determiner = self.pick(_NUMBERS)
        elif name == "own":
            thing.determiner = owner if owner and self.chance(0.6) else self.pick(_SPEAKERS)
            if "spouse" in classes:
                thing.determiner = self.pick(("I", "you", "he")) if noun.gender == "f" else "she"
        elif name == "owner":
            thing.owner = self._owner(noun)
            thing.unit_determiner = 0
            thing.of_unit = units.take()
        if "part" in classes and name == "the" and self.chance(0.5):
            self._whole(thing)
        if not plain and "language" not in classes and self.chance(0.22):
            self._attributes(thing)
        return thing

    def _determiner(self, noun: Noun, role: str) -> str:
        classes = noun.classes
        if "kin" in classes and "met" not in classes:
            return self.pick(_KIN if role == "object" else _KIN[:-2])
        if "one" in classes:
            return "bare" if "language" in classes else "the"
        if "spouse" in classes:
            return "own"
        if "music" in classes and role in ("object", "not"):
            return "the"
        if noun.mass:
            return self.pick(_MASS.get(role, _MASS["subject"]))
        name = self.pick(_DETERMINERS[role])
        return "the" if name in ("own", "owner") and not _owned(noun) else name

    def _owner(self, noun: Noun) -> Thing:
        if self.chance(0.6):
            return self.name()
        other = self.pick(_COMMON)
        if other is noun or "spouse" in other.classes:
            return self.name()
        units = self.units
        key = self.pick(_SPEAKERS) if "kin" in other.classes else "the"
        return Thing(other, units.take(), key, units.take())

    def _whole(self, thing: Thing) -> None:
        units = self.units
        thing.of_unit = units.take()
        thing.whole = Thing(self.pick(_WHOLES), units.take(), "the", units.take())

    def _attributes(self, thing: Thing) -> None:
        options = qualities_of(thing.noun.classes, True)
        if not options:
            return
        first = self.pick(options)
        # Repeated characters such as 大大学 and 老老师 are not idiomatic.
        if first.style == "bare" and thing.noun.zh[0] in _SIZES:
            return
        thing.quality = Quality(first, self.units.take())
        if self.chance(0.15):
            second = self.pick(options)
            if first.before and not second.before and second.style != "bare":
                thing.second = Quality(second, self.units.take())

    def quality(self, options: Sequence[Adjective], plain: bool = False) -> Quality:
        """Choose an adjective, with a degree adverb at random unless ``plain`` (tired, very tired)."""
        adjective = self.pick(options)
        quality = Quality(adjective, self.units.take())
        if not plain and adjective.style in ("bare", "de") and self.chance(0.3):
            quality.degree, quality.degree_unit = self.pick(DEGREES), self.units.take()
        return quality

    def place(self, event: bool, near: bool = False, human: bool = False) -> Place:
        """Generate the place of an ``event``, or the location of a person or thing.

        ``near`` excludes towns and countries. ``human`` excludes small containers.
        """
        if self.chance(0.2):
            return Place(self.units.take_three(), spot=self.pick(_NEAR_SPOTS if near else SPOTS))
        preposition = self.pick(_EVENT if event else _STILL)
        noun = self.pick(_sites(preposition, event, human))
        place = Place(self.units.take(), preposition, self.thing(noun, "place"))
        return self._at_the(place) if preposition.fr == ("à",) else place

    def site(self, preposition: Preposition, name: str) -> Place:
        """Generate a place with a noun of the class ``name`` (in the river)."""
        return Place(self.units.take(), preposition, self.thing(self.pick(BY_CLASS[name]), "place"))

    def goal(self, near: bool = False) -> Place:
        """Generate the goal of a motion.

        ``near`` excludes towns and countries.
        """
        if not near and self.chance(0.3):
            return Place(self.units.take_three(), spot=self.pick(_GOAL_SPOTS))
        return self._at_the(
            Place(self.units.take(), TOWARDS, self.thing(self.pick(BY_CLASS["goal"]), "place"))
        )

    def _at_the(self, place: Place) -> Place:
        """Make the noun of a place singular and not indefinite, because French says au musée but not à un musée."""
        thing = place.phrase
        if thing is not None and (thing.plural or thing.determiner == "a"):
            thing.plural = False
            thing.determiner = "the" if thing.determiner == "a" else thing.determiner
        return place

    def when(self, tense: str, may_open: bool) -> When:
        """Generate a time for the tense, at the end or, if ``may_open``, sometimes at the front."""
        time = self.pick(BY_TENSE[tense])
        return When(time, self.units.take_three(), may_open and time.front and self.chance(0.25))
