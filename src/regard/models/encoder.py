"""The Transformer encoder, which reads a whole sequence in both directions."""

from __future__ import annotations

from torch import Tensor

from regard.models.blocks import Stack
from regard.models.config import EncoderConfig
from regard.models.embeddings import TokenEmbedding
from regard.models.inputs import check_tokens, read_lengths
from regard.models.pretrained import Pretrained
from regard.models.records import Record
from regard.models.state import source_padding

__all__ = ["Encoder"]


class Encoder(Pretrained, Stack):
    """A Transformer encoder from token ids to one state for each token, built from an :class:`EncoderConfig`.

    ``name`` is the name of the encoder in a larger model, for the records of its attention.

    >>> import torch
    >>> encoder = Encoder(EncoderConfig(vocabulary_size=11, width=8, heads=2))
    >>> tokens = torch.randint(11, (2, 5))
    >>> encoder(tokens, lengths=torch.tensor([5, 3])).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, config: EncoderConfig, *, name: str = ""):
        embedding = TokenEmbedding(config, config.vocabulary_size)
        super().__init__(config, embedding, layers=config.layers, causal=False, cross=False, name=name)
        self.config: EncoderConfig = config

    def forward(
        self, tokens: Tensor, lengths: Tensor | None = None, *, records: list[Record] | None = None
    ) -> Tensor:
        """Return the states ``(b,n,m)`` of ``tokens (b,n)``, whose positions from ``lengths (b,)`` on are padding.

        The states at padding are finite and have no meaning. If ``records`` is a list, the attention of every layer is
        appended to it.
        """
        check_tokens("tokens", tokens, self.config.vocabulary_size)
        lengths = read_lengths(lengths, tokens, name="tokens")
        return self.encode(tokens, lengths, records=records)

    def encode(
        self, tokens: Tensor, lengths: Tensor | None, *, records: list[Record] | None = None
    ) -> Tensor:
        """Return the states as :meth:`forward` does, without a check of the arguments."""
        padding = source_padding(lengths, tokens.shape[1])
        return self.run(self.embedding(tokens), padding, records=records)
