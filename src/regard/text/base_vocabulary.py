"""The base class of vocabularies, with special tokens, checks, and saving as JSON."""

from __future__ import annotations

import functools
import hashlib
import json
import operator
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from regard.checks import whole_number
from regard.errors import ArgumentError, DtypeError, OutsideError, UnknownNameError
from regard.files import write_atomically
from regard.text.framing import Framing

__all__ = ["FORMAT", "MASK", "UNKNOWN_SIGN", "Vocabulary", "all_prepared"]

FORMAT = "regard.vocabulary/1"
# The name of the special token that stands for a hidden one, if a vocabulary has it.
MASK = "<mask>"
# The text that an unknown token is decoded to.
UNKNOWN_SIGN = "\N{REPLACEMENT CHARACTER}"


class Vocabulary(ABC):
    """The base class of vocabularies, which convert text to token ids and back.

    The special tokens have the first ids. They are pad 0, bos 1, eos 2, and unk 3 if the vocabulary has unknown
    tokens. ``specials`` are the names of further special tokens, such as ``"<to-fr>"``. No text is ever encoded to a
    special token. ``lowercase`` converts texts to lower case before encoding.
    """

    kind: ClassVar[str]
    pad: int = 0
    bos: int = 1
    eos: int = 2
    unk: int | None = None

    def __init__(self, *, lowercase: bool = False, specials: Sequence[str] = ()):
        self.lowercase = bool(lowercase)
        # The id of a special token is its index.
        self.specials = self._special_names(specials)
        self._ordinary_from = len(self.specials)

    # -- methods of each kind of vocabulary --------------------------------------------------------------------

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of ids, with the special tokens."""

    @abstractmethod
    def _encode(self, text: str) -> list[int]:
        """Return the ids of a text that ``_prepared`` returned."""

    @abstractmethod
    def _join(self, ids: list[int]) -> str:
        """Return the text of ids that hold no special tokens except unk."""

    @abstractmethod
    def _piece(self, number: int) -> str:
        """Return the label of an id that is not a special token, for :meth:`pieces`."""

    @abstractmethod
    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Return the result of :meth:`spans` for a text that ``_prepared`` returned."""

    @classmethod
    @abstractmethod
    def _learn(cls, texts: Iterator[str], size: int, lowercase: bool, specials: tuple[str, ...]) -> Self:
        """Train a vocabulary of at most ``size`` ids on texts that ``_prepared`` returned.

        ``specials`` are the names of the further special tokens.
        """

    @abstractmethod
    def _content(self) -> dict[str, Any]:
        """Return the JSON values of this kind, which ``to_json`` adds to format, kind, lowercase and specials."""

    @classmethod
    @abstractmethod
    def _from_content(cls, content: dict[str, Any], lowercase: bool, specials: tuple[str, ...]) -> Self:
        """Rebuild a vocabulary from the values of ``_content``.

        The caller converts the exceptions of invalid content to an ArgumentError.
        """

    # -- methods of all vocabularies ---------------------------------------------------------------------------

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, without bos and eos."""
        return self._encode(_prepared(text, self.lowercase))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, without bos and eos."""
        return [self._encode(text) for text in all_prepared(texts, self.lowercase)]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids before the first eos.

        Other special tokens are left out, and unk becomes U+FFFD. ``ids`` is a list, array or tensor of one axis. An id
        that is not in the vocabulary raises OutsideError.
        """
        kept = []
        for number in self._checked(ids):
            if number == self.eos:
                break
            if number >= self._ordinary_from or number == self.unk:
                kept.append(number)
        return self._join(kept)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return a readable label for each id, which is its text or the name of the special token.

        A piece that is only part of a character shows its bytes, as in ``\\xe7``.
        """
        names = self.specials
        return [
            names[number] if number < len(names) else self._piece(number) for number in self._checked(ids)
        ]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the character span in the text for each token of ``encode(text)``.

        A span is (first character, character after the last). The tokens of parts of one character share its span.
        """
        return self._spans(_prepared(text, self.lowercase))

    def word_spans(self, text: str) -> list[tuple[int, int]]:
        """Return for each token of ``encode(text)`` the character span (start, end) of the whole word it is part of.

        If the vocabulary does not know words, this is the span of the token.
        """
        return self.spans(text)

    @property
    def mask(self) -> int | None:
        """The id of the special token ``"<mask>"``, which stands for a hidden token, or None if there is none."""
        return self.specials.index(MASK) if MASK in self.specials else None

    @functools.cached_property
    def token_bytes(self) -> tuple[bytes, ...] | None:
        """The UTF-8 bytes of each id, empty for special tokens, or None if tokens are not bytes."""
        return None

    @property
    def framing(self) -> Framing:
        """The special tokens that an encoder gets around a text or a pair of texts.

        There is none before a text. Between and after texts it is eos.
        """
        return Framing(start=None, end=self.eos, pad=self.pad, between=(self.eos,))

    def special(self, name: str) -> int:
        """Return the id of a special token by its name, or raise UnknownNameError."""
        if name not in self.specials:
            raise UnknownNameError("name", name, self.specials)
        return self.specials.index(name)

    @classmethod
    def train(
        cls, texts: Iterable[str], size: int, *, lowercase: bool = False, specials: Sequence[str] = ()
    ) -> Self:
        """Train a vocabulary of at most ``size`` ids, including the special tokens.

        ``lowercase`` and ``specials`` are those of the class. The same texts always give the same vocabulary. A
        ``size`` that is too small for this kind of vocabulary raises ArgumentError.
        """
        return cls._learn(*cls._checked_training(texts, size, lowercase, specials))

    def to_json(self) -> dict[str, Any]:
        """Return the whole vocabulary as JSON values."""
        extra = list(self.specials[self._fixed() :])
        header = {"format": FORMAT, "kind": self.kind, "lowercase": self.lowercase, "specials": extra}
        return {**header, **self._content()}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """Rebuild a vocabulary of this kind from the values of ``to_json``.

        Other values raise ArgumentError. ``load_vocabulary`` reads a file of any kind.
        """
        file_format = content.get("format") if isinstance(content, dict) else None
        if file_format != FORMAT:
            raise ArgumentError(
                "content", f"not a vocabulary: expected format {FORMAT!r}, got {file_format!r}"
            )
        if content.get("kind") != cls.kind:
            raise ArgumentError("content", f"expected kind {cls.kind!r}, got {content.get('kind')!r}")
        try:
            if not isinstance(content["lowercase"], bool):
                raise TypeError("lowercase is neither true nor false")
            return cls._from_content(content, content["lowercase"], tuple(content["specials"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ArgumentError("content", f"not a complete vocabulary: {error!r}") from error

    def save(self, path: str | os.PathLike) -> None:
        """Write the vocabulary to a JSON file atomically."""
        text = json.dumps(self.to_json(), ensure_ascii=False, separators=(",", ":"))
        write_atomically(path, lambda part: _write(part, text))

    @functools.cached_property
    def fingerprint(self) -> str:
        """A SHA-256 hash of the content, the same for equal vocabularies."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} tokens{', lowercase' if self.lowercase else ''})"

    # -- checks ------------------------------------------------------------------------------------------------

    @classmethod
    def _fixed(cls) -> int:
        return 3 if cls.unk is None else 4

    @classmethod
    def _checked_training(
        cls, texts: Iterable[str], size: int, lowercase: bool, specials: Sequence[str]
    ) -> tuple[Iterator[str], int, bool, tuple[str, ...]]:
        """Return the arguments of ``_learn`` for those of ``train``, or raise an error if they do not fit together."""
        names = cls._special_names(specials)
        size = whole_number("size", size)
        if size <= len(names):
            raise ArgumentError("size", f"expected more than the {len(names)} specials, got {size}")
        return all_prepared(texts, lowercase), size, bool(lowercase), names[cls._fixed() :]

    @classmethod
    def _special_names(cls, extra: Sequence[str]) -> tuple[str, ...]:
        """Return the names of all special tokens in the order of their ids, those of ``extra`` last.

        Names that are empty or occur twice raise ArgumentError.
        """
        if isinstance(extra, str):
            raise DtypeError(
                "specials", f"expected a list of names, got the text {extra!r}", f"write [{extra!r}]"
            )
        names = ("<pad>", "<bos>", "<eos>", "<unk>")[: cls._fixed()] + tuple(extra)
        for name in extra:
            if not isinstance(name, str) or not name:
                raise ArgumentError("specials", f"expected names, got {name!r}")
            if names.count(name) > 1:
                raise ArgumentError("specials", f"{name!r} occurs twice (in {', '.join(names)})")
        return names

    def _checked(self, ids: Iterable[int]) -> list[int]:
        """Convert ids in a list, array or tensor to ints, or raise an error if one is not in the vocabulary."""
        # For an array or tensor, tolist() is much faster than iteration.
        tolist = getattr(ids, "tolist", None)
        try:
            numbers = [operator.index(number) for number in (tolist() if tolist else ids)]
        except TypeError:
            raise DtypeError(
                "ids", "expected whole numbers in one row", "decode the rows one by one"
            ) from None
        if numbers and not 0 <= min(numbers) <= max(numbers) < len(self):
            wrong = next(number for number in numbers if not 0 <= number < len(self))
            raise OutsideError("ids", f"{wrong} is not an id of this vocabulary of {len(self)}")
        return numbers


def all_prepared(texts: Iterable[str], lowercase: bool) -> Iterator[str]:
    """Return an iterator over the texts, each checked and, with ``lowercase``, converted to lower case."""
    if isinstance(texts, str):
        raise DtypeError("texts", "expected many texts, got one", "put it in a list: [text]")
    return (_prepared(text, lowercase) for text in texts)


def _prepared(text: str, lowercase: bool) -> str:
    """Return a text, in lower case if ``lowercase``, or raise an error if it cannot be encoded as UTF-8.

    The conversion keeps the number of characters, so that spans fit the original text.
    """
    if not isinstance(text, str):
        raise DtypeError("text", f"expected a str, got {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(
            "text",
            f"the character {text[error.start]!a} at {error.start} is half of a surrogate pair",
            "decode the text from its file again, with the right encoding",
        ) from None
    if not lowercase:
        return text
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    # A few letters become two characters in lower case (İ). They are left unchanged.
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
