"""The task of summarising texts, with its objective, its model and its card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor, nn

from regard.decoding import DecodingOptions
from regard.metrics import mean_rouge
from regard.tasks.base import Task
from regard.tasks.card import Card, CardFacts, training_command
from regard.tasks.encoder_decoder import encoder_decoder, encoder_decoder_config, perplexity, sentence_loss
from regard.tasks.objective import BatchedObjective
from regard.tasks.pairs import counted_rows
from regard.tasks.summarize.data import SummaryData, prepare, run_files
from regard.tasks.summarize.evaluation import SummaryReport, evaluate_summarizers
from regard.tasks.summarize.settings import SummaryEvaluationSettings, SummarySettings
from regard.tasks.summarize.summarizer import Summarizer
from regard.tasks.summarize.words import Field, listed_words
from regard.text import Batch, PairData

__all__ = ["SummarizeTask", "SummaryObjective"]


class SummarizeTask(Task):
    """The task of writing a short text for a long one."""

    name: ClassVar[str] = "summarize"
    settings: ClassVar[Any] = SummarySettings
    predictor: ClassVar[Any] = Summarizer
    evaluation: ClassVar[Any] = SummaryEvaluationSettings

    def check(self, settings: SummarySettings) -> None:
        """Raise an error if the settings make no model."""
        encoder_decoder_config(settings, source_size=10, target_size=10, shared=True)

    def prepare(
        self, settings: SummarySettings, folder: Path, *, learn: bool, show: bool = False
    ) -> SummaryData:
        """Read and encode the texts and their summaries."""
        return prepare(settings, folder, learn=learn, show=show)

    def shared_files(self, settings: SummarySettings, folder: Path) -> list[Path]:
        """Return the files of the vocabulary and of the common words."""
        return run_files(folder)

    def describe(self, settings: SummarySettings, data: SummaryData) -> list[str]:
        """Return the numbers of rows and tokens as text."""
        lines = counted_rows(data.train, "texts", ("text", "summary"))
        lengths = data.train.source.lengths()
        cut = int((lengths == settings.max_tokens).sum())
        if cut:
            lines.append(f"of {cut:,} texts the first {settings.max_tokens} tokens are read")
        lines.append(f"validation: {len(data.valid):,} texts held out")
        return [*lines, f"vocabulary: {settings.vocabulary}, {len(data.vocabulary):,} tokens"]

    def build(self, settings: SummarySettings, data: SummaryData) -> nn.Module:
        """Return a new model with random weights."""
        size = len(data.vocabulary)
        return encoder_decoder(
            encoder_decoder_config(settings, source_size=size, target_size=size, shared=True)
        )

    def objective(self, settings: SummarySettings, data: SummaryData) -> SummaryObjective:
        """Return the objective, which has the batches, the loss and the validation."""
        return SummaryObjective(self, settings, data)

    def evaluate(
        self, predictors: Mapping[str, Summarizer], options: SummaryEvaluationSettings
    ) -> SummaryReport:
        """Measure ROUGE, length, novel words and rare words, beside two heuristics."""
        return evaluate_summarizers(predictors, options)

    def card(self, predictor: Summarizer, settings: SummarySettings | None, facts: CardFacts) -> Card:
        """Return the card of a summariser."""
        command = training_command(self, settings)
        use = "Use it with `regard summarize --model FOLDER`."
        return Card("Summariser of texts", predictor.model, command, use, ("text", "summary"), facts)

    def samples(self, predictor: Summarizer, texts: list[str] | None) -> tuple[tuple[str, str], ...]:
        """Return texts and their summaries, by default invented abstracts that the model was not trained on."""
        chosen = SAMPLE_ABSTRACTS if texts is None else texts
        return tuple((one.source, one.text) for one in predictor.summarize(chosen))


SAMPLE_ABSTRACTS = [
    "Translating recipes needs knowledge of units, ingredients and verbs that general systems lack. We present "
    "PotPourri, a corpus of 12,000 recipes in English and Portuguese with aligned steps. A Transformer that is "
    "fine-tuned on PotPourri translates quantities correctly in nine of ten steps, while a general system fails in "
    "every third. We release the corpus and the models.",
    "Speakers of Faroese have few tools for spelling correction. We train a character-level model on synthetic errors "
    "and evaluate it on 3,000 sentences that were written by students. The model corrects 71 percent of the errors. "
    "An analysis shows that compound words remain difficult.",
    "Attention weights are often shown as explanations of what a model does. This paper asks annotators to judge "
    "whether the highlighted words explain the decision of a sentiment classifier. Agreement is low for single heads "
    "and rises if the heads are averaged. We discuss what this means for tools that visualise attention.",
]


class SummaryObjective(BatchedObjective):
    """Cross entropy with label smoothing, and ROUGE of greedy summaries to validate."""

    metric = "rouge1"
    # Below this score, a few hundred summaries do not tell which of two models is better.
    floor = 10.0
    below_floor = "perplexity"

    def __init__(self, task: Task, settings: SummarySettings, data: SummaryData):
        super().__init__(task, settings, data)
        self.valid = data.valid[: settings.validate_texts]
        ranks = {word: rank for rank, word in enumerate(listed_words(data.common))}
        self.field = Field.of([text for text, _ in data.valid], ranks)
        limits: dict[str, Any] = {
            "max_tokens": settings.max_tokens,
            "max_target_tokens": 10 * settings.max_summary,
        }
        encoder: Any = data.encoder
        self.valid_data = PairData.in_memory(
            self.valid, encoder, data.vocabulary, deduplicate=False, **limits
        )

    def tokens_read(self, batch: Batch) -> int:
        """Return the number of tokens of the texts, which the encoder reads, and of the summaries."""
        return int(batch.source_lengths.sum()) + batch.tokens

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the cross entropy of the summaries, summed over their tokens."""
        return sentence_loss(model, batch, self.settings.label_smoothing)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Return ROUGE of greedy summaries, and perplexity, on the validation texts."""
        found = self.predictor(model).summarize([text for text, _ in self.valid], DecodingOptions(beams=1))
        scores = mean_rouge([one.text for one in found], [summary for _, summary in self.valid])
        return {**scores, "perplexity": perplexity(model, self.valid_data)}

    def predictor(self, model: nn.Module) -> Summarizer:
        """Return the model as a summariser."""
        s = self.settings
        extra: dict[str, Any] = {"max_tokens": s.max_tokens, "max_summary": s.max_summary}
        if self.field is not None:
            extra["field"] = asdict(self.field)
        if s.test_share:
            extra |= {"test_share": s.test_share, "test_seed": s.test_seed}
        return Summarizer(model, self.data.vocabulary, extra, self.data.common)
