"""Attention calls with their queries, keys, scale and mask, read from the arguments of functions and kernels."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor, peek_interpreter_stack

from regard.biases import Bias
from regard.capture.reading.axes import LeadingAxes
from regard.capture.reading.fast_replace import replace
from regard.capture.reading.tensor_subclasses import is_fake
from regard.errors import CaptureError
from regard.masks import Mask
from regard.masks.rules import Causal
from regard.shapes import Grid

__all__ = [
    "AttentionCall",
    "read_kernel",
    "read_sdpa_function",
    "refuse_transforms",
    "without_numbers",
    "without_transforms",
]


SMALL_WORK = 262_144
"""Pairs of query and key up to which a call is small."""


@dataclass
class AttentionCall:
    """One attention call on the tensors of the model, as queries, keys and scale or as weights."""

    grid: Grid
    q: Tensor | None = None  # (b,h,q,d)
    k: Tensor | None = None  # (b,g,k,d), g dividing h
    scale: float = 1.0
    lse: Tensor | None = None  # (b,h,q) where the kernel gave it
    attn_mask: Tensor | None = None  # as torch was given it
    causal: bool = False  # torch's flag: aligned to the upper left corner
    mask: Mask | None = None  # as Regard was given it
    bias: Bias | None = None
    v: Tensor | None = None  # (m,) of an additive score
    score: Callable[[Tensor, Tensor], Tensor] | None = None  # of the user's
    weights: Tensor | None = None  # (b,h,q,k) where they cannot be made of q and k
    sinks: tuple[int, ...] = ()  # keys that are no token: they take a part of each row
    leading: LeadingAxes | None = None  # how sequences and heads stand in the model's own tensor of weights
    guessed: bool = False  # whether its axes could be meant in another way
    axes: tuple[int, int] | None = None  # of queries and keys in the model's own tensor of weights
    picked: Tensor | None = None  # the keys of the model's own weights, where it chose some for each query

    @property
    def is_small(self) -> bool:
        """Whether the log-sum-exp is better computed when it is needed than taken from the kernel.

        Seeing what a kernel returns costs more than a small call itself. Under autocast it also tells the dtype.
        """
        b, h, q, k = self.grid
        return b * h * q * k <= SMALL_WORK and not torch._C._is_any_autocast_enabled()

    def with_result(self, result: Any) -> AttentionCall:
        """With the log-sum-exp that the fused kernel for the CPU returned, and in the dtype it worked in."""
        lse = result[1] if isinstance(result, tuple) and len(result) > 1 else None
        fits = isinstance(lse, Tensor) and tuple(lse.shape) == self.grid[:3]
        return replace(self, lse=lse.detach() if fits and isinstance(lse, Tensor) else None)

    def in_dtype(self, dtype: torch.dtype) -> AttentionCall:
        """The call in the dtype of the kernel, which differs from that of the function under autocast."""
        if self.q is None or self.k is None or self.q.dtype == dtype:
            return self
        return replace(self, q=self.q.to(dtype), k=self.k.to(dtype))


def read_sdpa_function(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    leading: LeadingAxes | None = None,
) -> AttentionCall:
    """Read a call of ``F.scaled_dot_product_attention`` with its arguments. ``leading`` says how its axes are read."""
    if query.is_nested or key.is_nested:
        raise CaptureError(
            "nested tensors cannot be recorded: capture the model on a padded batch with a mask"
        )
    if is_fake(query):
        raise without_numbers("a model of fake tensors")
    if query.is_meta:
        raise without_numbers("a model on the meta device")
    if enable_gqa and query.ndim == 3:  # heads, of which there are fewer in the keys, without a batch
        query, key = query[None], key[None]
    if not isinstance(attn_mask, Tensor) or type(attn_mask) in (Tensor, nn.Parameter):
        return _product(query, key, attn_mask, is_causal, scale, leading)
    return replace(_product(query, key, None, False, scale, leading), mask=_rule_of(attn_mask))


def without_numbers(model: str) -> CaptureError:
    """The error for tensors that have a shape and nothing else."""
    return CaptureError(f"{model} has no numbers to record: load its weights first")


def _rule_of(mask: Any) -> Mask:
    """The mask rule of a ``CausalBias`` of torch, which is a tensor without numbers."""
    torchs = sys.modules.get("torch.nn.attention.bias")  # importing it would load the compiler
    if torchs is None or not isinstance(mask, torchs.CausalBias):
        raise CaptureError(
            f"attn_mask: a mask of the class {type(mask).__name__} cannot be read: pass a plain tensor, "
            "or run the model without capture()"
        )
    return Causal() if mask.variant == torchs.CausalVariant.LOWER_RIGHT else Causal(0)


def refuse_transforms(*tensors: object) -> None:
    """Refuse, in words, tensors that a transform of torch's has wrapped."""
    if peek_interpreter_stack() is None:  # no transform is running
        return
    if any(isinstance(x, Tensor) and is_functorch_wrapped_tensor(x) for x in tensors):
        raise CaptureError(
            "what runs inside torch.vmap or torch.func cannot be recorded: "
            "capture the model on a batch, or on one example at a time"
        )


def without_transforms(x: Tensor) -> Tensor:
    """Return the tensor that transforms of torch.func have wrapped."""
    while is_functorch_wrapped_tensor(x):
        x = get_unwrapped(x)
    return x


def read_kernel(func: Any, args: tuple, kwargs: dict[str, Any]) -> AttentionCall:
    """Read a call of a fused kernel. Those of all devices have the same argument names."""
    given = {a.name: x for a, x in zip(func._schema.arguments, args, strict=False)} | kwargs
    added = given.get("attn_mask", given.get("attn_bias"))
    return _product(
        given["query"], given["key"], added, given.get("is_causal", False), given.get("scale", None)
    )


def _product(
    q: Tensor,
    k: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float | None,
    leading: LeadingAxes | None = None,
) -> AttentionCall:
    if leading is not None:
        q, k, mask = _arranged(leading, q, k, mask)
    if mask is not None and mask.ndim == 3 and q.ndim == 3:  # (b,q,k) for (b,n,d)
        mask = mask[:, None]
    q, k = _four(q.detach()), _four(k.detach())
    if q.ndim != 4 or q.shape[0] != k.shape[0] or (mask is not None and mask.ndim > 4):
        batch = torch.broadcast_shapes(q.shape[:-3], k.shape[:-3])  # heads may be grouped
        q, k = (x.expand(*batch, *x.shape[-3:]).flatten(0, -4) for x in (q, k))  # (b,h,n,d)
        if mask is not None and mask.ndim > 3 and len(batch) > 1:
            mask = mask.expand(*batch, *mask.shape[-3:]).flatten(0, -4)
    if k.shape[1] > q.shape[1]:  # one head of queries that torch broadcasts
        q = q.expand(-1, k.shape[1], -1, -1)
    b, h, queries, _ = q.shape
    grid = Grid(b, h, queries, k.shape[2])
    factor = 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else float(scale)
    return AttentionCall(grid, q=q, k=k, scale=factor, attn_mask=mask, causal=bool(causal))


def _arranged(
    leading: LeadingAxes, q: Tensor, k: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """A call on four axes, in the order that was found or given."""
    sizes = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2])
    q, k = (leading.arrange(x.detach().expand(*sizes, *x.shape[-2:])) for x in (q, k))  # (b,h,n,d)
    if mask is not None:
        mask = mask.reshape((1,) * (len(sizes) + 2 - mask.ndim) + tuple(mask.shape))
        mask = leading.fit(mask, sizes)
    return q, k, mask


def _four(x: Tensor) -> Tensor:
    """Add axes for one head and one sequence to ``(n,d)`` or ``(b,n,d)``."""
    return x if x.ndim >= 4 else x[:, None] if x.ndim == 3 else x[None, None]
