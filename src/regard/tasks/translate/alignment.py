"""Which source word each target word came from, read out of the model's attention.

A Transformer has many heads over the source, and few of them align. Which layer and head to read, and whether at the
step that writes a word or at the step that has just read it (Chen et al. 2020), is chosen on sentences whose true
links are known, and kept with the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from regard.analysis import alignment_links, merge_tokens, word_spans, words_of_tokens
from regard.errors import ArgumentError
from regard.metrics import alignment_error_rate
from regard.models import Seen
from regard.tasks.translate.translator import Translation, Translator
from regard.text import pad_sequences

__all__ = ["AlignedPair", "Reading", "WordAlignment", "align", "choose_reading", "error_rates"]

Span = tuple[int, int]


@dataclass(frozen=True)
class Reading:
    """Where alignments are read: a layer of the cross attention, one head or the mean of all, and at which step."""

    layer: int
    head: int | None = None
    after: bool = False  # at the step that has read the word, instead of the one that writes it

    def __str__(self) -> str:
        head = "all heads" if self.head is None else f"head {self.head}"
        return f"layer {self.layer}, {head}, {'after' if self.after else 'before'} the word is written"


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
    """What each word of a translation looked at."""
    source, target = translation.source, translation.text
    pair = AlignedPair(source, target, tuple(word_spans(source)), tuple(word_spans(target)))
    (weights,) = _word_weights(translator, [pair], [reading_of(translator)], [translation.target_ids])
    return WordAlignment(
        [source[a:b] for a, b in pair.source_words],
        [target[a:b] for a, b in pair.target_words],
        weights[0],
    )


def reading_of(translator: Translator) -> Reading:
    """The reading kept with the model; without one, the mean of the last layer but one."""
    kept = translator.extra.get("alignment")
    if kept:
        return Reading(kept["layer"], kept["head"], kept["after"])
    layers = getattr(translator.model.config, "decoder_layers", 1)
    return Reading(max(0, layers - 2) if translator.model.config.kind == "transformer" else 0)


def choose_reading(translator: Translator, pairs: Sequence[AlignedPair]) -> tuple[Reading, float]:
    """The reading with the lowest alignment error rate on ``pairs``, and that rate."""
    readings = all_readings(translator)
    rates = error_rates(translator, pairs, readings)
    best = min(range(len(readings)), key=rates.__getitem__)
    return readings[best], rates[best]


def keep_reading(translator: Translator, reading: Reading) -> None:
    """Let the translator remember its reading; it is saved with the model."""
    translator.extra = {**translator.extra, "alignment": asdict(reading)}


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


@torch.no_grad()
def _word_weights(
    translator: Translator,
    pairs: Sequence[AlignedPair],
    readings: Sequence[Reading],
    written: Sequence[list[int]] | None = None,
) -> Iterator[list[np.ndarray]]:
    """For each pair, the weights between its words under each reading."""
    sources = translator.source.encode_batch([pair.source for pair in pairs])
    targets = written or translator.target.encode_batch([pair.target for pair in pairs])
    crosses = [one for one in _forced(translator, sources, targets) if one.kind == "cross"]
    if not crosses:
        raise ArgumentError("model", "it has no attention to the source", "train one with attention")
    for b, pair in enumerate(pairs):
        columns = words_of_tokens(translator.source.spans(pair.source), pair.source_words)
        rows = words_of_tokens(token_spans(translator, pair.target, targets[b]), pair.target_words)
        shape = (len(pair.target_words), len(pair.source_words))
        yield [
            merge_tokens(_token_weights(crosses, reading, b, len(rows), len(columns)), rows, columns, shape)
            for reading in readings
        ]


def token_spans(translator: Translator, text: str, ids: list[int]) -> list[Span]:
    """Where each written token stands in the text; a model may cut words as its vocabulary would not."""
    if translator.target.encode(text) == ids:
        return translator.target.spans(text)
    spans, start = [], 0
    for count in range(1, len(ids) + 1):
        end = len(translator.target.decode(ids[:count]).rstrip("\ufffd"))
        spans.append((start, max(start, end)))
        start = max(start, end)
    return spans


def _forced(translator: Translator, sources: list[list[int]], targets: Sequence[list[int]]) -> list[Seen]:
    """The model's attention while it reads the sources and writes the targets."""
    device = next(translator.model.parameters()).device
    source, lengths = pad_sequences(sources, end=translator.source.eos)
    target, _ = pad_sequences(targets, start=translator.target.bos, end=translator.target.eos)
    seen: list[Seen] = []
    translator.model.eval()
    translator.model.hidden(source.to(device), target.to(device), lengths.to(device), seen=seen)
    return seen


def _token_weights(crosses: list[Seen], reading: Reading, b: int, rows: int, columns: int) -> np.ndarray:
    """Weights ``(target tokens, source tokens)``; the row before the first token belongs to bos."""
    weights = crosses[reading.layer].weights[b]  # (h,t,s)
    one = weights.mean(dim=0) if reading.head is None else weights[reading.head]
    first = 1 if reading.after else 0
    return one[first : first + rows, :columns].double().cpu().numpy()
