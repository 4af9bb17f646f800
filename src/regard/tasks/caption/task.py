"""The task of describing pictures, with its objective, its model and its card."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.decoding import DecodingOptions
from regard.images.image_set import background_of
from regard.models import CaptionNetwork, CaptionNetworkConfig
from regard.settings import part_of
from regard.tasks.base import Task
from regard.tasks.caption.captioner import Captioner
from regard.tasks.caption.data import CaptionBatch, CaptionData, CaptionedPictures, prepare, run_files
from regard.tasks.caption.evaluation import CaptionReport, evaluate_captioners, peak_scores
from regard.tasks.caption.settings import CaptionEvaluationSettings, CaptionSettings
from regard.tasks.card import Card, CardFacts, training_command
from regard.tasks.encoder_decoder import target_loss
from regard.tasks.objective import BatchedObjective
from regard.tasks.pairs import counted_rows
from regard.text import BucketedBatches

__all__ = ["CaptionObjective", "CaptionTask"]


class CaptionTask(Task):
    """The task of describing a picture in words."""

    name: ClassVar[str] = "caption"
    settings: ClassVar[Any] = CaptionSettings
    predictor: ClassVar[Any] = Captioner
    evaluation: ClassVar[Any] = CaptionEvaluationSettings

    def check(self, settings: CaptionSettings) -> None:
        """Raise an error if the settings make no model."""
        _config(settings, target_size=10)

    def prepare(
        self, settings: CaptionSettings, folder: Path, *, learn: bool, show: bool = False
    ) -> CaptionedPictures:
        """Read and encode the pictures and their captions."""
        return prepare(settings, folder, learn=learn, show=show)

    def shared_files(self, settings: CaptionSettings, folder: Path) -> list[Path]:
        """Return the file of the vocabulary."""
        return run_files(folder)

    def describe(self, settings: CaptionSettings, data: CaptionedPictures) -> list[str]:
        """Return the numbers of pictures and tokens as text."""
        lines = counted_rows(data.train, "pictures", ("picture", "caption"))
        lines.append(f"validation: {len(data.valid):,} pictures held out")
        return [*lines, f"vocabulary: {settings.vocabulary}, {len(data.vocabulary):,} tokens"]

    def next_command(self, settings: CaptionSettings, model: str) -> str:
        """Return the command that describes pictures, and shows where each word looks if the model has attention."""
        attends = settings.score != "none"
        return f"regard caption --model {model} PICTURE" + (" --attention" if attends else "")

    def build(self, settings: CaptionSettings, data: CaptionedPictures) -> nn.Module:
        """Return a new model with random weights."""
        return CaptionNetwork(_config(settings, target_size=len(data.vocabulary)))

    def objective(self, settings: CaptionSettings, data: CaptionedPictures) -> CaptionObjective:
        """Return the objective, which has the batches, the loss and the validation."""
        return CaptionObjective(self, settings, data)

    def evaluate(
        self, predictors: Mapping[str, Captioner], options: CaptionEvaluationSettings
    ) -> CaptionReport:
        """Measure exact captions, by number of objects, and where the attention to objects has its peak."""
        return evaluate_captioners(predictors, options)

    def card(self, predictor: Captioner, settings: CaptionSettings | None, facts: CardFacts) -> Card:
        """Return the card of a captioner."""
        command = "" if settings is None else training_command(self, settings)
        use = "Use it with `regard caption --model FOLDER picture.png`."
        return Card("Captioner of pictures", predictor.model, command, use, ("picture", "caption"), facts)

    def samples(self, predictor: Captioner, texts: list[str] | None) -> tuple[tuple[str, str], ...]:
        """Return files of pictures and their captions."""
        return tuple((Path(one.source).name, one.text) for one in predictor.caption(texts or []))


def _config(settings: CaptionSettings, target_size: int) -> CaptionNetworkConfig:
    attention = None if settings.score == "none" else settings.score
    values = part_of(settings, CaptionNetworkConfig)
    return CaptionNetworkConfig(**values, attention=attention, target_size=target_size)


class CaptionObjective(BatchedObjective):
    """Cross entropy with label smoothing, and exact greedy captions to validate."""

    metric = "exact"
    # Below this percentage, as with captions by people, the perplexity tells better which of two models is better.
    floor = 10.0
    below_floor = "perplexity"

    def __init__(self, task: Task, settings: CaptionSettings, data: CaptionedPictures):
        super().__init__(task, settings, data)
        self.valid = data.valid[: settings.validate_pictures]
        reader: Any = data.reader
        limits = {"max_tokens": reader.numbers, "max_target_tokens": 10 * settings.max_caption}
        self.valid_data = CaptionData.in_memory(
            self.valid, reader, data.vocabulary, deduplicate=False, **limits
        )
        self.valid_data.reader = reader

    def loss(self, model: nn.Module, batch: CaptionBatch) -> Tensor:
        """Return the cross entropy of the captions, summed over their tokens, with the penalty of the settings."""
        return caption_loss(
            model,
            batch,
            smoothing=self.settings.label_smoothing,
            doubly_stochastic=self.settings.doubly_stochastic,
        )

    def pictures_read(self, batch: CaptionBatch) -> int:
        """Return the number of pictures, for the speed that is shown."""
        return len(batch)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Return the percentage of captions that are exactly right, and the perplexity, on the validation pictures.

        For scenes there is also the percentage of the words of objects at which the attention lies on the object.
        """
        captioner = self.predictor(model)
        found = captioner.caption(self.valid_pictures, DecodingOptions(beams=1))
        right = sum(
            captioner.is_exact(one, caption) for one, (_, caption) in zip(found, self.valid, strict=True)
        )
        results = {"exact": 100 * right / len(self.valid), "perplexity": self._perplexity(model)}
        scenes = self.data.reader.scenes
        if captioner.attends and scenes is not None and not self.settings.data:
            boxes = [scenes.boxes(name) for name, _ in self.valid]
            peaks = peak_scores(captioner, found, boxes, scenes.language)
            results["on_object"] = peaks.get("on_object", 0.0)
        return results

    @functools.cached_property
    def valid_pictures(self) -> list[np.ndarray]:
        """The pictures that are captioned to validate, (h,w,c) each."""
        # A warning about a picture was given when its bytes were encoded for the perplexity.
        with warnings.catch_warnings(action="ignore"):
            return [self.data.reader.read(name, "valid") for name, _ in self.valid]

    def _perplexity(self, model: nn.Module) -> float:
        device, loss, tokens = next(model.parameters()).device, 0.0, 0
        for batch in BucketedBatches(self.valid_data, tokens=1000, shuffle=False).epoch(0):
            loss += float(caption_loss(model, self.to_device(batch, device)))
            tokens += batch.tokens
        return float(torch.tensor(loss / max(1, tokens)).exp())

    def predictor(self, model: nn.Module) -> Captioner:
        """Return the model as a captioner."""
        s = self.settings
        extra: dict[str, Any] = {"max_caption": s.max_caption}
        scenes = self.data.reader.scenes
        if scenes is not None:
            extra |= {"language": s.language, "words": list(scenes.scenes("valid").pictures.words)}
            extra["objects"] = [name for name in ("digits", "garments") if getattr(s, name) is not None]
        extra["background"] = background_of(np.stack(self.valid_pictures))
        return Captioner(model, self.data.vocabulary, extra)


def caption_loss(
    model: Any, batch: CaptionBatch, *, smoothing: float = 0.0, doubly_stochastic: float = 0.0
) -> Tensor:
    """Return the cross entropy summed over the tokens of the captions, without their padding.

    ``doubly_stochastic`` is the weight of the penalty of Xu et al. (2015, equation 14), which is added for each
    picture: the sum over all cells of the square of 1 minus the attention that the cell gets from all tokens.
    """
    memory = model.encode(batch.pixels.float() / 255)
    if not doubly_stochastic:
        return target_loss(model, model.decode(memory, batch.target_input), batch.target_output, smoothing)
    hidden, weights = model.decode_with_weights(memory, batch.target_input)  # (b,t,m), (b,t,k)
    real = batch.target_output != 0  # (b,t)
    attended = (weights.float() * real[..., None]).sum(dim=1)  # (b,k)
    penalty = (1 - attended).square().sum()
    return target_loss(model, hidden, batch.target_output, smoothing) + doubly_stochastic * penalty
