"""A causal language model, a decoder with an output layer."""

from __future__ import annotations

from torch import Tensor, nn

from regard.models.config import DecoderConfig, LanguageModelConfig
from regard.models.decoder import Decoder
from regard.models.heads import LanguageHead
from regard.models.pretrained import Pretrained
from regard.models.records import Record
from regard.models.state import Memory, TransformerState

__all__ = ["LanguageModel"]


class LanguageModel(Pretrained, nn.Module):
    """A causal language model, built from a :class:`LanguageModelConfig`.

    :func:`regard.decoding.decode` generates text with it. With ``cross_attention`` in the config it also reads the
    :class:`Memory` of an encoder.

    >>> import torch
    >>> model = LanguageModel(LanguageModelConfig(vocabulary_size=11, width=8, heads=2))
    >>> model(torch.randint(11, (2, 5))).shape
    torch.Size([2, 5, 11])
    """

    def __init__(self, config: LanguageModelConfig):
        super().__init__()
        self.config: LanguageModelConfig = config
        self.decoder = Decoder(config.part(DecoderConfig), name="decoder")
        table = self.decoder.embedding.tokens if config.tied_output else None
        self.output = LanguageHead(
            config.width,
            config.vocabulary_size,
            tied_to=table,
            std=config.width**-0.5,
            bias=config.output_bias,
        )

    def forward(
        self, tokens: Tensor, memory: Memory | None = None, *, records: list[Record] | None = None
    ) -> Tensor:
        """Return the logits of the next token after each of ``tokens (b,t)``, ``(b,t,vocabulary)``.

        Sequences shorter than t are padded at their end. No token sees the padding after it. ``memory`` and
        ``records`` are those of :meth:`Decoder.forward`.
        """
        return self.output(self.hidden(tokens, memory, records=records))

    def hidden(
        self, tokens: Tensor, memory: Memory | None = None, *, records: list[Record] | None = None
    ) -> Tensor:
        """Return the hidden states ``(b,t,m)``, which are the input of the output layer.

        The arguments are those of :meth:`forward`.
        """
        return self.decoder(tokens, memory, records=records)

    def start(self, memory: Memory | None = None) -> TransformerState:
        """Return the state before the first decoding step, as :meth:`Decoder.start` does."""
        return self.decoder.start(memory)

    def step(self, tokens: Tensor, state: TransformerState, *, records: list[Record] | None = None) -> Tensor:
        """Return the hidden states ``(b,w,m)`` of the next token of each hypothesis, ``tokens (b,w)``.

        The state is updated in place. See :meth:`Decoder.step`.
        """
        return self.decoder.step(tokens, state, records=records)

    def feed(self, tokens: Tensor, state: TransformerState) -> Tensor:
        """Return the hidden states ``(b,n,m)`` of the next ``tokens (b,n)``, computed in parallel.

        The state is updated in place. See :meth:`Decoder.feed`.
        """
        return self.decoder.feed(tokens, state)
