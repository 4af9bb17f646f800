"""The task of training a language model on a text, with its objective, its model and its report."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor, nn

from regard.errors import FileError, renamed
from regard.models import LanguageModel, LanguageModelConfig
from regard.settings import part_of
from regard.tasks.base import Task
from regard.tasks.card import Card, CardFacts, training_command
from regard.tasks.objective import BatchedObjective
from regard.tasks.write.data import (
    VOCABULARY,
    WritingData,
    embedded_chunks,
    prepare,
    read_chunks,
    split_chunks,
)
from regard.tasks.write.pretrained import is_pretrained
from regard.tasks.write.settings import WritingEvaluationSettings, WritingSettings
from regard.tasks.write.windows import WindowBatch
from regard.tasks.write.writer import Writer
from regard.tasks.write.writing import TextScore
from regard.text import Skipped
from regard.training import output_cross_entropy

__all__ = ["WriteTask", "WritingObjective", "WritingReport"]

# Sentences of the embedded corpus to measure on.
EMBEDDED_TEST = 1000
SAMPLES = 3  # texts on the card of a model
SAMPLE_TOKENS = 300


class WriteTask(Task):
    """A language model that is trained to predict the next token of a text."""

    name: ClassVar[str] = "write"
    settings: ClassVar[Any] = WritingSettings
    predictor: ClassVar[Any] = Writer
    evaluation: ClassVar[Any] = WritingEvaluationSettings

    def find(self, model: str | None, options: Mapping[str, Any]) -> Path:
        """Return the folder of a model of Regard or Hugging Face, a GGUF file, or a flat file of llama2.c."""
        return Path(model) if model is not None and is_pretrained(model) else super().find(model, options)

    def check(self, settings: WritingSettings) -> None:
        """Raise an error if the settings make no model."""
        _config(settings, vocabulary_size=10)

    def prepare(
        self, settings: WritingSettings, folder: Path, *, learn: bool, show: bool = False
    ) -> WritingData:
        """Read and encode the text."""
        return prepare(settings, folder, learn=learn, show=show)

    def shared_files(self, settings: WritingSettings, folder: Path) -> list[Path]:
        """Return the file of the vocabulary."""
        return [folder / VOCABULARY]

    def describe(self, settings: WritingSettings, data: WritingData) -> list[str]:
        """Return the numbers of characters and tokens as text."""
        train, valid = data.characters["train"], data.characters["valid"]
        lines = ["read: text = all lines"] if settings.data else []
        lines += [f"data: {train:,} characters to train on, {len(data.train.ids):,} tokens"]
        if data.skipped.total:
            lines.append(f"left out of the data: {data.skipped}")
        place = "of the validation text" if settings.valid else "held out"
        lines.append(f"validation: {valid:,} characters {place}, {len(data.valid) - data.before:,} tokens")
        return [*lines, f"vocabulary: {data.vocabulary.kind}, {len(data.vocabulary):,} tokens"]

    def build(self, settings: WritingSettings, data: WritingData) -> nn.Module:
        """Return a new model with random weights, which predicts nearly the same for all tokens at first.

        Every block returns its input at first.
        """
        model = LanguageModel(_config(settings, vocabulary_size=len(data.vocabulary)))
        blocks: Any = model.decoder.layers
        last: list[Any] = [
            part for block in blocks for part in (block.self_attention.W_o, block.feed_forward.narrow)
        ]
        for p in [p for layer in last for p in layer.parameters()]:
            nn.init.zeros_(p)
        # A tied table would predict the token that was just read.
        nn.init.normal_(model.output.weight, std=0.02 if settings.tied_output else 1e-4)
        return model

    def objective(self, settings: WritingSettings, data: WritingData) -> WritingObjective:
        """Return the objective, which has the batches, the loss and the validation."""
        return WritingObjective(self, settings, data)

    def evaluate(self, predictors: Mapping[str, Writer], options: WritingEvaluationSettings) -> WritingReport:
        """Measure the loss, the perplexity and the bits per character on a text."""
        skipped = Skipped()
        scores = {name: _score(writer, options, skipped) for name, writer in predictors.items()}
        notes = [f"not measured: {skipped}"] if skipped.total else []
        for name, one in scores.items():
            if one.unknown:
                notes.append(f"{name} does not know {one.unknown:,} of the {one.tokens:,} tokens")
        share = "" if options.last == 1 else f"the last {options.last:g} of "
        where = options.data or "the test part of the embedded corpus"
        return WritingReport(f"{share}{where}", scores, notes)

    def card(self, predictor: Writer, settings: Any, facts: CardFacts) -> Card:
        """Return the card of a writer."""
        command = training_command(self, settings)
        use = "Use it with `regard write --model FOLDER`."
        return Card("Language model", predictor.model, command, use, ("prompt", "text"), facts)

    def samples(self, predictor: Writer, texts: list[str] | None) -> tuple[tuple[str, str], ...]:
        """Return prompts and the texts that the model writes after them, for the card."""
        prompts = [""] * SAMPLES if texts is None else texts
        written = predictor.write(prompts, max_tokens=SAMPLE_TOKENS)
        return tuple((one.source, one.text.replace("\n", " ↵ ")) for one in written)


def _config(settings: WritingSettings, *, vocabulary_size: int) -> LanguageModelConfig:
    values = part_of(settings, LanguageModelConfig)
    fixed = {"max_length": settings.context, "vocabulary_size": vocabulary_size, "output_bias": False}
    # The pairs of columns that are rotated are halves, which is faster than neighbours.
    fixed["rotary_layout"] = "llama"
    return LanguageModelConfig(**{**values, **fixed})


class WritingObjective(BatchedObjective):
    """Cross entropy of the next token, on parts of the text that begin elsewhere in every epoch."""

    metric = "loss"
    higher_is_better = False

    def batches_per_epoch(self, world: int) -> int:
        """Return the number of batches in one pass over the text."""
        return self.train.batches_per_epoch(tokens=self.settings.batch_tokens, world=world)

    def batches(self, epoch: int, start: int, rank: int, world: int) -> Iterator[WindowBatch]:
        """Return this process's share of the batches of an epoch."""
        s = self.settings
        return self.train.batches(epoch, start, tokens=s.batch_tokens, seed=s.seed, rank=rank, world=world)

    def count(self, batch: WindowBatch) -> int:
        """Return the number of tokens to predict."""
        return batch.targets.numel()

    def loss(self, model: nn.Module, batch: WindowBatch) -> Tensor:
        """Return the cross entropy of the next tokens, summed."""
        network: Any = model
        hidden = network.hidden(batch.tokens).flatten(0, 1)  # (b*n,m)
        output, smoothing = network.output, self.settings.label_smoothing
        return output_cross_entropy(
            hidden, output.weight, output.bias, batch.targets.flatten(), smoothing=smoothing
        )

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Return the loss, the perplexity and the bits per character of the whole validation text."""
        data = self.data
        characters = data.characters["valid"]
        score = self.predictor(model).score_tokens(data.valid, before=data.before, characters=characters)
        return score.to_json()

    def predictor(self, model: Any) -> Writer:
        """Return the model as a writer."""
        s, vocabulary = self.settings, self.data.vocabulary
        extra = {"language": s.language} if s.data is None else {}
        return Writer(model, vocabulary, context=s.context, start=vocabulary.bos, extra=extra)


@dataclass(frozen=True)
class WritingReport:
    """The losses of writers on the same text."""

    measured_on: str
    scores: dict[str, TextScore]
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers of the first model, with those of the others under ``compared``."""
        first, *others = self.scores
        values = {"measured_on": self.measured_on, "model": first, **self._numbers(first)}
        return values | ({"compared": {name: self._numbers(name) for name in others}} if others else {})

    def _numbers(self, name: str) -> dict[str, Any]:
        one = self.scores[name]
        return {"characters": one.characters, "tokens": one.tokens, "unknown": one.unknown, **one.to_json()}

    def __str__(self) -> str:
        wide = max(len(name) for name in self.scores)
        first = next(iter(self.scores.values()))
        heads = f"{'':{wide}}{'tokens':>12}{'loss':>10}{'perplexity':>12}{'bits/character':>16}"
        lines = [f"measured on {first.characters:,} characters of {self.measured_on}", heads]
        for name, one in self.scores.items():
            numbers = f"{one.loss:10.4f}{one.perplexity:12.3f}{one.bits_per_character:16.4f}"
            lines.append(f"{name:{wide}}{one.tokens:12,}{numbers}")
        return "\n".join(lines)


def _score(writer: Writer, options: WritingEvaluationSettings, skipped: Skipped) -> TextScore:
    """Return the loss of a writer on the text that the options name.

    The model reads the text before the measured part, where there is one, as far as its context reaches.
    """
    before, measured = _measured(writer, options, skipped)
    # The last parts before the text to measure have more tokens than the context, or are all.
    known = [token for part in deque(before, maxlen=4) for token in writer.vocabulary.encode(part)]
    ids = known[-writer.context :]
    first, characters = len(ids), 0
    for part in measured:
        ids.extend(writer.vocabulary.encode(part))
        characters += len(part)
    if not characters:
        raise FileError(f"{options.data}: there is no text to measure on", argument="data")
    return writer.score_tokens(np.array(ids, dtype=np.int64), before=first, characters=characters)


def _measured(
    writer: Writer, options: WritingEvaluationSettings, skipped: Skipped
) -> tuple[Iterator[str], Iterator[str]]:
    """Return the parts of the text before those to measure, and those to measure."""
    if options.data is None:
        language = writer.extra.get("language", "en")
        return iter(()), embedded_chunks(language, 0, "test", EMBEDDED_TEST)
    with renamed(path="data"):
        counted = skipped if not skipped.total else Skipped()  # once, where several models are measured
        chunks = list(read_chunks(options.data, skip_bad_rows=options.skip_bad_rows, skipped=counted))
    first = int(sum(map(len, chunks)) * (1 - options.last))
    return split_chunks(iter(chunks), first)[0], split_chunks(iter(chunks), first)[1]
