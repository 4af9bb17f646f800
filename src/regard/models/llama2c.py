"""The flat float32 files of the program llama2.c, such as ``stories15M.bin``.

Such a file holds seven numbers and then all weights of a Llama without names. Its format is that of version 0 of
``export.py`` in llama2.c.
"""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.errors import ArgumentError, FileError
from regard.models.config import LanguageModelConfig
from regard.models.decoder_files import assemble
from regard.models.decoder_names import GGUF_LLAMA
from regard.models.language_model import LanguageModel

__all__ = ["load_llama2c"]

_HEADER = struct.Struct("<7i")
_SETTINGS = ("width", "feed_forward", "layers", "heads", "kv_heads", "vocabulary_size", "max_length")
# The first numbers of later versions of the format, and of zip files, which torch.save writes.
_OTHER_FORMATS = {
    b"ak42": "version 1 or 2 of the format of llama2.c",
    b"PK\x03\x04": "a pickle of torch.save",
}


def load_llama2c(path: str | os.PathLike) -> LanguageModel:
    """Load a flat file of llama2.c as a language model, in float32 and in evaluation mode.

    Raises FileError if it is not such a file, or if its size is not that of the settings in it. All sizes are compared
    before memory is allocated.
    """
    path = Path(path)
    config = _config(path)
    return assemble(config, GGUF_LLAMA, FlatFile(path, config), str(path))


def _config(path: Path) -> LanguageModelConfig:
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER.size)
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from None
    for start, kind in _OTHER_FORMATS.items():
        if start in (head[:4], head[:4][::-1]):
            raise FileError(
                f"{path}: {kind}, which Regard cannot read: expected a flat float32 file of version 0"
            )
    if len(head) < _HEADER.size:
        raise FileError(f"{path}: cut short, or not a file of llama2.c: it has {len(head)} bytes")
    values = dict(zip(_SETTINGS, _HEADER.unpack(head), strict=True))
    # A negative size of the vocabulary says that the output layer is not tied.
    tied, values["vocabulary_size"] = values["vocabulary_size"] > 0, abs(values["vocabulary_size"])
    try:
        return LanguageModelConfig(
            **values,
            dropout=0.0,
            activation="swiglu",
            bias=False,
            norm_type="rms",
            norm_epsilon=1e-5,
            scaled_embeddings=False,
            positions="rotary",
            rotary_layout="llama",
            tied_output=tied,
            output_bias=False,
        )
    except ArgumentError as error:
        raise FileError(f"{path}: not a flat float32 file of llama2.c: {error}") from None


class FlatFile:
    """The tensors of a flat file, by the names that GGUF files have for them."""

    def __init__(self, path: Path, config: LanguageModelConfig):
        self.path = path
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._starts: dict[str, int] = {}
        place = _HEADER.size
        size = path.stat().st_size
        layer = _layer_size(config)
        if config.layers * layer * 4 > size:
            told = f"its settings ask for {config.layers:,} layers of {layer * 4:,} bytes, but it has {size:,} bytes"
            raise FileError(f"{path}: cut short, or not a file of llama2.c: {told}")
        for name, shape in _order(config):
            if not name.startswith("-"):
                self.shapes[name], self._starts[name] = shape, place
            place += 4 * math.prod(shape)
        if place != size:
            told = f"its settings ask for {place:,} bytes, but it has {size:,}"
            raise FileError(f"{path}: cut short, or not a file of llama2.c: {told}")

    def where(self, name: str) -> Path:
        """Return the path of the file, which holds all tensors."""
        return self.path

    def read(self, names: list[str]) -> dict[str, Tensor]:
        """Return the named tensors, or raise FileError if one holds infinite numbers or NaN."""
        tensors = {}
        for name in names:
            shape = self.shapes[name]
            numbers = np.fromfile(self.path, "<f4", math.prod(shape), offset=self._starts[name])
            tensors[name] = torch.from_numpy(numbers).reshape(shape)
            if not tensors[name].isfinite().all():
                told = f"{name} holds numbers that are not finite: the file is damaged"
                raise FileError(f"{self.path}: {told}")
        return tensors


def _layer_size(config: LanguageModelConfig) -> int:
    m, kv = config.width, (config.kv_heads or config.heads) * (config.width // config.heads)
    return 2 * m + 2 * m * m + 2 * m * kv + 3 * m * config.feed_forward


def _order(config: LanguageModelConfig) -> list[tuple[str, tuple[int, ...]]]:
    """Return the names and shapes of all tensors in the order of the file.

    A name that begins with "-" is a table that is not needed.
    """
    m, f, v = config.width, config.feed_forward, config.vocabulary_size
    kv = (config.kv_heads or config.heads) * (m // config.heads)
    kinds: list[tuple[str, tuple[int, ...]]] = [
        ("attn_norm", (m,)),
        ("attn_q", (m, m)),
        ("attn_k", (kv, m)),
        ("attn_v", (kv, m)),
        ("attn_output", (m, m)),
        ("ffn_norm", (m,)),
        ("ffn_gate", (f, m)),
        ("ffn_down", (m, f)),
        ("ffn_up", (f, m)),
    ]
    # Tensors of one kind follow each other for all layers.
    order = [("token_embd.weight", (v, m))]
    order += [
        (f"blk.{layer}.{kind}.weight", shape) for kind, shape in kinds for layer in range(config.layers)
    ]
    order.append(("output_norm.weight", (m,)))
    # Tables of cosines and sines.
    order += [(f"-{part}", (config.max_length, m // config.heads // 2)) for part in ("cos", "sin")]
    return order if config.tied_output else [*order, ("output.weight", (v, m))]
