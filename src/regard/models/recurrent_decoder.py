"""The recurrent decoder of encoder–decoders, with attention or with one fixed context vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.copying import COPY_ATTENTION, CopyStates
from regard.core import attention, attention_with_weights
from regard.errors import ShapeError
from regard.masks import Mask
from regard.models.dropout import Dropout
from regard.models.heads import CopyHead, LanguageHead
from regard.models.inputs import check_tokens
from regard.models.records import Record, add_record
from regard.models.state import Memory, as_rows
from regard.scores import Tanh

__all__ = ["RecurrentAttention", "RecurrentDecoder", "RecurrentState", "recurrent_layers"]


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


class RecurrentDecoder(nn.Module):
    """The base class of models whose decoder is a GRU or LSTM over the states of an encoder.

    A subclass makes its encoder and ``target_embedding``, then calls :meth:`make_decoder`. Its ``encode`` returns a
    :class:`~regard.models.state.Memory` with ``keys`` (if it has attention) and ``final``.
    """

    # A config with the settings of Seq2SeqConfig that concern the decoder.
    config: Any
    target_embedding: nn.Embedding

    def make_decoder(self) -> None:
        """Make the attention, the recurrent layers and the output layer that the config asks for."""
        config, width = self.config, self.config.width
        self.attention = None if config.attention is None else RecurrentAttention(config.attention, width)
        # The decoder also reads the fixed context vector (without attention), or the last attentional hidden state
        # (with input feeding).
        self.fed = config.attention is None or config.input_feeding
        self.decoder = recurrent_layers(
            config, 2 * width if self.fed else width, width, config.decoder_layers
        )
        self.starts = nn.Linear(width, width * config.decoder_layers)
        # Combines decoder state, context and token embedding to the input of the output layer.
        self.find = nn.Linear(3 * width, width)
        self.dropout = Dropout(config.dropout)
        table = self.target_embedding if config.tied_output else None
        head = CopyHead if config.copy else LanguageHead
        self.output = head(width, config.target_size, tied_to=table)
        self.copy_gate = nn.Linear(width, 1) if config.copy else None

    def decode(
        self, memory: Memory, target: Tensor, *, records: list[Record] | None = None
    ) -> Tensor | CopyStates:
        """Return the hidden states ``(b,t,m)`` of ``target (b,t)``.

        The state of a token depends on this token and on earlier ones. ``memory`` is the result of :meth:`encode`. If
        ``records`` is a list, the attention of all tokens is appended to it as one record.
        """
        hidden, weights = self._decoded(memory, target, records)
        return self._with_copies(hidden, weights, memory)

    def decode_with_weights(self, memory: Memory, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return the hidden states ``(b,t,m)`` of ``target (b,t)``, and the attention weights ``(b,t,s)``.

        Both have gradients, for a loss that depends on the weights. The model must have attention and not copy.
        """
        hidden, weights = self._decoded(memory, target, records=[])
        assert weights is not None
        return hidden, weights

    def _decoded(
        self, memory: Memory, target: Tensor, records: list[Record] | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the results of :meth:`_attentional` for ``target (b,t)``, from the start of each sequence on."""
        check_tokens("target", target, self.config.target_size)
        x = self.dropout(self.target_embedding(target))  # (b,t,m)
        state = self.start(memory)
        if self.attention is not None and self.config.input_feeding:
            return self._decode_by_steps(x, state, records)
        states, _ = self.decoder(self._decoder_input(x, state), _rnn_state(state))  # (b,t,m)
        return self._attentional(states, x, memory, records)

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


def recurrent_layers(
    config: Any, reads: int, width: int, layers: int, *, bidirectional: bool = False
) -> nn.GRU | nn.LSTM:
    """Return layers of the cell that the config names, which read vectors of ``reads`` numbers."""
    kind = nn.GRU if config.cell == "gru" else nn.LSTM
    # This dropout is applied between layers. torch warns if there is only one layer.
    dropout = config.dropout if layers > 1 else 0.0
    return kind(reads, width, layers, batch_first=True, dropout=dropout, bidirectional=bidirectional)
