"""Tests of scores and queries that a model writes to before the softmax."""

import pytest
import torch
from torch import nn

from support.capture_cases import D, qkv, seen_of


def clamp(scores):
    scores.clamp_(max=20)


def put(scores):
    scores.index_put_((torch.tensor([0]), torch.tensor([1]), torch.tensor([1])), torch.tensor(3.0))


def fill_a_little(scores):
    scores.masked_fill_(scores > 20, -1.0)


def write_to_a_slice(scores):
    scores[:, :, 1] = 0.25


def scale_a_part(scores):
    scores[1, :, 1].mul_(0.01)


def write_out(scores):
    torch.clamp(scores, max=20, out=scores)


@pytest.mark.parametrize(
    "change", [clamp, put, fill_a_little, write_to_a_slice, scale_a_part, write_out], ids=lambda f: f.__name__
)
def test_scores_changed_in_place_are_recorded_exactly(change):
    class OwnAttention(nn.Module):
        def forward(self, q, k, v):
            scores = q @ k.transpose(-2, -1) * D**-0.5
            change(scores)
            weights = torch.softmax(scores, dim=-1)
            return weights @ v, weights

    q, k, v = qkv()
    # The functions change this row alone, so comparing a few rows is not enough.
    q[:, :, 1] *= 100
    with torch.no_grad():
        seen, (_, weights) = seen_of(OwnAttention(), q, k, v)
    assert torch.equal(seen[0].map.weights(), weights)


def test_queries_changed_before_the_softmax_are_recorded_exactly():
    class OwnAttention(nn.Module):
        def forward(self, q, k):
            scores = q @ k.transpose(-2, -1)
            q[:, :, 1] = 0.0
            return torch.softmax(scores, dim=-1)

    q, k, _ = qkv()
    with torch.no_grad():
        seen, weights = seen_of(OwnAttention(), q, k)
    assert torch.equal(seen[0].map.weights(), weights)
