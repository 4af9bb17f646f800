"""``pipeline("text-classification")``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from regard.errors import ArgumentError, DtypeError, UnknownNameError
from regard.pipelines.base import Pipeline, Result, checked_text, warn_caller
from regard.pipelines.networks import FRAMING_OPTIONS, TextNetwork, too_long, truncation_of
from regard.pipelines.tokenizer import Tokenizer
from regard.shapes import whole_number
from regard.tasks.text_encoder import without_line_breaks

if TYPE_CHECKING:
    from regard.capture import Recording
    from regard.tasks.classify import Classification, Classifier
    from regard.text import Framed

__all__ = ["TextClassificationPipeline"]

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda logits: logits.softmax(dim=-1),
    "sigmoid": torch.sigmoid,
    "none": lambda logits: logits,
}
TextOrPair = tuple[str, str | None]


class TextClassificationPipeline(Pipeline):
    """A pipeline that gives texts, or pairs of texts, labels with scores.

    A text, a list of texts, a dict with ``text`` and ``text_pair``, or an iterator of these is classified.
    ``top_k`` is the number of labels, None for all. ``function_to_apply`` is "softmax", "sigmoid" or "none".
    """

    task: ClassVar[str] = "text-classification"
    options: ClassVar[tuple[str, ...]] = ("top_k", "return_all_scores", "function_to_apply", *FRAMING_OPTIONS)
    options_with_none: ClassVar[tuple[str, ...]] = ("top_k",)

    def __init__(self, source: TextScores, **defaults: Any):
        super().__init__(source.model, source.tokenizer, **defaults)
        self.source = source
        source.check(self.defaults)

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Return the labels and scores, in the form that Transformers 4 gave them.

        A single text gives a list of one dictionary, or with ``top_k`` a list of the best labels.
        """
        merged = self._merged(options)
        self.source.check(merged)
        if isinstance(inputs, str):
            (result,) = self.run([inputs], merged)
            return result if "top_k" in options else [result]
        if isinstance(inputs, dict):
            return self.run([inputs], merged)[0]
        # A list with one list of two texts was once the way to give a pair.
        if isinstance(inputs, list) and len(inputs) == 1 and isinstance(inputs[0], list | tuple):
            return self.run(inputs, merged)
        return self.many(inputs, merged)

    def run(self, inputs: list[Any], options: dict[str, Any]) -> list[Any]:
        """Return the result for each text or pair."""
        pairs = [_pair(one) for one in inputs]
        scored = self.source.scores(pairs, options)
        return [self._result(pair, row, options) for pair, row in zip(pairs, scored, strict=True)]

    def _result(self, pair: TextOrPair, scored: Scored, options: dict[str, Any]) -> Any:
        results = [
            Result({"label": label, "score": score}, pair, scored.model_input)
            for label, score in zip(self.source.labels, scored.scores, strict=True)
        ]
        if "top_k" not in options:
            if options.get("return_all_scores"):
                return results
            return max(results, key=lambda one: one["score"])
        most = options["top_k"]
        most = len(results) if most is None else whole_number("top_k", most, least=1)
        return sorted(results, key=lambda one: -one["score"])[:most]

    def recording(self, model_input: Any) -> Recording:
        """Return the attention of the model for the input of a result."""
        return self.source.recording(model_input)


class Scored(NamedTuple):
    """The score of each class for a text or a pair, and what the model read of it."""

    scores: list[float]
    model_input: Any


class TextScores(Protocol):
    """The methods of a classifier that the pipeline calls."""

    @property
    def labels(self) -> list[str]:
        """The names of the classes."""
        ...

    @property
    def model(self) -> Any:
        """The model of :mod:`regard.models`."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """The special tokens of the model."""
        ...

    def check(self, options: dict[str, Any]) -> None:
        """Raise ArgumentError if the classifier cannot do what the options ask for."""
        ...

    def scores(self, pairs: list[TextOrPair], options: dict[str, Any]) -> list[Scored]:
        """Return the score of each class for each text or pair."""
        ...

    def recording(self, model_input: Any) -> Recording:
        """Return the attention of the model for the input of a result."""
        ...


class HuggingFaceScores:
    """A sequence classifier from a Hugging Face folder."""

    def __init__(self, network: TextNetwork):
        self.network = network
        count = network.model.config.classes
        self.model, self.tokenizer = network.model, network.tokenizer
        names = network.labels
        self.labels = names if len(names) == count else [f"LABEL_{number}" for number in range(count)]
        several = network.settings.get("problem_type") == "multi_label_classification"
        self.function = "sigmoid" if several or count == 1 else "softmax"

    def check(self, options: dict[str, Any]) -> None:
        """Raise ArgumentError if an option has an unknown value."""
        _function(options.get("function_to_apply"), self.function)
        truncation_of(options)

    def scores(self, pairs: list[TextOrPair], options: dict[str, Any]) -> list[Scored]:
        """Return the score of each class for each text or pair."""
        apply = _function(options.get("function_to_apply"), self.function)
        framed = [self.network.frame(*pair, options) for pair in pairs]
        rows = self.network.outputs(framed, options.get("batch_size"))
        return [
            Scored(apply(logits.float()).tolist(), read) for logits, read in zip(rows, framed, strict=True)
        ]

    def recording(self, model_input: Framed) -> Recording:
        """Return the attention of the model for a framed text or pair."""
        return self.network.recording(model_input)


class RegardScores:
    """A classifier of ``regard train classify``."""

    def __init__(self, classifier: Classifier):
        self.classifier = classifier
        self.labels = classifier.labels.names
        self.model = classifier.model
        vocabulary = classifier.vocabulary
        self._around = vocabulary.framing.added()
        self.tokenizer = Tokenizer.of(vocabulary, longest=classifier.encoder.most + self._around)

    def check(self, options: dict[str, Any]) -> None:
        """Raise ArgumentError for other scores than probabilities, or for an unknown value."""
        if _function(options.get("function_to_apply"), "softmax") is not FUNCTIONS["softmax"]:
            raise ArgumentError(
                "function_to_apply", "a classifier of Regard gives probabilities", "leave it out"
            )
        truncation_of(options)

    def scores(self, pairs: list[TextOrPair], options: dict[str, Any]) -> list[Scored]:
        """Return the probability of each class for each text."""
        texts = [_single(pair) for pair in pairs]
        classifier = self._shortened(options.get("max_length"))
        found = classifier.classify(texts, batch_size=options.get("batch_size"))
        self._check_cut(found, options)
        return [
            Scored([one.probabilities[label] for label in self.labels], (classifier, one)) for one in found
        ]

    def _shortened(self, length: Any) -> Classifier:
        """Return the classifier, which reads at most ``length`` tokens with the special ones."""
        classifier = self.classifier
        if length is None:
            return classifier
        most = whole_number("max_length", length, least=self._around + 1) - self._around
        if most >= classifier.encoder.most:
            return classifier
        extra = {**classifier.extra, "max_tokens": most}
        return type(classifier)(classifier.model, classifier.vocabulary, classifier.labels, extra)

    def _check_cut(self, found: list[Classification], options: dict[str, Any]) -> None:
        """Warn of texts that were cut off without a word about truncation, and raise if it was forbidden."""
        truncation, most = truncation_of(options), self.classifier.encoder.most
        cut = [one.source for one in found if one.cut_off]
        if truncation or not cut:
            return
        if truncation is False:
            tokens = self.classifier.vocabulary.encode(without_line_breaks(cut[0]))
            raise too_long(len(tokens) + self._around, most + self._around)
        problem = f"inputs: {len(cut)} of {len(found)} texts have more than the {most:,} tokens that the model reads"
        warn_caller(f"{problem}, and the rest is left out: use truncation=True to allow this")

    def recording(self, model_input: tuple[Classifier, Classification]) -> Recording:
        """Return the attention of the model for a classified text."""
        classifier, classification = model_input
        return classifier.attention(classification)


def _single(pair: TextOrPair) -> str:
    if pair[1] is not None:
        raise ArgumentError("inputs", "a classifier of Regard reads one text, got a pair")
    return pair[0]


def _pair(one: Any) -> TextOrPair:
    """Return a text and None, or a pair of texts."""
    if isinstance(one, dict):
        unknown = set(one) - {"text", "text_pair"}
        if unknown or "text" not in one:
            keys = ", ".join(map(repr, one)) or "no keys"
            raise ArgumentError("inputs", f"expected a dict with 'text' and perhaps 'text_pair', got {keys}")
        second = one.get("text_pair")
        return checked_text("text", one["text"]), None if second is None else checked_text(
            "text_pair", second
        )
    if isinstance(one, list | tuple) and len(one) == 2:
        return checked_text("inputs", one[0]), checked_text("inputs", one[1])
    if not isinstance(one, str):
        raise DtypeError("inputs", f"expected a text or a dict with 'text', got {one!r}")
    return one, None


def _function(name: Any, default: str) -> Callable[[Tensor], Tensor]:
    if name is None:
        name = default
    if not isinstance(name, str) or name.lower() not in FUNCTIONS:
        raise UnknownNameError("function_to_apply", name, FUNCTIONS)
    return FUNCTIONS[name.lower()]
