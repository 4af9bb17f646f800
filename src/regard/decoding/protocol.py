"""What a model has to offer to be decoded."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

__all__ = ["Decodable", "DecodingState"]


class DecodingState(Protocol):
    """What a model remembers between two steps: rows are the hypotheses of all sentences, sentence by sentence."""

    def reorder(self, rows: Tensor) -> None:
        """Let each hypothesis go on from the row given for it."""
        ...

    def keep(self, sentences: Tensor, hypotheses: int) -> None:
        """Forget all sentences but these."""
        ...


class Decodable(Protocol):
    """A model that writes token after token."""

    def start(self, memory: Any) -> Any:
        """The state before the first token; ``memory`` is what the encoder made of the source, or None."""
        ...

    def step(self, tokens: Tensor, state: Any, *, seen: list | None = None) -> Tensor:
        """Hidden states ``(b,w,m)`` after one more token ``(b,w)`` of ``w`` hypotheses a sentence."""
        ...

    def output(self, hidden: Tensor) -> Tensor:
        """Scores of all tokens, ``(...,vocabulary)``."""
        ...
