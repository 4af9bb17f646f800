"""The training and validation texts of a classifier, from files or from the embedded corpus."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.corpus import generate
from regard.corpus.meaning import Clause, Compound, Statement
from regard.errors import FileError
from regard.files import make_folder, remove_leftovers
from regard.tasks.classify.settings import ClassificationSettings
from regard.tasks.pairs import PairSource
from regard.tasks.vocabularies import learn_vocabulary
from regard.text import LABEL_FIELDS, ClassLabels, LabelledData, Skipped, Vocabulary, load_vocabulary
from regard.training.progress import Counted

__all__ = ["ClassificationData", "embedded_rows", "prepare", "run_files", "sentence_kind"]


@dataclass(frozen=True)
class ClassificationData:
    """The encoded training texts, the validation rows, the vocabulary and the labels."""

    train: LabelledData
    valid: list[tuple[str, str]]
    vocabulary: Vocabulary
    labels: ClassLabels


def prepare(
    settings: ClassificationSettings, folder: Path, *, learn: bool = False, show: bool = False
) -> ClassificationData:
    """Read the texts and encode them into the cache of ``folder``."""
    make_folder(folder)
    remove_leftovers(folder / "cache")
    rows = PairSource(
        settings,
        settings.hold_out_most,
        functools.partial(embedded_rows, settings.language, settings.embedded_seed),
        settings.embedded_count,
        {"fields": LABEL_FIELDS},
    )
    valid = rows.validation()
    vocabulary_file, labels_file = run_files(folder)
    if learn or not (vocabulary_file.is_file() and labels_file.is_file()):
        found = {label.strip() for _, label in rows.training()}
        if len(found) < 2:
            told = f"there is one class only, {', '.join(map(repr, found))}: expected two or more"
            raise FileError(told, argument="data")
        ClassLabels(sorted(found)).save(labels_file)
        learn_vocabulary(settings, rows.training(), seed=settings.seed, show=show).save(vocabulary_file)
    vocabulary, labels = load_vocabulary(vocabulary_file), ClassLabels.load(labels_file)
    for _, label in valid:
        labels.index(label)  # raises for a class that is not trained on
    skipped = Skipped()
    train = LabelledData.build_or_open(
        lambda: Counted(rows.training(skipped), "rows encoded", wanted=show),
        vocabulary,
        labels,  # type: ignore[arg-type]
        folder / "cache",
        files=rows.files(),
        identity=[*rows.identity(), settings.language],
        max_tokens=settings.max_tokens,
        skipped=skipped,
    )
    if len(train) == 0:
        told = f"no row of {settings.data or 'the embedded corpus'} can be used: {train.skipped}"
        raise FileError(told, argument="data")
    return ClassificationData(train, valid, vocabulary, labels)


def run_files(folder: Path) -> list[Path]:
    """Return the files of the vocabulary and of the labels of a run."""
    return [folder / "tokenizer.json", folder / "labels.json"]


def embedded_rows(language: str, seed: int, split: str, count: int) -> Iterator[tuple[str, str]]:
    """Yield sentences of the embedded corpus without their final mark, with the kind of sentence as label.

    >>> list(embedded_rows("en", 3, "train", 5))[2:]
    [('Who was tall', 'question'), ('The fox wakes up', 'statement'), ('Shout', 'command')]
    """
    for triple in generate(count, split=split, seed=seed):
        assert triple.meaning is not None  # generate() sets it
        yield triple.side(language).text.rstrip(" .?!。？！"), sentence_kind(triple.meaning)


def sentence_kind(meaning: Statement) -> str:
    """Return "question", "command", "denial" (a negated clause) or "statement"."""
    clauses = list(_clauses(meaning.body))
    if meaning.mark == "?":
        return "question"
    if any(clause.tense == "command" for clause in clauses):
        return "command"
    return "denial" if any(clause.negative for clause in clauses) else "statement"


def _clauses(body: Clause | Compound) -> Iterator[Clause]:
    if isinstance(body, Clause):
        yield body
    else:
        yield from _clauses(body.first)
        yield from _clauses(body.second)
