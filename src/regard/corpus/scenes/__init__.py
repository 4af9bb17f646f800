"""Sentences that describe pictures, of people, their clothes and actions, places and animals, in three languages.

>>> for texts in generate_scenes(2, seed=1):
...     print(*texts)
A man squats in the ocean. Un homme est accroupi dans l'océan. 一个男人蹲在海里。
A tan puppy swimming in a lake. Un chiot beige nageant dans un lac. 一只在湖里游泳的棕褐色的小狗。
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from regard.corpus.scenes.inflection import french_verb, present
from regard.corpus.scenes.subjects import CHILDREN, Subject, make_subject, make_thing
from regard.corpus.scenes.words import Action, words
from regard.errors import ArgumentError

__all__ = ["generate_scenes"]

# Repetitions after which the generator stops.
_PATIENCE = 100_000
_POSTURES = frozenset(["sitting", "standing", "lying", "kneeling", "crouching", "leaning", "squatting"]) | {
    "lying down"
}
_OF_ADULTS = frozenset(("smoking", "smoking a cigarette", "drinking beer", "drinking wine"))
_TOGETHER = frozenset(
    (
        *(
            "talking to each other",
            "kissing",
            "hugging",
            "holding hands",
            "shaking hands",
            "gathering",
            "meeting",
        ),
        *("having a conversation", "fighting"),
    )
)
_FOOD = frozenset(["sandwich", "hot dog", "pizza", "cake", "ice cream cone", "apple", "banana", "watermelon"])
_BACKGROUNDS = (
    ("with trees in the background", "avec des arbres à l'arrière-plan", "背景里有树"),
    ("with buildings in the background", "avec des bâtiments à l'arrière-plan", "背景里有建筑物"),
    ("with mountains in the background", "avec des montagnes à l'arrière-plan", "背景里有山"),
    ("with people in the background", "avec des gens à l'arrière-plan", "背景里有人"),
    ("while others watch", "pendant que d'autres regardent", "其他人在看"),
    ("as people watch", "sous le regard des gens", "人们在看"),
)


def generate_scenes(count: int, *, seed: int = 0) -> Iterator[tuple[str, str, str]]:
    """Yield ``count`` different descriptions as (English, French, Chinese).

    The same arguments give the same sentences on every machine.
    """
    if count < 0:
        raise ArgumentError("count", f"expected 0 or more sentences, got {count}")
    return _stream(count, Random(f"scenes {seed}"))


def _stream(count: int, random: Random) -> Iterator[tuple[str, str, str]]:
    seen: set[str] = set()
    repeated = 0
    while len(seen) < count and repeated < _PATIENCE:
        texts = _scene(random)
        if texts[0] in seen:
            repeated += 1
            continue
        seen.add(texts[0])
        yield texts


def _scene(random: Random) -> tuple[str, str, str]:
    draw = random.random()
    if draw < 0.05:
        return _while(random)
    english, french, chinese = _clause(random, bare=draw < 0.35)
    if draw > 0.96:
        further = random.choice(_BACKGROUNDS)
        english, french, chinese = (
            f"{english} {further[0]}",
            f"{french} {further[1]}",
            f"{chinese}，{further[2]}",
        )
    return _written(english, french, chinese)


def _while(random: Random) -> tuple[str, str, str]:
    """Return two clauses that are joined by "while"."""
    first, second = (_clause(random, bare=False, short=True) for _ in range(2))
    english = f"{first[0]} while {second[0]}"
    que = "pendant qu'" if second[1].startswith("un") else "pendant que "
    return _written(english, f"{first[1]} {que}{second[1]}", f"{first[2]}，{second[2]}")


def _written(english: str, french: str, chinese: str) -> tuple[str, str, str]:
    return f"{english[0].upper()}{english[1:]}.", f"{french[0].upper()}{french[1:]}.", f"{chinese}。"


def _clause(random: Random, *, bare: bool, short: bool = False) -> tuple[str, str, str]:
    """Return a subject with an action. ``bare`` gives a noun phrase without a finite verb."""
    animal = random.random() < 0.13
    subject = make_subject(random, animal=animal)
    action = _fitting(random, subject, animal)
    english, french, chinese = action.english, action.french, action.chinese
    if "{x}" in english:
        food = [one for one in words().objects if one.english in _FOOD]
        thing = make_thing(random, food if english.startswith("eating") else None)
        english, french, chinese = (
            text.replace("{x}", word) for text, word in zip((english, french, chinese), thing, strict=True)
        )
    posture = action.english in _POSTURES
    place = None
    if posture or (action.placed and random.random() < (0.3 if short else 0.7)):
        place = random.choice(words().places)
    verb = _english_verb(random, subject, english, bare)
    spoken = _french_verb(french, subject, bare)
    if place is not None:
        verb, spoken = f"{verb} {place[0]}", f"{spoken} {place[1]}"
    said = _chinese_clause(subject, chinese, place[2] if place else "", posture, bare)
    return f"{subject.english} {verb}", f"{subject.french} {spoken}", said


def _fitting(random: Random, subject: Subject, animal: bool) -> Action:
    """Return an action that fits the number and gender of the subject."""
    actions = words().animal_actions if animal else words().actions
    while True:
        action = random.choice(actions)
        if not animal and random.random() < 0.12:
            return random.choice([one for one in actions if one.english in _POSTURES])
        english, french = f" {action.english} ", f" {action.french} "
        one_only = any(word in english + french for word in (" son ", " ses ", " its ", " his ", " her "))
        wrong = " his " in english if subject.gender == "f" else " her " in english
        single = not subject.plural and not subject.english.startswith("a group")
        unfit = wrong or (one_only and not single) or (action.english in _TOGETHER and not subject.plural)
        unfit = unfit or (action.english in _OF_ADULTS and not CHILDREN.isdisjoint(subject.english.split()))
        if not unfit:
            return action


def _english_verb(random: Random, subject: Subject, phrase: str, bare: bool) -> str:
    if bare:
        return phrase
    if random.random() < 0.4:
        return present(phrase, plural=subject.english_plural)
    return f"{'are' if subject.english_plural else 'is'} {phrase}"


def _french_verb(phrase: str, subject: Subject, bare: bool) -> str:
    if not phrase.startswith("="):
        return french_verb(phrase, plural=subject.plural, participle=bare)
    word, ending = (
        phrase[1:],
        "e" if subject.gender == "f" and not subject.french.startswith("un groupe") else "",
    )
    ending += "s" if subject.plural and not (word + ending).endswith("s") else ""
    if bare:
        return word + ending
    return f"{'sont' if subject.plural else 'est'} {word}{ending}"


def _chinese_clause(subject: Subject, verb: str, place: str, posture: bool, bare: bool) -> str:
    start, noun = subject.chinese
    if posture:
        said = f"{verb}在{place}"
    elif place:
        said = f"在{place}{verb}"
    else:
        said = verb
    if bare and start:
        return f"{start}{said}的{noun}"
    if not posture and "着" not in verb and not said.startswith("在"):
        said = f"正在{said}"
    elif said.startswith("在") and "着" not in verb:
        said = f"正{said}"
    return start + noun + said
