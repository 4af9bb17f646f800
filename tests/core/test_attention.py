"""Tests of attention() with answers by hand, shapes, groups, callables, and agreement between its forms."""

import math

import pytest
import torch
import torch.nn.functional as F

import regard
from regard import (
    attention,
    attention_weights,
    attention_with_weights,
    causal,
    padding,
    positions,
    scores,
    window,
)
from regard.kernels import additive, block_sparse, dispatch, native
from support.attention_cases import LargestTensor, forced

B, H, Q, K, D, E = 2, 6, 5, 7, 11, 13


def tensors(*, h=H, g=H, seed=0):
    torch.manual_seed(seed)
    return torch.randn(B, h, Q, D), torch.randn(B, g, K, D), torch.randn(B, g, K, E)


def test_weights_and_output_are_those_computed_by_hand():
    q, k, v = torch.tensor([[math.log(3.0)]]), torch.tensor([[1.0], [0.0]]), torch.tensor([[4.0], [8.0]])
    assert torch.allclose(attention_weights(q, k), torch.tensor([[0.75, 0.25]]))
    assert torch.allclose(attention(q, k, v), torch.tensor([[5.0]]))
    assert torch.allclose(attention(q, k, v, mask=torch.tensor([[0, 1]])), torch.tensor([[8.0]]))
    assert torch.allclose(
        attention(q, k, v, bias=torch.tensor([[0.0, math.log(3.0)]])), torch.tensor([[6.0]])
    )


def test_the_worked_example_of_document_003_has_its_numbers():
    q = torch.tensor([[1.0, 0.0]])
    k = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    v = torch.tensor([[10.0, 0.0], [0.0, 20.0], [30.0, 0.0]])
    out, weights = attention_with_weights(q, k, v)
    assert torch.allclose(weights, torch.tensor([[0.4011, 0.1978, 0.4011]]), atol=5e-5)
    assert torch.allclose(out, torch.tensor([[16.0445, 3.9555]]), atol=5e-5)


@pytest.mark.parametrize("axes", [2, 3, 4])
def test_the_output_has_the_axes_of_the_input(axes):
    q, k, v = (x[0, 0] if axes == 2 else x[:, 0] if axes == 3 else x for x in tensors())
    out, seen = attention(q, k, v, return_map=True)
    both, weights = attention_with_weights(q, k, v)
    assert out.shape == (*q.shape[:-1], E)
    assert weights.shape == (*q.shape[:-1], K)
    assert seen.shape == (1 if axes == 2 else B, H if axes == 4 else 1, Q, K)
    full = attention(*tensors())
    expected = full[0, 0] if axes == 2 else full[:, 0] if axes == 3 else full
    assert torch.allclose(out, expected, atol=1e-6)
    assert torch.allclose(both, expected, atol=1e-6)


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("mask", [None, causal(), window(2, 0), padding([7, 3])])
def test_grouped_heads_equal_repeated_ones(groups, mask):
    q, k, v = tensors(g=groups)
    repeated = [x.repeat_interleave(H // groups, dim=1) for x in (k, v)]
    for score in (
        "scaled_dot",
        scores.Additive(D, D, 4),
        scores.Bilinear(D, D),
        lambda q, k: -torch.cdist(q, k),
    ):
        out, seen = attention(q, k, v, mask=mask, score=score, return_map=True)
        expected, whole = attention(q, *repeated, mask=mask, score=score, return_map=True)
        assert torch.allclose(out, expected, atol=1e-6)
        assert torch.allclose(seen.weights(), whole.weights(), atol=1e-6)


def test_the_plain_call_equals_torchs():
    q, k, v = (x.requires_grad_() for x in (torch.randn(2, 4, 33, 16) for _ in range(3)))
    ours, theirs = attention(q, k, v), F.scaled_dot_product_attention(q, k, v)
    assert torch.equal(ours, theirs)
    assert torch.equal(
        attention(q, k, v, mask=causal()), F.scaled_dot_product_attention(q, k, v, is_causal=True)
    )


def test_causal_continues_a_cache():
    q, k, v = (torch.randn(1, 2, 9, 8) for _ in range(3))
    whole = attention(q, k, v, mask=causal())
    for start in (1, 4, 8):
        tail = attention(
            q[:, :, start:], k, v, mask=causal()
        )  # the queries that continue it: both end together
        assert torch.allclose(tail, whole[:, :, start:], atol=1e-6)


def test_one_offset_a_sequence_serves_padded_caches():
    q, k, v = torch.randn(2, 1, 1, 4), torch.randn(2, 1, 6, 4), torch.randn(2, 1, 6, 4)
    out = attention(q, k, v, mask=causal(offset=torch.tensor([5, 2])))
    alone = attention(q[1:], k[1:, :, :3], v[1:, :, :3])
    assert torch.allclose(out[1:], alone, atol=1e-6)


def test_masks_and_biases_add_up():
    q, k, v = tensors()
    bias, mask = torch.randn(H, Q, K)[None], torch.randn(Q, K)
    expected = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(D) + bias + mask, dim=-1) @ v
    assert torch.allclose(attention(q, k, v, mask=mask, bias=bias), expected, atol=1e-5)
    alibi = positions.ALiBi(H)
    expected = (
        torch.softmax(
            q @ k.transpose(-2, -1) / math.sqrt(D) + mask + alibi(regard.shapes.Grid(B, H, Q, K)), -1
        )
        @ v
    )
    assert torch.allclose(attention(q, k, v, mask=mask, bias=alibi), expected, atol=1e-5)


@pytest.mark.parametrize("score", ["dot", "scaled_dot", scores.Bilinear(D, D), scores.Additive(D, D, 4)])
def test_scale_replaces_the_scores_own_factor(score):
    q, k, v = tensors()
    formula = score if isinstance(score, scores.Score) else scores.Dot()
    expected = torch.softmax(formula(q, k) * 0.3, dim=-1) @ v
    assert torch.allclose(attention(q, k, v, score=score, scale=0.3), expected, atol=1e-5)


def test_a_learned_bias_gets_its_gradient_on_every_path():
    table = positions.RelativeBias(H)
    q, k, v = (torch.randn(1, H, 80, 8) for _ in range(3))
    grads = []
    for kernel in ("default", "block-sparse in torch"):
        with forced(kernel):
            out = attention(q, k, v, mask=window(20, 3), bias=table)
        grads.append(torch.autograd.grad(out.pow(2).sum(), table.parameters())[0])
    assert grads[0].abs().sum() > 0
    assert torch.allclose(*grads, atol=1e-4)


def test_long_additive_attention_takes_a_few_queries_at_a_time(monkeypatch):
    q, k, v = (torch.randn(1, 2, 40, 6, requires_grad=True) for _ in range(3))
    score = scores.Additive(6, 6, 5)
    options = {"score": score, "mask": causal() & padding([38])}
    wanted = [q, k, v, *score.parameters()]

    def run():
        out, seen = attention(q, k, v, return_map=True, **options)
        return out, seen.weights(), *torch.autograd.grad(out.pow(2).sum(), wanted)

    whole = run()
    monkeypatch.setattr(dispatch, "_MAX_WEIGHTS", 2 * 40 * 7)
    for a, b in zip(run(), whole, strict=True):
        assert torch.allclose(a, b, atol=1e-5)
    with torch.no_grad():
        assert torch.allclose(attention(q, k, v, **options), whole[0], atol=1e-6)


def test_a_sparse_mask_is_never_stored_densely(monkeypatch):
    """A window over 2048 tokens never becomes a 2048 x 2048 tensor, in any of the kernels."""
    q, k, v = (torch.randn(1, 1, 2048, 8, requires_grad=True) for _ in range(3))
    for kernel in ("default", "block-sparse in torch"):
        with forced(kernel), LargestTensor() as mode:
            out = attention(q, k, v, mask=(window(32, 0) | regard.global_tokens(4)) & padding([2000]))
            torch.autograd.grad(out.sum(), (q, k, v))
        assert mode.numel < 2048 * 2048 / 4


def test_each_kernel_is_dispatched_to_its_cases(monkeypatch):
    taken = []
    for module, name in [(dispatch, "block_sparse_attention"), (dispatch, "_fused"), (dispatch, "_dense")]:
        real = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *a, _n=name, _r=real, **o: (taken.append(_n), _r(*a, **o))[1]
        )

    def used(n=16, **options):
        taken.clear()
        x = torch.randn(1, 1, n, 8)
        attention(x, x, x, **options)
        return taken

    assert used() == ["_fused"]
    assert used(mask=causal()) == ["_fused"]
    assert used(mask=window(3, 0)) == ["_fused"]
    assert used(n=1024, mask=window(3, 0)) == ["block_sparse_attention"]
    assert used(n=1024, mask=causal()) == ["_fused"]
    assert used(n=1024, mask=window(1000, 1000)) == ["_fused"]
    assert used(dropout=0.1) == ["_dense"]
    assert used(score=scores.Additive(8, 8, 4)) == ["_dense"]
    assert used(score=lambda q, k: q @ k.mT) == ["_dense"]


def test_the_additive_kernels_are_taken_by_size_alone(monkeypatch):
    calls = []
    real = additive._scores
    monkeypatch.setattr(additive, "_scores", lambda *a: (calls.append(1), real(*a))[1])
    small, large = (torch.randn(1, n, 64) for n in (16, 128))
    v = torch.randn(64)
    additive.additive_scores(small, small, v)
    assert calls == []
    additive.additive_scores(large, large, v)
    assert calls != []
    assert 128 * 128 * 64 > additive.SMALL_WORK >= 16 * 16 * 64


@pytest.mark.skipif(native.library().handle is None, reason=f"no compiled kernels: {native.library().why}")
def test_the_compiled_kernels_do_not_depend_on_the_number_of_threads():
    q, k, v = (torch.randn(2, 2, 300, 16, requires_grad=True) for _ in range(3))
    score = scores.Additive(16, 16, 32)
    results = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            a, c = (
                torch.randn(3, 90, 32, generator=torch.Generator().manual_seed(0)),
                score.W2.weight.new_ones(3, 80, 32),
            )
            a.requires_grad_()
            with forced("additive in C"):
                s = additive.additive_scores(a, c, score.v)
            with forced("block-sparse in C"):
                out, _ = block_sparse.block_sparse_attention(q, k, v, _job(q))
            results.append(
                [s, *torch.autograd.grad(s.sum(), a), out, *torch.autograd.grad(out.sum(), (q, k, v))]
            )
    finally:
        torch.set_num_threads(before)
    for one, two in zip(*results, strict=True):
        assert torch.equal(one, two)


def _job(q):
    from regard.kernels.block_sparse.plans import plan_for
    from regard.shapes import Grid

    grid = Grid(*q.shape[:3], q.shape[2])
    mask = window(70, 10)
    return block_sparse.BlockSparseJob(plan_for(mask, grid), mask, grid, None, 0.25)


def test_a_trained_mask_of_zeros_gets_its_gradient():
    q, k, v = tensors()
    mask = torch.zeros(Q, K, requires_grad=True)
    out = attention(q, k, v, mask=mask)
    (grad,) = torch.autograd.grad(out.pow(2).sum(), mask)
    assert grad.abs().sum() > 0


def test_a_callable_score_never_receives_nan_of_hidden_keys():
    q, k, v = tensors()
    hidden = torch.arange(K) >= 4
    bad_k, bad_v = (x.masked_fill(hidden[:, None], float("nan")).requires_grad_() for x in (k, v))
    options = {"mask": padding([4, 4]), "score": lambda q, k: -torch.cdist(q, k)}
    out = attention(q, bad_k, bad_v, **options)
    assert torch.equal(out, attention(q, k, v, **options))
    for grad in torch.autograd.grad(out.sum(), (bad_k, bad_v)):
        assert torch.isfinite(grad).all()
        assert (grad[:, :, hidden] == 0).all()


def test_a_learned_bias_gets_its_gradient_beside_a_float_mask():
    q, k, v = tensors()
    for mask_is_trained in (False, True):
        table = positions.RelativeBias(H).requires_grad_(not mask_is_trained)
        mask = torch.randn(Q, K, requires_grad=mask_is_trained)
        wanted = [mask] if mask_is_trained else list(table.parameters())
        plain = attention(q, k, v, mask=mask, bias=table)
        mapped, _ = attention(q, k, v, mask=mask, bias=table, return_map=True)
        for out in (plain, mapped):
            (grad,) = torch.autograd.grad(out.pow(2).sum(), wanted)
            assert grad.abs().sum() > 0


def test_hidden_nan_reaches_nothing_and_many_weights_are_not_stored(monkeypatch):
    monkeypatch.setattr(dispatch, "_MAX_WEIGHTS", 40 * 7)
    q, k, v = (torch.randn(1, 1, 40, 6, requires_grad=True) for _ in range(3))
    hidden = torch.arange(40) >= 30
    bad_k, bad_v = (x.detach().masked_fill(hidden[:, None], torch.nan).requires_grad_() for x in (k, v))
    options = {"score": scores.Additive(6, 6, 5), "mask": padding([30])}
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: (sizes.append(x.numel()), x)[1], lambda x: x):
        out = attention(q, bad_k, bad_v, **options)
    assert sum(sizes) < 40 * 40
    assert torch.allclose(out, attention(q, k, v, **options), atol=1e-6)
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(out.sum(), (q, bad_k, bad_v)))


def test_scale_multiplies_the_score_of_projected_queries_and_keys():
    q, k, v = tensors()
    score = scores.Tanh(torch.randn(D))
    expected = torch.softmax(score(q, k) * 0.3, dim=-1) @ v
    assert torch.allclose(attention(q, k, v, score=score, scale=0.3), expected, atol=1e-5)


def test_an_empty_batch_is_no_error():
    q = torch.randn(0, 2, 600, 16, requires_grad=True)
    out, seen = attention(q, q, q, mask=window(4, 0), return_map=True)
    out.sum().backward()
    assert out.shape == q.shape
    assert seen.pooled(2, 2).shape == (0, 2, 2, 2)


def test_attention_with_weights_agrees_with_attention_on_half_precision_masks():
    q = torch.randn(1, 2, 6, 8).half()
    bias = torch.zeros(6, 6)
    bias[0] = -1e9
    fast, slow = attention(q, q, q, bias=bias), attention_with_weights(q, q, q, bias=bias)[0]
    assert torch.allclose(fast.float(), slow.float(), atol=2e-3)
