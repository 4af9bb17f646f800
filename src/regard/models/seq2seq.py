"""A recurrent encoder–decoder, with attention or with one fixed context vector."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.copying import CopyStates
from regard.models.config import Seq2SeqConfig
from regard.models.inputs import check_tokens, embedding, read_lengths
from regard.models.pretrained import Pretrained
from regard.models.records import Record
from regard.models.recurrent_decoder import RecurrentDecoder, recurrent_layers
from regard.models.state import Memory

__all__ = ["Seq2Seq"]


class RecurrentEncoder(nn.Module):
    """A bidirectional recurrent encoder that stops at the length of each sentence."""

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        self.rnn = recurrent_layers(
            config, config.width, config.width // 2, config.encoder_layers, bidirectional=True
        )
        self.final = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the states ``(b,s,m)`` of embedded tokens ``x (b,s,m)``, and one vector for each sentence ``(b,m)``.

        The states are zero at padding, from ``lengths (b,)`` on. Without ``lengths`` there is no padding.
        """
        if lengths is None:
            states, last = self.rnn(x)
        else:
            packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
            states, last = self.rnn(packed)
            states, _ = pad_packed_sequence(states, batch_first=True, total_length=x.shape[1])  # (b,s,m)
        # The hidden state of an LSTM, not its cell.
        last = last[0] if isinstance(last, tuple) else last
        ends = torch.cat([last[-2], last[-1]], dim=-1)  # (b,m), the last states of the two directions
        return states, torch.tanh(self.final(ends))


class Seq2Seq(Pretrained, RecurrentDecoder):
    """An encoder–decoder of GRUs or LSTMs, built from a :class:`Seq2SeqConfig`.

    With ``attention=None`` in the config, the decoder sees the source only as one context vector at every step. With
    ``copy``, the model also copies tokens of the source, chosen by its attention. Hidden states are then
    :class:`regard.copying.CopyStates`, and the results of the output layer are log-probabilities of the mixture.

    >>> model = Seq2Seq(Seq2SeqConfig(source_size=11, target_size=13, width=8, attention="additive"))
    >>> source, target = torch.randint(3, 11, (2, 5)), torch.randint(3, 13, (2, 7))
    >>> model(source, target, lengths=torch.tensor([5, 3])).shape
    torch.Size([2, 7, 13])
    """

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        self.config: Seq2SeqConfig = config
        width = config.width
        self.source_embedding = embedding(config.source_size, width)
        shared = config.shared_embeddings
        self.target_embedding = self.source_embedding if shared else embedding(config.target_size, width)
        self.encoder = RecurrentEncoder(config)
        self.make_decoder()

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        lengths: Tensor | None = None,
        *,
        records: list[Record] | None = None,
    ) -> Tensor:
        """Return the logits of the next token, ``(b,t,vocabulary)``, for ``source (b,s)`` and ``target (b,t)``.

        ``lengths (b,)`` are the source lengths without padding. If ``records`` is a list, the attention is appended to
        it.
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
        return self.decode(self.encode(source, lengths), target, records=records)

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Memory:
        """Return the encoder states of ``source (b,s)``, whose positions from ``lengths (b,)`` on are padding.

        Every length is at least 1.
        """
        check_tokens("source", source, self.config.source_size)
        lengths = read_lengths(lengths, source, least=1)
        x = self.dropout(self.source_embedding(source))
        states, final = self.encoder(x, lengths)
        states = self.dropout(states)
        keys = None if self.attention is None else self.attention.keys(states)
        return Memory(states, lengths, keys, final, tokens=source if self.config.copy else None)
