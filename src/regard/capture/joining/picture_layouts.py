"""The places of the picture tokens of a record, from the pictures of the calls that it is made of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from regard.capture.joining.beams import Beams
from regard.capture.joining.kept_calls import KeptCall
from regard.capture.reading.labels import Speller
from regard.capture.reading.picture_families import PictureSpan
from regard.capture.reading.picture_inputs import PictureInputs
from regard.maps.patch_grids import PatchGrid, PictureLayout

__all__ = ["layout_of_run"]

_TILE = re.compile(r"<row_(\d+)_col_(\d+)>")
_WHOLE = "<global-img>"
_NO_LABELS = (
    "the text before each tile of a picture says where the tile lies, and no tokenizer spells it: "
    "use capture(model, tokenizer=...)"
)
_EARLIER = "the keys began before the capture, so that the positions of the picture tokens are not known"
# A sequence with its grids and the positions of its words.
_Row = tuple[list[PatchGrid], list[int]]
# A picture or a tile, with the positions of its tokens.
_Span = tuple[PictureSpan, list[int]]


class _UnplacedError(Exception):
    """Picture tokens cannot be placed. The message is the reason."""


def layout_of_run(
    run: Sequence[KeptCall], keys: int, sinks: Sequence[int], spell: Speller, beams: Beams | None
) -> PictureLayout | None:
    """Return the places of the picture tokens among the keys of a record, or None if it has no such tokens.

    ``keys`` is the number of keys, of which ``sinks`` are no tokens.
    """
    if not any(_has_pictures(piece) for piece in run):
        return None
    batch = run[-1].grid.b if beams is None else len(beams.rows(0))
    nothing = PictureLayout(sequences=((),) * batch)
    if sum(piece.grid.q for piece in run) != keys - len(sinks):
        return replace(nothing, unplaced=_EARLIER)
    rows: list[_Row] = [([], []) for _ in range(batch)]
    first = pictures = 0
    for n, piece in enumerate(run):
        try:
            more = _placed(piece, spell) if _has_pictures(piece) else _words_only(piece)
        except _UnplacedError as error:
            return replace(nothing, unplaced=str(error))
        chosen = range(batch) if beams is None else beams.rows(n).tolist()
        for row, at in zip(rows, chosen, strict=True):
            row[0].extend(_moved(grid, first, pictures) for grid in more[at][0])
            row[1].extend(first + n for n in more[at][1])
        first += piece.grid.q
        pictures += len({grid.picture for grids, _ in more for grid in grids})
    columns = [n for n in range(keys) if n not in set(sinks)]
    return PictureLayout(
        sequences=tuple(tuple(_at(grid, columns) for grid in grids) for grids, _ in rows),
        words=tuple(tuple(columns[n] for n in words) for _, words in rows),
    )


def _has_pictures(piece: KeptCall) -> bool:
    pictures = piece.pictures
    if pictures is None:
        return False
    batch, count = pictures.ids.shape
    return count == piece.grid.q + piece.rejected and piece.grid.b % batch == 0


def _words_only(piece: KeptCall) -> list[_Row]:
    return [([], list(range(piece.grid.q))) for _ in range(piece.grid.b)]


def _moved(grid: PatchGrid, first: int, pictures: int) -> PatchGrid:
    return replace(grid, keys=tuple(first + n for n in grid.keys), picture=grid.picture + pictures)


def _at(grid: PatchGrid, columns: list[int]) -> PatchGrid:
    return replace(grid, keys=tuple(columns[n] for n in grid.keys))


def _placed(piece: KeptCall, spell: Speller) -> list[_Row]:
    """Return the grids and words of each sequence of a call."""
    pictures = piece.pictures
    assert pictures is not None
    if pictures.unplaced is not None:
        raise _UnplacedError(pictures.unplaced)
    tiled = any(span.is_tile for span in pictures.spans)
    rows: list[_Row] = []
    number = 0
    for ids, spans, is_word in zip(
        pictures.ids.tolist(), _by_sequence(pictures), pictures.is_word, strict=True
    ):
        grids = _pictures_of_tiles(spans, spell(ids), number) if tiled else _pictures(spans, number)
        number += len({grid.picture for grid in grids})
        rows.append((grids, is_word.nonzero()[:, 0].tolist()))
    # A beam search repeats each sequence.
    return [row for row in rows for _ in range(piece.grid.b // len(rows))]


def _by_sequence(pictures: PictureInputs) -> Iterator[list[_Span]]:
    """Yield the pictures or tiles of each sequence with their positions. Picture tokens take the pictures in order."""
    waiting = list(pictures.spans)[::-1]
    for is_picture in pictures.is_picture:
        free, taken = is_picture.nonzero()[:, 0].tolist(), []
        while free:
            span = waiting.pop()
            if span.tokens > len(free):
                raise _UnplacedError("the tokens of a picture are in two sequences of the batch")
            taken.append((span, free[: span.tokens]))
            free = free[span.tokens :]
        yield taken


def _pictures(spans: list[_Span], first: int) -> list[PatchGrid]:
    """Return the grids of pictures, which are numbered from ``first`` on."""
    return [
        PatchGrid(
            picture=number,
            grid=view.grid,
            keys=tuple(positions[n] for n in view.tokens()),
            size=view.size,
            box=view.box,
            view=view.view,
            stretched=view.stretched,
        )
        for number, (span, positions) in enumerate(spans, first)
        for view in span.views
    ]


def _pictures_of_tiles(spans: list[_Span], labels: list[str], first: int) -> list[PatchGrid]:
    """Return the grids of pictures that were cut into tiles, each followed by the whole picture.

    The token before a tile is spelled as ``<row_1_col_2>``, and the token before the whole picture as ``<global-img>``.
    """
    grids: list[PatchGrid] = []
    tiles: dict[tuple[int, int], PatchGrid] = {}
    number = first
    for span in spans:
        position = span[1][0]
        label = labels[position - 1] if position else ""
        [grid] = _pictures([span], number)
        if place := _TILE.fullmatch(label):
            tiles[int(place[1]) - 1, int(place[2]) - 1] = grid
        elif label == _WHOLE or len(spans) == 1:
            grids += [grid, _joined(tiles)] if tiles else [grid]
            tiles = {}
            number += 1
        else:
            raise _UnplacedError(_NO_LABELS)
    if tiles:
        raise _UnplacedError(f"no {_WHOLE} follows the tiles of a picture")
    return grids


def _joined(tiles: dict[tuple[int, int], PatchGrid]) -> PatchGrid:
    """Return the tiles of a picture, by their row and column, as one grid."""
    down, across = (1 + max(place[n] for place in tiles) for n in (0, 1))
    tile = next(iter(tiles.values()))
    (rows, columns), (height, width) = tile.grid, tile.size
    if len(tiles) != down * across:
        raise _UnplacedError(f"a picture of {down} x {across} tiles has {len(tiles)}")
    keys = [
        tiles[r // rows, c // columns].keys[r % rows * columns + c % columns]
        for r in range(down * rows)
        for c in range(across * columns)
    ]
    return replace(
        tile,
        grid=(down * rows, across * columns),
        keys=tuple(keys),
        size=(down * height, across * width),
        box=(0.0, 0.0, float(across * width), float(down * height)),
        view="tiles",
    )
