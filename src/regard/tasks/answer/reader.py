"""A reader, which is a model with its vocabulary that finds answers in contexts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch

from regard.errors import ArgumentError, DtypeError, FileError
from regard.maps import Record
from regard.metrics import normalized_answer
from regard.models import TwoWayReader
from regard.shapes import whole_number
from regard.tasks.answer.network import span_logits
from regard.tasks.answer.search import FoundText, add_span, best_spans, share_joined
from regard.tasks.bundle import Bundle, BundledPredictor
from regard.text import PretrainedVocabulary, Vocabulary
from regard.text.questions import Question, question_of
from regard.text.spans import EncodedQuestion, SpanBatch, SpanData, Windows, encode_questions
from regard.training.batch_progress import with_progress

if TYPE_CHECKING:
    from regard.capture import Recording
    from regard.tasks.answer.attention import QuestionWeights

__all__ = ["NOT_FOUND", "Answer", "Candidate", "Reader"]

BATCH = 32  # windows that are read together
# Spans are added up by their texts, the most probable first, until they have this share of the probability of all.
READ_SHARE = 0.99
MOST_SPANS = 1000
NOT_FOUND = "no answer found"


@dataclass(frozen=True)
class Candidate:
    """A text that may be the answer, with its probability and its most probable place in the context.

    ``confidence`` is the sum of the probabilities of all places of the context with this text, without regard to case,
    punctuation and articles.
    """

    text: str
    start: int  # the first character of the context
    end: int  # the character behind the last
    confidence: float

    def to_json(self) -> dict[str, Any]:
        """Return the span as a JSON object."""
        place = {"text": self.text, "start": self.start, "end": self.end}
        return {**place, "confidence": round(self.confidence, 4)}


@dataclass(frozen=True)
class Answer:
    """The answer to a question, as a span of its context.

    ``text`` is empty if the most probable candidate has a confidence below ``threshold``. The candidates are there
    nevertheless, the most probable first.

    >>> answer = Answer("Who?", "Ann sat.", (Candidate("Ann", 0, 3, 0.2),), threshold=0.3, no_answer=0.1)
    >>> answer.text, answer.rejected[0].text
    ('', 'Ann')
    >>> answer.lines()
    ['no answer found\\t0.100\\tbelow the threshold 0.300: Ann 0.200']
    """

    question: str
    context: str
    candidates: tuple[Candidate, ...]
    threshold: float = 0.0
    # The probability that the context has no answer.
    no_answer: float = 0.0
    # Whether the end of a long question was not read.
    cut_off: bool = False
    id: str = field(default="", compare=False)

    @property
    def found(self) -> bool:
        """Whether there is an answer of enough confidence."""
        return bool(self.candidates) and self.candidates[0].confidence >= self.threshold

    @property
    def text(self) -> str:
        """The text of the answer, or "" if none was found."""
        return self.candidates[0].text if self.found else ""

    @property
    def confidence(self) -> float:
        """The probability of the most probable candidate."""
        return self.candidates[0].confidence if self.candidates else 0.0

    @property
    def span(self) -> tuple[int, int] | None:
        """The characters of the answer in the context, or None if none was found."""
        return (self.candidates[0].start, self.candidates[0].end) if self.found else None

    @property
    def rejected(self) -> tuple[Candidate, ...]:
        """The candidates if all of them are below the threshold, or () if an answer was found."""
        return () if self.found else self.candidates

    def lines(self, *, scores: bool = False) -> list[str]:
        """Return the answer and its confidence, or all candidates with ``scores``.

        If no answer was found, the line says so, with the probability that the context has none, and then the threshold
        with the best candidate below it, or all candidates with ``scores``.
        """
        shown = self.candidates[: None if scores else 1]
        if self.found:
            return [_line(one.text, one.confidence) for one in shown]
        line = _line(NOT_FOUND, self.no_answer)
        if shown:
            below = ", ".join(_line(one.text, one.confidence).replace("\t", " ") for one in shown)
            line += f"\tbelow the threshold {self.threshold:.3f}: {below}"
        return [line]

    def to_json(self, attention: Sequence[QuestionWeights] | None = None) -> dict[str, Any]:
        """Return the question and its answer as a JSON object."""
        values: dict[str, Any] = {"id": self.id} if self.id else {}
        start, end = self.span or (None, None)
        values |= {
            "question": self.question,
            "answer": self.text,
            "found": self.found,
            "start": start,
            "end": end,
        }
        values |= {"confidence": round(self.confidence, 4), "threshold": round(self.threshold, 4)}
        values["no_answer"] = round(self.no_answer, 4)
        if self.cut_off:
            values["cut_off"] = True
        if len(self.candidates) > 1 or self.rejected:
            values["candidates"] = [one.to_json() for one in self.candidates]
        return values if not attention else values | attention[0].to_json()


def _line(text: str, confidence: float) -> str:
    return f"{' '.join(text.split())}\t{confidence:.3f}"


class Reader(BundledPredictor):
    """A model with its vocabulary, which answers questions with spans of their contexts.

    ``Reader.load("answer-en")`` loads a model by its name or folder. ``extra`` are the settings that are saved with it,
    such as ``threshold``, below which no answer is given.
    """

    task: ClassVar[str] = "answer"

    def __init__(self, model: Any, vocabulary: Vocabulary, extra: dict[str, Any] | None = None):
        self.model, self.vocabulary = model, vocabulary
        self.extra = extra or {}

    @property
    def windows(self) -> Windows:
        """The windows into which long contexts are cut."""
        return Windows(int(self.extra.get("max_tokens", 384)), int(self.extra.get("stride", 128)))

    @property
    def threshold(self) -> float:
        """The confidence below which no answer is given."""
        return float(self.extra.get("threshold", 0.0))

    @property
    def max_answer(self) -> int:
        """The largest number of tokens of an answer."""
        return int(self.extra.get("max_answer", 30))

    @property
    def uses_forms(self) -> bool:
        """Whether the model reads the forms of tokens."""
        return isinstance(self.model, TwoWayReader) and bool(self.model.config.flags)

    @property
    def attends(self) -> bool:
        """Whether the model has attention."""
        return True

    def ask(self, question: str, context: str, **options: Any) -> Answer:
        """Answer one question about one context. ``options`` are those of :meth:`answer`."""
        return self.answer([Question(question, context)], **options)[0]

    def answer(
        self,
        questions: Iterable[Any],
        *,
        top: int = 1,
        threshold: float | None = None,
        batch_size: int | None = None,
    ) -> list[Answer]:
        """Answer questions, each a pair ``(question, context)``, a dict with these keys or a :class:`Question`.

        ``top`` is the number of candidates of each answer. ``threshold`` replaces that of the model. Contexts of any
        length are read in windows.
        """
        asked = [_question(one, place) for place, one in enumerate(_listed(questions))]
        top = whole_number("top", top, least=1)
        size = BATCH if batch_size is None else whole_number("batch_size", batch_size, least=1)
        least = self.threshold if threshold is None else _share("threshold", threshold)
        encoded = encode_questions(asked, self.vocabulary, self.windows, forms=self.uses_forms)
        logits = self.window_logits(encoded, size)
        # An answer has whole words. Many questions share a context.
        words = {context: self.vocabulary.word_spans(context) for context in {one.context for one in asked}}
        found: list[Answer] = []
        for question, one in zip(asked, encoded, strict=True):
            windows = [next(logits) for _ in one.windows] if one.question and one.context else []
            candidates, none = self._candidates(question.context, words[question.context], windows, top)
            answer = Answer(
                question.question, question.context, candidates, least, none, one.cut_off, question.id
            )
            found.append(answer)
        return found

    __call__ = answer

    @torch.no_grad()
    def window_logits(
        self, encoded: Sequence[EncodedQuestion], size: int = BATCH
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Return, for each window in order, its first token, its start logits ``(1 + n,)`` and its end logits.

        The first of the logits stand for no answer. ``size`` windows of similar length are read together. A question
        without tokens, or whose context has none, has no windows here.
        """
        self.model.eval()
        rows = [(one, window) for one in encoded if one.question and one.context for window in one.windows]
        order = sorted(
            range(len(rows)), key=lambda i: len(rows[i][0].question) + rows[i][1][1] - rows[i][1][0]
        )
        found: list[Any] = [None] * len(rows)
        batches = [order[begin : begin + size] for begin in range(0, len(order), size)]
        for places in with_progress(batches, len(order), "windows"):
            batch = self._batch([rows[place] for place in places])
            start, end = (
                side.float().cpu().numpy() for side in span_logits(self.model, batch, self.vocabulary)
            )
            for row, place in enumerate(places):
                count = int(batch.context_lengths[row])
                found[place] = (rows[place][1][0], start[row, :count], end[row, :count])
        return iter(found)

    def _batch(self, rows: Sequence[tuple[EncodedQuestion, tuple[int, int]]]) -> SpanBatch:
        return SpanData.of_windows(rows, bos=self.vocabulary.bos).batch(range(len(rows))).to(self.device)

    def _candidates(
        self, context: str, words: list[tuple[int, int]], windows: list[Any], top: int
    ) -> tuple[tuple[Candidate, ...], float]:
        """Return the most probable texts of a context, and the probability of no answer.

        ``words`` are the characters of the word of each token of the context.
        """
        if not windows:
            return (), 1.0
        spans, none = best_spans(windows, len(words), most_tokens=self.max_answer, top=MOST_SPANS)
        found: dict[str, FoundText] = {}
        read = 0.0
        for first, last, confidence in spans:
            if read >= READ_SHARE * (1 - none) and len(found) >= top:
                break
            read += confidence
            start, end = _stripped(context, words[first][0], words[last][1])
            if start < end:
                text = context[start:end]
                add_span(found, normalized_answer(text) or text, (start, end), confidence)
        share_joined(found)
        texts = sorted(found.values(), key=lambda one: -one.confidence)[:top]
        return tuple(
            Candidate(context[one.start : one.end], one.start, one.end, one.confidence) for one in texts
        ), none

    # Attention

    @torch.no_grad()
    def attention(self, prediction: Answer) -> Recording:
        """Return all attention of the model for one answer, as :func:`regard.capture` records it.

        Of a long context, it is the attention in the window of the most probable answer.
        """
        from regard.tasks.answer.attention import recording_of

        return recording_of(self, prediction)

    def word_weights(self, prediction: Answer) -> list[QuestionWeights]:
        """Return the attention of each word of the question to the words of the context."""
        from regard.tasks.answer.attention import question_weights

        return question_weights(self, prediction)

    def records(self, encoded: EncodedQuestion, window: tuple[int, int]) -> tuple[list[Record], SpanBatch]:
        """Return the records of the attention of the model in one window, and the batch of that window."""
        records: list[Record] = []
        self.model.eval()
        batch = self._batch([(encoded, window)])
        span_logits(self.model, batch, self.vocabulary, records=records)
        return records, batch

    # Files

    def with_threshold(self, threshold: float) -> Reader:
        """Return this reader with another threshold."""
        return Reader(self.model, self.vocabulary, {**self.extra, "threshold": threshold})

    def shortened(self, size: int) -> Reader:
        """Return a reader with the ``size`` most frequent pieces of its vocabulary, which is that of a BERT.

        Rare words are cut into smaller pieces. The rest of the model is the same.
        """
        if not isinstance(self.vocabulary, PretrainedVocabulary):
            problem = f"expected the vocabulary of a pretrained encoder, got one of {self.vocabulary.kind}"
            raise ArgumentError("size", problem)
        vocabulary, kept = self.vocabulary.shortened(size)
        config = replace(self.model.config, vocabulary_size=len(kept))
        if getattr(config, "base", None) is not None:
            framing = vocabulary.framing
            base = replace(config.base, vocabulary_size=len(kept))
            config = replace(config, base=base, base_start=framing.start, base_end=framing.end)
        model: Any = type(self.model)(config)
        state = {
            name: value[kept] if name.endswith("embedding.tokens.weight") else value
            for name, value in self.model.state_dict().items()
        }
        model.load_state_dict(state)
        return Reader(model.eval(), vocabulary, dict(self.extra))

    def vocabularies(self) -> dict[str, Vocabulary]:
        """Return the vocabulary to save."""
        return {"tokenizer": self.vocabulary}

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Self:
        """Make a reader from a saved model, or raise FileError if its settings do not fit together."""
        settings, network = bundle.settings, bundle.model()
        vocabulary = bundle.vocabulary("tokenizer")
        if getattr(network.config, "vocabulary_size", None) != len(vocabulary):
            raise bundle.reject(f"vocabulary_size is not {len(vocabulary)}, as the vocabulary beside it says")
        reader = cls(network, vocabulary, settings)
        try:
            for name, least in (("max_tokens", 8), ("stride", 0), ("max_answer", 1)):
                whole_number(name, settings.get(name, 384), least=least)
            _share("threshold", settings.get("threshold", 0.0))
            _ = reader.windows
        except ArgumentError as error:
            raise bundle.reject(str(error)) from None
        return reader


def _listed(questions: Iterable[Any]) -> list[Any]:
    if isinstance(questions, str | Mapping) or not isinstance(questions, Iterable):
        problem = f"expected a list of questions with contexts, got {questions!r:.60}"
        raise DtypeError("questions", problem, 'give [("Who sat?", "The cat sat.")]')
    return list(questions)


def _question(value: Any, place: int) -> Question:
    """Return a question to be answered, from a pair, a dict or a :class:`Question`."""
    if isinstance(value, Question):
        value = {"id": value.id, "question": value.question, "context": value.context}
    elif isinstance(value, tuple | list) and len(value) == 2:
        value = {"question": value[0], "context": value[1]}
    elif not isinstance(value, Mapping):
        problem = f"expected a question with its context at place {place}, got {value!r:.60}"
        raise DtypeError("questions", problem, 'give ("Who sat?", "The cat sat.")')
    try:
        return question_of(dict(value), f"place {place}", answered=False)
    except FileError as error:
        raise ArgumentError("questions", str(error)) from None


def _share(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ArgumentError(name, f"expected a number from 0 to 1, got {value!r}")
    return float(value)


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a span without the spaces at its ends."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
