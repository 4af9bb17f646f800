"""Which source word each target word came from, read out of the model's attention.

A Transformer has many heads over the source, and few of them align. Which layer and head to read, and whether at the
step that writes a word or at the step that has just read it (Chen et al. 2020), is chosen on sentences whose true
links are known, and kept with the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.analysis import alignment_links, merge_tokens, word_spans, words_of_tokens
from regard.errors import ArgumentError
from regard.metrics import alignment_error_rate
from regard.tasks.translate.plain import is_endless, spaced
from regard.tasks.translate.reading import Reading, reading_of
from regard.tasks.translate.translator import Translation, Translator

__all__ = ["AlignedPair", "WordAlignment", "align", "choose_reading", "error_rates"]

Span = tuple[int, int]
LABEL = 30  # characters that are shown of a word without end


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


def align(translator: Translator, translation: Translation) -> WordAlignment:
    """Return the attention of each word of a translation to the words of its source.

    A long text was translated part by part: the words of one part have no weight on the words of another.
    """
    if translation.parts:
        return _joined([align(translator, part) for part in translation.parts])
    source, target = spaced(translation.source), translation.text
    if is_endless(source):  # it was copied; as a label in a picture it would have no end either
        return WordAlignment([f"{source[:LABEL]}…"], [f"{target[:LABEL]}…"], np.ones((1, 1)))
    pair = AlignedPair(source, target, tuple(word_spans(source)), tuple(word_spans(target)))
    if translation.target_ids:
        ((weights,),) = _word_weights(translator, [pair], [reading_of(translator)], translation)
    else:  # nothing was written
        weights = np.zeros((len(pair.target_words), len(pair.source_words)))
    return WordAlignment(
        [source[a:b] for a, b in pair.source_words], [target[a:b] for a, b in pair.target_words], weights
    )


def _joined(parts: Sequence[WordAlignment]) -> WordAlignment:
    """One alignment of all parts, with a block of weights for each."""
    source_words = [word for part in parts for word in part.source_words]
    target_words = [word for part in parts for word in part.target_words]
    weights = np.zeros((len(target_words), len(source_words)))
    row = column = 0
    for part in parts:
        rows, columns = part.weights.shape
        weights[row : row + rows, column : column + columns] = part.weights
        row, column = row + rows, column + columns
    return WordAlignment(source_words, target_words, weights)


def choose_reading(translator: Translator, pairs: Sequence[AlignedPair]) -> tuple[Reading, float]:
    """The reading with the lowest alignment error rate on ``pairs``, and that rate."""
    readings = all_readings(translator)
    rates = error_rates(translator, pairs, readings)
    best = min(range(len(readings)), key=rates.__getitem__)
    return readings[best], rates[best]


def error_rates(
    translator: Translator, pairs: Sequence[AlignedPair], readings: Sequence[Reading]
) -> list[float]:
    """The alignment error rate of each reading; the model is made to write the targets given."""
    if not pairs:
        raise ArgumentError("pairs", "there are no sentences to align")
    found: list[list[set[tuple[int, int]]]] = [[] for _ in readings]
    for start in range(0, len(pairs), 50):
        for weights in _word_weights(translator, pairs[start : start + 50], readings):
            for place, one in enumerate(weights):
                found[place].append(alignment_links(one))
    sure, possible = [pair.sure for pair in pairs], [pair.possible for pair in pairs]
    return [alignment_error_rate(links, sure, possible) for links in found]


def all_readings(translator: Translator) -> list[Reading]:
    """Every layer, every head and their mean, at both steps."""
    config: Any = translator.model.config
    if config.kind != "transformer":
        return [Reading(0, None, after) for after in (False, True)]
    heads = [None, *range(config.heads)]
    return [
        Reading(layer, head, after)
        for layer in range(config.decoder_layers)
        for head in heads
        for after in (False, True)
    ]


def _word_weights(
    translator: Translator,
    pairs: Sequence[AlignedPair],
    readings: Sequence[Reading],
    written: Translation | None = None,
) -> Iterator[list[np.ndarray]]:
    """For each pair, the weights between its words under each reading; ``written`` is what the model itself wrote."""
    sources = translator.source.encode_batch([pair.source for pair in pairs])
    targets = [written.target_ids] if written else translator.target.encode_batch([p.target for p in pairs])
    seen = translator.forced(sources, targets)
    for b, pair in enumerate(pairs):
        columns = words_of_tokens(translator.source.spans(pair.source), pair.source_words)
        spans = translator.target_spans(written) if written else translator.target.spans(pair.target)
        rows = words_of_tokens(spans, pair.target_words)
        sizes = (rows.shape[1], columns.shape[1])
        yield [merge_tokens(reading.weights(seen, b, *sizes), rows, columns) for reading in readings]
