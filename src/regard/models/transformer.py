"""The Transformer model, with an encoder, a decoder, or both."""

from __future__ import annotations

import math

from torch import Tensor, nn

from regard.errors import ArgumentError
from regard.layers import KeyValueCache
from regard.masks import causal
from regard.models.blocks import Stack, Step
from regard.models.config import TransformerConfig
from regard.models.dropout import Dropout
from regard.models.inputs import check_tokens, embedding, read_lengths
from regard.models.pretrained import Pretrained
from regard.models.seen import Seen
from regard.models.state import Memory, Spare, StepCache, TransformerState, source_padding
from regard.positions import LearnedPositionalEncoding, PositionalEncoding

__all__ = ["Transformer"]


class Transformer(Pretrained, nn.Module):
    """A Transformer with an encoder, a decoder, or both, built from a :class:`TransformerConfig`.

    >>> import torch
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
            self.source_embedding = embedding(config.source_size, config.width)
            self.encoder = Stack(config, "encoder", layers=config.encoder_layers, causal=False, cross=False)
        if config.decoder_layers:
            if config.encoder_layers and config.shared_embeddings:
                self.target_embedding = self.source_embedding
            else:
                self.target_embedding = embedding(config.target_size, config.width)
            self.decoder = Stack(
                config,
                "decoder",
                layers=config.decoder_layers,
                causal=True,
                cross=config.encoder_layers > 0,
            )
        self.positions = _positions(config)
        self.dropout = Dropout(config.dropout)
        table = self.target_embedding if config.decoder_layers else self.source_embedding
        self.output = nn.Linear(config.width, table.num_embeddings)
        nn.init.zeros_(self.output.bias)
        nn.init.normal_(self.output.weight, std=config.width**-0.5)
        if config.tied_output:
            self.output.weight = table.weight

    def forward(
        self,
        source: Tensor,
        target: Tensor | None = None,
        lengths: Tensor | None = None,
        *,
        seen: list[Seen] | None = None,
    ) -> Tensor:
        """Return the logits, ``(b,t,vocabulary)``.

        An encoder–decoder takes ``source (b,s)``, its ``lengths (b,)`` without padding, and ``target (b,t)``. An
        encoder takes only the source. A decoder takes only its own sequence, as the first argument. If ``seen`` is a
        list, the attention of every layer is appended to it.
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
        """Return the hidden states ``(b,t,m)``, which are the input of the output layer."""
        if not self.config.encoder_layers:
            self._check_decoder_only(target, lengths)
            return self.decode(None, source, seen=seen)
        if self.config.decoder_layers and target is None:
            raise ArgumentError(
                "target", "expected (b,t), got None", "a decoder needs the tokens written so far"
            )
        memory = self.encode(source, lengths, seen=seen)
        if target is None:
            return memory.states
        return self.decode(memory, target, seen=seen)

    def encode(
        self, source: Tensor, lengths: Tensor | None = None, *, seen: list[Seen] | None = None
    ) -> Memory:
        """Encode the source ``(b,s)``, whose positions from ``lengths (b,)`` on are padding."""
        self._check_has("encoder")
        check_tokens("source", source, self.config.source_size)
        lengths = read_lengths(lengths, source)
        x = self._embed(self.source_embedding, source, 0)  # (b,s,m)
        return Memory(self.encoder(x, source_padding(lengths, source.shape[1]), seen=seen), lengths)

    def decode(self, memory: Memory | None, target: Tensor, *, seen: list[Seen] | None = None) -> Tensor:
        """Return the hidden states ``(b,t,m)`` after each token of ``target (b,t)``, computed in parallel."""
        self._check_memory(memory)
        check_tokens("target", target, self.target_embedding.num_embeddings)
        x = self._embed(self.target_embedding, target, 0)  # (b,t,m)
        states, mask = (None, None) if memory is None else (memory.states, memory.padding())
        return self.decoder(x, causal(), states, mask, seen=seen)

    def start(self, memory: Memory | None) -> TransformerState:
        """Return the state before the first decoding step, with empty caches."""
        self._check_memory(memory)
        layers, spare = range(self.config.decoder_layers), Spare()
        cross = [KeyValueCache(static=True) for _ in layers] if memory is not None else []
        return TransformerState(memory, [StepCache(spare) for _ in layers], cross)

    def step(self, tokens: Tensor, state: TransformerState, *, seen: list[Seen] | None = None) -> Tensor:
        """Feed one token ``(b,w)`` of ``w`` hypotheses per sentence, and return the hidden states ``(b,w,m)``.

        The state is updated in place.
        """
        memory = state.memory
        x = self._embed(self.target_embedding, tokens.reshape(-1, 1), state.length)  # (b*w,1,m)
        states, mask = (None, None) if memory is None else (memory.states, memory.padding())
        cross = state.cross or [None] * len(state.own)
        steps = [Step(*caches) for caches in zip(state.own, cross, strict=True)]
        hidden = self.decoder(x, None, states, mask, steps=steps, seen=seen)
        state.length += 1
        return hidden.reshape(*tokens.shape, -1)

    def _check_has(self, part: str) -> None:
        if not getattr(self.config, f"{part}_layers"):
            raise ArgumentError("model", f"it has no {part}", f"build it with {part}_layers of 1 or more")

    def _check_memory(self, memory: Memory | None) -> None:
        """Raise ArgumentError if an encoder–decoder has no memory, or a decoder alone has one."""
        self._check_has("decoder")
        if self.config.encoder_layers and memory is None:
            raise ArgumentError("memory", "expected the result of encode(), got None")
        if memory is not None and not self.config.encoder_layers:
            raise ArgumentError("memory", "this model has no encoder", "give None")

    def _check_decoder_only(self, target: Tensor | None, lengths: Tensor | None) -> None:
        if target is not None:
            raise ArgumentError(
                "target", "this model has no encoder", "give its sequence as the first argument"
            )
        if lengths is not None:
            fix = "leave it out: no token sees the padding after it"
            raise ArgumentError("lengths", "this model has no encoder", fix)

    def _embed(self, table: nn.Embedding, tokens: Tensor, start: int) -> Tensor:
        x = table(tokens) * math.sqrt(self.config.width)
        if self.positions is not None:
            x = self.positions(x, start)
        return self.dropout(x)


def _positions(config: TransformerConfig) -> PositionalEncoding | LearnedPositionalEncoding | None:
    if config.positions == "sinusoidal":
        return PositionalEncoding(config.width, config.max_length)
    if config.positions == "learned":
        return LearnedPositionalEncoding(config.width, config.max_length)
    return None
