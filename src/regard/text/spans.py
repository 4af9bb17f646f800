"""Encoded questions with windows of their contexts, and the spans of the answers in them.

A context that is longer than the model reads at once is cut into windows that overlap. The first position of a window
is not a token of the context. It stands for "no answer in this window".

>>> from regard.text.questions import ReferenceAnswer
>>> from regard.text.vocabularies import ByteVocabulary
>>> question = Question("b?", "abc", (ReferenceAnswer("b", 1),))
>>> data = SpanData.in_memory([question], ByteVocabulary(), Windows(max_tokens=20, stride=4))
>>> batch = data.batch([0])
>>> batch.context.shape, batch.starts, batch.ends
(torch.Size([1, 4]), tensor([[2]]), tensor([[2]]))
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from regard.errors import ArgumentError, FileError, option
from regard.shapes import whole_number
from regard.text.cache import TokenStore, check_identified, fingerprint_of, open_stores, write_stores
from regard.text.forms import FORMS, Words, token_forms
from regard.text.questions import Question
from regard.text.vocabularies import Vocabulary

__all__ = [
    "AROUND",
    "EncodedQuestion",
    "SpanBatch",
    "SpanData",
    "Windows",
    "encode_questions",
    "overlapping_windows",
]

# The number of special tokens around question and context, in a model that reads them as one sequence.
AROUND = 3
MOST_QUESTION = 64  # tokens of a question that are read
_CHUNK = 512  # questions encoded at once
_STORES = ("question", "context", "question_forms", "context_forms", "answers")


@dataclass(frozen=True)
class Windows:
    """The sizes of the windows that a long context is cut into.

    A question and a window together have at most ``max_tokens`` tokens, with three special tokens. Neighbouring windows
    share ``stride`` tokens. At most 64 tokens of a question are read, and fewer if ``max_tokens`` is small.
    """

    max_tokens: int = 384
    stride: int = 128

    def __post_init__(self):
        whole_number("max_tokens", self.max_tokens, least=16)
        whole_number("stride", self.stride, least=0)
        room = self.max_tokens - self.most_question - AROUND
        if self.stride >= room:
            told = f"expected fewer than the {room} tokens of a context that {option('max_tokens', self.max_tokens)}"
            raise ArgumentError("stride", f"{told} leaves beside a long question, got {self.stride}")

    @property
    def most_question(self) -> int:
        """The largest number of tokens of a question, beyond which its tokens are left out."""
        return min(MOST_QUESTION, self.max_tokens // 2 - AROUND)

    def cut(self, question: int, context: int) -> list[tuple[int, int]]:
        """Return the windows of a context in order, each as (first token, token after the last).

        ``question`` and ``context`` are the numbers of their tokens.

        >>> Windows(max_tokens=20, stride=4).cut(question=5, context=25)
        [(0, 12), (8, 20), (16, 25)]
        """
        size = self.max_tokens - AROUND - question
        return overlapping_windows(context, size, self.stride)


def overlapping_windows(length: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """Return the (start, end) of windows of ``size`` tokens over ``length`` tokens, which share ``overlap`` tokens.

    ``overlap`` is smaller than ``size``, or ignored if one window is enough. The last window may be shorter.

    >>> overlapping_windows(10, 6, 2)
    [(0, 6), (4, 10)]
    """
    starts = range(0, max(1, length - overlap), size - overlap) if length > size else (0,)
    return [(start, min(start + size, length)) for start in starts]


class EncodedQuestion(NamedTuple):
    """The ids and forms of a question and of its whole context, without special tokens.

    ``spans`` are the characters of each token of the context, and ``windows`` its windows in tokens. Both are pairs
    (first, one after the last).
    """

    question: list[int]
    context: list[int]
    question_forms: list[int]
    context_forms: list[int]
    spans: list[tuple[int, int]]
    windows: list[tuple[int, int]]
    # Whether the end of the question was left out.
    cut_off: bool

    def tokens_of(self, span: tuple[int, int]) -> tuple[int, int] | None:
        """Return the first and the last token of the context that share characters with a character span.

        Returns None if no token does.
        """
        starts, ends = np.array(self.spans).reshape(-1, 2).T
        first = int(np.searchsorted(ends, span[0], side="right"))
        last = int(np.searchsorted(starts, span[1], side="left")) - 1
        return (first, last) if first <= last else None

    def answers_in(self, window: tuple[int, int], tokens: Iterable[tuple[int, int]]) -> list[int]:
        """Return the first and last positions of the distinct answers that lie in a window, as one list.

        ``tokens`` are the first and the last token of each answer in the whole context. The list is start, end, start,
        end and so on, or 0, 0 if no answer lies in the window as a whole. Positions count from 1, since 0 is the
        position that stands for no answer.
        """
        begin, end = window
        inside = [(a - begin + 1, b - begin + 1) for a, b in tokens if begin <= a and b < end]
        return list(itertools.chain.from_iterable(dict.fromkeys(inside))) or [0, 0]


def encode_questions(
    questions: Sequence[Question], vocabulary: Vocabulary, windows: Windows, *, forms: bool = True
) -> list[EncodedQuestion]:
    """Return the ids, the forms and the windows of questions and their contexts, in the order of the questions.

    With ``forms=False`` all forms are 0, which saves time.
    """
    asked = vocabulary.encode_batch([one.question for one in questions])
    distinct = list(dict.fromkeys(one.context for one in questions))  # many questions share a context
    read = dict(zip(distinct, vocabulary.encode_batch(distinct), strict=True))
    spans = {context: vocabulary.spans(context) for context in distinct}
    found = []
    for one, whole in zip(questions, asked, strict=True):
        ids, context = whole[: windows.most_question], one.context
        question_forms, context_forms = [0] * len(ids), [0] * len(read[context])
        if forms:
            places = vocabulary.spans(one.question)[: len(ids)]
            question_tokens = [one.question[a:b] for a, b in places]
            context_tokens = [context[a:b] for a, b in spans[context]]
            question_forms = token_forms(question_tokens, Words.of(context_tokens))
            context_forms = token_forms(context_tokens, Words.of(question_tokens))
        cut = windows.cut(len(ids), len(read[context]))
        cut_off = len(ids) < len(whole)
        found.append(
            EncodedQuestion(ids, read[context], question_forms, context_forms, spans[context], cut, cut_off)
        )
    return found


@dataclass(frozen=True)
class SpanBatch:
    """A batch of ``b`` questions, each with a window of its context, as padded int64 tensors."""

    question: Tensor  # (b, q), ids, padding
    question_lengths: Tensor  # (b,)
    context: Tensor  # (b, n), bos for no answer, ids, padding
    context_lengths: Tensor  # (b,), with bos
    question_forms: Tensor  # (b, q)
    context_forms: Tensor  # (b, n)
    starts: Tensor  # (b, a), the first token of each answer, 0 for none and as padding
    ends: Tensor  # (b, a), the last tokens
    answer_lengths: Tensor  # (b,), the number of answers of each question

    @property
    def tokens_read(self) -> int:
        """The number of tokens of the questions and windows, without padding."""
        return int(self.question_lengths.sum() + self.context_lengths.sum())

    def __len__(self) -> int:
        return len(self.question)

    def to(self, device: torch.device | str) -> SpanBatch:
        """Return the batch on a device."""
        return SpanBatch(*(getattr(self, one.name).to(device) for one in fields(self)))


class SpanData:
    """Encoded windows with the spans of their answers, in memory or memory-mapped from disk.

    A question with several windows has a row for each. Its windows are neighbouring rows. ``bos`` is the id at the
    first position of each window.
    """

    def __init__(
        self,
        stores: dict[str, TokenStore],
        manifest: dict[str, Any] | None = None,
        *,
        bos: int = Vocabulary.bos,
    ):
        self.stores, self.manifest, self.bos = stores, manifest or {}, bos

    @classmethod
    def in_memory(
        cls, questions: Iterable[Question], vocabulary: Vocabulary, windows: Windows, *, forms: bool = True
    ) -> Self:
        """Encode questions in memory, without a cache.

        Questions without tokens, or whose context has none, are left out. ``forms`` is that of
        :func:`encode_questions`.
        """
        columns: dict[str, list[list[int]]] = {name: [] for name in _STORES}
        for rows in _encoded(questions, vocabulary, windows, forms):
            for name, values in rows.items():
                columns[name] += values
        stores = {name: TokenStore.from_lists(values) for name, values in columns.items()}
        return cls(stores, bos=vocabulary.bos)

    @classmethod
    def of_windows(
        cls, rows: Iterable[tuple[EncodedQuestion, tuple[int, int]]], *, bos: int = Vocabulary.bos
    ) -> Self:
        """Make data of (encoded question, window) rows, whose answers are not known and stored as "no answer"."""
        columns: dict[str, list[list[int]]] = {name: [] for name in _STORES}
        for encoded, window in rows:
            for name, values in _row(encoded, window, ()).items():
                columns[name].append(values)
        return cls({name: TokenStore.from_lists(values) for name, values in columns.items()}, bos=bos)

    @classmethod
    def build_or_open(
        cls,
        questions: Callable[[], Iterable[Question]],
        vocabulary: Vocabulary,
        windows: Windows,
        folder: str | os.PathLike,
        *,
        files: Sequence[str | os.PathLike] = (),
        identity: object = None,
        forms: bool = True,
        notes: Callable[[], dict[str, Any]] = dict,
    ) -> Self:
        """Open the cache in ``folder`` if it matches the data and the vocabulary, and otherwise build it.

        ``questions`` is called only to build it. The data is identified by the contents of ``files`` and by
        ``identity``, any JSON value. At least one of the two is required. ``notes`` is called after all questions were
        read, and returns further values for the manifest.
        """
        check_identified(files, identity)
        fingerprint = fingerprint_of(
            identity, vocabulary.fingerprint, windows.max_tokens, windows.stride, forms, files=files
        )
        try:
            stores, manifest = open_stores(folder, verify=True)
            if manifest.get("fingerprint") == fingerprint and set(stores) == set(_STORES):
                return cls(stores, manifest, bos=vocabulary.bos)
        except FileError:
            # Missing, truncated or modified, so it is built.
            pass

        def fill(writers: dict[str, Any]) -> dict[str, Any]:
            for rows in _encoded(questions(), vocabulary, windows, forms):
                for name, values in rows.items():
                    writers[name].append(values)
            return {"fingerprint": fingerprint, **notes()}

        sizes = dict.fromkeys(_STORES, FORMS) | {"question": len(vocabulary), "context": len(vocabulary)}
        sizes["answers"] = windows.max_tokens
        return cls(*write_stores(folder, sizes, fill), bos=vocabulary.bos)

    def __len__(self) -> int:
        return len(self.stores["question"])

    def lengths(self) -> np.ndarray:
        """Return the number of tokens of question and window together, (n, 1), with three special tokens."""
        total = self.stores["question"].lengths() + self.stores["context"].lengths() + AROUND
        return total[:, None].astype(np.int32)

    def batch(self, indices: Sequence[int] | np.ndarray) -> SpanBatch:
        """Return the windows at these indices as a padded batch."""
        indices = np.array(indices, dtype=np.int64)  # (b,)
        stores = self.stores
        question, question_lengths = stores["question"].padded(indices)  # (b, q), (b,)
        context, context_lengths = stores["context"].padded(indices, start=self.bos)  # (b, n), (b,)
        question_forms, _ = stores["question_forms"].padded(indices)  # (b, q)
        context_forms, _ = stores["context_forms"].padded(indices, start=0)  # (b, n)
        answers, lengths = stores["answers"].padded(indices)  # (b, 2a), (b,)
        sides = (question, question_lengths, context, context_lengths, question_forms, context_forms)
        arrays = (*sides, answers[:, ::2], answers[:, 1::2], lengths // 2)
        return SpanBatch(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays))


def _encoded(
    questions: Iterable[Question], vocabulary: Vocabulary, windows: Windows, forms: bool
) -> Iterator[dict[str, list[list[int]]]]:
    """Yield the windows of 512 questions at a time, as a dict of lists by the names of the stores."""
    stream = iter(questions)
    while chunk := list(itertools.islice(stream, _CHUNK)):
        rows: dict[str, list[list[int]]] = {name: [] for name in _STORES}
        for one, encoded in zip(
            chunk, encode_questions(chunk, vocabulary, windows, forms=forms), strict=True
        ):
            if not encoded.question or not encoded.context:
                continue
            tokens = [found for span in one.spans() if (found := encoded.tokens_of(span)) is not None]
            for window in encoded.windows:
                for name, values in _row(encoded, window, tokens).items():
                    rows[name].append(values)
        yield rows


def _row(
    encoded: EncodedQuestion, window: tuple[int, int], tokens: Iterable[tuple[int, int]]
) -> dict[str, list[int]]:
    """Return one window of a question as a dict of sequences by the names of the stores.

    ``tokens`` are the first and the last token of each answer in the whole context.
    """
    begin, end = window
    return {
        "question": encoded.question,
        "context": encoded.context[begin:end],
        "question_forms": encoded.question_forms,
        "context_forms": encoded.context_forms[begin:end],
        "answers": encoded.answers_in(window, tokens),
    }
