"""The special tokens of a model, by the names of Transformers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from regard.text import Vocabulary

__all__ = ["Tokenizer"]


@dataclass(frozen=True)
class Tokenizer:
    """The special tokens of a model with their ids, by the names that a tokenizer of Transformers has for them.

    A token that the model does not have is None. ``model_max_length`` is the number of tokens that the model reads,
    with the special tokens. ``vocabulary`` encodes and decodes texts.

    >>> from regard.text import ByteVocabulary
    >>> Tokenizer.of(ByteVocabulary(), longest=64).sep_token
    '<eos>'
    """

    vocabulary: Vocabulary
    model_max_length: int
    mask_token: str | None
    mask_token_id: int | None
    cls_token: str | None
    cls_token_id: int | None
    sep_token: str | None
    sep_token_id: int | None
    pad_token: str | None
    pad_token_id: int | None
    unk_token: str | None
    unk_token_id: int | None
    bos_token: str | None
    bos_token_id: int | None
    eos_token: str | None
    eos_token_id: int | None

    @classmethod
    def of(cls, vocabulary: Vocabulary, *, longest: int) -> Self:
        """Read the special tokens of a vocabulary."""
        framing = vocabulary.framing
        ids = {
            "mask": vocabulary.mask,
            "cls": framing.start,
            "sep": framing.end,
            "pad": vocabulary.pad,
            "unk": vocabulary.unk,
            "bos": vocabulary.bos,
            "eos": vocabulary.eos,
        }
        names = {
            f"{name}_token": None if number is None else vocabulary.pieces([number])[0]
            for name, number in ids.items()
        }
        numbers = {f"{name}_token_id": number for name, number in ids.items()}
        return cls(vocabulary, longest, **names, **numbers)
