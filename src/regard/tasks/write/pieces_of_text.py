"""The text of tokens that arrive one by one, and the search for texts that end it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from regard.text import UNKNOWN_SIGN, PretrainedVocabulary, Vocabulary

__all__ = ["StopTexts", "TokenTexts", "special_tokens", "texts_of_tokens"]


class TokenTexts:
    """Turns tokens into text, one after the other.

    A character may be made of several tokens. Its text comes with the last of them.

    >>> from regard.text import ByteVocabulary
    >>> vocabulary = ByteVocabulary()
    >>> texts = TokenTexts(vocabulary)
    >>> [texts.add(token) for token in vocabulary.encode("né!")]
    ['n', '', 'é', '!']
    """

    def __init__(self, vocabulary: Vocabulary, before: Sequence[int] = ()):
        self.vocabulary, self.specials = vocabulary, special_tokens(vocabulary)
        # The tokens of the last complete text are decoded again with the next ones, because some vocabularies write a
        # space between two tokens only.
        self.ids = list(before[-4:])
        # Nothing after the end of a text is decoded, and a conversation has several ends.
        self.ids = [token for token in self.ids if token not in self.specials]
        self.known = len(self.ids)

    def add(self, token: int) -> str:
        """Return the text that is complete with this token. A special token has none."""
        if token in self.specials:
            self.ids, self.known = [], 0
            return ""
        self.ids.append(token)
        shown = self.vocabulary.decode(self.ids[: self.known])
        text = self.vocabulary.decode(self.ids)
        if text.endswith(UNKNOWN_SIGN) and token != self.vocabulary.unk:
            return ""
        self.ids, self.known = self.ids[self.known :], len(self.ids) - self.known
        return text[len(shown) :]


def special_tokens(vocabulary: Vocabulary) -> frozenset[int]:
    """Return the ids of the special tokens of a vocabulary except ``unk``, which stands for a text."""
    if isinstance(vocabulary, PretrainedVocabulary):
        found = set(vocabulary.special_ids())
    else:
        found = set(range(len(vocabulary.specials)))
    return frozenset(found - {vocabulary.unk})


def texts_of_tokens(vocabulary: Vocabulary, ids: Iterable[int]) -> list[str]:
    """Return the text of each token, which together are the whole text.

    The tokens of one character have empty texts except for the last, and special tokens have empty texts.
    """
    texts = TokenTexts(vocabulary)
    return [texts.add(token) for token in ids]


class StopTexts:
    """Passes on text until one of the stop texts occurs in it.

    Text that may be the beginning of a stop text is held back until it is known.

    >>> stop = StopTexts(["end"])
    >>> stop.add("the e"), stop.add("as"), stop.add("t end."), stop.found
    ('the ', 'eas', 't ', True)
    """

    def __init__(self, stops: Sequence[str]):
        self.stops, self.held, self.found = list(stops), "", False

    def add(self, text: str) -> str:
        """Return the text that can be shown."""
        if self.found:
            return ""
        self.held += text
        places = [place for stop in self.stops if (place := self.held.find(stop)) >= 0]
        if places:
            shown, self.held, self.found = self.held[: min(places)], "", True
            return shown
        keep = max((self._overlap(stop) for stop in self.stops), default=0)
        shown, self.held = self.held[: len(self.held) - keep], self.held[len(self.held) - keep :]
        return shown

    def rest(self) -> str:
        """Return the text that was held back, at the end."""
        shown, self.held = self.held, ""
        return shown

    def _overlap(self, stop: str) -> int:
        """Return the length of the longest end of the text that begins the stop text."""
        longest = min(len(stop) - 1, len(self.held))
        return next((n for n in range(longest, 0, -1) if stop.startswith(self.held[-n:])), 0)
