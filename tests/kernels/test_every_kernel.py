"""Tests of every kernel, dtype and mask, with empty rows, NaN in hidden keys, causality and padding."""

import pytest
import torch

import regard
from regard import attention, attention_with_weights, causal, global_tokens, padding, scores, window
from regard.kernels import native
from support.attention_cases import KERNELS, forced, rms

B, H, D, E = 2, 3, 8, 5
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def _score(kernel, dtype):
    return (
        scores.Additive(D, D, 7).to(dtype)
        if kernel.startswith("additive")
        else scores.Bilinear(D, D).to(dtype)
    )


def _length(kernel):
    return 70 if kernel.startswith("block-sparse") else 11  # more than one block


def _inputs(kernel, dtype, seed=0, n=None):
    torch.manual_seed(seed)
    n = _length(kernel) if n is None else n
    return [torch.randn(B, H, n, w, dtype=dtype).requires_grad_() for w in (D, D, E)]


USABLE = [k for k in KERNELS if native.library().handle is not None or not k.endswith("in C")]


@pytest.fixture(params=USABLE)
def kernel(request):
    with forced(request.param):
        yield request.param


def _ways(kernel):
    """attention() itself, with a map, with dropout in the graph, and with weights."""

    def with_map(q, k, v, **options):
        return attention(q, k, v, return_map=True, **options)[0]

    def with_weights(q, k, v, **options):
        return attention_with_weights(q, k, v, **options)[0]

    def with_bias(q, k, v, **options):
        return attention(q, k, v, bias=torch.zeros(q.shape[-2], k.shape[-2], dtype=q.dtype), **options)

    def with_trained_bias(q, k, v, **options):
        bias = torch.zeros(q.shape[-2], k.shape[-2], dtype=q.dtype, requires_grad=True)
        return attention(q, k, v, bias=bias, **options)

    return [attention, with_map, with_weights, with_bias, with_trained_bias]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_without_keys_is_zero_forward_and_backward(kernel, dtype):
    q, k, v = _inputs(kernel, dtype)
    n = q.shape[2]
    hidden = torch.zeros(B, 1, n, n, dtype=torch.bool)
    # One row of the first sequence, all of the second.
    hidden[0, 0, 1] = hidden[1] = True
    for mask in (window(4, 4) & ~regard.masks.as_mask(hidden), regard.masks.as_mask(~hidden)):
        for way in _ways(kernel):
            out = way(q, k, v, mask=mask, score=_score(kernel, dtype))
            assert (out[0, :, 1] == 0).all()
            assert (out[1] == 0).all()
            assert out[0].abs().sum() > 0
            grads = torch.autograd.grad(out.float().pow(2).sum() + out.sum(), (q, k, v))
            assert all(torch.isfinite(g).all() for g in grads)
            assert (grads[0][0, :, 1] == 0).all()
            assert all((g[1] == 0).all() for g in grads)
            assert all(g[0].abs().sum() > 0 for g in grads)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), float("-inf")])
def test_values_hidden_from_every_query_reach_nothing(kernel, dtype, poison):
    q, k, v = _inputs(kernel, dtype)
    n = q.shape[2]
    lengths = torch.tensor([n - 3, 2])
    hidden = torch.arange(n)[None, :] >= lengths[:, None]  # (b,k)
    bad_k, bad_v = (
        torch.where(hidden[:, None, :, None], torch.tensor(poison, dtype=dtype), x).detach().requires_grad_()
        for x in (k, v)
    )
    score = _score(kernel, dtype)
    for mask in (
        padding(lengths),
        (window(3, 3) | global_tokens(2)) & padding(lengths),
        padding(~hidden) & causal(),
    ):
        for way in _ways(kernel):
            clean = way(q, k, v, mask=mask, score=score)
            out = way(q, bad_k, bad_v, mask=mask, score=score)
            assert torch.equal(out, clean)
            upstream = torch.ones_like(out)
            parameters = tuple(score.parameters())
            grads = torch.autograd.grad(out, (q, bad_k, bad_v, *parameters), upstream)
            expected = torch.autograd.grad(clean, (q, k, v, *parameters), upstream)
            for got, want in zip(grads, expected, strict=True):
                assert torch.equal(got, want)
            for grad in grads[1:3]:
                assert (grad[hidden[:, None].expand(B, H, n)] == 0).all()


def _sees(mask, q, key):
    """Return which queries ``(b,h,q)`` may attend to a key."""
    grid = regard.shapes.Grid(*q.shape[:3], q.shape[2])
    keep = regard.masks.as_mask(mask).dense(grid).expand(tuple(grid))
    return keep[..., key].clone()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), float("-inf")])
def test_poison_never_reaches_queries_that_do_not_see_it(kernel, dtype, poison):
    q, k, v = _inputs(kernel, dtype)
    n = q.shape[2]
    place = n // 2
    score = _score(kernel, dtype)
    for mask in (
        causal(),
        window(3, 2),
        causal() & padding([n, n - 2]),
        (window(2, 2) | global_tokens([1])) & ~window(0, 0),
        torch.rand(n, n) < 0.5,
    ):
        sees = _sees(mask, q, place)
        sees[1] = False
        for parts in ((1,), (2,)):
            bad = [x.detach().clone() for x in (q, k, v)]
            for part in parts:
                bad[part][0, :, place] = poison
            bad = [x.requires_grad_() for x in bad]
            for way in _ways(kernel):
                out, clean = (way(*x, mask=mask, score=score) for x in (bad, (q, k, v)))
                assert torch.equal(out[~sees], clean[~sees])
                if 2 in parts or poison != poison:
                    assert not out[sees].isfinite().any()
                grads = torch.autograd.grad(out[~sees].float().pow(2).sum(), bad)
                expected = torch.autograd.grad(clean[~sees].float().pow(2).sum(), (q, k, v))
                for got, want in zip(grads, expected, strict=True):
                    torch.testing.assert_close(
                        got, want, atol=0.05 if dtype == torch.bfloat16 else 1e-4, rtol=0.02
                    )


def test_poison_that_is_seen_reaches_the_gradients_of_its_rows_alone(kernel):
    q, k, v = _inputs(kernel, torch.float64)
    place = q.shape[2] // 2
    bad_v = v.detach().clone()
    bad_v[0, 0, place, 2] = float("nan")
    bad_v.requires_grad_()
    out = attention(q, k, bad_v, mask=causal(), score=_score(kernel, torch.float64))
    # The other columns of these rows do not depend on the value.
    assert torch.equal(
        out.isnan().nonzero(),
        out[:1, :1, place:, 2:3].new_tensor([[0, 0, i, 2] for i in range(place, q.shape[2])]).long(),
    )
    # The gradient of the row is NaN in this column, and must not reach keys that the row does not see.
    grads = torch.autograd.grad(out[0, 0, place].pow(2).sum(), (q, k, bad_v))
    for grad, rows in zip(
        grads, (slice(place, place + 1), slice(0, place + 1), slice(0, place + 1)), strict=True
    ):
        assert grad[0, 0, rows].isnan().all()
        assert int(grad.isnan().sum()) == grad[0, 0, rows].numel()


def test_an_infinite_key_whose_weight_is_0_reaches_no_gradient_of_other_queries():
    """Its score is -inf, so no row of the output shows it."""
    q = torch.rand(1, 1, 11, D, requires_grad=True)
    k, v = torch.randn(1, 1, 11, D), torch.randn(1, 1, 11, E)
    k[0, 0, 7] = float("-inf")
    k.requires_grad_()
    for way in _ways("default"):
        out = way(q, k, v, mask=causal())
        assert out.isfinite().all()
        for grad in torch.autograd.grad(out[:, :, :7].sum(), (q, k)):
            assert grad.isfinite().all()


def test_poison_leaves_the_map_and_the_weights_of_other_queries_as_they_are(kernel):
    q, k, v = (x.detach() for x in _inputs(kernel, torch.float32))
    n, score = q.shape[2], _score(kernel, torch.float32)
    bad_k = k.clone()
    bad_k[0, :, n - 2] = float("nan")
    for mask in (causal(), window(4, 0)):
        sees = _sees(mask, q, n - 2)
        sees[1] = False
        expected = attention_with_weights(q, k, v, mask=mask, score=score)[1]
        seen = attention(q, bad_k, v, mask=mask, score=score, return_map=True)[1]
        for weights in (seen.weights(), attention_with_weights(q, bad_k, v, mask=mask, score=score)[1]):
            torch.testing.assert_close(weights[~sees], expected[~sees], atol=1e-5, rtol=1e-4)
        assert seen.topk(2).weights[~sees].isfinite().all()


def test_keys_outside_every_window_reach_nothing(kernel):
    q, k, v = _inputs(kernel, torch.float32)
    q = q[:, :, -4:]
    n = k.shape[2]
    bad_k, bad_v = (x.detach().clone().requires_grad_() for x in (k, v))
    with torch.no_grad():
        bad_k[:, :, : n - 6] = bad_v[:, :, : n - 6] = float("nan")
    for mask in (window(2, 0), window(2, 3) & causal(), ~~window(2, 0), window(2, 5) & ~window(None, 9)):
        out = attention(q, bad_k, bad_v, mask=mask, score=_score(kernel, torch.float32))
        assert torch.isfinite(out).all()
        assert all(torch.isfinite(g).all() for g in torch.autograd.grad(out.sum(), (q, bad_k, bad_v)))


@pytest.mark.parametrize(("n_q", "n_k"), [(5, 5), (3, 7), (7, 3), (1, 4)])
def test_the_causal_jacobian_is_exactly_zero_above_the_diagonal(kernel, n_q, n_k):
    torch.manual_seed(1)
    q, k, v = torch.randn(n_q, D), torch.randn(n_k, D), torch.randn(n_k, E)
    score = _score(kernel, torch.float32)

    def output(keys, values):
        return attention(q, keys, values, mask=causal(), score=score).sum(-1)

    for jacobian in torch.autograd.functional.jacobian(output, (k, v)):  # (q, k, width)
        for i in range(n_q):
            seen = i + n_k - n_q + 1  # both end together
            assert (jacobian[i, max(seen, 0) :] == 0).all()
            if seen > 0:
                assert jacobian[i, :seen].abs().sum() > 0 or (seen == 1 and jacobian.shape[-1] == D)


def test_a_padded_batch_equals_each_sequence_alone(kernel):
    lengths = [_length(kernel), 3]
    q, k, v = _inputs(kernel, torch.float32)
    for extra in (None, causal(), window(3, 1), window(2, 2) | global_tokens([1])):
        mask = padding(lengths) if extra is None else padding(lengths) & extra
        score = _score(kernel, torch.float32)
        together = attention(q, k, v, mask=mask, score=score)
        for i, n in enumerate(lengths):
            alone = attention(
                q[i : i + 1, :, :n], k[i : i + 1, :, :n], v[i : i + 1, :, :n], mask=extra, score=score
            )
            assert torch.allclose(together[i : i + 1, :, :n], alone, atol=2e-6, rtol=0)


def test_dropout_acts_on_the_output_and_never_shows_in_the_map(kernel):
    q, k, v = _inputs(kernel, torch.float32)
    options = {"mask": window(5, 5), "score": _score(kernel, torch.float32)}
    plain, clean = attention(q, k, v, return_map=True, **options)
    dropped, seen = attention(q, k, v, dropout=0.5, return_map=True, **options)
    assert not torch.allclose(plain, dropped)
    assert torch.allclose(seen.weights(), clean.weights(), atol=1e-6)
    assert torch.allclose(seen.weights().sum(-1), torch.ones(()), atol=1e-5)
    torch.manual_seed(5)
    many = torch.stack([attention(q, k, v, dropout=0.5, **options) for _ in range(400)]).mean(0)
    assert (many - plain).abs().mean() < 0.1 * plain.abs().mean() + 0.05  # dropped weights are made up for
    out, weights = attention_with_weights(q, k, v, dropout=0.5, **options)
    assert torch.allclose(weights, clean.weights(), atol=1e-6)
    assert not torch.allclose(out, plain)


GRADCHECKED = {
    "none": lambda: None,
    "causal": causal,
    "padding": lambda: padding([3, 1]),
    "window": lambda: window(1, 1),
    "global": lambda: window(0, 0) | global_tokens([1]),
    "blocks": lambda: regard.blocks([[1, 0, 0], [0, 1, 1]], 2),
    "empty row": lambda: regard.masks.as_mask(
        torch.tensor([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0]])
    ),
}


def _served(kernel, score):
    """Return whether a forced kernel computes a score."""
    if kernel.startswith("additive"):
        return score == "additive"
    return kernel == "default" or score in ("dot", "scaled_dot", "bilinear")


MECHANISMS = ["dot", "scaled_dot", "additive", "bilinear", "callable"]


@pytest.mark.parametrize(
    ("forced_kernel", "score"), [(k, s) for k in USABLE for s in MECHANISMS if _served(k, s)]
)
@pytest.mark.parametrize("name", GRADCHECKED)
def test_gradients_of_every_mechanism_and_mask_pass_gradcheck(forced_kernel, name, score):
    with forced(forced_kernel):
        _gradcheck(name, score)


def _gradcheck(name, score):
    torch.manual_seed(3)
    made = {
        "additive": lambda: scores.Additive(2, 2, 3).double(),
        "bilinear": lambda: scores.Bilinear(2, 2).double(),
        "callable": lambda: lambda q, k: -torch.cdist(q, k).pow(2),
    }.get(score, lambda: score)()
    q, k, v = (
        torch.randn(2, h, n, w, dtype=torch.float64, requires_grad=True)
        for h, n, w in [(2, 3, 2), (1, 5, 2), (1, 5, 3)]
    )
    bias = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)[None].detach().requires_grad_()
    parameters = list(made.parameters()) if isinstance(made, torch.nn.Module) else []
    mask = GRADCHECKED[name]()
    assert torch.autograd.gradcheck(
        lambda q, k, v, *rest: attention(q, k, v, score=made, mask=mask), (q, k, v, *parameters)
    )
    assert torch.autograd.gradcheck(
        lambda q, k, v, bias, *rest: attention(q, k, v, score=made, mask=mask, bias=bias),
        (q, k, v, bias, *parameters),
    )


def test_keys_after_the_last_query_reach_nothing(kernel):
    """causal(offset=0) with more keys than queries differs from the causal flag of the fused kernel."""
    q, k, v = _inputs(kernel, torch.float32)
    q, n = q[:, :, :-6], k.shape[2]
    bad_k, bad_v = (x.detach().clone().requires_grad_() for x in (k, v))
    with torch.no_grad():
        bad_k[:, :, n - 6 :] = bad_v[:, :, n - 6 :] = float("nan")
    score = _score(kernel, torch.float32)
    for way in _ways(kernel):
        out = way(q, bad_k, bad_v, mask=causal(offset=0), score=score)
        assert torch.equal(out, way(q, k, v, mask=causal(offset=0), score=score))
        assert all(torch.isfinite(g).all() for g in torch.autograd.grad(out.sum(), (q, bad_k, bad_v)))


def test_large_scores_do_not_overflow(kernel):
    """Scores that are hundreds apart overflow unless the maximum of each row is subtracted."""
    if kernel.startswith("additive"):
        return  # those scores are bounded by v
    q, k, v = (x.detach() for x in _inputs(kernel, torch.float32))
    for mask in (None, window(20, 20), padding([k.shape[2], 9]) & window(30, 0)):
        out = attention(q * 200, k, v, mask=mask)
        expected, _ = attention_with_weights(q.double() * 200, k.double(), v.double(), mask=mask)
        assert torch.allclose(out.double(), expected, atol=1e-2)


def test_dropout_changes_the_output(kernel):
    q, k, v = _inputs(kernel, torch.float32)
    options = {"mask": window(5, 5), "score": _score(kernel, torch.float32)}
    plain, dropped = attention(q, k, v, **options), attention(q, k, v, dropout=0.5, **options)
    assert (plain - dropped).abs().mean() > 0.1


BLOCK_SPARSE = [
    k
    for k in KERNELS
    if k.startswith("block-sparse") and (native.library().handle is not None or "torch" in k)
]


@pytest.mark.parametrize("kernel", ["default", *BLOCK_SPARSE])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_wide_bias_is_not_rounded_to_half_precision(kernel, dtype):
    torch.manual_seed(0)
    q = torch.randn(1, 1, 80, 16).to(dtype)
    bias = 100 + torch.randn(80, 80)
    mask = window(30, 30) if kernel != "default" else None
    keep = window(30, 30).dense(regard.shapes.Grid(1, 1, 80, 80)) if mask is not None else torch.tensor(True)
    with forced(kernel):
        out, seen = attention(q, q, q, bias=bias, mask=mask, return_map=True)
    exact = (q.double() @ q.double().mT / 4 + bias.double()).masked_fill(~keep, -torch.inf).softmax(
        -1
    ) @ q.double()
    plain = (q @ q.mT / 4 + bias).masked_fill(~keep, -torch.inf).softmax(-1).to(dtype) @ q
    assert rms(out.double() - exact) <= 2 * rms(plain.double() - exact) + torch.finfo(dtype).eps
    assert torch.allclose(seen.weights().sum(-1), torch.ones(()), atol=1e-3)
    assert torch.isfinite(attention(q, q, q, bias=torch.full((80, 80), 7e4))).all()


@pytest.mark.parametrize("kernel", BLOCK_SPARSE)
@pytest.mark.parametrize("which", ["q", "k"])
def test_a_nan_that_is_seen_is_not_turned_into_zeros(kernel, which):
    x = {name: torch.randn(1, 1, 130, 16) for name in "qkv"}
    x[which][0, 0, 5] = float("nan")
    with forced(kernel):
        out = attention(**x, mask=window(0, 0))
    assert out[0, 0, 5].isnan().all()
    if kernel == "block-sparse in C":
        assert torch.isfinite(out[0, 0, 64:]).all()
