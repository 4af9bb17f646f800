"""The Transformer encoder, which reads a whole sequence in both directions."""

from __future__ import annotations

from torch import Tensor

from regard.errors import ArgumentError, ShapeError
from regard.models.blocks import Stack
from regard.models.config import EncoderConfig
from regard.models.embeddings import TokenEmbedding
from regard.models.inputs import check_tokens, read_lengths
from regard.models.pretrained import Pretrained
from regard.models.records import Record
from regard.models.state import source_padding
from regard.shapes import axes

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
        embedding = TokenEmbedding(config, config.vocabulary_size, token_types=config.token_types)
        super().__init__(config, embedding, layers=config.layers, causal=False, cross=False, name=name)
        self.config: EncoderConfig = config

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | None = None,
        *,
        types: Tensor | None = None,
        records: list[Record] | None = None,
    ) -> Tensor:
        """Return the states ``(b,n,m)`` of ``tokens (b,n)``, whose positions from ``lengths (b,)`` on are padding.

        Without ``lengths`` there is no padding. ``types (b,n)`` are the types of the tokens, if the config has
        ``token_types``. The default is type 0. The states at padding are finite and have no meaning. If ``records`` is
        a list, the attention of every layer is appended to it.
        """
        check_tokens("tokens", tokens, self.config.vocabulary_size)
        if types is not None:
            self.check_types(types, tokens)
        lengths = read_lengths(lengths, tokens, name="tokens")
        return self.encode(tokens, lengths, types=types, records=records)

    def encode(
        self,
        tokens: Tensor,
        lengths: Tensor | None,
        *,
        types: Tensor | None = None,
        records: list[Record] | None = None,
    ) -> Tensor:
        """Return the states as :meth:`forward` does, without a check of the arguments."""
        padding = source_padding(lengths, tokens.shape[1])
        return self.run(self.embedding(tokens, types=types), padding, records=records)

    def check_types(self, types: Tensor, tokens: Tensor) -> None:
        """Raise an error unless ``types`` has the shape of ``tokens`` and ids from 0 to ``token_types - 1``."""
        if not self.config.token_types:
            raise ArgumentError("types", "this encoder has no token types", "set token_types in its config")
        check_tokens("types", types, self.config.token_types)
        if types.shape != tokens.shape:
            raise ShapeError("types", f"expected {axes(tokens.shape)} as tokens, got {axes(types.shape)}")
