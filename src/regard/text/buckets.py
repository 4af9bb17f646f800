"""Which sequences go into which batch.

Sequences are grouped by their lengths, the groups are put in order, and the order is cut into batches. The cut depends
only on how many sequences each group has, so that every epoch has the same number of batches; what changes is who
sits where within a group, and the order of the batches.
"""

from __future__ import annotations

import numpy as np

from regard.errors import ArgumentError

__all__ = ["Buckets"]


class Buckets:
    """A cut of n sequences, with ``lengths`` (n, sides), into batches of at most ``tokens`` padded tokens a side."""

    def __init__(self, lengths: np.ndarray, *, tokens: int, smallest: int = 1, largest: int | None = None):
        if tokens < 1:
            raise ArgumentError("tokens", f"expected 1 or more, got {tokens}")
        if largest is not None and largest < smallest:
            raise ArgumentError(
                "max_sentences", f"expected at least the smallest batch, {smallest}, got {largest}"
            )
        coarse = _coarse(lengths)  # (n, sides)
        self._order = _sorted(coarse)  # (n,)
        ordered = coarse[self._order]  # (n, sides)
        changes = np.flatnonzero(np.any(np.diff(ordered, axis=0), axis=1)) + 1
        starts = np.concatenate([[0], changes])
        runs = np.diff(np.concatenate([starts, [len(lengths)]]))  # sequences in each group
        self._group = np.repeat(np.arange(len(runs), dtype=np.int32), runs)  # (n,)
        self._ends = _cuts(ordered[starts], runs, tokens, smallest, largest or len(lengths))

    def __len__(self) -> int:
        return len(self._ends)

    def in_order(self) -> list[np.ndarray]:
        """The batches from short to long, the same every time."""
        return np.split(self._order, self._ends[:-1])

    def shuffled(self, rng: np.random.Generator) -> list[np.ndarray]:
        """The batches in a random order, each group's sequences in random places."""
        places = np.lexsort((rng.random(len(self._order)), self._group))  # (n,): moves within groups only
        batches = np.split(self._order[places], self._ends[:-1])
        return [batches[place] for place in rng.permutation(len(batches))]


def _coarse(lengths: np.ndarray) -> np.ndarray:
    """Lengths rounded up to 1, 2, 3 … 16, 18, 20 … 32, 36 …: long sequences find companions, at 6 % of padding."""
    step = 2 ** np.maximum(np.floor(np.log2(np.maximum(lengths - 1, 1))).astype(np.int64) - 3, 0)
    return -(-lengths // step) * step


def _sorted(coarse: np.ndarray) -> np.ndarray:
    """By the last side, then by the others, up and down in turns, so that neighbours are alike everywhere."""
    last = coarse[:, -1]
    turn = np.unique(last, return_inverse=True)[1] % 2  # 0 and 1 by turns, from one length to the next
    rest = np.where(turn[:, None], -coarse[:, :-1], coarse[:, :-1])
    return np.lexsort((*rest.T, last))


def _cuts(lengths: np.ndarray, runs: np.ndarray, tokens: int, smallest: int, largest: int) -> np.ndarray:
    """Where each batch ends. ``lengths`` (groups, sides) and ``runs`` (groups,) are in order."""
    ends: list[int] = []
    place, size = 0, 0  # sequences so far; those in the open batch
    longest = np.zeros_like(lengths[0])  # (sides,): of the open batch
    for sides, run in zip(lengths, runs.tolist(), strict=True):
        while run:
            wider = np.maximum(longest, sides)
            room = min(tokens * len(sides) // int(wider.sum()), largest)
            take = min(max(room, smallest) - size, run)
            if take > 0:
                place, size, run, longest = place + take, size + take, run - take, wider
            else:
                ends.append(place)
                size, longest = 0, np.zeros_like(sides)
    return np.array(_last_cut(ends, place, smallest))


def _last_cut(ends: list[int], total: int, smallest: int) -> list[int]:
    """A last batch that is too small takes what it lacks from the batch before, or takes it in."""
    if ends and total - ends[-1] < smallest:
        moved = total - smallest
        before = ends[-2] if len(ends) > 1 else 0
        ends = [*ends[:-1], moved] if moved - before >= smallest else ends[:-1]
    return [*ends, total]
