"""Handwritten attention in many styles, each behind a layer that every capture records.

The truth is a formula in float64 on the same queries and keys, taken from the layer's own projection. Because the first
layer always has a record, a capture that misses the style raises no error. It has to name the style in a warning.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zoo import by_hand_layouts, by_hand_weights  # noqa: F401  (they fill STYLES)
from zoo.judging import Case, Subject, Truth
from zoo.styled import HEADS, STYLES, TOKENS, WIDTH, Style, StyledAttention, split
from zoo.weights import randomise, watched


class VisibleAttention(nn.Module):
    """A layer of torch's attention, which every capture records."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads = HEADS
        self.qkv = nn.Linear(HEADS * WIDTH, 3 * HEADS * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        out = F.scaled_dot_product_attention(*split(self.qkv(x)))  # (b,h,n,d)
        return x + out.transpose(1, 2).flatten(2)


def cases() -> list[Case]:
    """Yield a case for every style."""
    return [Case("by-hand", name, _builder(style)) for name, style in STYLES.items()]


def _builder(style: Style) -> Callable[[], Subject]:
    return lambda: build(style)


def build(style: Style) -> Subject:
    """Build a model of a visible layer and a styled one, with the weights of both."""
    visible, styled = VisibleAttention(), StyledAttention(style.attend)
    layers = nn.Sequential(visible, styled).double().eval()
    randomise(layers)
    x = torch.randn(style.batch, TOKENS, HEADS * WIDTH, generator=torch.Generator().manual_seed(1)).double()

    @torch.no_grad()
    def call() -> Tensor:
        torch.manual_seed(0)  # for styles that drop weights
        return layers(x)

    with watched(layers, lambda name, module: "output" if name.endswith("qkv") else None) as projected:
        call()
    (q1, k1, _), (q2, k2, _) = (split(tensor) for _, tensor in projected)
    first = (q1 @ k1.mT * WIDTH**-0.5).softmax(dim=-1)  # (b,h,q,k)
    with torch.no_grad():
        return Subject(layers, call, [Truth(first, "self"), *style.truths(styled, q2, k2)])
