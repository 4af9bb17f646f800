"""Language models of other programs as the parts of a writer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import FileError
from regard.models import LanguageModel
from regard.models.gguf import gguf_config, load_gguf
from regard.models.gguf_files import GGUFFile
from regard.models.huggingface import load_huggingface
from regard.models.huggingface_decoders import huggingface_config
from regard.models.language_files import kind_of_model
from regard.models.llama2c import load_llama2c
from regard.text import PretrainedVocabulary
from regard.text.chat import ChatTemplate, template_of_folder
from regard.text.language_tokenizers import stop_ids

__all__ = ["WriterParts", "is_pretrained", "load_parts", "template_from_json", "template_to_json"]

# The tokenizer beside a flat file of llama2.c.
TOKENIZER = "tokenizer.bin"


@dataclass(frozen=True)
class WriterParts:
    """The model, the vocabulary and the chat template in a file or folder, and the tokens that end a text."""

    model: LanguageModel
    vocabulary: PretrainedVocabulary
    ends: tuple[int, ...]
    chat: ChatTemplate | None = None


def is_pretrained(path: str | os.PathLike) -> bool:
    """Return whether a path is a file, or a folder of Hugging Face, and not a folder or a name of Regard."""
    path = Path(path)
    if path.is_dir():
        return (path / "config.json").is_file() and kind_of_model(path) == "huggingface"
    return path.is_file() or path.suffix in (".gguf", ".bin")


def load_parts(path: str | os.PathLike, tokenizer: Path | None = None) -> WriterParts:
    """Load a GGUF file, a flat file of llama2.c, or a Hugging Face folder of Llama, Mistral, Qwen2 or GPT-2.

    Raises FileError if it is damaged or of another kind, or if its tokenizer does not fit the model. The tokenizer is
    read before the weights. ``tokenizer`` is the folder with the files of the tokenizer of a Hugging Face folder, by
    default the same folder.
    """
    path, kind = Path(path), kind_of_model(path)
    if kind == "gguf":
        return _gguf(path)
    if kind == "llama2c":
        return _llama2c(path)
    if kind == "huggingface":
        return _huggingface(path, tokenizer or path)
    raise FileError(f"{path}: a model of Regard, which Writer.load reads")


def _gguf(path: Path) -> WriterParts:
    file = GGUFFile(path)
    size = gguf_config(file).vocabulary_size
    vocabulary = PretrainedVocabulary.from_gguf(file.metadata, str(path), size=size)
    further = [file.metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eot", "eom")]
    source = file.metadata.get("tokenizer.chat_template")
    if source is not None and not isinstance(source, str):
        raise FileError(f"{path}: tokenizer.chat_template: expected a text, got {type(source).__name__}")
    chat = None if source is None else ChatTemplate(source, _specials(vocabulary), str(path))
    return WriterParts(load_gguf(file), vocabulary, _ends(vocabulary, further), chat)


def _llama2c(path: Path) -> WriterParts:
    model = load_llama2c(path)
    size = model.config.vocabulary_size
    vocabulary = PretrainedVocabulary.from_llama2c(path.parent / TOKENIZER, size=size)
    # The stories of llama2.c end with the token that begins the next one.
    return WriterParts(model, vocabulary, _ends(vocabulary, [vocabulary.bos]))


def _huggingface(folder: Path, tokenizer: Path) -> WriterParts:
    size = huggingface_config(folder).vocabulary_size
    vocabulary = PretrainedVocabulary.of_language_model(tokenizer, size=size)
    chat = template_of_folder(tokenizer, _specials(vocabulary))
    model = load_huggingface(folder, LanguageModel)
    return WriterParts(model, vocabulary, _ends(vocabulary, stop_ids(folder)), chat)


def _specials(vocabulary: PretrainedVocabulary) -> dict[str, str]:
    """Return the names of special tokens in chat templates, such as ``bos_token``."""
    return {f"{role}_token": token for role, token in vocabulary.names.items() if role != "start"}


def _ends(vocabulary: PretrainedVocabulary, further: list[Any]) -> tuple[int, ...]:
    known = [number for number in further if isinstance(number, int) and 0 <= number < len(vocabulary)]
    return tuple(sorted({vocabulary.eos, *known}))


def template_to_json(chat: Any) -> dict[str, Any] | None:
    """Return a chat template as JSON values, or None if it is of another class."""
    if not isinstance(chat, ChatTemplate):
        return None
    return {"source": chat.source, "specials": dict(chat.specials)}


def template_from_json(values: Any, where: str) -> ChatTemplate | None:
    """Return the chat template of :func:`template_to_json`, or raise FileError, which names the file ``where``."""
    if values is None:
        return None
    source = values.get("source") if isinstance(values, Mapping) else None
    specials = values.get("specials") if isinstance(values, Mapping) else None
    texts = specials.values() if isinstance(specials, Mapping) else [None]
    if not isinstance(source, str) or not all(isinstance(text, str) for text in texts):
        raise FileError(f"{where}: chat_template: expected its source and its special tokens")
    return ChatTemplate(source, dict(specials or {}), where)
