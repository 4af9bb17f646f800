"""Record, which describes one attention call of a model with its name, kind, tokens and map."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from regard.maps.attention_map import AttentionMap
from regard.maps.patch_grids import PictureLayout

__all__ = ["Record", "towers_of"]


@dataclass(frozen=True, kw_only=True)
class Record:
    """One attention call of a model, with its name, layer, kind, tokens and attention map.

    ``name`` is the name of the module in the model, and ``layer`` the number of its layer, or None if it has none.
    ``query_tokens`` and ``key_tokens`` hold one list of labels for each sequence of the batch, or None if the
    labels are unknown. ``query_grid`` and ``key_grid`` are (rows, columns) if the tokens are image patches.
    ``query_extra`` and ``key_extra`` count the tokens before the first patch, such as a class token. ``dropped``
    is the reason why the map was not kept, or None. ``heads`` lists the heads of the model that the map holds, in
    order, or is None for all heads. ``sinks`` are the positions of keys that are not tokens but receive a part of
    each row, such as the attention sink of GPT-OSS. Their label is ``[sink]``. ``note`` describes an unusual property
    of the weights, or is None. ``pictures`` has the places of the picture tokens among the words of a vision-language
    model, or is None if there are none.

    >>> import torch
    >>> from regard.maps import AttentionMap
    >>> weights = AttentionMap.from_weights(torch.eye(2)[None, None])
    >>> Record(name="encoder.0.self", layer=0, kind="self", map=weights, query_tokens=[["a", "b"]]).tokens
    [['a', 'b']]
    """

    name: str
    layer: int | None
    kind: str  # "self", "causal" or "cross"
    map: AttentionMap = field(repr=False)  # (b,h,q,k)
    query_tokens: list[list[str]] | None = None
    key_tokens: list[list[str]] | None = None
    query_grid: tuple[int, int] | None = None
    key_grid: tuple[int, int] | None = None
    query_extra: int = 0
    key_extra: int = 0
    dropped: str | None = None
    heads: tuple[int, ...] | None = None
    sinks: tuple[int, ...] = ()
    note: str | None = None
    pictures: PictureLayout | None = None

    @property
    def tokens(self) -> list[list[str]] | None:
        """The labels of the queries, which in self-attention are also the labels of the keys."""
        return self.query_tokens


def towers_of(names: Sequence[str], titles: Sequence[object]) -> list[str | None]:
    """Return the part of each name that tells the towers of a model apart, or None if its title is enough.

    A title is what is shown of a record beside its name, such as its layer and its kind. If modules of several towers
    have the same title, as in CLIP, the first part in which their names differ names the tower of all records.

    >>> towers_of(["text_model.layers.0.attn", "vision_model.layers.0.attn", "head"], ["0 self", "0 self", "self"])
    ['text_model', 'vision_model', None]
    >>> towers_of(["layers.0.attn", "layers.1.attn"], ["0 self", "1 self"])
    [None, None]
    """
    paths = [tuple(re.sub(r"(?<![^.])\d+(?![^.])", "*", name).split(".")) for name in names]
    by_title: dict[object, set[tuple[str, ...]]] = {}
    for path, title in zip(paths, titles, strict=True):
        by_title.setdefault(title, set()).add(path)
    mixed = [path for alike in by_title.values() if len(alike) > 1 for path in alike]
    if not mixed:
        return [None] * len(names)
    differing = next(n for n, parts in enumerate(zip_longest(*mixed)) if len(set(parts)) > 1)
    towers = {path[: differing + 1] for path in mixed}
    return [
        path[differing] if path[: differing + 1] in towers and len(path) > differing else None
        for path in paths
    ]
