"""Texts with labels, encoded and batched for a classifier.

>>> from regard.text.vocabularies import ByteVocabulary
>>> rows = [("good", "positive"), ("bad", "negative"), ("fine", "positive")]
>>> data = LabelledData.in_memory(rows, ByteVocabulary(), ClassLabels.of(rows))
>>> data.batch([0, 1]).labels
tensor([1, 0])
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from regard.errors import ArgumentError, FileError
from regard.files import read_json, write_atomically
from regard.text.batches import PairData
from regard.text.cache import fingerprint_of
from regard.text.framing import Framing
from regard.text.vocabularies import Vocabulary

__all__ = ["LABEL_FIELDS", "ClassLabels", "LabelledBatch", "LabelledData"]

# Names of the fields that hold a text and its label, in files whose columns are not given.
LABEL_FIELDS = tuple(
    (text, label)
    for text in ("text", "sentence", "review", "content")
    for label in ("label", "class", "category", "sentiment", "target")
)


class ClassLabels:
    """The names of the classes, in a fixed order.

    >>> labels = ClassLabels(["negative", "positive"])
    >>> labels.encode_batch(["positive", "negative"]), labels[1]
    ([[1], [0]], 'positive')
    """

    def __init__(self, names: Iterable[str]):
        self.names = list(names)
        if len(set(self.names)) != len(self.names) or len(self.names) < 2:
            shown = ", ".join(map(repr, self.names[:5])) or "none"
            raise ArgumentError("labels", f"expected two different classes or more, got {shown}")
        self._index = {name: index for index, name in enumerate(self.names)}

    @classmethod
    def of(cls, rows: Iterable[tuple[str, str]]) -> Self:
        """Return the labels of (text, label) rows in alphabetical order."""
        return cls(sorted({label.strip() for _, label in rows}))

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> str:
        return self.names[index]

    @property
    def fingerprint(self) -> str:
        """A hash of the names."""
        return fingerprint_of(self.names)

    def index(self, name: str) -> int:
        """Return the number of a class, or raise FileError if there is none of that name."""
        if name.strip() not in self._index:
            raise FileError(f"the label {name.strip()!r} is not one of {', '.join(self.names)}")
        return self._index[name.strip()]

    def encode_batch(self, names: Sequence[str]) -> list[list[int]]:
        """Return the number of each class, in lists of one, as a vocabulary returns ids."""
        return [[self.index(name)] for name in names]

    def save(self, path: Path) -> None:
        """Write the names into a file."""
        text = json.dumps({"format": "regard.labels/1", "labels": self.names}, ensure_ascii=False) + "\n"
        write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the names from a file."""
        return cls.checked(read_json(path).get("labels"), str(path))

    @classmethod
    def checked(cls, names: Any, where: str) -> Self:
        """Return the labels of a list of names, or raise FileError if it is none."""
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise FileError(f"{where}: labels: expected a list of names, got {names!r}")
        try:
            return cls(names)
        except ArgumentError as error:
            raise FileError(f"{where}: {error}") from None


@dataclass(frozen=True)
class LabelledBatch:
    """A batch of ``b`` texts as padded int64 tensors, with their classes."""

    tokens: Tensor  # (b, n), ids with the special tokens around them, padding
    lengths: Tensor  # (b,), with the special tokens
    labels: Tensor  # (b,)

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device | str) -> LabelledBatch:
        """Return the batch on a device."""
        return LabelledBatch(*(part.to(device) for part in (self.tokens, self.lengths, self.labels)))


class LabelledData(PairData):
    """Encoded texts with one label each, in memory or memory-mapped from disk.

    It is built like :class:`regard.text.PairData`, with :class:`ClassLabels` in place of the second vocabulary. A
    batch has the special tokens of the vocabulary around each text.
    """

    @functools.cached_property
    def framing(self) -> Framing:
        """The special tokens around each text."""
        start, end, pad = self.manifest.get("framing", [None, Vocabulary.eos, Vocabulary.pad])
        return Framing(start, end, pad)

    def lengths(self) -> np.ndarray:
        """Return the lengths of the texts, (n, 1), with the special tokens as in a batch."""
        return self.source.lengths()[:, None].astype(np.int32) + self.framing.added()

    def labels(self) -> np.ndarray:
        """Return the class of each text, (n,)."""
        return np.asarray(self.target.ids, dtype=np.int64)

    def batch(self, indices: Sequence[int] | np.ndarray) -> Any:
        """Return the texts at these indices as a padded :class:`LabelledBatch`."""
        indices = np.array(indices, dtype=np.int64)  # (b,)
        start, end, pad = self.framing.start, self.framing.end, self.framing.pad
        tokens, lengths = self.source.padded(indices, start=start, end=end, pad=pad)  # (b, n), (b,)
        labels, _ = self.target.padded(indices)  # (b, 1)
        return LabelledBatch(*map(torch.from_numpy, (tokens, lengths, labels[:, 0])))
