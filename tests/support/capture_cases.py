"""Models with one attention, their inputs, and a capture of one call."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

import regard

B, H, Q, K, D = 2, 3, 5, 7, 11
M = H * D


class Checkpointed(nn.Module):
    """Runs its attention a second time for the gradient."""

    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(M, H, batch_first=True)

    def forward(self, x):
        return checkpoint(lambda y: self.attend(y, y, y)[0], x, use_reentrant=False)


class Plain(nn.Module):
    """One call of torch's attention with any arguments."""

    def forward(self, q, k, v, **options):
        return scaled_dot_product_attention(q, k, v, **options)


def qkv(dtype=torch.float32, keys=K, heads=H):
    torch.manual_seed(3)
    return tuple(torch.randn(B, n, m, D, dtype=dtype) for n, m in ((H, Q), (heads, keys), (heads, keys)))


def encoder(layers):
    """Return torch's own encoder with an even number of heads, because an odd number has no fast path."""
    torch.manual_seed(0)
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(2 * D, 2, 13, batch_first=True), layers).eval()


def seen_of(model, *args, options=None, **kwargs):
    with regard.capture(model, **(options or {})) as seen:
        out = model(*args, **kwargs)
    return seen, out


HEADS = torch.rand(B, H, Q, K, generator=torch.Generator().manual_seed(1)) > 0.3
HEADS[..., 0] = True
ADDED = torch.randn(B, 1, Q, K, generator=torch.Generator().manual_seed(2))


class Manual(nn.Module):
    """Attention by torch's function if ``fused`` is True, and by hand otherwise."""

    def __init__(self, fused: bool):
        super().__init__()
        self.fused, self.made = fused, nn.Linear(4, 4)

    def forward(self, x):
        q = self.made(x)
        if self.fused:
            return torch.nn.functional.scaled_dot_product_attention(q[:, None], x[:, None], x[:, None])[:, 0]
        return (q @ x.mT / 2).softmax(-1) @ x


class ManualAttention(Manual):
    pass


class Chain(nn.Module):
    def __init__(self, *parts):
        super().__init__()
        self.layers = nn.ModuleList(parts)

    def forward(self, x):
        for part in self.layers:
            x = part(x)
        return x
