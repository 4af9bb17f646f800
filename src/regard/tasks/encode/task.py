"""The task of training an encoder on masked words, with its objective, its model and its report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional

from regard.errors import ArgumentError, renamed
from regard.models import EncoderConfig, MaskedLanguageModel, MaskedLanguageModelConfig
from regard.settings import part_of
from regard.tasks.base import Task
from regard.tasks.card import Card, CardFacts, training_command
from regard.tasks.encode.data import VOCABULARY, EncodingData, embedded_texts, prepare, read_texts
from regard.tasks.encode.masking import MaskedBatch, Masking, ordinary_ids
from regard.tasks.encode.measures import MaskedScores, UnigramBaseline, measure_masked
from regard.tasks.encode.sentence_encoder import SentenceEncoder
from regard.tasks.encode.sentence_pooling import SentencePooling
from regard.tasks.encode.settings import EncodingEvaluationSettings, EncodingSettings
from regard.tasks.minilm import MINILM, installed_minilm, minilm_folder
from regard.tasks.objective import BatchedObjective
from regard.tasks.pairs import read_columns
from regard.tasks.pretrained import starting_config, starting_encoder, starting_masked_model
from regard.tasks.sampling import sample
from regard.text import Skipped, TextPieces

__all__ = ["EncodeTask", "EncodingObjective", "EncodingReport"]

BASELINE = "token frequencies"
# Sentences of the embedded corpus that are measured on, if no limit is given.
EMBEDDED_TEST = 1000


class EncodeTask(Task):
    """An encoder that is trained to predict hidden words."""

    name: ClassVar[str] = "encode"
    settings: ClassVar[Any] = EncodingSettings
    predictor: ClassVar[Any] = SentenceEncoder
    evaluation: ClassVar[Any] = EncodingEvaluationSettings

    def check(self, settings: EncodingSettings) -> None:
        """Raise an error if the settings make no model."""
        config = _config(settings, vocabulary_size=10)
        if config.positions == "learned" and settings.max_tokens > config.max_length:
            problem = f"the encoder reads {config.max_length} tokens, got {settings.max_tokens}"
            raise ArgumentError("max_tokens", problem, "give a smaller number")

    def prepare(
        self, settings: EncodingSettings, folder: Path, *, learn: bool, show: bool = False
    ) -> EncodingData:
        """Read and encode the texts."""
        return prepare(settings, folder, learn=learn, show=show)

    def shared_files(self, settings: EncodingSettings, folder: Path) -> list[Path]:
        """Return the file of the vocabulary."""
        return [folder / VOCABULARY]

    def describe(self, settings: EncodingSettings, data: EncodingData) -> list[str]:
        """Return the numbers of pieces and tokens as text."""
        tokens = int(data.train.store.lengths().sum())
        lines = read_columns(data.train.skipped, ("text",))
        lines += [f"data: {len(data.train):,} pieces of text to train on, {tokens:,} tokens"]
        if data.train.skipped.total:
            lines.append(f"left out of the data: {data.train.skipped}")
        lines.append(f"validation: {len(data.valid):,} pieces held out")
        start = f"from {settings.start}, " if settings.start else ""
        return [*lines, f"vocabulary: {start}{data.vocabulary.kind}, {len(data.vocabulary):,} tokens"]

    def build(self, settings: EncodingSettings, data: EncodingData) -> nn.Module:
        """Return a new model with random weights, or with those of the encoder to start from."""
        if settings.start is not None:
            model = starting_masked_model(settings)
            if model is not None:
                return model
        model = MaskedLanguageModel(_config(settings, vocabulary_size=len(data.vocabulary)))
        if settings.start is not None:
            model.encoder.load_state_dict(starting_encoder(settings)[0].state_dict())
        return model

    def objective(self, settings: EncodingSettings, data: EncodingData) -> EncodingObjective:
        """Return the objective, which has the batches, the loss and the validation."""
        return EncodingObjective(self, settings, data)

    def find(self, model: str | None, options: Mapping[str, Any]) -> Path:
        """Return the folder of the model with this name. The default is MiniLM, if its package is installed."""
        if model is None or (model == MINILM and not Path(model).exists()):
            return installed_minilm() or minilm_folder("model")
        return super().find(model, options)

    def evaluate(
        self, predictors: Mapping[str, SentenceEncoder], options: EncodingEvaluationSettings
    ) -> EncodingReport:
        """Measure accuracy and perplexity of hidden tokens."""
        return evaluate_encoders(predictors, options)

    def card(self, predictor: SentenceEncoder, settings: Any, facts: CardFacts) -> Card:
        """Return the card of an encoder."""
        command = training_command(self, settings)
        use = "Use it with `regard encode --model FOLDER`, or start a task from it with `--start FOLDER`."
        return Card("Encoder of texts, trained on masked words", predictor.model, command, use, facts=facts)


def _config(settings: EncodingSettings, *, vocabulary_size: int) -> MaskedLanguageModelConfig:
    if settings.start is not None:
        return starting_config(settings).part(MaskedLanguageModelConfig)
    values = part_of(settings, EncoderConfig)
    longest = {"max_length": max(512, settings.max_tokens)}
    return MaskedLanguageModelConfig(**{**values, **longest, "vocabulary_size": vocabulary_size})


class EncodingObjective(BatchedObjective):
    """Cross entropy of the hidden tokens, and their perplexity to validate."""

    metric = "perplexity"
    higher_is_better = False

    def __init__(self, task: Task, settings: EncodingSettings, data: EncodingData):
        super().__init__(task, settings, data)
        vocabulary = data.vocabulary
        assert vocabulary.mask is not None  # prepare() checks it
        self.masking = Masking(vocabulary.mask, ordinary_ids(vocabulary), settings.mask_share, settings.seed)
        self.specials = (int(vocabulary.framing.start is not None), 1)
        self.baseline = UnigramBaseline(data.train.counts(len(vocabulary)))

    def batches(self, epoch: int, start: int, rank: int, world: int) -> Iterator[MaskedBatch]:
        """Return this process's share of the batches of an epoch, in which other tokens are hidden in each epoch."""
        for batch in super().batches(epoch, start, rank, world):
            yield self.masking(batch, epoch, self.specials)

    def count(self, batch: MaskedBatch) -> int:
        """Return the number of hidden tokens."""
        return len(batch.labels)

    def loss(self, model: nn.Module, batch: MaskedBatch) -> Tensor:
        """Return the cross entropy, summed over the hidden tokens."""
        logits = model(batch.tokens, batch.lengths, at=batch.hidden)  # (positions,vocabulary)
        smoothing = self.settings.label_smoothing
        return functional.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=smoothing)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Return perplexity and accuracy on the validation texts, beside those of the frequencies of the tokens."""
        device = next(model.parameters()).device
        scores, labels = measure_masked(
            model, self.data.valid, self.data.vocabulary, share=self.settings.mask_share, device=device
        )
        baseline = self.baseline.scores(labels)
        names = {"perplexity": scores.perplexity, "accuracy": scores.accuracy}
        return {**names, "unigram_perplexity": baseline.perplexity, "unigram_accuracy": baseline.accuracy}

    def predictor(self, model: Any) -> SentenceEncoder:
        """Return the model as an encoder of sentences."""
        s = self.settings
        extra = {"language": s.language, "mask_share": s.mask_share}
        pooling = SentencePooling(s.pooling, False, s.max_tokens)
        return SentenceEncoder(model, self.data.vocabulary, pooling, extra, unigrams=self.baseline.counts)


@dataclass(frozen=True)
class EncodingReport:
    """The prediction of hidden tokens by one encoder, or by several on the same texts."""

    measured_on: str
    scores: dict[str, MaskedScores]
    baselines: dict[str, MaskedScores | None]
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers of the first model, with those of the others under ``compared``."""
        first, *others = self.scores
        values = {"measured_on": self.measured_on, "model": first, **self._numbers(first)}
        return values | ({"compared": {name: self._numbers(name) for name in others}} if others else {})

    def _numbers(self, name: str) -> dict[str, Any]:
        one, baseline = self.scores[name], self.baselines[name]
        values: dict[str, Any] = {"hidden_tokens": one.tokens, "accuracy": one.accuracy}
        values["perplexity"] = one.perplexity
        if baseline is not None:
            values |= {"unigram_accuracy": baseline.accuracy, "unigram_perplexity": baseline.perplexity}
        return values

    def __str__(self) -> str:
        wide = max(len(name) for name in (*self.scores, BASELINE))
        lines = [f"measured on {self.measured_on}", f"{'':{wide}}{'accuracy':>12}{'perplexity':>12}"]
        for name, one in self.scores.items():
            lines.append(f"{name:{wide}}{one.accuracy:11.2f}%{one.perplexity:12.2f}")
            baseline = self.baselines[name]
            if baseline is not None:
                lines.append(f"{BASELINE:{wide}}{baseline.accuracy:11.2f}%{baseline.perplexity:12.2f}")
        return "\n".join(lines)


def evaluate_encoders(
    encoders: Mapping[str, SentenceEncoder], options: EncodingEvaluationSettings
) -> EncodingReport:
    """Measure encoders by name on the same texts."""
    for name, encoder in encoders.items():
        if not isinstance(encoder.model, MaskedLanguageModel):
            problem = f"{name} has no output for hidden words, so they cannot be measured"
            raise ArgumentError("model", problem, "name a model of `regard train encode`")
    skipped = Skipped()
    first = next(iter(encoders.values()))
    texts, where = _texts(first, options, skipped)
    scores: dict[str, MaskedScores] = {}
    baselines: dict[str, MaskedScores | None] = {}
    for name, encoder in encoders.items():
        scores[name], baselines[name] = _scores(encoder, texts, options.seed or 0)
    notes = [f"not measured: {skipped}"] if skipped.total else []
    return EncodingReport(where, scores, baselines, notes)


def _texts(
    encoder: SentenceEncoder, options: EncodingEvaluationSettings, skipped: Skipped
) -> tuple[list[str], str]:
    if options.data is None:
        language = encoder.extra.get("language", "en")
        texts: Iterable[str] = embedded_texts(language, 0, "test", max(options.limit, EMBEDDED_TEST))
        where = "the test part of the embedded corpus"
    else:
        reading = {"split": "test", "skip_bad_rows": options.skip_bad_rows, "skipped": skipped}
        with renamed(path="data", source="data"):
            texts = list(read_texts(options.data, options.column, **reading))
        where = options.data
    kept = sample(texts, options.limit, options.seed or 0)
    if not kept:
        raise ArgumentError("data", "there is nothing to measure on")
    return kept, f"{len(kept):,} texts of {where}"


def _scores(
    encoder: SentenceEncoder, texts: list[str], seed: int
) -> tuple[MaskedScores, MaskedScores | None]:
    """Return the scores of an encoder, and those of the frequencies of the tokens that it was trained on."""
    pieces = TextPieces.in_memory(texts, encoder.vocabulary, max_tokens=encoder.longest)
    share = float(encoder.extra.get("mask_share", 0.15))
    scores, labels = measure_masked(
        encoder.model, pieces, encoder.vocabulary, share=share, seed=seed, device=encoder.device
    )
    counts = encoder.unigrams
    return scores, None if counts is None else UnigramBaseline(counts).scores(labels)
