"""``regard.pipeline``, which finds a model for a task and makes its pipeline."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import ArgumentError, DtypeError, FileError, UnknownNameError
from regard.files import read_json
from regard.pipelines import generators
from regard.pipelines.base import Pipeline, warn_caller

if TYPE_CHECKING:
    import torch

    from regard.pipelines.networks import TextNetwork

__all__ = ["PIPELINES", "pipeline"]

CONFIG = "config.json"
MASKED = "masked_language_model"  # the kind of the models of ``regard train encode``


@dataclass(frozen=True)
class _Kind:
    """A kind of pipeline, with the task of Regard whose models it can use."""

    task: str
    # The class of regard.models that the Hugging Face folder of an encoder is read into.
    network: str = ""


PIPELINES: dict[str, _Kind] = {
    "text-classification": _Kind("classify", "TextClassifier"),
    "question-answering": _Kind("answer", "SpanReader"),
    "fill-mask": _Kind("encode", "MaskedLanguageModel"),
    "feature-extraction": _Kind("encode", "Encoder"),
    "translation": _Kind("translate"),
    "summarization": _Kind("summarize"),
    "text-generation": _Kind("write"),
}
ALIASES = {"sentiment-analysis": "text-classification"}
# Names in Transformers that stand for more than one of these pipelines.
SEVERAL = {"text2text-generation": ("summarization", "translation_en_to_fr")}
# The ends of the names of classes in Transformers, and the tasks of such models.
ARCHITECTURES = {
    "ForSequenceClassification": "text-classification",
    "ForQuestionAnswering": "question-answering",
    "ForMaskedLM": "fill-mask",
    "ForCausalLM": "text-generation",
    "LMHeadModel": "text-generation",
    "MTModel": "translation",
    "Model": "feature-extraction",
}
FOLDER = "give the folder of a BERT, RoBERTa or DistilBERT, or a model of Regard"


def pipeline(
    task: str | None = None,
    model: str | os.PathLike | None = None,
    *,
    tokenizer: str | os.PathLike | None = None,
    framework: str | None = None,
    device: int | str | torch.device | None = None,
    **options: Any,
) -> Pipeline:
    """Make a pipeline, which takes texts and returns the dictionaries and lists that Transformers 4 returned.

    ``task`` is "text-classification" (or "sentiment-analysis"), "question-answering", "fill-mask",
    "feature-extraction", "translation_en_to_fr" (or other languages), "summarization" or "text-generation", by default
    that of the model. ``model`` is a model of Regard by its name or folder, or the folder of a Hugging Face model of
    the right kind. Without it, an installed model is used. Nothing is downloaded. ``tokenizer`` is the model again, or
    another folder with the tokenizer of a Hugging Face model. ``device`` is that of torch, or a number as in
    Transformers, where -1 is the CPU. ``framework`` can only be "pt". ``options`` are defaults for the options of each
    call. ``pipeline.attention(result)`` returns the attention of the model for a result.

    >>> pipeline("question-answring")
    Traceback (most recent call last):
        ...
    regard.errors.UnknownNameError: task: unknown name 'question-answring': did you mean 'question-answering'? ...
    """
    if framework not in (None, "pt"):
        raise ArgumentError("framework", f"Regard runs models with torch, got {framework!r}", "use 'pt'")
    for argument, value in (("model", model), ("tokenizer", tokenizer)):
        if not isinstance(value, str | os.PathLike | None):
            raise DtypeError(argument, f"expected a name or a folder, got {type(value).__name__}")
    name, languages = _checked_task(task, model), generators.languages_of(str(task))
    folder, place = _huggingface_folder(model), _device(device)
    if folder is not None:
        return _from_huggingface(name, task, folder, _tokenizer_folder(tokenizer, folder), place, options)
    if tokenizer is not None and (model is None or os.fspath(tokenizer) != os.fspath(model)):
        problem = f"a model of Regard has its own tokenizer, got {os.fspath(tokenizer)!r}"
        raise ArgumentError("tokenizer", problem, "leave it out")
    if name in generators.GENERATORS:
        return generators.from_regard(name, model, languages, place, options)
    return _from_regard(name, model, place, options)


def _checked_task(task: str | None, model: str | os.PathLike | None) -> str:
    """Return the name of a pipeline, by default that of the task of the model."""
    if task is None:
        if model is None:
            raise ArgumentError("task", f"expected {', '.join(PIPELINES)} or a model, got nothing")
        return _task_of(model)
    name = ALIASES.get(task, task) if isinstance(task, str) else task
    if isinstance(task, str) and generators.languages_of(task):
        return "translation"
    if isinstance(task, str) and task in SEVERAL:
        problem = f"{task!r} does not say what the model does"
        first, second = SEVERAL[task]
        raise ArgumentError("task", problem, f"use {first!r}, or {second!r} or other languages")
    if name not in list(PIPELINES):
        raise UnknownNameError(
            "task", task, [*PIPELINES, "translation_en_to_fr", "translation_en_to_zh", *ALIASES]
        )
    return name


def _task_of(model: str | os.PathLike) -> str:
    """Return the pipeline of the task of a model."""
    if Path(model).is_file():
        return "text-generation"  # a GGUF file or a file of llama2.c
    folder = _huggingface_folder(model) or _found("encode", model)
    settings = read_json(folder / CONFIG)
    task = settings.get("task")
    if task == "encode":
        masked = (settings.get("model") or {}).get("kind") == MASKED
        return "fill-mask" if masked else "feature-extraction"
    for name, kind in PIPELINES.items():
        if task is not None and task == kind.task:
            return name
    for architecture in settings.get("architectures") or []:
        for end, name in ARCHITECTURES.items():
            if str(architecture).endswith(end):
                return name
    problem = (
        f"{os.fspath(model)} does not tell its task" if task is None else f"there is no pipeline for {task}"
    )
    raise ArgumentError("task", problem, f"give one of {', '.join(PIPELINES)}")


def _device(device: Any) -> str | None:
    """Return the name of a device in torch. A number is that of a GPU as in Transformers 4, and -1 is the CPU."""
    import torch

    if isinstance(device, bool) or not isinstance(device, int | str | torch.device | None):
        raise DtypeError(
            "device", f"expected a number or the name of a device, got {device!r}", "choose 'cpu'"
        )
    if not isinstance(device, int):
        return None if device is None else str(device)
    if device < 0:
        return "cpu"
    if torch.cuda.is_available():
        return f"cuda:{device}"
    if torch.backends.mps.is_available():
        return f"mps:{device}"
    warn_caller(f"device: {device} is a GPU, and torch finds none: the CPU is used")
    return "cpu"


def _huggingface_folder(model: str | os.PathLike | None) -> Path | None:
    """Return the folder of a Hugging Face model, or None if the model is one of Regard."""
    if model is None or not (Path(model) / CONFIG).is_file():
        return None
    return None if "task" in read_json(Path(model) / CONFIG) else Path(model)


def _tokenizer_folder(tokenizer: str | os.PathLike | None, folder: Path) -> Path:
    """Return the folder with the files of the tokenizer, by default that of the model."""
    if tokenizer is None:
        return folder
    if not Path(tokenizer).is_dir():
        raise FileError(f"there is no folder {os.fspath(tokenizer)}: leave it out", argument="tokenizer")
    return Path(tokenizer)


def _from_huggingface(
    task: str,
    full_task: str | None,
    folder: Path,
    tokenizer: Path,
    device: str | None,
    options: dict[str, Any],
) -> Pipeline:
    """Make a pipeline on a Hugging Face folder. ``full_task`` is the task with its languages."""
    if task in generators.GENERATORS:
        return generators.from_huggingface(task, full_task, folder, tokenizer, device, options)
    from regard import models
    from regard.pipelines.networks import TextNetwork

    kind = getattr(models, PIPELINES[task].network)
    network = TextNetwork.from_huggingface(folder, kind, device, tokenizer)
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

    name = PIPELINES[task].task
    folder = _installed_masked_model() if task == "fill-mask" and model is None else _found(name, model)
    predictor = find_task(name).load(folder, device)
    if task == "text-classification":
        from regard.pipelines.text_classification import RegardScores, TextClassificationPipeline

        return TextClassificationPipeline(RegardScores(predictor), **options)
    if task == "question-answering":
        from regard.pipelines.question_answering import QuestionAnsweringPipeline, RegardAnswers

        return QuestionAnsweringPipeline(RegardAnswers(predictor), **options)
    network = TextNetwork.from_encoder(predictor, getattr(models, PIPELINES[task].network))
    return _on_encoder(task, network, options)


def _found(task: str, model: str | os.PathLike | None) -> Path:
    """Return the folder of a model of Regard by its name or folder, or of the installed model for a task."""
    from regard.tasks import find_task

    try:
        return find_task(task).find(None if model is None else os.fspath(model), {})
    except FileError as error:
        if error.argument != "model":
            raise
        problem = f"{error.in_words()}: nothing is downloaded"
        raise FileError(f"{problem}: {FOLDER}", argument="model") from None


def _installed_masked_model() -> Path:
    """Return the folder of an installed encoder of Regard that has its output for masked words."""
    from regard.tasks import installed_models

    for one in installed_models():
        if one.task == "encode" and one.kind == MASKED:
            return one.folder
    problem = "no model for fill-mask is installed"
    raise ArgumentError("model", problem, f"{FOLDER}, with its output for masked words")
