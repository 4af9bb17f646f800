"""The training and validation texts of a classifier, from files or from the embedded corpus."""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.corpus import generate
from regard.corpus.meaning import Clause, Compound, Statement
from regard.errors import ArgumentError, FileError, option
from regard.files import make_folder, remove_leftovers
from regard.tasks.classify.settings import ClassificationSettings, label_names
from regard.tasks.pairs import Pair, PairSource, check_labels, nothing_left
from regard.tasks.pretrained import starting_vocabulary
from regard.tasks.sampling import held_out_keys, last_keys
from regard.tasks.text_encoder import TextEncoder, without_line_breaks
from regard.tasks.vocabularies import learn_vocabulary
from regard.text import LABEL_FIELDS, ClassLabels, LabelledData, Skipped, Vocabulary, load_vocabulary
from regard.text.pair_hashes import Hashes, hash_of
from regard.training.progress import Counted

__all__ = ["ClassificationData", "embedded_rows", "prepare", "run_files", "sentence_kind"]

# More labels than that are rather texts or numbers of rows.
MOST_CLASSES = 1000
_IS_IT = f"is it the column of the labels? see {option('columns')}"


@dataclass(frozen=True)
class ClassificationData:
    """The encoded training texts, the validation rows, the encoder of texts and the labels."""

    train: LabelledData
    valid: list[tuple[str, str]]
    encoder: TextEncoder
    labels: ClassLabels

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the encoder."""
        return self.encoder.vocabulary


class LabelledSource(PairSource):
    """The labelled texts that a run trains on and validates on. No class is held out as a whole."""

    none_chosen = "each class has one text only, which is needed to train on"

    def reading_of(self, name: str) -> dict[str, Any]:
        """Return the labels that are known before the data is read, those of the training data or of the settings."""
        return {"labels": label_names(self.settings.labels) if name == "data" else self.last_texts}

    @functools.cached_property
    def last_texts(self) -> dict[str, str]:
        """The labels of the training rows, each with the text that would be held out last."""
        counts: Counter[str] = Counter()

        def counted() -> Iterator[Pair]:
            for text, label in _with_few_labels(self._all(Skipped())):
                counts[label] += 1
                yield text, label

        found = last_keys(counted(), self.settings.seed)
        check_labels(len(counts), counts.total(), next(reversed(found), ""), _IS_IT)
        return found

    @functools.cached_property
    def chosen_keys(self) -> set[str]:
        """The texts that are held out of the training data by their hash, which leave a text of each class."""
        s = self.settings
        keys, kept = (self.key(row) for row in self.read("data")), set(self.last_texts.values())
        return held_out_keys(keys, share=s.hold_out, most=self.most_valid, seed=s.seed, kept=kept)


def prepare(
    settings: ClassificationSettings, folder: Path, *, learn: bool = False, show: bool = False
) -> ClassificationData:
    """Read the texts and encode them into the cache of ``folder``."""
    make_folder(folder)
    remove_leftovers(folder / "cache")
    rows = LabelledSource(
        settings,
        settings.hold_out_most,
        functools.partial(embedded_rows, settings.language, settings.embedded_seed),
        settings.embedded_count,
        {"fields": LABEL_FIELDS, "max_words": None},
    )
    valid = rows.validation()
    vocabulary_file, labels_file = run_files(folder)
    if learn or not (vocabulary_file.is_file() and labels_file.is_file()):
        _found_labels(settings, rows).save(labels_file)
        _vocabulary(settings, rows, show=show).save(vocabulary_file)
    labels = ClassLabels.load(labels_file)
    encoder = TextEncoder(load_vocabulary(vocabulary_file), settings.max_tokens, settings.cut)
    valid = _with_known_labels(valid, rows, labels)
    skipped = Skipped()
    train = LabelledData.build_or_open(
        lambda: Counted(rows.training(skipped), "rows encoded", wanted=show),
        encoder,  # type: ignore[arg-type]
        labels,  # type: ignore[arg-type]
        folder / "cache",
        files=rows.files(),
        identity=[*rows.identity(), settings.language],
        max_tokens=settings.max_tokens,
        skipped=skipped,
    )
    if len(train) == 0:
        raise nothing_left(settings.data, train.skipped)
    return ClassificationData(train, valid, encoder, labels)


def _vocabulary(settings: ClassificationSettings, rows: PairSource, *, show: bool) -> Vocabulary:
    """Learn the vocabulary from the texts, or return that of the pretrained encoder."""
    if settings.start is not None:
        return starting_vocabulary(settings)
    texts = ((without_line_breaks(text), label) for text, label in rows.training())
    return learn_vocabulary(settings, texts, seed=settings.seed, show=show)


def _with_known_labels(valid: list[Pair], rows: PairSource, labels: ClassLabels) -> list[Pair]:
    """Return the validation rows whose labels are trained on, or raise FileError with the lines of the others."""
    known = [row for row in valid if not labels.problem_of(*row)]
    if len(known) == len(valid):
        return valid
    # The data is read again to find the lines. The reader raises an error, unless bad rows are to be skipped.
    checked = replace(rows, reading={**rows.reading, "check": labels.problem_of})
    skipped = Skipped()
    for _ in checked.read("valid" if rows.valid_source else "data", skipped):
        pass
    warnings.warn(f"valid: left out: {Skipped(bad=skipped.bad, first=skipped.first)}", stacklevel=2)
    if not known:
        raise FileError("no row to validate on has a label of the training data", argument="valid")
    return known


def _found_labels(settings: ClassificationSettings, rows: PairSource) -> ClassLabels:
    """Return the classes of the training data, with the names that the settings give them."""
    names = label_names(settings.labels)
    found = {label for _, label in _with_few_labels(_with_labels_compared(rows.training()))}
    for label in names:
        if label not in found:
            problem = f"{label!r} is not a label of the data, which has {', '.join(sorted(found)[:10])}"
            raise ArgumentError("labels", problem)
    classes = sorted({names.get(label, label) for label in found})
    if len(classes) < 2:
        problem = f"there is one class only, {', '.join(map(repr, classes))}: expected two or more"
        raise FileError(problem, argument="data")
    return ClassLabels(classes, names)


def _with_few_labels(rows: Iterable[Pair]) -> Iterator[Pair]:
    """Yield rows with stripped labels, or raise FileError if there are too many labels for classes."""
    labels: set[str] = set()
    for text, label in rows:
        labels.add(label.strip())
        if len(labels) > MOST_CLASSES:
            problem = f"there are more than {MOST_CLASSES:,} different labels, such as {label.strip()!r:.60}"
            raise FileError(f"{problem}: {_IS_IT}", argument="data")
        yield text, label.strip()


def _with_labels_compared(rows: Iterable[Pair]) -> Iterator[Pair]:
    """Yield rows, and warn at their end if some have the text of an earlier row with another label."""
    texts, pairs = Hashes(), Hashes()
    number, first = 0, ""
    for text, label in rows:
        yield text, label
        if pairs.add(hash_of(text, label.strip())) and not texts.add(hash_of(text, "")):
            number += 1
            first = first or text
    if number:
        count = "1 row has" if number == 1 else f"{number:,} rows have"
        warnings.warn(
            f"data: {count} the text of an earlier row with another label (the first: {first!r:.80}). "
            "A model gives one label to a text",
            stacklevel=2,
        )


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
