"""From files, or from the embedded corpus, to vocabularies and cached batches."""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import ArgumentError, FileError
from regard.files import make_folder, remove_leftovers
from regard.tasks.translate.locations import content_hash, local_path
from regard.tasks.translate.settings import TranslationSettings
from regard.text import (
    PairData,
    Skipped,
    Vocabulary,
    load_vocabulary,
    read_lines,
    read_pairs,
    train_vocabulary,
)
from regard.text._hf import splits_of
from regard.training.progress import Counted, in_terminal

__all__ = ["TranslationData", "prepare", "reader", "vocabulary_files"]

VOCABULARY_PAIRS = 400_000  # that a vocabulary is learnt from, at most
LONGEST_WORDS = 1000  # of a side that is trained on
REMEMBERED = 200_000  # sentences of the embedded corpus that are kept in memory, at most
Pairs = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class TranslationData:
    """What training reads."""

    train: PairData
    valid: list[tuple[str, str]]
    source: Vocabulary
    target: Vocabulary


def prepare(
    settings: TranslationSettings, folder: Path, *, learn: bool = False, show: bool = False
) -> TranslationData:
    """Read the pairs and encode them into the cache of ``folder``.

    ``learn`` learns the vocabularies anew; else those that are there are used. ``show`` says on the error stream how
    far the reading is.
    """
    make_folder(folder)
    remove_leftovers(folder / "cache")
    valid = list(validation_pairs(settings))  # first: a mistake in it shall show before the long work
    if not valid:
        raise FileError(f"valid: no pair of {settings.valid_source} can be used")
    skipped = Skipped()
    source, target = _vocabularies(settings, folder, learn, show)
    train = PairData.build_or_open(
        lambda: Counted(training_pairs(settings, skipped), "pairs encoded", wanted=show),
        source,
        target,
        folder / "cache",
        files=[path for path in _files(settings) if Path(path).is_file()],
        identity=_identity(settings),
        max_tokens=settings.max_tokens,
        skipped=skipped,
    )
    if len(train) == 0:
        told = f"no pair of {settings.data or 'the embedded corpus'} can be used: {train.skipped}"
        raise FileError(f"data: {told}")
    return TranslationData(train, valid, source, target)


def _files(settings: TranslationSettings) -> list[str]:
    """What the training pairs depend on; the sources of the last two are left out of them."""
    named = (settings.data, settings.target_data, settings.valid_source, settings.exclude)
    return [path for path in named if path]


def _identity(settings: TranslationSettings) -> list[object]:
    """What the training pairs are known by besides the contents of their files, wherever these stand."""
    s = settings
    hub = [_known_by(name) for name in _files(s) if name.startswith("hf:")]
    parts = [hub, s.split, s.valid_split, s.dataset_config, s.columns, s.format]
    return [*parts, s.embedded_count, s.embedded_seed, s.source_language, s.target_language]


def _known_by(name: str) -> str:
    """The name of a data set, or a hash of its contents where it is on this machine."""
    path = local_path(name)
    return name if path is None else f"hf:{content_hash(path)}"


def training_pairs(
    settings: TranslationSettings, skipped: Skipped | None = None
) -> Iterator[tuple[str, str]]:
    """All training pairs: those of the files, then those of the embedded corpus; none that is held out."""
    skipped = skipped if skipped is not None else Skipped()
    held = _held_out(settings)
    for source, target in _all_pairs(settings, skipped):
        if source in held:
            skipped.count("held_out", repr(source))
        else:
            yield source, target


def _all_pairs(settings: TranslationSettings, skipped: Skipped) -> Iterator[tuple[str, str]]:
    if settings.data:
        yield from reader(settings, settings.data, settings.target_data, skipped)
    count = settings.embedded_count
    if count:
        yield from embedded_pairs(settings, "train", count)


def _held_out(settings: TranslationSettings) -> set[str]:
    """The sources of the validation pairs, and of what is to be excluded."""
    s, held = settings, set()
    if s.valid_source:
        held.update(source for source, _ in reader(s, s.valid_source, s.target_valid, split=s.valid_split))
    if s.exclude and s.target_data:  # as data: the source side, a text a line
        held.update(read_lines(s.exclude))
    elif s.exclude:
        held.update(source for source, _ in reader(s, s.exclude, None, split="test"))
    return held


def validation_pairs(settings: TranslationSettings) -> Iterator[tuple[str, str]]:
    """The pairs to validate on; without a file, sentences of the embedded corpus that training never sees."""
    if settings.valid_source:
        _check_validation_part(settings)
        where = (settings.valid_source, settings.target_valid)
        pairs = list(reader(settings, *where, split=settings.valid_split))
        # Files are often sorted: any part shall stand for the whole.
        random.Random(settings.seed).shuffle(pairs)
        yield from pairs
    elif settings.data:
        raise ArgumentError("valid", "not given", "name a file of pairs that are not in the training data")
    else:
        yield from embedded_pairs(settings, "valid", settings.validate_sentences)


def _check_validation_part(settings: TranslationSettings) -> None:
    """See that a data set has a part to validate on, where none is named."""
    if settings.valid is not None or settings.valid_source is None:
        return
    parts = splits_of(settings.valid_source[3:], config=settings.dataset_config)
    if settings.valid_split not in parts:
        told = (
            f"{settings.valid_source} has no part {settings.valid_split!r}, but {', '.join(parts) or 'none'}"
        )
        fix = "name pairs that are not in the training data, or another part with valid_split="
        raise ArgumentError("valid", f"not given, and {told}", fix)


def reader(
    settings: TranslationSettings,
    source: str,
    target: str | None,
    skipped: Skipped | None = None,
    *,
    split: str | None = None,
    max_words: int | None = LONGEST_WORDS,
) -> Iterator[tuple[str, str]]:
    """The pairs of a file, of two, or of a part of a Hugging Face data set."""
    columns = [int(name) if name.strip().isdigit() else name.strip() for name in settings.columns.split(",")]
    if len(columns) != 2:
        raise ArgumentError("columns", f"expected two, such as 0,1 or en,fr: got {settings.columns!r}")
    return read_pairs(
        source,
        target,
        columns=tuple(columns),  # type: ignore[arg-type]
        format=settings.format,
        split=split or settings.split,
        config=settings.dataset_config,
        max_words=max_words,
        languages=(settings.source_language, settings.target_language),
        skipped=skipped,
    )


def embedded_pairs(settings: TranslationSettings, split: str, count: int) -> Iterator[tuple[str, str]]:
    """Sentences of the embedded corpus in the two languages."""
    asked = (split, count, settings.embedded_seed, settings.source_language, settings.target_language)
    return iter(_remembered(*asked)) if count <= REMEMBERED else _generated(*asked)


@functools.lru_cache(maxsize=1)
def _remembered(*asked: Any) -> list[tuple[str, str]]:
    """What was generated last: a vocabulary is learnt from what is encoded next."""
    return list(_generated(*asked))


def _generated(split: str, count: int, seed: int, source: str, target: str) -> Iterator[tuple[str, str]]:
    from regard.corpus import generate

    for triple in generate(count, split=split, seed=seed):
        yield triple.side(source).text, triple.side(target).text


def vocabulary_files(settings: TranslationSettings, folder: Path) -> list[Path]:
    """Where the vocabularies of a run are: one for both languages, or one each."""
    names = ["tokenizer"] if settings.shared_vocabulary else ["source", "target"]
    return [folder / f"{name}.json" for name in names]


def _vocabularies(
    settings: TranslationSettings, folder: Path, learn: bool, show: bool
) -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies of the run: as they were written down, or learnt now."""
    files = vocabulary_files(settings, folder)
    sides = [(0, 1)] if settings.shared_vocabulary else [(0,), (1,)]
    if learn or not all(path.is_file() for path in files):
        for path, some in zip(files, sides, strict=True):
            _learn(settings, some, show).save(path)
    held = [load_vocabulary(path) for path in files]
    return held[0], held[-1]


def _learn(settings: TranslationSettings, sides: tuple[int, ...], show: bool) -> Vocabulary:
    pairs = Counted(training_pairs(settings), "pairs read for the vocabulary", wanted=show)
    kept = _some(pairs, settings.seed)
    if show and in_terminal():
        print("learning the vocabulary …", file=sys.stderr)
    texts = (pair[side] for pair in kept for side in sides)
    return train_vocabulary(
        settings.vocabulary, texts, settings.vocabulary_size, lowercase=settings.lowercase
    )


def _some(pairs: Pairs, seed: int) -> Pairs:
    """All pairs, or so many that memory does not grow with the data: each with the same chance, wherever it stands."""
    chance = random.Random(seed)
    kept: list[tuple[str, str]] = []
    for number, pair in enumerate(pairs):
        if number < VOCABULARY_PAIRS:
            kept.append(pair)
        elif (place := chance.randrange(number + 1)) < VOCABULARY_PAIRS:
            kept[place] = pair
    return kept
