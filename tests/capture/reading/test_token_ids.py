"""Tests of which argument of a model holds the token ids, if several have the same shape."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard

IDS = torch.tensor([[11, 13, 17, 19, 23]])
OTHERS = torch.tensor([[0, 0, 1, 1, 1]])
LABELS = [["11", "13", "17", "19", "23"]]


class SelfAttention(nn.Module):
    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x)


def model_with(signature):
    """A model whose ``forward`` has these arguments, with attention on their sum."""
    names = [name.strip() for name in signature.split(",")]
    scope = {}
    total = " + ".join(f"self.embed({name})" for name in names)
    exec(f"def forward(self, {signature}): return self.attn({total})", scope)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.attn = nn.Embedding(29, 8), SelfAttention()

        forward = scope["forward"]

    return Model().eval()


def captured(model, *inputs, **options):
    with warnings.catch_warnings(record=True) as told, torch.no_grad():
        warnings.simplefilter("always")
        with regard.capture(model, **options) as seen:
            model(*inputs)
    return seen[0].query_tokens, [str(x.message) for x in told]


@pytest.mark.parametrize(
    "name",
    ["input_ids", "ids", "tokens", "token_ids", "words", "text", "idx", "src", "input"],
)
def test_a_known_name_is_preferred_to_an_unknown_one(name):
    for other in ("turns", "pos", "segments", "speaker_ids", "depth"):
        assert captured(model_with(f"{other}, {name}"), OTHERS, IDS) == (LABELS, [])
        assert captured(model_with(f"{name}, {other}"), IDS, OTHERS) == (LABELS, [])


def test_a_surer_name_is_preferred():
    assert captured(model_with("tokens, input_ids"), OTHERS, IDS) == (LABELS, [])
    assert captured(model_with("inputs, words"), OTHERS, IDS) == (LABELS, [])


@pytest.mark.parametrize("signature", ["a, b", "x, y", "turns, depth", "ids, words", "src, tokens"])
def test_no_label_is_guessed_where_no_name_tells(signature):
    labels, told = captured(model_with(signature), IDS, OTHERS)
    assert labels is None
    (message,) = told
    first, second = signature.split(", ")
    assert message.startswith(
        f"no labels: 'Model' was given 2 integer tensors of one shape, {first!r}, {second!r}"
    )
    assert "tokens=..." in message


def test_labels_given_by_hand_settle_it():
    labels, told = captured(model_with("a, b"), IDS, OTHERS, tokens=list("vwxyz"))
    assert (labels, told) == ([list("vwxyz")], [])


def test_one_tensor_given_twice_is_no_rival():
    assert captured(model_with("a, b"), IDS, IDS.clone()) == (LABELS, [])


def test_only_tensors_of_the_length_of_the_map_are_rivals():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.attn = nn.Embedding(29, 8), SelfAttention()

        def forward(self, a, b, c):
            return self.attn(self.embed(c)) + self.embed(a).sum() + self.embed(b).sum()

    pair = torch.tensor([[1, 2]]), torch.tensor([[3, 4]])
    assert captured(Model().eval(), *pair, IDS) == (LABELS, [])


def test_a_name_further_out_settles_it():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model_with("a, b")

        def forward(self, kinds, input_ids):
            return self.inner(kinds, input_ids)

    assert captured(Outer().eval(), OTHERS, IDS) == (LABELS, [])
    assert captured(model_with("tokens, target"), IDS, OTHERS) == (LABELS, [])
