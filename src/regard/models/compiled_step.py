"""Decoding steps of one sequence in compiled code, which reads each weight once and starts no other kernels.

Without a C compiler, with gradients or while attention is captured, the steps of a decoder run in torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.core import OBSERVERS
from regard.kernels.decoding import COLUMNS, KINDS, can_compile, decoder_step, project_vector
from regard.layers import MultiHeadAttention
from regard.models.blocks import Block, FeedForward
from regard.models.int8 import Int8Linear
from regard.models.state import StepCache, TransformerState
from regard.torch_private import has_hooks

if TYPE_CHECKING:
    from regard.models.decoder import Decoder

__all__ = ["CompiledStep", "project_if_compiled"]

_ACTIVATIONS = {"gelu": 0, "gelu_tanh": 1, "relu": 2, "swiglu": 3}
_LAYOUTS = {"gpt-j": 1, "llama": 2}
_KEYS = len(COLUMNS) - 2
# Each thread has a vector of this many numbers on its stack.
_MOST_WIDTH = 2**15


class CompiledStep:
    """The weights of a decoder as a table of addresses, for decoding one sequence.

    :meth:`of` makes it at the start of decoding, so that weights that are replaced later belong to the next sequence.
    """

    def __init__(self, decoder: Decoder, kind: torch.dtype):
        config = decoder.config
        self.window, self.kept = config.window, []
        rows = [[self._address(layer, name) for name in COLUMNS[:_KEYS]] + [0, 0] for layer in decoder.layers]
        self.pointers = torch.tensor(rows)  # (layers,columns)
        self.final = torch.tensor([self._address(decoder, name) for name in ("norm.weight", "norm.bias")])
        first: Any = decoder.layers[0]
        self.rotary = first.self_attention.rotary
        self.head_width, self.groups = first.self_attention.head_dim, first.self_attention.kv_heads
        layout = 0 if self.rotary is None else _LAYOUTS[self.rotary.layout]
        sizes = [config.layers, config.width, config.heads, self.groups, self.head_width, config.feed_forward]
        sizes += [_ACTIVATIONS[config.activation], int(config.norm_type == "rms"), layout, 0, 0, KINDS[kind]]
        self.sizes = torch.tensor([*sizes, 1])
        self.numbers = torch.tensor([config.norm_epsilon, self.head_width**-0.5])
        self.room = 5 * config.width + config.feed_forward
        self.heads, self.capacity = config.heads, 0
        self.turns = self.work = torch.empty(0)

    @classmethod
    def of(cls, decoder: Decoder) -> CompiledStep | None:
        """Return the compiled steps of a decoder, or None if they do not compute the same as its modules."""
        config = decoder.config
        scaled = config.rotary_scaling or {}
        if config.norm != "pre" or decoder.bias is not None or config.cross_attention:
            return None
        if config.width > _MOST_WIDTH or scaled.get("rope_type", scaled.get("type")) == "dynamic":
            return None
        kinds = set()
        for layer in decoder.layers:
            if not _plain(layer):
                return None
            kinds |= {
                module.weight.dtype
                for module in layer.modules()
                if isinstance(module, nn.Linear | Int8Linear)
            }
        kind = kinds.pop() if len(kinds) == 1 else None
        norms = all(isinstance(module.weight, Tensor) for module in [decoder.norm])
        return cls(decoder, kind) if kind in KINDS and norms and not _hooked(decoder) else None

    def fits(self, x: Tensor, state: TransformerState) -> bool:
        """Return whether the next step of a state, with embedded tokens ``x (rows,1,m)``, can be compiled."""
        caches = state.self_caches
        return x.shape[0] == 1 and not OBSERVERS and all(type(cache) is StepCache for cache in caches[:1])

    def __call__(self, x: Tensor, state: TransformerState) -> Tensor:
        """Return the state ``(1,1,m)`` of the next token, whose embedding is ``x (1,1,m)``, and add its keys."""
        place = state.length
        if not state.unsettled or place >= self.capacity:
            self._reserve(state)
        first = 0 if self.window is None else max(0, place + 1 - self.window)
        self.sizes[9], self.sizes[10], self.sizes[12] = place, first, torch.get_num_threads()
        hidden = x.detach().reshape(-1).to(torch.float32, copy=True).contiguous()  # (m,)
        turn = self.turns[place] if self.rotary is not None else self.turns
        decoder_step(self.pointers, self.final, self.sizes, self.numbers, turn, hidden, self.work)
        state.unsettled = True
        return hidden.reshape(x.shape)

    def _reserve(self, state: TransformerState) -> None:
        """Make room in the caches for the next keys, and note their addresses."""
        state.settle()
        least = state.length + 1
        for layer, cache in enumerate(state.self_caches):
            assert isinstance(cache, StepCache)
            keys, values = cache.reserve(least, (1, self.groups, self.head_width))
            self.pointers[layer, _KEYS], self.pointers[layer, _KEYS + 1] = keys.data_ptr(), values.data_ptr()
            self.capacity = keys.shape[0]
        self.work = torch.empty(self.room + self.heads * self.capacity)
        if self.rotary is not None:
            self.turns = _turns(self.rotary, self.capacity)  # (capacity,d)

    def _address(self, module: nn.Module, name: str) -> int:
        """Return the address of a tensor of a module, or 0 if it has none. Vectors are read in float32."""
        owner, _, part = name.rpartition(".")
        tensor = getattr(module.get_submodule(owner), part, None)
        if tensor is None:
            return 0
        tensor = tensor.detach()
        tensor = (tensor.float() if tensor.ndim == 1 else tensor).contiguous()
        self.kept.append(tensor)  # as long as the address is used
        return tensor.data_ptr()


def project_if_compiled(layer: nn.Linear, x: Tensor) -> Tensor | None:
    """Return the output of a linear layer for one vector ``x (1,...,n)``, or None if torch has to compute it."""
    weight, bias = layer.weight, layer.bias
    if x.numel() != weight.shape[1] or weight.dtype not in KINDS or not can_compile(x) or OBSERVERS:
        return None
    if (
        not weight.is_contiguous()
        or weight.device.type != "cpu"
        or x.dtype not in (torch.float32, weight.dtype)
    ):
        return None
    bias = None if bias is None else bias.detach().float()
    return project_vector(x.detach().reshape(-1), weight.detach(), bias).reshape(*x.shape[:-1], -1)


def _plain(layer: Any) -> bool:
    """Return whether a block and all its parts are of the classes that the compiled code computes."""
    if type(layer) is not Block or type(layer.self_attention) is not MultiHeadAttention:
        return False
    attention, feed = layer.self_attention, layer.feed_forward
    if type(feed) is not FeedForward or attention.bias_k is not None or attention.add_zero_attn:
        return False
    if attention.rotary is not None and attention.rotary.rotary_dim != attention.head_dim:
        return False
    parts = (attention.W_q, attention.W_k, attention.W_v, attention.W_o, feed.widen, feed.narrow)
    if any(type(part) not in (nn.Linear, Int8Linear) or part.weight.device.type != "cpu" for part in parts):
        return False
    return all(type(norm) in (nn.LayerNorm, nn.RMSNorm) for norm in (layer.self_norm, layer.feed_norm))


def _hooked(decoder: nn.Module) -> bool:
    """Return whether a part of a decoder has hooks, which compiled code would not call."""
    return any(has_hooks(module) for module in decoder.modules())


def _turns(rotary: Any, count: int) -> Tensor:
    """Return the cosines and the sines of all positions below ``count``, ``(count,d)``."""
    angle = torch.arange(count, dtype=torch.float32)[:, None] * rotary.inv_freq()
    return torch.cat([angle.cos(), angle.sin()], dim=1) * rotary.attention_factor
