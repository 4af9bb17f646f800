"""The attention of a reader between the words of a question and of its context."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.analysis import join_words, merge_tokens, word_spans, words_of_tokens
from regard.maps import Record
from regard.models import TwoWayReader
from regard.tasks.answer.network import joined_tokens
from regard.text.questions import Question
from regard.text.spans import EncodedQuestion, encode_questions

if TYPE_CHECKING:
    from regard.capture import Recording
    from regard.tasks.answer.reader import Answer, Reader

__all__ = ["QuestionWeights", "WeightTable", "question_weights", "recording_of"]

# Words on each side of the answer in the table.
NEAR = 5
NO_ANSWER = "[no answer]"


@dataclass(frozen=True)
class WeightTable:
    """The weights of some words of the question to the words around the answer."""

    row_words: list[str]
    column_words: list[str]
    weights: np.ndarray  # (rows, columns)


@dataclass(frozen=True)
class QuestionWeights:
    """The attention of each word of a question to each word of the window of the context that was read.

    ``text`` is the context and ``spans`` are the characters of its words. ``unread`` is the longer part of a long
    context that lies outside the window. ``table`` are the weights of the words around the answer. ``title`` is the
    question with its answer.
    """

    row_words: list[str]
    column_words: list[str]
    weights: np.ndarray  # (question words, context words)
    text: str
    spans: list[tuple[int, int]]
    table: WeightTable
    title: str
    unread: tuple[int, int] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the words and the weights as a JSON object."""
        rows = [[round(float(weight), 4) for weight in row] for row in self.weights]
        return {"question_words": self.row_words, "context_words": self.column_words, "attention": rows}


def recording_of(reader: Reader, answer: Answer) -> Recording:
    """Return all attention of the model in the window of the best answer, with its tokens."""
    from regard.capture import Recording

    encoded, window = _window(reader, answer)
    if window is None:
        return Recording([])
    records, batch = reader.records(encoded, window)
    asked = _pieces(answer.question, reader.vocabulary.spans(answer.question)[: len(encoded.question)])
    read = [NO_ANSWER, *_pieces(answer.context, encoded.spans[slice(*window)])]
    if isinstance(reader.model, TwoWayReader):
        return Recording(list(_labelled(records, asked, read)))
    tokens = reader.vocabulary.pieces(joined_tokens(batch, reader.vocabulary).tokens[0].tolist())
    return Recording([replace(one, query_tokens=[tokens], key_tokens=[tokens]) for one in records])


def question_weights(reader: Reader, answer: Answer) -> list[QuestionWeights]:
    """Return the attention of the words of the question to those of the context, summed over the tokens of a word.

    Several words that the model read as one token, as in Chinese, are one word.
    """
    encoded, window = _window(reader, answer)
    if window is None:
        return []
    records, batch = reader.records(encoded, window)
    weights = _question_to_context(reader, records, batch)  # (q,n), without the position of no answer
    asked, read = reader.vocabulary.spans(answer.question), encoded.spans[slice(*window)]
    begin, end = read[0][0], read[-1][1]
    rows = join_words(word_spans(answer.question), asked)
    inside = [span for span in word_spans(answer.context) if begin <= span[0] and span[1] <= end]
    columns = join_words(inside, read)
    merged = merge_tokens(
        weights,
        words_of_tokens(asked[: len(weights)], rows),
        words_of_tokens(read, columns),
    )  # (question words, context words)
    row_words = _pieces(answer.question, rows)
    unread = max([(0, begin), (end, len(answer.context))], key=lambda part: part[1] - part[0])
    found = QuestionWeights(
        row_words,
        _pieces(answer.context, columns),
        merged,
        answer.context,
        columns,
        _around(answer, row_words, columns, merged),
        f"{answer.question} Answer: {answer.text or 'not found'}",
        unread if answer.context[slice(*unread)].strip() else None,
    )
    return [found]


def _window(reader: Reader, answer: Answer) -> tuple[EncodedQuestion, tuple[int, int] | None]:
    """Return the encoded question, and the window with the best answer, where it is nearest to the middle."""
    question = Question(answer.question, answer.context)
    (encoded,) = encode_questions([question], reader.vocabulary, reader.windows, forms=reader.uses_forms)
    if not encoded.question or not encoded.context:
        return encoded, None
    best = answer.candidates[0] if answer.candidates else None
    tokens = encoded.tokens_of((best.start, best.end)) if best else None
    first, last = tokens or (0, 0)
    # The last window may be short, so that its middle is near to an answer that begins before it.
    holding = [one for one in encoded.windows if one[0] <= first and last < one[1]] or encoded.windows
    return encoded, min(holding, key=lambda one: abs(one[0] + one[1] - 1 - first - last))


def _question_to_context(reader: Reader, records: list[Record], batch: Any) -> np.ndarray:
    """Return the weights of the tokens of the question to those of the context, (q,n)."""
    count = int(batch.context_lengths[0])
    if isinstance(reader.model, TwoWayReader):
        record = next(one for one in records if one.name == "to_context")
        return record.map.weights()[0, 0, :, 1:].double().cpu().numpy()  # (q,n)
    places = joined_tokens(batch, reader.vocabulary).places[0, 1:count].cpu().numpy()  # (n,)
    first = 1 if reader.vocabulary.framing.start is not None else 0
    asked = slice(first, first + int(batch.question_lengths[0]))
    heads = records[-1].map.weights()[0].double().mean(dim=0).cpu().numpy()  # (l,l)
    return heads[asked][:, places]  # (q,n)


def _around(
    answer: Answer, row_words: list[str], columns: list[tuple[int, int]], weights: np.ndarray
) -> WeightTable:
    """Return the weights of the words of the question to the best answer and ``NEAR`` words on each side of it.

    ``columns`` are the characters of the words of the context. If no answer is among them, the table has the first
    words.
    """
    start, end = (answer.candidates[0].start, answer.candidates[0].end) if answer.candidates else (0, 0)
    inside = [i for i, (a, b) in enumerate(columns) if a < end and b > start] or [0]
    near = range(max(0, inside[0] - NEAR), min(len(columns), inside[-1] + NEAR + 1))
    words = [answer.context[slice(*columns[i])] for i in near]
    return WeightTable(row_words, words, weights[:, list(near)])


def _labelled(records: list[Record], asked: list[str], read: list[str]):
    """Yield the records of a two-way reader with their tokens. The encoder reads the question first."""
    seen: set[str] = set()
    for record in records:
        tokens = {"to_context": (asked, read), "to_question": (read, asked), "summary": (["question"], asked)}
        name = record.name
        if name.startswith("encoder."):
            of = "context" if name in seen else "question"
            seen.add(name)
            tokens[name] = (read, read) if of == "context" else (asked, asked)
            record = replace(record, name=f"{of}.{name}")
        queries, keys = tokens.get(name, (read, read))
        yield replace(record, query_tokens=[queries], key_tokens=[keys])


def _pieces(text: str, spans: list[tuple[int, int]]) -> list[str]:
    return [text[a:b] for a, b in spans]
