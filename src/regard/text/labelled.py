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
from collections.abc import Iterable, Mapping, Sequence
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

SHOWN = 20  # classes that an error names


class ClassLabels:
    """The names of the classes, in a fixed order.

    The number of a class is its place in that order, from 0. There are at least two classes.

    >>> labels = ClassLabels(["negative", "positive"])
    >>> labels.encode_batch(["positive", "negative"]), labels[1]
    ([[1], [0]], 'positive')

    ``aliases`` maps other names of classes to names, such as the labels of the data where the classes have readable
    names.

    >>> ClassLabels(["negative", "positive"], {"0": "negative", "1": "positive"}).index("1")
    1
    """

    def __init__(self, names: Iterable[str], aliases: Mapping[str, str] | None = None):
        self.names, self.aliases = list(names), dict(aliases or {})
        if len(set(self.names)) != len(self.names) or len(self.names) < 2:
            shown = ", ".join(map(repr, self.names[:5])) or "none"
            raise ArgumentError("labels", f"expected two different classes or more, got {shown}")
        self._index = {name: index for index, name in enumerate(self.names)}
        for alias, name in self.aliases.items():
            if (
                name not in self.names
                or self._index.setdefault(alias, self._index[name]) != self._index[name]
            ):
                told = f"expected other names of {', '.join(self.names[:5])}, got {alias!r} for {name!r}"
                raise ArgumentError("aliases", told)

    @classmethod
    def of(cls, rows: Iterable[tuple[str, str]]) -> Self:
        """Return the distinct labels of (text, label) rows in alphabetical order, without spaces around them."""
        return cls(sorted({label.strip() for _, label in rows}))

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> str:
        return self.names[index]

    @property
    def fingerprint(self) -> str:
        """A hash of the names and the aliases."""
        return fingerprint_of(self.names, self.aliases) if self.aliases else fingerprint_of(self.names)

    def index(self, name: str) -> int:
        """Return the number of the class with a name or an alias, or raise FileError if there is none."""
        problem = self.problem_of("", name)
        if problem:
            raise FileError(problem)
        return self._index[name.strip()]

    def problem_of(self, _text: str, name: str) -> str:
        """Return why the label ``name`` of a row is none of the classes, or an empty text if it is one.

        It has the signature of the argument ``check`` of :func:`regard.text.read_pairs`.
        """
        if name.strip() in self._index:
            return ""
        known = ", ".join(self.names[:SHOWN]) + ", …" * (len(self.names) > SHOWN)
        return f"the label {name.strip()!r:.60} is not one of {known}"

    def encode_batch(self, names: Sequence[str]) -> list[list[int]]:
        """Return the number of the class of each name, in a list of its own, as a vocabulary returns ids."""
        return [[self.index(name)] for name in names]

    def save(self, path: Path) -> None:
        """Write the names and the aliases into a JSON file, atomically."""
        values = {"format": "regard.labels/1", "labels": self.names, "label_aliases": self.aliases}
        text = json.dumps(values, ensure_ascii=False) + "\n"
        write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the file that :meth:`save` wrote, or raise FileError if it holds no labels."""
        return cls.checked(read_json(path), str(path))

    @classmethod
    def checked(cls, values: Mapping[str, Any], where: str) -> Self:
        """Return the labels of a JSON object with "labels" and perhaps "label_aliases", or raise FileError.

        ``where`` is the file that holds the object, for the error.
        """
        names, aliases = values.get("labels"), values.get("label_aliases", {})
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise FileError(f"{where}: labels: expected a list of names, got {names!r}")
        if not isinstance(aliases, dict) or not all(isinstance(name, str) for name in aliases.values()):
            raise FileError(f"{where}: label_aliases: expected names by label, got {aliases!r}")
        try:
            return cls(names, aliases)
        except ArgumentError as error:
            raise FileError(f"{where}: {error}") from None


@dataclass(frozen=True)
class LabelledBatch:
    """A batch of ``b`` texts as padded int64 tensors, with their classes."""

    tokens: Tensor  # (b, n), ids with the special tokens around them, padding
    lengths: Tensor  # (b,), with the special tokens
    labels: Tensor  # (b,)

    @property
    def tokens_read(self) -> int:
        """The number of tokens with the special ones, without padding."""
        return int(self.lengths.sum())

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
        """Return the numbers of tokens of the texts, (n, 1), with the special tokens as in a batch."""
        return self.source.lengths()[:, None].astype(np.int32) + self.framing.added()

    def labels(self) -> np.ndarray:
        """Return the number of the class of each text, (n,)."""
        return np.asarray(self.target.ids, dtype=np.int64)

    def batch(self, indices: Sequence[int] | np.ndarray) -> Any:
        """Return the texts at these indices as a padded :class:`LabelledBatch`."""
        indices = np.array(indices, dtype=np.int64)  # (b,)
        start, end, pad = self.framing.start, self.framing.end, self.framing.pad
        tokens, lengths = self.source.padded(indices, start=start, end=end, pad=pad)  # (b, n), (b,)
        labels, _ = self.target.padded(indices)  # (b, 1)
        return LabelledBatch(*map(torch.from_numpy, (tokens, lengths, labels[:, 0])))
