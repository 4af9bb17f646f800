"""Attention calls with their queries, keys, scale and mask, read from the arguments of functions and kernels."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.biases import Bias
from regard.capture.reading.axes import LeadingAxes
from regard.capture.reading.fast_replace import replace
from regard.capture.reading.tensor_subclasses import is_fake
from regard.errors import CaptureError
from regard.masks import Mask
from regard.masks.rules import Causal
from regard.shapes import Grid
from regard.torch_private import any_autocast, is_in_transform, schema_of, transform_on_top, without_transform

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
    k: Tensor | None = None  # (b,g,k,d), where g divides h
    scale: float = 1.0
    # (b,h,q), if the kernel returned it
    lse: Tensor | None = None
    # The arguments attn_mask and is_causal of torch. is_causal is aligned to the upper left corner.
    attn_mask: Tensor | None = None
    causal: bool = False
    # The mask and the bias of a call of regard.attention.
    mask: Mask | None = None
    bias: Bias | None = None
    # The vector (m,) of an additive score, or a callable score.
    v: Tensor | None = None
    score: Callable[[Tensor, Tensor], Tensor] | None = None
    # (b,h,q,k), if they cannot be computed from q and k
    weights: Tensor | None = None
    # The indices of keys that are attention sinks, not tokens.
    sinks: tuple[int, ...] = ()
    # The axes of sequences and heads in the weights tensor of the model, and whether they were guessed.
    leading: LeadingAxes | None = None
    guessed: bool = False
    # The axes of queries and keys in the weights tensor of the model.
    axes: tuple[int, int] | None = None
    # The keys that the model selected for each query, if its weights tensor holds only these.
    picked: Tensor | None = None

    @property
    def is_small(self) -> bool:
        """Whether the log-sum-exp is computed on demand instead of being read from the kernel.

        Watching a kernel takes longer than a small call itself. Under autocast the kernel is watched in any case, since
        it shows the dtype.
        """
        b, h, q, k = self.grid
        return b * h * q * k <= SMALL_WORK and not any_autocast()

    def with_result(self, result: Any) -> AttentionCall:
        """Return the call with the log-sum-exp from the result of the fused kernel for the CPU."""
        lse = result[1] if isinstance(result, tuple) and len(result) > 1 else None
        fits = isinstance(lse, Tensor) and tuple(lse.shape) == self.grid[:3]
        return replace(self, lse=lse.detach() if fits and isinstance(lse, Tensor) else None)

    def in_dtype(self, dtype: torch.dtype) -> AttentionCall:
        """Return the call in the dtype of the kernel, which under autocast differs from that of the function."""
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
    """Read a call of ``F.scaled_dot_product_attention`` from its arguments.

    ``leading`` describes the axes in front of queries and keys. None stands for the order of torch.
    """
    if query.is_nested or key.is_nested:
        raise CaptureError(
            "nested tensors cannot be recorded: capture the model on a padded batch with a mask"
        )
    if is_fake(query):
        raise without_numbers("a model of fake tensors")
    if query.is_meta:
        raise without_numbers("a model on the meta device")
    # Grouped heads without a batch axis.
    if enable_gqa and query.ndim == 3:
        query, key = query[None], key[None]
    if not isinstance(attn_mask, Tensor) or type(attn_mask) in (Tensor, nn.Parameter):
        return _product(query, key, attn_mask, is_causal, scale, leading)
    return replace(_product(query, key, None, False, scale, leading), mask=_rule_of(attn_mask))


def without_numbers(model: str) -> CaptureError:
    """Return the error for tensors without data, such as meta tensors."""
    return CaptureError(f"{model} has no numbers to record: load its weights first")


def _rule_of(mask: Any) -> Mask:
    """Return the mask rule of a ``CausalBias`` of torch, which is a tensor without data."""
    # Importing the module would load the compiler.
    torchs = sys.modules.get("torch.nn.attention.bias")
    if torchs is None or not isinstance(mask, torchs.CausalBias):
        raise CaptureError(
            f"attn_mask: a mask of the class {type(mask).__name__} cannot be read: pass a plain tensor, "
            "or run the model without capture()"
        )
    return Causal() if mask.variant == torchs.CausalVariant.LOWER_RIGHT else Causal(0)


def refuse_transforms(*tensors: object) -> None:
    """Raise CaptureError for tensors that a transform of torch.func has wrapped."""
    # No transform is running.
    if transform_on_top() is None:
        return
    if any(isinstance(x, Tensor) and is_in_transform(x) for x in tensors):
        raise CaptureError(
            "calls inside torch.vmap or torch.func cannot be recorded: "
            "capture the model on a batch, or on one example at a time"
        )


def without_transforms(x: Tensor) -> Tensor:
    """Return the tensor that transforms of torch.func have wrapped."""
    while is_in_transform(x):
        x = without_transform(x)
    return x


def read_kernel(func: Any, args: tuple, kwargs: dict[str, Any]) -> AttentionCall:
    """Read a call of a fused kernel. The kernels of all devices have the same argument names."""
    given = {a.name: x for a, x in zip(schema_of(func).arguments, args, strict=False)} | kwargs
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
        # The axes of heads differ if they are grouped.
        batch = torch.broadcast_shapes(q.shape[:-3], k.shape[:-3])
        q, k = (x.expand(*batch, *x.shape[-3:]).flatten(0, -4) for x in (q, k))  # (b,h,n,d)
        if mask is not None and mask.ndim > 3 and len(batch) > 1:
            mask = mask.expand(*batch, *mask.shape[-3:]).flatten(0, -4)
    # Torch broadcasts a single head of queries.
    if k.shape[1] > q.shape[1]:
        q = q.expand(-1, k.shape[1], -1, -1)
    b, h, queries, _ = q.shape
    grid = Grid(b, h, queries, k.shape[2])
    factor = 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else float(scale)
    return AttentionCall(grid, q=q, k=k, scale=factor, attn_mask=mask, causal=bool(causal))


def _arranged(
    leading: LeadingAxes, q: Tensor, k: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return queries, keys and mask with the axes ``(b,h,n,d)`` and ``(b,h,q,k)``, as ``leading`` describes them."""
    sizes = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2])
    q, k = (leading.arrange(x.detach().expand(*sizes, *x.shape[-2:])) for x in (q, k))  # (b,h,n,d)
    if mask is not None:
        mask = mask.reshape((1,) * (len(sizes) + 2 - mask.ndim) + tuple(mask.shape))
        mask = leading.fit(mask, sizes)
    return q, k, mask


def _four(x: Tensor) -> Tensor:
    """Add axes for one head and one sequence to ``(n,d)`` or ``(b,n,d)``."""
    return x if x.ndim >= 4 else x[:, None] if x.ndim == 3 else x[None, None]
