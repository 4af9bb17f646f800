"""The compiled decoding step of one sequence, and the compiled product of a matrix and a vector."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.kernels.native import library
from regard.torch_private import count_dispatch_modes, count_function_modes

__all__ = ["COLUMNS", "KINDS", "can_compile", "decoder_step", "project_vector"]

# The columns of the table of addresses of a layer, in the order of the C file.
COLUMNS = (
    *("self_norm.weight", "self_norm.bias"),
    *("self_attention.W_q.weight", "self_attention.W_q.bias", "self_attention.W_q.scales"),
    *("self_attention.W_k.weight", "self_attention.W_k.bias", "self_attention.W_k.scales"),
    *("self_attention.W_v.weight", "self_attention.W_v.bias", "self_attention.W_v.scales"),
    *("self_attention.W_o.weight", "self_attention.W_o.bias", "self_attention.W_o.scales"),
    *("feed_norm.weight", "feed_norm.bias"),
    *("feed_forward.widen.weight", "feed_forward.widen.bias", "feed_forward.widen.scales"),
    *("feed_forward.narrow.weight", "feed_forward.narrow.bias", "feed_forward.narrow.scales"),
    *("keys", "values"),
)
# The kinds of weights, by their dtypes, with their numbers in the C file.
KINDS = {torch.float32: 0, torch.bfloat16: 1, torch.int8: 2}


def can_compile(x: Tensor) -> bool:
    """Return whether a result for ``x`` may come from compiled code.

    That is the case on the CPU without gradients, if nothing observes torch's functions, and if there is a compiler.
    """
    if torch.is_grad_enabled() or x.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    if count_dispatch_modes() or count_function_modes():
        return False
    return library().handle is not None


def decoder_step(
    pointers: Tensor,  # (layers,columns) int64
    final: Tensor,  # (2,) int64, the weight and the bias of the last norm
    sizes: Tensor,  # (13,) int64
    numbers: Tensor,  # (2,), epsilon and the scale of the scores
    turn: Tensor,  # (d,), cosines and sines of this position
    x: Tensor,  # (m,)
    work: Tensor,
) -> None:
    """Replace the embedding ``x`` of a token by its state after all blocks and the last norm.

    The keys and values of the token are written to the caches. See ``c/decoding.c`` for the arguments.
    """
    library().call("decoder_step", pointers, final, sizes, numbers, turn, x, work)


def project_vector(x: Tensor, weight: Tensor, bias: Tensor | None, scales: Tensor | None = None) -> Tensor:
    """Return ``weight @ x + bias`` in float32 for one vector ``x (n,)``.

    ``weight (rows,n)`` is float32, bfloat16, or int8 with ``scales (rows,)``. ``bias`` and ``scales`` are float32.

    >>> project_vector(torch.ones(2), torch.tensor([[1.0, 2.0]]), None)
    tensor([3.])
    """
    if library().handle is None:
        full = weight.float() if scales is None else weight.float() * scales[:, None]
        return torch.nn.functional.linear(x.float(), full, bias)
    x, y = x.float().contiguous(), torch.empty(weight.shape[0])
    pointers = torch.tensor([0 if part is None else part.data_ptr() for part in (weight, scales, bias)])
    library().call(
        "project_vector", pointers, x, y, KINDS[weight.dtype], *weight.shape, torch.get_num_threads()
    )
    return y
