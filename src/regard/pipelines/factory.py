"""``regard.pipeline``, which finds a model for a task and makes its pipeline."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import UnknownNameError
from regard.files import read_json
from regard.pipelines.base import Pipeline

if TYPE_CHECKING:
    from regard.pipelines.networks import TextNetwork

__all__ = ["PIPELINES", "pipeline"]

CONFIG = "config.json"


@dataclass(frozen=True)
class _Kind:
    """A kind of pipeline, with the task of Regard whose models it can use."""

    task: str
    network: str  # the class of regard.models that a Hugging Face folder is read into


PIPELINES: dict[str, _Kind] = {
    "text-classification": _Kind("classify", "TextClassifier"),
    "question-answering": _Kind("answer", "SpanReader"),
    "fill-mask": _Kind("encode", "MaskedLanguageModel"),
    "feature-extraction": _Kind("encode", "Encoder"),
}
ALIASES = {"sentiment-analysis": "text-classification"}


def pipeline(
    task: str, model: str | os.PathLike | None = None, *, device: str | None = None, **options: Any
) -> Pipeline:
    """Make a pipeline, which takes texts and returns the dictionaries and lists that Transformers 4 returned.

    ``task`` is "text-classification" (or "sentiment-analysis"), "question-answering", "fill-mask" or
    "feature-extraction". ``model`` is a model of Regard by its name or folder, or the folder of a Hugging Face model
    of the right kind. Without it, an installed model is used. ``options`` are defaults for the options of each call.
    ``pipeline.attention(result)`` returns the attention of the model for a result.

    >>> pipeline("question-answring")
    Traceback (most recent call last):
        ...
    regard.errors.UnknownNameError: task: unknown name 'question-answring': did you mean 'question-answering'? ...
    """
    name = ALIASES.get(task, task)
    if name not in PIPELINES:
        raise UnknownNameError("task", task, [*PIPELINES, *ALIASES])
    folder = _huggingface_folder(model)
    if folder is not None:
        return _from_huggingface(name, folder, device, options)
    return _from_regard(name, model, device, options)


def _huggingface_folder(model: str | os.PathLike | None) -> Path | None:
    """Return the folder of a Hugging Face model, or None if the model is one of Regard."""
    if model is None or not (Path(model) / CONFIG).is_file():
        return None
    return None if "task" in read_json(Path(model) / CONFIG) else Path(model)


def _from_huggingface(task: str, folder: Path, device: str | None, options: dict[str, Any]) -> Pipeline:
    """Make a pipeline on a Hugging Face folder, which is read into a model of Regard."""
    from regard import models
    from regard.pipelines.networks import TextNetwork

    network = TextNetwork.from_huggingface(folder, getattr(models, PIPELINES[task].network), device)
    if task == "text-classification":
        from regard.pipelines.text_classification import HuggingFaceScores, TextClassificationPipeline

        return TextClassificationPipeline(HuggingFaceScores(network), **options)
    if task == "question-answering":
        from regard.pipelines.question_answering import HuggingFaceAnswers, QuestionAnsweringPipeline

        return QuestionAnsweringPipeline(HuggingFaceAnswers(network), **options)
    return _on_encoder(task, network, options)


def _on_encoder(task: str, network: TextNetwork, options: dict[str, Any]) -> Pipeline:
    if task == "fill-mask":
        from regard.pipelines.fill_mask import FillMaskPipeline

        return FillMaskPipeline(network, **options)
    from regard.pipelines.feature_extraction import FeatureExtractionPipeline

    return FeatureExtractionPipeline(network, **options)


def _from_regard(
    task: str, model: str | os.PathLike | None, device: str | None, options: dict[str, Any]
) -> Pipeline:
    """Make a pipeline on a model of Regard, by default on an installed one."""
    from regard import models
    from regard.pipelines.networks import TextNetwork
    from regard.tasks import find_task

    found = find_task(PIPELINES[task].task)
    predictor = found.load(found.find(None if model is None else os.fspath(model), {}), device)
    if task == "text-classification":
        from regard.pipelines.text_classification import RegardScores, TextClassificationPipeline

        return TextClassificationPipeline(RegardScores(predictor), **options)
    if task == "question-answering":
        from regard.pipelines.question_answering import QuestionAnsweringPipeline, RegardAnswers

        return QuestionAnsweringPipeline(RegardAnswers(predictor), **options)
    network = TextNetwork.from_encoder(predictor, getattr(models, PIPELINES[task].network))
    return _on_encoder(task, network, options)
