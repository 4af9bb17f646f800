"""A classifier of sequences, an encoder with a pooling and an output layer."""

from __future__ import annotations

from torch import Tensor, nn

from regard.models.config import EncoderConfig, TextClassifierConfig
from regard.models.encoder import Encoder
from regard.models.features import BidirectionalGRU, Convolution, NgramEmbedding, drop_tokens
from regard.models.heads import ClassificationHead, make_pooling
from regard.models.inputs import check_tokens, read_lengths
from regard.models.norms_and_activations import make_activation
from regard.models.pretrained import Pretrained
from regard.models.records import Record
from regard.models.state import source_padding

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
        width, dropout = config.width, config.dropout
        self.encoder = Encoder(config.part(EncoderConfig), name="encoder")
        self.ngrams: NgramEmbedding | None = None
        if config.ngrams > 1:
            sizes = {"most": config.ngrams, "buckets": config.ngram_buckets}
            self.ngrams = NgramEmbedding(width, **sizes, dropout=dropout)
        self.convolution = Convolution(width, config.convolution) if config.convolution else None
        layers = config.recurrent_layers
        self.recurrent = BidirectionalGRU(width, layers, dropout=dropout) if layers else None
        self.pooling = make_pooling(config.pooling, width, config.pooling_size, name="pooling")
        self.projection: nn.Module | None = None
        if config.projection != "none":
            self.projection = nn.Sequential(nn.Linear(width, width), make_activation(config.projection))
        self.output = ClassificationHead(config.width, config.classes, dropout=config.dropout)

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | None = None,
        *,
        types: Tensor | None = None,
        records: list[Record] | None = None,
    ) -> Tensor:
        """Return the logits of the classes, ``(b,classes)``.

        ``tokens (b,n)`` are padding from ``lengths (b,)`` on. Without ``lengths`` there is no padding. ``types (b,n)``
        are the types of the tokens, if the config has ``token_types``. If ``records`` is a list, the attention of every
        layer and of the pooling is appended to it.
        """
        return self.output(self.pooled(tokens, lengths, types=types, records=records))

    def pooled(
        self,
        tokens: Tensor,
        lengths: Tensor | None = None,
        *,
        types: Tensor | None = None,
        records: list[Record] | None = None,
    ) -> Tensor:
        """Return one vector for each sequence, ``(b,m)``, which is the input of the output layer.

        The arguments are those of :meth:`forward`.
        """
        check_tokens("tokens", tokens, self.config.vocabulary_size)
        if types is not None:
            self.encoder.check_types(types, tokens)
        lengths = read_lengths(lengths, tokens, name="tokens")
        states = self._states(tokens, lengths, types, records)
        pooled = self.pooling(states, lengths, records=records)
        return pooled if self.projection is None else self.projection(pooled)

    def _states(
        self, tokens: Tensor, lengths: Tensor | None, types: Tensor | None, records: list[Record] | None
    ) -> Tensor:
        """Return the states ``(b,n,m)`` that are pooled."""
        if self.training and self.config.word_dropout:
            tokens = drop_tokens(tokens, self.config.word_dropout)
        x = self.encoder.embedding(tokens, types=types)  # (b,n,m)
        if self.ngrams is not None:
            x = x + self.ngrams(tokens, lengths)
        if self.convolution is not None:
            x = self.convolution(x, lengths)
        if self.recurrent is not None:
            x = self.recurrent(x, lengths)
        return self.encoder.run(x, source_padding(lengths, tokens.shape[1]), records=records)
