"""The copy attention of a Transformer, which points at the source tokens to copy."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.copying import COPY_ATTENTION, CopyStates
from regard.core import attention_with_weights
from regard.errors import ArgumentError
from regard.models.records import Record, add_record
from regard.models.state import Memory
from regard.shapes import wide_dtype

__all__ = ["CopyAttention"]


class CopyAttention(nn.Module):
    """An attention from the last decoder states to the source, and the gate between generating and copying.

    A key is a projection of the encoder state and of the vector of the token itself, so that the attention can find a
    token by its identity as well as by its context. The gate reads the decoder state and the context vector.

    >>> copy = CopyAttention(8)
    >>> states, source = torch.ones(2, 3, 8), torch.tensor([[4, 5, 6], [4, 5, 0]])
    >>> memory = Memory(states, torch.tensor([3, 2]), copy.keys(states, torch.ones(2, 3, 8)), tokens=source)
    >>> copy(torch.ones(2, 5, 8), memory).weights[1, 0]
    tensor([0.5000, 0.5000, 0.0000], grad_fn=<SelectBackward0>)
    """

    is_cross_attention: ClassVar[bool] = True  # read by regard.capture

    def __init__(self, width: int):
        super().__init__()
        self.W_q = nn.Linear(width, width)
        self.W_k = nn.Linear(2 * width, width)
        self.gate = nn.Linear(2 * width, 1)
        for layer in (self.W_q, self.W_k):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def keys(self, states: Tensor, vectors: Tensor) -> Tensor:
        """Return the keys ``(b,s,m)`` of encoder states and token vectors, ``(b,s,m)`` each."""
        return self.W_k(torch.cat([states, vectors.to(states.dtype)], dim=-1))

    def forward(self, hidden: Tensor, memory: Memory, *, records: list[Record] | None = None) -> CopyStates:
        """Return the decoder states ``hidden (b,t,m)`` with their copy attention and the logits of their gate.

        ``memory`` has the keys and the tokens of the source. If ``records`` is a list, the copy attention is appended
        to it.
        """
        if memory.keys is None or memory.tokens is None:
            fix = "use the result of encode() of this model"
            raise ArgumentError("memory", "it has no keys and tokens for the copy attention", fix)
        query, wide = self.W_q(hidden), wide_dtype(hidden.dtype)
        # The weights are probabilities of tokens, so they are not rounded to half precision.
        with torch.autocast(hidden.device.type, enabled=False):
            inputs = (part.to(wide) for part in (query, memory.keys, memory.states))
            context, weights = attention_with_weights(*inputs, mask=memory.padding())  # (b,t,m), (b,t,s)
        if records is not None:
            add_record(records, name=COPY_ATTENTION, kind="cross", weights=weights[:, None])
        gate = self.gate(torch.cat([hidden, context.to(hidden.dtype)], dim=-1))[..., 0]  # (b,t)
        return CopyStates(hidden, gate, weights, memory.tokens)
