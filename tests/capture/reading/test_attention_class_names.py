"""Tests of the class names that mark a module as attention."""

import pytest
import torch
from torch import nn

import regard

B, H, N, D = 2, 3, 5, 7
X = torch.randn(B, N, H * D, generator=torch.Generator().manual_seed(0))


def model_with(class_name):
    """An attention of torch, and one by hand in a module of another class."""

    def forward(self, x):
        q = x.unflatten(-1, (H, -1)).transpose(1, 2)  # (b,h,n,d)
        return ((q @ q.mT).softmax(-1) @ q).transpose(1, 2).flatten(2)

    own = type(class_name, (nn.Module,), {"num_heads": H, "forward": forward})()
    model = nn.Sequential(nn.MultiheadAttention(H * D, H), own)
    model.forward = lambda x: own(model[0](x, x, x)[0])
    return model


@pytest.mark.parametrize("name", ["MHA", "MHSA", "WindowMHSA", "MHABlock"])
def test_modules_of_classes_named_mha_or_mhsa_are_recorded(name):
    model = model_with(name)
    with torch.no_grad(), regard.capture(model) as seen:
        model(X)
    assert [tuple(record.map.shape) for record in seen][1:] == [(B, H, N, N)]


def test_a_class_name_that_only_begins_with_mha_is_not_attention():
    model = model_with("Mharness")
    with (
        pytest.warns(UserWarning, match="not recorded: a softmax"),
        torch.no_grad(),
        regard.capture(model) as seen,
    ):
        model(X)
    assert len(seen) == 1
