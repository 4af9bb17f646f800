"""Tests of the block-sparse kernels with cached plans, long inputs, biases and every dtype."""

import pytest
import torch

import regard
from regard import attention, attention_with_weights, causal, global_tokens, padding, positions, window
from support.attention_cases import forced


@pytest.mark.parametrize("kernel", ["block-sparse in C", "block-sparse in torch"])
@pytest.mark.parametrize(("n_q", "n_k"), [(200, 200), (130, 200), (70, 200)])
def test_similar_masks_do_not_share_a_cached_plan(kernel, n_q, n_k):
    """The cache of plans and masks tells similar rules apart."""
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 2, n_q, 8), torch.randn(2, 2, n_k, 8), torch.randn(2, 2, n_k, 8)
    eye = torch.eye(4, dtype=torch.bool)
    masks = [
        *(window(left, right) for left, right in [(5, 0), (5, 70), (70, 0), (5, None), (None, 5)]),
        *(causal(offset=offset) for offset in (-30, -90)),
        *(window(5, 0) | regard.global_tokens([p]) for p in (0, 100)),
        *(regard.blocks(layout, 64) for layout in (eye, eye.flip(0), torch.stack([eye, eye.flip(0)]))),
        *(window(9, 9) & extra for extra in (causal(), causal(offset=0), padding([200, 100]))),
        *(
            window(150, 90) & causal(offset=x)
            for x in (None, torch.tensor([-50, 80]), torch.tensor([80, -50]))
        ),
        *(window(9, 9) & keep for keep in torch.rand(2, 2, 2, n_q, n_k) < 0.6),
        *(window(9, 9) & padding(lengths) for lengths in ([200, 100], [100, 200])),
        *(~window(70, right) for right in (70, 100)),
    ]
    for mask in [*masks, *masks]:
        with forced(kernel):
            out = attention(q, k, v, mask=mask)
        expected, _ = attention_with_weights(q, k, v, mask=mask)
        assert torch.allclose(out, expected, atol=1e-5), mask


@pytest.mark.parametrize("kernel", ["default", "block-sparse in C", "block-sparse in torch"])
@pytest.mark.parametrize("kind", ["tensor", "alibi", "both", "causal"])
def test_a_bias_that_is_not_trained_is_added_on_every_path(kernel, kind):
    """Trained ones take the plain form, these the fastest."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, 150, 8, requires_grad=True) for _ in range(3))
    numbers, alibi = torch.randn(1, 2, 150, 150), positions.ALiBi(2)
    options = {"bias": numbers if kind == "tensor" else alibi, "mask": window(20, 3) & padding([150, 90])}
    if kind == "both":
        options["mask"] = numbers.masked_fill(
            ~window(20, 3).dense(regard.shapes.Grid(2, 2, 150, 150)), -torch.inf
        )
    if kind == "causal":
        options["mask"] = causal()
    with forced(kernel):
        out = attention(q, k, v, **options)
    expected, _ = attention_with_weights(q, k, v, **options)
    assert torch.allclose(out, expected, atol=1e-5)
    grads = (torch.autograd.grad(x.pow(2).sum(), (q, k, v)) for x in (out, expected))
    for got, want in zip(*grads, strict=True):
        assert torch.allclose(got, want, atol=1e-4)


def test_scattered_global_tokens_take_few_blocks():
    """Put first, 16 tokens cost one row and one column of blocks, wherever they stand."""
    from regard.kernels.block_sparse.plans import plan_for
    from regard.shapes import Grid

    mask = window(64, 64) | regard.global_tokens(range(5, 4096, 256))
    for n_q in (4096, 3000):
        assert plan_for(mask, Grid(1, 1, n_q, 4096)).density < 0.12


@pytest.mark.parametrize("kernel", ["block-sparse in C", "block-sparse in torch"])
def test_a_very_long_window_equals_its_parts(kernel):
    """More blocks than the masks of the kernel are made of at once, and one head for all threads."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, 64 * 600, 4, requires_grad=True) for _ in range(3))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with forced(kernel):
            out = attention(q, k, v, mask=window(70, 0))
            grads = torch.autograd.grad(out.pow(2).sum(), (q, k, v))
    finally:
        torch.set_num_threads(before)
    for start in (0, 64 * 299, 64 * 600 - 300):  # the first rows, the middle, the last
        part = [x[:, :, max(start - 70, 0) : start + 300] for x in (q, k, v)]
        alone, _ = attention_with_weights(*part, mask=window(70, 0))
        rows = alone.shape[2] - 300
        assert torch.allclose(out[:, :, start : start + 300], alone[:, :, rows:], atol=1e-5)
        expected = torch.autograd.grad(alone.pow(2).sum(), part)
        # All that sees them, and all they see, is in the part.
        inner = slice(rows + 70, alone.shape[2] - 70)
        for got, want in zip(grads, expected, strict=True):
            begin = max(start - 70, 0)
            assert torch.allclose(
                got[:, :, begin + inner.start : begin + inner.stop], want[:, :, inner], atol=1e-4
            )


@pytest.mark.parametrize("kernel", ["block-sparse in C", "block-sparse in torch"])
def test_one_mask_serves_every_dtype_in_turn(kernel):
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float32):
        q, k, v = (torch.randn(1, 2, 150, 8, dtype=dtype) for _ in range(3))
        with forced(kernel):
            out = attention(q, k, v, mask=window(21, 3))
        expected, _ = attention_with_weights(q, k, v, mask=window(21, 3))
        assert torch.allclose(out, expected, atol=3e-2 if dtype == torch.bfloat16 else 1e-5)


def test_hidden_nan_reaches_nothing_in_long_inputs():
    n = 8300
    q = torch.randn(1, 1, n, 8)
    k, v = q.clone(), q.clone()
    k[0, 0, 5] = v[0, 0, 5] = float("nan")
    assert torch.isfinite(attention(q, k, v, mask=window(4, 0) & ~global_tokens([5]))).all()


def test_cached_facts_of_a_mask_do_not_depend_on_the_number_of_heads():
    for heads in (3, 2, 1):
        q, k = torch.randn(1, heads, 2, 4), torch.randn(1, heads, 31, 4)
        for mask in (~window(1, 1), window(4, 0) & causal()):
            out = attention(q, k, k, mask=mask)
            assert torch.allclose(out, attention_with_weights(q, k, k, mask=mask)[0], atol=1e-6)
            assert mask.seen_keys(regard.shapes.Grid(1, heads, 2, 31)).shape[1] == 1
