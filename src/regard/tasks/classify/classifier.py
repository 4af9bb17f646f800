"""A classifier of texts, which is a model with its vocabulary and its labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch

from regard.analysis import join_words, merge_tokens, word_spans, words_of_tokens
from regard.errors import RegardError
from regard.maps import Record
from regard.models.config import check_positive
from regard.shapes import whole_number
from regard.tasks.bundle import Bundle, BundledPredictor, checked_texts
from regard.tasks.text_encoder import TextEncoder, without_line_breaks
from regard.text import ClassLabels, Vocabulary
from regard.training.batch_progress import with_progress

if TYPE_CHECKING:
    from regard.capture import Recording

__all__ = ["Classification", "Classifier", "TextWeights"]

BATCH = 64  # texts that are classified together
# Texts that are sorted by length, so that those of a batch need little padding.
TOGETHER = 1024
# Tokens that are read, where the model does not say how many it was trained on.
LONGEST = 128


@dataclass(frozen=True)
class Classification:
    """The label of a text, with the probability of each label.

    >>> Classification("Who is it", "question", {"question": 0.9, "statement": 0.1}, []).sure
    0.9
    """

    source: str
    label: str
    probabilities: dict[str, float]
    token_ids: list[int]
    # Whether the model did not read all of a long text.
    cut_off: bool = False

    @property
    def sure(self) -> float:
        """The probability of the label."""
        return self.probabilities[self.label]

    def lines(self, *, scores: bool = False) -> list[str]:
        """Return the label and its probability, or all labels with their probabilities."""
        shown = self.probabilities.items() if scores else [(self.label, self.sure)]
        return [f"{label}\t{share:.3f}" for label, share in shown]

    def to_json(self, attention: Sequence[TextWeights] | None = None) -> dict[str, Any]:
        """Return the text, its label and all probabilities as a JSON object."""
        shares = {label: round(share, 4) for label, share in self.probabilities.items()}
        values: dict[str, Any] = {"source": self.source, "label": self.label, "probabilities": shares}
        values["cut_off"] = self.cut_off
        return values if not attention else values | attention[0].to_json()


@dataclass(frozen=True)
class TextWeights:
    """The attention of the pooling to the words of a text, in one row for each head.

    ``spans`` are the (start, end) characters of the words that the model read, and ``unread`` the part of ``text``
    that it did not read.
    """

    row_words: list[str]
    column_words: list[str]
    weights: np.ndarray  # (heads, words)
    text: str = ""
    spans: tuple[tuple[int, int], ...] = ()
    unread: tuple[int, int] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the words and the weights as a JSON object."""
        rows = [[round(float(weight), 4) for weight in row] for row in self.weights]
        return {"words": self.column_words, "attention": rows}


class Classifier(BundledPredictor):
    """A model with its vocabulary and its labels, which classifies texts.

    ``Classifier.load("sentiment-en")`` loads a trained model, and ``classify(texts)`` returns the labels in order.
    ``extra`` are its further settings: ``max_tokens`` and ``cut`` of long texts, and the ``temperature`` that the
    logits are divided by.
    """

    task: ClassVar[str] = "classify"

    def __init__(
        self, model: Any, vocabulary: Vocabulary, labels: ClassLabels, extra: dict[str, Any] | None = None
    ):
        self.model, self.vocabulary, self.labels = model, vocabulary, labels
        self.extra = extra or {}
        longest, cut = self.extra.get("max_tokens", LONGEST), self.extra.get("cut", "end")
        self.encoder = TextEncoder(vocabulary, longest, cut)

    def classify(self, texts: Iterable[str], *, batch_size: int | None = None) -> list[Classification]:
        """Classify texts, and return the classifications in their order.

        The model reads as many tokens of a long text as it was trained on.
        """
        texts = checked_texts(texts)
        found: list[Classification] = []
        chunks = [texts[start : start + TOGETHER] for start in range(0, len(texts), TOGETHER)]
        for some in with_progress(chunks, len(texts)):
            encoded = self.encoder.encode(some)
            logits = self.logits([ids for ids, _ in encoded], batch_size=batch_size)  # (b,classes)
            shares = (logits / self.temperature).softmax(dim=-1).tolist()
            for text, (ids, cut), row in zip(some, encoded, shares, strict=True):
                by_label = dict(sorted(zip(self.labels.names, row, strict=True), key=lambda item: -item[1]))
                found.append(Classification(text, next(iter(by_label)), by_label, ids, cut))
        return found

    __call__ = classify

    @torch.no_grad()
    def logits(self, ids: Sequence[list[int]], *, batch_size: int | None = None) -> torch.Tensor:
        """Return the logits ``(b,classes)`` of encoded texts, computed in batches of similar length."""
        size = BATCH if batch_size is None else whole_number("batch_size", batch_size, least=1)
        self.model.eval()
        order = sorted(range(len(ids)), key=lambda place: len(ids[place]))
        logits = torch.empty(len(ids), len(self.labels))
        for start in range(0, len(order), size):
            places = order[start : start + size]
            logits[places] = self._run([ids[place] for place in places]).float().cpu()
        return logits

    def _run(self, ids: list[list[int]], records: list[Record] | None = None) -> torch.Tensor:
        framing = self.encoder.framing
        tokens, _, lengths = framing.pad_batch([framing.frame(one) for one in ids])  # (b,n), (b,)
        return self.model(tokens.to(self.device), lengths.to(self.device), records=records)  # (b,classes)

    def knows_no_word(self, prediction: Classification) -> bool:
        """Whether no token of the text is in the vocabulary, as in an empty text."""
        return set(prediction.token_ids) <= {self.vocabulary.unk}

    @property
    def temperature(self) -> float:
        """The number that the logits are divided by, so that the probabilities are those of being right."""
        return float(self.extra.get("temperature", 1.0))

    @property
    def attends(self) -> bool:
        """Whether the pooling or the encoder below it has attention."""
        return self._pools_by_attention or self.model.config.layers > 0

    @property
    def _pools_by_attention(self) -> bool:
        return self.model.config.pooling in ("additive", "multihead")

    @torch.no_grad()
    def attention(self, prediction: Classification) -> Recording:
        """Return all attention of the model for one text, as :func:`regard.capture` records it."""
        from regard.capture import Recording

        records: list[Record] = []
        self.model.eval()
        self._run([prediction.token_ids], records)
        framing = self.encoder.framing
        pieces = [prediction.source[a:b] for a, b in self.encoder.spans(prediction.source)]
        tokens = [*["<s>"] * (framing.start is not None), *pieces, "</s>"]
        rows = {"cross": [prediction.label]}
        return Recording(
            [replace(one, query_tokens=[rows.get(one.kind, tokens)], key_tokens=[tokens]) for one in records]
        )

    def word_weights(self, prediction: Classification) -> list[TextWeights]:
        """Return the attention of the pooling to the words of a text, summed over the tokens of each word.

        Several words that the model read as one token, as in Chinese, are one word.
        """
        if not prediction.token_ids:
            return []
        text, record = without_line_breaks(prediction.source), self.attention(prediction)[-1]
        first = int(self.encoder.framing.start is not None)
        spans = self.encoder.spans(text)
        weights = self._pooled(record)[:, first : first + len(spans)]  # (h,n)
        words = join_words(word_spans(text), spans)
        shares = words_of_tokens(spans, words)  # (words,tokens)
        read = shares.sum(axis=1) > 0
        words = [span for span, is_read in zip(words, read, strict=True) if is_read]
        heads = len(weights)
        merged = merge_tokens(weights, np.eye(heads), shares[read])  # (h,words)
        names = [prediction.label] if heads == 1 else [f"head {head}" for head in range(heads)]
        columns, unread = (
            [text[a:b] for a, b in words],
            _gap(spans, len(text)) if prediction.cut_off else None,
        )
        return [TextWeights(names, columns, merged, prediction.source, tuple(words), unread)]

    def _pooled(self, record: Record) -> np.ndarray:
        """Return the weights ``(h,k)`` of the vector that is classified, from the last record of the model.

        Without attention in the pooling, they are those of the last layer of the encoder. A pooling that takes the
        first token has the weights of that token. A mean of all tokens has the mean of their weights.
        """
        weights = record.map.weights()[0].double().cpu().numpy()  # (h,q,k)
        averaged = not self._pools_by_attention and self.model.config.pooling == "mean"
        return weights.mean(axis=1) if averaged else weights[:, 0]

    def vocabularies(self) -> dict[str, Vocabulary]:
        """Return the vocabulary to save."""
        return {"tokenizer": self.vocabulary}

    def saved_settings(self) -> dict[str, Any]:
        """Return the labels and the further settings of the model."""
        aliases = {"label_aliases": self.labels.aliases} if self.labels.aliases else {}
        return {**self.extra, "labels": self.labels.names, **aliases}

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Self:
        """Make a classifier from a saved model, or raise FileError if its settings do not fit together."""
        settings, network = bundle.settings, bundle.model()
        labels = ClassLabels.checked(settings, str(bundle.folder / "config.json"))
        vocabulary = bundle.vocabulary("tokenizer")
        for name, size in (("classes", len(labels)), ("vocabulary_size", len(vocabulary))):
            if getattr(network.config, name, None) != size:
                raise bundle.reject(f"{name} is not {size}, as the labels and the vocabulary beside it say")
        try:
            check_positive("temperature", settings.get("temperature", 1.0))
            return cls(network, vocabulary, labels, settings)
        except RegardError as error:
            raise bundle.reject(str(error)) from None


def _gap(spans: list[tuple[int, int]], end: int) -> tuple[int, int]:
    """Return the largest part of a text of ``end`` characters that no token covers."""
    stops = [stop for _, stop in spans]
    starts = [*(start for start, _ in spans[1:]), end]
    return max(zip(stops, starts, strict=True), key=lambda gap: gap[1] - gap[0])
