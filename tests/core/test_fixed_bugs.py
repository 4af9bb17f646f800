"""Faults that were found by hand once; each would be silent if it came back."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import regard
from regard import (
    AttentionMap,
    attention,
    attention_with_weights,
    causal,
    global_tokens,
    padding,
    positions,
    scores,
    window,
)
from regard.errors import FileError
from regard.kernels import native
from support.attention_cases import KERNELS, LargestTensor, forced, rms

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


def test_hidden_nan_goes_nowhere_however_long_the_input():
    n = 8300
    q = torch.randn(1, 1, n, 8)
    k, v = q.clone(), q.clone()
    k[0, 0, 5] = v[0, 0, 5] = float("nan")
    assert torch.isfinite(attention(q, k, v, mask=window(4, 0) & ~global_tokens([5]))).all()


def test_padding_that_is_nan_reaches_no_parameter_of_self_attention():
    x = torch.randn(2, 6, 8)
    x[0, 4:] = float("nan")
    for layer in (regard.SelfAttention(8), regard.MultiHeadAttention(8, 2)):
        out = layer(x, mask=padding([4, 6]))[0]
        loss = out[0, :4].sum() + out[1].sum()
        for grad in torch.autograd.grad(loss, list(layer.parameters()), allow_unused=True):
            assert grad is None or torch.isfinite(grad).all()
    clean = torch.randn(2, 6, 8)
    leaf = x.clone().requires_grad_()
    out = attention(leaf, leaf, leaf, mask=padding([4, 6]))
    assert torch.isfinite(torch.autograd.grad(out.sum(), leaf)[0]).all()
    other = clean.clone()  # padding that is finite still asks, as it does in torch
    assert torch.allclose(
        attention(clean, clean, clean, mask=padding([4, 6])),
        attention(other, clean, clean, mask=padding([4, 6])),
    )


def test_a_map_keeps_the_parameters_of_a_module_that_scores():
    module = torch.nn.Linear(4, 4)

    class Mine(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, q, k):
            return self.inner(q) @ k.mT

    q, k, v = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5, 4)
    _, seen = attention(q, k, v, score=Mine(), return_map=True)
    before = seen.weights()
    with torch.no_grad():
        module.weight.add_(1)
    assert torch.equal(seen.weights(), before)


@pytest.mark.parametrize("name", ["v", "bias", "q", "lse"])
def test_a_file_whose_tensors_do_not_fit_is_refused(name, tmp_path):
    q, k, v = (torch.randn(1, 2, 70, 64) for _ in range(3))
    path = tmp_path / "map.safetensors"
    attention(q, k, v, score=scores.Additive(64, 64, 64), bias=torch.randn(70, 70), return_map=True)[1].save(
        path
    )
    tensors = load_file(path)
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        header = file.metadata()
    wrong = next(key for key in tensors if key.startswith(name))
    save_file({**tensors, wrong: tensors[wrong][..., :1].contiguous()}, path, metadata=header)
    if name == "bias":  # (1,1,70,1) broadcasts: cut the queries instead
        save_file({**tensors, wrong: tensors[wrong][..., :3, :].contiguous()}, path, metadata=header)
    with pytest.raises(FileError, match="does not fit its tensors"):
        AttentionMap.load(path)


def test_evaluating_in_inference_mode_does_not_spoil_training():
    bias = positions.RelativeBias(2)
    q = torch.randn(1, 2, 600, 16, requires_grad=True)
    for mask in (window(8, 0), window(9, 0) & causal(), window(1, 0) & ~global_tokens([3])):
        for extra in (None, bias):
            with torch.inference_mode():
                attention(q, q, q, mask=mask, bias=extra)
            attention(q, q, q, mask=mask, bias=extra).sum().backward()
            assert torch.isfinite(q.grad).all()
    layer = regard.BasicAttention(8)
    x, y = torch.randn(1, 3, 8), torch.randn(1, 9, 8)
    with torch.inference_mode():
        layer(x, y, y, mask=window(2, 0) & causal())
    layer(x, y, y, mask=window(2, 0) & causal())[0].sum().backward()


def test_autocast_casts_once_and_everywhere():
    x = torch.randn(2, 5, 8)
    exact = attention(x, x, x)
    calls = {
        "plain": lambda: attention(x, x, x),
        "map": lambda: attention(x, x, x, return_map=True)[0],
        "dropout path": lambda: attention(x, x, x, bias=torch.zeros(5, 5, requires_grad=True)),
        "mixed": lambda: attention(x, x.bfloat16(), x),
    }
    with torch.autocast("cpu", torch.bfloat16):
        for name, call in calls.items():
            out = call()
            assert out.dtype == torch.bfloat16, name
            assert torch.allclose(out.float(), exact, atol=0.05), name
        for layer in (regard.AdditiveAttention(8), regard.BasicAttention(8), regard.MultiHeadAttention(8, 2)):
            out = layer(x, x)[0] if isinstance(layer, regard.AdditiveAttention) else layer(x, x, x)[0]
            out.float().sum().backward()
        for score in (scores.Bilinear(8, 8), scores.Additive(8, 8, 4), lambda q, k: q @ k.mT):
            attention(x, x, x, score=score, return_map=True)[1].weights()


def test_an_empty_batch_is_no_error():
    q = torch.randn(0, 2, 600, 16, requires_grad=True)
    out, seen = attention(q, q, q, mask=window(4, 0), return_map=True)
    out.sum().backward()
    assert out.shape == q.shape
    assert seen.pooled(2, 2).shape == (0, 2, 2, 2)


@pytest.mark.skipif(native.library().handle is None, reason=f"no compiled kernels: {native.library().why}")
def test_a_user_without_a_home_gets_kernels_too(monkeypatch):
    for name in ("XDG_CACHE_HOME", "REGARD_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # what it gives where there is no home
    assert native.cache_folder() is None
    assert native.library.__wrapped__().handle is not None
    assert not Path("~").exists()


def test_a_map_computes_masks_and_biases_for_the_part_it_is_asked_for():
    q = torch.randn(4, 8, 64, 4)
    for extra in (
        {"bias": positions.ALiBi(8)},
        {"bias": positions.RelativeBias(8)},
        {"bias": torch.randn(4, 8, 64, 64)},
        {"mask": torch.rand(4, 8, 64, 64) < 0.9},
        {"mask": padding([64, 5, 7, 9]) & causal()},
    ):
        _, seen = attention(q, q, q, **extra, return_map=True)
        assert torch.allclose(seen[2, 5], seen.weights()[2, 5], atol=1e-6)
        with LargestTensor() as mode:
            seen[2, 5]
        assert mode.numel <= 64 * 64, extra


def test_a_map_says_what_it_holds_and_can_be_walked():
    q = torch.randn(2, 3, 5, 4)
    _, seen = attention(q, q, q, bias=torch.randn(2, 3, 5, 5), return_map=True)
    assert seen.nbytes >= 2 * 3 * 5 * 5 * 4
    assert len(seen) == 2
    assert [x.shape for x in seen] == [(3, 5, 5)] * 2
    assert np.asarray(seen).shape == (2, 3, 5, 5)
    assert torch.equal(seen[..., 0], seen[:, :, :, 0])
    torch.testing.assert_close(seen[0, ..., 1:3], seen[0][:, :, 1:3], rtol=0, atol=1e-6)


def test_layers_name_what_is_wrong_with_their_inputs():
    x = torch.randn(2, 5, 8)
    layer = regard.MultiHeadAttention(8, 2)
    for bad, message in {
        "long": (
            lambda: regard.BasicAttention(8)(x.long(), x, x),
            "query: expected a floating dtype, got torch.int64",
        ),
        "double": (lambda: layer(x.double(), x, x), "query: torch.float64, but the layer is torch.float32"),
        "meta": (
            lambda: regard.BasicAttention(8)(x, x.to("meta"), x),
            "key: on meta, but the layer is on cpu",
        ),
        "list": (lambda: layer([1], x, x), "query: expected a torch.Tensor, got list"),
        "four": (lambda: layer(x[None], x, x), r"query: expected \(b,q,m\) with m = 8, got \(1,2,5,8\)"),
        "length": (lambda: layer(x, x, x[:, :3], mask=causal()), "v: 3 values for 5 keys"),
    }.values():
        with pytest.raises(regard.RegardError, match=message):
            bad()


def test_with_weights_agrees_with_the_fast_path_on_half_precision_masks():
    q = torch.randn(1, 2, 6, 8).half()
    bias = torch.zeros(6, 6)
    bias[0] = -1e9
    fast, slow = attention(q, q, q, bias=bias), attention_with_weights(q, q, q, bias=bias)[0]
    assert torch.allclose(fast.float(), slow.float(), atol=2e-3)


def test_what_is_remembered_of_a_rule_does_not_depend_on_the_heads():
    for heads in (3, 2, 1):
        q, k = torch.randn(1, heads, 2, 4), torch.randn(1, heads, 31, 4)
        for mask in (~window(1, 1), window(4, 0) & causal()):
            out = attention(q, k, k, mask=mask)
            assert torch.allclose(out, attention_with_weights(q, k, k, mask=mask)[0], atol=1e-6)
            assert mask.seen_keys(regard.shapes.Grid(1, heads, 2, 31)).shape[1] == 1
