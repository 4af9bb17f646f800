"""Tests of how the axes of scores are inferred, or given by the user."""

import pytest
import torch
from torch import nn

import regard
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
    left_padded,
    seen_of,
    split,
    told_of,
)


def folded_first(x):
    q = torch.cat(x.chunk(H, -1))  # (h*b,n,d)
    return torch.cat(((q @ q.mT).softmax(-1) @ q).chunk(H), -1)


def folded_first_by_axes(x):
    q = x.unflatten(-1, (H, D)).permute(2, 0, 1, 3).reshape(-1, N, D)  # (h*b,n,d)
    return (q @ q.mT).softmax(-1) @ q


def folded_last(x):
    q = split(x).reshape(-1, N, D)  # (b*h,n,d)
    return (q @ q.mT).softmax(-1) @ q


def heads_first(x):
    q = split(x).transpose(0, 1)  # (h,b,n,d)
    return (q @ q.mT).softmax(-1) @ q


def heads_third(x):
    q = x.unflatten(-1, (H, D))  # (b,n,h,d), as DeepSeek has them
    scores = torch.einsum("bshd,bthd->bsht", q, q)
    return torch.einsum("bsht,bthd->bshd", scores.softmax(-1), q)


def heads_third_masked(x):
    q = x.unflatten(-1, (H, D))
    scores = torch.einsum("bshd,bthd->bsht", q, q * 0.5) * 2 + torch.zeros(N, 1, N)
    return torch.einsum("bsht,bthd->bshd", scores.softmax(-1, dtype=torch.float32).type_as(q), q)


def heads_last(x):
    q = x.unflatten(-1, (H, D))
    weights = torch.einsum("bihd,bjhd->bijh", q, q).softmax(-2)
    return torch.einsum("bijh,bjhd->bihd", weights, q)


def keys_first(x):
    q = split(x)
    return joined((q @ q.mT).mT.softmax(-2).mT @ q)


LAYOUTS = {
    layout.__name__: layout
    for layout in (
        folded_first,
        folded_first_by_axes,
        folded_last,
        heads_first,
        heads_third,
        heads_third_masked,
        heads_last,
        keys_first,
    )
}


@pytest.mark.parametrize("way", LAYOUTS)
def test_heads_are_found_on_any_axis(way):
    record = seen_of(Attention(LAYOUTS[way]), X)[0]
    assert_weights(record, EXPECTED)
    assert "recomputed" in repr(record.map)


@pytest.mark.parametrize("way", ["folded_first", "folded_first_by_axes", "folded_last"])
def test_folded_heads_are_told_from_as_many_sequences(way):
    x = torch.randn(H, N, H * D, generator=torch.Generator().manual_seed(2))
    q = split(x).double()
    assert_weights(seen_of(Attention(LAYOUTS[way]), x)[0], (q @ q.mT).softmax(-1))


def test_a_mask_is_read_where_heads_are_the_third_axis():
    keep = left_padded() | torch.eye(N, dtype=torch.bool)

    def attend(x):
        q = x.unflatten(-1, (H, D))
        scores = torch.einsum("bshd,bthd->bsht", q, q).masked_fill(~keep.transpose(1, 2), float("-inf"))
        return torch.einsum("bsht,bthd->bshd", scores.softmax(-1), q)

    record = seen_of(Attention(attend), X)[0]
    assert_weights(record, (Q64 @ Q64.mT).masked_fill(~keep, float("-inf")).softmax(-1))
    assert record.kind == "causal"


def without_a_product(x):
    """Compute scores without a matrix product, with heads on the third axis."""
    q = x.unflatten(-1, (H, D))
    scores = (q[:, :, None] * q[:, None]).sum(-1).transpose(2, 3)  # (b,q,h,k)
    return torch.einsum("bsht,bthd->bshd", scores.softmax(-1), q)


def test_axes_of_elementwise_scores_are_inferred():
    assert_weights(seen_of(Attention(without_a_product), X, modules=[Attention])[0], EXPECTED)


def test_guessed_axes_are_warned_of_and_can_be_given():
    model = Attention(without_a_product, heads=None)
    _, told = told_of(model, X, modules=[model])
    assert "the axes of the scores of 'Attention' (2,5,3,5) are a guess" in told[0]
    assert "modules={'Attention': 'bhqk'}" in told[0]
    for key in ("Attention", Attention, model):
        assert_weights(seen_of(model, X, modules={key: "bqhk"})[0], EXPECTED)


def folded_out_of_sight(x):
    q = torch.stack([x[b, :, D * h : D * h + D] for h in range(H) for b in range(B)])  # (h*b,n,d)
    return (q @ q.mT).softmax(-1) @ q


def test_heads_folded_by_stacking_are_guessed_and_can_be_given():
    model = Attention(folded_out_of_sight)
    _, told = told_of(model, X)
    assert "'Attention' (6,5,5) are a guess" in told[0]
    assert_weights(seen_of(model, X, modules={"Attention": "(hb)qk"})[0], EXPECTED)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ("bhq", "cannot be read"),
        ("bhqkk", "cannot be read"),
        ("bxqk", "cannot be read"),
        ("(hq)bk", "cannot be read"),
        (3, "expected the axes as letters"),
    ],
)
def test_axes_that_cannot_be_read_are_refused(axes, message):
    model = Attention(without_a_product)
    with pytest.raises(regard.errors.RegardError, match=message):
        regard.capture(model, modules={"Attention": axes})


def test_axes_that_do_not_fit_the_weights_are_refused():
    for axes, message in (("bqk", "a letter for each axis"), ("(hb)qk", "a letter for each axis")):
        with pytest.raises(regard.errors.CaptureError, match=message):
            seen_of(Attention(without_a_product), X, modules={Attention: axes})
    with pytest.raises(regard.errors.CaptureError, match="does not say how many heads"):
        seen_of(Attention(folded_first, heads=None), X, modules={Attention: "(hb)qk"})


class Windows(nn.Module):
    """Torch's attention on five axes (b,h,windows,n,d), as in Hiera and NesT of timm."""

    def __init__(self, heads, mask=None):
        super().__init__()
        self.heads, self.mask = heads, mask

    def forward(self, x):
        x = x.reshape(B, 2, N, H, D).permute(0, 3, 1, 2, 4)  # (b,h,w,n,d)
        return torch.nn.functional.scaled_dot_product_attention(x, x, x, self.mask)


@pytest.mark.parametrize("heads", [H, None])
def test_windows_are_not_taken_for_heads(heads):
    x = torch.randn(B, 2, N, H, D, generator=torch.Generator().manual_seed(3))
    mask = torch.rand(B, 1, 2, N, N, generator=torch.Generator().manual_seed(4)) < 0.7
    mask |= torch.eye(N, dtype=torch.bool)
    q = x.permute(0, 1, 3, 2, 4).flatten(0, 1).double()  # (b*w,h,n,d)
    scores = (q @ q.mT / D**0.5).masked_fill(~mask.transpose(1, 2).flatten(0, 1), float("-inf"))
    options = {} if heads else {"modules": {Windows: "bhbqk"}}
    assert_weights(seen_of(Windows(heads, mask), x, **options)[0], scores.softmax(-1))


def test_windows_are_told_from_as_many_heads():
    class Square(nn.Module):
        num_heads = 2

        def forward(self, x):
            q = x.reshape(B, 2, N, 2, D).permute(0, 3, 1, 2, 4)  # (b,h,w,n,d)
            return torch.nn.functional.scaled_dot_product_attention(q, q, q)

    x = torch.randn(B, 2, N, 2, D, generator=torch.Generator().manual_seed(3))
    q = x.permute(0, 1, 3, 2, 4).flatten(0, 1).double()
    assert_weights(seen_of(Square(), x)[0], (q @ q.mT / D**0.5).softmax(-1))


def test_folded_heads_of_fused_attention_are_separated():
    def attend(x):
        qkv = torch.cat([x] * 3, -1).reshape(B, N, 3, H, D).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.reshape(3, B * H, N, D).unbind(0)  # as SAM in timm
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=1.0)

    assert_weights(seen_of(Attention(attend), X)[0], EXPECTED)


def test_windows_are_told_from_as_many_heads_by_hand():
    class SquareAttention(nn.Module):
        num_heads = 2

        def forward(self, x):
            q = x.permute(0, 1, 3, 2, 4)  # (b,w,h,n,d), as Twins has them
            return (q @ q.mT).softmax(-1) @ q

    x = torch.randn(B, 2, N, 2, D, generator=torch.Generator().manual_seed(3))
    q = x.permute(0, 1, 3, 2, 4).flatten(0, 1).double()
    assert_weights(seen_of(SquareAttention(), x)[0], (q @ q.mT).softmax(-1))


def test_folded_heads_of_multi_head_attention_forward_are_separated():
    inside = nn.MultiheadAttention(H * D, H, batch_first=True)

    # As in WavLM, whose bias for each head is an argument.
    class GatedAttention(nn.Module):
        num_heads = H

        def forward(self, x, position_bias):
            x = x.transpose(0, 1)
            return torch.nn.functional.multi_head_attention_forward(
                x, x, x, H * D, H, inside.in_proj_weight, inside.in_proj_bias, None, None, False, 0.0,
                inside.out_proj.weight, inside.out_proj.bias, attn_mask=position_bias, need_weights=True,
            )[0]  # fmt: skip

    bias = torch.randn(B * H, N, N, generator=torch.Generator().manual_seed(8))
    with torch.no_grad():
        expected = inside(X, X, X, attn_mask=bias, average_attn_weights=False)[1]
    assert_weights(seen_of(GatedAttention(), X, bias)[0], expected)
