"""The translator that a training starts from."""

from __future__ import annotations

from dataclasses import replace

from regard.errors import ArgumentError, option, renamed
from regard.models import Seq2Seq, Transformer
from regard.tasks.encoder_decoder import encoder_decoder
from regard.tasks.translate.settings import TranslationSettings
from regard.tasks.translate.translator import Translator

__all__ = ["starting_model", "starting_translator"]


def starting_translator(settings: TranslationSettings) -> Translator:
    """Return the translator that ``settings.start`` names, or raise if it does not fit the settings.

    >>> starting_translator(TranslationSettings(start="en-fr", target_language="zh"))
    Traceback (most recent call last):
        ...
    regard.errors.ArgumentError: target_language: en-fr translates en to fr, not en to zh: ...
    """
    assert settings.start is not None
    with renamed(model="start"):
        translator = Translator.load(settings.start, device="cpu")
    for name in ("source_language", "target_language"):
        has, wanted = getattr(translator, name), getattr(settings, name)
        if has != wanted:
            has_both = f"{translator.source_language} to {translator.target_language}"
            problem = f"{settings.start} translates {has_both}, not {settings.source_language} to "
            raise ArgumentError(name, f"{problem}{settings.target_language}", f"say {option(name, has)}")
    shared = translator.source is translator.target
    if shared != settings.shared_vocabulary:
        problem = f"{settings.start} has {'one vocabulary' if shared else 'two vocabularies'}"
        raise ArgumentError("shared_vocabulary", problem, f"say {option('shared_vocabulary', shared)}")
    return translator


def starting_model(settings: TranslationSettings) -> Transformer | Seq2Seq:
    """Return the model that ``settings.start`` names, in training mode and with the dropout of the settings."""
    found = starting_translator(settings).model
    dropout = {"dropout": settings.dropout}
    if isinstance(found, Transformer):
        dropout["attention_dropout"] = settings.attention_dropout
    model = encoder_decoder(replace(found.config, **dropout))
    model.load_state_dict(found.state_dict())
    return model.train()
