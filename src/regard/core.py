"""The functions that compute attention, through which all layers, models and tasks go.

:func:`attention` chooses the kernel and returns the output, and the :class:`~regard.AttentionMap` on request.
:func:`attention_with_weights` returns the weights as a tensor that can be differentiated.
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, Literal, NamedTuple, ParamSpec, Protocol, TypeVar, overload

import torch
from torch import Tensor

from regard.biases import Bias, StoredBias, SumOfBiases, as_bias
from regard.errors import ArgumentError, DtypeError, UnknownArgumentError, did_you_mean
from regard.kernels.dispatch import Call, attend_with_weights, run, weights_of
from regard.maps import AttentionMap, Recomputed
from regard.masks import Mask, split_additive
from regard.masks.stored import check_mask_device
from regard.modes import autocasting
from regard.scores import Prepared, Score, as_score
from regard.shapes import Grid, check_qkv, four_axes

__all__ = [
    "OBSERVERS",
    "CallObserver",
    "attention",
    "attention_weights",
    "attention_with_weights",
    "knows_other_libraries",
]

ScoreLike = str | Callable[[Tensor, Tensor], Tensor]
MaskLike = Mask | Tensor


# Arguments of similar functions, with the equivalent here.
_OTHER_LIBRARIES = {
    "is_causal": "use mask=regard.causal()",
    "causal": "use mask=regard.causal()",
    "attn_mask": "use mask=..., where True may be attended, unlike in nn.MultiheadAttention",
    "attention_mask": "use mask=regard.padding(attention_mask)",
    "key_padding_mask": "use mask=regard.Mask.from_key_padding_mask(...)",
    "dropout_p": "use dropout=..., for a layer when it is made",
    "enable_gqa": "k and v with fewer heads need no flag",
    "need_weights": "attention(..., return_map=True) and the layers return weights",
    "average_attn_weights": "use the mean of the returned weights over the heads",
    "window_size": "use mask=regard.window(left, right)",
    "alibi_slopes": "use bias=regard.positions.ALiBi(heads)",
}

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def knows_other_libraries(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Return the function with an error that names the equivalent of arguments that similar functions have.

    >>> import torch, regard
    >>> attention_weights(torch.ones(2, 3), torch.ones(2, 3), is_causal=True)
    Traceback (most recent call last):
        ...
    regard.errors.UnknownArgumentError: is_causal: not an argument of attention_weights(): use mask=regard.causal()
    """
    own = inspect.signature(function).parameters
    hints = {name: hint for name, hint in _OTHER_LIBRARIES.items() if name not in own}
    # The first part of `MultiHeadAttention.forward` is the name that users know.
    called = function.__qualname__.removesuffix(".forward")

    @functools.wraps(function)
    def checked(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        for name in kwargs:
            if name in hints:
                raise UnknownArgumentError(name, f"not an argument of {called}()", hints[name])
        return function(*args, **kwargs)

    return checked


class CallObserver(Protocol):
    """An object that is notified of every call of the functions of this module, such as a :func:`regard.capture`."""

    def own_call(self, call: Call) -> AbstractContextManager[None]:
        """Return a context manager that is entered around the computation of a call."""
        ...


OBSERVERS: list[CallObserver] = []
"""The active observers. They are needed because torch does not see the kernels in C."""


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
    """Return the attention of queries over keys and values, the mean of the values weighted by the softmax of scores.

    ``q``, ``k`` and ``v`` are ``(n,d)``, ``(b,n,d)`` or ``(b,h,n,d)``, all with the same number of axes. The output has
    the axes of ``q`` and the width of ``v``. Keys and values may have fewer heads than the queries (grouped-query
    attention), and values may have another width than keys. A batch of one is repeated to the batch size of the others.

    score
        ``"dot"``, ``"scaled_dot"``, a score of :mod:`regard.scores`, or a callable ``(q, k) -> scores``.
    mask
        A :class:`~regard.Mask` or a tensor. True and the integer 1 may be attended, and other integers than 0 and 1 are
        an error. Floats are added to the scores. A query that may attend to no key has weights and output of 0.
    bias
        Finite numbers added to the scores, as a tensor or as a rule such as :class:`~regard.positions.ALiBi`.
    scale
        The factor of the scores, by default that of the score.
    dropout
        The probability with which each weight is dropped. There is no training mode here, so pass 0 outside training.
    return_map
        Whether to return ``(output, map)``, with the :class:`~regard.AttentionMap` of the weights before dropout.

    Under ``torch.autocast``, q, k and v are cast to its dtype as in torch's own attention, and the output has that
    dtype. Sums are computed in float32.

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
    callable_score = None if isinstance(call.score, Score) else call.score
    return out, AttentionMap(Recomputed.frozen(ready, call.grid, call.mask, call.bias, lse, callable_score))


@knows_other_libraries
def attention_weights(
    q: Tensor,
    k: Tensor,
    *,
    score: ScoreLike = "scaled_dot",
    mask: MaskLike | None = None,
    bias: Tensor | Bias | None = None,
    scale: float | None = None,
) -> Tensor:
    """Return the attention weights ``(..., q, k)`` alone, with gradients.

    The arguments are those of :func:`attention`.

    >>> import torch
    >>> attention_weights(torch.tensor([[1.0]]), torch.tensor([[1.0], [0.0]]), scale=math.log(3))
    tensor([[0.7500, 0.2500]])
    """
    call = _read(q, k, None, score, mask, bias, scale, 0.0)
    with _observed(call):
        weights = weights_of(call)
    return _like(weights, q).to(call.q.dtype)


@knows_other_libraries
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
    """Return the output and the weights ``(..., q, k)`` of an attention as tensors, both with gradients.

    The arguments and the output are those of :func:`attention`. Dropout changes the output, but not the returned
    weights.

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
    # torch.compile can trace a nullcontext.
    if not OBSERVERS:
        return nullcontext()
    around = ExitStack()
    for observer in OBSERVERS:
        around.enter_context(observer.own_call(call))
    return around


def _read(q, k, v, score, mask, bias, scale, dropout) -> Call:
    """Check the arguments of a call, and convert them to tensors of four axes, a score, a Mask and a Bias.

    A mask of floats becomes a bias, or a mask and a bias. Keys that no query sees are replaced by zeros, together with
    their values. Without ``v``, the keys stand for the values.
    """
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
        if isinstance(mask, Tensor):
            check_mask_device(mask, q)
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
    visible = _visible_keys(mask, four_k, grid)
    if visible is not None:
        # In self-attention, a padding key is also a padding query.
        if q is k:
            four_q = torch.where(visible | four_q.isfinite(), four_q, 0.0)
        four_k, four_v = torch.where(visible, four_k, 0.0), torch.where(visible, four_v, 0.0)
    return Call(four_q, four_k, four_v, grid, score, scale, mask, bias, dropout)


def _autocast(q, k, v) -> Any:
    """Return q, k and v, each in the dtype of autocast unless it is float64 or no tensor of floats.

    Torch's own attention casts the same.
    """
    dtype = torch.get_autocast_dtype(q.device.type)
    cast = {id(x): x.to(dtype) for x in (q, k, v) if isinstance(x, Tensor) and x.dtype in _CASTABLE}
    # The same tensor given twice stays the same tensor.
    return tuple(cast.get(id(x), x) for x in (q, k, v))


class _Autocast(NamedTuple):
    """A callable score that runs under the caller's autocast, which is disabled around it."""

    score: Callable[[Tensor, Tensor], Tensor]
    device: str
    dtype: torch.dtype

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        with torch.autocast(self.device, self.dtype):
            return self.score(q, k)


_CASTABLE = (torch.float32, torch.float16, torch.bfloat16)


def _repeated(x: Tensor, batch: int) -> Tensor:
    """Expand ``x (b,h,n,d)`` from a batch of one to ``batch``."""
    return x if x.shape[0] == batch else x.expand(batch, -1, -1, -1)


def _is_number(value: object) -> bool:
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _visible_keys(mask: Mask | None, k: Tensor, grid: Grid) -> Tensor | None:
    """Return which keys are visible to any query, ``(b or 1, h or 1, k, 1)``, or None for all keys.

    The caller replaces hidden keys by zeros so that NaN in them does not spread. This happens before projections,
    because the gradient of a projection is a sum over all its inputs.
    """
    visible = None if mask is None else mask.seen_keys(grid)
    if visible is None:
        return None
    visible = visible.to(k.device)
    # A key of a group of heads is visible if any head of the group sees it.
    if visible.shape[1] not in (1, k.shape[1]):
        visible = visible.unflatten(1, (k.shape[1], -1)).any(dim=2)
    return visible[..., None]


def _like(x: Tensor, q: Tensor) -> Tensor:
    """Remove the batch and head axes that q did not have."""
    return x if q.ndim == 4 else x[:, 0] if q.ndim == 3 else x[0, 0]


def _unknown_argument(name: str) -> UnknownArgumentError:
    known = ["score", "mask", "bias", "scale", "dropout", "return_map"]
    hint = _OTHER_LIBRARIES.get(name) or f"{did_you_mean(name, known)}attention() takes {', '.join(known)}"
    return UnknownArgumentError(name, "not an argument of attention()", hint)
