"""Token ids of the queries and keys of a record, joined over the calls that it is made of."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.capture.joining.beams import Beams
from regard.capture.joining.kept_calls import KeptCall
from regard.capture.reading.token_ids import TokenIds

__all__ = ["key_ids", "query_ids"]

_TARGET = re.compile(r"decoder|tgt|target", re.IGNORECASE)


def query_ids(run: list[KeptCall], decoder: bool, beams: Beams | None = None) -> Tensor | None:
    """Return the token ids of the queries of several calls, ``(b,q)``, or None if they are unknown."""
    parts = []
    for n, piece in enumerate(run):
        part = _choose(piece.inputs, piece.grid.b, piece.grid.q + piece.rejected, decoder)
        if part is None:
            return None
        part = part[:, : piece.grid.q]
        parts.append(part if beams is None else part[beams.rows(n)])
    return torch.cat(parts, dim=1)


def key_ids(
    run: list[KeptCall], seen: list[TokenIds], count: int, beams: Beams | None = None
) -> Tensor | None:
    """Return the token ids of the keys of cross attention, ``(b,k)``, which an encoder was given earlier."""
    piece = run[-1]
    known = [x for x in (*piece.inputs, *seen[::-1]) if not _TARGET.search(x.name)]
    found = _choose(known, piece.grid.b, count, decoder=False)
    return found if found is None or beams is None else found[beams.rows(len(run) - 1)]


def _choose(inputs: Sequence[TokenIds], batch: int, count: int, decoder: bool) -> Tensor | None:
    """Return the nearest token ids of the right size, preferring names of the right side (encoder or decoder)."""
    fitting = [x for x in inputs if x.values.shape[1] == count and batch % max(len(x.values), 1) == 0]
    if not fitting:
        return None
    same_side = [x for x in fitting if bool(_TARGET.search(x.name)) == decoder]
    # Token ids that only a decoder was given do not label an encoder.
    if not same_side and not decoder:
        fitting = [x for x in fitting if not _TARGET.search(x.name.rpartition(".")[2])]
        if not fitting:
            return None
    values = (same_side or fitting)[0].values
    # A beam search repeats each sequence.
    return values.repeat_interleave(batch // len(values), dim=0)
