"""Attention with a score of your own: minus the squared distance of query and key, with a trained width.

python examples/own_score.py
"""

import torch
from torch import nn

from regard import attention, causal, terminal


class Distance(nn.Module):
    """Scores are high where query and key are near each other. Any callable (q, k) -> scores works."""

    def __init__(self):
        super().__init__()
        self.width = nn.Parameter(torch.tensor(1.0))

    def forward(self, q, k):  # (b,h,q,d), (b,h,k,d) -> (b,h,q,k)
        return -torch.cdist(q, k).square() / self.width


torch.manual_seed(0)
score, x = Distance(), torch.randn(4, 2)  # (n,d)
values = torch.eye(4)
output, weights = attention(x, x, values, score=score, mask=causal(), return_map=True)
terminal.draw_weights(weights.weights()[0, 0].detach(), ["a", "b", "c", "d"])

# The width is trained like any other parameter. Here the output should be the values themselves.
optimizer = torch.optim.Adam(score.parameters(), lr=0.1)
for step in range(31):
    loss = (attention(x, x, values, score=score, mask=causal()) - values).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"width {score.width.item():.2f}, loss {loss.item():.3f}")
