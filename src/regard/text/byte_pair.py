"""Byte-level byte-pair encoding, with the package ``tokenizers``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from regard._tokens import byte_of_letters
from regard.errors import ArgumentError, MissingExtraError
from regard.text.base_vocabulary import all_prepared
from regard.text.byte_level import ByteLevelVocabulary, ByteVocabulary, check_size

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["BytePairVocabulary"]

# With copyable pieces, a text is split before byte pairs are merged into English contractions, the word I, single
# digits, words with a capital, other words, and signs. Digits, words with a capital, and signs that begin a price or
# a number never include the space before them. Chinese characters are not merged with Latin letters.
_COPYABLE = (
    r"'(?:s|t|re|ve|m|ll|d)(?!\p{L})| I(?!\p{L})|\p{N}|[\p{Sc}#+(@]|\p{Lu}\p{Latin}*| ?(?!\p{Lu})\p{Latin}+"
    r"|\p{Han}+| ?(?:(?!\p{Latin}|\p{Han})\p{L})+| ?[^\s\p{L}\p{N}\p{Sc}#+(@]+|\s+"
)


class BytePairVocabulary(ByteLevelVocabulary):
    """A byte-level BPE vocabulary, in which frequent byte sequences are tokens.

    Rare words are split into several tokens, and no text is unknown. A token includes the space before its word, so
    decoding restores every text exactly (in lower case with ``lowercase``). :meth:`train` makes the ``tokenizer``,
    which knows no special tokens.

    With ``copyable`` in :meth:`train`, every digit is a token, and a word with a capital or a number has the same
    tokens wherever it stands, because the space before it is a token of its own. A model can then copy the word from
    a source to a target.

    >>> vocabulary = BytePairVocabulary.train(["low lower lowest"] * 9, 300)
    >>> vocabulary.pieces(vocabulary.encode("lower, slow"))
    ['low', 'e', 'r', ',', ' ', 's', 'low']
    >>> vocabulary = BytePairVocabulary.train(["Ann is 21, says Ann"] * 9, 300, copyable=True)
    >>> vocabulary.pieces(vocabulary.encode("Ann says 21, Ann"))
    ['Ann', ' says', ' ', '2', '1', ',', ' ', 'Ann']
    """

    kind: ClassVar[str] = "bpe"

    def __init__(self, tokenizer: Tokenizer, *, lowercase: bool = False, specials: Sequence[str] = ()):
        super().__init__(lowercase=lowercase, specials=specials)
        self._tokenizer = tokenizer
        self._bytes = _bytes_of(tokenizer)

    # The tokenizer does not know the special tokens. Its ids are shifted by their number, so no text can be
    # encoded to a special token.

    def _encode(self, text: str) -> list[int]:
        first = self._ordinary_from
        return [first + number for number in self._tokenizer.encode(text, add_special_tokens=False).ids]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, without bos and eos, computed in parallel on all cores."""
        first = self._ordinary_from
        prepared = list(all_prepared(texts, self.lowercase))
        encoded = self._tokenizer.encode_batch_fast(prepared, add_special_tokens=False)
        return [[first + number for number in encoding.ids] for encoding in encoded]

    @property
    def copyable(self) -> bool:
        """Whether digits and words with a capital have the same tokens wherever they stand."""
        return json.loads(self._tokenizer.to_str())["pre_tokenizer"]["type"] == "Sequence"

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        size: int,
        *,
        lowercase: bool = False,
        specials: Sequence[str] = (),
        copyable: bool = False,
    ) -> Self:
        """Train a vocabulary of at most ``size`` ids, including the special tokens.

        ``copyable`` is described in the class, and the other arguments in :meth:`Vocabulary.train`.
        """
        checked = cls._checked_training(texts, size, lowercase, specials)
        return cls._learn(*checked, copyable=copyable)

    @classmethod
    def _learn(
        cls,
        texts: Iterator[str],
        size: int,
        lowercase: bool,
        specials: tuple[str, ...],
        *,
        copyable: bool = False,
    ) -> Self:
        check_size(size, ByteVocabulary(specials=specials))
        tokenizers = _tokenizers()
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = _splitting(tokenizers, copyable)
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=size - len(cls._special_names(specials)),
            min_frequency=2,
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(_in_lists(texts), trainer)
        return cls(tokenizer, lowercase=lowercase, specials=specials)

    def _content(self) -> dict[str, Any]:
        return {"tokenizer": json.loads(self._tokenizer.to_str())}

    @classmethod
    def _from_content(cls, content: dict[str, Any], lowercase: bool, specials: tuple[str, ...]) -> Self:
        tokenizers = _tokenizers()
        spec = content["tokenizer"]
        # These components could change, truncate or pad the text.
        lossy = ("normalizer", "post_processor", "truncation", "padding")
        if any(spec.get(name) for name in (*lossy, "added_tokens")):
            raise ValueError("the tokenizer does more than byte-pair encoding")
        if spec["model"]["type"] != "BPE" or spec["model"].get("dropout"):
            raise ValueError("the tokenizer does not encode by byte pairs alone")
        _check_splitting(spec["pre_tokenizer"], tokenizers)
        try:
            tokenizer = tokenizers.Tokenizer.from_str(json.dumps(spec))
        except Exception as error:  # tokenizers raises plain Exception
            raise ValueError(str(error)) from error
        return cls(tokenizer, lowercase=lowercase, specials=specials)


def _tokenizers() -> Any:
    try:
        import tokenizers
        import tokenizers.models
        import tokenizers.pre_tokenizers
        import tokenizers.trainers
    except ImportError as error:
        raise MissingExtraError("tokenizers", "text", "byte-pair encoding") from error
    return tokenizers


def _splitting(tokenizers: Any, copyable: bool) -> Any:
    """Return the rule by which a text is split before byte pairs are merged."""
    if not copyable:
        return tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    words = tokenizers.pre_tokenizers.Split(tokenizers.Regex(_COPYABLE), behavior="isolated")
    letters = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return tokenizers.pre_tokenizers.Sequence([words, letters])


def _check_splitting(spec: dict[str, Any], tokenizers: Any) -> None:
    """Raise ValueError if a rule is not one of those that ``_splitting`` returns."""
    plain = spec["type"] == "ByteLevel" and not spec["add_prefix_space"]
    if not plain and spec != json.loads(_splitting(tokenizers, True).__getstate__()):
        raise ValueError("the tokenizer does not split at byte level")


def _in_lists(texts: Iterator[str], size: int = 1000) -> Iterator[list[str]]:
    """Yield the texts in lists of ``size``, which the trainer reads faster.

    Raises ArgumentError if there are no texts.
    """
    seen = False
    part: list[str] = []
    for text in texts:
        part.append(text)
        if len(part) == size:
            yield part
            seen, part = True, []
    if part:
        yield part
    elif not seen:
        raise ArgumentError("texts", "there is no text to learn from")


def _bytes_of(tokenizer: Tokenizer) -> list[bytes]:
    """Return the bytes of each token of a byte-level tokenizer, in the order of ids.

    Such a tokenizer represents every byte by one visible character. Raises ValueError if one of the 256 is missing.
    """
    byte_of = byte_of_letters()
    tokens = _by_id(tokenizer.get_vocab(with_added_tokens=False).items())
    if not set(byte_of) <= set(tokens):
        raise ValueError("some of the 256 bytes are missing")
    return [bytes([byte_of[sign] for sign in token]) for token in tokens]


def _by_id(items: Iterable[tuple[str, int]]) -> list[str]:
    ordered = sorted(items, key=lambda item: item[1])
    if [number for _, number in ordered] != list(range(len(ordered))):
        raise ValueError("the ids of the tokens have gaps")
    return [token for token, _ in ordered]
