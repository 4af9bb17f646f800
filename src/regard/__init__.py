"""Regard: build any attention mechanism, train with it, and see what a model attends to.

The names below are imported when they are first used, so that ``import regard`` loads neither torch nor
NumPy.

>>> import regard
>>> regard.atention
Traceback (most recent call last):
    ...
AttributeError: module 'regard' has no attribute 'atention': did you mean 'attention'?
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard import decoding as decoding
    from regard import kernels as kernels
    from regard import layers as layers
    from regard import maps as maps
    from regard import masks as masks
    from regard import metrics as metrics
    from regard import models as models
    from regard import plots as plots
    from regard import positions as positions
    from regard import reference as reference
    from regard import scores as scores
    from regard import shapes as shapes
    from regard import tasks as tasks
    from regard import terminal as terminal
    from regard import text as text
    from regard import training as training
    from regard import viewer as viewer
    from regard.capture import capture
    from regard.core import attention, attention_weights, attention_with_weights
    from regard.errors import RegardError
    from regard.layers import (
        AdditiveAttention,
        BasicAttention,
        EncoderDecoderAttention,
        MultiHeadAttention,
        SelfAttention,
        SimpleAttention,
    )
    from regard.maps import AttentionMap
    from regard.masks import Mask, blocks, causal, global_tokens, padding, window
    from regard.plots import (
        plot_attention_weights,
        plot_by_length,
        plot_heads,
        plot_image_attention,
        plot_model,
        plot_weights,
        show,
        visualize_attention,
    )
    from regard.positions import (
        ALiBi,
        LearnedPositionalEncoding,
        PositionalEncoding,
        RelativeBias,
        Rotary,
    )
    from regard.reference import explain
    from regard.training import get_linear_schedule_with_warmup

__version__ = "0.1.0.dev0"

# Where each public name lives. A list, so that the file reads as a table of contents.
_HOMES: dict[str, list[str]] = {
    "regard.core": ["attention", "attention_weights", "attention_with_weights"],
    "regard.errors": ["RegardError"],
    "regard.layers": [
        "AdditiveAttention",
        "BasicAttention",
        "EncoderDecoderAttention",
        "MultiHeadAttention",
        "SelfAttention",
        "SimpleAttention",
    ],
    "regard.maps": ["AttentionMap"],
    "regard.masks": ["Mask", "blocks", "causal", "global_tokens", "padding", "window"],
    "regard.plots": [
        "plot_attention_weights",
        "plot_by_length",
        "plot_heads",
        "plot_image_attention",
        "plot_model",
        "plot_weights",
        "show",
        "visualize_attention",
    ],
    "regard.positions": [
        "ALiBi",
        "LearnedPositionalEncoding",
        "PositionalEncoding",
        "RelativeBias",
        "Rotary",
    ],
    "regard.reference": ["explain"],
    "regard.training": ["get_linear_schedule_with_warmup"],
}
_SUBMODULES = [
    "capture",  # a package that can be called, as the function of that name
    "decoding",
    "kernels",
    "layers",
    "maps",
    "masks",
    "metrics",
    "models",
    "plots",
    "positions",
    "reference",
    "scores",
    "shapes",
    "tasks",
    "terminal",
    "text",
    "training",
    "viewer",
]
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "ALiBi",
    "AdditiveAttention",
    "AttentionMap",
    "BasicAttention",
    "EncoderDecoderAttention",
    "LearnedPositionalEncoding",
    "Mask",
    "MultiHeadAttention",
    "PositionalEncoding",
    "RegardError",
    "RelativeBias",
    "Rotary",
    "SelfAttention",
    "SimpleAttention",
    "__version__",
    "attention",
    "attention_weights",
    "attention_with_weights",
    "blocks",
    "capture",
    "causal",
    "decoding",
    "explain",
    "get_linear_schedule_with_warmup",
    "global_tokens",
    "kernels",
    "layers",
    "maps",
    "masks",
    "metrics",
    "models",
    "padding",
    "plot_attention_weights",
    "plot_by_length",
    "plot_heads",
    "plot_image_attention",
    "plot_model",
    "plot_weights",
    "plots",
    "positions",
    "reference",
    "scores",
    "shapes",
    "show",
    "tasks",
    "terminal",
    "text",
    "training",
    "viewer",
    "visualize_attention",
    "window",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        value = getattr(importlib.import_module(_HOME_OF[name]), name)
    elif name in _SUBMODULES:
        value = importlib.import_module(f"regard.{name}")
    else:
        raise AttributeError(_unknown(name), name=name, obj=None)
    globals()[name] = value  # next time the name is found without coming here
    return value


def _unknown(name: str) -> str:
    problem = f"module 'regard' has no attribute {name!r}"
    if name.startswith("_"):
        return problem  # asked for by tools, not misspelt by people
    from regard.errors import did_you_mean

    suggestion = did_you_mean(name, __all__).strip()
    return f"{problem}: {suggestion}" if suggestion else problem


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
