"""The Transformer: an encoder, a decoder, or both."""

from __future__ import annotations

import math

from torch import Tensor, nn

from regard.errors import ArgumentError
from regard.layers import KeyValueCache
from regard.masks import Mask, causal, padding
from regard.models.blocks import Stack, Step
from regard.models.config import TransformerConfig
from regard.models.dropout import Dropout
from regard.models.pretrained import Pretrained
from regard.models.seen import Seen
from regard.models.state import Memory, TransformerState
from regard.positions import LearnedPositionalEncoding, PositionalEncoding

__all__ = ["Transformer"]


class Transformer(Pretrained, nn.Module):
    """Encoder and decoder, or one of them, from the settings of a :class:`TransformerConfig`.

    >>> config = TransformerConfig(source_size=11, target_size=13, width=8, heads=2, feed_forward=16)
    >>> model = Transformer(config)
    >>> source, target = torch.randint(3, 11, (2, 5)), torch.randint(3, 13, (2, 7))
    >>> model(source, target).shape
    torch.Size([2, 7, 13])
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config: TransformerConfig = config
        if config.encoder_layers:
            self.source_embedding = _embedding(config.source_size, config.width)
            self.encoder = Stack(config, "encoder", layers=config.encoder_layers, causal=False, cross=False)
        if config.decoder_layers:
            if config.encoder_layers and config.shared_embeddings:
                self.target_embedding = self.source_embedding
            else:
                self.target_embedding = _embedding(config.target_size, config.width)
            self.decoder = Stack(
                config,
                "decoder",
                layers=config.decoder_layers,
                causal=True,
                cross=config.encoder_layers > 0,
            )
        self.positions = _positions(config)
        self.dropout = Dropout(config.dropout)
        read = self.target_embedding if config.decoder_layers else self.source_embedding
        self.output = nn.Linear(config.width, read.num_embeddings)
        nn.init.zeros_(self.output.bias)
        nn.init.normal_(self.output.weight, std=config.width**-0.5)
        if config.tied_output:
            self.output.weight = read.weight

    def forward(
        self,
        source: Tensor,
        target: Tensor | None = None,
        lengths: Tensor | None = None,
        *,
        seen: list[Seen] | None = None,
    ) -> Tensor:
        """Scores of the next token, ``(b,t,vocabulary)``.

        A model of both parts reads ``source (b,s)`` with its ``lengths (b,)`` and ``target (b,t)``; an encoder
        only the source, a decoder only its own sequence, given first.
        """
        return self.output(self.hidden(source, target, lengths, seen=seen))

    def hidden(
        self,
        source: Tensor,
        target: Tensor | None = None,
        lengths: Tensor | None = None,
        *,
        seen: list[Seen] | None = None,
    ) -> Tensor:
        """What the output layer reads, ``(b,t,m)``."""
        if not self.config.encoder_layers:
            if target is not None:
                raise ArgumentError(
                    "target", "this model has no encoder", "give its sequence as the first argument"
                )
            return self.decode(None, source, seen=seen)
        memory = self.encode(source, lengths, seen=seen)
        if not self.config.decoder_layers:
            return memory.states
        if target is None:
            raise ArgumentError(
                "target", "expected (b,t), got None", "a decoder needs the tokens written so far"
            )
        return self.decode(memory, target, seen=seen)

    def encode(
        self, source: Tensor, lengths: Tensor | None = None, *, seen: list[Seen] | None = None
    ) -> Memory:
        """Read the source ``(b,s)``; rows from ``lengths (b,)`` on are padding."""
        if lengths is not None and bool((lengths == source.shape[1]).all()):
            lengths = None  # nothing to hide
        x = self._embed(self.source_embedding, source, 0)  # (b,s,m)
        return Memory(self.encoder(x, _padding(lengths), seen=seen), lengths)

    def decode(self, memory: Memory | None, target: Tensor, *, seen: list[Seen] | None = None) -> Tensor:
        """Hidden states ``(b,t,m)`` after each token of ``target (b,t)``, all at once."""
        x = self._embed(self.target_embedding, target, 0)  # (b,t,m)
        states, mask = (None, None) if memory is None else (memory.states, _padding(memory.lengths))
        return self.decoder(x, causal(), states, mask, seen=seen)

    def start(self, memory: Memory | None) -> TransformerState:
        """The state before the first step of decoding."""
        count = self.config.decoder_layers
        cross = [KeyValueCache(static=True) for _ in range(count)] if memory is not None else []
        return TransformerState(memory, [KeyValueCache() for _ in range(count)], cross)

    def step(self, tokens: Tensor, state: TransformerState, *, seen: list[Seen] | None = None) -> Tensor:
        """Hidden states ``(b,w,m)`` after one more token ``(b,w)`` for each of ``w`` hypotheses a sentence."""
        memory = state.memory
        x = self._embed(self.target_embedding, tokens.reshape(-1, 1), state.length)  # (b*w,1,m)
        states, mask = (None, None) if memory is None else (memory.states, _padding(memory.lengths))
        cross = state.cross or [None] * len(state.own)
        steps = [Step(*caches) for caches in zip(state.own, cross, strict=True)]
        hidden = self.decoder(x, None, states, mask, steps=steps, seen=seen)
        state.length += 1
        return hidden.reshape(*tokens.shape, -1)

    def _embed(self, table: nn.Embedding, tokens: Tensor, start: int) -> Tensor:
        x = table(tokens) * math.sqrt(self.config.width)
        if self.positions is not None:
            x = self.positions(x, start)
        return self.dropout(x)


def _padding(lengths: Tensor | None) -> Mask | None:
    return None if lengths is None else padding(lengths)


def _embedding(size: int, width: int) -> nn.Embedding:
    table = nn.Embedding(size, width)
    nn.init.normal_(table.weight, std=width**-0.5)
    return table


def _positions(config: TransformerConfig) -> PositionalEncoding | LearnedPositionalEncoding | None:
    if config.positions == "sinusoidal":
        return PositionalEncoding(config.width, config.max_length)
    if config.positions == "learned":
        return LearnedPositionalEncoding(config.width, config.max_length)
    return None
