"""The words of scenes, read from the text files of this folder."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

__all__ = ["Action", "Adjective", "Clothing", "Noun", "Thing", "Words", "words"]

HEADWEAR = frozenset(
    [
        "眼镜",
        "太阳镜",
        "护目镜",
        "帽子",
        "鸭舌帽",
        "棒球帽",
        "头盔",
        "安全帽",
        "牛仔帽",
        "毛线帽",
        "围巾",
        "头巾",
        "发带",
        "领带",
        "面具",
        "假发",
        "手套",
    ]
)


class Noun(NamedTuple):
    """A person or an animal."""

    english: str
    english_plural: str
    french: str
    french_plural: str
    gender: str
    chinese: str  # without classifier
    classifier: str


class Thing(NamedTuple):
    """An object."""

    english: str
    french: str
    gender: str
    chinese: str
    classifier: str


class Clothing(NamedTuple):
    """A piece of clothing. ``number`` is that of the English noun, and ``form`` the French gender and number."""

    english: str
    number: str
    french: str
    form: str
    chinese: str
    way: str


class Adjective(NamedTuple):
    """An adjective. ``french`` has the masculine, the feminine and the two plurals."""

    english: str
    french: tuple[str, ...]
    chinese: str
    before: bool


class Action(NamedTuple):
    """A verb phrase. ``placed`` is whether a place may follow it."""

    english: str
    french: str
    chinese: str
    placed: bool


class Words(NamedTuple):
    """All words of scenes."""

    people: tuple[Noun, ...]
    animals: tuple[Noun, ...]
    clothes: tuple[Clothing, ...]
    colours: tuple[Adjective, ...]
    looks: tuple[Adjective, ...]
    objects: tuple[Thing, ...]
    places: tuple[tuple[str, str, str], ...]
    actions: tuple[Action, ...]
    animal_actions: tuple[Action, ...]


def _rows(name: str) -> list[list[str]]:
    lines = (Path(__file__).parent / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line.split(" | ") for line in lines if line and not line.startswith("#")]


def _action(english: str, french: str, chinese: str) -> Action:
    return Action(english.removesuffix(" ~"), french, chinese, not english.endswith(" ~"))


@functools.cache
def words() -> Words:
    """Return the words of the text files."""
    animals = _rows("animals")
    return Words(
        people=tuple(Noun(*row, classifier="个") for row in _rows("people")),
        animals=tuple(
            Noun(*row[:5], chinese=row[5][1:], classifier=row[5][0]) for row in animals if len(row) == 6
        ),
        clothes=tuple(Clothing(*row) for row in _rows("clothes")),
        colours=tuple(Adjective(row[0], tuple(row[1].split("/")), row[2], False) for row in _rows("colours")),
        looks=tuple(
            Adjective(row[0], tuple(row[1].split("/")), row[2], row[3] == "before") for row in _rows("looks")
        ),
        objects=tuple(Thing(*row[:3], chinese=row[3][1:], classifier=row[3][0]) for row in _rows("objects")),
        places=tuple((english, french, chinese) for english, french, chinese in _rows("places")),
        actions=tuple(_action(*row) for row in _rows("actions")),
        animal_actions=tuple(_action(*row) for row in animals if len(row) == 3),
    )
