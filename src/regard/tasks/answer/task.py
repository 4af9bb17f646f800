"""The task of answering questions, with its objective, its model and its card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.errors import ArgumentError
from regard.models import SpanReader, SpanReaderConfig, TwoWayReader, TwoWayReaderConfig
from regard.settings import part_of
from regard.tasks.answer.calibration import calibrated_threshold, other_contexts
from regard.tasks.answer.data import AnswerData, prepare, run_files, windows_of
from regard.tasks.answer.evaluation import AnswerReport, evaluate_readers, scores_of
from regard.tasks.answer.network import span_logits, span_loss
from regard.tasks.answer.reader import Answer, Reader
from regard.tasks.answer.settings import AnswerEvaluationSettings, AnswerSettings
from regard.tasks.base import Task
from regard.tasks.card import Card, CardFacts, training_command
from regard.tasks.objective import BatchedObjective
from regard.tasks.pretrained import starting_config, starting_encoder
from regard.text import Skipped
from regard.text.forms import ENDINGS, FLAGS
from regard.text.spans import SpanBatch

__all__ = ["AnswerObjective", "AnswerTask"]


class AnswerTask(Task):
    """The task of finding the span of a context that answers a question."""

    name: ClassVar[str] = "answer"
    settings: ClassVar[Any] = AnswerSettings
    predictor: ClassVar[Any] = Reader
    evaluation: ClassVar[Any] = AnswerEvaluationSettings

    def check(self, settings: AnswerSettings) -> None:
        """Raise an error if the settings make no model or no windows."""
        windows_of(settings)
        if settings.start is None:
            _config(settings, vocabulary_size=10)
            return
        base = starting_config(settings)
        if settings.max_tokens > base.max_length:
            problem = f"{settings.start} reads {base.max_length} tokens at once, got {settings.max_tokens}"
            raise ArgumentError("max_tokens", problem)

    def prepare(
        self, settings: AnswerSettings, folder: Path, *, learn: bool, show: bool = False
    ) -> AnswerData:
        """Read and encode the questions."""
        return prepare(settings, folder, learn=learn, show=show)

    def shared_files(self, settings: AnswerSettings, folder: Path) -> list[Path]:
        """Return the file of the vocabulary."""
        return run_files(folder)

    def describe(self, settings: AnswerSettings, data: AnswerData) -> list[str]:
        """Return the numbers of questions, windows and tokens as text."""
        answered = int(
            (data.train.stores["answers"].ids[data.train.stores["answers"].offsets[:-1]] > 0).sum()
        )
        lines = ["read: question, context and answers = the fields of these names"] if settings.data else []
        lines += [f"data: {len(data.train):,} windows to train on, {answered:,} of them with an answer"]
        skipped = Skipped(**data.train.manifest.get("skipped", {}))
        if skipped.total:
            lines.append(f"left out of the data: {skipped}")
        lines.append(f"validation: {len(data.valid):,} questions held out")
        return [*lines, f"vocabulary: {data.vocabulary.kind}, {len(data.vocabulary):,} tokens"]

    def build(self, settings: AnswerSettings, data: AnswerData) -> nn.Module:
        """Return a new model, with the weights of the encoder that it starts from."""
        size = len(data.vocabulary)
        if settings.start is None:
            return TwoWayReader(_config(settings, vocabulary_size=size))
        encoder, vocabulary = starting_encoder(settings)
        if settings.architecture == "joined":
            model = SpanReader(encoder.config.part(SpanReaderConfig))
            model.encoder.load_state_dict(encoder.state_dict())
            return model
        framing = vocabulary.framing
        start = framing.end if framing.start is None else framing.start
        ends = {"base_start": start, "base_end": framing.end}
        config = _config(settings, vocabulary_size=size, base=encoder.config, **ends)
        reader = TwoWayReader(config)
        assert reader.base is not None
        reader.base.encoder.load_state_dict(encoder.state_dict())
        return reader

    def objective(self, settings: AnswerSettings, data: AnswerData) -> AnswerObjective:
        """Return the objective, which has the batches, the loss and the validation."""
        return AnswerObjective(self, settings, data)

    def evaluate(self, predictors: Mapping[str, Reader], options: AnswerEvaluationSettings) -> AnswerReport:
        """Measure exact match and F1, as SQuAD's script counts them."""
        return evaluate_readers(predictors, options)

    def card(self, predictor: Reader, settings: Any, facts: CardFacts) -> Card:
        """Return the card of a reader."""
        command = training_command(self, settings)
        use = "Use it with `regard answer --model FOLDER`."
        return Card("Reader of questions", predictor.model, command, use, ("question", "answer"), facts)

    def samples(self, predictor: Reader, texts: list[str] | None) -> tuple[tuple[str, str], ...]:
        """Return questions and their answers about a context that the model was not trained on."""
        answers = predictor.answer([(text, SAMPLE_CONTEXT) for text in texts or SAMPLE_QUESTIONS])
        return tuple((one.question, one.lines()[0].replace("\t", " ")) for one in answers)


SAMPLE_CONTEXT = (
    "The lighthouse on Fair Island was built by Anna Berg in 1874, after eleven ships had been lost on the rocks. "
    "Its lamp burned whale oil until 1902 and can be seen from a distance of thirty kilometres. "
    "Today a family of four lives in the tower and sells honey to visitors."
)
SAMPLE_QUESTIONS = [
    "Who built the lighthouse?",
    "When was the lighthouse built?",
    "How many ships were lost on the rocks?",
    "What did the lamp burn?",
    "What does the family sell?",
    "Who is the king of Spain?",
]


def _config(settings: AnswerSettings, **sizes: Any) -> TwoWayReaderConfig:
    values = part_of(settings, TwoWayReaderConfig) | {"encoder": settings.architecture}
    if settings.architecture == "gru":
        values["positions"] = "none"
    if settings.forms:
        values |= {"flags": FLAGS, "endings": ENDINGS}
    return TwoWayReaderConfig(**{**values, **sizes})


class AnswerObjective(BatchedObjective):
    """The likelihood of any of the answers, and F1 to validate."""

    metric = "f1"

    def __init__(self, task: Task, settings: AnswerSettings, data: AnswerData):
        super().__init__(task, settings, data)
        # Of the last validation, with a threshold of 0.
        self.answers: list[Answer] = []
        self.threshold = 0.0  # of the last model that was saved

    def count(self, batch: SpanBatch) -> int:
        """Return the number of windows."""
        return len(batch)

    def loss(self, model: nn.Module, batch: SpanBatch) -> Tensor:
        """Return the negative log-likelihood of the answers, summed over the windows."""
        start, end = span_logits(model, batch, self.data.vocabulary)
        return span_loss(start, end, batch, smoothing=self.settings.label_smoothing)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Return F1 and exact match of the best spans on the validation questions."""
        scores, self.answers = scores_of(self.predictor(model), self.data.valid, threshold=0.0)
        return {"f1": scores.f1, "exact": scores.exact}

    def predictor(self, model: nn.Module) -> Reader:
        """Return a reader with this model and the threshold that :meth:`save` chose last.

        The threshold is 0 before the first call of :meth:`save`.
        """
        s = self.settings
        extra = {"max_tokens": s.max_tokens, "stride": s.stride, "max_answer": s.max_answer}
        extra["threshold"] = self.threshold
        return Reader(model, self.data.vocabulary, extra)

    @torch.no_grad()
    def save(self, model: nn.Module, folder: Path, results: dict[str, Any]) -> None:
        """Choose the threshold on the validation questions, and write the reader and its card."""
        reader = self.predictor(model)
        others = reader.answer(other_contexts(self.data.valid), threshold=0.0)
        self.threshold, value = calibrated_threshold(self.data.valid, self.answers, others)
        super().save(model, folder, {**results, "threshold": self.threshold, "f1_with_threshold": value})
