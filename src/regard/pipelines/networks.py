"""A model with its vocabulary from a Hugging Face folder, run on framed texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch

from regard.errors import ArgumentError
from regard.files import read_json
from regard.maps import Record
from regard.models import HuggingFaceFolder
from regard.shapes import as_device, whole_number
from regard.text import PretrainedVocabulary

if TYPE_CHECKING:
    from regard.capture import Recording
    from regard.text import Framed

__all__ = ["FRAMING_OPTIONS", "HuggingFaceNetwork"]

BATCH = 8  # texts that a model reads together
FRAMING_OPTIONS = ("truncation", "max_length", "padding", "batch_size")
_TRUNCATIONS = (True, False, "longest_first", "do_not_truncate")


@dataclass(frozen=True)
class HuggingFaceNetwork:
    """A model of :mod:`regard.models` with the weights and the vocabulary of a Hugging Face folder."""

    model: Any
    vocabulary: PretrainedVocabulary
    folder: HuggingFaceFolder

    @classmethod
    def load(cls, folder: Path, kind: type, device: str | None = None) -> Self:
        """Read a folder into a model of the class ``kind``."""
        source = HuggingFaceFolder(folder)
        model = source.load(kind).to(as_device(device or ("cuda" if torch.cuda.is_available() else "cpu")))
        size = source.encoder_config().vocabulary_size
        return cls(model.eval(), PretrainedVocabulary.from_folder(folder, size=size), source)

    @property
    def longest(self) -> int:
        """The number of tokens that the model can read, with the special tokens."""
        return self.folder.encoder_config().max_length

    def frame(self, first: Any, second: Any = None, options: dict[str, Any] | None = None) -> Framed:
        """Return the ids of a text or of a pair of texts between special tokens.

        The texts may be given as ids. The options ``truncation`` and ``max_length`` are those of a tokenizer of
        Transformers.
        """
        options = options or {}
        # As in Transformers, a length alone asks for truncation.
        truncation = options.get("truncation", options.get("max_length") is not None)
        if truncation not in _TRUNCATIONS:
            told = f"expected True, False, 'longest_first' or 'do_not_truncate', got {truncation!r}"
            raise ArgumentError("truncation", told)
        most = options.get("max_length")
        most = self.longest if most is None else min(whole_number("max_length", most, least=3), self.longest)
        cut = truncation not in (False, "do_not_truncate")
        parts = [self.vocabulary.encode(part) if isinstance(part, str) else part for part in (first, second)]
        framed = self.vocabulary.framing.frame(*parts, most=most if cut else None)
        if len(framed.ids) > self.longest:
            told = f"a text has {len(framed.ids):,} tokens, and the model reads {self.longest:,}"
            raise ArgumentError("inputs", told, "say truncation=True to read the beginning")
        return framed

    def text_of(self, ids: Sequence[int], *, specials: bool = True) -> str:
        """Return the text of ids, with the names of special tokens or without them.

        Spaces before marks are removed, unless the folder says that they are kept.
        """
        vocabulary = self.vocabulary
        if specials:
            text = vocabulary.decode_with_specials(ids)
        else:
            text = vocabulary.decode_without_specials(ids)
        return without_spaces(text) if self._cleans else text

    @property
    def _cleans(self) -> bool:
        path = self.folder.folder / "tokenizer_config.json"
        return bool(read_json(path).get("clean_up_tokenization_spaces", True)) if path.is_file() else True

    @torch.no_grad()
    def outputs(self, framed: Sequence[Framed], batch_size: int | None = None) -> Iterator[Any]:
        """Yield the output of the model for each framed text, without padding."""
        size = BATCH if batch_size is None else whole_number("batch_size", batch_size, least=1)
        for start in range(0, len(framed), size):
            some = framed[start : start + size]
            output = self._forward(some)
            for row, one in enumerate(some):
                yield _row(output, row, len(one.ids))

    def _forward(self, framed: Sequence[Framed], records: list[Record] | None = None) -> Any:
        device = next(self.model.parameters()).device
        tokens, kinds, lengths = (
            part.to(device) for part in self.vocabulary.framing.pad_batch(list(framed))
        )  # (b,n), (b,n), (b,)
        given = {"types": kinds} if self.folder.encoder_config().token_types > 1 else {}
        return self.model(tokens, lengths, records=records, **given)

    @torch.no_grad()
    def recording(self, framed: Framed) -> Recording:
        """Return the attention of the model for one framed text."""
        from regard.capture import Recording

        records: list[Record] = []
        self._forward([framed], records)
        tokens = [self.vocabulary.pieces(framed.ids)]
        return Recording([replace(one, query_tokens=tokens, key_tokens=tokens) for one in records])


def without_spaces(text: str) -> str:
    """Remove the spaces that tokenization leaves before marks and contractions, as Transformers 4 did.

    >>> without_spaces("it does n't matter , is n't it ?")
    "it doesn't matter, isn't it?"
    """
    for mark in (".", "?", "!", ","):
        text = text.replace(f" {mark}", mark)
    text = text.replace(" ' ", "'")
    for ending in ("n't", "'m", "'s", "'ve", "'re"):
        text = text.replace(f" {ending}", ending)
    return text


def _row(output: Any, row: int, length: int) -> Any:
    """Return the output of one text of a batch. States (b,n,m) and pairs of (b,n) lose their padding."""
    if isinstance(output, tuple):
        return tuple(part[row, :length] for part in output)
    return output[row, :length] if output.ndim == 3 else output[row]
