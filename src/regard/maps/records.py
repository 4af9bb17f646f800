"""What was seen of a model: one record for each attention call, with its name, its kind and its words."""

from __future__ import annotations

from dataclasses import dataclass, field

from regard.maps.attention_map import AttentionMap

__all__ = ["Record"]


@dataclass(frozen=True, kw_only=True)
class Record:
    """One attention call of a model: which it was, and where it looked.

    ``query_tokens`` and ``key_tokens`` hold one list of labels for each sequence of the batch, or None where
    nobody knows them. ``query_grid`` and ``key_grid`` are (rows, columns) where the tokens are the patches of a
    picture; ``query_extra`` and ``key_extra`` say how many tokens (a class token, say) stand before the first patch.

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
    dropped: str | None = None  # what was left out and why, in words
    heads: tuple[int, ...] | None = None  # which heads of the model the map holds, in its order; None for all

    @property
    def tokens(self) -> list[list[str]] | None:
        """The labels of the queries; of a self-attention, those of the keys too."""
        return self.query_tokens
