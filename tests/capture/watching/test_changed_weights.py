"""Tests of weights that a model changes between the softmax and the product with the values."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.capture import Recording
from support.handwritten_attention import (
    EXPECTED,
    Q64,
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
)


def renormalised(x):
    q = split(x)
    weights = (q @ q.mT).softmax(-1).tril()
    weights = weights / weights.sum(-1, keepdim=True)
    return joined(weights @ q)


def renormalised_in_place(x):
    q = split(x)
    weights = (q @ q.mT).softmax(-1)
    weights *= torch.ones(N, N).tril()
    weights /= weights.sum(-1, keepdim=True)
    return joined(weights @ q)


LOWER = EXPECTED.tril() / EXPECTED.tril().sum(-1, keepdim=True)


@pytest.mark.parametrize("attend", [renormalised, renormalised_in_place])
def test_renormalised_weights_are_recorded_with_a_note(attend):
    record = seen_of(Attention(attend), X)[0]
    assert_weights(record, LOWER)
    assert record.kind == "causal"
    assert record.note == "changed after the softmax: these weights multiply the values"


class MixedAttention(nn.Module):
    """Attention that mixes its heads after the softmax, and with ``before`` also before it, as DeepViT does."""

    def __init__(self, way, dropout=0.0, before=False):
        super().__init__()
        self.way, self.num_heads, self.before = way, H, before
        self.mix = nn.Parameter(torch.randn(H, H, generator=torch.Generator().manual_seed(6)))
        self.linear, self.conv = nn.Linear(H, H, bias=False), nn.Conv2d(H, H, 1, bias=False)
        with torch.no_grad():
            self.linear.weight.copy_(self.mix.T)
            self.conv.weight.copy_(self.mix.T[:, :, None, None])
        self.dropout = nn.Dropout(dropout)

    def mixed(self, x):  # (b,h,q,k)
        if self.way == "einsum":
            return torch.einsum("bhij,hg->bgij", x, self.mix)
        if self.way == "linear":
            return self.linear(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.conv(x)

    def forward(self, x):
        q = split(x)
        scores = q @ q.mT
        weights = (self.mixed(scores) if self.before else scores).softmax(-1)
        return joined(self.dropout(self.mixed(weights)) @ q)


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("way", ["einsum", "linear", "convolution"])
def test_heads_mixed_after_the_softmax_are_recorded_as_mixed(way, dropout, before):
    model = MixedAttention(way, dropout, before).train()
    with torch.no_grad(), regard.capture(model) as seen:
        model(X)
    mix = lambda x: torch.einsum("bhij,hg->bgij", x, model.mix.detach().double())  # noqa: E731
    scores = Q64 @ Q64.mT
    assert_weights(seen[0], mix((mix(scores) if before else scores).softmax(-1)))
    assert "changed after the softmax" in repr(seen)


@pytest.mark.parametrize("inplace", [False, True])
def test_dropout_is_not_a_change_of_the_weights(inplace):
    def attend(x):
        q = split(x)
        weights = torch.nn.functional.dropout((q @ q.mT).softmax(-1), 0.5, True, inplace)
        return joined(weights.to(torch.float64).to(torch.float32) @ q)

    with torch.no_grad(), regard.capture(model := Attention(attend)) as seen:
        model(X)
    assert_weights(seen[0], EXPECTED)
    assert seen[0].note is None


@pytest.mark.parametrize("after", ["zeros where there are zeros", "one", "copies"])
def test_operations_that_keep_the_weights_are_no_change(after):
    keep = torch.ones(N, N, dtype=torch.bool).tril()

    def attend(x):
        q = split(x)
        weights = (q @ q.mT).masked_fill(~keep, float("-inf")).softmax(-1)
        if after == "one":
            weights = weights * torch.ones(H, 1, 1)
        elif after == "copies":
            weights = weights.nan_to_num().flatten(0, 1).clone().view(B, H, N, N)
        else:
            weights = weights.masked_fill(~keep, 0.0)
        return joined(weights @ q)

    record = seen_of(Attention(attend), X)[0]
    assert_weights(record, (Q64 @ Q64.mT).masked_fill(~keep, float("-inf")).softmax(-1))
    assert record.note is None
    assert "recomputed" in repr(record.map)


def test_the_renormalised_weights_of_slot_attention_are_recorded():
    slots = torch.randn(B, 3, D, generator=torch.Generator().manual_seed(7))
    x = X[..., :D]

    def attend(x):
        weights = torch.einsum("bid,bjd->bij", slots, x).softmax(1)  # over the slots
        weights = weights / weights.sum(-1, keepdim=True)
        return torch.einsum("bij,bjd->bid", weights, x)

    weights = (slots.double() @ x.double().mT).softmax(1)
    record = seen_of(Attention(attend, heads=None), x)[0]
    assert_weights(record, (weights / weights.sum(-1, keepdim=True))[:, None])
    assert record.note is not None


def test_changed_weights_are_selected_by_head_and_their_note_is_saved(tmp_path):
    seen = seen_of(Attention(renormalised), X, heads=[2, 0])
    assert_weights(seen[0], LOWER[:, [2, 0]])
    seen.save(tmp_path / "seen.safetensors")
    loaded = Recording.load(tmp_path / "seen.safetensors")
    assert loaded[0].note == seen[0].note


def test_changed_weights_of_generation_steps_are_joined_into_one_record():
    class CachedAttention(Attention):
        keys = None

        def forward(self, x):
            q = split(x)
            self.keys = q if self.keys is None else torch.cat([self.keys, q], dim=2)
            weights = (q @ self.keys.mT).softmax(-1) ** 2
            return joined(weights @ self.keys)

    model = CachedAttention(None)
    with torch.no_grad(), regard.capture(model) as seen:
        for part in (X[:, :3], X[:, 3:4], X[:, 4:]):
            model(part)
    expected = [(Q64[:, :, a:b] @ Q64[:, :, :b].mT).softmax(-1) ** 2 for a, b in ((0, 3), (3, 4), (4, 5))]
    rows = [torch.nn.functional.pad(part, (0, N - part.shape[-1])) for part in expected]
    assert len(seen) == 1
    assert_weights(seen[0], torch.cat(rows, dim=2))
    assert seen[0].note is not None


def test_the_difference_of_two_softmaxes_is_one_record():
    def attend(x):
        q = split(x)
        weights = (q @ q.mT).softmax(-1) - 0.3 * (q @ q.mT * 0.5).softmax(-1)
        return joined(weights @ q)

    seen = seen_of(Attention(attend), X)
    assert len(seen) == 1
    assert_weights(seen[0], EXPECTED - 0.3 * (Q64 @ Q64.mT * 0.5).softmax(-1))
    assert seen[0].note is not None


HIDDEN = torch.tensor([[0] * N, [0] * 3 + [1] * 2], dtype=torch.bool)[:, None, :, None]  # (b,1,q,1)


def in_padded_chunks(weights, v):
    return torch.cat(
        [F.pad(part, (0, 2)) @ F.pad(v, (0, 0, 0, 2)) for part in weights.split((2, 3), dim=2)], 2
    )


def in_padded_rows(weights, v):
    return (F.pad(weights, (0, 0, 0, 2)) @ v)[:, :, :N]


def by_heads(weights, v):
    return torch.stack([weights[:, h] @ v[:, h] for h in range(H)], dim=1)


def by_keys(weights, v):
    return weights[..., :2].clone() @ v[:, :, :2] + weights[..., 2:].clone() @ v[:, :, 2:]


def filled(weights):
    return weights.masked_fill(HIDDEN, 0.0)


def filled_in_place(weights):
    return weights.masked_fill_(HIDDEN, 0.0)


@pytest.mark.parametrize("change", [filled, filled_in_place])
@pytest.mark.parametrize("multiply", [in_padded_chunks, in_padded_rows, by_heads, by_keys])
def test_changed_weights_that_are_multiplied_in_pieces_are_recorded(change, multiply):
    def attend(x):
        q = split(x)
        weights = change(torch.softmax(q @ q.mT, -1))
        out = joined(multiply(weights, q))
        weights[:, :, 0] = 0  # after they were used
        return out

    (record,) = seen_of(Attention(attend), X)
    assert_weights(record, EXPECTED.masked_fill(HIDDEN, 0.0))
    assert record.note is not None


@pytest.mark.parametrize("multiply", [in_padded_chunks, in_padded_rows, by_heads, by_keys])
def test_unchanged_weights_that_are_multiplied_in_pieces_are_recorded(multiply):
    def attend(x):
        q = split(x)
        weights = torch.softmax(q @ q.mT, -1)
        spread = (weights * weights.log()).sum()  # of the same shape, and no weights
        return joined(multiply(weights, q)) + 0 * spread

    (record,) = seen_of(Attention(attend), X)
    assert_weights(record, EXPECTED)
    assert record.note is None
