"""The attention of a model while it reads a text, for any model that can be found by name or folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import ArgumentError, FileError
from regard.models.pretrained import CONFIG, read_config
from regard.tasks.hf_reader import cached_models, recorded_by_hugging_face
from regard.tasks.registry import find_model
from regard.tasks.run import load

if TYPE_CHECKING:
    from regard.capture import Recording

__all__ = ["look"]


def look(
    text: str, model: str | os.PathLike | None = None, *, say: Callable[[str], None] | None = None
) -> Recording:
    """Run a model on a text, and return all of its attention.

    ``model`` is the name or the folder of a model of Regard, or the folder of one of Hugging Face. Without it, a
    model in the cache of Hugging Face is used, or an installed translator. ``say`` is called with a sentence that
    names the model.

    >>> look("The cat sleeps.", "en-fr").by(kind="cross")[0].key_tokens[0]
    ['The', ' cat', ' sleeps', '.', '</s>']
    """
    if not text.strip():
        raise ArgumentError("text", "there is nothing to read")
    say = say or (lambda _: None)
    folder = None if model is None else Path(model)
    if folder is None:
        folder = next(iter(cached_models()), None)
    if folder is not None and (folder / CONFIG).is_file() and not _is_ours(folder):
        say(f"read by the model in {folder}")
        return recorded_by_hugging_face(text, folder)
    place = find_model("translate", model, languages=("en", "fr"))
    predictor = load(place)
    say(f"read by the {type(predictor).__name__.lower()} {place.name}")
    return predictor.attention(predictor([text])[0])


def _is_ours(folder: Path) -> bool:
    try:
        settings = read_config(folder)
    except FileError as error:
        error.rename("model")
        raise
    return "task" in settings and "model_type" not in settings
