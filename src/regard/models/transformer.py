"""The Transformer with an encoder and a decoder."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from regard.copying import CopyStates
from regard.models.config import TransformerConfig
from regard.models.copy_attention import CopyAttention
from regard.models.decoder import Decoder
from regard.models.embeddings import TokenEmbedding
from regard.models.encoder import Encoder
from regard.models.heads import CopyHead, LanguageHead
from regard.models.inputs import check_tokens, read_lengths
from regard.models.pretrained import Pretrained
from regard.models.records import Record
from regard.models.state import Memory, TransformerState

__all__ = ["Transformer"]


class Transformer(Pretrained, nn.Module):
    """A Transformer encoder–decoder, built from a :class:`TransformerConfig`.

    Encoder and decoder share one table of positions, if positions are sinusoidal or learned. With ``copy`` in the
    config, the model also copies tokens of the source. An attention of its own, from the last decoder states, chooses
    them. Hidden states are then :class:`regard.copying.CopyStates`, and the results of the output layer are
    log-probabilities of the mixture.

    >>> import torch
    >>> config = TransformerConfig(source_size=11, target_size=13, width=8, heads=2, feed_forward=16)
    >>> model = Transformer(config)
    >>> source, target = torch.randint(3, 11, (2, 5)), torch.randint(3, 13, (2, 7))
    >>> model(source, target).shape
    torch.Size([2, 7, 13])
    """

    old_names: ClassVar[dict[str, str]] = {
        "source_embedding.": "encoder.embedding.tokens.",
        "target_embedding.": "decoder.embedding.tokens.",
        "positions.": "encoder.embedding.positions.",
    }

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config: TransformerConfig = config
        self.encoder = Encoder(config.encoder_config(), name="encoder")
        source = self.encoder.embedding
        target = TokenEmbedding(
            config,
            config.target_size,
            shared_tokens=source if config.shared_embeddings else None,
            shared_positions=source,
        )
        self.decoder = Decoder(config.decoder_config(), embedding=target, name="decoder")
        table = target.tokens if config.tied_output else None
        head = CopyHead if config.copy else LanguageHead
        self.output = head(config.width, config.target_size, tied_to=table, std=config.width**-0.5)
        self.copy_attention = CopyAttention(config.width) if config.copy else None

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        lengths: Tensor | None = None,
        *,
        records: list[Record] | None = None,
    ) -> Tensor:
        """Return the logits of the next token, ``(b,t,vocabulary)``, for ``source (b,s)`` and ``target (b,t)``.

        ``lengths (b,)`` are the source lengths without padding. If ``records`` is a list, the attention of every layer
        is appended to it.
        """
        return self.output(self.hidden(source, target, lengths, records=records))

    def hidden(
        self,
        source: Tensor,
        target: Tensor,
        lengths: Tensor | None = None,
        *,
        records: list[Record] | None = None,
    ) -> Tensor | CopyStates:
        """Return the hidden states ``(b,t,m)`` of the decoder, which are the input of the output layer.

        The arguments are those of :meth:`forward`.
        """
        return self.decode(self.encode(source, lengths, records=records), target, records=records)

    def encode(
        self, source: Tensor, lengths: Tensor | None = None, *, records: list[Record] | None = None
    ) -> Memory:
        """Return the encoder states of ``source (b,s)``, whose positions from ``lengths (b,)`` on are padding.

        If ``records`` is a list, the attention of every encoder layer is appended to it.
        """
        check_tokens("source", source, self.config.source_size)
        lengths = read_lengths(lengths, source)
        memory = Memory(self.encoder.encode(source, lengths, records=records), lengths)
        if self.copy_attention is not None:
            embedding = self.encoder.embedding
            vectors = embedding.tokens(source) * embedding.scale  # (b,s,m)
            memory.keys, memory.tokens = self.copy_attention.keys(memory.states, vectors), source
        return memory

    def decode(
        self, memory: Memory, target: Tensor, *, records: list[Record] | None = None
    ) -> Tensor | CopyStates:
        """Return the hidden states ``(b,t,m)`` of ``target (b,t)``, computed in parallel.

        The state of a token depends on this token and on earlier ones. ``memory`` is the result of :meth:`encode`. If
        ``records`` is a list, the attention of every decoder layer is appended to it.
        """
        check_tokens("target", target, self.config.target_size)
        return self._with_copies(self.decoder.decode(memory, target, records=records), memory, records)

    def start(self, memory: Memory) -> TransformerState:
        """Return the state before the first decoding step, with empty caches.

        ``memory`` is the result of :meth:`encode`.
        """
        return self.decoder.start(memory)

    def step(
        self, tokens: Tensor, state: TransformerState, *, records: list[Record] | None = None
    ) -> Tensor | CopyStates:
        """Return the hidden states ``(b,w,m)`` of the next token of each hypothesis, ``tokens (b,w)``.

        The state is updated in place. See :meth:`Decoder.step`.
        """
        return self._with_copies(self.decoder.step(tokens, state, records=records), state.memory, records)

    def _with_copies(
        self, hidden: Tensor, memory: Memory | None, records: list[Record] | None
    ) -> Tensor | CopyStates:
        """Return the hidden states ``(b,t,m)``, with their copy attention if the model has one."""
        if self.copy_attention is None or memory is None:
            return hidden
        return self.copy_attention(hidden, memory, records=records)
