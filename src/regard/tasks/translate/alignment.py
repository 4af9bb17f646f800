"""Alignment of the words of a translation with those of its source, by the attention of the model.

A Transformer has many heads over the source, and few of them align words. The layer, the head and the step (Chen et
al. 2020) are chosen on sentences whose links are known, and saved with the model.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from regard.analysis import alignment_links, join_words, merge_tokens, word_spans, words_of_tokens
from regard.errors import ArgumentError
from regard.metrics import alignment_error_rate
from regard.tasks.translate.alignment_head import AlignmentHead, alignment_head_of
from regard.tasks.translate.long_texts import is_endless, spaced
from regard.tasks.translate.translator import Translation, Translator
from regard.training.batch_progress import with_progress

__all__ = ["AlignedPair", "WordAlignment", "align", "choose_alignment_head", "error_rates"]

Span = tuple[int, int]
# Characters that are shown of a word without end.
LABEL = 30


@dataclass(frozen=True)
class AlignedPair:
    """Two texts with their words and, if known, the true links between them."""

    source: str
    target: str
    source_words: tuple[Span, ...]
    target_words: tuple[Span, ...]
    sure: frozenset[tuple[int, int]] = frozenset()
    possible: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class WordAlignment:
    """Weights between the words of a translation, a row for each target word."""

    source_words: list[str]
    target_words: list[str]
    weights: np.ndarray  # (target words, source words)
    axes: ClassVar[tuple[str, str]] = ("Source", "Target")  # the names of the columns and of the rows

    @property
    def row_words(self) -> list[str]:
        """The words of the translation."""
        return self.target_words

    @property
    def column_words(self) -> list[str]:
        """The words of the source."""
        return self.source_words

    def to_json(self) -> dict[str, Any]:
        """Return the words and the weights as a JSON object."""
        rows = [[round(float(weight), 4) for weight in row] for row in self.weights]
        return {"source_words": self.source_words, "target_words": self.target_words, "attention": rows}


def align(translator: Translator, translation: Translation) -> WordAlignment:
    """Return the attention of each word of a translation to the words of its source.

    Several words that the model read or wrote as one token, as in Chinese, are one row or column. A long text was
    translated part by part, and the words of one part have no weight on the words of another.
    """
    if translation.parts:
        return _joined([align(translator, part) for part in translation.parts])
    source, target = spaced(translation.source), translation.text
    # It was copied; as a label in a picture it would have no end either.
    if is_endless(source):
        return WordAlignment([f"{source[:LABEL]}…"], [f"{target[:LABEL]}…"], np.ones((1, 1)))
    copied = _copied(translation)
    columns = join_words(
        word_spans(source), [*(one for one, _ in copied), *translator.source_spans(translation)]
    )
    rows = join_words(
        word_spans(target), [*(other for _, other in copied), *translator.target_spans(translation)]
    )
    pair = AlignedPair(source, target, tuple(columns), tuple(rows))
    if translation.target_ids:
        ((weights,),) = _word_weights(translator, [pair], [alignment_head_of(translator)], translation)
    else:  # the model wrote nothing
        weights = np.zeros((len(pair.target_words), len(pair.source_words)))
    for span, other in copied:
        for row, column in itertools.product(_words_in(other, rows), _words_in(span, columns)):
            weights[row] = 0.0
            weights[row, column] = 1.0
    return WordAlignment(
        [source[a:b] for a, b in pair.source_words], [target[a:b] for a, b in pair.target_words], weights
    )


def _copied(translation: Translation) -> list[tuple[Span, Span]]:
    """Return the spans of the source and of the translation that hold the same characters."""
    if translation.places is not None:
        return list(translation.places.copied)
    is_copy = not translation.target_ids and translation.text.strip()
    return [((0, len(translation.source)), (0, len(translation.text)))] if is_copy else []


def _words_in(span: Span, words: Sequence[Span]) -> list[int]:
    return [place for place, (start, end) in enumerate(words) if span[0] <= start and end <= span[1]]


def _joined(parts: Sequence[WordAlignment]) -> WordAlignment:
    """Join the alignments of parts into one, with a block of weights for each part."""
    source_words = [word for part in parts for word in part.source_words]
    target_words = [word for part in parts for word in part.target_words]
    weights = np.zeros((len(target_words), len(source_words)))
    row = column = 0
    for part in parts:
        rows, columns = part.weights.shape
        weights[row : row + rows, column : column + columns] = part.weights
        row, column = row + rows, column + columns
    return WordAlignment(source_words, target_words, weights)


def choose_alignment_head(
    translator: Translator, pairs: Sequence[AlignedPair]
) -> tuple[AlignmentHead, float]:
    """Return the head with the lowest alignment error rate on ``pairs``, and that rate."""
    heads = all_alignment_heads(translator)
    rates = error_rates(translator, pairs, heads)
    best = min(range(len(heads)), key=rates.__getitem__)
    return heads[best], rates[best]


def error_rates(
    translator: Translator, pairs: Sequence[AlignedPair], heads: Sequence[AlignmentHead]
) -> list[float]:
    """Return the alignment error rate of each head, where the model is forced to write the given targets."""
    if not pairs:
        raise ArgumentError("pairs", "there are no sentences to align")
    found: list[list[set[tuple[int, int]]]] = [[] for _ in heads]
    batches = [pairs[start : start + 50] for start in range(0, len(pairs), 50)]
    for some in with_progress(batches, len(pairs), "alignments"):
        for weights in _word_weights(translator, some, heads):
            for place, matrix in enumerate(weights):
                found[place].append(alignment_links(matrix))
    sure, possible = [pair.sure for pair in pairs], [pair.possible for pair in pairs]
    return [alignment_error_rate(links, sure, possible) for links in found]


def all_alignment_heads(translator: Translator) -> list[AlignmentHead]:
    """Return all candidates for the attention head that aligns words best.

    They are every layer with each head and with the mean of its heads, at the step that writes a word and at the step
    after it. The copy attention of a Transformer is a layer without heads. A recurrent model has one layer and no
    heads.
    """
    config: Any = translator.model.config
    if config.kind != "transformer":
        return [AlignmentHead(0, None, after) for after in (False, True)]
    heads = [None, *range(config.heads)]
    places = [(layer, head) for layer in range(config.decoder_layers) for head in heads]
    places += [(None, None)] if config.copy else []
    return [AlignmentHead(layer, head, after) for layer, head in places for after in (False, True)]


def _word_weights(
    translator: Translator,
    pairs: Sequence[AlignedPair],
    heads: Sequence[AlignmentHead],
    written: Translation | None = None,
) -> Iterator[list[np.ndarray]]:
    """Yield, for each pair, the weights between its words in each head.

    ``written`` is the translation of the only pair, if the model has written it itself.
    """
    sources = [written.source_ids] if written else translator.source.encode_batch([p.source for p in pairs])
    targets = [written.target_ids] if written else translator.target.encode_batch([p.target for p in pairs])
    seen = translator.forced(sources, targets)
    for b, pair in enumerate(pairs):
        tokens = translator.source_spans(written) if written else translator.source.spans(pair.source)
        columns = words_of_tokens(tokens, pair.source_words)
        spans = translator.target_spans(written) if written else translator.target.spans(pair.target)
        rows = words_of_tokens(spans, pair.target_words)
        sizes = (rows.shape[1], columns.shape[1])
        yield [merge_tokens(head.weights(seen, b, *sizes), rows, columns) for head in heads]
