"""Assignment of sequences to batches of similar length.

Sequences are grouped by length, the groups are sorted, and the sorted sequences are cut into batches. The cuts depend
only on the sizes of the groups, so every epoch has the same number of batches. Shuffling permutes the sequences
within each group and the order of the batches.
"""

from __future__ import annotations

import numpy as np

from regard.errors import ArgumentError

__all__ = ["Buckets"]


class Buckets:
    """A division of n sequences into batches of similar length.

    ``lengths`` is (n, sides), with one column for each side, such as source and target. With padding, a batch has at
    most ``tokens`` tokens, averaged over the sides. It has from ``smallest`` to ``largest`` sequences, or all of them
    if there are fewer than ``smallest``. ``smallest`` takes precedence over ``tokens``.
    """

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
        """Return the batches as arrays of indices, from short to long sequences."""
        return np.split(self._order, self._ends[:-1])

    def shuffled(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Return the batches as arrays of indices in random order, with the sequences of each group permuted.

        A group are the sequences of one rounded length on every side.
        """
        places = np.lexsort((rng.random(len(self._order)), self._group))  # (n,)
        batches = np.split(self._order[places], self._ends[:-1])
        return [batches[place] for place in rng.permutation(len(batches))]


def _coarse(lengths: np.ndarray) -> np.ndarray:
    """Round lengths up to 1, 2, 3 … 16, 18, 20 … 32, 36 …, so that groups of long sequences are not too small.

    The rounding costs about 6 % of padding.
    """
    step = 2 ** np.maximum(np.floor(np.log2(np.maximum(lengths - 1, 1))).astype(np.int64) - 3, 0)
    return -(-lengths // step) * step


def _sorted(coarse: np.ndarray) -> np.ndarray:
    """Return the indices (n,) that sort sequences by the length of the last side, then of the others.

    From one length of the last side to the next, the other sides ascend and descend in turn, so that neighbouring
    sequences always have similar lengths.
    """
    last = coarse[:, -1]
    descending = np.unique(last, return_inverse=True)[1] % 2  # alternates from one length to the next
    rest = np.where(descending[:, None], -coarse[:, :-1], coarse[:, :-1])
    return np.lexsort((*rest.T, last))


def _cuts(lengths: np.ndarray, runs: np.ndarray, tokens: int, smallest: int, largest: int) -> np.ndarray:
    """Return the end of each batch, as the number of sequences up to it in the sorted order.

    ``lengths`` (groups, sides) are the lengths of the sequences of each group, and ``runs`` (groups,) the numbers of
    its sequences, in sorted order.
    """
    ends: list[int] = []
    # The number of sequences so far, and in the open batch.
    place, size = 0, 0
    longest = np.zeros_like(lengths[0])  # (sides,), of the open batch
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
    """Return the ends of all batches, where the last batch has at least ``smallest`` sequences.

    ``ends`` are those without the last. A last batch that is too small takes sequences from the batch before it, or the
    two are merged.
    """
    if ends and total - ends[-1] < smallest:
        moved = total - smallest
        before = ends[-2] if len(ends) > 1 else 0
        ends = [*ends[:-1], moved] if moved - before >= smallest else ends[:-1]
    return [*ends, total]
