"""The eager attention functions of Hugging Face, whose calls are recorded as a whole.

Most models of Hugging Face compute eager attention in ``eager_attention_forward(module, query, key, value, mask, ...)``
of their own source file. Its arguments hold all that a record needs, so that the ten functions of torch inside need not
be followed. In every call, a few rows of the weights that it returns are compared with rows computed from its
arguments. In the first call by each module class, a few rows of its output are compared with the product of weights
and values. If they differ, the call is made again and followed. Outputs of later layers of the same class are not
compared, since that would add 5 % to the time of a short input.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from regard.capture.reading.attention_calls import AttentionCall
from regard.capture.watching.modes import idle_session
from regard.capture.watching.patches import restore
from regard.capture.watching.recomputed_rows import gives_output, gives_weights
from regard.capture.watching.session import Session
from regard.shapes import Grid
from regard.torch_private import (
    FunctionModesOff,
    all_function_modes_off,
    any_autocast,
    count_dispatch_modes,
    transform_on_top,
)

__all__ = ["record_eager_functions"]

_NAME = "eager_attention_forward"


@contextmanager
def record_eager_functions(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Replace the eager attention functions in the source files of some modules by functions that record their calls.

    A function that another capture has replaced already is left as it is. If that capture ends first, the functions
    are followed like those of any other model.
    """
    files = {type(module).__module__ for module in modules}
    in_files = {
        file: vars(sys.modules[file]).get(_NAME) for file in files if file.startswith("transformers.models.")
    }
    replaced = {
        file: forward for file, forward in in_files.items() if forward and not hasattr(forward, "is_recorded")
    }
    replacements = {file: _recorded(forward) for file, forward in replaced.items()}
    for file, replacement in replacements.items():
        setattr(sys.modules[file], _NAME, replacement)
    try:
        yield
    finally:
        for file, forward in replaced.items():
            restore(sys.modules[file], _NAME, replacements[file], forward)


def _recorded(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an eager attention function so that its calls are recorded."""

    @functools.wraps(forward)
    def recorded(
        module: Any, query: Any, key: Any, value: Any, attention_mask: Any, *args: Any, **kwargs: Any
    ) -> Any:
        tensors = (query, key, value, attention_mask)
        session = None if args else idle_session()
        if isinstance(session, Session) and _can_be_recorded(session, forward, module, tensors, kwargs):
            with FunctionModesOff():
                result = forward(module, *tensors, **kwargs)
                call = _read(session, (forward, type(module)), tensors, kwargs, result)
                if call is not None:
                    session.record(call)
                    return result
            session.followed_functions.add(forward)
        return forward(module, *tensors, *args, **kwargs)

    recorded.is_recorded = True  # type: ignore[attr-defined]
    return recorded


def _can_be_recorded(
    session: Session,
    forward: Callable[..., Any],
    module: Any,
    tensors: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> bool:
    """Whether the running module itself makes a call, on plain tensors, outside of autocast, modes and transforms."""
    for x in tensors:
        if type(x) is not Tensor and x is not None:
            return False
    if session.stack.choices or forward in session.followed_functions or not session.attends_now(module):
        return False
    if module.training and kwargs.get("dropout", 0.0) != 0.0:
        return False
    if any_autocast() or count_dispatch_modes():
        return False
    # A function that calls this one is recorded.
    if all_function_modes_off():
        return False
    return transform_on_top() is None


def _read(
    session: Session,
    function: tuple[Callable[..., Any], type[nn.Module]],
    tensors: tuple[Any, ...],
    kwargs: dict[str, Any],
    result: Any,
) -> AttentionCall | None:
    """Read the call of a function by a module class. Returns None where its arguments do not give its result."""
    q, k, v, mask = tensors
    output, weights = result if isinstance(result, tuple) and len(result) == 2 else (None, None)
    if type(weights) is not Tensor or type(output) is not Tensor or q.ndim != 4 or k.ndim != 4 or q.is_meta:
        return None
    (b, h, queries, width), keys = q.shape, k.shape[2]
    if weights.shape != (b, h, queries, keys) or h % k.shape[1] or not weights.numel():
        return None
    if mask is not None:
        if mask.ndim != 4 or not mask.is_floating_point():
            return None
        mask = mask.detach()[..., :keys]
    scale = kwargs.get("scaling")
    scale = width**-0.5 if scale is None else float(scale)
    call = AttentionCall(Grid(b, h, queries, keys), q=q.detach(), k=k.detach(), scale=scale, attn_mask=mask)
    weights = weights.detach()
    if not gives_weights(call, weights):
        return None
    if function not in session.checked_functions:
        if not gives_output(weights, v.detach(), output.detach()):
            return None
        session.checked_functions.add(function)
    return call
