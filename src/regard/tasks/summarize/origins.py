"""The origin of each word of a summary in its text, by copying or by attention."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regard.analysis import words_of_tokens
from regard.errors import ArgumentError
from regard.maps import Record
from regard.tasks.copied_tokens import TokenOrigin, token_origins
from regard.tasks.summarize.data import with_first_space
from regard.tasks.summarize.summarizer import Summarizer, Summary
from regard.tasks.text_encoder import without_line_breaks
from regard.tasks.text_generation import Span
from regard.tasks.written_words import json_rows, read_words, shown_words, word_weights

__all__ = ["SummaryWeights", "WeightTable", "WordOrigin", "summary_weights"]

# A word is copied if at least this share of its probability came from copying.
COPIED = 0.5


@dataclass(frozen=True)
class WordOrigin:
    """The place in the text that a word of the summary was copied from, or that the model looked at.

    ``share`` is the share of the word's probability that came from copying, 0 for a model that does not copy.
    ``start`` and ``end`` are the characters of the text of ``source_word``. ``weight`` is the attention to it, or None
    for a word that replaces one that the model wrote.
    """

    word: str
    share: float
    source_word: str
    start: int
    end: int
    weight: float | None

    @property
    def copied(self) -> bool:
        """Whether the tokens of the word are copied rather than generated."""
        return self.share >= COPIED

    @property
    def whole(self) -> bool:
        """Whether the word stands in ``source_word``, apart from case. Else its tokens are from several words."""
        return self.word.casefold() in self.source_word.casefold()

    def to_json(self) -> dict[str, Any]:
        """Return the origin as a JSON object."""
        place = {"source_word": self.source_word, "start": self.start, "end": self.end}
        weight = None if self.weight is None else round(self.weight, 4)
        return {"word": self.word, **place, "copied": round(self.share, 4), "weight": weight}


@dataclass(frozen=True)
class WeightTable:
    """The weights of the words of the summary to those words of the text that are the origin of one of them."""

    row_words: list[str]
    column_words: list[str]
    weights: np.ma.MaskedArray  # (rows, columns)
    marks: list[str]


@dataclass(frozen=True)
class SummaryWeights:
    """The attention of each word of a summary to the words of its text.

    ``text`` is the whole text, ``spans`` are the characters of the words that the model read, and ``unread`` is the end
    of a long text. ``table`` has the columns that are the origin of a word. ``title`` is the summary. The columns and
    the rows are the words that the model read and wrote. A word that replaces one of them has masked weights and a
    mark. ``notes`` say what the model wrote.
    """

    row_words: list[str]
    column_words: list[str]
    weights: np.ma.MaskedArray  # (summary words, text words)
    text: str
    spans: list[Span]
    origins: list[WordOrigin]
    title: str
    unread: Span | None = None
    marks: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def table(self) -> WeightTable:
        """The columns of the weights that are the origin of a word, in the order of the text."""
        starts = {origin.start for origin in self.origins}
        places = [place for place, (start, _) in enumerate(self.spans) if start in starts]
        words = [self.column_words[place] for place in places]
        return WeightTable(self.row_words, words, self.weights[:, places], self.marks)

    def lines(self) -> list[str]:
        """Return a line for each word of the summary that says where it is from."""
        wide = max((len(origin.word) for origin in self.origins), default=0)
        return [_line(origin, wide) for origin in self.origins]

    def to_json(self) -> dict[str, Any]:
        """Return the origin of each word, the words and the weights as a JSON object."""
        rows = json_rows(self.weights)
        words = {"summary_words": self.row_words, "text_words": self.column_words}
        origins = [origin.to_json() for origin in self.origins]
        return {"origins": origins, **words, "attention": rows, "notes": self.notes}


def _line(origin: WordOrigin, wide: int) -> str:
    place = f"{origin.source_word!r} at character {origin.start}"
    if origin.weight is None:
        return f"{origin.word:{wide}}  replaces a word that was copied wrong, from {place}"
    if origin.copied and not origin.whole:
        return f"{origin.word:{wide}}  made of pieces of several words, most of them from {place}"
    if origin.copied:
        return f"{origin.word:{wide}}  copied from {place} ({100 * origin.share:.0f} %)"
    return f"{origin.word:{wide}}  generated, looking at {place} (weight {origin.weight:.2f})"


def summary_weights(summarizer: Summarizer, summary: Summary) -> list[SummaryWeights]:
    """Return the weights and origins of the words of a summary, or nothing if the summary is empty.

    The weights are those of the copy attention, or the mean over the heads of the last attention to the text. They are
    summed over the tokens of a word of the text, and averaged over those of a word of the summary.
    """
    if not summary.target_ids or not summary.text:
        return []
    read = without_line_breaks(with_first_space(summary.source))
    tokens = summarizer.encoder.spans(read)
    pieces = summarizer.spans_of(summary.written, summary.target_ids)
    columns = read_words(read, tokens)
    rows = shown_words(summary.text, summary.trace, summary.written, pieces, read)
    records = summarizer.forced([summary.source_ids], [summary.target_ids], ended=False)
    weights = _attention(records, len(pieces), len(tokens))  # (t,s)
    merged = word_weights(weights, rows, columns, written=(summary.written, pieces), read=(read, tokens))
    places = _places(summary.source)
    places = [places[0], *places]  # that of the first space too
    spans = [(places[start], places[end - 1] + 1) for start, end in columns]
    row_shares = words_of_tokens(pieces, [row.span or (0, 0) for row in rows])
    copied = _copied(summarizer, summary, row_shares, words_of_tokens(tokens, columns))
    words = [read[a:b] for a, b in columns]
    origins = []
    for number, (row, (share, place)) in enumerate(zip(rows, copied, strict=True)):
        if row.span is not None and place is None:  # it was generated
            at = int(merged[number].argmax())
        else:
            at = _same_word(row.text, words, place or 0)
        weight = None if row.span is None else float(merged[number, at])
        origins.append(WordOrigin(row.shown or row.text, share, words[at], *spans[at], weight))
    return [
        SummaryWeights(
            row_words=[row.text for row in rows],
            column_words=[word.lower() if summarizer.source.lowercase else word for word in words],
            weights=merged,
            text=summary.source,
            spans=spans,
            origins=origins,
            title=summary.text,
            unread=(spans[-1][1], len(summary.source)) if summary.cut_off else None,
            marks=[row.mark for row in rows],
            notes=summary.notes,
        )
    ]


def _same_word(word: str, source_words: Sequence[str], place: int) -> int:
    """Return the place of the same word of the text that is nearest to a place, or the place if there is none.

    >>> _same_word("turn", ["a", "turn", "of", "TurnKeeper", "turn"], 3)
    4
    """
    same = [i for i, other in enumerate(source_words) if other.casefold() == word.casefold()]
    return min(same, key=lambda i: abs(i - place), default=place)


def _places(text: str) -> list[int]:
    """Return the place in a text of each character of :func:`single_spaced` of it.

    >>> _places(" a  b")
    [1, 3, 4]
    """
    places: list[int] = []
    for match in re.finditer(r"\S+", text):
        places += [match.start() - 1] * bool(places) + [*range(*match.span())]
    return places


def _attention(records: Sequence[Record], rows: int, columns: int) -> np.ndarray:
    """Return the weights of the tokens of the summary to those of the text, without the end, ``(t,s)``."""
    crosses = [record for record in records if record.kind == "cross"]
    if not crosses:
        raise ArgumentError("model", "it has no attention to the text", "train one with attention")
    # The copy attention comes after those of the layers.
    weights = crosses[-1].map.weights()[0].double().mean(dim=0)  # (t,s)
    return weights[:rows, :columns].cpu().numpy()


def _copied(
    summarizer: Summarizer, summary: Summary, rows: np.ndarray, columns: np.ndarray
) -> list[tuple[float, int | None]]:
    """Return for each word of the summary the share that was copied, and the word of the text it was copied from.

    ``rows`` and ``columns`` are the shares of the tokens in the words. A word that was not copied has no place.
    """
    if not summarizer.copies:
        return [(0.0, None)] * len(rows)
    (tokens,) = token_origins(
        summarizer.model, summarizer.vocabulary, [summary.source_ids], [summary.target_ids]
    )
    return [_copied_word(tokens, row, columns) for row in rows]


def _copied_word(
    tokens: Sequence[TokenOrigin], shares: np.ndarray, columns: np.ndarray
) -> tuple[float, int | None]:
    """Return the share of a word that was copied, and the word of the text that most of its tokens were copied from.

    ``shares (t,)`` are the shares of the tokens in the word, and ``columns`` those of the source tokens in the words.
    """
    total = shares.sum()
    share = float(
        sum(part * one.copied for part, one in zip(shares, tokens, strict=True)) / max(total, 1e-12)
    )
    votes = np.zeros(len(columns))
    for part, one in zip(shares, tokens, strict=True):
        if one.position is not None and one.position < columns.shape[1]:
            votes += part * one.copied * columns[:, one.position]
    return share, int(votes.argmax()) if share >= COPIED and votes.any() else None
