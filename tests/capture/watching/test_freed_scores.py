"""Tests of scores that are freed while the model runs, and of memory that is used again."""

import weakref

import torch
import torch.nn.functional as F
from torch import nn

import regard
from support.capture_cases import qkv
from support.handwritten_attention import (
    Attention,
    B,
    D,
    H,
    N,
    X,
    assert_weights,
    joined,
    seen_of,
    split,
    told_of,
)


def test_tensors_computed_from_a_product_are_freed():
    class Chain(nn.Module):
        def forward(self, x):
            made, alive = x @ x.mT, []
            for n in range(4):
                made = torch.nn.functional.pad(made, (0, 1, 0, 1)) * (n + 2.0)
                alive.append(weakref.ref(made))
                made = made.clone()
            self.alive = [found for one in alive[:-1] if (found := one()) is not None]
            return made

    model = nn.ModuleDict({"chain": Chain(), "attention": nn.MultiheadAttention(H * D, H, batch_first=True)})
    with torch.no_grad(), regard.capture(model):
        model["chain"](X)
        model["attention"](X, X, X)
    assert not model["chain"].alive


MEMORY = bytearray(4 * B * H * N * N)


def at_one_address():
    """Return a tensor (b*h,n,n) with new storage at the address of the previous one."""
    return torch.frombuffer(MEMORY, dtype=torch.float32).view(B * H, N, N)


def test_scores_in_chunks_are_followed_after_their_product_is_freed():
    def attend(x):
        q, k, v = (split(x * n).flatten(0, 1) for n in (1, 2, 3))
        parts = F.pad(torch.bmm(q, k.mT, out=at_one_address()), (0, 0, 0, 1))
        zeros = torch.zeros(B * H, N, N)
        other = torch.add(zeros, zeros, out=at_one_address())
        whole = parts.new_zeros(B * H, N, N)
        whole[:, :2], whole[:, 2:] = parts[:, :2], parts[:, 2:N]
        return joined((torch.softmax(whole, -1) @ v + other.sum()).unflatten(0, (B, H)))

    (record,) = seen_of(Attention(attend), X)
    assert_weights(record, torch.softmax(split(X) @ split(X * 2).mT, -1))


def test_a_gate_that_reuses_the_memory_of_freed_scores_is_not_attention():
    def attend(x):
        q, k, v = (split(x * n).flatten(0, 1) for n in (1, 2, 3))
        out = torch.softmax(torch.bmm(q, k.mT, out=at_one_address()), -1) @ v
        gate = torch.softmax(at_one_address().fill_(1), -1)
        return joined((gate @ out).unflatten(0, (B, H)))

    seen, told = told_of(Attention(attend), X)
    (record,) = seen
    assert_weights(record, torch.softmax(split(X) @ split(X * 2).mT, -1))
    assert len(told) == 1
    assert told[0].startswith("not recorded: a softmax in 'Attention'")


def test_scores_are_forgotten_after_their_attention_call():
    class OwnAttention(nn.Module):
        def forward(self, q):
            return torch.softmax(q @ q.transpose(-2, -1), dim=-1) @ q

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = OwnAttention(), OwnAttention()

        def forward(self, q):
            out = self.one(q)
            held.append(len(seen._session.handwritten.scores._known))
            return self.two(out)

    held, model = [], Two()
    with regard.capture(model) as seen:
        model(qkv()[0])
    assert held == [0]
