"""The text that a writer is trained and validated on, from a file or from the embedded corpus."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from regard.corpus import generate
from regard.errors import FileError, option, renamed
from regard.files import make_folder, remove_leftovers
from regard.tasks.write.settings import WritingSettings
from regard.tasks.write.windows import TextWindows
from regard.text import BadRows, Skipped, Vocabulary, load_vocabulary, train_vocabulary
from regard.text.cache import TokenStore, fingerprint_of, open_stores, write_stores
from regard.text.lines import check_readable, lines_of
from regard.training.progress import Counted

__all__ = ["TextSource", "WritingData", "embedded_chunks", "prepare", "read_chunks", "split_chunks"]

VOCABULARY = "tokenizer.json"
# Characters that are encoded together, at least.
CHUNK = 2**16
HELD_OUT = 500_000  # characters that are held out, at most
# Sentences of the embedded corpus to validate on.
EMBEDDED_VALID = 1000
NULL = "it holds a null character: is it text?"


@dataclass(frozen=True)
class WritingData:
    """The encoded text to train and to validate on, and the vocabulary.

    ``valid`` begins with the last ``before`` tokens of the training text, which are read and not scored.
    """

    train: TextWindows
    valid: np.ndarray  # (tokens,)
    before: int
    characters: dict[str, int]  # of the parts "train" and "valid"
    vocabulary: Vocabulary

    @property
    def skipped(self) -> Skipped:
        """The counts of the lines that were left out."""
        return Skipped(**self.train.manifest.get("skipped", {}))


def prepare(
    settings: WritingSettings, folder: Path, *, learn: bool = False, show: bool = False
) -> WritingData:
    """Read the text and encode it into the cache of ``folder``."""
    make_folder(folder)
    remove_leftovers(folder / "cache")
    source = TextSource(settings)
    path = folder / VOCABULARY
    if learn or not path.is_file():
        chunks = Counted(source.training(), "parts of the text read for the vocabulary", wanted=show)
        size, lowercase = settings.vocabulary_size, settings.lowercase
        train_vocabulary(settings.vocabulary, _some(chunks, settings), size, lowercase=lowercase).save(path)
    vocabulary = load_vocabulary(path)
    stores, manifest = _encoded(source, vocabulary, folder / "cache", show=show)
    train, valid = (stores[name].ids for name in ("train", "valid"))  # (tokens,)
    _check_lengths(settings, train, valid)
    tail = train[:0] if settings.data is None or settings.valid else train[-settings.context :]
    windows = TextWindows(train, settings.context, vocabulary.bos, manifest)
    known = np.concatenate([tail, valid])  # (tokens,)
    return WritingData(windows, known, len(tail), manifest["characters"], vocabulary)


def _some(chunks: Iterable[str], settings: WritingSettings) -> Iterator[str]:
    """Yield the parts of a text, or raise FileError if there is none."""
    empty = True
    for chunk in chunks:
        empty = False
        yield chunk
    if empty:
        raise FileError(f"{settings.data}: there is no text to train on", argument="data")


def _check_lengths(settings: WritingSettings, train: np.ndarray, valid: np.ndarray) -> None:
    """Raise FileError if there is too little text for the context, or nothing to validate on."""
    if len(train) < settings.context:
        problem = f"{settings.data}: the {len(train):,} tokens to train on are shorter than the context"
        raise FileError(
            f"{problem} of {settings.context}: give more text, or a smaller {option('context')}",
            argument="data",
        )
    if not len(valid):
        place = settings.valid or settings.data
        fix = f"give a longer text, or a larger {option('hold_out')}"
        raise FileError(f"{place}: there is no character to validate on: {fix}", argument="data")


def _encoded(
    source: TextSource, vocabulary: Vocabulary, folder: Path, *, show: bool
) -> tuple[dict[str, TokenStore], dict[str, Any]]:
    """Open the cache if it is intact and matches the text and the vocabulary, or build it."""
    fingerprint = fingerprint_of(source.identity(), vocabulary.fingerprint, files=source.files())
    try:
        stores, manifest = open_stores(folder, verify=True)
        if manifest.get("fingerprint") == fingerprint and set(stores) == {"train", "valid"}:
            return stores, manifest
    except FileError:
        # The cache is missing, truncated or modified, so it is built.
        pass
    skipped = Skipped()

    def fill(writers: dict[str, Any]) -> dict[str, Any]:
        characters = {"train": 0, "valid": 0}
        parts = {"train": source.training(skipped), "valid": source.validation()}
        for name, chunks in parts.items():
            for chunk in Counted(chunks, "parts of the text encoded", wanted=show):
                writers[name].append([vocabulary.encode(chunk)])
                characters[name] += len(chunk)
        return {"fingerprint": fingerprint, "skipped": skipped.to_json(), "characters": characters}

    return write_stores(folder, {"train": len(vocabulary), "valid": len(vocabulary)}, fill)


@dataclass(frozen=True)
class TextSource:
    """The text that a run trains on, and the text that it validates on."""

    settings: WritingSettings

    def training(self, skipped: Skipped | None = None) -> Iterator[str]:
        """Yield the text to train on, in parts."""
        s = self.settings
        if s.data is None:
            yield from embedded_chunks(s.language, s.embedded_seed, "train", s.embedded_count)
        elif s.valid:
            yield from self._read("data", skipped)
        else:
            yield from split_chunks(self._read("data", skipped), self.first_valid)[0]

    def validation(self) -> Iterator[str]:
        """Yield the text to validate on, in parts. Bad lines of a file of its own are warned of."""
        s = self.settings
        if s.data is None:
            yield from embedded_chunks(s.language, s.embedded_seed, "valid", EMBEDDED_VALID)
        elif s.valid:
            skipped = Skipped()
            yield from self._read("valid", skipped)
            if skipped.bad:
                warnings.warn(f"valid: left out: {skipped}", stacklevel=2)
        else:
            yield from split_chunks(self._read("data", None), self.first_valid)[1]

    @cached_property
    def first_valid(self) -> int:
        """The place of the first character that is held out, where the end of the text is."""
        total = sum(len(chunk) for chunk in self._read("data", None))
        return max(int(total * (1 - self.settings.hold_out)), total - HELD_OUT)

    def _read(self, name: str, skipped: Skipped | None) -> Iterator[str]:
        with renamed(path=name):
            yield from read_chunks(
                getattr(self.settings, name), skip_bad_rows=self.settings.skip_bad_rows, skipped=skipped
            )

    def files(self) -> list[str]:
        """Return the files that the text depends on."""
        return [path for path in (self.settings.data, self.settings.valid) if path]

    def identity(self) -> list[object]:
        """Return values that identify the text together with the contents of its files."""
        s = self.settings
        if s.data is None:
            return [s.language, s.embedded_count, s.embedded_seed, EMBEDDED_VALID]
        return [s.skip_bad_rows, None if s.valid else s.hold_out]


def read_chunks(place: str, *, skip_bad_rows: bool = False, skipped: Skipped | None = None) -> Iterator[str]:
    """Yield the text of a file in parts of at least 65,536 characters, which end at the end of a line.

    Every line ends in ``\\n``, also the last one. Lines that are not UTF-8 or hold a null character raise FileError at
    the end of the file, or are left out and counted in ``skipped``.
    """
    check_readable("path", place)
    bad = BadRows(skipped if skipped is not None else Skipped(), skip=skip_bad_rows, argument="path")
    part, size = [], 0
    for line in lines_of("path", place):
        if line.problem or "\0" in (line.text or ""):
            bad.add(line.place, line.problem or NULL)
        elif line.text is None:
            fix = "break it into lines, for example with  fold -s"
            raise FileError(f"{line.place}: the line is longer than 16 MiB: {fix}", argument="path")
        elif not bad.failed:
            part.append(line.text)
            size += len(line.text) + 1
        if size >= CHUNK:
            yield "\n".join([*part, ""])
            part, size = [], 0
    bad.check()
    if part:
        yield "\n".join([*part, ""])


def split_chunks(chunks: Iterator[str], first: int) -> tuple[Iterator[str], Iterator[str]]:
    """Return the parts of a text before its character ``first``, and those from it on.

    Only one of the two may be read.

    >>> ["".join(part) for part in split_chunks(iter(["abc", "def"]), 4)][0]
    'abcd'
    >>> "".join(split_chunks(iter(["abc", "def"]), 4)[1])
    'ef'
    """

    def one_side(before: bool) -> Iterator[str]:
        place = 0
        for chunk in chunks:
            cut = min(max(first - place, 0), len(chunk))
            part = chunk[:cut] if before else chunk[cut:]
            if part:
                yield part
            place += len(chunk)

    return one_side(True), one_side(False)


def embedded_chunks(language: str, seed: int, split: str, count: int) -> Iterator[str]:
    """Yield sentences of the embedded corpus as one text, with a sentence in each line.

    >>> next(embedded_chunks("en", 3, "train", 4)).splitlines()[2:]
    ['Who was tall?', 'The fox wakes up.']
    """
    part, size = [], 0
    for triple in generate(count, split=split, seed=seed):
        part.append(triple.side(language).text + "\n")
        size += len(part[-1])
        if size >= CHUNK:
            yield "".join(part)
            part, size = [], 0
    if part:
        yield "".join(part)
