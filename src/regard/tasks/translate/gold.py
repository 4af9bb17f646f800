"""Sentences whose true word alignments are known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from regard.analysis import diagonal_links
from regard.errors import FileError
from regard.metrics import alignment_error_rate
from regard.tasks.translate.alignment import AlignedPair
from regard.tasks.translate.translator import Translator
from regard.text import read_lines

__all__ = ["diagonal_error_rate", "embedded_aligned", "read_aligned"]


def embedded_aligned(translator: Translator, split: str, count: int, seed: int = 0) -> list[AlignedPair]:
    """Return sentences of the embedded corpus in the translator's languages, with their links."""
    from regard.corpus import generate

    start, end = translator.source_language, translator.target_language
    found = []
    for triple in generate(count, split=split, seed=seed):
        source, target, links = triple.side(start), triple.side(end), triple.links(start, end)
        found.append(
            AlignedPair(source.text, target.text, source.spans, target.spans, links.sure, links.possible)
        )
    return found


def read_aligned(path: Path) -> list[AlignedPair]:
    """Read sentences with their links from a file of three or four columns, separated by tabs.

    The columns are source tokens, target tokens, sure links and possible links. A link is ``i-j``, counted from 0.
    """
    found = []
    for number, line in enumerate(read_lines(str(path)), start=1):
        parts = [part.split() for part in line.split("\t")]
        if len(parts) not in (3, 4):
            raise FileError(f"{path}, line {number}: expected 3 or 4 columns, got {len(parts)}")
        if not parts[0] or not parts[1]:
            raise FileError(f"{path}, line {number}: a side has no words: leave the line out")
        source, target = _placed(parts[0]), _placed(parts[1])
        sides = (len(parts[0]), len(parts[1]))
        sure = _links(parts[2], sides, path, number)
        possible = _links(parts[3], sides, path, number) if len(parts) == 4 else frozenset()
        found.append(AlignedPair(source[0], target[0], source[1], target[1], sure, sure | possible))
    if not found:
        raise FileError(f"{path}: it has no sentences")
    return found


def diagonal_error_rate(pairs: Sequence[AlignedPair]) -> float:
    """Return the alignment error rate of the diagonal, a baseline that knows only the lengths of the sentences."""
    guesses = [diagonal_links(len(pair.source_words), len(pair.target_words)) for pair in pairs]
    return alignment_error_rate(guesses, [pair.sure for pair in pairs], [pair.possible for pair in pairs])


def _placed(tokens: list[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Join tokens into a text without spaces before punctuation, and return it with the span of each token."""
    text, spans = "", []
    for token in tokens:
        joined = not text or re.fullmatch(r"[.,;:!?)\]%]+", token) or text.endswith(("'", "’", "("))
        text += ("" if joined else " ") + token
        spans.append((len(text) - len(token), len(text)))
    return text, tuple(spans)


def _links(words: list[str], sides: tuple[int, int], path: Path, number: int) -> frozenset[tuple[int, int]]:
    found = set()
    for word in words:
        match = re.fullmatch(r"(\d+)-(\d+)", word)
        if not match:
            raise FileError(f"{path}, line {number}: expected links such as 0-1, got {word!r}")
        i, j = int(match[1]), int(match[2])
        if i >= sides[0] or j >= sides[1]:
            raise FileError(
                f"{path}, line {number}: link {word} points outside {sides[0]} and {sides[1]} words"
            )
        found.add((i, j))
    return frozenset(found)
