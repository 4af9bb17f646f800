"""From files, or from the embedded corpus, to vocabularies and cached batches."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.errors import ArgumentError, FileError
from regard.files import make_folder
from regard.tasks.translate.settings import TranslationSettings
from regard.text import PairData, Skipped, Vocabulary, load_vocabulary, read_pairs, train_vocabulary

__all__ = ["TranslationData", "prepare", "reader"]

VOCABULARY_TEXTS = 400_000  # sentences that a vocabulary is learnt from, at most
Pairs = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class TranslationData:
    """What training reads."""

    train: PairData
    valid: list[tuple[str, str]]
    source: Vocabulary
    target: Vocabulary
    skipped: Skipped


def prepare(settings: TranslationSettings, folder: Path) -> TranslationData:
    """Read the pairs, learn the vocabularies if ``folder`` has none yet, and encode the pairs into its cache."""
    make_folder(folder)
    skipped = Skipped()
    source, target = _vocabularies(settings, folder)
    files = [path for path in (settings.data, settings.target_data) if path and Path(path).is_file()]
    identity = [
        settings.data,
        settings.columns,
        settings.format,
        _embedded_count(settings),
        settings.embedded_seed,
    ]
    train = PairData.build_or_open(
        lambda: training_pairs(settings, skipped),
        source,
        target,
        folder / "cache",
        files=files,
        identity=[*identity, settings.source_language, settings.target_language],
        max_tokens=settings.max_tokens,
        skipped=skipped,
    )
    if len(train) == 0:
        raise FileError(f"data: no pair of {settings.data or 'the embedded corpus'} can be used: {skipped}")
    valid = list(validation_pairs(settings))
    if not valid:
        raise FileError(f"valid: no pair of {settings.valid} can be used")
    return TranslationData(train, valid, source, target, skipped)


def training_pairs(
    settings: TranslationSettings, skipped: Skipped | None = None
) -> Iterator[tuple[str, str]]:
    """All training pairs: those of the files, then those of the embedded corpus."""
    if settings.data:
        yield from reader(settings, settings.data, settings.target_data, skipped)
    count = _embedded_count(settings)
    if count:
        yield from embedded_pairs(settings, "train", count)


def validation_pairs(settings: TranslationSettings) -> Iterator[tuple[str, str]]:
    """The pairs to validate on; without a file, sentences of the embedded corpus that training never sees."""
    if settings.valid:
        pairs = list(reader(settings, settings.valid, settings.target_valid, None))
        random.Random(settings.seed).shuffle(
            pairs
        )  # files are often sorted: any part shall stand for the whole
        yield from pairs
    elif settings.data:
        raise ArgumentError("valid", "not given", "name a file of pairs that are not in the training data")
    else:
        yield from embedded_pairs(settings, "valid", settings.validate_sentences)


def reader(
    settings: TranslationSettings, source: str, target: str | None, skipped: Skipped | None
) -> Iterator[tuple[str, str]]:
    """The pairs of a file, or of two."""
    columns = [int(name) if name.strip().isdigit() else name.strip() for name in settings.columns.split(",")]
    if len(columns) != 2:
        raise ArgumentError("columns", f"expected two, such as 0,1 or en,fr: got {settings.columns!r}")
    return read_pairs(
        source,
        target,
        columns=tuple(columns),  # type: ignore[arg-type]
        format=settings.format,
        skipped=skipped,
    )


def embedded_pairs(settings: TranslationSettings, split: str, count: int) -> Iterator[tuple[str, str]]:
    """Sentences of the embedded corpus in the two languages."""
    from regard.text.corpus import generate

    for triple in generate(count, split=split, seed=settings.embedded_seed):
        yield triple.side(settings.source_language).text, triple.side(settings.target_language).text


def _embedded_count(settings: TranslationSettings) -> int:
    if settings.embedded:
        return settings.embedded
    return 0 if settings.data else 50_000


def _vocabularies(settings: TranslationSettings, folder: Path) -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies of the run: as they were written down, or learnt now."""
    shared, source, target = (folder / f"{name}.json" for name in ("tokenizer", "source", "target"))
    if settings.shared_vocabulary:
        if not shared.is_file():
            _learn(settings, (0, 1)).save(shared)
        both = load_vocabulary(shared)
        return both, both
    if not (source.is_file() and target.is_file()):
        _learn(settings, (0,)).save(source)
        _learn(settings, (1,)).save(target)
    return load_vocabulary(source), load_vocabulary(target)


def _learn(settings: TranslationSettings, sides: tuple[int, ...]) -> Vocabulary:
    pairs = itertools.islice(training_pairs(settings), VOCABULARY_TEXTS)
    texts = (pair[side] for pair in pairs for side in sides)
    return train_vocabulary(
        settings.vocabulary, texts, settings.vocabulary_size, lowercase=settings.lowercase
    )
