"""The training and validation texts of an encoder, from files or from the embedded corpus."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.corpus import generate
from regard.errors import FileError, renamed
from regard.files import make_folder, remove_leftovers
from regard.tasks.encode.settings import EncodingSettings
from regard.tasks.pairs import nothing_left
from regard.tasks.pretrained import starting_vocabulary
from regard.tasks.sampling import held_out_keys
from regard.tasks.vocabularies import learn_vocabulary
from regard.text import Skipped, TextPieces, Vocabulary, load_vocabulary, read_lines, read_pairs
from regard.text.base_vocabulary import MASK
from regard.training.progress import Counted

__all__ = ["EncodingData", "TextSource", "embedded_texts", "prepare", "read_texts"]

VOCABULARY = "tokenizer.json"
# Characters of a text. Longer lines are several texts.
LONGEST = 2000


@dataclass(frozen=True)
class EncodingData:
    """The encoded pieces to train and to validate on, and the vocabulary."""

    train: TextPieces
    valid: TextPieces
    vocabulary: Vocabulary


def prepare(
    settings: EncodingSettings, folder: Path, *, learn: bool = False, show: bool = False
) -> EncodingData:
    """Read the texts and encode them into the cache of ``folder``."""
    make_folder(folder)
    remove_leftovers(folder / "cache")
    source = TextSource(settings)
    valid = source.validation()
    path = folder / VOCABULARY
    if learn or not path.is_file():
        if settings.start is not None:
            vocabulary = starting_vocabulary(settings)
        else:
            rows = ((text, "") for text in source.training())
            vocabulary = learn_vocabulary(settings, rows, seed=settings.seed, show=show, specials=[MASK])
        vocabulary.save(path)
    vocabulary = load_vocabulary(path)
    if vocabulary.mask is None:
        raise FileError(f"{settings.start}: the vocabulary has no token for a hidden word", argument="start")
    skipped = Skipped()
    train = TextPieces.build_or_open(
        lambda: Counted(source.training(skipped), "texts encoded", wanted=show),
        vocabulary,
        folder / "cache",
        max_tokens=settings.max_tokens,
        files=source.files(),
        identity=source.identity(),
        skipped=skipped,
    )
    if len(train) == 0:
        raise FileError(f"no text of {settings.data or 'the embedded corpus'} can be used", argument="data")
    return EncodingData(
        train, TextPieces.in_memory(valid, vocabulary, max_tokens=settings.max_tokens), vocabulary
    )


@dataclass(frozen=True)
class TextSource:
    """The texts that a run trains on and validates on."""

    settings: EncodingSettings

    def training(self, skipped: Skipped | None = None) -> Iterator[str]:
        """Yield the texts to train on, without any that is held out. It is an error if none is left."""
        skipped = skipped if skipped is not None else Skipped()
        s = self.settings
        if s.data is None:
            yield from embedded_texts(s.language, s.embedded_seed, "train", s.embedded_count)
            return
        empty = True
        for text in self.read("data", skipped):
            if text in self.held_out:
                skipped.count("held_out", repr(text[:80]))
            else:
                empty = False
                yield text
        if empty:
            raise nothing_left(s.data, skipped)

    def validation(self) -> list[str]:
        """Return the texts to validate on, at most as many as the settings say."""
        s = self.settings
        if s.data is None:
            return list(embedded_texts(s.language, s.embedded_seed, "valid", s.hold_out_most))
        if not s.valid:
            return sorted(self.held_out)
        skipped = Skipped()
        texts = sorted(set(self.read("valid", skipped)))
        if skipped.bad:
            warnings.warn(f"valid: left out: {skipped}", stacklevel=2)
        random.Random(s.seed).shuffle(texts)
        if not texts:
            raise FileError(f"no text of {s.valid} can be used", argument="valid")
        return texts[: s.hold_out_most]

    @cached_property
    def held_out(self) -> set[str]:
        """The texts that are not trained on, which are the validation data or are chosen by their hash."""
        s = self.settings
        if s.valid:
            return set(self.read("valid", Skipped()))
        held = held_out_keys(
            self.read("data", Skipped()), share=s.hold_out, most=s.hold_out_most, seed=s.seed
        )
        if not held or all(text in held for text in self.read("data", Skipped())):
            problem = f"{s.data}: there are too few texts to hold some out"
            raise FileError(
                f"{problem}: give more, join_lines for one long text, or validation texts", argument="data"
            )
        return held

    def read(self, name: str, skipped: Skipped) -> Iterator[str]:
        """Yield the texts of the data that the setting ``name`` names."""
        s = self.settings
        place = getattr(s, name)
        split = "train" if name == "data" else "validation"
        with renamed(path=name, source=name):
            yield from read_texts(
                place,
                s.column,
                join_lines=s.join_lines,
                split=split,
                skip_bad_rows=s.skip_bad_rows,
                skipped=skipped,
            )

    def files(self) -> list[str]:
        """Return the files that the training texts depend on."""
        return [path for path in (self.settings.data, self.settings.valid) if path and Path(path).is_file()]

    def identity(self) -> list[object]:
        """Return values that identify the training texts together with the contents of their files."""
        s = self.settings
        named = [path for path in (s.data, s.valid) if path and path.startswith("hf:")]
        held = [] if s.data is None or s.valid else [s.hold_out, s.hold_out_most, s.seed]
        return [named, s.column, s.join_lines, s.language, s.embedded_count, s.embedded_seed, *held]


def embedded_texts(language: str, seed: int, split: str, count: int) -> Iterator[str]:
    """Yield sentences of the embedded corpus.

    >>> list(embedded_texts("en", 3, "train", 4))[2:]
    ['Who was tall?', 'The fox wakes up.']
    """
    for triple in generate(count, split=split, seed=seed):
        yield triple.side(language).text


def read_texts(
    place: str,
    column: str | None = None,
    *,
    join_lines: bool = False,
    split: str = "train",
    skip_bad_rows: bool = False,
    skipped: Skipped | None = None,
) -> Iterator[str]:
    """Yield the texts of a file, one in each line, or those of a column of a table.

    With ``join_lines`` the lines are one text. Texts of more than 2,000 characters are cut between words.
    """
    skipped = skipped if skipped is not None else Skipped()
    if column is not None:
        named: Any = int(column) if column.isdigit() else column
        options = {"split": split, "max_words": None, "skip_bad_rows": skip_bad_rows, "skipped": skipped}
        lines = (text for text, _ in read_pairs(place, columns=(named, named), **options))
    else:
        lines = read_lines(place, keep_empty=False, skip_bad_rows=skip_bad_rows, skipped=skipped)
        skipped.columns = ["all lines, joined" if join_lines else "each line"]
    for text in _joined(lines) if join_lines else lines:
        yield from _cut(" ".join(text.split()))


def _joined(lines: Iterator[str]) -> Iterator[str]:
    """Yield texts of about 2,000 characters from consecutive lines."""
    part, size = [], 0
    for line in lines:
        part.append(line)
        size += len(line) + 1
        if size > LONGEST:
            yield " ".join(part)
            part, size = [], 0
    if part:
        yield " ".join(part)


def _cut(text: str) -> Iterator[str]:
    """Cut a text at the last space before its 2,000th character, again and again."""
    while len(text) > LONGEST:
        end = text.rfind(" ", 1, LONGEST)
        end = LONGEST if end < 0 else end
        yield text[:end].strip()
        text = text[end:].strip()
    if text:
        yield text
