"""The Transformer decoder, in which each token attends to itself and to earlier tokens."""

from __future__ import annotations

from torch import Tensor

from regard.errors import ArgumentError
from regard.kernels.decoding import can_compile
from regard.layers import KeyValueCache
from regard.masks import Mask, causal, window
from regard.models.blocks import LayerCaches, Stack
from regard.models.compiled_step import CompiledStep
from regard.models.config import DecoderConfig
from regard.models.embeddings import TokenEmbedding
from regard.models.inputs import check_tokens
from regard.models.pretrained import Pretrained
from regard.models.records import Record
from regard.models.state import Memory, Spare, StepCache, TransformerState

__all__ = ["Decoder"]


class Decoder(Pretrained, Stack):
    """A Transformer decoder from token ids to one hidden state for each token, built from a :class:`DecoderConfig`.

    With ``cross_attention`` in the config it also attends to a :class:`Memory`, the states of an encoder.
    ``embedding`` replaces the embedding that the decoder would make. ``name`` is the name of the decoder in a larger
    model, for the records of its attention.

    >>> import torch
    >>> decoder = Decoder(DecoderConfig(vocabulary_size=11, width=8, heads=2))
    >>> decoder(torch.randint(11, (2, 5))).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, config: DecoderConfig, *, embedding: TokenEmbedding | None = None, name: str = ""):
        if embedding is None:
            embedding = TokenEmbedding(config, config.vocabulary_size)
        cross = config.cross_attention
        super().__init__(config, embedding, layers=config.layers, causal=True, cross=cross, name=name)
        self.config: DecoderConfig = config

    def forward(
        self, tokens: Tensor, memory: Memory | None = None, *, records: list[Record] | None = None
    ) -> Tensor:
        """Return the hidden states ``(b,t,m)`` of ``tokens (b,t)``, computed in parallel.

        The state of a token depends on this token and on earlier ones. ``memory`` is the output of an encoder. A
        decoder with cross-attention needs it, and any other decoder refuses it with an ArgumentError. If ``records``
        is a list, the attention of every layer is appended to it.
        """
        check_tokens("tokens", tokens, self.config.vocabulary_size)
        return self.decode(memory, tokens, records=records)

    def decode(self, memory: Memory | None, tokens: Tensor, *, records: list[Record] | None = None) -> Tensor:
        """Return the hidden states as :meth:`forward` does, without a check of the token ids."""
        self._check_memory(memory)
        states, mask = (None, None) if memory is None else (memory.states, memory.padding())
        return self.run(self.embedding(tokens), self._mask(), states, mask, records=records)

    def start(self, memory: Memory | None = None) -> TransformerState:
        """Return the state before the first decoding step, with empty caches.

        ``memory`` is required with cross-attention and refused without, as in :meth:`forward`.
        """
        self._check_memory(memory)
        spare = Spare()
        cross = [KeyValueCache(static=True) for _ in self.layers] if memory is not None else []
        return TransformerState(memory, [StepCache(spare) for _ in self.layers], cross)

    def step(self, tokens: Tensor, state: TransformerState, *, records: list[Record] | None = None) -> Tensor:
        """Return the hidden states ``(b,w,m)`` of the next token of each hypothesis, ``tokens (b,w)``.

        Each of b sentences has w hypotheses. They are neighbouring rows of the state. After the first step, w may
        change only through ``state.reorder``. The state is updated in place. The token ids are not checked. If
        ``records`` is a list, the attention of every layer is appended to it.
        """
        memory = state.memory
        x = self.embedding(tokens.reshape(-1, 1), state.length)  # (b*w,1,m)
        if records is None and self._is_compiled(x, state):
            hidden = state.compiled(x, state)
            state.length += 1
            return hidden.reshape(*tokens.shape, -1)
        state.settle()
        states, mask = (None, None) if memory is None else (memory.states, memory.padding())
        cross = state.cross_caches or [None] * len(state.self_caches)
        caches = [LayerCaches(*both) for both in zip(state.self_caches, cross, strict=True)]
        width = self.config.window
        seen = None if width is None or state.length < width else window(width - 1)
        hidden = self.run(x, seen, states, mask, caches=caches, records=records)
        state.length += 1
        return hidden.reshape(*tokens.shape, -1)

    def feed(self, tokens: Tensor, state: TransformerState) -> Tensor:
        """Return the hidden states ``(b,n,m)`` of the next ``tokens (b,n)`` of each sequence, computed in parallel.

        It does the same as n calls of :meth:`step` with one hypothesis for each sequence. The state is updated in
        place. The token ids are not checked.
        """
        memory = state.memory
        state.settle()
        x = self.embedding(tokens, state.length)  # (b,n,m)
        states, mask = (None, None) if memory is None else (memory.states, memory.padding())
        cross = state.cross_caches or [None] * len(state.self_caches)
        caches = [LayerCaches(*both) for both in zip(state.self_caches, cross, strict=True)]
        hidden = self.run(x, self._mask(), states, mask, caches=caches)
        state.length += tokens.shape[1]
        return hidden

    def _is_compiled(self, x: Tensor, state: TransformerState) -> bool:
        """Return whether the next step, with embedded tokens ``x (b*w,1,m)``, runs in compiled code."""
        if self.training or state.compiled is False or not can_compile(x):
            return False
        if state.compiled is None:
            state.compiled = CompiledStep.of(self) or False
        return state.compiled is not False and state.compiled.fits(x, state)

    def _mask(self) -> Mask:
        """Return the mask of self-attention for tokens in parallel."""
        return causal() if self.config.window is None else causal() & window(self.config.window - 1)

    def _check_memory(self, memory: Memory | None) -> None:
        """Raise ArgumentError unless there is a memory exactly if the decoder has cross-attention."""
        if self.config.cross_attention and memory is None:
            raise ArgumentError("memory", "expected the result of encode(), got None")
        if memory is not None and not self.config.cross_attention:
            raise ArgumentError("memory", "this decoder has no cross-attention", "give None")
