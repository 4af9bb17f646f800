"""Finds Hugging Face models that read text on this machine, and records their attention."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import ArgumentError, FileError, MissingExtraError, option
from regard.files import read_json
from regard.tasks.minilm import installed_minilm

if TYPE_CHECKING:
    from regard.capture import Recording

__all__ = ["cached_models", "load_with_transformers", "most_positions", "recorded_by_hugging_face"]

# Settings of models for pictures and sound.
_OTHER_SENSES = {
    "vision_config",
    "audio_config",
    "image_size",
    "patch_size",
    "num_mel_bins",
    "num_feat_extract_layers",
}
# Names of the embedding table of the positions.
_POSITION_TABLES = ("position_embeddings", "embed_positions", "wpe")


def _settings(folder: Path) -> dict[str, Any]:
    return read_json(folder / "config.json", argument="model")


def _reads_text(folder: Path) -> bool:
    """Return whether a model reads words and nothing else, by the names in its config."""
    try:
        settings = _settings(folder)
    except FileError:
        return False
    return "vocab_size" in settings and not _OTHER_SENSES & settings.keys()


def cached_models() -> list[Path]:
    """Return the folders of models in the cache of Hugging Face that read text, the newest first, then MiniLM."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    found = [path.parent for path in cache.glob("models--*/snapshots/*/config.json")]
    whole = [one for one in found if any(one.glob("*.safetensors")) and any(one.glob("tokenizer*"))]
    package = installed_minilm()
    minilm = [] if package is None else [package]
    readers = [one for one in whole if _reads_text(one)]
    return sorted(readers, key=lambda one: one.stat().st_mtime, reverse=True) + minilm


def recorded_by_hugging_face(text: str, folder: Path) -> Recording:
    """Return all attention of the model in a folder while it reads a text, or writes an answer to it."""
    import torch

    from regard.capture import capture

    two_sides = _settings(folder).get("is_encoder_decoder") is True  # such a model writes, the others read
    tokenizer, model = load_with_transformers(folder, two_sides)
    inputs = tokenizer(text, return_tensors="pt")
    most = most_positions(model)
    _check_length(inputs["input_ids"].shape[1], most)
    model.eval()
    with torch.no_grad(), capture(model, tokenizer=tokenizer) as seen:
        if two_sides:
            _write(model, inputs, most)
        else:
            model(**inputs)
    return seen


def load_with_transformers(
    folder: Path, two_sides: bool, tokenizer: Path | None = None, **options: Any
) -> tuple[Any, Any]:
    """Return the tokenizer and the model of a folder as objects of Transformers, or raise FileError with the reason.

    ``two_sides`` says that the model is an encoder with a decoder. ``tokenizer`` is the folder with the files of the
    tokenizer, by default that of the model. ``options`` are further ones of ``from_pretrained`` for the model.
    """
    try:
        import transformers
    except ImportError:
        raise MissingExtraError("transformers", "hf", "reading a Hugging Face model") from None
    from safetensors import SafetensorError

    transformers.utils.logging.disable_progress_bar()  # for a second's work it says nothing
    kind = transformers.AutoModelForSeq2SeqLM if two_sides else transformers.AutoModel
    loaded: list[Any] = []
    for auto, place, given in (
        (transformers.AutoTokenizer, tokenizer or folder, {}),
        (kind, folder, options),
    ):
        try:
            loaded.append(
                auto.from_pretrained(place, local_files_only=True, trust_remote_code=False, **given)
            )
        except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
            why = " ".join(str(error).split())
            problem = f"{place} cannot be loaded as a Hugging Face model: {why}"
            raise FileError(problem, argument="model") from error
    return loaded[0], loaded[1]


def _check_length(tokens: int, most: int | None) -> None:
    if most is not None and tokens > most:
        problem = f"the text has {tokens} tokens, the model reads {most}"
        raise ArgumentError(
            "text", problem, f"give a shorter one, or a model that reads more with {option('model')}"
        )


def most_positions(model: Any) -> int | None:
    """Return the number of tokens that a model has positions for, or None if there is no limit."""
    from torch.nn import Embedding

    for name, table in model.named_modules():
        called = name.rpartition(".")[2]
        if isinstance(table, Embedding) and called in _POSITION_TABLES:
            if called == "position_embeddings" and table.padding_idx is not None:
                # RoBERTa counts from the number after that of padding.
                return table.num_embeddings - table.padding_idx - 1
            return getattr(model.config, "max_position_embeddings", table.num_embeddings)
    return None


def _write(model: Any, inputs: Any, most: int | None) -> None:
    """Translate or summarise the text greedily, so that each layer gives one map."""
    wanted = {name: inputs[name] for name in ("input_ids", "attention_mask") if name in inputs}
    longest = min(2 * inputs["input_ids"].shape[1] + 16, 256)  # room for a translation of it
    if most is not None:
        longest = min(longest, most - 1)  # the token that starts it has a position too
    model.generate(**wanted, num_beams=1, do_sample=False, max_new_tokens=longest)
