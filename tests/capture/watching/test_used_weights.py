"""Weights that multiply values twice are said to do so if their second form is another."""

import pytest
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from support.own_attention import CHANGED, OwnAttention, inputs, softmax, told_of

TWICE = "used twice: the model multiplies values with another form of these weights as well"


def plain_then_changed(w, v):
    return w @ v + (2 * w).tril() @ v


def changed_then_plain(w, v):
    return (2 * w).tril() @ v + w @ v


def changed_before_either(w, v):
    other = w.tril()
    return w @ v - other @ v


def two_changes(w, v):
    return w.tril() @ v + w.triu() @ v


def transposed_too(w, v):
    return w @ v + w.mT @ v


def by_heads(w, v):
    parts = [w[:, n] @ v[:, n] for n in range(w.shape[1])]
    return torch.stack(parts, 1) + (w * w) @ v


def heads_by_heads(w, v):
    parts = [w[:, n] @ v[:, n] + w[:, n].tril() @ v[:, n] for n in range(w.shape[1])]
    return torch.stack(parts, 1)


def by_einsum(w, v):
    return torch.einsum("bhqk,bhkd->bhqd", w, v) + torch.einsum("bhqk,bhkd->bhqd", w.square(), v)


def elementwise(w, v):
    return w @ v + ((w.tril())[..., None] * v[:, :, None]).sum(-2)


def in_place(w, v):
    out = w @ v
    return out + w.masked_fill_(w < 0.1, 0.0) @ v


FORMS = [
    plain_then_changed,
    changed_then_plain,
    changed_before_either,
    two_changes,
    transposed_too,
    by_heads,
    heads_by_heads,
    by_einsum,
    elementwise,
    in_place,
]


@pytest.mark.parametrize("use", FORMS)
def test_a_second_use_in_another_form_is_said(use):
    seen, told = told_of(OwnAttention(lambda q, k, v: use(softmax(q, k), v)), *inputs())
    assert [record.note for record in seen] == [TWICE]
    assert len(told) == 1
    assert "another form of them" in told[0]


def on_other_values(w, v):
    return w @ v + w @ v.square() + w.clone() @ v.mean(-1, keepdim=True)


def with_an_entropy(w, v):
    return w @ v + 0 * (w * w.log()).sum()


def with_a_penalty(w, v):
    out = w @ v
    return out + 0 * (w @ w.mT - torch.eye(w.shape[-2])).square().sum()


def with_other_weights(w, v):
    return w @ v + torch.ones(w.shape[-2:], dtype=w.dtype).tril() @ v


def by_heads_twice(w, v):
    parts = [w[:, n] @ v[:, n] + w[:, n] @ v[:, n].square() for n in range(w.shape[1])]
    return torch.stack(parts, 1)


SAME = [on_other_values, with_an_entropy, with_a_penalty, with_other_weights, by_heads_twice]


@pytest.mark.parametrize("use", SAME)
def test_a_second_use_of_the_same_weights_has_no_note(use):
    q, k, v = inputs()
    seen, told = told_of(OwnAttention(lambda q, k, v: use(softmax(q, k), v)), q, k, v)
    assert [record.note for record in seen] == [None]
    assert torch.allclose(seen[0].map.weights(), softmax(q, k))
    assert not told


@pytest.mark.parametrize("use", [on_other_values, by_heads_twice])
def test_a_second_use_of_the_same_changed_weights_is_no_other_form(use):
    q, k, v = inputs()
    seen, told = told_of(OwnAttention(lambda q, k, v: use(softmax(q, k).tril(), v)), q, k, v)
    assert [record.note for record in seen] == [CHANGED]
    assert torch.allclose(seen[0].map.weights(), softmax(q, k).tril())
    assert not told


def test_dropout_is_no_other_form():
    class Dropping(nn.Module):
        def forward(self, q, k, v):
            weights = softmax(q, k)
            return nn.functional.dropout(weights, 0.5) @ v + nn.functional.dropout(weights, 0.5) @ v

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.attn = Dropping()

        def forward(self, q, k, v):
            return self.attn(q, k, v)

    seen, told = told_of(Attention(), *inputs())
    assert [record.note for record in seen] == [None]
    assert not told


def test_weights_that_have_met_the_values_are_not_kept_in_memory():
    freed = []

    def attend(q, k, v):
        weights = softmax(q, k)
        out = weights @ v
        storage = StorageWeakRef(weights.untyped_storage())
        del weights
        freed.append(storage.expired())
        return out

    told_of(OwnAttention(attend), *inputs())
    assert freed == [True]
