"""The vocabulary of a pretrained model, with the package ``tokenizers``."""

from __future__ import annotations

import functools
import json
import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from regard._tokens import byte_of_letters
from regard.errors import ArgumentError, FileError, UnknownNameError
from regard.text.base_vocabulary import Vocabulary, all_prepared
from regard.text.framing import Framing
from regard.text.language_tokenizers import gguf_tokenizer, huggingface_tokenizer, llama2c_tokenizer
from regard.text.tokenizer_files import Names, from_text, read_tokenizer

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

__all__ = ["PretrainedVocabulary"]


class PretrainedVocabulary(Vocabulary):
    """The vocabulary of a pretrained model such as BERT or Llama, with the ids of that model.

    In an encoder, ``bos`` and ``eos`` are the ids of [CLS] and [SEP], or of <s> and </s>. ``framing`` puts them around
    a text. In a language model, ``eos`` ends a text, and ``framing.start`` is the token before every text, or None.
    ``mask`` and ``unk`` are None if the model has no such token. As in Hugging Face's tokenizers, the name of a special
    token in a text, such as "[MASK]", is encoded to that token. Texts are not truncated. ``specials`` is empty, because
    special tokens do not have the first ids.

    ``names`` are the tokens of "pad", "unk" and "mask", as far as the model has them. Those of a language model also
    have "eos", and perhaps "bos" and "start". ``size`` is the number of ids of the model, which may be more than the
    tokenizer has. The constructor raises ValueError if it is less.
    """

    kind: ClassVar[str] = "pretrained"

    def __init__(self, tokenizer: Tokenizer, names: Names, *, size: int | None = None):
        super().__init__()
        self._tokenizer, self._names = tokenizer, names
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # Special tokens have ids between the others.
        self.specials, self._ordinary_from = (), 0
        last = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
        self._size = last + 1 if size is None else size
        if last >= self._size:
            told = f"the tokenizer has ids up to {last}, but the model has {self._size} tokens"
            raise ValueError(f"{told}: it belongs to another model")
        ids = {name: tokenizer.token_to_id(token) for name, token in names.items()}
        self._mask, self.unk = ids.get("mask"), ids.get("unk")
        end = ids.get("eos")
        if end is not None:
            pad = ids.get("pad")
            self._framing = Framing(ids.get("start"), end, end if pad is None else pad, between=(end,))
        else:
            self._framing = _framing_of(tokenizer, ids.get("pad") or 0)
        self.pad, self.eos = self._framing.pad, self._framing.end
        first = self._framing.start if ids.get("bos") is None else ids["bos"]
        self.bos = self.eos if first is None else first

    @classmethod
    def from_folder(cls, folder: str | os.PathLike, *, size: int | None = None) -> Self:
        """Read the tokenizer of a Hugging Face folder.

        It is ``tokenizer.json``, the ``vocab.txt`` of BERT, or the ``vocab.json`` and ``merges.txt`` of RoBERTa.
        ``size`` is the number of ids of the model, by default that of the tokenizer. Raises FileError if there is no
        such file, or if it does not fit.
        """
        tokenizer, names = read_tokenizer(Path(folder))
        return cls._fitting(tokenizer, names, size, str(folder))

    @classmethod
    def of_language_model(cls, folder: str | os.PathLike, *, size: int | None = None) -> Self:
        """Read the tokenizer of the Hugging Face folder of a language model such as Llama or GPT-2.

        ``size`` is the number of ids of the model. A tokenizer with more ids, or with less than half of them, belongs
        to another model and raises FileError.
        """
        tokenizer, names = huggingface_tokenizer(Path(folder))
        return cls._fitting(tokenizer, names, size, str(folder), least=(size or 0) // 2)

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any], where: str, *, size: int | None = None) -> Self:
        """Read the tokenizer in the metadata of a GGUF file, whose path is ``where``.

        ``size`` is the number of ids of the model. A tokenizer with another number raises FileError.
        """
        tokenizer, names = gguf_tokenizer(metadata, where)
        return cls._fitting(tokenizer, names, size, where, least=size or 0)

    @classmethod
    def from_llama2c(cls, path: str | os.PathLike, *, size: int) -> Self:
        """Read the ``tokenizer.bin`` of llama2.c that belongs to a model with ``size`` tokens."""
        tokenizer, names = llama2c_tokenizer(Path(path), size)
        return cls._fitting(tokenizer, names, size, str(path))

    @classmethod
    def _fitting(
        cls, tokenizer: Tokenizer, names: Names, size: int | None, where: str, least: int = 0
    ) -> Self:
        """Return the vocabulary, or raise FileError if the model has fewer ids or the tokenizer less than ``least``."""
        count = tokenizer.get_vocab_size()
        if count < least:
            told = f"the tokenizer has {count:,} tokens, but the model has {size:,}"
            raise FileError(f"{where}: {told}: it belongs to another model")
        try:
            return cls(tokenizer, names, size=size)
        except ValueError as error:
            raise FileError(f"{where}: {error}") from None

    def shortened(self, size: int) -> tuple[Self, list[int]]:
        """Return a vocabulary of at most ``size`` pieces of this one, and the old id of each of its ids.

        It is for WordPiece vocabularies such as BERT's, whose ids go from frequent to rare words. Other kinds raise
        ArgumentError. The special tokens and the pieces of one ASCII character are always kept, so that longer words
        are cut into pieces of them. The rest are the most frequent ASCII pieces. The pieces keep their order.
        """
        spec = json.loads(self._tokenizer.to_str())
        if spec["model"].get("type") != "WordPiece":
            raise ArgumentError("vocabulary", "only a WordPiece vocabulary can be shortened")
        vocabulary: dict[str, int] = spec["model"]["vocab"]
        special = {token["content"] for token in spec["added_tokens"]} | set(self._names.values())
        by_id = sorted(vocabulary, key=lambda token: vocabulary[token])
        words = [token for token in by_id if not token.startswith("[unused")]
        always = [t for t in words if t in special or (len(t.removeprefix("##")) == 1 and t.isascii())]
        others = [t for t in words if t not in set(always) and t.removeprefix("##").isascii()]
        if size <= len(always):
            raise ArgumentError(
                "size", f"expected more than the {len(always)} pieces that are always kept, got {size}"
            )
        kept = sorted([*always, *others[: size - len(always)]], key=lambda token: vocabulary[token])
        numbers = {token: number for number, token in enumerate(kept)}
        spec["model"]["vocab"] = numbers
        for token in spec["added_tokens"]:
            token["id"] = numbers[token["content"]]
        for token in spec["post_processor"].get("special_tokens", {}).values():
            token["ids"] = [numbers[content] for content in token["tokens"]]
        for end in ("sep", "cls"):
            if end in spec["post_processor"]:
                name = spec["post_processor"][end][0]
                spec["post_processor"][end] = [name, numbers[name]]
        short = type(self)(from_text(json.dumps(spec)), self._names, size=len(kept))
        return short, [vocabulary[token] for token in kept]

    def __len__(self) -> int:
        return self._size

    @property
    def mask(self) -> int | None:
        """The id of the token that stands for a hidden one, or None if the model has none."""
        return self._mask

    @property
    def names(self) -> Names:
        """The special tokens of the model by their roles, such as "eos"."""
        return dict(self._names)

    @property
    def framing(self) -> Framing:
        """The special tokens around a text or a pair of texts."""
        return self._framing

    def special(self, name: str) -> int:
        """Return the id of a special or added token by its name, or raise UnknownNameError."""
        added = {
            token.content: number for number, token in self._tokenizer.get_added_tokens_decoder().items()
        }
        if name not in added:
            raise UnknownNameError("name", name, added)
        return added[name]

    def special_ids(self) -> list[int]:
        """Return the ids of all special tokens in ascending order."""
        added = self._tokenizer.get_added_tokens_decoder()
        return sorted(number for number, token in added.items() if token.special)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids before the first ``eos``, without special tokens."""
        numbers = self._checked(ids)
        if self.eos in numbers:
            numbers = numbers[: numbers.index(self.eos)]
        return self._tokenizer.decode(numbers, skip_special_tokens=True)

    def decode_with_specials(self, ids: Iterable[int]) -> str:
        """Return the text of all ids, with the names of special tokens such as "[SEP]"."""
        return self._tokenizer.decode(self._checked(ids), skip_special_tokens=False)

    def decode_without_specials(self, ids: Iterable[int]) -> str:
        """Return the text of all ids that are not special tokens."""
        return self._tokenizer.decode(self._checked(ids), skip_special_tokens=True)

    def id_of(self, token: str) -> int | None:
        """Return the id of a token by its spelling in the vocabulary, such as "##ing", or None if there is none."""
        return self._tokenizer.token_to_id(token)

    def word_spans(self, text: str) -> list[tuple[int, int]]:
        """Return for each token of ``encode(text)`` the character span (start, end) of the whole word it is part of.

        Words are those into which the tokenizer cuts a text before it cuts words into pieces.
        """
        encoding, spans = self._encoding(text), self.spans(text)
        ends: dict[int | None, tuple[int, int]] = {}
        for word, (start, end) in zip(encoding.word_ids, spans, strict=True):
            first, last = ends.get(word, (start, end))
            ends[word] = (min(first, start), max(last, end))
        # A token outside of all words, such as a special one, is a word of its own.
        words = zip(encoding.word_ids, spans, strict=True)
        return [span if word is None else ends[word] for word, span in words]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return a readable label for each id, which is its text or the name of the special token.

        An id that the tokenizer does not have shows its number, as in "[30600]".
        """
        return [self._piece(number) for number in self._checked(ids)]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, without bos and eos, computed in parallel on all cores."""
        prepared = list(all_prepared(texts, False))
        return [one.ids for one in self._tokenizer.encode_batch_fast(prepared, add_special_tokens=False)]

    def _encode(self, text: str) -> list[int]:
        return self._encoding(text).ids

    def _encoding(self, text: str) -> Encoding:
        return self._tokenizer.encode(text, add_special_tokens=False)

    def _join(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True)

    def _piece(self, number: int) -> str:
        token = self._tokenizer.id_to_token(number)
        if token is None:
            # An id of the model that the tokenizer lacks.
            return f"[{number}]"
        if number in self._tokenizer.get_added_tokens_decoder():
            return token
        if self._letters and all(letter in self._letters for letter in token):
            return bytes(self._letters[letter] for letter in token).decode(errors="backslashreplace")
        return token.removeprefix("##").replace("▁", " ")

    @functools.cached_property
    def _letters(self) -> dict[str, int]:
        """The byte that each character of a token stands for in a byte-level tokenizer, empty for other tokenizers."""
        decoder = json.loads(self._tokenizer.to_str()).get("decoder") or {}
        return byte_of_letters() if decoder.get("type") == "ByteLevel" else {}

    def _spans(self, text: str) -> list[tuple[int, int]]:
        spans: list[tuple[int, int]] = self._encoding(text).offsets
        return spans if text.isascii() else _with_accents(text, spans)

    @classmethod
    def _learn(cls, texts: Iterator[str], size: int, lowercase: bool, specials: tuple[str, ...]) -> Self:
        raise ArgumentError(
            "kind", "the vocabulary of a pretrained model is not trained", "read it from its folder"
        )

    def _content(self) -> dict[str, Any]:
        spec = json.loads(self._tokenizer.to_str())
        return {"tokenizer": spec, "names": self._names, "size": self._size}

    @classmethod
    def _from_content(cls, content: dict[str, Any], lowercase: bool, specials: tuple[str, ...]) -> Self:
        size, names = content["size"], content["names"]
        if not isinstance(size, int) or not all(isinstance(name, str) for name in names.values()):
            raise TypeError("size is not a number, or names are not names of tokens")
        return cls(from_text(json.dumps(content["tokenizer"])), names, size=size)


def _framing_of(tokenizer: Tokenizer, pad: int) -> Framing:
    """Find the special tokens that a tokenizer puts around a text and around a pair, by encoding a sample.

    Raises ValueError unless there is one before a text and one after it. ``pad`` is the id of padding.
    """
    sample = next(
        (text for text in ("a", "0", "的") if tokenizer.encode(text, add_special_tokens=False).ids), "a"
    )
    one, pair = tokenizer.encode(sample), tokenizer.encode(sample, sample)
    inner = [place for place, side in enumerate(one.sequence_ids) if side is not None]
    around = (inner[0], len(one.ids) - inner[-1] - 1) if inner else (0, 0)
    if around != (1, 1):
        told = f"the tokenizer puts {around[0]} special tokens before a text and {around[1]} after it"
        raise ValueError(f"{told}: expected one and one, such as [CLS] and [SEP]")
    first = [place for place, side in enumerate(pair.sequence_ids) if side == 0]
    second = [place for place, side in enumerate(pair.sequence_ids) if side == 1]
    between = tuple(pair.ids[first[-1] + 1 : second[0]])
    return Framing(one.ids[0], one.ids[-1], pad, between, pair.type_ids[second[0]])


def _with_accents(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans extended over the combining accents after them, which some tokenizers strip."""
    extended = []
    for start, end in spans:
        while start < end < len(text) and unicodedata.combining(text[end]):
            end += 1
        extended.append((start, end))
    return extended
