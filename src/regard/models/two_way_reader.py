"""A reader of questions, with attention between question and context in both directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from regard.core import attention_with_weights
from regard.errors import ArgumentError, ShapeError
from regard.models.blocks import Block
from regard.models.config import SCORES, EncoderConfig, check_name
from regard.models.dropout import Dropout
from regard.models.embeddings import TokenEmbedding
from regard.models.encoder import Encoder
from regard.models.heads import AdditivePooling, SpanHead
from regard.models.inputs import check_tokens, embedding, read_lengths
from regard.models.norms_and_activations import make_norm
from regard.models.pretrained import Pretrained
from regard.models.records import Record, add_record
from regard.models.state import source_padding
from regard.scores import Additive, Bilinear
from regard.shapes import axes, whole_number

__all__ = ["TwoWayReader", "TwoWayReaderConfig"]

ENCODERS = ("gru", "transformer")


@dataclass(frozen=True, kw_only=True)
class TwoWayReaderConfig(EncoderConfig):
    """The settings of a :class:`TwoWayReader`.

    - ``encoder`` is "gru" (bidirectional) or "transformer", with ``layers`` layers before and as many after the
      attention between question and context. ``layers`` is at least 1.
    - ``score`` is the score of the attention between question and context, "dot", "scaled_dot", "bilinear" or
      "additive".
    - ``flags`` is the number of yes/no features and ``endings`` the number of hashed word endings in the form of a
      token (:mod:`regard.text.forms`). If both are 0, the model ignores forms.
    - ``base`` is the config of a pretrained encoder whose states take the place of token embeddings. It is not
      trained. ``base_start`` and ``base_end`` are the ids of the special tokens that it gets before and after each
      text.
    """

    kind: ClassVar[str] = "two_way_reader"
    encoder: str = "gru"
    score: str = "bilinear"
    flags: int = 0
    endings: int = 0
    base: EncoderConfig | None = None
    base_start: int = 0
    base_end: int = 0

    def __post_init__(self):
        if isinstance(self.base, dict):  # from JSON
            object.__setattr__(self, "base", EncoderConfig.from_json(self.base))
        super().__post_init__()
        check_name("encoder", self.encoder, ENCODERS)
        check_name("score", self.score, SCORES)
        whole_number("flags", self.flags, least=0)
        whole_number("endings", self.endings, least=0)
        whole_number("layers", self.layers, least=1)
        if self.encoder == "gru" and self.width % 2:
            told = f"expected an even number, got {self.width}"
            raise ArgumentError("width", told, "each direction takes half of it")


class TwoWayReader(Pretrained, nn.Module):
    """A model that finds the span of a context which answers a question, built from a :class:`TwoWayReaderConfig`.

    The context attends to the question and the question to the context (Seo et al. 2017, Xiong et al. 2017). Each
    token of the context gets the states of the question tokens that it attends to, and the states of the context that
    these question tokens attend to. The first position of the context stands for "no answer".

    >>> model = TwoWayReader(TwoWayReaderConfig(vocabulary_size=11, width=8, layers=1))
    >>> question, context = torch.randint(11, (2, 3)), torch.randint(11, (2, 7))
    >>> start, end = model(question, torch.tensor([3, 2]), context, torch.tensor([7, 5]))
    >>> start.shape, end.softmax(dim=-1)[1, 5:]
    (torch.Size([2, 7]), tensor([0., 0.], grad_fn=<SliceBackward0>))
    """

    def __init__(self, config: TwoWayReaderConfig):
        super().__init__()
        self.config: TwoWayReaderConfig = config
        embedded = None if config.base else TokenEmbedding(config, config.vocabulary_size)
        self.encoder = Layers(config, embedded, name="encoder")
        self.base = FrozenEncoder(config) if config.base else None
        self.project = nn.Linear(config.base.width, config.width) if config.base else None
        self.flags = nn.Linear(config.flags, config.width, bias=False) if config.flags else None
        self.endings = embedding(config.endings, config.width) if config.endings else None
        self.to_question = Similarity(config)
        self.to_context = Similarity(config)
        self.summary = AdditivePooling(config.width, name="summary")
        self.merge = nn.Linear(5 * config.width, config.width)
        self.merge_norm = make_norm(config)
        self.modelling = Layers(config, None, name="modelling")
        self.asked = nn.Linear(config.width, config.width)
        self.dropout = Dropout(config.dropout)
        self.output = SpanHead(2 * config.width)

    def forward(
        self,
        question: Tensor,
        question_lengths: Tensor | None,
        context: Tensor,
        context_lengths: Tensor | None,
        *,
        question_forms: Tensor | None = None,
        context_forms: Tensor | None = None,
        records: list[Record] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the logits of the first and of the last token of the answer, ``(b,n)`` each, with -inf at padding.

        ``question (b,q)`` and ``context (b,n)`` are token ids, and their lengths ``(b,)`` are at least 1. None for
        lengths means no padding. ``question_forms (b,q)`` and ``context_forms (b,n)`` are the forms of the tokens,
        which a config with ``flags`` or ``endings`` requires. If ``records`` is a list, all attention is appended to
        it.
        """
        size = self.config.vocabulary_size
        check_tokens("question", question, size)
        check_tokens("context", context, size)
        asked_lengths = read_lengths(question_lengths, question, least=1, name="question")
        read = read_lengths(context_lengths, context, least=1, name="context")
        asked = self._encoded("question", question, asked_lengths, question_forms, records)  # (b,q,m)
        states = self._encoded("context", context, read, context_forms, records)  # (b,n,m)
        states = self._joined(asked, asked_lengths, states, read, records)  # (b,n,m)
        states = self.modelling(states, read, records=records)  # (b,n,m)
        wanted = self.asked(self.summary(asked, asked_lengths, records=records))[:, None]  # (b,1,m)
        return self.output(torch.cat([states, self.dropout(states) * wanted], dim=-1), read)

    def _encoded(
        self,
        name: str,
        tokens: Tensor,
        lengths: Tensor | None,
        forms: Tensor | None,
        records: list[Record] | None,
    ) -> Tensor:
        """Return the states ``(b,n,m)`` of the question or of the context, before they attend to each other.

        ``name`` is "question" or "context". Missing forms that the config requires raise ShapeError.
        """
        if self.base is not None:
            assert self.project is not None
            x = self.dropout(self.project(self.base(tokens, lengths, started=name == "context")))  # (b,n,m)
        else:
            assert self.encoder.embedding is not None
            x = self.encoder.embedding(tokens)  # (b,n,m)
        if self.flags is not None or self.endings is not None:
            if forms is None or forms.shape != tokens.shape:
                got = "none" if forms is None else axes(forms.shape)
                raise ShapeError(f"{name}_forms", f"expected {axes(tokens.shape)} as {name}, got {got}")
            x = x + self._of_forms(forms, x.dtype)
        return self.encoder(x, lengths, records=records)

    def _of_forms(self, forms: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the sum of the vectors of the features and of the word ending of each form, ``(b,n,m)``."""
        count = self.config.flags
        added: list[Tensor] = []
        if self.flags is not None:
            bits = forms[..., None] >> torch.arange(count, device=forms.device) & 1  # (b,n,flags)
            added.append(self.flags(bits.to(dtype)))
        if self.endings is not None:
            added.append(self.dropout(self.endings(forms >> count)))
        return sum(added[1:], added[0])

    def _joined(
        self,
        question: Tensor,  # (b,q,m)
        question_lengths: Tensor | None,
        context: Tensor,  # (b,n,m)
        context_lengths: Tensor | None,
        records: list[Record] | None,
    ) -> Tensor:
        """Return the states ``(b,n,m)`` of the context, merged with the results of the attention in both directions."""
        q_mask = source_padding(question_lengths, question.shape[1])
        c_mask = source_padding(context_lengths, context.shape[1])
        found, to_context = self.to_context(question, context, context, c_mask)  # (b,q,m), (b,q,n)
        values = torch.cat([question, found], dim=-1)  # (b,q,2m)
        both, to_question = self.to_question(context, question, values, q_mask)  # (b,n,2m), (b,n,q)
        if records is not None:
            add_record(records, name="to_context", kind="cross", weights=to_context[:, None])
            add_record(records, name="to_question", kind="cross", weights=to_question[:, None])
        asked, returned = both.chunk(2, dim=-1)  # (b,n,m) each
        parts = [context, asked, returned, context * asked, context * returned]
        return self.merge_norm(context + torch.relu(self.merge(self.dropout(torch.cat(parts, dim=-1)))))


class Similarity(nn.Module):
    """Attention with the score of the config, between states of the same width."""

    def __init__(self, config: TwoWayReaderConfig):
        super().__init__()
        width = config.width
        self.score: str | nn.Module = config.score
        if config.score == "bilinear":
            self.score = Bilinear(width, width)
        elif config.score == "additive":
            self.score = Additive(width, width, width // 2)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask) -> tuple[Tensor, Tensor]:
        """Return the output ``(b,q,e)`` and the weights ``(b,q,k)`` for values ``(b,k,e)``."""
        return attention_with_weights(query, key, value, score=self.score, mask=mask)


class Layers(nn.Module):
    """Bidirectional GRUs or Transformer blocks on vectors ``(b,n,m)``, as ``config.encoder`` says.

    ``embedding`` is only stored here, and the caller applies it. ``name`` is the name in the records of attention.
    """

    def __init__(self, config: TwoWayReaderConfig, embedding: TokenEmbedding | None, *, name: str):
        super().__init__()
        self.embedding = embedding
        self.recurrent = config.encoder == "gru"
        self.dropout = Dropout(config.dropout)
        if self.recurrent:
            self.layers = nn.ModuleList(TwoWayGRU(config.width) for _ in range(config.layers))
            return
        self.layers = nn.ModuleList(
            Block(config, f"{name}.layers.{i}", causal=False, cross=False) for i in range(config.layers)
        )
        self.norm = make_norm(config) if config.norm == "pre" else nn.Identity()

    def forward(self, x: Tensor, lengths: Tensor | None, *, records: list[Record] | None = None) -> Tensor:
        """Return the states ``(b,n,m)`` of vectors ``x (b,n,m)``, whose positions from ``lengths (b,)`` on are padding.

        GRUs have no attention and add nothing to ``records``.
        """
        if self.recurrent:
            for layer in self.layers:
                x = self.dropout(layer(x, lengths))
            return x
        mask = source_padding(lengths, x.shape[1])
        for layer in self.layers:
            x = layer(x, mask, records=records)
        return self.norm(x)


class TwoWayGRU(nn.Module):
    """Two GRUs, one of which reads each sequence from its end.

    The second one reads each sequence reversed in front of its padding. On a CPU this takes half the time of a packed
    sequence.

    >>> layer = TwoWayGRU(4)
    >>> x = torch.randn(2, 5, 4)
    >>> alone = layer(x[1:, :3], None)
    >>> torch.allclose(layer(x, torch.tensor([5, 3]))[1:, :3], alone, atol=1e-6)
    True
    """

    def __init__(self, width: int):
        super().__init__()
        self.forwards = nn.GRU(width, width // 2, batch_first=True)
        self.backwards = nn.GRU(width, width // 2, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """Return the states ``(b,n,m)`` of vectors ``x (b,n,m)``, whose positions from ``lengths (b,)`` on are padding.

        The states at padding have no meaning.
        """
        count = x.shape[1]
        ends = torch.full((len(x),), count, device=x.device) if lengths is None else lengths  # (b,)
        places = ends[:, None] - 1 - torch.arange(count, device=x.device)  # (b,n), the sequence from its end
        places = places.clamp(min=0)[..., None]  # (b,n,1)
        back = self.backwards(x.gather(1, places.expand_as(x)))[0]  # (b,n,m/2)
        back = back.gather(1, places.expand_as(back))
        return torch.cat([self.forwards(x)[0], back], dim=-1)


class FrozenEncoder(nn.Module):
    """A pretrained encoder that is not trained, whose states are the mean of its last four layers.

    From the first call of :meth:`train` on, the states of each text are kept in float16, up to ``MOST_KEPT`` bytes, so
    that they are computed once and not in every epoch.
    """

    MOST_KEPT = 2**30

    def __init__(self, config: TwoWayReaderConfig):
        super().__init__()
        assert config.base is not None
        self.encoder = Encoder(config.base)
        self.encoder.requires_grad_(False)
        self.start, self.end = config.base_start, config.base_end
        self.kept: dict[bytes, Tensor] | None = None  # None until the model is trained
        self.kept_bytes = 0

    def train(self, mode: bool = True) -> Self:
        """Set the mode of this module, and keep its encoder in evaluation mode.

        In evaluation mode the states of a text are always the same. With ``mode`` the states are kept from now on.
        """
        super().train(mode)
        self.encoder.eval()
        if mode and self.kept is None:
            self.kept = {}
        return self

    @torch.no_grad()
    def forward(self, tokens: Tensor, lengths: Tensor | None, *, started: bool) -> Tensor:
        """Return the states ``(b,n,m)`` of ``tokens (b,n)``, which are zero from ``lengths (b,)`` on.

        ``started`` says that the first token of each row stands for the start token and is replaced by it. Otherwise
        the start token is added for the encoder, and its state is left out of the result.
        """
        ends = [tokens.shape[1]] * len(tokens) if lengths is None else lengths.tolist()
        rows = [tokens[i, int(started) : end] for i, end in enumerate(ends)]
        keys = [row.cpu().numpy().tobytes() for row in rows]
        kept = {} if self.kept is None else self.kept
        new = {key: row for key, row in zip(keys, rows, strict=True) if key not in kept}
        found = dict(zip(new, self._states(list(new.values())), strict=True)) if new else {}
        out = torch.zeros(*tokens.shape, self.encoder.config.width, device=tokens.device)  # (b,n,m)
        for i, key in enumerate(keys):
            states = found[key] if key in found else kept[key]  # (1+n,m), with the start
            states = states if started else states[1:]
            out[i, : len(states)] = states
        self._keep(found)
        return out

    def _states(self, rows: list[Tensor]) -> list[Tensor]:
        """Return the states ``(1+n,m)`` of the start token and of the n tokens of each row."""
        width = max(len(row) for row in rows) + 2
        ids = torch.full((len(rows), width), self.end, device=rows[0].device)  # (b,n)
        ids[:, 0] = self.start
        for i, row in enumerate(rows):
            ids[i, 1 : len(row) + 1] = row
        lengths = torch.tensor([len(row) + 2 for row in rows], device=ids.device)  # (b,)
        mask = source_padding(lengths, width)
        x, layers = self.encoder.embedding(ids), []
        for layer in self.encoder.layers:
            x = layer(x, mask)
            layers.append(x)
        x = self.encoder.norm(torch.stack(layers[-4:]).float().mean(dim=0))  # (b,n,m)
        return [x[i, : len(row) + 1] for i, row in enumerate(rows)]

    def _keep(self, found: dict[bytes, Tensor]) -> None:
        if self.kept is None:
            return
        for key, states in found.items():
            size = 2 * states.numel()
            if self.kept_bytes + size <= self.MOST_KEPT:
                self.kept[key] = states.to(torch.float16)
                self.kept_bytes += size
