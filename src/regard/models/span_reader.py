"""A reader of spans, an encoder that marks where an answer begins and ends in its text."""

from __future__ import annotations

from torch import Tensor, nn

from regard.models.config import EncoderConfig
from regard.models.encoder import Encoder
from regard.models.head_config import SpanReaderConfig
from regard.models.heads import SpanHead
from regard.models.inputs import read_lengths
from regard.models.pretrained import Pretrained
from regard.models.records import Record

__all__ = ["SpanReader"]


class SpanReader(Pretrained, nn.Module):
    """An encoder with an output for the first and for the last token of a span, built from a :class:`SpanReaderConfig`.

    >>> import torch
    >>> model = SpanReader(SpanReaderConfig(vocabulary_size=11, width=8, heads=2))
    >>> start, end = model(torch.randint(11, (2, 5)), lengths=torch.tensor([5, 3]))
    >>> start.shape
    torch.Size([2, 5])
    """

    def __init__(self, config: SpanReaderConfig):
        super().__init__()
        self.config: SpanReaderConfig = config
        self.encoder = Encoder(config.part(EncoderConfig), name="encoder")
        self.output = SpanHead(config.width)

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | None = None,
        *,
        types: Tensor | None = None,
        records: list[Record] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the logits of starts and of ends, ``(b,n)`` each, with -inf at padding.

        The arguments are those of :meth:`Encoder.forward`.
        """
        states = self.encoder(tokens, lengths, types=types, records=records)  # (b,n,m)
        return self.output(states, read_lengths(lengths, tokens, name="tokens"))
