"""Checks of everything that ``config.json`` says about a translator besides its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.errors import ArgumentError, FileError
from regard.models.pretrained import CONFIG
from regard.shapes import whole_number
from regard.tasks.translate.reading import checked_reading
from regard.text import Vocabulary

__all__ = ["check_translator"]


def check_translator(
    folder: Path, settings: dict[str, Any], config: Any, source: Vocabulary, target: Vocabulary
) -> None:
    """Refuse settings of a wrong kind or size, and vocabularies that the model was not trained with."""
    where = folder / CONFIG
    try:
        for name in ("source_language", "target_language"):
            if not isinstance(settings.get(name, ""), str):
                raise ArgumentError(name, f"expected the name of a language, got {settings[name]!r}")
        whole_number("max_tokens", settings.get("max_tokens", 1), least=1)
        checked_reading(settings.get("alignment"), config)
    except ArgumentError as error:
        raise FileError(f"{where}: {error}") from None
    for name, vocabulary in (("source_size", source), ("target_size", target)):
        if len(vocabulary) != getattr(config, name):
            told = f"{name} is {getattr(config, name)}, but the vocabulary beside it has {len(vocabulary)} tokens"
            raise FileError(f"{where}: {told}")
