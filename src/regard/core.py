"""The one door: score, mask, softmax, weighted sum.

:func:`attention` picks the kernel and returns the output, with the map of the weights if asked;
:func:`attention_with_weights` gives the weights as a plain tensor that can be differentiated.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, Literal, NamedTuple, Protocol, overload

import torch
from torch import Tensor

from regard.biases import Bias, StoredBias, SumOfBiases, as_bias
from regard.errors import ArgumentError, DtypeError, UnknownArgumentError, did_you_mean
from regard.kernels.dispatch import Call, attend_with_weights, run, weights_of
from regard.maps import AttentionMap, Recomputed
from regard.masks import Mask, split_additive
from regard.modes import autocasting
from regard.scores import Prepared, Score, as_score
from regard.shapes import Grid, check_qkv, four_axes

__all__ = ["OBSERVERS", "Observer", "attention", "attention_weights", "attention_with_weights"]

ScoreLike = str | Callable[[Tensor, Tensor], Tensor]
MaskLike = Mask | Tensor


class Observer(Protocol):
    """Who wants to know of every call; :func:`regard.capture` is one."""

    def own_call(self, call: Call) -> AbstractContextManager[None]:
        """Surrounds the computation of a call, after its arguments were read."""
        ...


OBSERVERS: list[Observer] = []
"""Told of each call while they are here. Not all of our kernels can be seen from torch: some are C."""


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    score: ScoreLike = ...,
    mask: MaskLike | None = ...,
    bias: Tensor | Bias | None = ...,
    scale: float | None = ...,
    dropout: float = ...,
    return_map: Literal[False] = ...,
) -> Tensor: ...
@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    score: ScoreLike = ...,
    mask: MaskLike | None = ...,
    bias: Tensor | Bias | None = ...,
    scale: float | None = ...,
    dropout: float = ...,
    return_map: Literal[True],
) -> tuple[Tensor, AttentionMap]: ...
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    score: ScoreLike = "scaled_dot",
    mask: MaskLike | None = None,
    bias: Tensor | Bias | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    return_map: bool = False,
    **unknown: Any,
) -> Tensor | tuple[Tensor, AttentionMap]:
    """Attention of queries over keys and values.

    ``q``, ``k``, ``v`` are ``(n,d)``, ``(b,n,d)`` or ``(b,h,n,d)``; keys and values may have fewer heads than the
    queries (groups), values another width than keys. A batch of one is repeated for the others.

    score
        ``"dot"``, ``"scaled_dot"``, a score of :mod:`regard.scores`, or a callable ``(q, k) -> scores``.
    mask
        A :class:`~regard.Mask` or a tensor; True or non-zero integers may be attended, floats are added.
    bias
        Finite numbers added to the scores: a tensor, or :class:`~regard.positions.ALiBi` and its like.
    scale
        Multiplies the scores in place of the score's own factor.
    dropout
        Share of the weights that is dropped. It acts whenever it is given: pass 0 outside training.
    return_map
        Also return the :class:`~regard.AttentionMap`.

    Under ``torch.autocast`` q, k and v are cast to its dtype, as by torch's own attention, and the output has that
    dtype; sums are taken in float32.

    >>> import torch
    >>> q, k, v = torch.tensor([[1.0, 0.0]]), torch.eye(2), torch.tensor([[1.0], [0.0]])
    >>> attention(q, k, v, scale=math.log(3))
    tensor([[0.7500]])
    """
    if unknown:
        raise _unknown_argument(next(iter(unknown)))
    call = _read(q, k, v, score, mask, bias, scale, dropout)
    with _observed(call):
        out, lse, ready = run(call, return_map)
    out = _like(out, q)
    if not return_map:
        return out
    ready = ready or Prepared(call.q, call.k, 1.0 if call.scale is None else call.scale)
    own = None if isinstance(call.score, Score) else call.score
    return out, AttentionMap(Recomputed.frozen(ready, call.grid, call.mask, call.bias, lse, own))


def attention_weights(
    q: Tensor,
    k: Tensor,
    *,
    score: ScoreLike = "scaled_dot",
    mask: MaskLike | None = None,
    bias: Tensor | Bias | None = None,
    scale: float | None = None,
) -> Tensor:
    """The weights alone, ``(..., q, k)``, differentiable.

    >>> import torch
    >>> attention_weights(torch.tensor([[1.0]]), torch.tensor([[1.0], [0.0]]), scale=math.log(3))
    tensor([[0.7500, 0.2500]])
    """
    call = _read(q, k, None, score, mask, bias, scale, 0.0)
    with _observed(call):
        weights = weights_of(call)
    return _like(weights, q).to(call.q.dtype)


def attention_with_weights(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    score: ScoreLike = "scaled_dot",
    mask: MaskLike | None = None,
    bias: Tensor | Bias | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Output and weights as plain tensors, both differentiable; dropout never shows in the weights.

    >>> import torch
    >>> out, weights = attention_with_weights(torch.ones(5, 4), torch.ones(7, 4), torch.ones(7, 3))
    >>> out.shape, weights.shape
    (torch.Size([5, 3]), torch.Size([5, 7]))
    """
    call = _read(q, k, v, score, mask, bias, scale, dropout)
    with _observed(call):
        out, weights = attend_with_weights(call)
    return _like(out, q).to(call.v.dtype), _like(weights, q).to(call.q.dtype)


def _observed(call: Call) -> AbstractContextManager[Any]:
    if not OBSERVERS:
        return nullcontext()  # what torch.compile can trace
    around = ExitStack()
    for observer in OBSERVERS:
        around.enter_context(observer.own_call(call))
    return around


def _read(q, k, v, score, mask, bias, scale, dropout) -> Call:
    """Check the arguments and bring them into one form."""
    score = as_score(score)
    if isinstance(q, Tensor) and autocasting(q.device):
        q, k, v = _autocast(q, k, v)
        if not isinstance(score, Score):
            score = _Autocast(score, q.device.type, torch.get_autocast_dtype(q.device.type))
    grid = check_qkv(q, k, v)
    if scale is not None and not (_is_number(scale) and math.isfinite(scale)):
        raise DtypeError("scale", f"expected a finite number, got {scale!r}")
    if not _is_number(dropout) or not 0.0 <= dropout <= 1.0:
        raise ArgumentError("dropout", f"expected a share from 0 to 1, got {dropout!r}")
    if mask is not None:
        mask, added = split_additive(mask)
        if added is not None:
            added = as_bias(added, grid, q)
            bias = added if bias is None else SumOfBiases(added, as_bias(bias, grid, q))  # type: ignore[arg-type]
        if mask is not None:
            mask.check(grid)
            mask = mask.simplified(grid)
    if not isinstance(bias, StoredBias | SumOfBiases):
        bias = as_bias(bias, grid, q)
    four_q, four_k, four_v = four_axes(q), four_axes(k), four_axes(k if v is None else v)
    if grid.b != 1:
        four_q, four_k, four_v = (_repeated(x, grid.b) for x in (four_q, four_k, four_v))
    seen = _seen(mask, four_k, grid)
    if seen is not None:
        if q is k:  # a sequence that looks at itself: what is padding as a key is padding as a query
            four_q = torch.where(seen | four_q.isfinite(), four_q, 0.0)
        four_k, four_v = torch.where(seen, four_k, 0.0), torch.where(seen, four_v, 0.0)
    return Call(four_q, four_k, four_v, grid, score, scale, mask, bias, dropout)


def _autocast(q, k, v) -> Any:
    """Cast to autocast's dtype what torch's own attention would cast: all but float64."""
    dtype = torch.get_autocast_dtype(q.device.type)
    cast = {id(x): x.to(dtype) for x in (q, k, v) if isinstance(x, Tensor) and x.dtype in _CASTABLE}
    return tuple(cast.get(id(x), x) for x in (q, k, v))  # q and k stay one where they were


class _Autocast(NamedTuple):
    """A callable of the user's, run under the autocast of the call: the sums around it are taken without."""

    score: Callable[[Tensor, Tensor], Tensor]
    device: str
    dtype: torch.dtype

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        with torch.autocast(self.device, self.dtype):
            return self.score(q, k)


_CASTABLE = (torch.float32, torch.float16, torch.bfloat16)


def _repeated(x: Tensor, batch: int) -> Tensor:
    """``x (b,h,n,d)``, with a batch of one repeated."""
    return x if x.shape[0] == batch else x.expand(batch, -1, -1, -1)


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _seen(mask: Mask | None, k: Tensor, grid: Grid) -> Tensor | None:
    """Keys that some query may see, ``(b or 1, h or 1, k, 1)``; None for all.

    The others are replaced by zeros, so that NaN there goes nowhere; before anything is projected, since the
    gradient of a projection is a sum over all its inputs.
    """
    seen = None if mask is None else mask.seen_keys(grid)
    if seen is None:
        return None
    seen = seen.to(k.device)
    if seen.shape[1] not in (1, k.shape[1]):  # grouped heads: seen by any head of the group
        seen = seen.unflatten(1, (k.shape[1], -1)).any(dim=2)
    return seen[..., None]


def _like(x: Tensor, q: Tensor) -> Tensor:
    """Four axes cut back to those the caller gave."""
    return x if q.ndim == 4 else x[:, 0] if q.ndim == 3 else x[0, 0]


_SAID_ELSEWHERE = {
    "is_causal": "use mask=regard.causal()",
    "causal": "use mask=regard.causal()",
    "attn_mask": "use mask=..., where True may be attended",
    "attention_mask": "use mask=regard.padding(attention_mask)",
    "key_padding_mask": "use mask=regard.Mask.from_key_padding_mask(...)",
    "dropout_p": "use dropout=...",
    "enable_gqa": "k and v with fewer heads need no flag",
    "need_weights": "use return_map=True",
    "window_size": "use mask=regard.window(left, right)",
    "alibi_slopes": "use bias=regard.positions.ALiBi(heads)",
}


def _unknown_argument(name: str) -> UnknownArgumentError:
    known = ["score", "mask", "bias", "scale", "dropout", "return_map"]
    hint = _SAID_ELSEWHERE.get(name) or f"{did_you_mean(name, known)}attention() takes {', '.join(known)}"
    return UnknownArgumentError(name, "not an argument of attention()", hint)
