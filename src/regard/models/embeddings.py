"""The embedding of tokens with their positions, which is the input of a Transformer."""

from __future__ import annotations

import math

from torch import Tensor, nn

from regard.models.config import BlockConfig
from regard.models.dropout import Dropout
from regard.models.inputs import embedding
from regard.models.norms_and_activations import make_norm
from regard.positions import LearnedPositionalEncoding, PositionalEncoding

__all__ = ["TokenEmbedding"]


class TokenEmbedding(nn.Module):
    """An embedding table with the positions that are added to its vectors.

    ``size`` is the number of token ids. ``token_types`` is the number of types of tokens, each with a vector that is
    added as well, or 0 for no types. ``shared_tokens`` is another embedding whose table is used in place of a new one,
    and ``shared_positions`` is one whose positions are used.

    >>> import torch
    >>> from regard.models import EncoderConfig
    >>> embed = TokenEmbedding(EncoderConfig(vocabulary_size=7, width=4), 7)
    >>> embed(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 4])
    """

    def __init__(
        self,
        config: BlockConfig,
        size: int,
        *,
        token_types: int = 0,
        shared_tokens: TokenEmbedding | None = None,
        shared_positions: TokenEmbedding | None = None,
    ):
        super().__init__()
        self.scale = math.sqrt(config.width) if config.scaled_embeddings else 1.0
        self.tokens = embedding(size, config.width) if shared_tokens is None else shared_tokens.tokens
        self.positions = _positions(config) if shared_positions is None else shared_positions.positions
        self.types = embedding(token_types, config.width) if token_types else None
        self.norm = make_norm(config) if config.embedding_norm else None
        self.dropout = Dropout(config.dropout)

    def forward(self, tokens: Tensor, start: int = 0, types: Tensor | None = None) -> Tensor:
        """Return the vectors ``(b,n,m)`` of ``tokens (b,n)``, the first of which is at position ``start``.

        ``types (b,n)`` are the types of the tokens, by default all 0. They are ignored if there are no types.
        """
        x = self.tokens(tokens) * self.scale
        if self.types is not None:
            x = x + (self.types.weight[0] if types is None else self.types(types))
        if self.positions is not None:
            x = self.positions(x, start)
        if self.norm is not None:
            x = self.norm(x)
        return self.dropout(x)


def _positions(config: BlockConfig) -> PositionalEncoding | LearnedPositionalEncoding | None:
    """Make the layer that adds positions to token vectors, or return None if the config has no such positions."""
    if config.positions == "sinusoidal":
        return PositionalEncoding(config.width, config.max_length)
    if config.positions == "learned":
        return LearnedPositionalEncoding(config.width, config.max_length)
    return None
