"""Weights that are transposed, permuted or swapped between the softmax and the values."""

import pytest
import torch

from support.capture_cases import H, Q
from support.own_attention import CHANGED, OwnAttention, inputs, softmax, told_of

ROWS = torch.tensor([3, 1, 4, 0, 2])
DOUBTFUL = "not seen to multiply the values: the model may have changed these weights after the softmax"


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w.mT,
        lambda w: w.mT.contiguous(),
        lambda w: w.transpose(-1, -2).clone(),
        lambda w: w.permute(0, 1, 3, 2).reshape(w.shape),
        lambda w: w[:, :, ROWS],
        lambda w: w.index_select(2, ROWS),
        lambda w: w[:, :, ROWS][..., ROWS],
    ],
)
@pytest.mark.parametrize("batch", [2, H])
def test_rearranged_weights_are_recorded_as_they_multiply_the_values(change, batch):
    q, k, v = inputs(batch)
    seen, told = told_of(OwnAttention(lambda q, k, v: change(softmax(q, k)) @ v), q, k, v)
    (record,) = seen
    assert torch.allclose(record.map.weights(), change(softmax(q, k)))
    assert record.note == CHANGED
    assert not told


@pytest.mark.parametrize("change", [lambda w: w.transpose(0, 1).contiguous(), lambda w: w.transpose(0, 1)])
@pytest.mark.parametrize("product", [torch.matmul, lambda w, v: torch.einsum("bhqk,bhkd->bhqd", w, v)])
def test_as_many_sequences_as_heads_that_may_be_swapped_are_said(change, product):
    seen, told = told_of(OwnAttention(lambda q, k, v: product(change(softmax(q, k)), v)), *inputs(H))
    (record,) = seen
    assert record.note == DOUBTFUL
    assert len(told) == 1
    assert "not seen to multiply the values" in told[0]


def test_weights_and_values_with_heads_first_are_no_change():
    def attend(q, k, v):
        return (softmax(q, k).transpose(0, 1).contiguous() @ v.transpose(0, 1)).transpose(0, 1)

    q, k, v = inputs(2)
    seen, told = told_of(OwnAttention(attend), q, k, v)
    assert torch.allclose(seen[0].map.weights(), softmax(q, k))
    assert seen[0].note is None
    assert not told


@pytest.mark.parametrize(
    "equation", ["bhqk,bhkd->bhqd", "bhqk,bhkd->hbqd", "bhqk,bhkd->bqhd", "bhqk,bhkd->qdhb"]
)
def test_einsum_names_the_axes_of_the_values(equation):
    q, k, v = inputs(H)
    seen, told = told_of(OwnAttention(lambda q, k, v: torch.einsum(equation, softmax(q, k), v)), q, k, v)
    assert torch.allclose(seen[0].map.weights(), softmax(q, k))
    assert seen[0].note is None
    assert not told


@pytest.mark.parametrize(
    ("letters", "batch"), [(x, n) for x in ("bqhk", "kbhq", "qkbh") for n in (2, H, Q)] + [("hbqk", H)]
)
def test_scores_with_axes_in_any_order_meet_their_values(letters, batch):
    def attend(q, k, v):
        scores = torch.einsum(f"bhqd,bhkd->{letters}", q, k)
        return torch.einsum(f"{letters},bhkd->bhqd", scores.softmax(letters.index("k")), v)

    q, k, v = inputs(batch)
    seen, told = told_of(OwnAttention(attend), q, k, v)
    assert torch.allclose(seen[0].map.weights(), (q @ k.mT).softmax(-1))
    assert seen[0].note is None
    assert not told
