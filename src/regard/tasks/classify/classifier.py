"""A classifier of texts: a model with its vocabulary and its labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch

from regard.analysis import merge_tokens, word_spans, words_of_tokens
from regard.errors import ArgumentError
from regard.maps import Record
from regard.shapes import whole_number
from regard.tasks.bundle import Bundle, BundledPredictor
from regard.tasks.inputs import checked_texts
from regard.text import ClassLabels, Vocabulary, pad_sequences

if TYPE_CHECKING:
    from regard.capture import Recording

__all__ = ["Classification", "Classifier", "TextWeights"]

BATCH = 64  # texts that are classified together
LONGEST = 128  # tokens that are read, where the model does not say how many it was trained on


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
    cut_off: bool = False  # whether the model read the beginning of a long text only

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
    """The attention of the pooling to the words of a text, in one row for each head."""

    row_words: list[str]
    column_words: list[str]
    weights: np.ndarray  # (heads, words)

    def to_json(self) -> dict[str, Any]:
        """Return the words and the weights as a JSON object."""
        rows = [[round(float(weight), 4) for weight in row] for row in self.weights]
        return {"words": self.column_words, "attention": rows}


class Classifier(BundledPredictor):
    """A model with its vocabulary and its labels, which classifies texts.

    ``Classifier.load("runs/classify")`` loads a trained model, and ``classify(texts)`` returns the labels in order.
    """

    task: ClassVar[str] = "classify"

    def __init__(
        self, model: Any, vocabulary: Vocabulary, labels: ClassLabels, extra: dict[str, Any] | None = None
    ):
        self.model, self.vocabulary, self.labels = model, vocabulary, labels
        self.extra = extra or {}

    @torch.no_grad()
    def classify(self, texts: Iterable[str], *, batch_size: int | None = None) -> list[Classification]:
        """Classify texts, and return the classifications in their order.

        The model reads the first tokens of a long text, as many as it was trained on.
        """
        texts = checked_texts(texts)
        size = BATCH if batch_size is None else whole_number("batch_size", batch_size, least=1)
        self.model.eval()
        whole = self.vocabulary.encode_batch(texts)
        ids = [one[: self.longest] for one in whole]
        found: list[Classification] = []
        for start in range(0, len(texts), size):
            shares = self._logits(ids[start : start + size]).softmax(dim=-1).tolist()
            for place, row in enumerate(shares, start=start):
                by_label = dict(sorted(zip(self.labels.names, row, strict=True), key=lambda item: -item[1]))
                cut = len(whole[place]) > len(ids[place])
                found.append(Classification(texts[place], next(iter(by_label)), by_label, ids[place], cut))
        return found

    __call__ = classify

    def _logits(self, ids: list[list[int]], records: list[Record] | None = None) -> torch.Tensor:
        tokens, lengths = pad_sequences(ids, end=self.vocabulary.eos)
        return self.model(tokens.to(self.device), lengths.to(self.device), records=records)  # (b,classes)

    @property
    def longest(self) -> int:
        """The number of tokens that the model reads of a text."""
        return int(self.extra.get("max_tokens", LONGEST))

    @property
    def attends(self) -> bool:
        """Whether the pooling has attention."""
        return self.model.config.pooling in ("additive", "multihead")

    @torch.no_grad()
    def attention(self, prediction: Classification) -> Recording:
        """Return all attention of the model for one text, as :func:`regard.capture` records it."""
        from regard.capture import Recording

        records: list[Record] = []
        self.model.eval()
        self._logits([prediction.token_ids], records)
        tokens = [*self._pieces(prediction), "</s>"]
        rows = {"cross": [prediction.label]}
        return Recording(
            [replace(one, query_tokens=[rows.get(one.kind, tokens)], key_tokens=[tokens]) for one in records]
        )

    def _pieces(self, prediction: Classification) -> list[str]:
        spans = self.vocabulary.spans(prediction.source)[: len(prediction.token_ids)]
        return [prediction.source[a:b] for a, b in spans]

    def word_weights(self, prediction: Classification) -> list[TextWeights]:
        """Return the attention of the pooling to the words of a text, summed over the tokens of each word."""
        if not prediction.token_ids:
            return []
        text, record = prediction.source, self.attention(prediction)[-1]
        weights = record.map.weights()[0, :, 0].double().cpu().numpy()  # (h,n)
        spans = self.vocabulary.spans(text)[: len(prediction.token_ids)]
        words = [span for span in word_spans(text) if span[0] < spans[-1][1]]
        columns = words_of_tokens(spans, words)  # (words,tokens)
        heads = len(weights)
        merged = merge_tokens(weights[:, : len(spans)], np.eye(heads), columns)  # (h,words)
        names = [prediction.label] if heads == 1 else [f"head {head}" for head in range(heads)]
        return [TextWeights(names, [text[a:b] for a, b in words], merged)]

    def vocabularies(self) -> dict[str, Vocabulary]:
        """Return the vocabulary to save."""
        return {"tokenizer": self.vocabulary}

    def saved_settings(self) -> dict[str, Any]:
        """Return the labels and what else was saved with the model."""
        return {**self.extra, "labels": self.labels.names}

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Self:
        """Make a classifier from a saved model, or raise FileError if its settings do not fit together."""
        settings, network = bundle.settings, bundle.model()
        labels = ClassLabels.checked(settings.get("labels"), str(bundle.folder / "config.json"))
        vocabulary = bundle.vocabulary("tokenizer")
        try:
            whole_number("max_tokens", settings.get("max_tokens", 1), least=1)
        except ArgumentError as error:
            raise bundle.reject(str(error)) from None
        for name, size in (("classes", len(labels)), ("vocabulary_size", len(vocabulary))):
            if getattr(network.config, name, None) != size:
                raise bundle.reject(f"{name} is not {size}, as the labels and the vocabulary beside it say")
        return cls(network, vocabulary, labels, settings)
