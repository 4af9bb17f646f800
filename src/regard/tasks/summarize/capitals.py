"""Capitals for a summary in lower case, taken from its text."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from regard.analysis import word_spans

__all__ = ["with_capitals"]

_BEFORE_A_SENTENCE = re.compile(r"(?:^|[.!?:…]['\"”’)]*\s+|\s['\"“‘(]+)$")


def with_capitals(summary: str, text: str) -> str:
    """Return a summary in lower case with the capitals that its words have in the text, and a capital at its start.

    A word gets the form that is most frequent inside the sentences of the text. A word that the text has at the start
    of sentences only stays in lower case, unless it has capitals after its first letter. Every character keeps its
    place.

    >>> with_capitals("the bert of a french cat", "BERT reads French. Cats are French. A cat")
    'The BERT of a French cat'
    """
    forms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for start, end in word_spans(text):
        word = text[start:end]
        opens = word[1:] == word[1:].lower() and _BEFORE_A_SENTENCE.search(text, max(0, start - 9), start)
        if len(word.lower()) == len(word):
            forms[word.lower()][word.lower() if opens else word] += 1
    letters = list(summary)
    for start, end in word_spans(summary):
        if counts := forms.get(summary[start:end]):
            # Of equally frequent forms, the one in lower case.
            letters[start:end] = max(sorted(counts, reverse=True), key=counts.__getitem__)
    if letters and len(letters[0].upper()) == 1:
        letters[0] = letters[0].upper()
    return "".join(letters)
