"""The task of translation, with its objective, its model and its card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor, nn

from regard.decoding import DecodingOptions
from regard.errors import ArgumentError
from regard.metrics import bleu
from regard.models import Seq2SeqConfig, TransformerConfig
from regard.models.pretrained import read_config
from regard.tasks.base import Task
from regard.tasks.card import Card, CardFacts, training_command
from regard.tasks.encoder_decoder import encoder_decoder, encoder_decoder_config, perplexity, sentence_loss
from regard.tasks.objective import BatchedObjective
from regard.tasks.pairs import counted_rows
from regard.tasks.registry import find_model
from regard.tasks.translate.alignment import choose_alignment_head
from regard.tasks.translate.alignment_head import keep_alignment_head
from regard.tasks.translate.data import TranslationData, prepare, vocabulary_files
from regard.tasks.translate.evaluation import TranslationReport, evaluate_translators, group_references
from regard.tasks.translate.gold import embedded_aligned
from regard.tasks.translate.mixture import mixture_lines
from regard.tasks.translate.settings import (
    EMBEDDED_LANGUAGES,
    TranslationEvaluationSettings,
    TranslationSettings,
)
from regard.tasks.translate.showcase import everyday_sentences
from regard.tasks.translate.starting import starting_model, starting_translator
from regard.tasks.translate.translator import Translator
from regard.text import Batch, PairData

__all__ = ["TranslateTask", "TranslationObjective"]

# Sentences of the embedded corpus's validation part, to choose the attention that aligns.
CHOOSING = 500
_NAMES = {"en": "English", "fr": "French", "zh": "Chinese (simplified)", "de": "German"}


class TranslateTask(Task):
    """The task of translating text from one language to another."""

    name: ClassVar[str] = "translate"
    settings: ClassVar[Any] = TranslationSettings
    predictor: ClassVar[Any] = Translator
    evaluation: ClassVar[Any] = TranslationEvaluationSettings

    def check(self, settings: TranslationSettings) -> None:
        """Raise an error if the settings make no model, or if BLEU cannot be computed."""
        if settings.start is None:
            model_config(settings, source_size=10, target_size=10)
        else:
            starting_translator(settings)
        bleu(["a"], [["a"]])

    def prepare(
        self, settings: TranslationSettings, folder: Path, *, learn: bool, show: bool = False
    ) -> TranslationData:
        """Read and encode the pairs."""
        return prepare(settings, folder, learn=learn, show=show)

    def shared_files(self, settings: TranslationSettings, folder: Path) -> list[Path]:
        """Return the files of the vocabularies."""
        return vocabulary_files(settings, folder)

    def describe(self, settings: TranslationSettings, data: TranslationData) -> list[str]:
        """Return the numbers of pairs and tokens as text."""
        lines = [*counted_rows(data.train, "pairs"), *mixture_lines(settings)]
        lines.append(f"validation: {len(data.valid):,} pairs held out")
        sizes = [f"{len(data.source):,} tokens"]
        if data.source is not data.target:
            sizes = [f"{len(data.source):,} tokens of {settings.source_language}"]
            sizes += [f"{len(data.target):,} of {settings.target_language}"]
        kind = settings.vocabulary if settings.start is None else f"that of {settings.start}"
        return [*lines, f"vocabulary: {kind}, {', '.join(sizes)}"]

    def build(self, settings: TranslationSettings, data: TranslationData) -> nn.Module:
        """Return a new model with random weights, or the one that the settings start from."""
        if settings.start is not None:
            return starting_model(settings)
        return encoder_decoder(
            model_config(settings, source_size=len(data.source), target_size=len(data.target))
        )

    def objective(self, settings: TranslationSettings, data: TranslationData) -> TranslationObjective:
        """Return the objective, which has the batches, the loss and the validation."""
        return TranslationObjective(self, settings, data)

    def find(self, model: str | None, options: Mapping[str, Any]) -> Path:
        """Return the folder of a model, by its name or by its languages."""
        source, target = options.get("source_language"), options.get("target_language")
        folder = find_model(self.name, model, languages=(source or "en", target or "fr"))
        if model is not None:
            _check_languages(model, folder, {"source_language": source, "target_language": target})
        return folder

    def evaluate(
        self, predictors: Mapping[str, Translator], options: TranslationEvaluationSettings
    ) -> TranslationReport:
        """Measure BLEU, chrF and the alignment error rate."""
        return evaluate_translators(predictors, options)

    def card(self, predictor: Translator, settings: TranslationSettings | None, facts: CardFacts) -> Card:
        """Return the card of a translator."""
        start, end = (_name(one) for one in (predictor.source_language, predictor.target_language))
        command = training_command(self, settings)
        use = "Use it with `regard translate`."
        return Card(f"{start} to {end}", predictor.model, command, use, (start, end), facts)

    def finish(self, predictor: Translator) -> list[tuple[str, str]]:
        """Choose the attention that aligns words, on the validation part of the embedded corpus if that fits."""
        languages = {predictor.source_language, predictor.target_language}
        if not predictor.attends or not languages <= set(EMBEDDED_LANGUAGES):
            return []
        pairs = embedded_aligned(predictor, "valid", CHOOSING)
        chosen, rate = choose_alignment_head(predictor, pairs)
        keep_alignment_head(predictor, chosen)
        return [("alignments are read from", f"{chosen}: AER {100 * rate:.1f} % where it was chosen")]

    def samples(self, predictor: Translator, texts: list[str] | None) -> tuple[tuple[str, str], ...]:
        """Return sentences and their translations, by default fifty everyday English sentences."""
        if texts is None:
            texts = everyday_sentences() if predictor.source_language == "en" else []
        return tuple((one.source, one.text) for one in predictor.translate(texts))


class TranslationObjective(BatchedObjective):
    """Cross entropy with label smoothing, and BLEU of greedy translations to validate."""

    metric = "bleu"
    # Below this BLEU, a few hundred sentences do not tell which of two models is better.
    floor = 5.0
    below_floor = "perplexity"

    def __init__(self, task: Task, settings: TranslationSettings, data: TranslationData):
        super().__init__(task, settings, data)
        chosen = {source for source, _ in data.valid[: settings.validate_sentences]}
        self.valid = [pair for pair in data.valid if pair[0] in chosen]  # with all references of a sentence
        self.valid_data = PairData.in_memory(self.valid, data.source, data.target, deduplicate=False)

    def tokens_read(self, batch: Batch) -> int:
        """Return the number of tokens of the sources, which the encoder reads, and of the targets."""
        return int(batch.source_lengths.sum()) + batch.tokens

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the cross entropy of the target, summed over its tokens."""
        return sentence_loss(model, batch, self.settings.label_smoothing)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Return BLEU of greedy translations, and perplexity, on the validation pairs."""
        translator = Translator(model, self.data.source, self.data.target)
        sources, references = group_references(self.valid)
        found = translator.translate(sources, DecodingOptions(beams=1), normalize=False)
        s = self.settings
        texts = [one.text for one in found]
        score = bleu(texts, references, lowercase=s.lowercase, language=s.target_language)
        return {"bleu": score.score, "perplexity": perplexity(model, self.valid_data)}

    def predictor(self, model: nn.Module) -> Translator:
        """Return the model as a translator."""
        s = self.settings
        return Translator(
            model,
            self.data.source,
            self.data.target,
            source_language=s.source_language,
            target_language=s.target_language,
            extra={"max_tokens": s.max_tokens},
        )


def model_config(
    settings: TranslationSettings, *, source_size: int, target_size: int
) -> TransformerConfig | Seq2SeqConfig:
    """Return the config of the model for vocabularies of these sizes."""
    shared = settings.shared_vocabulary
    return encoder_decoder_config(settings, source_size=source_size, target_size=target_size, shared=shared)


def _check_languages(model: str, folder: Path, wanted: dict[str, str | None]) -> None:
    """Raise ArgumentError if a model that is named translates between other languages than those asked for."""
    settings = read_config(folder)
    for name, language in wanted.items():
        has = settings.get(name, "")
        if language is not None and isinstance(has, str) and language.lower() != has.lower():
            problem = f"the model {model} has {has!r} there, not {language!r}"
            raise ArgumentError(name, problem, "leave it out")


def _name(language: str) -> str:
    return _NAMES.get(language, language or "?")
