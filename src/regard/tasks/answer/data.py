"""The training and validation questions of a reader, from files or from the embedded corpus."""

from __future__ import annotations

import functools
import hashlib
import random
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.corpus.questions import passages
from regard.errors import FileError, renamed
from regard.files import make_folder, remove_leftovers
from regard.tasks.answer.settings import AnswerSettings
from regard.tasks.pairs import PairSource
from regard.tasks.pretrained import starting_vocabulary
from regard.tasks.sampling import held_out_keys
from regard.tasks.vocabularies import learn_vocabulary
from regard.text import Skipped, Vocabulary, deduplicate, load_vocabulary
from regard.text.questions import Question, ReferenceAnswer, read_questions
from regard.text.spans import SpanData, Windows
from regard.training.progress import Counted

__all__ = [
    "AnswerData",
    "QuestionSource",
    "embedded_questions",
    "prepare",
    "run_files",
    "windows_of",
    "with_other_contexts",
]

# Contexts are held out one by one if the data has fewer articles.
FEW_ARTICLES = 10
# Earlier contexts that a question may also be asked of.
_CONTEXTS_KEPT = 8


@dataclass(frozen=True)
class AnswerData:
    """The encoded training questions, the validation questions and the vocabulary."""

    train: SpanData
    valid: list[Question]
    vocabulary: Vocabulary


class QuestionSource(PairSource):
    """The questions that a run trains on and validates on. No context is on both sides."""

    key_name = "context"

    def key(self, row: Question) -> str:
        """Return the context, which is never both trained on and validated on."""
        return row.context

    def read(self, name: str, skipped: Skipped | None = None, *, split: str | None = None) -> Iterator[Any]:
        """Yield the questions of the data that the setting ``name`` names."""
        s = self.settings
        place = str(self.valid_source if name == "valid" else getattr(s, name))
        with renamed(source=name):
            yield from read_questions(
                place,
                format=None if place.startswith("hf:") else s.format,
                split=split or s.split,
                config=s.dataset_config,
                skipped=skipped,
                skip_bad_rows=s.skip_bad_rows,
            )

    @functools.cached_property
    def chosen_keys(self) -> set[str]:
        """The contexts that are held out of the training data, by a hash of their article or of their own."""
        s = self.settings
        articles = list(dict.fromkeys(row.article for row in self.read("data") if row.article))
        if len(articles) >= FEW_ARTICLES:
            held = held_out_keys(articles, share=s.hold_out, most=len(articles), seed=s.seed)
            return {row.context for row in self.read("data") if row.article in held}
        distinct = deduplicate((row.context, "") for row in self.read("data"))
        keys = (context for context, _ in distinct)
        return held_out_keys(keys, share=s.hold_out, most=self.most_valid, seed=s.seed)


def prepare(settings: AnswerSettings, folder: Path, *, learn: bool = False, show: bool = False) -> AnswerData:
    """Read the questions and encode them into the cache of ``folder``."""
    make_folder(folder)
    remove_leftovers(folder / "cache")
    source = QuestionSource(
        settings,
        settings.hold_out_most,
        functools.partial(embedded_questions, settings.embedded_seed),
        settings.embedded_count,
    )
    valid = source.validation()
    if not any(row.answers for row in source.training()):
        problem = f"no question of {settings.data} that is trained on has an answer"
        fix = "expected some with answers, which the model learns to find"
        raise FileError(f"{problem}: {fix}", argument="data")
    random.Random(settings.seed).shuffle(valid)
    (vocabulary_file,) = run_files(folder)
    if settings.start is not None:
        starting_vocabulary(settings).save(vocabulary_file)
    elif learn or not vocabulary_file.is_file():
        texts = ((row.question, row.context) for row in _once_each(source.training()))
        learn_vocabulary(settings, texts, (0, 1), seed=settings.seed, show=show).save(vocabulary_file)
    vocabulary, skipped = load_vocabulary(vocabulary_file), Skipped()

    def questions() -> Iterator[Question]:
        rows = Counted(source.training(skipped), "questions encoded", wanted=show)
        return with_other_contexts(rows, settings.unanswerable, settings.seed)

    train = SpanData.build_or_open(
        questions,
        vocabulary,
        windows_of(settings),
        folder / "cache",
        files=source.files(),
        identity=[*source.identity(), settings.unanswerable],
        forms=settings.forms and settings.architecture != "joined",
        notes=lambda: {"skipped": skipped.to_json()},
    )
    if len(train) == 0:
        problem = f"no question of {settings.data or 'the embedded corpus'} can be used"
        raise FileError(problem, argument="data")
    return AnswerData(train, valid[: settings.validate_questions], vocabulary)


def windows_of(settings: AnswerSettings) -> Windows:
    """Return the windows into which long contexts are cut."""
    return Windows(settings.max_tokens, settings.stride)


def run_files(folder: Path) -> list[Path]:
    """Return the file of the vocabulary of a run."""
    return [folder / "tokenizer.json"]


def embedded_questions(seed: int, split: str, count: int) -> Iterator[Question]:
    """Yield questions about sentences of the embedded corpus.

    >>> [question.question for question in embedded_questions(3, "train", 2)]
    ['What does Lucy use?', 'Who went to the office?']
    """
    for number, passage in enumerate(passages(count, split=split, seed=seed)):
        answer = ReferenceAnswer(passage.answer, passage.start)
        yield Question(passage.question, passage.context, (answer,), f"{split}-{number}")


def with_other_contexts(questions: Iterable[Question], share: float, seed: int) -> Iterator[Question]:
    """Yield questions, and a share of them again with an earlier context that does not contain an answer.

    The earlier context is of the same article where there is one. These copies have no answer. Which questions are
    copied depends on the seed and their texts alone.
    """
    earlier: deque[tuple[str, str]] = deque(maxlen=_CONTEXTS_KEPT)
    for row in questions:
        yield row
        digest = hashlib.blake2b(f"{seed} {row.question}".encode(errors="replace"), digest_size=8).digest()
        if row.answers and int.from_bytes(digest[:4], "big") < share * 2**32:
            contexts = [
                context
                for article, context in earlier
                if article == row.article
                and not any(answer.text.lower() in context.lower() for answer in row.answers)
            ]
            if contexts:
                context = contexts[digest[4] % len(contexts)]
                yield replace(row, context=context, answers=(), id=f"{row.id}-other")
        if (row.article, row.context) not in earlier:
            earlier.append((row.article, row.context))


def _once_each(rows: Iterable[Question]) -> Iterator[Question]:
    """Yield questions, with an empty context in place of one that was just read, for the counts of a vocabulary."""
    last = ""
    for row in rows:
        yield row if row.context != last else replace(row, context="")
        last = row.context
