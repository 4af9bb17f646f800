"""A recurrent encoder–decoder, with attention or with one fixed context vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.copying import COPY_ATTENTION, CopyStates
from regard.core import attention, attention_with_weights
from regard.errors import ShapeError
from regard.masks import Mask
from regard.models.config import Seq2SeqConfig
from regard.models.dropout import Dropout
from regard.models.heads import CopyHead, LanguageHead
from regard.models.inputs import check_tokens, embedding, read_lengths
from regard.models.pretrained import Pretrained
from regard.models.records import Record, add_record
from regard.models.state import Memory, as_rows
from regard.scores import Tanh

__all__ = ["Seq2Seq"]


@dataclass
class RecurrentState:
    """The state of the recurrent decoder between two steps, with w hypotheses for each of b sentences.

    The hypotheses of a sentence are neighbouring rows. ``cells`` is None for a GRU. ``attentional`` is the attentional
    hidden state of the last step, or None without input feeding.
    """

    memory: Memory
    layers: Tensor  # (layers,b*w,m)
    cells: Tensor | None  # (layers,b*w,m), of an LSTM
    attentional: Tensor | None  # (b*w,m)

    def reorder(self, rows: Tensor) -> None:
        """Replace the hypothesis in row ``i`` by that of the old row ``rows[i]``, in place.

        The number of rows may change. The sentences in ``memory`` are not changed.
        """
        self.layers = self.layers[:, rows]
        self.cells = None if self.cells is None else self.cells[:, rows]
        self.attentional = None if self.attentional is None else self.attentional[rows]

    def keep(self, sentences: Tensor, hypotheses: int) -> None:
        """Keep only the sentences with these indices, each of which has ``hypotheses`` rows, in place."""
        self.reorder(as_rows(sentences, hypotheses))
        self.memory = self.memory.keep(sentences)


class RecurrentEncoder(nn.Module):
    """A bidirectional recurrent encoder that stops at the length of each sentence."""

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        self.rnn = _rnn(config, config.width, config.width // 2, config.encoder_layers, bidirectional=True)
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
        last = last[0] if isinstance(last, tuple) else last  # the hidden state of an LSTM, not its cell
        ends = torch.cat([last[-2], last[-1]], dim=-1)  # (b,m), the last states of the two directions
        return states, torch.tanh(self.final(ends))


class RecurrentAttention(nn.Module):
    """The attention from decoder states to encoder states.

    ``kind`` is the score, "additive", "bilinear", "dot" or "scaled_dot". The keys are projected once for all steps.
    """

    is_cross_attention: ClassVar[bool] = True  # read by regard.capture

    def __init__(self, kind: str, width: int):
        super().__init__()
        self.kind = kind
        if kind == "additive":
            self.W_1 = nn.Linear(width, width, bias=False)  # for the query
            self.v = nn.Parameter(torch.empty(width).uniform_(-1, 1) * width**-0.5)
        if kind in ("additive", "bilinear"):
            self.W_2 = nn.Linear(width, width, bias=kind == "additive")  # for the keys

    def keys(self, states: Tensor) -> Tensor:
        """Return the keys of the encoder states, ``(b,s,m)``."""
        return self.W_2(states) if self.kind in ("additive", "bilinear") else states

    def forward(
        self, query: Tensor, memory: Memory, mask: Mask | None, want_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Return the context vectors ``(b,q,m)`` and the weights ``(b,q,s)`` of the decoder states ``query (b,q,m)``.

        ``mask`` hides the padding of the source. The weights are None unless ``want_weights`` is True.
        """
        assert memory.keys is not None  # set by Seq2Seq.encode
        score = self.kind if self.kind == "scaled_dot" else "dot"
        if self.kind == "additive":
            query, score = self.W_1(query), Tanh(self.v)
        if want_weights:
            return attention_with_weights(query, memory.keys, memory.states, score=score, mask=mask)
        return attention(query, memory.keys, memory.states, score=score, mask=mask), None


class Seq2Seq(Pretrained, nn.Module):
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
        self.attention = None if config.attention is None else RecurrentAttention(config.attention, width)
        # The decoder also reads the fixed context vector (without attention), or the last attentional hidden state
        # (with input feeding).
        self.fed = config.attention is None or config.input_feeding
        self.decoder = _rnn(config, 2 * width if self.fed else width, width, config.decoder_layers)
        self.starts = nn.Linear(width, width * config.decoder_layers)
        # Combines decoder state, context and token embedding to the input of the output layer.
        self.find = nn.Linear(3 * width, width)
        self.dropout = Dropout(config.dropout)
        table = self.target_embedding if config.tied_output else None
        head = CopyHead if config.copy else LanguageHead
        self.output = head(width, config.target_size, tied_to=table)
        self.copy_gate = nn.Linear(width, 1) if config.copy else None

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

    def decode(
        self, memory: Memory, target: Tensor, *, records: list[Record] | None = None
    ) -> Tensor | CopyStates:
        """Return the hidden states ``(b,t,m)`` of ``target (b,t)``.

        The state of a token depends on this token and on earlier ones. ``memory`` is the result of :meth:`encode`. If
        ``records`` is a list, the attention of all tokens is appended to it as one record.
        """
        check_tokens("target", target, self.config.target_size)
        x = self.dropout(self.target_embedding(target))  # (b,t,m)
        state = self.start(memory)
        if self.attention is not None and self.config.input_feeding:
            hidden, weights = self._decode_by_steps(x, state, records)
        else:
            states, _ = self.decoder(self._decoder_input(x, state), _rnn_state(state))  # (b,t,m)
            hidden, weights = self._attentional(states, x, memory, records)
        return self._with_copies(hidden, weights, memory)

    def start(self, memory: Memory) -> RecurrentState:
        """Return the state before the first decoding step, with one hypothesis for each sentence of ``memory``."""
        assert memory.final is not None
        first = torch.tanh(self.starts(memory.final))  # (b,layers*m)
        layers = first.unflatten(-1, (self.config.decoder_layers, -1)).transpose(0, 1).contiguous()
        cells = torch.zeros_like(layers) if self.config.cell == "lstm" else None
        feeding = self.attention is not None and self.config.input_feeding
        return RecurrentState(memory, layers, cells, torch.zeros_like(memory.final) if feeding else None)

    def step(
        self, tokens: Tensor, state: RecurrentState, *, records: list[Record] | None = None
    ) -> Tensor | CopyStates:
        """Return the hidden states ``(b,w,m)`` of the next token of each hypothesis, ``tokens (b,w)``.

        Each of b sentences has w hypotheses. A state with one hypothesis for each sentence is repeated w times.
        Otherwise w may change only through ``state.reorder``. The state is updated in place. The token ids are not
        checked.
        """
        b, width = tokens.shape
        rows = state.layers.shape[1]
        if rows != b * width:
            if rows != b:
                raise ShapeError("tokens", f"{b * width} hypotheses, but the state has {rows}")
            # The first step starts from one hypothesis per sentence.
            state.reorder(torch.arange(b, device=tokens.device).repeat_interleave(width))
        x = self.target_embedding(tokens)  # (b,w,m)
        return self._with_copies(*self._one_step(x, state, records), state.memory)

    def _with_copies(self, hidden: Tensor, weights: Tensor | None, memory: Memory) -> Tensor | CopyStates:
        """Return the hidden states ``(b,t,m)``, with the attention ``weights (b,t,s)`` if the model copies."""
        if self.copy_gate is None or weights is None or memory.tokens is None:
            return hidden
        return CopyStates(hidden, self.copy_gate(hidden)[..., 0], weights, memory.tokens)

    def _one_step(
        self, x: Tensor, state: RecurrentState, records: list[Record] | None
    ) -> tuple[Tensor, Tensor | None]:
        """Run the decoder on one embedded token per hypothesis, ``(b,w,m)``, and update the state.

        Returns the hidden states ``(b,w,m)``, and the attention weights ``(b,w,s)`` if they were computed.
        """
        x_in = self._decoder_input(x, state)
        out, last = self.decoder(x_in.reshape(-1, 1, x_in.shape[-1]), _rnn_state(state))  # (b*w,1,m)
        state.layers, state.cells = last if isinstance(last, tuple) else (last, None)
        hidden, weights = self._attentional(out.reshape(x.shape), x, state.memory, records)
        if state.attentional is not None:
            state.attentional = hidden.reshape(-1, hidden.shape[-1])
        return hidden, weights

    def _decoder_input(self, x: Tensor, state: RecurrentState) -> Tensor:
        """Concatenate the token embeddings ``x (b,n,m)`` with the decoder's second input, if it has one.

        That input is the last attentional hidden state with input feeding, or the fixed context vector.
        """
        if not self.fed:
            return x
        if state.attentional is not None:
            return torch.cat([x, state.attentional.reshape(x.shape)], dim=-1)
        assert state.memory.final is not None
        return torch.cat([x, state.memory.final[:, None].expand_as(x)], dim=-1)

    def _decode_by_steps(
        self, x: Tensor, state: RecurrentState, records: list[Record] | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the results of :meth:`_attentional` for embedded tokens ``x (b,t,m)``, computed token by token.

        With input feeding, each step needs the result of the step before it. The weights of all steps are joined.
        """
        steps: list[Record] | None = None if records is None else []
        hidden, rows = zip(
            *(self._one_step(x[:, i : i + 1], state, steps) for i in range(x.shape[1])), strict=True
        )
        weights = None if None in rows else torch.cat(rows, dim=1)  # (b,t,s)
        if records is not None and weights is not None:
            self._add_record(records, weights)
        return torch.cat(hidden, dim=1), weights

    def _attentional(
        self, states: Tensor, x: Tensor, memory: Memory, records: list[Record] | None
    ) -> tuple[Tensor, Tensor | None]:
        """Combine decoder states ``(b,t,m)``, their context vectors and the token embeddings ``x`` to hidden states.

        The first result ``(b,t,m)`` is the input of the output layer (the attentional hidden state of Luong et al.
        2015). The second are the attention weights ``(b,t,s)``, if they are recorded or copied by, and else None.
        """
        weights = None
        if self.attention is None:
            assert memory.final is not None
            context = memory.final[:, None].expand_as(states)
        else:
            wanted = records is not None or self.config.copy
            context, weights = self.attention(states, memory, memory.padding(), wanted)
            if records is not None and weights is not None:
                self._add_record(records, weights)
        return self.dropout(torch.tanh(self.find(torch.cat([states, context, x], dim=-1)))), weights

    def _add_record(self, records: list[Record], weights: Tensor) -> None:
        name = COPY_ATTENTION if self.config.copy else "attention"
        add_record(records, name=name, kind="cross", weights=weights[:, None])


def _rnn_state(state: RecurrentState) -> Tensor | tuple[Tensor, Tensor]:
    """Return the recurrent state in the form that ``nn.GRU`` and ``nn.LSTM`` take."""
    return state.layers if state.cells is None else (state.layers, state.cells)


def _rnn(
    config: Seq2SeqConfig, reads: int, width: int, layers: int, *, bidirectional: bool = False
) -> nn.GRU | nn.LSTM:
    kind = nn.GRU if config.cell == "gru" else nn.LSTM
    # This dropout is applied between layers. torch warns if there is only one layer.
    dropout = config.dropout if layers > 1 else 0.0
    return kind(reads, width, layers, batch_first=True, dropout=dropout, bidirectional=bidirectional)
