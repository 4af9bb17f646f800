"""Example inputs of the layers and models of Regard, from which their graphs are traced."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard import layers, models, positions, scores
from regard.errors import ArgumentError
from regard.exporting.graphs import Graph

__all__ = ["graph_of", "shown_inputs"]

# Different primes, so that no size of the example equals another by chance.
BATCH, QUERIES, KEYS = 2, 5, 7
Arguments = dict[str, Any]


def graph_of(model: nn.Module) -> Graph:
    """Return a layer or model of Regard with example inputs, or raise ArgumentError if its inputs are not known."""
    for kind, make in _KNOWN.items():
        if type(model) is kind:
            return make(model)
    problem = f"the inputs of a {type(model).__name__} are not known"
    raise ArgumentError("inputs", problem, f"give example tensors by name, such as {shown_inputs(model)}")


def shown_inputs(model: nn.Module) -> str:
    """Return example inputs of a model as Python, with the names of the arguments that its ``forward()`` needs.

    >>> shown_inputs(nn.Linear(3, 4))
    "inputs={'input': torch.randn(2, 5, 64)}, in the sizes of the model"
    """
    needed = [
        name
        for name, one in inspect.signature(model.forward).parameters.items()
        if one.default is one.empty and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    ]
    tensors = ", ".join(f"'{name}': torch.randn(2, 5, 64)" for name in needed or ["x"])
    return f"inputs={{{tensors}}}, in the sizes of the model"


def _floats(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def _tokens(size: int, n: int) -> Arguments:
    """Return token ids ``(b,n)`` and lengths ``(b,)``, one of them shorter than n."""
    ids = torch.randint(size, (BATCH, n), generator=torch.Generator().manual_seed(n))  # (b,n)
    return {"tokens": ids, "lengths": torch.tensor([n, n - 2])}


def _additive(layer: layers.AdditiveAttention) -> Graph:
    width = layer.hidden_dim
    inputs = {"query": _floats(BATCH, QUERIES, width), "keys": _floats(BATCH, KEYS, width)}
    return Graph(layer, inputs, ("context", "weights"), _CROSS_SIZES)


def _query_key_value(layer: Any, width: int) -> Graph:
    names, lengths = ("query", "key", "value"), (QUERIES, KEYS, KEYS)
    inputs = {name: _floats(BATCH, n, width) for name, n in zip(names, lengths, strict=True)}
    return Graph(layer, inputs, ("output", "weights"), _CROSS_SIZES)


def _self_attention(layer: layers.SelfAttention) -> Graph:
    inputs = {"x": _floats(BATCH, QUERIES, layer.attention.hidden_dim)}
    return Graph(layer, inputs, ("output", "weights"), {"x": ("batch", "length")})


def _encoder_decoder(layer: layers.EncoderDecoderAttention) -> Graph:
    width = layer.embed_dim
    inputs = {
        "encoder_output": _floats(BATCH, KEYS, width),
        "decoder_input": _floats(BATCH, QUERIES, width),
    }
    sizes = {"encoder_output": ("batch", "keys"), "decoder_input": ("batch", "queries")}
    return Graph(layer, inputs, ("output", "weights"), sizes)


def _multi_head(layer: layers.MultiHeadAttention) -> Graph:
    widths = (layer.hidden_dim, layer.key_dim, layer.value_dim)
    names, lengths = ("query", "key", "value"), (QUERIES, KEYS, KEYS)
    inputs = {name: _floats(BATCH, n, m) for name, n, m in zip(names, lengths, widths, strict=True)}
    return Graph(layer, inputs, ("output", "weights"), _CROSS_SIZES)


def _score(score: Any, query_dim: int, key_dim: int) -> Graph:
    inputs = {"q": _floats(BATCH, QUERIES, query_dim), "k": _floats(BATCH, KEYS, key_dim)}
    sizes = {"q": ("batch", "queries"), "k": ("batch", "keys")}
    return Graph(score, inputs, ("scores",), sizes)


def _rotary(rotary: positions.Rotary) -> Graph:
    heads = 3
    inputs = {
        "q": _floats(BATCH, heads, QUERIES, rotary.head_dim),
        "k": _floats(BATCH, heads, KEYS, rotary.head_dim),
    }
    sizes = {"q": ("batch", "heads", "queries"), "k": ("batch", "heads", "keys")}
    return Graph(rotary, inputs, ("rotated_q", "rotated_k"), sizes)


def _positions(layer: Any, width: int) -> Graph:
    return Graph(layer, {"x": _floats(BATCH, QUERIES, width)}, ("output",), {"x": ("batch", "length")})


def _text_model(model: Any, outputs: tuple[str, ...], size: int) -> Graph:
    sizes = {"tokens": ("batch", "length"), "lengths": ("batch",), "types": ("batch", "length")}
    inputs, types = _tokens(size, KEYS), getattr(model.config, "token_types", 0)
    if types:
        inputs["types"] = _tokens(types, KEYS)["tokens"]
    return Graph(model, inputs, outputs, sizes)


def _decoder(model: Any, outputs: tuple[str, ...]) -> Graph:
    inputs = {"tokens": _tokens(model.config.vocabulary_size, KEYS)["tokens"]}
    return Graph(model, inputs, outputs, {"tokens": ("batch", "length")})


def _transformer(model: models.Transformer) -> Graph:
    source = _tokens(model.config.source_size, KEYS)
    target = _tokens(model.config.target_size, QUERIES)["tokens"]
    inputs = {"source": source["tokens"], "target": target, "lengths": source["lengths"]}
    sizes = {"source": ("batch", "source"), "target": ("batch", "target"), "lengths": ("batch",)}
    return Graph(model, inputs, ("logits",), sizes)


def _pictures(model: Any) -> Graph:
    config = model.config
    height, width = config.image_size
    inputs = {"images": _floats(BATCH, config.channels, height, width)}
    return Graph(model, inputs, ("logits",), {"images": ("batch",)})


_CROSS_SIZES = {
    "query": ("batch", "queries"),
    "key": ("batch", "keys"),
    "keys": ("batch", "keys"),
    "value": ("batch", "keys"),
}
_FREE_WIDTH = 8
_KNOWN: dict[type, Callable[[Any], Graph]] = {
    layers.AdditiveAttention: _additive,
    layers.BasicAttention: lambda layer: _query_key_value(layer, layer.hidden_dim),
    layers.SimpleAttention: lambda layer: _query_key_value(layer, layer.dim),
    layers.SelfAttention: _self_attention,
    layers.EncoderDecoderAttention: _encoder_decoder,
    layers.MultiHeadAttention: _multi_head,
    scores.Dot: lambda score: _score(score, _FREE_WIDTH, _FREE_WIDTH),
    scores.ScaledDot: lambda score: _score(score, _FREE_WIDTH, _FREE_WIDTH),
    scores.Bilinear: lambda score: _score(score, score.query_dim, score.key_dim),
    scores.Additive: lambda score: _score(score, score.query_dim, score.key_dim),
    scores.Tanh: lambda score: _score(score, score.v.shape[0], score.v.shape[0]),
    positions.PositionalEncoding: lambda layer: _positions(layer, layer.pe.shape[2]),
    positions.LearnedPositionalEncoding: lambda layer: _positions(layer, layer.pos_embedding.embedding_dim),
    positions.Rotary: _rotary,
    models.Encoder: lambda model: _text_model(model, ("states",), model.config.vocabulary_size),
    models.TextClassifier: lambda model: _text_model(model, ("logits",), model.config.vocabulary_size),
    models.SpanReader: lambda model: _text_model(model, ("start", "end"), model.config.vocabulary_size),
    models.LanguageModel: lambda model: _decoder(model, ("logits",)),
    models.Decoder: lambda model: _decoder(model, ("states",)),
    models.Transformer: _transformer,
    models.VisionTransformer: _pictures,
    models.Swin: _pictures,
    models.LinearClassifier: _pictures,
    models.ConvolutionalClassifier: _pictures,
}
