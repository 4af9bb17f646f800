"""The interface that a model implements for decoding."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from regard.maps import Record

__all__ = ["Decodable", "DecodingState"]


class DecodingState(Protocol):
    """The state of a model between two decoding steps, such as its key-value cache.

    Its rows are the hypotheses of all sentences, grouped by sentence.
    """

    def reorder(self, rows: Tensor) -> None:
        """Replace row ``i`` by the old row ``rows[i]``.

        The number of rows may change.
        """
        ...

    def keep(self, sentences: Tensor, hypotheses: int) -> None:
        """Keep only the rows of these sentences, each of which has ``hypotheses`` rows."""
        ...


class Decodable(Protocol):
    """An autoregressive model, which generates one token at a time."""

    def start(self, memory: Any) -> Any:
        """Return the state before the first token, with one hypothesis per sentence.

        ``memory`` is the encoder output, with ``states (b,s,m)`` and the source ``lengths (b,)`` (None without
        padding). It is None for a model without a source.
        """
        ...

    def step(self, tokens: Tensor, state: Any, *, records: list[Record] | None = None) -> Tensor:
        """Feed one token ``(b,w)`` of ``w`` hypotheses per sentence, and return the hidden states ``(b,w,m)``.

        The state is updated in place. If ``records`` is a list, the model appends a record for every attention that it
        computes. The maps of records of kind ``"cross"`` hold the attention to the source, ``(b,h,w,s)``.
        """
        ...

    def output(self, hidden: Tensor) -> Tensor:
        """Return the logits of all tokens, ``(...,vocabulary)``."""
        ...
