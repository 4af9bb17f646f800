"""Models with their vocabularies, from Hugging Face folders or runs of Regard, for the pipelines."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch

from regard.errors import ArgumentError, DtypeError, UnknownArgumentError
from regard.files import read_json
from regard.maps import Record
from regard.models import Encoder, HuggingFaceFolder
from regard.pipelines.tokenizer import Tokenizer
from regard.shapes import as_device, whole_number
from regard.text import PretrainedVocabulary, Vocabulary

if TYPE_CHECKING:
    from regard.capture import Recording
    from regard.tasks.encode import SentenceEncoder
    from regard.text import Framed

__all__ = ["FRAMING_OPTIONS", "TextNetwork", "tokenizer_options", "too_long", "truncation_of"]

BATCH = 8  # texts that a model reads together
TOKENIZER_OPTIONS = ("truncation", "max_length", "padding")
FRAMING_OPTIONS = (*TOKENIZER_OPTIONS, "batch_size")
_TRUNCATIONS = (True, False, "longest_first", "do_not_truncate")


@dataclass(frozen=True)
class TextNetwork:
    """A model of :mod:`regard.models` with its vocabulary.

    ``longest`` is the number of tokens that the model can read, with the special tokens. ``settings`` are those of the
    folder, and ``labels`` the names of its classes. ``cleans`` says whether spaces before
    punctuation marks are removed from decoded texts.
    """

    model: Any
    vocabulary: Vocabulary
    longest: int
    settings: dict[str, Any]
    labels: list[str]
    cleans: bool = False

    @classmethod
    def from_huggingface(
        cls, folder: Path, kind: type, device: str | None = None, tokenizer: Path | None = None
    ) -> Self:
        """Read a Hugging Face folder into a model of the class ``kind``.

        ``tokenizer`` is the folder with the files of the tokenizer, by default that of the model.
        """
        words = tokenizer or folder
        source = HuggingFaceFolder(folder)
        model = source.load(kind).to(as_device(device or ("cuda" if torch.cuda.is_available() else "cpu")))
        config = source.encoder_config()
        vocabulary = PretrainedVocabulary.from_folder(words, size=config.vocabulary_size)
        path = words / "tokenizer_config.json"
        cleans = not path.is_file() or bool(read_json(path).get("clean_up_tokenization_spaces", True))
        return cls(model.eval(), vocabulary, config.max_length, source.settings, source.labels, cleans)

    @classmethod
    def from_encoder(cls, predictor: SentenceEncoder, kind: type) -> Self:
        """Use a model of ``regard train encode`` as a model of the class ``kind``."""
        model = predictor.encoder if kind is Encoder else predictor.model
        if not isinstance(model, kind):
            fix = "give one of `regard train encode`, or a BERT with its output for masked words"
            raise ArgumentError("model", "the model has no output for masked words", fix)
        return cls(model.eval(), predictor.vocabulary, predictor.longest, {}, [])

    @property
    def tokenizer(self) -> Tokenizer:
        """The special tokens, by the names of Transformers."""
        return Tokenizer.of(self.vocabulary, longest=self.longest)

    def frame(self, first: Any, second: Any = None, options: dict[str, Any] | None = None) -> Framed:
        """Return the ids of a text or of a pair of texts between special tokens.

        The texts may be given as ids. The options ``truncation`` and ``max_length`` are those of a tokenizer of
        Transformers.
        """
        options = options or {}
        most = options.get("max_length")
        most = self.longest if most is None else min(whole_number("max_length", most, least=3), self.longest)
        cut = bool(truncation_of(options))
        parts = [self._ids(part) if isinstance(part, str) else part for part in (first, second)]
        framed = self.vocabulary.framing.frame(*parts, most=most if cut else None)
        if len(framed.ids) > self.longest:
            raise too_long(len(framed.ids), self.longest)
        return framed

    def _ids(self, text: str) -> list[int]:
        """Encode a text, in which the name of the mask becomes the id of the mask."""
        vocabulary = self.vocabulary
        if isinstance(vocabulary, PretrainedVocabulary) or vocabulary.mask is None:
            return vocabulary.encode(text)
        first, *others = text.split(self.mask_name)
        ids = vocabulary.encode(first)
        for part in others:
            ids += [vocabulary.mask, *vocabulary.encode(part)]
        return ids

    @property
    def mask_name(self) -> str:
        """The name of the mask in a text, such as "[MASK]", or "" if the vocabulary has none."""
        mask = self.vocabulary.mask
        return "" if mask is None else self.vocabulary.pieces([mask])[0]

    def id_of(self, word: str) -> int | None:
        """Return the id of a word, or None if it is not a single token."""
        if isinstance(self.vocabulary, PretrainedVocabulary):
            return self.vocabulary.id_of(word)
        ids = self.vocabulary.encode(word)
        return ids[0] if len(ids) == 1 else None

    def token_spans(self, text: str, *, words: bool) -> list[tuple[int, int]]:
        """Return the character span of each token of a text, or of the whole word of each token."""
        return self.vocabulary.word_spans(text) if words else self.vocabulary.spans(text)

    def text_of(self, ids: Sequence[int], *, specials: bool = True) -> str:
        """Return the text of ids, with or without the names of special tokens."""
        vocabulary = self.vocabulary
        if isinstance(vocabulary, PretrainedVocabulary):
            read = vocabulary.decode_with_specials if specials else vocabulary.decode_without_specials
            text = read(ids)
            return without_spaces(text) if self.cleans else text
        parts: list[str] = []
        for special, group in itertools.groupby(ids, key=lambda number: number < len(vocabulary.specials)):
            numbers = list(group)
            if not special:
                parts.append(vocabulary.decode(numbers).strip())
            elif specials:
                parts += vocabulary.pieces(numbers)
        return " ".join(parts)

    @torch.no_grad()
    def outputs(self, framed: Sequence[Framed], batch_size: int | None = None) -> Iterator[Any]:
        """Yield the output of the model for each framed text, without padding."""
        size = BATCH if batch_size is None else whole_number("batch_size", batch_size, least=1)
        for start in range(0, len(framed), size):
            some = framed[start : start + size]
            output = self._forward(some)
            for row, one in enumerate(some):
                yield _row(output, row, len(one.ids))

    def _forward(self, framed: Sequence[Framed], records: list[Record] | None = None) -> Any:
        device = next(self.model.parameters()).device
        tokens, kinds, lengths = (
            part.to(device) for part in self.vocabulary.framing.pad_batch(list(framed))
        )  # (b,n), (b,n), (b,)
        given = {"types": kinds} if self.model.config.token_types > 1 else {}
        return self.model(tokens, lengths, records=records, **given)

    @torch.no_grad()
    def recording(self, framed: Framed) -> Recording:
        """Return the attention of the model for one framed text."""
        from regard.capture import Recording

        records: list[Record] = []
        self._forward([framed], records)
        tokens = [self.vocabulary.pieces(framed.ids)]
        return Recording([replace(one, query_tokens=tokens, key_tokens=tokens) for one in records])


def truncation_of(options: dict[str, Any]) -> bool | None:
    """Return whether the options of a call ask to cut long texts off, or None if they do not say it.

    As in Transformers, a length alone asks for truncation.

    >>> truncation_of({"max_length": 5}), truncation_of({"truncation": "do_not_truncate"}), truncation_of({})
    (True, False, None)
    """
    truncation = options.get("truncation")
    if truncation is None:
        return True if options.get("max_length") is not None else None
    if truncation not in _TRUNCATIONS:
        problem = f"expected True, False, 'longest_first' or 'do_not_truncate', got {truncation!r}"
        raise ArgumentError("truncation", problem)
    return truncation not in (False, "do_not_truncate")


def too_long(tokens: int, longest: int) -> ArgumentError:
    """Return the error for a text with more tokens than the model reads."""
    problem = f"a text has {tokens:,} tokens, and the model reads {longest:,}"
    return ArgumentError("inputs", problem, "use truncation=True to read only the beginning")


def tokenizer_options(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the tokenizer options in an option of a pipeline, or raise UnknownArgumentError for an unknown one."""
    given = options.get(name) or {}
    if not isinstance(given, dict):
        raise DtypeError(name, f"expected a dict, got {given!r}")
    for key in given:
        if key not in TOKENIZER_OPTIONS:
            fix = f"known are {', '.join(TOKENIZER_OPTIONS)}"
            raise UnknownArgumentError(name, f"{key} is not an option of the tokenizer", fix)
    return given


def without_spaces(text: str) -> str:
    """Remove the spaces that tokenization leaves before marks and contractions, as Transformers 4 did.

    >>> without_spaces("it does n't matter , is n't it ?")
    "it doesn't matter, isn't it?"
    """
    for mark in (".", "?", "!", ","):
        text = text.replace(f" {mark}", mark)
    text = text.replace(" ' ", "'")
    for ending in ("n't", "'m", "'s", "'ve", "'re"):
        text = text.replace(f" {ending}", ending)
    return text


def _row(output: Any, row: int, length: int) -> Any:
    """Return the output of one text of a batch, where states (b,n,m) and pairs of (b,n) lose their padding."""
    if isinstance(output, tuple):
        return tuple(part[row, :length] for part in output)
    return output[row, :length] if output.ndim == 3 else output[row]
