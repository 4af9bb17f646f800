"""Tests of Recording.verify."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.errors import CaptureError
from support.capture_cases import qkv, seen_of


def test_verify_compares_outputs_with_nan_and_needs_a_tensor():
    class Watched(nn.Module):
        def forward(self, q):
            out = F.scaled_dot_product_attention(q, q, q)
            return torch.where(torch.tensor(regard.core.OBSERVERS != []), float("nan"), out[..., :1])

    seen, _ = seen_of(model := Watched(), qkv()[0])
    proof = seen.verify(qkv()[0])
    assert (proof.bit_equal, proof.difference) == (False, float("inf"))
    model.forward = lambda q: F.scaled_dot_product_attention(q, q, q) * float("nan")
    assert seen.verify(qkv()[0]).bit_equal
    model.forward = lambda q: F.scaled_dot_product_attention(q, q, q).shape
    with pytest.raises(CaptureError, match="returned no tensor"):
        seen.verify(qkv()[0])
