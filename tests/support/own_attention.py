"""Attention written as a function of queries, keys and values, and a capture of it."""

import warnings

import torch
from torch import nn

import regard
from support.capture_cases import B, D, H, Q

CHANGED = "changed after the softmax: these weights multiply the values"


class OwnAttention(nn.Module):
    """Attention that a function computes."""

    num_heads = H

    def __init__(self, attend):
        super().__init__()
        self.attend = attend

    def forward(self, q, k, v):
        return self.attend(q, k, v)


def softmax(q, k):
    return (q @ k.mT * D**-0.5).softmax(-1)


def inputs(batch=B, keys=Q):
    """Queries, keys and values ``(b,h,n,d)``."""
    torch.manual_seed(3)
    return tuple(torch.randn(batch, H, n, D, dtype=torch.float64) for n in (Q, keys, keys))


def told_of(model, *args, **options):
    """The records of a model and the warnings of the capture."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with regard.capture(model, **options) as seen:
            model(*args)
    return seen, [str(x.message) for x in told]
