"""A masked language model, an encoder that predicts the tokens that are hidden from it."""

from __future__ import annotations

from torch import Tensor, nn

from regard.models.config import EncoderConfig
from regard.models.encoder import Encoder
from regard.models.head_config import MaskedLanguageModelConfig
from regard.models.heads import LanguageHead
from regard.models.norms_and_activations import make_activation, make_norm
from regard.models.pretrained import Pretrained
from regard.models.records import Record

__all__ = ["MaskedLanguageModel"]


class MaskedLanguageModel(Pretrained, nn.Module):
    """An encoder with an output for every token of the vocabulary at every position, as BERT is trained.

    It is built from a :class:`MaskedLanguageModelConfig`. Between the encoder and the output are a linear layer, an
    activation and a norm.

    >>> import torch
    >>> model = MaskedLanguageModel(MaskedLanguageModelConfig(vocabulary_size=11, width=8, heads=2))
    >>> model(torch.randint(11, (2, 5)), lengths=torch.tensor([5, 3])).shape
    torch.Size([2, 5, 11])
    """

    def __init__(self, config: MaskedLanguageModelConfig):
        super().__init__()
        self.config: MaskedLanguageModelConfig = config
        self.encoder = Encoder(config.part(EncoderConfig), name="encoder")
        self.transform = nn.Linear(config.width, config.width)
        self.activation = make_activation(config.head_activation)
        self.norm = make_norm(config)
        table = self.encoder.embedding.tokens if config.tied_output else None
        self.output = LanguageHead(
            config.width, config.vocabulary_size, tied_to=table, std=config.width**-0.5
        )

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | None = None,
        *,
        types: Tensor | None = None,
        at: Tensor | None = None,
        records: list[Record] | None = None,
    ) -> Tensor:
        """Return the logits of the token at each position of ``tokens (b,n)``, ``(b,n,vocabulary)``.

        If the booleans ``at (b,n)`` are given, the logits are those of the positions where they are True, in the order
        of the rows of ``tokens``, ``(positions,vocabulary)``. Training needs those of the hidden tokens only. The other
        arguments are those of :meth:`Encoder.forward`.
        """
        states = self.encoder(tokens, lengths, types=types, records=records)  # (b,n,m)
        if at is not None:
            states = states[at]  # (positions,m)
        return self.output(self.norm(self.activation(self.transform(states))))
