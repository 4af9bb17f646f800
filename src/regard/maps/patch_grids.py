"""The places of picture tokens, as grids of patches over the pictures of a prompt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.checks import whole_number

__all__ = ["PatchGrid", "PictureLayout"]

VIEWS = ("whole", "tiles")


@dataclass(frozen=True, kw_only=True)
class PatchGrid:
    """The tokens of a picture that are its patches, with the place of each.

    ``keys`` are the positions of the patches among the keys, row after row. ``size`` is the (height, width) in pixels
    of the picture that the model was given, and ``box`` the (left, top, right, bottom) of all patches in these pixels,
    which may exceed the picture where it was padded. ``picture`` is the number of the picture among all that the model
    was given. ``view`` is "whole", or "tiles" for the patches of a larger copy of the picture that was cut into tiles.
    ``stretched`` says that the processors of the model keep all of a picture, so that a picture of other
    proportions can be stretched over the patches. Where it is False, the picture may have been cropped or padded.

    >>> patches = PatchGrid(picture=0, grid=(2, 3), keys=(5, 6, 7, 9, 10, 11), size=(28, 42), box=(0, 0, 42, 28))
    >>> patches.place(9), patches.place(8), patches.patch_box(1, 0)
    ((1, 0), None, (0.0, 14.0, 14.0, 28.0))
    """

    picture: int
    grid: tuple[int, int]  # rows and columns
    keys: tuple[int, ...]
    size: tuple[int, int]
    box: tuple[float, float, float, float]
    view: str = "whole"
    stretched: bool = True

    def place(self, key: int) -> tuple[int, int] | None:
        """Return the (row, column) of a key, or None if it is no patch of this grid."""
        return divmod(self.keys.index(key), self.grid[1]) if key in self.keys else None

    def patch_box(self, row: int, column: int) -> tuple[float, float, float, float]:
        """Return the (left, top, right, bottom) of a patch in pixels of the picture."""
        left, top, right, bottom = self.box
        wide, high = (right - left) / self.grid[1], (bottom - top) / self.grid[0]
        return left + column * wide, top + row * high, left + (column + 1) * wide, top + (row + 1) * high

    def spec(self) -> dict[str, Any]:
        """Return the grid as JSON values, with runs of consecutive keys as pairs of start and length."""
        return {
            "picture": self.picture,
            "view": self.view,
            "grid": list(self.grid),
            "runs": _runs(self.keys),
            "size": list(self.size),
            "box": list(self.box),
            "stretched": self.stretched,
        }

    @staticmethod
    def from_spec(spec: dict[str, Any], keys: int) -> PatchGrid:
        """Read a grid from JSON values, or raise ValueError if it does not fit a number of keys."""
        rows, columns = (whole_number("grid", n, least=1) for n in spec["grid"])
        height, width = (whole_number("size", n, least=1) for n in spec["size"])
        left, top, right, bottom = (float(x) for x in spec["box"])
        picture = whole_number("picture", spec["picture"], least=0)
        found = _from_runs(spec["runs"], keys)
        if len(found) != rows * columns:
            raise ValueError(f"{rows} x {columns} patches were expected, got {len(found)}")
        # A picture has at least one key, and a patch at most thousands of pixels.
        if max(height, width) >= 2**24 or picture >= 2**24 or spec["view"] not in VIEWS:
            raise ValueError(f"patches among {keys} keys were expected, got {spec}")
        if not all(math.isfinite(x) for x in (left, top, right, bottom)):
            raise ValueError(f"the box is {left, top, right, bottom}")
        return PatchGrid(
            picture=picture,
            grid=(rows, columns),
            keys=found,
            size=(height, width),
            box=(left, top, right, bottom),
            view=spec["view"],
            stretched=bool(spec["stretched"]),
        )


@dataclass(frozen=True, kw_only=True)
class PictureLayout:
    """The pictures among the tokens of each sequence.

    ``sequences`` holds the grids of patches of each sequence. ``words`` holds the positions of the text tokens of each
    sequence, without padding and without tokens that stand for pictures. ``unplaced`` is the reason why some picture
    tokens have no place, or None.
    """

    sequences: tuple[tuple[PatchGrid, ...], ...]
    words: tuple[tuple[int, ...], ...] = ()
    unplaced: str | None = None

    @property
    def count(self) -> int:
        """The number of pictures that the model was given."""
        return 1 + max((grid.picture for grids in self.sequences for grid in grids), default=-1)

    def merged(self, batch: int, place_of: Sequence[int]) -> PictureLayout:
        """Return the layout of one sequence after its tokens were merged, ``place_of`` with the new place of each."""
        grids = [replace(grid, keys=tuple(place_of[n] for n in grid.keys)) for grid in self.sequences[batch]]
        patches = [key for grid in grids for key in grid.keys]
        words = [tuple(dict.fromkeys(place_of[n] for n in row)) for row in self.words[batch:][:1]]
        if len(set(patches)) != len(patches):
            return PictureLayout(
                sequences=((),), words=tuple(words), unplaced="patches were merged into words"
            )
        return PictureLayout(sequences=(tuple(grids),), words=tuple(words), unplaced=self.unplaced)

    def spec(self) -> dict[str, Any]:
        """Return the layout as JSON values."""
        return {
            "sequences": [[grid.spec() for grid in grids] for grids in self.sequences],
            "words": [_runs(words) for words in self.words],
            "unplaced": self.unplaced,
        }

    @staticmethod
    def from_spec(spec: dict[str, Any], batch: int, keys: int) -> PictureLayout:
        """Read a layout from JSON values, or raise ValueError if it does not fit the batch and the keys of a map."""
        sequences = tuple(
            tuple(PatchGrid.from_spec(grid, keys) for grid in grids) for grids in spec["sequences"]
        )
        words = tuple(_from_runs(runs, keys) for runs in spec["words"])
        if len(sequences) != batch or len(words) not in (0, batch):
            raise ValueError(f"pictures of {batch} sequences were expected, got {len(sequences)}")
        unplaced = spec["unplaced"]
        if unplaced is not None and not isinstance(unplaced, str):
            raise TypeError(f"expected a string, got {unplaced!r}")
        return PictureLayout(sequences=sequences, words=words, unplaced=unplaced)


def _runs(numbers: tuple[int, ...]) -> list[list[int]]:
    """Return numbers as runs of consecutive ones, each with its start and length.

    >>> _runs((5, 6, 7, 9, 2))
    [[5, 3], [9, 1], [2, 1]]
    """
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == sum(runs[-1]):
            runs[-1][1] += 1
        else:
            runs.append([n, 1])
    return runs


def _from_runs(runs: Any, keys: int) -> tuple[int, ...]:
    """Return the numbers of the runs of :func:`_runs`, or raise ValueError if one is not below ``keys``."""
    numbers: list[int] = []
    for pair in runs:
        start, length = (whole_number("runs", n, least=0) for n in pair)
        if start + length > keys or len(numbers) + length > keys:
            raise ValueError(f"numbers below {keys} were expected, got {length} from {start}")
        numbers += range(start, start + length)
    return tuple(numbers)
