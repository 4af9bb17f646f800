"""What a model has to offer to be decoded."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

__all__ = ["Decodable", "DecodingState"]


class DecodingState(Protocol):
    """What a model remembers between two steps: rows are the hypotheses of all sentences, sentence by sentence."""

    def reorder(self, rows: Tensor) -> None:
        """Let each hypothesis go on from the row given for it; there may be more or fewer of them than before."""
        ...

    def keep(self, sentences: Tensor, hypotheses: int) -> None:
        """Forget all sentences but these."""
        ...


class Decodable(Protocol):
    """A model that writes token after token."""

    def start(self, memory: Any) -> Any:
        """The state before the first token: one hypothesis a sentence.

        ``memory`` is what the encoder made of the source, with its ``states (b,s,m)`` and the ``lengths (b,)`` of
        the sentences (None where none is padded); or None for a model that has no source.
        """
        ...

    def step(self, tokens: Tensor, state: Any, *, seen: list | None = None) -> Tensor:
        """Hidden states ``(b,w,m)`` after one more token ``(b,w)`` of ``w`` hypotheses a sentence.

        What is put into ``seen`` has a ``kind`` and ``weights``; those of kind ``"cross"``, ``(b,h,w,s)``, say what
        of the source was attended to.
        """
        ...

    def output(self, hidden: Tensor) -> Tensor:
        """Scores of all tokens, ``(...,vocabulary)``."""
        ...
