"""The places of picture tokens in a document, and the images that the user gave for the pictures."""

from __future__ import annotations

from typing import Any

from regard.errors import ArgumentError
from regard.maps import PictureLayout

__all__ = ["LayoutTable", "check_pictures"]


class LayoutTable:
    """The layouts of a document, in which equal layouts are stored once."""

    def __init__(self) -> None:
        self.layouts: list[PictureLayout] = []

    def add(self, layout: PictureLayout | None) -> int | None:
        """Store a layout, and return its index, or None for None."""
        if layout is None:
            return None
        if layout not in self.layouts:
            self.layouts.append(layout)
        return self.layouts.index(layout)

    def specs(self, images: int) -> list[dict[str, Any]]:
        """Return the layouts as JSON values, with the image of each grid of patches."""
        found = []
        for layout in self.layouts:
            spec = layout.spec()
            of = image_numbers(layout, images)
            for grids in spec["sequences"]:
                for grid in grids:
                    grid["image"] = of.get(grid["picture"])
            found.append(spec)
        return found


def image_numbers(layout: PictureLayout, images: int) -> dict[int, int]:
    """Return the number of the image of each picture, or nothing if the images do not fit.

    There is an image for each picture, or one for each picture of the prompts where a search repeats every prompt.

    >>> from regard.maps import PatchGrid
    >>> grids = [PatchGrid(picture=n, grid=(1, 1), keys=(0,), size=(2, 2), box=(0, 0, 2, 2)) for n in range(4)]
    >>> repeated = PictureLayout(sequences=tuple((grid,) for grid in grids))
    >>> image_numbers(repeated, 4), image_numbers(repeated, 2), image_numbers(repeated, 3)
    ({0: 0, 1: 1, 2: 2, 3: 3}, {0: 0, 1: 0, 2: 1, 3: 1}, {})
    """
    count = layout.count
    if images == count:
        return {n: n for n in range(count)}
    times = count // images if images else 0
    if not times or times * images != count or len(layout.sequences) % times:
        return {}
    found: dict[int, int] = {}
    first = 0
    for start in range(0, len(layout.sequences), times):
        rows = [sorted({grid.picture for grid in grids}) for grids in layout.sequences[start : start + times]]
        if len({len(row) for row in rows}) != 1:
            return {}
        found |= {picture: first + n for row in rows for n, picture in enumerate(row)}
        first += len(rows[0])
    return found


def check_pictures(count: int, records: list[dict[str, Any]], layouts: LayoutTable) -> None:
    """Raise ArgumentError unless there are no images, or one for each picture of the records with patches."""
    if not count:
        return
    placed = [layout for layout in layouts.layouts if any(layout.sequences)]
    if placed:
        counts = sorted({layout.count for layout in placed})
        if not any(image_numbers(layout, count) for layout in placed):
            expected = " or ".join(map(str, counts))
            problem = f"{count} images for {expected} pictures that the model was given"
            raise ArgumentError("images", problem, "one for each picture, in the order of the prompts")
        return
    batches = {entry["shape"][0] for entry in records if entry["queryGrid"] or entry["keyGrid"]}
    reasons = [layout.unplaced for layout in layouts.layouts if layout.unplaced]
    if not batches:
        problem = reasons[0] if reasons else "no record has the patches of an image as tokens"
        raise ArgumentError(
            "images", problem, "" if reasons else "give each Record its query_grid or key_grid"
        )
    if batches != {count}:
        expected = " or ".join(map(str, sorted(batches)))
        raise ArgumentError("images", f"{count} pictures for a batch of {expected}", "one for each sequence")
