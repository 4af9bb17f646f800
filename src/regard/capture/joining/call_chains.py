"""Calls that belong together: the steps of ``generate()``, of which each sees one query more.

A *piece* is what was kept of one call. A *strand* is the pieces of one module whose keys go on from one another; it
holds each key once, however many steps looked at it.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.biases import Bias
from regard.capture.joining.rejected_tokens import without_last_rows
from regard.capture.reading.attention_calls import Attended
from regard.capture.reading.masks import Reading
from regard.capture.reading.running_modules import Frame
from regard.capture.reading.sinks import Sinks
from regard.masks import Mask
from regard.shapes import Grid, wide_dtype

__all__ = ["Ids", "Piece", "Strand", "grouped"]


@dataclass(frozen=True)
class Ids:
    """Token ids that a module was given."""

    name: str  # of the module and the argument
    values: Tensor  # (b,n) on the CPU


@dataclass(slots=True)
class Piece:
    """One call: its queries and what belongs to them. The keys are its strand's."""

    order: int  # among all calls
    step: int  # which call of the model it was made in
    grid: Grid
    first: int = 0  # the key of the strand that is its first
    q: Tensor | None = None  # (b,h,q,d)
    lse: Tensor | None = None  # (b,h,q)
    mask: Mask | None = None
    bias: Bias | None = None
    weights: Tensor | None = None  # (b,h,q,k) where there are no q and k
    changed: bool = False  # whether they are not the softmax's, but what was made of it for the values
    doubtful: bool = False  # whether the model may have multiplied the values by others
    causal: bool = False  # whether no query looks ahead, but for rows that the mask hides as a whole
    added: tuple[int, int] = (0, 0)  # the keys of the strand that came with it
    new: Tensor | None = None  # these keys themselves, once a beam search has reordered the strand
    rejected: int = 0  # queries that came with it and were taken out again
    grew: bool = False  # whether it went on from the keys of the piece before
    inputs: list[Ids] = field(default_factory=list)  # innermost first
    worded: bool = True  # False inside a module that was given a picture or a sound: no words from outside
    patches: list[tuple[int, int]] = field(
        default_factory=list
    )  # grids of patches seen before it, latest first

    @property
    def nbytes(self) -> int:
        held = (self.q, self.lse, self.weights, self.new)
        return sum(x.nbytes for x in held if x is not None)


class Strand:
    """The pieces of one module, on one set of keys."""

    def __init__(
        self, frame: Frame, layer: int | None, cross: bool | None, call: Attended, device: Any = None
    ):
        self.name, self.module, self.layer, self.cross = frame.name, frame.module, layer, cross
        self.scale, self.score = call.scale, call.score
        self.v = None if call.v is None else _copy(call.v, device)
        self.pieces: list[Piece] = []
        self.count = 0  # keys
        self.reordered = False
        self.dropped: str | None = None
        self.lost = 0  # rows that came after the memory ran out
        self._last = call.grid  # of the latest call, kept or not
        self._step = -1  # in which it was made
        self.refused: Piece | None = None  # the first call that was not kept
        self.heads: tuple[int, ...] | None = None  # which were asked for
        self.windows: tuple[tuple[int, int], int, int] | None = None  # a picture's sides, window and shift
        self.cache: weakref.ref[Any] | None = None  # of Hugging Face, that the last calls were given
        self.sinks = Sinks()  # keys in front that are no token
        self._keys: Tensor | None = None  # (b,g,room,d)

    @property
    def keys(self) -> Tensor | None:
        """All keys, ``(b,g,k,d)``."""
        return None if self._keys is None else self._keys[:, :, : self.count]

    @property
    def step(self) -> int:
        """The step of the latest call, kept or not."""
        return self._step

    # ---- does a call go on from here?

    def continuation(self, call: Attended, step: int, sinks: Sinks) -> str | None:
        """How a call goes on from this strand: "grows", "again" (the same keys), "reordered", or not at all."""
        if self.dropped or sinks != self.sinks:
            return None
        last = self.pieces[-1]
        (b, h, _, k), old = call.grid, k_minus_q(call.grid)
        if step == last.step or (b, h) != last.grid[:2]:
            return None
        if call.k is None or self._keys is None or not self._alike(call):
            return None  # without keys nothing shows that one call goes on from another
        if (
            self.cross is not True
            and 0 < old <= self.count
            and self._holds(call.k.narrow(2, 0, old), self.count - old)
        ):
            return "grows"
        if k == self.count and self._holds(call.k, 0):
            return "again"
        if old == self.count and b > 1 and self._rows_moved(call.k[:, :, :old]):
            return "reordered"
        return None

    def _alike(self, call: Attended) -> bool:
        assert self._keys is not None
        assert call.k is not None
        same = (call.k.shape[0], call.k.shape[1], call.k.shape[3]) == (
            *self._keys.shape[:2],
            self._keys.shape[3],
        )
        same = same and call.k.dtype == self._keys.dtype and call.scale == self.scale
        last = self.pieces[-1]
        same = same and (last.changed or (call.weights is None) == (last.weights is None))
        if not same or call.score is not self.score or (call.v is None) != (self.v is None):
            return False
        return call.v is None or self.v is None or torch.equal(call.v.to(self.v.device), self.v)

    def _holds(self, k: Tensor, start: int) -> bool:
        if self._keys is None:
            return False
        held = self._keys.narrow(2, start, k.shape[2])
        return torch.equal(held, k if k.device == held.device else k.to(held.device))

    def _rows_moved(self, k: Tensor) -> bool:
        """Whether each sequence goes on from some sequence of the strand, if not from its own: beams."""
        keys = self.keys
        assert keys is not None
        k = k.to(keys.device)
        return all(any(torch.equal(row, held) for held in keys) for row in k)

    def goes_on_lost(self, call: Attended, step: int, growing: bool) -> str | None:
        """How a call goes on from what was dropped, by its sizes: "grows", "again" or not; its rows are counted then.

        ``growing`` says that this is a step of ``generate()``: only there are the same keys looked at again.
        """
        if self.dropped is None or step != self._step + 1 or call.grid[:2] != self._last[:2]:
            return None
        grows = call.grid.q < call.grid.k and k_minus_q(call.grid) == self._last.k
        if not grows and not (growing and call.grid.k == self._last.k):
            return None
        self._last, self._step = call.grid, step
        self.lost += call.grid.q
        return "grows" if grows else "again"

    # ---- adding, and taking out again

    def reject(self, count: int) -> None:
        """Take out the last tokens, if they came with the last call and it had others, or was one token itself."""
        if self.dropped:
            self.lost -= count
            self._last = self._last._replace(q=self._last.q - count, k=self._last.k - count)
            return
        last = self.pieces[-1]
        own = self.cross is not True
        if self.reordered or count > last.grid.q - (0 if last.grew and len(self.pieces) > 1 else 1):
            return
        if count == last.grid.q:
            self.pieces.pop()
        elif not without_last_rows(last, count, keys=own):
            return
        self.count -= count if own else 0
        self._last = self.pieces[-1].grid

    def drop(self, piece: Piece, why: str) -> None:
        """Keep nothing of a call but its size and the reason."""
        self.lost += piece.grid.q
        self._last, self._step = piece.grid, piece.step
        self.dropped = why
        self.refused = self.refused or piece

    def replace_last(self, weights: Tensor) -> None:
        """Keep other weights, ``(b,h,q,k)``, in the place of what the last call was."""
        piece = self.pieces[-1]
        if weights.shape[3] != piece.grid.k:  # queries and keys have changed places
            self._keys, self.count = None, weights.shape[3]
        piece.grid = Grid(*weights.shape)
        piece.weights, piece.changed = weights, True
        piece.q = piece.lse = piece.mask = piece.bias = None

    def drop_last(self, why: str) -> None:
        """Keep nothing of the last call but its size and the reason."""
        self.drop(self.pieces.pop(), why)

    def cost(self, call: Attended, how: str | None) -> int:
        """Bytes that a call will take."""
        rows = 0 if call.weights is None else call.weights.nbytes
        if call.q is not None:
            sums = call.grid.b * call.grid.h * call.grid.q * wide_dtype(call.q.dtype).itemsize
            rows = call.q.nbytes + sums
        return rows + self._cost_of_keys(call, how)

    def _cost_of_keys(self, call: Attended, how: str | None) -> int:
        if call.k is None or how == "again":
            return 0
        if how is None:
            return call.k.nbytes
        each = call.k.nbytes // max(call.grid.k, 1)
        need, room = self.count + call.grid.q, 0 if self._keys is None else self._keys.shape[2]
        more = 0 if need <= room else _with_room(need) - room
        if how == "reordered" and not self.reordered:
            more += self.count  # every piece gets its own keys
        return (more + (call.grid.q if self.reordered or how == "reordered" else 0)) * each

    def add(self, piece: Piece, call: Attended, reading: Reading, how: str | None, device: Any) -> None:
        """Keep a call; its tensors are copied, so that what happens to them later does not show.

        Under inference mode the copies could not be used after it: it is to be off here, and so are gradients.
        """
        piece.mask, piece.bias, piece.causal = reading.mask, reading.bias, reading.causal
        piece.grew = how in ("grows", "reordered")
        if call.weights is not None:
            piece.weights = _copy(call.weights, device)
        else:
            assert call.q is not None
            piece.q = _copy(call.q, device)
            piece.lse = None if call.lse is None else _copy(call.lse, device)
            _even_rows(piece, reading)
        if call.k is None:
            self.count = call.grid.k
        else:
            self._add_keys(piece, call.k, how, device)
        self.pieces.append(piece)
        self._last, self._step = piece.grid, piece.step

    def _add_keys(self, piece: Piece, k: Tensor, how: str | None, device: Any) -> None:
        if how == "again":
            piece.added = (self.count, self.count)
            return
        if how is None:
            self._keys, self.count = _copy(k, device), k.shape[2]
            piece.added = (0, self.count)
            return
        if how == "reordered":
            self._split(k, device)
        start = self.count
        new = k.narrow(2, k.shape[2] - piece.grid.q, piece.grid.q)
        self._append(new)
        piece.first = self.count - piece.grid.k
        piece.added = (start, self.count)
        if self.reordered:
            piece.new = _copy(new, device)

    def _split(self, k: Tensor, device: Any) -> None:
        """From now on each piece holds its own keys: the rows of the strand have changed places."""
        if not self.reordered:
            for piece in self.pieces:
                start, stop = piece.added
                assert self._keys is not None
                piece.new = self._keys[:, :, start:stop].clone()
            self.reordered = True
        assert self._keys is not None
        self._keys[:, :, : self.count] = k[:, :, : self.count].to(device)

    def _append(self, new: Tensor) -> None:
        assert self._keys is not None
        need = self.count + new.shape[2]
        if need > self._keys.shape[2]:
            b, g, _, d = self._keys.shape
            room = self._keys.new_empty(b, g, _with_room(need), d)
            room[:, :, : self.count] = self._keys[:, :, : self.count]
            self._keys = room
        self._keys.narrow(2, self.count, new.shape[2]).copy_(new)
        self.count = need


def _with_room(count: int) -> int:
    """For how many keys there is to be room, so that not every step copies them all."""
    return count + count // 2


def k_minus_q(grid: Grid) -> int:
    return grid.k - grid.q


def grouped(strand: Strand, continued: set[int]) -> list[list[Piece]]:
    """The pieces of a strand that make one map each.

    A piece that looks at the same keys again goes on from the one before only in a step in which something grew:
    that is a step of ``generate()``. Else the model was called anew.
    """
    runs: list[list[Piece]] = []
    for piece in strand.pieces:
        again = not piece.grew and piece.step in continued
        if runs and (piece.grew or again):
            runs[-1].append(piece)
        else:
            runs.append([piece])
    return runs


def _copy(x: Tensor, device: Any) -> Tensor:
    """A copy of our own, on the device that was asked for."""
    return x.clone() if device is None else x.to(device, copy=True)


def _even_rows(piece: Piece, reading: Reading) -> None:
    """Rows whose keys were all hidden by one finite number look at all of them alike: as a query of zeros does."""
    if reading.even is None or piece.q is None:
        return
    sums = reading.even.to(piece.q.device)
    sums = sums.expand(*piece.grid[:2], sums.shape[2]).expand(piece.grid[:3])
    even = ~sums.isnan()
    piece.q[even] = 0.0
    if piece.lse is not None:
        piece.lse = torch.where(even, sums.to(piece.lse.dtype), piece.lse)
