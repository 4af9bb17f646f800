"""Translation as the training loop sees it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.decoding import DecodingOptions
from regard.files import write_atomically
from regard.metrics import bleu
from regard.tasks.translate.card import CardFacts, write_card
from regard.tasks.translate.data import TranslationData
from regard.tasks.translate.evaluation import group_references
from regard.tasks.translate.settings import TranslationSettings
from regard.tasks.translate.translator import Translator
from regard.text import Batch, BucketedBatches, PairData
from regard.training import output_cross_entropy

__all__ = ["TranslationTask", "sentence_loss"]


class TranslationTask:
    """Pairs of sentences, cross entropy with label smoothing, and BLEU of greedy translations to validate."""

    metric = "bleu"
    higher_is_better = True
    floor = 5.0  # BLEU of a few hundred sentences: below it, which of two models is better is chance
    below_floor = "perplexity"

    def __init__(self, settings: TranslationSettings, data: TranslationData):
        self.settings, self.data = settings, data
        self.fingerprint = data.train.manifest.get("fingerprint", "")
        chosen = {source for source, _ in data.valid[: settings.validate_sentences]}
        self.valid = [pair for pair in data.valid if pair[0] in chosen]  # with all references of a sentence
        self.valid_data = PairData.in_memory(self.valid, data.source, data.target, deduplicate=False)

    def batches_per_epoch(self, world: int) -> int:
        """Batches of one pass over the data."""
        return len(self._bucketed(0, world))

    def batches(self, epoch: int, start: int, rank: int, world: int) -> Iterator[Batch]:
        """This process's share of the batches of an epoch."""
        return self._bucketed(rank, world).epoch(epoch, start)

    def _bucketed(self, rank: int, world: int) -> BucketedBatches:
        s = self.settings
        return BucketedBatches(self.data.train, tokens=s.batch_tokens, seed=s.seed, rank=rank, world=world)

    def count(self, batch: Batch) -> int:
        """The target tokens of a batch."""
        return batch.tokens

    def to_device(self, batch: Batch, device: torch.device) -> Batch:
        """The batch where the model is."""
        return batch if device.type == "cpu" else batch.to(device)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Cross entropy of the target, summed over its tokens."""
        return sentence_loss(model, batch, self.settings.label_smoothing)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """BLEU of greedy translations, and perplexity, on sentences that are not trained on."""
        translator = Translator(model, self.data.source, self.data.target)
        sources, references = group_references(self.valid)
        found = translator.translate(sources, DecodingOptions(beams=1))
        s = self.settings
        score = bleu(
            [one.text for one in found], references, lowercase=s.lowercase, language=s.target_language
        )
        return {"bleu": score.score, "perplexity": self._perplexity(model)}

    def _perplexity(self, model: nn.Module) -> float:
        loss, tokens = 0.0, 0
        for batch in BucketedBatches(self.valid_data, shuffle=False).epoch(0):
            device = next(model.parameters()).device
            loss += float(sentence_loss(model, self.to_device(batch, device), 0.0))
            tokens += batch.tokens
        return float(torch.tensor(loss / tokens).exp())

    def save(self, model: nn.Module, folder: Path, results: dict[str, Any]) -> None:
        """Write the translator, ready for use."""
        s = self.settings
        translator = Translator(
            model,
            self.data.source,
            self.data.target,
            source_language=s.source_language,
            target_language=s.target_language,
            extra={"max_tokens": s.max_tokens},
        )
        translator.save(folder, results=results)
        numbers = tuple((name, f"{value:.4g}") for name, value in results.items())
        facts = CardFacts(results=(("validation", ", ".join(" ".join(pair) for pair in numbers)),))
        write_atomically(folder / "README.md", lambda part: write_card(translator, part, s, facts))


def sentence_loss(model: Any, batch: Batch, smoothing: float) -> Tensor:
    """Cross entropy summed over the tokens of the target; padding never reaches the output layer."""
    hidden = model.hidden(batch.source, batch.target_input, batch.source_lengths)  # (b,t,m)
    real = batch.target_output != 0  # (b,t); 0 is padding in every vocabulary
    return output_cross_entropy(
        hidden[real], model.output.weight, model.output.bias, batch.target_output[real], smoothing=smoothing
    )
