"""Attention computed by a function of a test, its inputs, and a capture that returns its warnings."""

import warnings

import torch
from torch import nn

import regard

# Sequences, heads, tokens, width of a head.
B, H, N, D = 2, 3, 5, 7
X = torch.randn(B, N, H * D, generator=torch.Generator().manual_seed(0))
LOW = torch.finfo(torch.float32).min


class Attention(nn.Module):
    """A module that computes attention with a function, and names its number of heads unless it is None."""

    def __init__(self, attend, heads=H):
        super().__init__()
        self.attend = attend
        if heads is not None:
            self.num_heads = heads

    def forward(self, x):
        return self.attend(x)


def seen_of(model, *inputs, **options):
    """Return the recording of a model. Any warning is an error."""
    with torch.no_grad():
        plain = model(*inputs)
        with regard.capture(model, **options) as seen:
            out = model(*inputs)
    assert torch.equal(out, plain)
    return seen


def told_of(model, *inputs, **options):
    """Return the recording of a model and the warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        seen = seen_of(model, *inputs, **options)
    return seen, [str(one.message) for one in told]


def assert_weights(record, expected):
    assert tuple(record.map.shape) == tuple(expected.shape)
    assert torch.allclose(record.map.weights().double(), expected.double(), atol=1e-5)


def split(x, heads=H):
    """Split the model width into heads, (b,h,n,d)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def joined(x):
    """Join heads (b,h,n,d) to the model width, (b,n,m)."""
    return x.transpose(1, 2).flatten(2)


Q64 = split(X).double()
EXPECTED = (Q64 @ Q64.mT).softmax(-1)  # (b,h,q,k)


def left_padded():
    """Return a causal mask (b,1,q,k) in which two tokens of the second sequence are padding."""
    real = torch.ones(B, N, dtype=torch.bool)
    real[1, :2] = False
    return torch.ones(N, N, dtype=torch.bool).tril() & real[:, None, None, :]
