"""The training and validation texts of a summariser with their summaries, from files or from the embedded corpus."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.corpus.reports import reports
from regard.files import make_folder, remove_leftovers
from regard.tasks.pairs import Pair, PairSource, nothing_left
from regard.tasks.sampling import in_test_part
from regard.tasks.summarize.settings import SummarySettings
from regard.tasks.summarize.words import common_words
from regard.tasks.text_encoder import TextEncoder
from regard.tasks.vocabularies import learn_vocabulary
from regard.text import PairData, Skipped, Vocabulary, load_vocabulary
from regard.training.progress import Counted

__all__ = [
    "SummaryData",
    "SummarySource",
    "embedded_rows",
    "prepare",
    "run_files",
    "single_spaced",
    "with_first_space",
]


@dataclass(frozen=True)
class SummaryData:
    """The encoded training rows, the validation rows, the encoder of texts, and the common words of the training."""

    train: PairData
    valid: list[Pair]
    encoder: TextEncoder
    common: Vocabulary

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of texts and summaries."""
        return self.encoder.vocabulary


class SummarySource(PairSource):
    """The rows that a run trains on and validates on, without the test part of the data."""

    def read(self, name: str, skipped: Skipped | None = None, *, split: str | None = None) -> Iterator[Pair]:
        """Yield the rows of the data that the setting ``name`` names, as the model reads them."""
        s = self.settings
        for text, summary in super().read(name, skipped, split=split):
            row = with_first_space(text), with_first_space(summary)
            if name == "data" and s.test_share and in_test_part(row[0], s.test_share, s.test_seed):
                if skipped is not None:
                    skipped.count("held_out", repr(text[:100]))
            else:
                yield row


def single_spaced(text: str) -> str:
    """Return a text with one space in place of each run of spaces and line ends, and none around it.

    >>> single_spaced("  A text\\n\\nof two   lines. ")
    'A text of two lines.'
    """
    return " ".join(text.split())


def with_first_space(text: str) -> str:
    """Return a text with single spaces and a space before its first word, or "" for an empty text.

    A word then has the same tokens at the start of a summary as inside a text, so that it can be copied.

    >>> with_first_space("BERT  is\\na model. ")
    ' BERT is a model.'
    """
    return f" {single_spaced(text)}" if text.strip() else ""


def prepare(
    settings: SummarySettings, folder: Path, *, learn: bool = False, show: bool = False
) -> SummaryData:
    """Read the rows and encode them into the cache of ``folder``."""
    make_folder(folder)
    remove_leftovers(folder / "cache")
    rows = SummarySource(
        settings,
        settings.validate_texts,
        functools.partial(embedded_rows, settings.embedded_seed),
        settings.embedded_count,
        {"max_words": None},
    )
    valid = rows.validation()
    vocabulary_file, words_file = run_files(folder)
    if learn or not (vocabulary_file.is_file() and words_file.is_file()):
        counted = Counted(rows.training(), "rows read for the common words", wanted=show)
        common_words(counted).save(words_file)
        learn_vocabulary(settings, rows.training(), (0, 1), seed=settings.seed, show=show).save(
            vocabulary_file
        )
    vocabulary, skipped = load_vocabulary(vocabulary_file), Skipped()
    encoder = TextEncoder(vocabulary, settings.max_tokens)
    train = PairData.build_or_open(
        lambda: Counted(rows.training(skipped), "rows encoded", wanted=show),
        encoder,  # type: ignore[arg-type]
        vocabulary,
        folder / "cache",
        files=rows.files(),
        identity=[*rows.identity(), settings.test_share, settings.test_seed],
        max_tokens=settings.max_tokens,
        max_target_tokens=settings.max_summary,
        skipped=skipped,
    )
    if len(train) == 0:
        raise nothing_left(settings.data, train.skipped)
    return SummaryData(train, valid, encoder, load_vocabulary(words_file))


def run_files(folder: Path) -> list[Path]:
    """Return the files of the vocabulary and of the common words of a run."""
    return [folder / "tokenizer.json", folder / "common_words.json"]


def embedded_rows(seed: int, split: str, count: int) -> Iterator[Pair]:
    """Yield reports of the embedded corpus with their headlines.

    >>> [headline for _, headline in embedded_rows(4, "train", 2)]
    [' Trapox will sit on this chair', ' Kesin prepares some chicken']
    """
    for report in reports(count, split=split, seed=seed):
        yield with_first_space(report.text), with_first_space(report.headline)
