"""Layers whose projections are LoRA modules or int8 layers give the right output."""

import copy

import pytest
import torch
from torch import nn

import regard
from regard.errors import ShapeError


class LoRA(nn.Module):
    """A linear layer with a low-rank addition, written by hand without the attributes weight and in_features."""

    def __init__(self, base: nn.Linear):
        super().__init__()
        self.base = base
        self.down, self.up = (
            nn.Linear(base.in_features, 2, bias=False),
            nn.Linear(2, base.out_features, bias=False),
        )

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))

    def merged(self) -> nn.Linear:
        made = nn.Linear(self.base.in_features, self.base.out_features, bias=self.base.bias is not None)
        with torch.no_grad():
            made.weight.copy_(self.base.weight + self.up.weight @ self.down.weight)
            if self.base.bias is not None:
                made.bias.copy_(self.base.bias)
        return made


@pytest.mark.parametrize(
    "make",
    [
        lambda: regard.AdditiveAttention(8),
        lambda: regard.BasicAttention(8),
        lambda: regard.MultiHeadAttention(8, 2),
        lambda: regard.EncoderDecoderAttention(8),
    ],
)
def test_projections_may_be_wrapped(make):
    plain, wrapped = make(), make()
    for name, layer in list(wrapped.named_children()):
        setattr(wrapped, name, LoRA(layer))
        setattr(plain, name, getattr(wrapped, name).merged())
    x, y = torch.randn(2, 5, 8), torch.randn(2, 7, 8)
    count = 2 if isinstance(plain, regard.AdditiveAttention | regard.EncoderDecoderAttention) else 3
    arguments = (x, y, y)[:count]
    for got, want in zip(wrapped(*arguments), plain(*arguments), strict=True):
        assert torch.allclose(got, want, atol=1e-5)
    wrapped(*arguments)[0].sum().backward()
    with pytest.raises(ShapeError, match="m = 8"):
        wrapped(*(torch.randn(2, 5, 9) for _ in arguments))


@pytest.mark.filterwarnings("ignore")  # torch's own, about its quantization
def test_projections_may_be_int8():
    torch.manual_seed(0)
    layer = regard.MultiHeadAttention(16, 2).eval()
    small = torch.ao.quantization.quantize_dynamic(copy.deepcopy(layer), {nn.Linear}, dtype=torch.qint8)
    assert not isinstance(small.W_q, nn.Linear)
    x = torch.randn(2, 5, 16)
    assert torch.allclose(small(x)[0], layer(x)[0], atol=0.05)
