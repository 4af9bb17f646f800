"""Language models of any kind of file that Regard reads."""

from __future__ import annotations

import os
from pathlib import Path

from regard.errors import ArgumentError, FileError
from regard.models.gguf import load_gguf
from regard.models.gguf_files import GGUF_MAGIC
from regard.models.huggingface import load_huggingface
from regard.models.language_model import LanguageModel
from regard.models.llama2c import load_llama2c
from regard.models.pretrained import load_model, read_config

__all__ = ["kind_of_model", "load_language_model"]

# Files that begin so are pickles, which can run code when they are read: those of torch.save and of pickle itself.
_PICKLES = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def load_language_model(path: str | os.PathLike) -> LanguageModel:
    """Load a language model, in float32 and in evaluation mode.

    ``path`` is the folder of a :class:`LanguageModel` of Regard, a Hugging Face folder of Llama, Mistral, Qwen2 or
    GPT-2, a GGUF file, or a flat float32 file of llama2.c. Raises FileError if it is none of them or is damaged.

    >>> load_language_model("no/such/model.gguf")
    Traceback (most recent call last):
        ...
    regard.errors.FileError: no/such/model.gguf: no such file or folder
    """
    kind = kind_of_model(path)
    if kind == "gguf":
        return load_gguf(path)
    if kind == "llama2c":
        return load_llama2c(path)
    if kind == "huggingface":
        return load_huggingface(path, LanguageModel)
    model = load_model(path)
    if not isinstance(model, LanguageModel):
        told = f"{path} holds a {type(model).__name__}, not a language model"
        raise ArgumentError("model", told)
    return model


def kind_of_model(path: str | os.PathLike) -> str:
    """Return "regard", "huggingface", "gguf" or "llama2c", the kind of model that a path seems to hold.

    A file or folder of another kind raises FileError.
    """
    path = Path(path)
    if path.is_dir():
        return "huggingface" if "model_type" in read_config(path) else "regard"
    if not path.exists():
        raise FileError(f"{path}: no such file or folder")
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from None
    if start == GGUF_MAGIC or path.suffix == ".gguf":
        return "gguf"
    if start.startswith(_PICKLES) or path.suffix in (".pt", ".pth", ".pkl", ".ckpt"):
        raise FileError(f"{path}: a pickle, which can run code when it is read: expected GGUF or safetensors")
    if path.suffix == ".bin":
        return "llama2c"
    fix = "expected a folder, a GGUF file, or a flat .bin file of llama2.c"
    if path.suffix == ".safetensors":
        fix = "give the folder that holds it and its config.json"
    raise FileError(f"{path}: not a model that Regard can read: {fix}")
