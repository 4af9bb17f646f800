"""Token ids of the queries and keys of a record, joined over the calls that it is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from regard.capture.joining.beams import Beams
from regard.capture.joining.kept_calls import KeptCall
from regard.capture.reading.token_ids import TARGET, TokenIds

__all__ = ["key_ids", "query_ids", "rival_ids"]


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
    """Return the token ids of the keys of cross-attention, ``(b,k)``, which an encoder was given earlier."""
    piece = run[-1]
    known = [x for x in (*piece.inputs, *seen[::-1]) if not TARGET.search(x.name)]
    found = _choose(known, piece.grid.b, count, decoder=False)
    return found if found is None or beams is None else found[beams.rows(len(run) - 1)]


def rival_ids(calls: Iterable[KeptCall]) -> TokenIds | None:
    """Return token ids that would label a call, if other arguments fit as well and no name tells which are meant."""
    for kept in calls:
        if any(x.rivals for x in kept.inputs):
            for decoder in (False, True):
                found = _nearest(kept.inputs, kept.grid.b, kept.grid.q + kept.rejected, decoder)
                if found is not None and found.rivals:
                    return found
    return None


def _choose(inputs: Sequence[TokenIds], batch: int, count: int, decoder: bool) -> Tensor | None:
    """Return the nearest token ids of the right size, or None if several fit and no name tells which are meant."""
    found = _nearest(inputs, batch, count, decoder)
    if found is None or found.rivals:
        return None
    # A beam search repeats each sequence.
    return found.values.repeat_interleave(batch // len(found.values), dim=0)


def _nearest(inputs: Sequence[TokenIds], batch: int, count: int, decoder: bool) -> TokenIds | None:
    """Return the nearest token ids of the right size, preferring names of the right side (encoder or decoder)."""
    fitting = [x for x in inputs if x.values.shape[1] == count and batch % max(len(x.values), 1) == 0]
    if not fitting:
        return None
    same_side = [x for x in fitting if bool(TARGET.search(x.name)) == decoder]
    # Token ids that only a decoder was given do not label an encoder.
    if not same_side and not decoder:
        fitting = [x for x in fitting if not TARGET.search(x.name.rpartition(".")[2])]
        if not fitting:
            return None
    nearest = (same_side or fitting)[0]
    if not nearest.rivals:
        return nearest
    # A module further out may have been given one of the rivals by a name that tells.
    rivals = [x.values for x in fitting if x.rivals == nearest.rivals]
    named = [x for x in fitting if not x.rivals and any(torch.equal(x.values, y) for y in rivals)]
    return named[0] if named else nearest
