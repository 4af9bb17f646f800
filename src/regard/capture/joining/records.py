"""Records built from chains of calls."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from regard.capture.joining.beams import Beams
from regard.capture.joining.call_chains import CallChain, runs_of_calls
from regard.capture.joining.collector import Collector
from regard.capture.joining.ids_of_tokens import key_ids, query_ids
from regard.capture.joining.kept_calls import KeptCall
from regard.capture.joining.memory_budget import MemoryBudget
from regard.capture.joining.picture_layouts import layout_of_run
from regard.capture.joining.stitching import joined_source
from regard.capture.reading import labels as tokens
from regard.capture.reading.image_patches import patch_grid
from regard.capture.reading.kinds import kind_of
from regard.capture.reading.masks import is_causal_mask
from regard.capture.reading.sinks import with_sink_labels
from regard.errors import ArgumentError
from regard.maps.attention_map import AttentionMap
from regard.maps.image_windows import ImageWindows
from regard.maps.records import Record
from regard.maps.sources import Source
from regard.maps.unrecorded import Unrecorded

__all__ = ["LabelSources", "build"]

# The number of stack frames from here up to the user's line, for warnings.
_USER = 6
_BEAMS = (
    "a beam search changed the order of its hypotheses, so that the steps do not make one map: "
    "use seen.follow(output), with output = model.generate(..., return_dict_in_generate=True)"
)
_PADDED = "rows that do not sum to 1 attend to padding of the windows as well, which is left out"
_CHANGED = "changed after the softmax: these weights multiply the values"


@dataclass(frozen=True)
class LabelSources:
    """Labels given by the user and the function that turns token ids into labels."""

    spell: tokens.Speller = tokens.ids_as_text
    query_tokens: tokens.Labels | None = None
    key_tokens: tokens.Labels | None = None
    # The name of the argument that ``query_tokens`` were given as, for error messages.
    query_argument: str = "query_tokens"

    @property
    def by_hand(self) -> bool:
        """Whether the user gave labels."""
        return self.query_tokens is not None or self.key_tokens is not None

    def check(self, records: list[Record]) -> None:
        """Raise ArgumentError for labels whose number fits no map."""
        shapes = [(record.kind, record.map.shape, len(record.sinks)) for record in records]
        sides = [(b, n) for _, (b, _, q, k), sinks in shapes for n in (q, k, k - sinks)]
        keys = [(b, n) for kind, (b, _, _, k), sinks in shapes if kind == "cross" for n in (k, k - sinks)]
        for name, labels, axes in (
            (self.query_argument, self.query_tokens, sides),
            ("key_tokens", self.key_tokens, keys),
        ):
            if labels is not None and all(tokens.fitting(labels, *axis) is None for axis in axes):
                counts = sorted({n for _, n in axes})
                problem = f"no {'cross-attention' if axes is keys else 'map'} has {len(labels[0])} tokens"
                many = f" in {len(labels)} sequences" if len(labels) > 1 else ""
                raise ArgumentError(name, problem + many, f"the maps have {counts}")

    def relabel(self, record: Record) -> Record:
        """Return a record with the labels that the user gave, on the axes whose length they have."""
        if record.kind == "cross":
            queries = _row_labels(self.query_tokens, record)
            keys = _column_labels(self.key_tokens or self.query_tokens, record)
        else:
            by_hand = self._of_self_attention(record)
            queries, keys = _row_labels(by_hand, record), _column_labels(by_hand, record)
        if queries is None and keys is None:
            return record
        return replace(
            record,
            query_tokens=record.query_tokens if queries is None else queries,
            key_tokens=record.key_tokens if keys is None else keys,
        )

    def _of_self_attention(self, record: Record) -> tokens.Labels | None:
        """Return the labels of self-attention, which in the encoder of an encoder-decoder are the key tokens."""
        in_encoder = "encoder" in record.name and "decoder" not in record.name
        if in_encoder and _column_labels(self.key_tokens, record) is not None:
            return self.key_tokens
        return self.query_tokens


def _row_labels(labels: tokens.Labels | None, record: Record) -> tokens.Labels | None:
    b, _, q, _ = record.map.shape
    return tokens.fitting(labels, b, q)


def _column_labels(labels: tokens.Labels | None, record: Record) -> tokens.Labels | None:
    """Return the labels of the keys. The given labels may leave out the sinks."""
    b, _, _, k = record.map.shape
    found = tokens.fitting(labels, b, k)
    if found is None and record.sinks:
        return with_sink_labels(tokens.fitting(labels, b, k - len(record.sinks)), record.sinks)
    return found


def build(collector: Collector, naming: LabelSources, beams: Beams | None) -> list[Record]:
    """Build the records of all chains, in the order of the calls."""
    found: list[tuple[int, Record]] = []
    # A copy of the budget, since building the records again takes the same memory again.
    room = collector.budget.rest()
    for chain in collector.chains:
        for run in runs_of_calls(chain, collector.continued):
            found.append((run[0].order, _record_or_reason(collector, chain, run, naming, beams, room)))
        if not chain.calls and chain.refused is not None:
            why = f"dropped, {chain.dropped}: raise memory=..., or choose layers=... or heads=..."
            found.append((chain.refused.order, _without_map(chain, chain.refused, why)))
    return [record for _, record in sorted(found, key=lambda pair: pair[0])]


def _record_or_reason(
    collector: Collector,
    chain: CallChain,
    run: list[KeptCall],
    naming: LabelSources,
    beams: Beams | None,
    room: MemoryBudget,
) -> Record:
    """Build the record of a run, or one that says why it has no map, so that the other records can be read."""
    try:
        return _record(collector, chain, run, naming, beams, room)
    except Warning:  # warnings that the user made errors
        raise
    except Exception as error:
        why = f"not made, {type(error).__name__}: {error}"
        warnings.warn(f"not recorded: the map of {chain.name} was {why}", stacklevel=_USER - 1)
        return _without_map(chain, run[0], why)


def _without_map(chain: CallChain, kept: KeptCall, why: str) -> Record:
    q, k = kept.grid[2:]
    kind = kind_of(chain.cross, is_causal_mask(kept.mask, kept.grid), False, q, k - chain.sinks.total)
    source = Unrecorded(kept.grid, f"the map of {chain.name} was {why}")
    about: dict[str, Any] = {"name": chain.name, "layer": chain.layer, "heads": chain.heads, "kind": kind}
    return Record(**about, map=AttentionMap(source), dropped=why)


def _record(
    collector: Collector,
    chain: CallChain,
    run: list[KeptCall],
    naming: LabelSources,
    beams: Beams | None,
    room: MemoryBudget,
) -> Record:
    grows = any(kept.grew for kept in run)
    sinks = chain.sinks.total
    causal = any(_is_causal(kept, sinks) for kept in run) or _says_causal(chain)
    kind = kind_of(chain.cross, causal, grows, run[0].grid.q, run[0].grid.k - sinks)
    dropped = None
    if chain.lost and run[-1] is chain.calls[-1]:
        dropped = f"the last {chain.lost} rows were dropped, {chain.dropped}"
    follows = beams if beams is not None and _in_search(collector, run) else None
    mixed = chain.reordered or any(kept.step in collector.reordered for kept in run[1:])
    if mixed and follows is None:
        grid = run[-1].grid._replace(q=sum(kept.grid.q for kept in run))
        source: Source = Unrecorded(grid, _BEAMS)
        dropped = "steps of a beam search: use seen.follow(output)"
    else:
        source = joined_source(chain, run, follows, room)
        if isinstance(source, Unrecorded):
            dropped = source.why
            warnings.warn(f"not recorded: {dropped}", stacklevel=_USER)
        else:
            source = _unrolled(chain, chain.sinks.as_in_model(source))
    about: dict[str, Any] = {"name": chain.name, "layer": chain.layer, "heads": chain.heads, "kind": kind}
    about["sinks"] = chain.sinks.columns(source.grid.k)
    about["note"] = _note(run, source)
    record = Record(**about, map=AttentionMap(source), dropped=dropped)
    return naming.relabel(replace(record, **_axes(collector, chain, run, record, naming, follows)))


def _note(run: list[KeptCall], source: Source) -> str | None:
    """Return a note if the weights were changed after the softmax, or may have been, or if padding is left out."""
    doubts = [kept.doubt for kept in run if kept.doubt is not None]
    if doubts:
        return doubts[0].value
    if any(kept.changed for kept in run):
        return _CHANGED
    if len(run) == 1 and run[0].left_out:
        return f"without the last {run[0].left_out} keys, which no query may attend to"
    return _PADDED if isinstance(source, ImageWindows) and source.is_padded else None


def _is_causal(kept: KeptCall, sinks: int) -> bool:
    """Return whether no query has a weight on a later key, judged by the mask or else by the weights."""
    _, _, q, k = kept.grid
    if kept.weights is not None and 1 < q == k - sinks:
        return _looks_back(kept.weights[..., sinks:])
    return kept.causal or is_causal_mask(kept.mask, kept.grid)


def _looks_back(weights: Tensor) -> bool:
    """Return whether weights ``(b,h,n,n)`` are 0 on all later keys, leaving out padding queries.

    A padding query has uniform weights, or no query has a weight on the key at its position.
    """
    ahead = weights.triu(1) != 0
    even = (weights == weights[..., :1]).all(dim=-1, keepdim=True)  # (b,h,n,1)
    padding = even | (weights == 0).all(dim=-2)[..., None]
    return not bool((ahead & ~padding).any()) and not bool(padding.all())


def _says_causal(chain: CallChain) -> bool:
    """Return whether a module says that it is causal, which a call on a single token does not show."""
    return chain.cross is False and getattr(chain.module, "is_causal", False) is True


def _in_search(collector: Collector, run: list[KeptCall]) -> bool:
    """Return whether the calls of a run may belong to a beam search.

    A beam search takes several steps. Several calls are therefore enough. A single call is enough if the keys of some
    chain grew in the next step.
    """
    return len(run) > 1 or run[0].step + 1 in collector.continued


def _unrolled(chain: CallChain, source: Source) -> Source:
    return source if chain.windows is None else ImageWindows(source, *chain.windows)


def _axes(
    collector: Collector,
    chain: CallChain,
    run: list[KeptCall],
    record: Record,
    naming: LabelSources,
    beams: Beams | None,
) -> dict[str, Any]:
    """Return the tokens and the grids of patches of the queries and keys, as fields of a record."""
    if chain.windows is not None:
        return {"query_grid": chain.windows[0], "key_grid": chain.windows[0]}
    words = _words(collector, chain, run, record, naming, beams)
    found: dict[str, Any] = {"query_tokens": words[0], "key_tokens": words[1]}
    if (
        record.kind != "cross"
        and (queries := words[0]) is not None
        and len(queries[0]) == record.map.shape[2]
    ):
        found["pictures"] = layout_of_run(run, record.map.shape[3], record.sinks, naming.spell, beams)
    for axis, count in (("query", record.map.shape[2]), ("key", record.map.shape[3])):
        patches = patch_grid(count, run[0].patches) if found[f"{axis}_tokens"] is None else None
        if patches is not None:
            found[f"{axis}_grid"], found[f"{axis}_extra"] = patches
    return found


def _words(
    collector: Collector,
    chain: CallChain,
    run: list[KeptCall],
    record: Record,
    naming: LabelSources,
    beams: Beams | None,
) -> tuple[tokens.Labels | None, tokens.Labels | None]:
    decoder = "decoder" in chain.name or record.kind != "self"
    queries = query_ids(run, decoder, beams)
    count = record.map.shape[3] - len(record.sinks)
    if record.kind == "cross":
        keys = key_ids(run, collector.token_ids, count, beams)
    else:
        keys = queries if queries is not None and queries.shape[1] == count else None
    named = with_sink_labels(tokens.spelled(keys, naming.spell), record.sinks)
    return tokens.spelled(queries, naming.spell), named
