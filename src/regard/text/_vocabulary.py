"""What all vocabularies share: the special ids, decoding around them, and the JSON header."""

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

from regard.errors import ArgumentError, DtypeError, OutsideError, UnknownNameError
from regard.files import write_atomically

__all__ = ["FORMAT", "UNKNOWN_SIGN", "Vocabulary", "all_prepared"]

FORMAT = "regard.vocabulary/1"
UNKNOWN_SIGN = (
    "\N{REPLACEMENT CHARACTER}"  # what an unknown word is decoded to; no special is ever spelled out
)


class Vocabulary(ABC):
    """Text to ids and back. The ids start with the specials: pad 0, bos 1, eos 2, then unk if there is one.

    ``specials`` are names of your own for ids that no text can be encoded to, such as ``"<to-fr>"``.
    """

    kind: ClassVar[str]
    pad: ClassVar[int] = 0
    bos: ClassVar[int] = 1
    eos: ClassVar[int] = 2
    unk: ClassVar[int | None] = None

    def __init__(self, *, lowercase: bool = False, specials: Sequence[str] = ()):
        self.lowercase = bool(lowercase)
        self.specials = self._special_names(specials)  # their ids are their places
        self._ordinary_from = len(self.specials)

    # -- what a kind has to say --------------------------------------------------------------------------------

    @abstractmethod
    def __len__(self) -> int:
        """The number of ids, specials included."""

    @abstractmethod
    def _encode(self, text: str) -> list[int]:
        """The ids of a text that is checked and, if asked for, in lower case."""

    @abstractmethod
    def _join(self, ids: list[int]) -> str:
        """The text of ordinary ids and unk."""

    @abstractmethod
    def _piece(self, number: int) -> str:
        """The label of an ordinary id."""

    @abstractmethod
    def _spans(self, text: str) -> list[tuple[int, int]]:
        """As ``spans``, of a text that is checked and, if asked for, in lower case."""

    @classmethod
    @abstractmethod
    def _learn(cls, texts: Iterator[str], size: int, lowercase: bool, specials: tuple[str, ...]) -> Self:
        """Train on texts that are checked and, if asked for, in lower case."""

    @abstractmethod
    def _content(self) -> dict[str, Any]:
        """What the JSON holds beside the header."""

    @classmethod
    @abstractmethod
    def _from_content(cls, content: dict[str, Any], lowercase: bool, specials: tuple[str, ...]) -> Self:
        """The other way; whatever Python raises on content that does not fit is put into words by the caller."""

    # -- what all do -------------------------------------------------------------------------------------------

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without bos and eos."""
        return self._encode(_prepared(text, self.lowercase))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text."""
        return [self._encode(text) for text in all_prepared(texts, self.lowercase)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text up to the first eos; other specials are left out, and unk becomes U+FFFD."""
        kept = []
        for number in self._checked(ids):
            if number == self.eos:
                break
            if number >= self._ordinary_from or number == self.unk:
                kept.append(number)
        return self._join(kept)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """A readable label for each id: its own text, or the name of a special.

        A piece that is part of a character shows its bytes, as in ``\\xe7``.
        """
        names = self.specials
        return [
            names[number] if number < len(names) else self._piece(number) for number in self._checked(ids)
        ]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """For each token of ``encode(text)`` the characters it stands for: ``text[start:end]``."""
        return self._spans(_prepared(text, self.lowercase))

    def special(self, name: str) -> int:
        """The id of a special by its name."""
        if name not in self.specials:
            raise UnknownNameError("name", name, self.specials)
        return self.specials.index(name)

    @classmethod
    def train(
        cls, texts: Iterable[str], size: int, *, lowercase: bool = False, specials: Sequence[str] = ()
    ) -> Self:
        """A vocabulary of at most ``size`` ids, specials included; the same texts give the same one."""
        names = cls._special_names(specials)
        size = _whole("size", size)
        if size <= len(names):
            raise ArgumentError("size", f"expected more than the {len(names)} specials, got {size}")
        return cls._learn(all_prepared(texts, lowercase), size, bool(lowercase), names[cls._fixed() :])

    def to_json(self) -> dict[str, Any]:
        """All there is to know, as JSON values."""
        own = list(self.specials[self._fixed() :])
        header = {"format": FORMAT, "kind": self.kind, "lowercase": self.lowercase, "specials": own}
        return {**header, **self._content()}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """The vocabulary that ``to_json`` described; ``load_vocabulary`` reads any kind."""
        found = content.get("format") if isinstance(content, dict) else None
        if found != FORMAT:
            raise ArgumentError("content", f"not a vocabulary: expected format {FORMAT!r}, got {found!r}")
        if content.get("kind") != cls.kind:
            raise ArgumentError("content", f"expected kind {cls.kind!r}, got {content.get('kind')!r}")
        try:
            if not isinstance(content["lowercase"], bool):
                raise TypeError("lowercase is neither true nor false")
            return cls._from_content(content, content["lowercase"], tuple(content["specials"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ArgumentError("content", f"not a whole vocabulary: {error!r}") from error

    def save(self, path: str | os.PathLike) -> None:
        """Write ``to_json`` to a file, as a whole or not at all."""
        text = json.dumps(self.to_json(), ensure_ascii=False, separators=(",", ":"))
        write_atomically(path, lambda part: _write(part, text))

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of the contents: vocabularies that are equal have the same."""
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
    def _special_names(cls, own: Sequence[str]) -> tuple[str, ...]:
        """All names in the order of their ids; wrong ones are refused."""
        if isinstance(own, str):
            raise DtypeError(
                "specials", f"expected a list of names, got the text {own!r}", f"write [{own!r}]"
            )
        names = ("<pad>", "<bos>", "<eos>", "<unk>")[: cls._fixed()] + tuple(own)
        for name in own:
            if not isinstance(name, str) or not name:
                raise ArgumentError("specials", f"expected names, got {name!r}")
            if names.count(name) > 1:
                raise ArgumentError("specials", f"{name!r} is there twice (of {', '.join(names)})")
        return names

    def _checked(self, ids: Iterable[int]) -> list[int]:
        """The ids as ints; lists, arrays and tensors will do."""
        tolist = getattr(ids, "tolist", None)  # of an array or tensor: far quicker than one by one
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
    """Each text checked and, if asked for, in lower case."""
    if isinstance(texts, str):
        raise DtypeError("texts", "expected many texts, got one", "put it in a list: [text]")
    return (_prepared(text, lowercase) for text in texts)


def _prepared(text: str, lowercase: bool) -> str:
    """Refuse what UTF-8 cannot say, and lower the case without moving any character."""
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
    # A few letters grow when lowered (İ becomes two characters): they stay, so that spans fit the text.
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)


def _whole(argument: str, value: object) -> int:
    try:
        return operator.index(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        raise DtypeError(argument, f"expected a whole number, got {value!r}") from None


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
