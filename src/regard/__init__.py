"""Regard builds any attention mechanism, trains models with it, and shows what a model attends to.

The names below are imported on first use, so ``import regard`` loads neither torch nor NumPy.

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
    from regard import analysis as analysis
    from regard import biases as biases
    from regard import copying as copying
    from regard import core as core
    from regard import corpus as corpus
    from regard import decoding as decoding
    from regard import errors as errors
    from regard import exporting as exporting
    from regard import images as images
    from regard import integrations as integrations
    from regard import kernels as kernels
    from regard import layers as layers
    from regard import learn as learn
    from regard import maps as maps
    from regard import masks as masks
    from regard import metrics as metrics
    from regard import models as models
    from regard import pipelines as pipelines
    from regard import plots as plots
    from regard import positions as positions
    from regard import reference as reference
    from regard import scores as scores
    from regard import settings as settings
    from regard import shapes as shapes
    from regard import tasks as tasks
    from regard import terminal as terminal
    from regard import text as text
    from regard import training as training
    from regard import viewer as viewer
    from regard.capture import Recording, capture
    from regard.core import attention, attention_weights, attention_with_weights
    from regard.errors import RegardError
    from regard.exporting import export
    from regard.layers import (
        AdditiveAttention,
        BasicAttention,
        EncoderDecoderAttention,
        MultiHeadAttention,
        SelfAttention,
        SimpleAttention,
    )
    from regard.maps import AttentionMap, Record
    from regard.masks import Mask, blocks, causal, global_tokens, padding, window
    from regard.pipelines import pipeline
    from regard.plots import (
        plot_attention_weights,
        plot_by_length,
        plot_heads,
        plot_image_attention,
        plot_model,
        plot_picture_maps,
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

# The module of each public name.
_HOMES: dict[str, list[str]] = {
    "regard.capture": ["Recording"],
    "regard.core": ["attention", "attention_weights", "attention_with_weights"],
    "regard.errors": ["RegardError"],
    "regard.exporting": ["export"],
    "regard.layers": [
        "AdditiveAttention",
        "BasicAttention",
        "EncoderDecoderAttention",
        "MultiHeadAttention",
        "SelfAttention",
        "SimpleAttention",
    ],
    "regard.maps": ["AttentionMap", "Record"],
    "regard.masks": ["Mask", "blocks", "causal", "global_tokens", "padding", "window"],
    "regard.pipelines": ["pipeline"],
    "regard.plots": [
        "plot_attention_weights",
        "plot_by_length",
        "plot_heads",
        "plot_image_attention",
        "plot_model",
        "plot_picture_maps",
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
    "analysis",
    "biases",
    # The package can be called like its function `capture`.
    "capture",
    "copying",
    "core",
    "corpus",
    "decoding",
    "errors",
    "exporting",
    "images",
    "integrations",
    "kernels",
    "layers",
    "learn",
    "maps",
    "masks",
    "metrics",
    "models",
    "pipelines",
    "plots",
    "positions",
    "reference",
    "scores",
    "settings",
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
    "Record",
    "Recording",
    "RegardError",
    "RelativeBias",
    "Rotary",
    "SelfAttention",
    "SimpleAttention",
    "__version__",
    "analysis",
    "attention",
    "attention_weights",
    "attention_with_weights",
    "biases",
    "blocks",
    "capture",
    "causal",
    "copying",
    "core",
    "corpus",
    "decoding",
    "errors",
    "explain",
    "export",
    "exporting",
    "get_linear_schedule_with_warmup",
    "global_tokens",
    "images",
    "integrations",
    "kernels",
    "layers",
    "learn",
    "maps",
    "masks",
    "metrics",
    "models",
    "padding",
    "pipeline",
    "pipelines",
    "plot_attention_weights",
    "plot_by_length",
    "plot_heads",
    "plot_image_attention",
    "plot_model",
    "plot_picture_maps",
    "plot_weights",
    "plots",
    "positions",
    "reference",
    "scores",
    "settings",
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
    # Python finds the name directly from now on.
    globals()[name] = value
    return value


def _unknown(name: str) -> str:
    problem = f"module 'regard' has no attribute {name!r}"
    # Tools look up private names, which are no misspellings.
    if name.startswith("_"):
        return problem
    from regard.errors import did_you_mean

    suggestion = did_you_mean(name, __all__).strip()
    return f"{problem}: {suggestion}" if suggestion else problem


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
