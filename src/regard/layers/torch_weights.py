"""Conversion of weights from and to ``nn.MultiheadAttention``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from regard.errors import ArgumentError, DtypeError

if TYPE_CHECKING:
    from regard.layers.multi_head import MultiHeadAttention

__all__ = ["copy_from_torch", "copy_to_torch"]


def copy_from_torch(layer: type[MultiHeadAttention], module: nn.MultiheadAttention) -> MultiHeadAttention:
    """Make a layer of this class with a copy of the weights of torch's layer.

    It has the device, the dtype and the training mode of torch's layer.
    """
    if not isinstance(module, nn.MultiheadAttention):
        raise DtypeError("module", f"expected nn.MultiheadAttention, got {type(module).__name__}")
    ours = layer(
        module.embed_dim,
        module.num_heads,
        dropout=module.dropout,
        bias=module.in_proj_bias is not None,
        key_dim=module.kdim,
        value_dim=module.vdim,
        add_bias_kv=module.bias_k is not None,
        add_zero_attn=module.add_zero_attn,
    )
    weights, biases = _projections(module)
    like = module.out_proj.weight
    ours.to(device=like.device, dtype=like.dtype).train(module.training)
    for linear, weight, bias in zip((ours.W_q, ours.W_k, ours.W_v), weights, biases, strict=True):
        _copy(linear, weight, bias)
    _copy(ours.W_o, module.out_proj.weight, module.out_proj.bias)
    _copy_extra_key(ours, module)
    return ours


def copy_to_torch(layer: MultiHeadAttention, *, batch_first: bool) -> nn.MultiheadAttention:
    """Make an ``nn.MultiheadAttention`` with a copy of the weights of a layer.

    It has the device, the dtype and the training mode of the layer. Raises ArgumentError or DtypeError if torch's layer
    cannot do the same.
    """
    if layer.rotary is not None:
        raise ArgumentError(
            "rotary", "nn.MultiheadAttention has no rotary positions", "keep this layer as it is"
        )
    if layer.kv_heads != layer.num_heads:
        problem = f"nn.MultiheadAttention has no groups; here {layer.num_heads} heads share {layer.kv_heads}"
        raise ArgumentError("kv_heads", problem, "keep this layer as it is")
    for name in ("W_q", "W_k", "W_v", "W_o"):
        projection = getattr(layer, name)
        if type(projection) is not nn.Linear:
            problem = f"is a {type(projection).__name__}, and only the weights of an nn.Linear can be copied"
            raise DtypeError(name, problem, "merge it into an nn.Linear first")
    like = layer.W_o.weight
    module = nn.MultiheadAttention(
        layer.hidden_dim,
        layer.num_heads,
        dropout=layer.dropout,
        bias=layer.W_q.bias is not None or layer.W_o.bias is not None,
        kdim=layer.key_dim,
        vdim=layer.value_dim,
        add_bias_kv=layer.bias_k is not None,
        add_zero_attn=layer.add_zero_attn,
        batch_first=batch_first,
        device=like.device,
        dtype=like.dtype,
    ).train(layer.training)
    weights, biases = _projections(module)  # views of the module's tensors
    with torch.no_grad():
        for linear, weight, bias in zip((layer.W_q, layer.W_k, layer.W_v), weights, biases, strict=True):
            weight.copy_(linear.weight)
            if bias is not None:
                bias.copy_(torch.zeros_like(bias) if linear.bias is None else linear.bias)
    _copy(module.out_proj, layer.W_o.weight, layer.W_o.bias)
    _copy_extra_key(module, layer)
    return module


def _projections(module: nn.MultiheadAttention) -> tuple[tuple[Tensor, ...], tuple[Tensor | None, ...]]:
    """Return the weights and the biases of the query, key and value projections.

    Torch packs the weights in one tensor if their widths are equal.
    """
    if module.in_proj_weight is not None:
        weights = module.in_proj_weight.chunk(3)
    else:
        assert module.q_proj_weight is not None  # for the type checker: one or the other
        assert module.k_proj_weight is not None
        assert module.v_proj_weight is not None
        weights = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    return weights, biases


@torch.no_grad()
def _copy(linear: nn.Linear, weight: Tensor, bias: Tensor | None) -> None:
    linear.weight.copy_(weight)
    if bias is not None:
        linear.bias.copy_(bias)


@torch.no_grad()
def _copy_extra_key(target: nn.Module, source: nn.Module) -> None:
    """Copy the learned extra key and value, if there are any, which both layers hold under the same names."""
    for name in ("bias_k", "bias_v"):
        value = getattr(source, name)
        if value is not None:
            getattr(target, name).copy_(value)
