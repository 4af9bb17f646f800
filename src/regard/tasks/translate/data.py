"""The training and validation pairs of a translator, from files or from the embedded corpus."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.files import make_folder, remove_leftovers
from regard.tasks.pairs import PairSource, nothing_left
from regard.tasks.translate.mixture import TranslationPairs
from regard.tasks.translate.settings import TranslationSettings
from regard.tasks.translate.starting import starting_translator
from regard.tasks.vocabularies import learn_vocabulary
from regard.text import PairData, Skipped, Vocabulary, load_vocabulary
from regard.training.progress import Counted

__all__ = [
    "TranslationData",
    "embedded_pairs",
    "pair_source",
    "prepare",
    "training_pairs",
    "validation_pairs",
    "vocabulary_files",
]

# Sentences of the embedded corpus that are kept in memory, at most.
REMEMBERED = 200_000


@dataclass(frozen=True)
class TranslationData:
    """The encoded training pairs, the validation pairs and the vocabularies."""

    train: PairData
    valid: list[tuple[str, str]]
    source: Vocabulary
    target: Vocabulary


def pair_source(settings: TranslationSettings) -> PairSource:
    """Return the pairs of sentences that the settings name."""
    return TranslationPairs(
        settings,
        settings.validate_sentences,
        functools.partial(embedded_pairs, settings),
        settings.embedded_count,
        {"languages": (settings.source_language, settings.target_language)},
    )


def prepare(
    settings: TranslationSettings, folder: Path, *, learn: bool = False, show: bool = False
) -> TranslationData:
    """Read the pairs and encode them into the cache of ``folder``.

    ``learn`` learns new vocabularies, otherwise those in the folder are used. ``show`` reports progress on standard
    error.
    """
    make_folder(folder)
    remove_leftovers(folder / "cache")
    pairs = pair_source(settings)
    # First, so that a mistake in it shows before the long work.
    valid = pairs.validation()
    skipped = Skipped()
    source, target = _vocabularies(settings, pairs, folder, learn, show)
    train = PairData.build_or_open(
        lambda: Counted(pairs.training(skipped), "rows encoded", wanted=show),
        source,
        target,
        folder / "cache",
        files=pairs.files(),
        identity=[*pairs.identity(), settings.source_language, settings.target_language],
        max_tokens=settings.max_tokens,
        # Copies of phrases are repeated pairs.
        deduplicate=settings.phrase_copies == 1,
        skipped=skipped,
    )
    if len(train) == 0:
        raise nothing_left(settings.data, train.skipped)
    return TranslationData(train, valid, source, target)


def training_pairs(
    settings: TranslationSettings, skipped: Skipped | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the pairs to train on, without any that is held out."""
    return pair_source(settings).training(skipped)


def validation_pairs(settings: TranslationSettings) -> list[tuple[str, str]]:
    """Return the pairs to validate on."""
    return pair_source(settings).validation()


def embedded_pairs(settings: TranslationSettings, split: str, count: int) -> Iterator[tuple[str, str]]:
    """Return sentences of the embedded corpus in the two languages."""
    asked = (split, count, settings.embedded_seed, settings.source_language, settings.target_language)
    return iter(_remembered(*asked)) if count <= REMEMBERED else _generated(*asked)


@functools.lru_cache(maxsize=1)
def _remembered(*asked: Any) -> list[tuple[str, str]]:
    """Keep the sentences that were generated last, since they are read for the vocabulary and again to be encoded."""
    return list(_generated(*asked))


def _generated(split: str, count: int, seed: int, source: str, target: str) -> Iterator[tuple[str, str]]:
    from regard.corpus import generate

    for triple in generate(count, split=split, seed=seed):
        yield triple.side(source).text, triple.side(target).text


def vocabulary_files(settings: TranslationSettings, folder: Path) -> list[Path]:
    """Return the files of the vocabularies of a run, one for both languages or one for each."""
    names = ["tokenizer"] if settings.shared_vocabulary else ["source", "target"]
    return [folder / f"{name}.json" for name in names]


def _vocabularies(
    settings: TranslationSettings, pairs: PairSource, folder: Path, learn: bool, show: bool
) -> tuple[Vocabulary, Vocabulary]:
    """Return the vocabularies in the folder, learnt now if asked or if they are missing."""
    files = vocabulary_files(settings, folder)
    sides = [(0, 1)] if settings.shared_vocabulary else [(0,), (1,)]
    missing = learn or not all(path.is_file() for path in files)
    if missing and settings.start is not None:
        for name, vocabulary in starting_translator(settings).vocabularies().items():
            vocabulary.save(folder / f"{name}.json")
    elif missing:
        for path, some in zip(files, sides, strict=True):
            learnt = learn_vocabulary(
                settings,
                pairs.training(),
                some,
                seed=settings.seed,
                show=show,
                copyable=settings.copyable,
            )
            learnt.save(path)
    held = [load_vocabulary(path) for path in files]
    return held[0], held[-1]
