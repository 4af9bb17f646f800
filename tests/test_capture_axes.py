"""Maps are right: which axis is which, which mask was meant, and which weights multiply the values."""

import warnings

import torch
from torch import nn

import regard

B, H, N, D = 2, 3, 5, 7  # sequences, heads, tokens, width of a head
X = torch.randn(B, N, H * D, generator=torch.Generator().manual_seed(0))
LOW = torch.finfo(torch.float32).min


class Attention(nn.Module):
    """Attention in the words of a function; it says how many heads it has, unless that is None."""

    def __init__(self, words, heads=H):
        super().__init__()
        self.words = words
        if heads is not None:
            self.num_heads = heads

    def forward(self, x):
        return self.words(x)


def seen_of(model, *inputs, **options):
    """What is recorded of a model; any warning is an error."""
    with torch.no_grad():
        plain = model(*inputs)
        with regard.capture(model, **options) as seen:
            out = model(*inputs)
    assert torch.equal(out, plain)
    return seen


def told_of(model, *inputs, **options):
    """What is recorded of a model, and what was warned of."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        seen = seen_of(model, *inputs, **options)
    return seen, [str(one.message) for one in told]


def assert_weights(record, expected):
    assert tuple(record.map.shape) == tuple(expected.shape)
    assert torch.allclose(record.map.weights().double(), expected.double(), atol=1e-5)


def split(x, heads=H):
    """Model width split into heads, (b,h,n,d)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def joined(x):
    """(b,h,n,d) as (b,n,m)."""
    return x.transpose(1, 2).flatten(2)


Q64 = split(X).double()
EXPECTED = (Q64 @ Q64.mT).softmax(-1)  # (b,h,q,k)


# ---- masks


def left_padded():
    """Which keys each query sees, (b,1,q,k): causal, and two tokens of the second sequence are padding."""
    real = torch.ones(B, N, dtype=torch.bool)
    real[1, :2] = False
    return torch.ones(N, N, dtype=torch.bool).tril() & real[:, None, None, :]


def test_a_bias_is_not_taken_from_another_sequence():
    bias = torch.randn(1, H, 1, N, generator=torch.Generator().manual_seed(1))
    keep = left_padded()

    def words(x):
        q = split(x)
        scores = (q @ q.mT + bias).masked_fill(~keep, LOW)
        return joined(scores.softmax(-1) @ q)

    expected = (Q64 @ Q64.mT + bias.double()).masked_fill(~keep, LOW).softmax(-1)  # padded rows are uniform
    assert_weights(seen_of(Attention(words), X)[0], expected)


def test_a_mask_that_changes_behind_the_version_counter_is_read_again():
    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.mask = torch.zeros(N, N)

        def forward(self, x):
            self.mask.data.zero_()
            for n in range(3):
                self.mask.data[:, n] = float("-inf")
                x = torch.nn.functional.scaled_dot_product_attention(x, x, x, self.mask)
            return x

    model, x, expected = Layers(), X.double(), []
    for n in range(3):
        weights = (x @ x.mT / (H * D) ** 0.5)[..., n + 1 :].softmax(-1)
        expected.append(torch.nn.functional.pad(weights, (n + 1, 0)))
        x = expected[-1] @ x
    for record, weights in zip(seen_of(model, X), expected, strict=True):
        assert_weights(record, weights[:, None])
