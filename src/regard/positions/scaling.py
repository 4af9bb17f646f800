"""Frequencies of rotary positions, and their scaling to longer texts than a model was trained on.

A scaling is a dict as in the configs of Hugging Face, such as ``{"rope_type": "linear", "factor": 2.0}``. The formulas
are those of Transformers, so ``config.rope_scaling`` of a published model can be used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.errors import ArgumentError, DtypeError, UnknownNameError

__all__ = ["attention_factor", "check_scaling", "frequencies"]

_TRAINED = "original_max_position_embeddings"
_NEEDED: dict[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor", _TRAINED),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", _TRAINED),
    "yarn": ("factor", _TRAINED),
}
_OPTIONAL: dict[str, tuple[str, ...]] = {
    "yarn": ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate")
}
_ELSEWHERE = {"rope_theta": "base=...", "partial_rotary_factor": "rotary_dim=..."}


def check_scaling(scaling: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a checked copy of a scaling, with its kind under ``rope_type`` and without entries of None.

    None as a whole gives the kind ``"default"``. A missing, unknown or unused entry raises an error.

    >>> check_scaling({"type": "linear", "factor": 4})
    {'rope_type': 'linear', 'factor': 4}
    """
    if scaling is None:
        return {"rope_type": "default"}
    if not isinstance(scaling, Mapping):
        fix = 'write {"rope_type": "linear", "factor": 2.0}'
        raise DtypeError("scaling", f"expected a dict, got {type(scaling).__name__}", fix)
    values = {name: value for name, value in scaling.items() if value is not None}
    kind = values.pop("rope_type", None) or values.get("type", "default")
    values.pop("type", None)
    if kind not in _NEEDED:
        raise UnknownNameError("scaling", kind, _NEEDED)
    for name in _NEEDED[kind]:
        if name not in values:
            raise ArgumentError("scaling", f"{kind!r} needs {name}", f"add {name!r} to the dict")
    for name, value in values.items():
        if name not in (*_NEEDED[kind], *_OPTIONAL.get(kind, ())):
            fix = f"pass {_ELSEWHERE[name]}" if name in _ELSEWHERE else "leave it out"
            raise ArgumentError("scaling", f"{kind!r} does not use {name}", fix)
        if name != "truncate" and not (isinstance(value, int | float) and value > 0):
            raise ArgumentError("scaling", f"expected a number above 0 as {name}, got {value!r}")
    return {"rope_type": kind, **values}


def attention_factor(scaling: dict[str, Any]) -> float:
    """Return the factor by which sines and cosines are multiplied, which is 1 for all scalings except yarn.

    >>> round(attention_factor({"rope_type": "yarn", "factor": 4.0}), 4)
    1.1386
    """
    if scaling["rope_type"] != "yarn":
        return 1.0
    if "attention_factor" in scaling:
        return float(scaling["attention_factor"])

    def growth(by: float) -> float:
        return 1.0 if scaling["factor"] <= 1 else 0.1 * by * math.log(scaling["factor"]) + 1.0

    if "mscale" in scaling and "mscale_all_dim" in scaling:
        return growth(scaling["mscale"]) / growth(scaling["mscale_all_dim"])
    return growth(1.0)


def frequencies(
    width: int, base: float, scaling: dict[str, Any], even: Tensor, length: Tensor | int
) -> Tensor:
    """Return the angle of each pair of columns at position 1, ``(width/2,)``.

    ``even`` holds 0, 2, … ``width - 2`` in the dtype of the computation. ``length`` is the current number of positions,
    which only dynamic scaling uses.
    """
    kind = scaling["rope_type"]
    if kind == "dynamic":
        trained, factor = scaling[_TRAINED], scaling["factor"]
        length = torch.as_tensor(length, device=even.device).clamp(min=trained).to(even.dtype)
        grown = base * (factor * length / trained - (factor - 1)) ** (width / max(width - 2, 1))
        return grown ** (-even / width)
    plain = base ** (-even / width)
    if kind == "linear":
        return plain / scaling["factor"]
    if kind == "llama3":
        return _llama3(plain, scaling)
    return _yarn(plain, width, base, scaling) if kind == "yarn" else plain


def _llama3(plain: Tensor, scaling: dict[str, Any]) -> Tensor:
    """Divide low frequencies by the factor, keep high ones, and interpolate between the two."""
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = scaling[_TRAINED] * plain / (2 * math.pi)  # of each pair over the trained length
    share = ((turns - low) / (high - low)).clamp(0, 1)  # 0: stretched, 1: kept
    return (1 - share) * plain / scaling["factor"] + share * plain


def _yarn(plain: Tensor, width: int, base: float, scaling: dict[str, Any]) -> Tensor:
    """Keep the frequencies of the first pairs, divide those of the last by the factor, and interpolate between."""

    def pair_of(turns: float) -> float:
        return width * math.log(scaling[_TRAINED] / (turns * 2 * math.pi)) / (2 * math.log(base))

    first, last = pair_of(scaling.get("beta_fast", 32)), pair_of(scaling.get("beta_slow", 1))
    if scaling.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, width - 1)
    last = last + 0.001 if first == last else last
    place = torch.arange(width // 2, device=plain.device).to(plain.dtype)
    stretched = ((place - first) / (last - first)).clamp(0, 1)
    return stretched * plain / scaling["factor"] + (1 - stretched) * plain
