"""Pretrained encoders that a task starts from, each with its vocabulary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.errors import ArgumentError, FileError
from regard.models import Encoder, EncoderConfig, HuggingFaceFolder, MaskedLanguageModel, load_model
from regard.models.pretrained import CONFIG, read_config
from regard.models.sizes import without_memory
from regard.tasks.minilm import MINILM, minilm_folder
from regard.tasks.registry import model_in
from regard.text import PretrainedVocabulary, Vocabulary, load_vocabulary

__all__ = ["starting_config", "starting_encoder", "starting_masked_model", "starting_vocabulary"]

VOCABULARY = "tokenizer.json"  # in a folder of Regard


def starting_encoder(settings: Any) -> tuple[Encoder, Vocabulary]:
    """Return the encoder that ``settings.start`` names, and its vocabulary.

    It is "minilm", a Hugging Face folder of BERT, RoBERTa or DistilBERT, or the folder of a model or a run of the task
    ``encode``. The encoder is in training mode and has the dropout of the settings.
    """
    folder = _folder(settings.start)
    config = starting_config(settings)
    weights = (_ours(folder) if _is_ours(folder) else HuggingFaceFolder(folder).load(Encoder)).state_dict()
    with without_memory(str(folder / CONFIG)):
        encoder = Encoder(config)
    encoder.load_state_dict(weights, assign=True)
    return encoder.train(), starting_vocabulary(settings)


def starting_masked_model(settings: Any) -> MaskedLanguageModel | None:
    """Return the masked language model that ``settings.start`` names, or None if it has no output for masked words.

    It is in training mode and has the dropout of the settings.
    """
    folder = _folder(settings.start)
    if _is_ours(folder):
        _config(folder)  # raises if it is no encoder
        found = load_model(folder)
        if not isinstance(found, MaskedLanguageModel):
            return None
    else:
        source = HuggingFaceFolder(folder)
        if not source.has(MaskedLanguageModel):
            return None
        found = source.load(MaskedLanguageModel)
    dropout = {name: getattr(settings, name) for name in ("dropout", "attention_dropout")}
    with without_memory(str(folder / CONFIG)):
        model = MaskedLanguageModel(replace(found.config, **dropout))
    model.load_state_dict(found.state_dict(), assign=True)
    return model.train()


def starting_config(settings: Any) -> EncoderConfig:
    """Return the settings of the encoder that ``settings.start`` names, with the dropout of ``settings``."""
    config = _config(_folder(settings.start))
    dropout = {name: getattr(settings, name) for name in ("dropout", "attention_dropout")}
    return replace(config, **dropout)


def starting_vocabulary(settings: Any) -> Vocabulary:
    """Return the vocabulary of the encoder that ``settings.start`` names."""
    folder = _folder(settings.start)
    if not _is_ours(folder):
        return PretrainedVocabulary.from_folder(folder, size=_config(folder).vocabulary_size)
    vocabulary = load_vocabulary(folder / VOCABULARY)
    if len(vocabulary) != _config(folder).vocabulary_size:
        raise FileError(
            f"{folder / VOCABULARY} is not the vocabulary of the model beside it", argument="start"
        )
    return vocabulary


def _folder(start: str) -> Path:
    """Return the folder of a pretrained encoder. In the folder of a run, it is the best model."""
    place = model_in(Path(start))
    if place is not None:
        return place
    if start == MINILM:
        return minilm_folder("start")
    problem = f"{start} is neither {MINILM} nor a folder with a {CONFIG}"
    raise ArgumentError(
        "start", problem, "name a folder of BERT, RoBERTa or DistilBERT, or of `regard train encode`"
    )


def _is_ours(folder: Path) -> bool:
    return "model_type" not in read_config(folder)


def _config(folder: Path) -> EncoderConfig:
    if not _is_ours(folder):
        return HuggingFaceFolder(folder).encoder_config()
    from regard.models import KINDS

    values = read_config(folder).get("model")
    kind = values.get("kind") if isinstance(values, dict) else None
    if not isinstance(values, dict) or kind not in ("encoder", "masked_language_model"):
        problem = f"{folder} holds a model of kind {kind!r}, not an encoder"
        raise ArgumentError("start", problem, "name one that `regard train encode` made")
    try:
        return KINDS[kind][0].from_json(values).part(EncoderConfig)
    except ArgumentError as error:
        raise FileError(f"{folder / CONFIG}: {error}", argument="start") from None


def _ours(folder: Path) -> Encoder:
    _config(folder)  # raises if it is no encoder
    model = load_model(folder)
    return model if isinstance(model, Encoder) else model.encoder
