"""Exact captions by number of objects, and the place of the attention when the word of an object is written."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from regard.decoding import DecodingOptions
from regard.errors import ArgumentError, option
from regard.images.scene_captions import mentions
from regard.images.scenes import Box
from regard.tasks.caption.captioner import Caption, Captioner, tokens_in
from regard.tasks.caption.data import SceneSource, picture_problem
from regard.tasks.caption.settings import CaptionEvaluationSettings
from regard.tasks.measuring import check_out, rows_to_measure, scores_as_json, write_predictions
from regard.tasks.pairs import Pair
from regard.text import Skipped

__all__ = [
    "CaptionReport",
    "CaptionScores",
    "cells_by_box",
    "evaluate_captioners",
    "on_objects",
    "peak_scores",
]

SCENES = 1000  # composed scenes that are measured on, if no limit is given


@dataclass(frozen=True)
class CaptionScores:
    """The scores of one captioner, in percent.

    ``exact`` is the share of captions that are exactly right, and ``by_objects`` that share for each number of objects.
    ``on_object`` is the share of the ``mentions``, the words of objects that the model wrote, at which the cell with
    the largest weight lies on that object. ``at_random`` is the share that a random cell would have. Both are None
    without attention, and for pictures whose objects are not known.
    """

    pictures: int
    exact: float
    by_objects: dict[int, float] = field(default_factory=dict)
    mentions: int = 0
    on_object: float | None = None
    at_random: float | None = None
    seconds: float = 0.0
    captions: list[str] = field(default_factory=list, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as a JSON object."""
        shown = {
            name: value for name, value in vars(self).items() if name != "captions" and value is not None
        }
        return {**shown, "by_objects": {str(count): share for count, share in self.by_objects.items()}}


@dataclass(frozen=True)
class CaptionReport:
    """The scores of one captioner, or of several on the same pictures."""

    measured_on: str
    scores: dict[str, CaptionScores]
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers of the first model, with those of the others under ``compared``."""
        return {"measured_on": self.measured_on, **scores_as_json(self.scores)}

    def __str__(self) -> str:
        first = next(iter(self.scores.values()))
        wide = max(5, *map(len, self.scores))
        counts = list(first.by_objects)
        heads = "".join(f"{f'{count} objects':>11}" for count in counts)
        attends = any(one.on_object is not None for one in self.scores.values())
        lines = [f"measured on {self.measured_on}"]
        lines.append(f"{'':{wide}}  {'exact':>7}{heads}{'  peak on object' if attends else ''}")
        for name, one in self.scores.items():
            parts = "".join(f"{one.by_objects[count]:9.2f} %" for count in counts)
            peak = "" if one.on_object is None else f"{one.on_object:14.2f} %"
            lines.append(f"{name:{wide}}  {one.exact:5.2f} %{parts}{peak}")
        if attends:
            shown = next(one for one in self.scores.values() if one.at_random is not None)
            lines.append(
                "peak on object: the share of the words of objects at which the cell with the largest weight lies on "
                f"that object (a random cell: {shown.at_random:.2f} %)"
            )
        return "\n".join(lines)


def evaluate_captioners(
    captioners: Mapping[str, Captioner], options: CaptionEvaluationSettings
) -> CaptionReport:
    """Measure captioners by name on the same pictures."""
    check_out(options)
    (first_name, first), *others = captioners.items()
    skipped = Skipped()
    scenes = None if options.data else _scenes(first, options)
    for name, other in others:
        _check_same(first_name, first, name, other, scenes)
    rows, where = _rows(options, scenes, skipped)
    scores = {name: _scores(one, rows, options, scenes) for name, one in captioners.items()}
    write_predictions(options, scores[first_name].captions)
    return CaptionReport(where, scores, [f"not measured: {skipped}"] if skipped.total else [])


def _check_same(
    first_name: str, first: Captioner, name: str, other: Captioner, scenes: SceneSource | None
) -> None:
    """Raise ArgumentError if two captioners cannot be measured on the same scenes."""
    if scenes is None:
        return
    for part in ("words", "language", "objects"):
        if first.extra.get(part) != other.extra.get(part):
            raise ArgumentError("compare", f"{name} was trained on scenes of other {part} than {first_name}")
    if first.reader.shape[:2] != other.reader.shape[:2]:
        raise ArgumentError("compare", f"{name} reads pictures of another size than {first_name}")


def _scenes(captioner: Captioner, options: CaptionEvaluationSettings) -> SceneSource:
    """Return scenes of test pictures like those that a captioner was trained on."""
    words = captioner.extra.get("words")
    if words is None:
        problem = "not given, and the model was not trained on scenes"
        raise ArgumentError("data", problem, "name captioned pictures to measure on")
    for name in ("digits", "garments"):
        if name in captioner.extra.get("objects", ()) and getattr(options, name) is None:
            problem = "not given, but the model was trained on scenes with such pictures"
            raise ArgumentError(name, problem, f"name their folder with {option(name)}")
    return SceneSource(
        options.digits,
        options.garments,
        words=words,
        seed=options.embedded_seed,
        size=captioner.reader.shape[0],
        language=captioner.extra.get("language", "en"),
    )


def _rows(
    options: CaptionEvaluationSettings, scenes: SceneSource | None, skipped: Skipped
) -> tuple[list[Pair], str]:
    """Return the names of the pictures to measure on with their captions, and a description of them."""
    if scenes is not None:

        def embedded() -> Iterable[Pair]:
            return scenes.rows("test", max(options.limit, SCENES))

        rows = rows_to_measure(options, skipped, embedded=embedded)
        return rows, f"{len(rows):,} scenes of pictures that are not trained on"
    folder = Path(options.images) if options.images else Path(options.data or "").parent

    def problem(file: str, _caption: str) -> str:
        return picture_problem(str(folder / file.strip()))

    found = rows_to_measure(options, skipped, check=problem)
    rows = [(str(folder / file.strip()), " ".join(caption.split())) for file, caption in found]
    return rows, f"{len(rows):,} pictures of {options.data}"


def _scores(
    captioner: Captioner,
    rows: Sequence[Pair],
    options: CaptionEvaluationSettings,
    scenes: SceneSource | None,
) -> CaptionScores:
    if not rows:
        raise ArgumentError("data", "there is nothing to measure on")
    captioner.reader.scenes = scenes
    began = time.perf_counter()
    found = captioner.caption([name for name, _ in rows], DecodingOptions(beams=options.beams))
    seconds = time.perf_counter() - began
    right = [captioner.is_exact(one, caption) for one, (_, caption) in zip(found, rows, strict=True)]
    values: dict[str, Any] = {"seconds": seconds, "captions": [one.text for one in found]}
    if scenes is not None:
        boxes = [scenes.boxes(name) for name, _ in rows]
        values["by_objects"] = _by_objects(right, boxes)
        if captioner.attends:
            values |= peak_scores(captioner, found, boxes, scenes.language)
    return CaptionScores(len(rows), 100 * sum(right) / len(rows), **values)


def _by_objects(right: Sequence[bool], boxes: Sequence[Sequence[Box]]) -> dict[int, float]:
    """Return the percentage of exact captions for each number of objects."""
    by_count: dict[int, list[bool]] = {}
    for is_right, several in zip(right, boxes, strict=True):
        by_count.setdefault(len(several), []).append(is_right)
    return {count: 100 * sum(some) / len(some) for count, some in sorted(by_count.items())}


def peak_scores(
    captioner: Captioner, found: Sequence[Caption], boxes: Sequence[Sequence[Box]], language: str
) -> dict[str, Any]:
    """Return the number of mentions, and the shares of peaks and of random cells on the mentioned objects.

    ``boxes`` are those of the objects of each picture, in the order of its right caption. Without a mention, the result
    is empty.
    """
    height, width, _ = captioner.reader.shape
    hits: list[bool] = []
    chances: list[float] = []
    all_weights = captioner.weights_of(found)
    for one, weights, several in zip(found, all_weights, boxes, strict=True):
        spans = captioner.spans_of(one.text, one.target_ids)
        peaks = [
            int(weights[tokens_in(spans, (mention.start, mention.end))].mean(axis=0).argmax())
            for mention in mentions(one.text, language)
        ]
        covers = cells_by_box(several, captioner.model.config.grid, (height, width))
        hits += on_objects(peaks, covers)
        chances += [float((covers == place).mean()) for place in range(min(len(peaks), len(several)))]
    if not hits:
        return {}
    at_random = 100 * sum(chances) / len(hits)
    return {"mentions": len(hits), "on_object": 100 * sum(hits) / len(hits), "at_random": at_random}


def cells_by_box(boxes: Sequence[Box], grid: tuple[int, int], size: tuple[int, int]) -> np.ndarray:
    """Return the index of the box that covers most of each cell, or -1 for a cell that no box touches, ``(cells,)``.

    ``grid`` is the (rows, columns) of cells over a picture with ``size`` (height, width).

    >>> cells_by_box([(0, 0, 5, 4), (5, 0, 8, 4)], (2, 2), (8, 8)).reshape(2, 2)
    array([[ 0,  1],
           [-1, -1]])
    """
    rows, columns = grid
    high, wide = size[0] / rows, size[1] / columns
    tops, lefts = np.arange(rows) * high, np.arange(columns) * wide
    areas = np.zeros((len(boxes), rows, columns))  # (boxes,rows,columns)
    for place, (left, top, right, bottom) in enumerate(boxes):
        overlap_y = np.clip(np.minimum(tops + high, bottom) - np.maximum(tops, top), 0, None)  # (rows,)
        overlap_x = np.clip(np.minimum(lefts + wide, right) - np.maximum(lefts, left), 0, None)  # (columns,)
        areas[place] = overlap_y[:, None] * overlap_x
    covers = areas.argmax(axis=0)  # (rows,columns)
    return np.where(areas.max(axis=0, initial=0) > 0, covers, -1).reshape(-1)


def on_objects(peaks: Sequence[int], covers: np.ndarray) -> list[bool]:
    """Return for each mention whether its peak lies on the object that it is about.

    ``peaks`` are the cells with the largest weights at the words of objects. The n-th mention is about the n-th object,
    and one beyond the number of objects is about none. ``covers`` is the result of :func:`cells_by_box`.

    >>> on_objects([0, 0, 3], np.array([0, 1, -1, -1]))
    [True, False, False]
    """
    return [int(covers[cell]) == place for place, cell in enumerate(peaks)]
