"""Tests of the kernels with fake and meta tensors, tracing, transforms and derivatives."""

import math
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import regard
from regard import attention, causal, global_tokens, padding, scores, window
from regard.kernels import additive, native
from regard.kernels.block_sparse import compiled, plans
from regard.kernels.block_sparse import job as jobs
from regard.masks import base
from regard.shapes import Grid
from support.attention_cases import forced

# Warnings of torch's own, in its forward-mode derivatives and in the fake tensors of opcheck.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf Tensor"),
]

B, H, N, D = 2, 3, 13, 8
IN_C = pytest.mark.skipif(
    native.library().handle is None, reason=f"no compiled kernels: {native.library().why}"
)
CALLS = {
    "plain": ("default", {}),
    "causal": ("default", {"mask": lambda: causal()}),
    "padding": ("default", {"mask": lambda: padding([13, 7])}),
    "float mask": (
        "default",
        {"mask": lambda: torch.zeros(N, N).masked_fill(torch.ones(N, N).triu(2) > 0, -math.inf)},
    ),
    "numbers": ("default", {"mask": lambda: torch.linspace(-1, 1, N * N).reshape(N, N)}),
    "bias": ("default", {"bias": lambda: torch.linspace(-1, 1, N * N).reshape(N, N)}),
    "small additive": ("default", {"score": lambda: scores.Tanh(torch.linspace(-1, 1, D))}),
    "additive in C": ("additive in C", {"score": lambda: scores.Tanh(torch.linspace(-1, 1, D))}),
    "additive in torch": ("additive in torch", {"score": lambda: scores.Tanh(torch.linspace(-1, 1, D))}),
    "block-sparse in C": ("block-sparse in C", {"mask": lambda: window(3, 0) | global_tokens([2])}),
    "block-sparse in torch": ("block-sparse in torch", {"mask": lambda: window(3, 0) | global_tokens([2])}),
    "blocks in C": ("block-sparse in C", {"mask": lambda: regard.blocks([[1, 0], [1, 1]], 7)}),
    "block-sparse and padding": ("block-sparse in C", {"mask": lambda: window(3, 0) & padding([13, 7])}),
}
EVERY = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=IN_C if c[0].endswith("in C") else ()) for n, c in CALLS.items()]
)
QUICK = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=IN_C) for n in ("plain", "additive in C", "block-sparse in C")]
)


def inputs(dtype: torch.dtype = torch.float32, **options) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(5)
    q, k, v = (
        torch.randn(B, H, N, D, generator=random, dtype=dtype).requires_grad_(**options) for _ in range(3)
    )
    return q, k, v


def run(name: str):
    """A call as a function of q, k and v, through the kernel that its name says."""
    kernel, options = CALLS[name]

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with forced(kernel):
            return attention(q, k, v, **{key: make() for key, make in options.items()})

    return call


def formula(name: str):
    """The same in plain torch, which knows all derivatives."""
    options = {key: make() for key, make in CALLS[name][1].items()}

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if "score" in options:
            s = torch.tanh(q[..., :, None, :] + k[..., None, :, :]) @ options["score"].v
        else:
            s = q @ k.mT / math.sqrt(D)
        mask = options.get("mask")
        if isinstance(mask, Tensor):
            s = s + mask
        elif mask is not None:
            keep = mask.dense(Grid(B, H, N, N))
            empty = ~keep.any(-1, keepdim=True)
            s = s.masked_fill(~keep & ~empty, -math.inf)
            return torch.softmax(s, dim=-1).masked_fill(empty, 0.0) @ v
        return torch.softmax(s + options.get("bias", 0.0), dim=-1) @ v

    return call


def caches() -> list[Tensor]:
    held = [*jobs._KEPT.values(), *(x for x in base._SEEN.values() if x is not None)]
    return held + [plan.pairs.start for plan in plans._PLANS.values()]


# ---- without numbers


@EVERY
def test_fake_tensors_get_shapes_and_leave_the_caches_real(name):
    plain = run(name)(*inputs())
    with FakeTensorMode(allow_non_fake_inputs=True):
        q, k, v = inputs()
        out = run(name)(q, k, v)
        assert (out.shape, out.dtype) == (plain.shape, plain.dtype)
        dq, dk, dv = torch.autograd.grad(out.sum(), (q, k, v))
        assert [x.shape for x in (dq, dk, dv)] == [x.shape for x in (q, k, v)]
    assert all(type(x) is Tensor for x in caches())  # nothing fake is kept for later calls
    assert torch.equal(run(name)(*inputs()), plain)


@EVERY
def test_meta_tensors_get_shapes_and_gradients(name):
    q, k, v = (x.detach().to("meta").requires_grad_() for x in inputs())
    kernel, options = CALLS[name]
    given = {key: make() for key, make in options.items()}
    given = {key: x.to("meta") if isinstance(x, Tensor) else x for key, x in given.items()}
    if "score" in given:
        given["score"] = scores.Tanh(given["score"].v.to("meta"))
    with forced(kernel):
        out = attention(q, k, v, **given)
    assert (out.shape, out.device.type) == ((B, H, N, D), "meta")
    out.sum().backward()
    assert q.grad is not None
    assert q.grad.shape == q.shape


def test_a_layer_on_the_meta_device_gives_shapes():
    layer = regard.MultiHeadAttention(12, 3, rotary=True).to("meta")
    x = torch.randn(2, 5, 12, device="meta")
    out, weights = layer(x, x, x, mask=torch.zeros(5, 5, device="meta"))
    assert (out.shape, weights.shape, out.device.type) == ((2, 5, 12), (2, 3, 5, 5), "meta")


DISTRIBUTED = """
import sys, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
import regard
dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
mesh = init_device_mesh("cpu", (1,))
x = torch.randn(1, 2, 1024, 8)
spread = distribute_tensor(x, mesh, [Shard(1)])
for options in ({}, {"mask": regard.window(3, 0)}, {"score": regard.scores.Tanh(torch.ones(8))}):
    try:
        regard.attention(spread, spread, spread, **options)
    except regard.RegardError as error:
        assert "q: a DTensor" in str(error) and "q.to_local()" in str(error), error
    else:
        sys.exit("not refused")
    local = spread.to_local()
    assert torch.equal(regard.attention(local, local, local, **options), regard.attention(x, x, x, **options))
dist.destroy_process_group()
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
def test_distributed_tensors_are_refused():
    done = subprocess.run([sys.executable, "-c", DISTRIBUTED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


# ---- recorded and run again


@EVERY
@pytest.mark.parametrize("mode", ["real", "fake"])
def test_make_fx_records_what_is_computed(name, mode):
    graph = make_fx(run(name), tracing_mode=mode)(*inputs())
    other = [x.detach().flip(2) * 0.7 for x in inputs()]
    assert torch.allclose(graph(*other), run(name)(*other), atol=1e-6)


@QUICK
def test_make_fx_records_gradients(name):
    def grads(q, k, v):
        q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
        return torch.autograd.grad(run(name)(q, k, v).sin().sum(), (q, k, v))

    graph = make_fx(grads)(*inputs())
    other = [x.detach().flip(2) * 0.7 for x in inputs()]
    for got, want in zip(graph(*other), grads(*other), strict=True):
        assert torch.allclose(got, want, atol=1e-6)


@pytest.mark.parametrize("traced", [torch.zeros(N, N), torch.linspace(-1, 1, N * N).reshape(N, N)])
def test_make_fx_keeps_a_mask_an_input(traced):
    """A graph that was recorded with a mask that hides nothing serves one that hides much."""
    q, k, v = (x.detach() for x in inputs())
    graph = make_fx(lambda q, k, v, mask: attention(q, k, v, mask=mask))(q, k, v, traced)
    mask = torch.zeros(N, N).masked_fill(torch.ones(N, N).triu(1) > 0, -math.inf)
    assert torch.allclose(graph(q, k, v, mask), attention(q, k, v, mask=mask), atol=1e-6)


@QUICK
def test_functionalize_gives_the_same_output(name):
    q, k, v = (x.detach() for x in inputs())
    found = torch.func.functionalize(run(name))(q, k, v)
    assert torch.allclose(found, run(name)(q, k, v), atol=1e-6)


class Attends(nn.Module):
    def __init__(self, name: str):
        super().__init__()
        self.call = run(name)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.call(q, k, v)


@pytest.mark.parametrize("name", ["plain", pytest.param("additive in C", marks=IN_C), "padding"])
def test_exported_programs_give_the_same_output(name):
    q, k, v = (x.detach() for x in inputs())
    with forced(CALLS[name][0]):
        program = torch.export.export(Attends(name), (q, k, v)).module()
    assert torch.allclose(program(q, k, v), run(name)(q, k, v), atol=1e-6)


def test_an_exported_layer_with_a_long_window_gives_the_same_output():
    q, k, v = (torch.randn(1, 1, 700, D) for _ in range(3))
    call = regard.MultiHeadAttention(D, 1)
    program = torch.export.export(_Windowed(call), (q[0], k[0], v[0])).module()
    assert torch.allclose(program(q[0], k[0], v[0]), _Windowed(call)(q[0], k[0], v[0]), atol=1e-5)


class _Windowed(nn.Module):
    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.layer(q, k, v, mask=window(9, 0), need_weights=False)[0]


# ---- the operators themselves


@IN_C
@pytest.mark.parametrize("operator", ["scores", "scores backward", "block-sparse", "block-sparse backward"])
def test_operators_keep_the_rules_of_torch(operator):
    a, c, v = torch.randn(2, 7, 33), torch.randn(2, 5, 33), torch.randn(33)
    if operator == "scores":
        leaves = [x.requires_grad_() for x in (a, c, v)]
        torch.library.opcheck(additive._scores, leaves)
        return
    if operator == "scores backward":
        torch.library.opcheck(additive._scores_backward, (torch.randn(2, 7, 5), a, c, v))
        return
    with forced("block-sparse in C"):
        plan = plans.plan_for(window(3, 0), Grid(1, 2, 130, 130))
        assert plan is not None
        job = jobs.BlockSparseJob(plan, window(3, 0), Grid(1, 2, 130, 130), None, 0.3)
    blocks = [torch.randn(2, 3, 64, 16) for _ in range(3)]
    pattern = compiled._pattern(job)
    if operator == "block-sparse":
        torch.library.opcheck(compiled._attend, (*blocks, *pattern))
    else:
        out, lse = compiled._attend(*blocks, *pattern)
        torch.library.opcheck(compiled._attend_backward, (torch.randn_like(out), *blocks, out, lse, *pattern))


def test_calling_the_operators_loads_no_compiler():
    code = (
        "import sys, torch, regard\nfrom regard import scores, window\n"
        "x = torch.randn(1, 1, 1024, 16, requires_grad=True)\n"
        "regard.attention(x, x, x, mask=window(3, 0)).sum().backward()\n"
        "regard.attention(x, x, x, score=scores.Tanh(torch.ones(16))).sum().backward()\n"
        "assert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


# ---- derivatives


@EVERY
def test_second_derivatives_are_right_or_refused(name):
    q, k, v = inputs()
    call, exact = run(name), formula(name)
    first = torch.autograd.grad(exact(q, k, v).sin().sum(), (q, k, v), create_graph=True)
    expected = torch.autograd.grad(sum(x.pow(2).sum() for x in first), (q, k, v))
    found = torch.autograd.grad(call(q, k, v).sin().sum(), (q, k, v), create_graph=True)
    for got, want in zip(found, first, strict=True):
        assert torch.allclose(got, want, atol=1e-5)
    try:
        second = torch.autograd.grad(sum(x.pow(2).sum() for x in found), (q, k, v))
    except RuntimeError as error:
        assert "not implemented" in str(error)  # noqa: PT017
        assert CALLS[name][0] == "default"  # torch's own kernel
        return
    for got, want in zip(second, expected, strict=True):
        assert torch.allclose(got, want, atol=1e-4)
        assert want.abs().max() > 1e-3


@IN_C
@pytest.mark.parametrize("name", ["additive in C", "block-sparse in C"])
def test_second_derivatives_are_right_if_queries_are_the_keys(name):
    x, _, v = inputs()
    found, expected = (
        torch.autograd.grad(call(x, x, v).sin().sum(), x, create_graph=True)[0]
        for call in (run(name), formula(name))
    )
    assert torch.allclose(found, expected, atol=1e-5)
    second = torch.autograd.grad(found.pow(2).sum(), x)[0]
    assert torch.allclose(second, torch.autograd.grad(expected.pow(2).sum(), x)[0], atol=1e-4)


@EVERY
def test_forward_mode_derivatives_are_those_of_the_formula(name):
    primals = [x.detach() for x in inputs()]
    tangents = [torch.linspace(-1, 1, x.numel()).reshape(x.shape) for x in primals]
    out, along = torch.func.jvp(run(name), tuple(primals), tuple(tangents))[:2]
    want_out, want = torch.func.jvp(formula(name), tuple(primals), tuple(tangents))[:2]
    assert torch.allclose(out, want_out, atol=1e-5)
    assert torch.allclose(along, want, atol=1e-4)
    with torch.autograd.forward_ad.dual_level():
        duals = [torch.autograd.forward_ad.make_dual(*pair) for pair in zip(primals, tangents, strict=True)]
        same = torch.autograd.forward_ad.unpack_dual(run(name)(*duals)).tangent
    assert torch.allclose(same, want, atol=1e-4)


@EVERY
def test_grad_and_vmap_of_torch_func_are_those_of_the_formula(name):
    q, k, v = (x.detach() for x in inputs())
    call, exact = run(name), formula(name)

    def loss(call):
        return lambda q, k, v: call(q, k, v).sin().sum()

    for got, want in zip(
        torch.func.grad(loss(call), (0, 1, 2))(q, k, v),
        torch.func.grad(loss(exact), (0, 1, 2))(q, k, v),
        strict=True,
    ):
        assert torch.allclose(got, want, atol=1e-5)
    many = torch.stack([q, q.flip(2), q * 0.3])
    assert torch.allclose(
        torch.func.vmap(call, (0, None, None))(many, k, v),
        torch.stack([exact(one, k, v) for one in many]),
        atol=1e-5,
    )
    per_sample = torch.func.vmap(torch.func.grad(loss(call)), (0, None, None))(many, k, v)
    expected = torch.stack([torch.func.grad(loss(exact))(one, k, v) for one in many])
    assert torch.allclose(per_sample, expected, atol=1e-4)


@QUICK
def test_nested_transforms_are_those_of_the_formula(name):
    q, k, v = (x.detach() for x in inputs())

    def slope(call):
        return lambda q: torch.func.grad(lambda q: call(q, k, v).sin().sum())(q).pow(2).sum()

    assert torch.allclose(
        torch.func.grad(slope(run(name)))(q), torch.func.grad(slope(formula(name)))(q), atol=1e-4
    )
    along = torch.ones_like(q)
    found = torch.func.jvp(slope(run(name)), (q,), (along,))[1]
    assert torch.allclose(found, torch.func.jvp(slope(formula(name)), (q,), (along,))[1], rtol=1e-4)


def test_masks_may_be_batched_by_vmap():
    q, k, v = (x.detach() for x in inputs())
    masks = torch.stack(
        [torch.zeros(N, N), torch.zeros(N, N).masked_fill(torch.ones(N, N).triu(1) > 0, -math.inf)]
    )
    found = torch.func.vmap(lambda mask: attention(q, k, v, mask=mask))(masks)
    assert torch.allclose(found[0], attention(q, k, v), atol=1e-6)
    assert torch.allclose(found[1], attention(q, k, v, mask=causal()), atol=1e-6)
