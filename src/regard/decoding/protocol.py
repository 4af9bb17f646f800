"""The interface that a model implements for decoding."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from regard.maps import Record

__all__ = ["Decodable", "DecodingState"]


class DecodingState(Protocol):
    """The state of a model between two decoding steps, such as its key-value cache.

    Its rows are the hypotheses of all sentences. Those of one sentence are neighbours, and every sentence has equally
    many.
    """

    def reorder(self, rows: Tensor) -> None:
        """Replace the hypothesis in row ``i`` by that of the old row ``rows[i]``, in place.

        The number of rows may change, but the sentences stay.
        """
        ...

    def keep(self, sentences: Tensor, hypotheses: int) -> None:
        """Keep only the sentences with these indices, each of which has ``hypotheses`` rows, in place."""
        ...


class Decodable(Protocol):
    """An autoregressive model, which generates one token at a time."""

    def start(self, memory: Any) -> Any:
        """Return the state before the first token, with one hypothesis per sentence.

        ``memory`` is the encoder output, with ``states (b,s,m)`` and the source ``lengths (b,)`` (None without
        padding). It is None for a model without a source.
        """
        ...

    def step(self, tokens: Tensor, state: Any, *, records: list[Record] | None = None) -> Any:
        """Return the hidden states ``(b,w,m)`` of the next token of each hypothesis, ``tokens (b,w)``.

        They are only given to :meth:`output`, so a model may return another object that its ``output`` takes. The
        models of Regard with a copy mechanism do.

        Each of b sentences has w hypotheses. In the first step w may be above 1. The state is updated in place. If
        ``records`` is a list, the model appends a record for every attention that it computes. The maps of records of
        kind ``"cross"`` hold the attention to the source, ``(b,h,w,s)``.
        """
        ...

    def output(self, hidden: Any) -> Tensor:
        """Return the logits of all tokens of the vocabulary, ``(b,w,vocabulary)``, for the result of :meth:`step`.

        Log-probabilities are logits too.
        """
        ...
