"""A classifier of sequences, an encoder with a pooling and an output layer."""

from __future__ import annotations

from torch import Tensor, nn

from regard.models.config import EncoderConfig, TextClassifierConfig
from regard.models.encoder import Encoder
from regard.models.heads import ClassificationHead, make_pooling
from regard.models.inputs import check_tokens, read_lengths
from regard.models.pretrained import Pretrained
from regard.models.records import Record

__all__ = ["TextClassifier"]


class TextClassifier(Pretrained, nn.Module):
    """A classifier of token sequences, built from a :class:`TextClassifierConfig`.

    >>> import torch
    >>> config = TextClassifierConfig(vocabulary_size=11, classes=3, width=8, heads=2, pooling="additive")
    >>> model = TextClassifier(config)
    >>> model(torch.randint(11, (2, 5)), lengths=torch.tensor([5, 3])).shape
    torch.Size([2, 3])
    """

    def __init__(self, config: TextClassifierConfig):
        super().__init__()
        self.config: TextClassifierConfig = config
        self.encoder = Encoder(config.part(EncoderConfig), name="encoder")
        self.pooling = make_pooling(config.pooling, config.width, config.heads, name="pooling")
        self.output = ClassificationHead(config.width, config.classes, dropout=config.dropout)

    def forward(
        self, tokens: Tensor, lengths: Tensor | None = None, *, records: list[Record] | None = None
    ) -> Tensor:
        """Return the logits of the classes, ``(b,classes)``.

        ``tokens (b,n)`` are padding from ``lengths (b,)`` on. If ``records`` is a list, the attention of every layer
        and of the pooling is appended to it.
        """
        return self.output(self.pooled(tokens, lengths, records=records))

    def pooled(
        self, tokens: Tensor, lengths: Tensor | None = None, *, records: list[Record] | None = None
    ) -> Tensor:
        """Return one vector for each sequence, ``(b,m)``, which is the input of the output layer."""
        check_tokens("tokens", tokens, self.config.vocabulary_size)
        lengths = read_lengths(lengths, tokens, name="tokens")
        return self.pooling(self.encoder.encode(tokens, lengths, records=records), lengths, records=records)
