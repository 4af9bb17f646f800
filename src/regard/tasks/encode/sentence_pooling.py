"""Pooling of the states of tokens into the vector of a sentence, as the files of a model define it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import FileError, UnknownNameError
from regard.files import read_json
from regard.models.heads import FirstPooling, MeanPooling

__all__ = ["SentencePooling", "pooling_of_folder"]

POOLINGS = ("mean", "first", "max")
# The settings of sentence-transformers for the poolings above.
_MODES = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "first",
    "pooling_mode_max_tokens": "max",
}


@dataclass(frozen=True)
class SentencePooling:
    """The pooling of the states of a sentence.

    ``mode`` is "mean", "first" (the state of the first token) or "max". The special tokens take part. ``normalize``
    divides the vector by its length. ``most`` is the largest number of tokens that are read, with special tokens, or
    None for as many as the encoder can read.
    """

    mode: str = "mean"
    normalize: bool = False
    most: int | None = None

    def __post_init__(self):
        if self.mode not in POOLINGS:
            raise UnknownNameError("pooling", self.mode, POOLINGS)

    def __call__(self, states: Tensor, lengths: Tensor) -> Tensor:
        """Return the vectors ``(b,m)`` of states ``(b,n,m)`` with padding from ``lengths (b,)`` on.

        >>> states = torch.tensor([[[3.0, 0.0], [3.0, 8.0], [9.0, 9.0]]])
        >>> SentencePooling("mean", normalize=True)(states, torch.tensor([2]))
        tensor([[0.6000, 0.8000]])
        """
        if self.mode == "max":
            padding = torch.arange(states.shape[1], device=states.device) >= lengths[:, None]  # (b,n)
            vectors = states.masked_fill(padding[..., None], -torch.inf).amax(dim=1)  # (b,m)
        else:
            vectors = (MeanPooling() if self.mode == "mean" else FirstPooling())(states, lengths)  # (b,m)
        return torch.nn.functional.normalize(vectors, dim=-1) if self.normalize else vectors

    def to_json(self) -> dict[str, Any]:
        """Return the settings that are saved with a model."""
        return {"pooling": self.mode, "normalize": self.normalize, "max_tokens": self.most}


def pooling_of_folder(folder: Path) -> SentencePooling:
    """Return the pooling of a Hugging Face folder.

    The files ``modules.json``, ``1_Pooling/config.json`` and ``sentence_bert_config.json`` of sentence-transformers say
    it. Without them, it is the mean without normalisation.
    """
    path = folder / "modules.json"
    if not path.is_file():
        return SentencePooling()
    mode, normalize = "mean", False
    for module in _modules(path):
        kind = str(module.get("type", "")).rpartition(".")[2]
        if kind == "Pooling":
            mode = _mode(folder / str(module.get("path", "")) / "config.json")
        elif kind == "Normalize":
            normalize = True
        elif kind != "Transformer":
            problem = f"the module {kind!r} is not known: expected Transformer, Pooling and Normalize"
            raise FileError(f"{path}: {problem}", argument="model")
    return SentencePooling(mode, normalize, _most(folder / "sentence_bert_config.json"))


def _modules(path: Path) -> list[dict[str, Any]]:
    try:
        modules = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: not JSON, or cut short ({error})", argument="model") from None
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise FileError(f"{path}: expected a list of modules", argument="model")
    return modules


def _mode(path: Path) -> str:
    settings = read_json(path)
    chosen = [name for name, value in settings.items() if name.startswith("pooling_mode_") and value is True]
    named = settings.get("pooling_mode")  # newer versions name it
    if isinstance(named, str):
        chosen = [f"pooling_mode_{named}_token" + ("" if named == "cls" else "s")]
    if len(chosen) != 1 or chosen[0] not in _MODES:
        problem = f"the pooling {', '.join(chosen) or 'is not named'}: expected one of {', '.join(_MODES)}"
        raise FileError(f"{path}: {problem}", argument="model")
    return _MODES[chosen[0]]


def _most(path: Path) -> int | None:
    most = read_json(path).get("max_seq_length") if path.is_file() else None
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 3):
        raise FileError(
            f"{path}: max_seq_length: expected a number of 3 or more, got {most!r}", argument="model"
        )
    return most
