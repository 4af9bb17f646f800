"""Language models of Regard made of the tensors in files of other programs.

A table of names says of which tensors of a file each tensor of a :class:`LanguageModel` is made. All shapes are
compared before memory is allocated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from regard.errors import FileError
from regard.models.config import LanguageModelConfig
from regard.models.language_model import LanguageModel
from regard.models.pretrained import fill
from regard.models.sizes import without_memory

__all__ = ["DecoderNames", "Source", "TensorFiles", "assemble", "check_layers"]


class TensorFiles(Protocol):
    """The tensors of one file or of several, by name.

    ``shapes`` are known without reading the tensors.
    """

    shapes: dict[str, tuple[int, ...]]

    def where(self, name: str) -> Path:
        """Return the path of the file that holds a tensor."""
        ...

    def read(self, names: list[str]) -> dict[str, Tensor]:
        """Return the named tensors in float32, or raise FileError if one is damaged."""
        ...


@dataclass(frozen=True)
class Source:
    """The tensors of a file of which one tensor of Regard is made.

    - ``names`` are the tensors, which are joined along their first axis.
    - ``transposed`` exchanges the axes of a matrix first. GPT-2 stores its matrices as ``(in, out)``.
    - ``share`` is the number of a part and the number of equal parts of the first axis, of which this one is taken.
    - ``interleaved_heads`` is the number of heads whose rows are stored in pairs for rotary positions, as llama.cpp has
      them. Row ``2i`` of a head goes to row ``i``, and row ``2i + 1`` to row ``i + d/2``.

    >>> Source(("a", "b")).expected((6, 4))
    (3, 4)
    """

    names: tuple[str, ...]
    transposed: bool = False
    share: tuple[int, int] = (0, 1)
    interleaved_heads: int = 0

    def expected(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape that each tensor of the file must have if Regard's has this ``shape``."""
        rows = shape[0] // len(self.names) * self.share[1]
        file_shape = (rows, *shape[1:])
        return file_shape[::-1] if self.transposed else file_shape

    def read(self, files: TensorFiles) -> Tensor:
        """Return Regard's tensor, read from the files."""
        tensors = files.read(list(self.names))
        parts = [
            tensors[name].mT if self.transposed and tensors[name].ndim == 2 else tensors[name]
            for name in self.names
        ]
        joined = parts[0] if len(parts) == 1 else torch.cat(parts)
        if self.share[1] > 1:
            joined = joined.chunk(self.share[1])[self.share[0]]
        if self.interleaved_heads:
            pairs = joined.unflatten(0, (self.interleaved_heads, -1, 2))  # (h,d/2,2,...)
            joined = pairs.transpose(1, 2).flatten(0, 2)  # (h*d,...)
        return joined.contiguous()


@dataclass(frozen=True)
class DecoderNames:
    """The names of the tensors of one kind of file.

    - ``prefix`` is the beginning of all names except that of the output layer. Some files leave it out.
    - ``blocks`` is the name of the list of blocks, after ``prefix``.
    - ``names`` maps modules of :class:`LanguageModel` outside of the blocks to modules of the file, after ``prefix``.
    - ``block`` maps modules of one block to modules of the file, after ``blocks`` and the number of the block. The
      modules of an entry with several names are joined.
    - ``output`` is the module of an output layer that is not tied to the embedding.
    - ``shares`` are the parts of joined modules, ``transposed`` the modules of a block with transposed matrices, and
      ``interleaved`` those with rows in pairs for rotary positions.
    - ``ignored`` matches the names of tensors that no model needs.
    """

    prefix: str
    blocks: str
    names: Mapping[str, str]
    block: Mapping[str, tuple[str, ...]]
    output: str
    shares: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    transposed: frozenset[str] = frozenset()
    interleaved: frozenset[str] = frozenset()
    ignored: str = r"(?!)"

    def in_file(self, files: TensorFiles) -> DecoderNames:
        """Return the names as they are in these files, without the prefix if the files leave it out."""
        if any(name.startswith(self.prefix) for name in files.shapes):
            return self
        return replace(self, prefix="")

    def source(self, name: str, config: LanguageModelConfig) -> Source:
        """Return the source of the tensor that Regard's model calls ``name``."""
        module, _, part = name.rpartition(".")
        if module == "output":
            return Source((f"{self.output}.{part}",))
        if module in self.names:
            return Source((f"{self.prefix}{self.names[module]}.{part}",))
        _, _, number, inner = module.split(".", 3)  # decoder.layers.<number>.<inner>
        heads = {"self_attention.W_q": config.heads, "self_attention.W_k": config.kv_heads or config.heads}
        return Source(
            tuple(f"{self.prefix}{self.blocks}.{number}.{theirs}.{part}" for theirs in self.block[inner]),
            transposed=part == "weight" and inner in self.transposed,
            share=self.shares.get(inner, (0, 1)),
            interleaved_heads=heads[inner] if inner in self.interleaved else 0,
        )


def check_layers(names: DecoderNames, files: TensorFiles, layers: int, setting: str, where: str) -> None:
    """Raise FileError if the number of layers in the settings is not that of the file.

    ``setting`` is the name of the number of layers in the settings, which ``where`` names.
    """
    start = f"{names.prefix}{names.blocks}."
    numbers = {name.removeprefix(start).partition(".")[0] for name in files.shapes if name.startswith(start)}
    if len(numbers) != layers:
        raise FileError(f"{where}: {setting} is {layers}, but the file of weights has {len(numbers)}")


def assemble(
    config: LanguageModelConfig, names: DecoderNames, files: TensorFiles, settings: str
) -> LanguageModel:
    """Return a language model with the tensors of the files, in float32 and in evaluation mode.

    ``settings`` is the path of the settings, for errors. Raises FileError if a tensor is missing or has another shape
    than the settings say, or if the files hold a part of a model that Regard's has not.
    """
    names = names.in_file(files)
    with without_memory(settings):
        model = LanguageModel(config)
    sources = {name: names.source(name, config) for name in model.state_dict()}
    used: set[str] = set()
    for ours, tensor in model.state_dict().items():
        expected = sources[ours].expected(tuple(tensor.shape))
        for name in sources[ours].names:
            _check(name, expected, files, settings)
            used.add(name)
    _check_unused(used, config, names, files)
    fill(model, {ours: source.read(files) for ours, source in sources.items()}, settings)
    return model.eval()


def _check(name: str, expected: tuple[int, ...], files: TensorFiles, settings: str) -> None:
    if name not in files.shapes:
        raise FileError(f"{settings}: {name} is missing from the weights")
    if files.shapes[name] != expected:
        told = f"{name} is {files.shapes[name]}, but the settings say {expected}"
        raise FileError(f"{files.where(name)}: {told}")


def _check_unused(
    used: set[str], config: LanguageModelConfig, names: DecoderNames, files: TensorFiles
) -> None:
    """Raise FileError if a tensor is not used, unless it is a copy of the embedding table as a tied output layer."""
    output = f"{names.output}.weight"
    table = f"{names.prefix}{names.names['decoder.embedding.tokens']}.weight"
    for name in sorted(files.shapes.keys() - used):
        if re.fullmatch(names.ignored, name.removeprefix(names.prefix)):
            continue
        if name != output or not config.tied_output:
            told = f"{name} is a part of the model that Regard's language model does not have"
            raise FileError(f"{files.where(name)}: {told}")
        tensors = files.read([output, table])
        if not tensors[output].equal(tensors[table]):
            told = f"{output} differs from {table}, but the settings do not say tie_word_embeddings: false"
            raise FileError(f"{files.where(output)}: {told}")
