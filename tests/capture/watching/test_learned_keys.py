"""Attention to keys that are a parameter of the model, such as a Hopfield memory."""

import pytest
import torch
from torch import nn

from support.own_attention import told_of

B, Q, K, D = 2, 5, 7, 11


class MemoryAttention(nn.Module):
    def __init__(self, shape, *, own_values=False):
        super().__init__()
        torch.manual_seed(0)
        self.keys = nn.Parameter(torch.randn(*shape, dtype=torch.float64))
        self.values = nn.Parameter(torch.randn(*shape, dtype=torch.float64)) if own_values else self.keys

    def forward(self, x):
        return (x @ self.keys.mT * D**-0.5).softmax(-1) @ self.values


@pytest.mark.parametrize("shape", [(K, D), (1, K, D)])
@pytest.mark.parametrize("own_values", [False, True])
@pytest.mark.parametrize("gradient", [False, True])
def test_learned_keys_are_recorded(shape, own_values, gradient):
    model, x = MemoryAttention(shape, own_values=own_values), torch.randn(B, Q, D, dtype=torch.float64)
    with torch.set_grad_enabled(gradient):
        seen, told = told_of(model, x)
    (record,) = seen
    expected = (x @ model.keys.mT * D**-0.5).softmax(-1)[:, None]  # (b,1,q,k)
    assert torch.allclose(record.map.weights(), expected)
    assert (record.kind, record.note) == ("cross", None)
    assert not told


def test_a_layer_by_hand_is_not_attention():
    class OutputAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(D, D))

        def forward(self, x):
            return x @ self.weight.mT

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.attn, self.out = nn.MultiheadAttention(D, 1, batch_first=True), OutputAttention()

        def forward(self, x):
            return self.out(self.attn(x, x, x)[0]).softmax(-1) @ self.out.weight

    seen, told = told_of(Model(), torch.randn(B, Q, D))
    assert len(seen) == 1
    assert not told
