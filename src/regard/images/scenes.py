"""Scenes of two to four objects on a canvas, with the place of each object and a caption.

An object is above another if all of its pixels are in higher rows and the columns of the two overlap, and to the left
of another if all of its pixels are in columns further left and the rows of the two overlap. These two relations exclude
each other. A scene begins with a pair of objects. A third object is placed beside the pair, across the axis on which
the pair was placed, so that its rows or columns overlap those of both objects. A fourth one is placed beside the three
in the same way. A straight line can therefore separate the objects in one way only, and a scene has one caption.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.errors import ArgumentError
from regard.images.scene_captions import caption_of
from regard.images.scene_objects import ObjectPictures

__all__ = ["Box", "Scene", "SceneObject", "Scenes"]

# (left, top, right, bottom) in pixels, without the last column and row.
Box = tuple[int, int, int, int]
# The longer side of an object as a share of the canvas, smallest and largest.
SIDES = (0.22, 0.31)
# Pixels between two objects, smallest and largest, as shares of the canvas.
GAPS = (0.03, 0.08)
# Rows or columns that an object shares with each of the two groups that it is placed beside, as a share of the canvas.
LEAST_SHARED = 0.06
# The names of the two sides on each axis, 0 for columns and 1 for rows.
_SIDE_NAMES = (("left", "right"), ("above", "below"))
_MOST_TRIES = 10_000


@dataclass(frozen=True)
class SceneObject:
    """An object of a scene.

    ``picture`` is the index of its picture among those of its word, and ``box`` its place on the canvas.
    """

    word: str
    picture: int
    box: Box


@dataclass(frozen=True)
class Scene:
    """The objects of a scene in the order of its caption, and their places relative to each other.

    ``places`` are those of :func:`regard.images.scene_captions.caption_of`.
    """

    number: int
    objects: tuple[SceneObject, ...]
    places: tuple[str, ...]

    def caption(self, language: str = "en") -> str:
        """Return the caption in a language, "en" or "zh"."""
        return caption_of([one.word for one in self.objects], self.places, language)


class Scenes:
    """Any number of scenes, each of which depends on the pictures, the seed, the size and its number alone.

    ``pictures`` are those of the objects, and ``size`` is the side of the square canvas in pixels.

    >>> scenes = Scenes(ObjectPictures.read(split="test"), seed=3)
    >>> scenes[0].caption() == scenes[0].caption() and scenes.pixels(scenes[0]).shape
    (64, 64)
    """

    def __init__(self, pictures: ObjectPictures, *, seed: int = 0, size: int = 64):
        if size < 32:
            raise ArgumentError("size", f"expected a canvas of 32 pixels or more, got {size}")
        self.pictures, self.seed, self.size = pictures, seed, size
        self.sides = (round(SIDES[0] * size), round(SIDES[1] * size))
        self.gaps = (round(GAPS[0] * size), round(GAPS[1] * size))
        self.shared = round(LEAST_SHARED * size)

    def __getitem__(self, number: int) -> Scene:
        """Return the scene with a number from 0 on."""
        if number < 0:
            raise IndexError(number)
        chance = random.Random(f"{self.seed} {self.size} {self.pictures.split} {number}")
        count = 2 + number % 3
        for _ in range(_MOST_TRIES):
            scene = self._drawn(chance, number, count)
            if scene is not None:
                return scene
        raise ArgumentError("size", f"no scene of {count} objects fits on a canvas of {self.size} pixels")

    def pixels(self, scene: Scene) -> np.ndarray:
        """Return the grey picture of a scene, ``(size,size)`` bytes with a black background."""
        canvas = np.zeros((self.size, self.size), dtype=np.uint8)
        for one in scene.objects:
            left, top, right, bottom = one.box
            place = canvas[top:bottom, left:right]
            drawn = self.pictures.resized(one.word, one.picture, (bottom - top, right - left))
            np.maximum(place, drawn, out=place)
        return canvas

    def _drawn(self, chance: random.Random, number: int, count: int) -> Scene | None:
        """Draw objects and an arrangement, and return the scene, or None if it does not fit on the canvas."""
        words = [chance.choice(self.pictures.words) for _ in range(count)]
        chosen = [chance.randrange(self.pictures.count(word)) for word in words]
        shapes = [
            self.pictures.shape(word, picture, chance.randint(*self.sides))
            for word, picture in zip(words, chosen, strict=True)
        ]
        found = _arranged(chance, shapes, self.gaps, self.shared)
        if found is None:
            return None
        boxes, places = found
        moved = self._on_canvas(chance, boxes)
        if moved is None:
            return None
        objects = (SceneObject(*parts) for parts in zip(words, chosen, moved, strict=True))
        return Scene(number, tuple(objects), places)

    def _on_canvas(self, chance: random.Random, boxes: list[list[int]]) -> list[Box] | None:
        """Move all boxes to a random place of the canvas together, with a free pixel at its border."""
        moves = []
        for axis in (0, 1):
            low, high = min(box[axis] for box in boxes), max(box[axis + 2] for box in boxes)
            room = self.size - 2 - (high - low)
            if room < 0:
                return None
            moves.append(1 + chance.randint(0, room) - low)
        x, y = moves
        return [(left + x, top + y, right + x, bottom + y) for left, top, right, bottom in boxes]


def _arranged(
    chance: random.Random, shapes: Sequence[tuple[int, int]], gaps: tuple[int, int], shared: int
) -> tuple[list[list[int]], tuple[str, ...]] | None:
    """Arrange objects of these (height, width), and return their boxes and places, or None if one finds no place.

    ``shared`` is the least number of rows or columns that a new object shares with both groups beside it.
    """
    axis = chance.randint(0, 1)
    boxes, places = _pair(chance, shapes[0], shapes[1], axis, chance.randint(*gaps)), [_SIDE_NAMES[axis][0]]
    # The groups before and after the line that separates the objects so far on the axis.
    low, high = boxes[:1], boxes[1:]
    for height, width in shapes[2:]:
        sides = (width, height)
        # The new object crosses the line, and shares pixels with the nearest rows or columns of both groups.
        first = min(box[axis] for box in high) + shared - sides[axis]
        last = max(box[axis + 2] for box in low) - shared
        if first > last:
            return None
        start = [0, 0]
        start[axis] = chance.randint(first, last)
        across, after = 1 - axis, chance.random() < 0.5
        gap = chance.randint(*gaps)
        if after:
            start[across] = max(box[across + 2] for box in boxes) + gap
        else:
            start[across] = min(box[across] for box in boxes) - gap - sides[across]
        new = [*start, start[0] + width, start[1] + height]
        low, high = (boxes, [new]) if after else ([new], boxes)
        boxes, axis = [*boxes, new], across
        places.append(_SIDE_NAMES[axis][after])
    return boxes, tuple(places)


def _pair(
    chance: random.Random, first: tuple[int, int], second: tuple[int, int], axis: int, gap: int
) -> list[list[int]]:
    """Return the boxes of two objects of these (height, width), the first one before the second on an axis.

    On the other axis they overlap by at least half of the smaller one.
    """
    one, two = (first[1], first[0]), (second[1], second[0])  # (width, height)
    across = 1 - axis
    half = min(one[across], two[across]) / 2
    start = [0, 0]
    start[axis] = one[axis] + gap
    start[across] = chance.randint(math.ceil(half) - two[across], int(one[across] - half))
    return [[0, 0, *one], [*start, start[0] + two[0], start[1] + two[1]]]
