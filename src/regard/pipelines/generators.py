"""The pipelines that write texts, on models of Regard and of Hugging Face folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from regard.errors import ArgumentError, FileError, renamed
from regard.files import read_json
from regard.pipelines.base import Pipeline

__all__ = ["GENERATORS", "from_huggingface", "from_regard", "languages_of"]

CONFIG = "config.json"
GENERATORS = ("translation", "summarization", "text-generation")
# The ends of the names of the classes of encoder–decoders in Transformers.
_BOTH_SIDES = ("ForConditionalGeneration", "MTModel")
# What to give as the model of each kind of pipeline.
_FIXES = {
    "translation": "give a model of `regard train translate`, or the folder of a Marian, mBART or T5",
    "summarization": "give a model of `regard train summarize`, or the folder of a BART or T5",
    "text-generation": "give the folder of a Llama, Mistral, Qwen2 or GPT-2, a GGUF file, or a model of "
    "`regard train write`",
}


def languages_of(task: str) -> tuple[str, str] | None:
    """Return the two languages in the name of a task such as "translation_en_to_fr", or None.

    >>> languages_of("translation_en_to_fr"), languages_of("translation")
    (('en', 'fr'), None)
    """
    parts = task.split("_")
    named = len(parts) == 4 and (parts[0], parts[2]) == ("translation", "to") and all(parts)
    return (parts[1], parts[3]) if named else None


def from_huggingface(
    task: str,
    full_task: str | None,
    folder: Path,
    tokenizer: Path,
    device: str | None,
    options: dict[str, Any],
) -> Pipeline:
    """Make a pipeline on a Hugging Face folder, or raise FileError if there is no such model.

    ``full_task`` is the task with its languages, such as "translation_en_to_fr".
    """
    _check_sides(task, folder)
    if task != "text-generation":
        return _on_encoder_decoder(task, full_task or task, folder, tokenizer, device, options)
    from regard.pipelines.generation_options import folder_settings
    from regard.pipelines.text_generation import DEFAULTS, TextGenerationPipeline
    from regard.tasks.write import Writer

    settings = folder_settings(folder, DEFAULTS, task)
    writer = Writer.load(folder, device=device, tokenizer=tokenizer)
    return TextGenerationPipeline(writer, settings, **options)


def _check_sides(task: str, folder: Path) -> None:
    """Raise FileError for an encoder–decoder in text generation, and for any other model in the other tasks."""
    settings = read_json(folder / CONFIG)
    classes = [str(name) for name in settings.get("architectures") or []]
    both = settings.get("is_encoder_decoder") is True or any(name.endswith(_BOTH_SIDES) for name in classes)
    if both == (task == "text-generation"):
        kind = "an encoder–decoder" if both else "no encoder–decoder"
        problem = f"{folder}: model_type is {settings.get('model_type')!r}, which is {kind}"
        raise FileError(f"{problem}: {_FIXES[task]}", argument="model")


def _on_encoder_decoder(
    task: str, full_task: str, folder: Path, tokenizer: Path, device: str | None, options: dict[str, Any]
) -> Pipeline:
    """Make a pipeline on the folder of an encoder–decoder, which Transformers runs."""
    from regard.pipelines.encoder_decoder import EncoderDecoder
    from regard.pipelines.huggingface_text2text import HuggingFaceSummarization, HuggingFaceTranslation

    network = EncoderDecoder(folder, tokenizer, full_task, device)
    if task == "translation":
        return HuggingFaceTranslation(network, languages_of(full_task), **options)
    return HuggingFaceSummarization(network, **options)


def from_regard(
    task: str,
    model: str | os.PathLike | None,
    languages: tuple[str, str] | None,
    device: str | None,
    options: dict[str, Any],
) -> Pipeline:
    """Make a pipeline on a model of Regard, by default on an installed one."""
    if task == "translation":
        from regard.pipelines.text2text import TranslationPipeline

        return TranslationPipeline(_translator(model, languages, device, options), **options)
    if task == "summarization":
        from regard.pipelines.text2text import SummarizationPipeline

        return SummarizationPipeline(_loaded("summarize", task, model, {}, device), **options)
    from regard.pipelines.generation_options import COMMON
    from regard.pipelines.text_generation import DEFAULTS, TextGenerationPipeline

    writer = _loaded("write", task, model, {}, device)
    return TextGenerationPipeline(writer, {**COMMON, **DEFAULTS}, **options)


def _translator(
    model: str | os.PathLike | None,
    languages: tuple[str, str] | None,
    device: str | None,
    options: dict[str, Any],
) -> Any:
    """Return the translator of a model, or that of the languages in the task or the options."""
    named = languages or (options.get("src_lang"), options.get("tgt_lang"))
    if model is None and not all(isinstance(name, str) for name in named):
        problem = '"translation" does not say the languages'
        raise ArgumentError("task", problem, "write translation_en_to_fr, or give src_lang and tgt_lang")
    wanted = {"source_language": named[0], "target_language": named[1]}
    places = {"source_language": "task", "target_language": "task"} if languages else {}
    with renamed(**{"source_language": "src_lang", "target_language": "tgt_lang", **places}):
        return _loaded("translate", "translation", model, wanted, device)


def _loaded(
    name: str, task: str, model: str | os.PathLike | None, options: dict[str, Any], device: str | None
) -> Any:
    """Return the predictor of a model for a task of Regard."""
    from regard.tasks import find_task

    kind = find_task(name)
    try:
        folder = kind.find(None if model is None else os.fspath(model), options)
    except FileError as error:
        if error.argument != "model":
            raise
        problem = f"{error.in_words()}: nothing is downloaded: {_FIXES[task]}"
        raise FileError(problem, argument="model") from None
    return kind.load(folder, device)
