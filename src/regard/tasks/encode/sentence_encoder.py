"""An encoder of sentences, which is a model with its vocabulary and a pooling."""

from __future__ import annotations

import heapq
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from regard.analysis import join_words, merge_tokens, word_spans, words_of_tokens
from regard.errors import ArgumentError, FileError
from regard.files import write_atomically
from regard.maps import Record
from regard.models import Encoder, HuggingFaceFolder, MaskedLanguageModel
from regard.models.pretrained import CONFIG
from regard.shapes import as_device, whole_number
from regard.tasks.bundle import Bundle, BundledPredictor, checked_texts, load_bundle
from regard.tasks.encode.sentence_pooling import SentencePooling, pooling_of_folder
from regard.tasks.encode.vectors import SentenceVector, SimilarText, WordAttention
from regard.tasks.minilm import MINILM, minilm_folder
from regard.tasks.registry import find_model
from regard.text import Framed, PretrainedVocabulary, Vocabulary

if TYPE_CHECKING:
    from regard.capture import Recording

__all__ = ["SentenceEncoder"]

_Item = TypeVar("_Item")
UNIGRAMS = "unigrams.safetensors"
BATCH = 32  # texts that are encoded together
# Texts that are sorted by length, to be encoded with little padding.
LINES = 1024


class SentenceEncoder(BundledPredictor):
    """A model with its vocabulary, which gives one vector for each text.

    ``SentenceEncoder.load("minilm")`` loads MiniLM if its package is installed. ``load`` also takes the folder of a
    BERT, RoBERTa or DistilBERT of Hugging Face, and a model or a run of ``regard train encode``. ``model`` is an
    :class:`regard.models.Encoder`, or a :class:`regard.models.MaskedLanguageModel`, whose encoder is used.
    """

    task: ClassVar[str] = "encode"

    def __init__(
        self,
        model: Encoder | MaskedLanguageModel,
        vocabulary: Vocabulary,
        pooling: SentencePooling | None = None,
        extra: dict[str, Any] | None = None,
        unigrams: np.ndarray | None = None,
    ):
        self.model, self.vocabulary = model, vocabulary
        self.pooling = pooling or SentencePooling()
        self.extra = extra or {}
        self.unigrams = unigrams  # (vocabulary,), how often each token was trained on

    @classmethod
    def load(cls, model: str | os.PathLike = MINILM, *, device: str | None = None) -> Self:
        """Load a model by its name, or from a folder of Regard or of Hugging Face.

        ``device`` is by default a GPU where there is one.
        """
        folder = Path(model)
        if not (folder / CONFIG).is_file() and str(model) == MINILM:
            folder = minilm_folder("model")
        else:
            folder = find_model(cls.task, model)
        predictor = cls.from_huggingface(folder) if _is_huggingface(folder) else None
        if predictor is None:
            predictor = cls.from_bundle(load_bundle(folder, cls.task))
        predictor.model.to(as_device(device or ("cuda" if torch.cuda.is_available() else "cpu")))
        return predictor

    @classmethod
    def from_huggingface(cls, folder: str | os.PathLike) -> Self:
        """Load the folder of a BERT, RoBERTa or DistilBERT, with the pooling that its files name."""
        encoder = HuggingFaceFolder(folder).load(Encoder)
        vocabulary = PretrainedVocabulary.from_folder(folder, size=encoder.config.vocabulary_size)
        return cls(encoder, vocabulary, pooling_of_folder(Path(folder)))

    @property
    def encoder(self) -> Encoder:
        """The encoder of the model."""
        return self.model if isinstance(self.model, Encoder) else self.model.encoder

    @property
    def longest(self) -> int:
        """The number of tokens that are read of a text, with special tokens."""
        config = self.encoder.config
        limit = config.max_length if config.positions == "learned" else None
        limits = [most for most in (self.pooling.most, limit) if most is not None]
        return min(limits) if limits else config.max_length

    @torch.no_grad()
    def encode(self, texts: Iterable[str], *, batch_size: int | None = None) -> list[SentenceVector]:
        """Return the vector of each text, in order.

        Of a text with more than :attr:`longest` tokens the beginning is read.
        """
        texts = checked_texts(texts)
        size = BATCH if batch_size is None else whole_number("batch_size", batch_size, least=1)
        self.model.eval()
        framing = self.vocabulary.framing
        framed = [framing.frame(ids, most=self.longest) for ids in self.vocabulary.encode_batch(texts)]
        order = sorted(range(len(texts)), key=lambda place: len(framed[place].ids))
        found: dict[int, SentenceVector] = {}
        for places in _groups(order, size):
            inputs = [framed[place] for place in places]
            tokens, _, lengths = (part.to(self.device) for part in framing.pad_batch(inputs))
            vectors = self.pooling(self.encoder(tokens, lengths), lengths).tolist()  # (b,m)
            for place, one, vector in zip(places, inputs, vectors, strict=True):
                ids = [one.ids[index] for index in one.first]
                found[place] = SentenceVector(texts[place], tuple(vector), ids, one.cut)
        return [found[place] for place in range(len(texts))]

    __call__ = encode

    def vectors(self, texts: Iterable[str], *, batch_size: int | None = None) -> np.ndarray:
        """Return the vectors of texts as one array (n, m) of float32."""
        rows = [one.values for one in self.encode(texts, batch_size=batch_size)]
        return np.array(rows, dtype=np.float32).reshape(len(rows), self.encoder.config.width)

    def similar(
        self, query: str, texts: Iterable[str], *, top: int = 5, batch_size: int | None = None
    ) -> list[SimilarText]:
        """Return the texts that are nearest to a query by the cosine of their vectors, the nearest first.

        The texts may be any number, such as the lines of a large file. The ``top`` nearest are kept in memory. Empty
        texts are left out. Of equally near texts the first comes first. A warning says how many texts are longer than
        the model reads.
        """
        top = whole_number("top", top, least=1)
        if not query.strip():
            raise ArgumentError("query", "there is nothing to look for", "give a text")
        wanted = _directions(self.vectors([query]))[0]  # (m,)
        nearest: list[tuple[float, int, str]] = []  # a heap, the least near first
        for place, text, vector in self._all_vectors(texts, batch_size):
            entry = (float(vector @ wanted), -place, text)
            if len(nearest) < top:
                heapq.heappush(nearest, entry)
            else:
                heapq.heappushpop(nearest, entry)
        return [SimilarText(text, score, -place) for score, place, text in sorted(nearest, reverse=True)]

    def _all_vectors(
        self, texts: Iterable[str], batch_size: int | None
    ) -> Iterator[tuple[int, str, np.ndarray]]:
        """Yield the place, the text and the vector of length 1 of each text that is not empty."""
        kept = ((place, text) for place, text in enumerate(texts) if text.strip())
        count = cut = 0
        for some in _groups(kept, LINES):
            found = self.encode([text for _, text in some], batch_size=batch_size)
            count, cut = count + len(found), cut + sum(one.cut_off for one in found)
            vectors = _directions(np.stack([one.vector for one in found]))  # (n,m)
            for (place, text), vector in zip(some, vectors, strict=True):
                yield place, text, vector
        if cut:
            problem = (
                f"{cut} of {count} texts have more than {self.longest} tokens: their beginning was compared"
            )
            warnings.warn(problem, stacklevel=3)

    @torch.no_grad()
    def attention(self, prediction: SentenceVector) -> Recording:
        """Return all attention of the encoder for one text, as :func:`regard.capture` records it."""
        from regard.capture import Recording

        records: list[Record] = []
        self.model.eval()
        framed = self._framed(prediction)
        tokens, _, lengths = (part.to(self.device) for part in self.vocabulary.framing.pad_batch([framed]))
        self.encoder(tokens, lengths, records=records)
        labels = [self._labels(prediction, framed)]
        return Recording([replace(one, query_tokens=labels, key_tokens=labels) for one in records])

    def _framed(self, prediction: SentenceVector) -> Framed:
        return self.vocabulary.framing.frame(prediction.token_ids)

    def _labels(self, prediction: SentenceVector, framed: Framed) -> list[str]:
        """Return the text of each token, and the names of the special tokens."""
        labels = self.vocabulary.pieces(framed.ids)
        spans = self.vocabulary.spans(prediction.source)
        for place, (start, end) in zip(framed.first, spans, strict=False):
            labels[place] = prediction.source[start:end] or labels[place]
        return labels

    def word_weights(self, prediction: SentenceVector) -> list[WordAttention]:
        """Return the attention between the words of a text in the last layer, averaged over the heads.

        The weights of the tokens of a word are summed. Several words that are one token, as in Chinese, are one word.
        The rest of each row is attention to the special tokens.
        """
        if not prediction.token_ids:
            return []
        text, framed = prediction.source, self._framed(prediction)
        weights = self.attention(prediction)[-1].map.weights()[0].double().mean(dim=0).cpu().numpy()  # (n,n)
        inner = slice(framed.first.start, framed.first.stop)
        spans = self.vocabulary.spans(text)[: len(prediction.token_ids)]
        words = join_words([span for span in word_spans(text) if span[0] < spans[-1][1]], spans)
        of_words = words_of_tokens(spans, words)  # (words,tokens)
        merged = merge_tokens(weights[inner, inner], of_words, of_words)  # (words,words)
        names = [text[start:end] for start, end in words]
        return [WordAttention(names, names, merged)]

    @property
    def attends(self) -> bool:
        """Whether the model has attention to show."""
        return len(self.encoder.layers) > 0

    def vocabularies(self) -> dict[str, Vocabulary]:
        """Return the vocabulary to save."""
        return {"tokenizer": self.vocabulary}

    def saved_settings(self) -> dict[str, Any]:
        """Return the pooling and the further settings of the model."""
        return {**self.extra, **self.pooling.to_json()}

    def save(
        self, folder: str | os.PathLike, *, dtype: str = "float32", results: dict[str, Any] | None = None
    ) -> None:
        """Write model, vocabulary, settings and the frequencies of the tokens into ``folder``."""
        super().save(folder, dtype=dtype, results=results)
        path = Path(folder) / UNIGRAMS
        if self.unigrams is None:
            path.unlink(missing_ok=True)  # of a model that was here before
        else:
            counts = {"counts": np.ascontiguousarray(self.unigrams, dtype=np.int64)}
            write_atomically(path, lambda part: save_file(counts, part))

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Self:
        """Make an encoder from a saved model, or raise FileError if its settings do not fit together."""
        settings, network, vocabulary = bundle.settings, bundle.model(), bundle.vocabulary("tokenizer")
        if not isinstance(network, Encoder | MaskedLanguageModel):
            raise bundle.reject(f"the model is a {type(network).__name__}, not an encoder")
        if network.config.vocabulary_size != len(vocabulary):
            raise bundle.reject(f"vocabulary_size is not {len(vocabulary)}, as the vocabulary beside it says")
        try:
            most = settings.get("max_tokens")
            most = None if most is None else whole_number("max_tokens", most, least=3)
            pooling = SentencePooling(
                settings.get("pooling", "mean"), settings.get("normalize") is True, most
            )
        except ArgumentError as error:
            raise bundle.reject(str(error)) from None
        return cls(
            network, vocabulary, pooling, settings, _read_unigrams(bundle.folder / UNIGRAMS, len(vocabulary))
        )


def _read_unigrams(path: Path, size: int) -> np.ndarray | None:
    """Read the frequencies of the tokens, or return None if there are none."""
    if not path.is_file():
        return None
    try:
        counts = load_file(path)["counts"]
    except (OSError, KeyError, SafetensorError) as error:
        raise FileError(f"{path}: cut short or not a file of token frequencies ({error})") from None
    if counts.shape != (size,) or counts.dtype != np.int64 or (counts < 0).any():
        raise FileError(f"{path}: expected {size} whole numbers, got {counts.dtype} of shape {counts.shape}")
    return counts


def _groups(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Yield the items in lists of ``size``."""
    rest = iter(items)
    while group := list(islice(rest, size)):
        yield group


def _is_huggingface(folder: Path) -> bool:
    from regard.models.pretrained import read_config

    return "model_type" in read_config(folder)


def _directions(vectors: np.ndarray) -> np.ndarray:
    """Return vectors (n, m) divided by their lengths."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
