"""The heads of the models, which turn states into logits or into one vector for each sequence.

A pooling maps states ``(b,n,m)`` and lengths ``(b,)`` to one vector for each sequence, ``(b,m)``. Padding has no
influence on it.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from regard.copying import CopyStates, mixed_log_probabilities
from regard.core import attention, attention_with_weights
from regard.errors import UnknownNameError
from regard.layers import MultiHeadAttention
from regard.models.compiled_step import project_if_compiled
from regard.models.dropout import Dropout
from regard.models.records import Record, add_record
from regard.models.state import source_padding
from regard.scores import Tanh

__all__ = [
    "AdditivePooling",
    "ClassificationHead",
    "CopyHead",
    "FirstPooling",
    "LanguageHead",
    "MeanPooling",
    "MultiHeadPooling",
    "Pooling",
    "SpanHead",
    "make_pooling",
]


class LanguageHead(nn.Linear):
    """A linear layer from hidden states ``(...,m)`` to the logits of all tokens, ``(...,vocabulary)``.

    ``size`` is the number of token ids. ``tied_to`` is an embedding table that the layer uses as its weight. ``std`` is
    the standard deviation of new weights otherwise, by default that of ``nn.Linear``. The bias starts at zero.

    >>> table = nn.Embedding(11, 8)
    >>> head = LanguageHead(8, 11, tied_to=table)
    >>> head.weight is table.weight, head(torch.ones(2, 5, 8)).shape
    (True, torch.Size([2, 5, 11]))
    """

    def __init__(
        self,
        width: int,
        size: int,
        *,
        tied_to: nn.Embedding | None = None,
        std: float | None = None,
        bias: bool = True,
    ):
        super().__init__(width, size, bias=bias)
        if bias:
            nn.init.zeros_(self.bias)
        if std is not None:
            nn.init.normal_(self.weight, std=std)
        if tied_to is not None:
            self.weight = tied_to.weight

    def forward(self, input: Tensor) -> Tensor:
        """Return the logits ``(...,vocabulary)`` of hidden states ``(...,m)``."""
        compiled = project_if_compiled(self, input)
        return super().forward(input.to(self.weight.dtype)) if compiled is None else compiled


class CopyHead(LanguageHead):
    """A language head that mixes the probabilities of generating a token with those of copying it from the source.

    It has the parameters of a :class:`LanguageHead`. Its input are :class:`regard.copying.CopyStates`, and its results
    are log-probabilities.

    >>> weights, source = torch.full((2, 5, 3), 1 / 3), torch.tensor([[4, 5, 4], [6, 7, 8]])
    >>> states = CopyStates(torch.ones(2, 5, 8), torch.zeros(2, 5), weights, source)
    >>> CopyHead(8, 11)(states).shape
    torch.Size([2, 5, 11])
    """

    def forward(self, states: CopyStates) -> Tensor:  # type: ignore[override]
        """Return the log-probabilities ``(b,t,vocabulary)`` of the mixture."""
        return mixed_log_probabilities(super().forward(states.hidden), states)


class ClassificationHead(nn.Module):
    """Dropout and a linear layer from vectors ``(...,m)`` to the logits of classes, ``(...,classes)``.

    On pooled vectors ``(b,m)`` it classifies sequences, on states ``(b,n,m)`` each token.

    >>> ClassificationHead(8, 3)(torch.ones(2, 8)).shape
    torch.Size([2, 3])
    """

    def __init__(self, width: int, classes: int, *, dropout: float = 0.0):
        super().__init__()
        self.dropout = Dropout(dropout)
        self.linear = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits ``(...,classes)`` of the vectors ``(...,m)``."""
        return self.linear(self.dropout(x))


class SpanHead(nn.Module):
    """A linear layer from states to the logits of the first and the last token of a span.

    >>> start, end = SpanHead(8)(torch.ones(2, 5, 8), torch.tensor([5, 3]))
    >>> start.shape, end.softmax(dim=-1)[1, 3:]
    (torch.Size([2, 5]), tensor([0., 0.], grad_fn=<SliceBackward0>))
    """

    def __init__(self, width: int):
        super().__init__()
        self.linear = nn.Linear(width, 2)

    def forward(self, states: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the logits of starts and of ends, ``(b,n)`` each, for ``states (b,n,m)``.

        They are -inf at padding, from ``lengths (b,)`` on. Without ``lengths`` there is no padding.
        """
        logits = self.linear(states)  # (b,n,2)
        if lengths is not None:
            padding = torch.arange(states.shape[1], device=states.device) >= lengths[:, None]  # (b,n)
            logits = logits.masked_fill(padding[..., None], -torch.inf)
        start, end = logits.unbind(dim=-1)
        return start, end


class Pooling(Protocol):
    """The interface of all poolings.

    ``lengths`` is None if there is no padding. If ``records`` is a list, a pooling with attention appends a record of
    its weights. Poolings without attention ignore ``records``.
    """

    def __call__(
        self, states: Tensor, lengths: Tensor | None = None, *, records: list[Record] | None = None
    ) -> Tensor:
        """Return one vector for each sequence, ``(b,m)``, from its states ``(b,n,m)``."""
        ...


class MeanPooling(nn.Module):
    """The mean of the states of each sequence, without its padding.

    The mean of a sequence of length 0 is zero.

    >>> MeanPooling()(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([2]))
    tensor([[2.]])
    """

    def forward(
        self, states: Tensor, lengths: Tensor | None = None, *, records: list[Record] | None = None
    ) -> Tensor:
        """Return the mean ``(b,m)`` of the states ``(b,n,m)`` within ``lengths``."""
        if lengths is None:
            return states.mean(dim=1)
        kept = torch.arange(states.shape[1], device=states.device) < lengths[:, None]  # (b,n)
        total = states.masked_fill(~kept[..., None], 0.0).sum(dim=1)  # (b,m)
        return total / lengths.clamp(min=1)[:, None].to(states.dtype)


class FirstPooling(nn.Module):
    """The state of the first token of each sequence.

    >>> FirstPooling()(torch.tensor([[[1.0], [3.0]]]))
    tensor([[1.]])
    """

    def forward(
        self, states: Tensor, lengths: Tensor | None = None, *, records: list[Record] | None = None
    ) -> Tensor:
        """Return the first state ``(b,m)`` of each sequence in ``states (b,n,m)``, even if its length is 0."""
        return states[:, 0]


class AdditivePooling(nn.Module):
    """Additive attention of learned queries to the states (Yang et al. 2016).

    The score of a state is ``v . tanh(W state + query)``. Each of several ``heads`` has a query and a ``v`` of its own,
    and their contexts are projected to the width of one state. ``name`` is the name of the pooling in its record.

    >>> AdditivePooling(8, heads=3)(torch.ones(2, 5, 8), torch.tensor([5, 3])).shape
    torch.Size([2, 8])
    """

    def __init__(self, width: int, heads: int = 1, *, name: str = ""):
        super().__init__()
        self.name, self.heads = name, heads
        shape = (width,) if heads == 1 else (heads, width)
        self.query = nn.Parameter(torch.zeros(shape))
        self.W = nn.Linear(width, width, bias=False)
        self.v = nn.Parameter(torch.empty(shape))
        nn.init.uniform_(self.v, -(width**-0.5), width**-0.5)
        self.W_o = nn.Linear(heads * width, width) if heads > 1 else None

    def forward(
        self, states: Tensor, lengths: Tensor | None = None, *, records: list[Record] | None = None
    ) -> Tensor:
        """Return the weighted sum ``(b,m)`` of the states ``(b,n,m)``, and add its weights to ``records``."""
        keys, mask = self.W(states), source_padding(lengths, states.shape[1])  # (b,n,m), (b,1,1,n)
        contexts, weights = [], []
        for query, v in zip(self.query.view(self.heads, -1), self.v.view(self.heads, -1), strict=True):
            inputs = (query.expand(states.shape[0], 1, -1), keys, states)  # (b,1,m), (b,n,m), (b,n,m)
            if records is None:
                contexts.append(attention(*inputs, score=Tanh(v), mask=mask)[:, 0])  # (b,m)
            else:
                context, row = attention_with_weights(*inputs, score=Tanh(v), mask=mask)  # (b,1,m), (b,1,n)
                contexts.append(context[:, 0])
                weights.append(row)
        if records is not None:
            add_record(records, name=self.name, kind="cross", weights=torch.stack(weights, dim=1))
        return contexts[0] if self.W_o is None else self.W_o(torch.cat(contexts, dim=-1))  # (b,m)


class MultiHeadPooling(nn.Module):
    """Multi-head attention of a learned query to the states.

    ``name`` is the name of the pooling in a larger model, for its record.

    >>> MultiHeadPooling(8, heads=2)(torch.ones(2, 5, 8), torch.tensor([5, 3])).shape
    torch.Size([2, 8])
    """

    def __init__(self, width: int, heads: int, *, name: str = ""):
        super().__init__()
        self.name = name
        self.query = nn.Parameter(torch.empty(1, 1, width))
        nn.init.normal_(self.query, std=width**-0.5)
        self.attention = MultiHeadAttention(width, heads)

    def forward(
        self, states: Tensor, lengths: Tensor | None = None, *, records: list[Record] | None = None
    ) -> Tensor:
        """Return the output ``(b,m)`` of the attention to ``states (b,n,m)``, and add its weights to ``records``."""
        query = self.query.expand(states.shape[0], -1, -1)  # (b,1,m)
        mask = source_padding(lengths, states.shape[1])
        context, weights = self.attention(query, states, mask=mask, need_weights=records is not None)
        if records is not None and weights is not None:
            name = f"{self.name}.attention".lstrip(".")
            add_record(records, name=name, kind="cross", weights=weights)
        return context[:, 0]


def make_pooling(kind: str, width: int, heads: int = 1, *, name: str = "") -> Pooling:
    """Make the pooling "mean", "first", "additive" or "multihead" for states of a width.

    Any other kind raises UnknownNameError. ``heads`` and ``name`` are those of the two with attention.

    >>> type(make_pooling("additive", 8)).__name__
    'AdditivePooling'
    """
    if kind == "mean":
        return MeanPooling()
    if kind == "first":
        return FirstPooling()
    if kind == "additive":
        return AdditivePooling(width, heads, name=name)
    if kind == "multihead":
        return MultiHeadPooling(width, heads, name=name)
    raise UnknownNameError("pooling", kind, ("mean", "first", "additive", "multihead"))
