"""An attention layer that computes one style of writing attention, and the formula of each style."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from zoo.judging import Truth
from zoo.weights import self_truth

BATCH, HEADS, TOKENS, WIDTH = 2, 3, 7, 5
HIDDEN = float("-inf")


class StyledAttention(nn.Module):
    """An attention layer whose computation is a given function, with the parameters that some styles need."""

    keep: Tensor  # (b,1,1,k), False on padding

    def __init__(self, attend: Attend):
        super().__init__()
        self.attend = attend
        self.num_heads = HEADS
        self.scale = WIDTH**-0.5
        self.qkv = nn.Linear(HEADS * WIDTH, 3 * HEADS * WIDTH)
        self.mix = nn.Parameter(torch.zeros(HEADS, HEADS))
        self.sinks = nn.Parameter(torch.zeros(HEADS))
        self.relative = nn.Parameter(torch.zeros(2 * TOKENS - 1, WIDTH))
        self.additive = nn.Parameter(torch.zeros(1, WIDTH))
        self.register_buffer("keep", left_padding(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        out = self.attend(self, *split(self.qkv(x)))  # (b,h,n,d)
        return x + out.transpose(1, 2).flatten(2)


Attend = Callable[[StyledAttention, Tensor, Tensor, Tensor], Tensor]
"""What a style makes of q, k and v: the output. All are ``(b,h,n,d)``."""
Weights = Callable[[StyledAttention, Tensor, Tensor], Tensor | list[Tensor]]
"""The formula of the weights, of q and k: ``(b,h,q,k)``, or several of them."""


@dataclass(frozen=True)
class Style:
    """A way to write attention, and its formula."""

    attend: Attend
    weights: Weights
    kind: str | None
    sink: bool
    batch: int = BATCH

    def truths(self, layer: StyledAttention, q: Tensor, k: Tensor) -> list[Truth]:
        """Return the weights that the formula gives."""
        found = self.weights(layer, q, k)
        parts = found if isinstance(found, list) else [found]
        if self.kind is None:
            return [self_truth(part, sink=self.sink) for part in parts]
        return [Truth(part, self.kind, sink=self.sink) for part in parts]


STYLES: dict[str, Style] = {}


def style(
    weights: Weights, kind: str | None = None, sink: bool = False, batch: int = BATCH
) -> Callable[[Attend], Attend]:
    """Register a style with its formula. Without ``kind``, the kind is read from the weights."""

    def add(attend: Attend) -> Attend:
        STYLES[attend.__name__.replace("_", " ")] = Style(attend, weights, kind, sink, batch)
        return attend

    return add


def split(projected: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values, each ``(b,h,n,d)``."""
    b, n, _ = projected.shape
    q, k, v = projected.view(b, n, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4)
    return q, k, v


def left_padding() -> Tensor:
    """Return a mask ``(b,1,1,k)`` that is False at the left padding of the second sequence."""
    keep = torch.ones(BATCH, 1, 1, TOKENS, dtype=torch.bool)
    keep[1, ..., :2] = False
    return keep


def past() -> Tensor:
    """Return a mask ``(q,k)`` that is True where a key does not come after its query."""
    return torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()


def alibi() -> Tensor:
    """Return the distance between query and key times the slope of the head, ``(h,q,k)``."""
    place = torch.arange(TOKENS)
    distance = (place[None, :] - place[:, None]).abs().double()  # (q,k)
    return -(0.5 ** torch.arange(1, HEADS + 1).double())[:, None, None] * distance


def scores(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    """Return the scaled products, ``(b,h,q,k)``."""
    return q @ k.mT * layer.scale


def plain(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    """Return the softmax of the scaled products."""
    return scores(layer, q, k).softmax(dim=-1)  # (b,h,q,k)


def causal(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    """Return the causal softmax of the scaled products."""
    return scores(layer, q, k).masked_fill(~past(), HIDDEN).softmax(dim=-1)  # (b,h,q,k)
