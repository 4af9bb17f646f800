"""Replace every nn.MultiheadAttention of a model by Regard's layer, with the same weights and the same output.

python examples/replace_multihead_attention.py
"""

import torch
from torch import nn

import regard


class Block(nn.Module):
    """Attention with a residual connection and a norm."""

    def __init__(self, attention: nn.Module, width: int):
        super().__init__()
        self.attention, self.norm = attention, nn.LayerNorm(width)

    def forward(self, x, **mask):
        # Both layers take query, key and value, and return the output and the weights.
        return self.norm(x + self.attention(x, x, x, **mask)[0])


torch.manual_seed(0)
theirs = nn.MultiheadAttention(64, 8, batch_first=True)
block, x = Block(theirs, 64).eval(), torch.randn(2, 10, 64)
hidden = torch.ones(10, 10, dtype=torch.bool).triu(1)  # in torch, True hides a pair
before = block(x, attn_mask=hidden)

ours = regard.MultiHeadAttention.from_torch(theirs)
block.attention = ours
after = block(x, mask=regard.causal())  # in Regard, a mask says what may be attended, and fits any length
print(f"largest difference: {(after - before).abs().max().item():.1e}")

output, weights = ours(x, mask=regard.causal() & regard.padding(torch.tensor([10, 4])))
print(f"weights of all heads: {tuple(weights.shape)}, on the padding: {weights[1, :, :, 4:].sum().item()}")
print(f"back to torch: {type(ours.to_torch()).__name__}")
