"""Alignment of the words of a translation with those of its source, by the attention of the model.

A Transformer has many heads over the source, and few of them align words. The layer, the head and the step (Chen et
al. 2020) are chosen on sentences whose links are known, and saved with the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from regard.analysis import alignment_links, merge_tokens, words_of_tokens
from regard.errors import ArgumentError
from regard.metrics import alignment_error_rate
from regard.tasks.translate.alignment_head import AlignmentHead, alignment_head_of
from regard.tasks.translate.long_texts import is_endless
from regard.tasks.translate.translator import Translation, Translator
from regard.tasks.written_words import json_rows, read_words, word_weights
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
    """The attention weights between the words that a model wrote, which are the rows, and those that it read.

    A word of the translation that the model did not write has a row whose weights are masked, and a mark that says
    whether it was copied or replaced. The marks of other rows are empty. ``notes`` say what the model read and wrote,
    where it differs from what the user sees.
    """

    source_words: list[str]
    target_words: list[str]
    weights: np.ma.MaskedArray  # (target words, source words)
    marks: list[str]
    notes: list[str]
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
        """Return the words and the weights as a JSON object, with None for the rows of words that were not written."""
        words = {"source_words": self.source_words, "target_words": self.target_words}
        return {**words, "attention": json_rows(self.weights), "notes": self.notes}


def align(translator: Translator, translation: Translation) -> WordAlignment:
    """Return the attention of each word that the model wrote to the words that it read.

    Several words that are one token, as in Chinese, are one row or column. Weights are summed over the tokens of a
    column and averaged over the tokens of a row. The weights of a word that was copied or replaced are masked. So are
    those between words of different sentences, which were translated apart.
    """
    if translation.parts:
        return _joined([align(translator, part) for part in translation.parts])
    read, written = translation.read, translation.written
    tokens = translator.source.spans(read)
    pieces = translator.target_spans(translation) if written else []
    columns = read_words(read, tokens)
    rows = translator.rows(translation)
    weights = np.zeros((0, 0))
    if translation.target_ids:
        head = alignment_head_of(translator)
        seen = translator.forced([translation.source_ids], [translation.target_ids])
        weights = head.weights(seen, 0, len(pieces), len(tokens))  # (t,s)
    merged = word_weights(weights, rows, columns, written=(written, pieces), read=(read, tokens))
    return WordAlignment(
        [read[a:b] for a, b in columns],
        # As a label in a picture, a word without end would have no end either.
        [f"{row.text[:LABEL]}…" if is_endless(row.text) else row.text for row in rows],
        merged,
        [row.mark for row in rows],
        translation.notes,
    )


def _joined(parts: Sequence[WordAlignment]) -> WordAlignment:
    """Join the alignments of parts into one, with a block of weights for each part."""
    source_words = [word for part in parts for word in part.source_words]
    target_words = [word for part in parts for word in part.target_words]
    weights = np.ma.masked_all((len(target_words), len(source_words)))
    weights.data[:] = np.nan
    row = column = 0
    for part in parts:
        rows, columns = part.weights.shape
        weights[row : row + rows, column : column + columns] = part.weights
        row, column = row + rows, column + columns
    marks = [mark for part in parts for mark in part.marks]
    notes = [note for part in parts for note in part.notes]
    return WordAlignment(source_words, target_words, weights, marks, notes)


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
    translator: Translator, pairs: Sequence[AlignedPair], heads: Sequence[AlignmentHead]
) -> Iterator[list[np.ndarray]]:
    """Yield, for each pair, the weights between its words in each head."""
    sources = translator.source.encode_batch([pair.source for pair in pairs])
    targets = translator.target.encode_batch([pair.target for pair in pairs])
    seen = translator.forced(sources, targets)
    for b, pair in enumerate(pairs):
        columns = words_of_tokens(translator.source.spans(pair.source), pair.source_words)
        rows = words_of_tokens(translator.target.spans(pair.target), pair.target_words)
        sizes = (rows.shape[1], columns.shape[1])
        yield [merge_tokens(head.weights(seen, b, *sizes), rows, columns) for head in heads]
