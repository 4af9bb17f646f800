"""Layers between the embedding of tokens and a pooling, which give each token the context of its neighbours."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.models.dropout import Dropout

__all__ = ["BidirectionalGRU", "Convolution", "NgramEmbedding", "drop_tokens"]

# Multipliers of the hash of an n-gram, odd and smaller than 2**31, so that products of ids fit into 64 bits.
_FIRST, _NEXT = 1_000_003, 668_265_263
_MODULUS = 2**31 - 1


class NgramEmbedding(nn.Module):
    """A layer that gives each token the sum of the vectors of the n-grams of 2 to ``most`` tokens that start at it.

    N-grams are hashed into ``buckets`` rows of one table for each length (Weinberger et al. 2009), so that no list of
    them is kept. New vectors are zero, so that an n-gram that is not seen in training has no influence. ``most`` is at
    least 2. ``width`` is the size of a vector.

    >>> ngrams = NgramEmbedding(8, most=3, buckets=100)
    >>> ngrams(torch.tensor([[4, 5, 6, 2]]), torch.tensor([4])).shape
    torch.Size([1, 4, 8])
    """

    def __init__(self, width: int, *, most: int, buckets: int, dropout: float = 0.0):
        super().__init__()
        self.buckets = buckets
        tables = [nn.Embedding(buckets, width) for _ in range(most - 1)]
        for table in tables:
            nn.init.zeros_(table.weight)
        self.tables = nn.ModuleList(tables)
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return the vectors ``(b,n,m)`` for ``tokens (b,n)``, whose positions from ``lengths (b,)`` on are padding.

        Without ``lengths`` there is no padding. An n-gram that would reach beyond the end of its sequence has a zero
        vector.
        """
        b, n = tokens.shape
        ends = torch.full((b,), n, device=tokens.device) if lengths is None else lengths  # (b,)
        total: Tensor | None = None
        for size, table in enumerate(self.tables, start=2):
            places = torch.arange(n, device=tokens.device) + size <= ends[:, None]  # (b,n)
            rows = self.rows(tokens, size)  # (b,n)
            vectors = table(rows) * places[..., None]  # (b,n,m)
            total = vectors if total is None else total + vectors
        assert total is not None  # most is 2 or more
        return self.dropout(total)

    def rows(self, tokens: Tensor, size: int) -> Tensor:
        """Return the row of the table for the n-gram of ``size`` tokens that starts at each token, ``(b,n)``.

        Positions beyond the last column count as token 0.
        """
        hashed = tokens.long() * _FIRST % _MODULUS  # (b,n)
        for distance in range(1, size):
            following = functional.pad(tokens[:, distance:], (0, min(distance, tokens.shape[1])))  # (b,n)
            hashed = (hashed * _FIRST + following * _NEXT) % _MODULUS
        return hashed % self.buckets


class Convolution(nn.Module):
    """A convolution over ``size`` neighbouring tokens, with ReLU, added to its input.

    ``size`` is odd, so that the token itself is in the middle.

    >>> Convolution(8, 3)(torch.ones(2, 5, 8), torch.tensor([5, 3])).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, width: int, size: int):
        super().__init__()
        self.convolution = nn.Conv1d(width, width, size, padding=size // 2)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return states ``(b,n,m)`` of ``x (b,n,m)``, where padding from ``lengths (b,)`` on counts as zeros.

        The result at padding is not zero and has no meaning.
        """
        if lengths is not None:
            kept = torch.arange(x.shape[1], device=x.device) < lengths[:, None]  # (b,n)
            x = x * kept[..., None]
        return x + functional.relu(self.convolution(x.transpose(1, 2)).transpose(1, 2))  # (b,n,m)


class BidirectionalGRU(nn.Module):
    """A GRU in both directions, each of which has states of half of the width.

    ``width`` is even. ``dropout`` is applied between layers and to the result.

    >>> BidirectionalGRU(8, 1)(torch.ones(2, 5, 8), torch.tensor([5, 3])).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, width: int, layers: int, *, dropout: float = 0.0):
        super().__init__()
        # This dropout is applied between layers. torch warns if there is only one layer.
        between = dropout if layers > 1 else 0.0
        self.rnn = nn.GRU(width, width // 2, layers, batch_first=True, dropout=between, bidirectional=True)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return states ``(b,n,m)`` of ``x (b,n,m)``, which are zero from ``lengths (b,)`` on.

        A length of 0 counts as 1.
        """
        if lengths is None:
            return self.dropout(self.rnn(x)[0])
        # A sequence of length 0 is read as one token, because packing needs one.
        packed = pack_padded_sequence(x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=x.shape[1])
        return self.dropout(states)


def drop_tokens(tokens: Tensor, share: float) -> Tensor:
    """Return tokens ``(b,n)``, each replaced by 0, the id of padding, with probability ``share`` (word dropout).

    >>> _ = torch.manual_seed(0)
    >>> drop_tokens(torch.full((1, 8), 5), 0.5)
    tensor([[0, 5, 0, 0, 0, 5, 0, 5]])
    """
    dropped = torch.rand(tokens.shape, device=tokens.device) < share  # (b,n)
    return tokens.masked_fill(dropped, 0)
