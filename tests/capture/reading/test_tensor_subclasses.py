"""Tests of capture() with quantised, distributed, sparse and fake tensors."""

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_map

import regard
from regard.errors import CaptureError

B, H, N, D = 2, 3, 5, 7
M = H * D


class HandAttention(nn.Module):
    """Attention written by hand, as the eager mode of Hugging Face is."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v, self.o = (nn.Linear(M, M) for _ in range(4))

    def forward(self, x):
        q, k, v = (f(x).view(B, N, H, D).transpose(1, 2) for f in (self.q, self.k, self.v))  # (b,h,n,d)
        weights = (q @ k.transpose(-2, -1) / D**0.5).softmax(-1)  # (b,h,q,k)
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class Layers(nn.Module):
    """Two attentions, one after the other."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([HandAttention(), HandAttention()])

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


class Wrapping(torch.Tensor):
    """A tensor around another, without a storage of its own, which unwraps what its operations are given."""

    @staticmethod
    def __new__(cls, inside):
        return torch.Tensor._make_wrapper_subclass(
            cls, inside.shape, strides=inside.stride(), dtype=inside.dtype
        )

    def __init__(self, inside):
        self.inside = inside

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def plain(x):
            return x.inside if isinstance(x, cls) else x

        result = func(*tree_map(plain, args), **tree_map(plain, kwargs or {}))
        return tree_map(lambda x: cls(x) if isinstance(x, torch.Tensor) else x, result)


class Rounded(torch.Tensor):
    """A weight in eight bits that only knows ``F.linear``, as those of torchao do."""

    @staticmethod
    def __new__(cls, numbers, scale):
        return torch.Tensor._make_wrapper_subclass(cls, numbers.shape, dtype=scale.dtype)

    def __init__(self, numbers, scale):
        self.numbers, self.scale = numbers, scale

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is nn.functional.linear:
            x, weight, bias = args
            return nn.functional.linear(x, weight.numbers.to(x.dtype) * weight.scale, bias)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.detach.default:
            return cls(args[0].numbers, args[0].scale)
        raise NotImplementedError(func)


def rounded(model):
    for module in model.modules():
        if isinstance(module, nn.Linear):
            scale = module.weight.detach().abs().amax() / 127
            numbers = (module.weight.detach() / scale).round().to(torch.int8)
            module.weight = nn.Parameter(Rounded(numbers, scale), requires_grad=False)
    return model


def wrapped(model):
    for module in model.modules():
        for name, parameter in module._parameters.items():
            setattr(module, name, nn.Parameter(Wrapping(parameter.detach())))
    return model


def sparse(model):
    class SparseLinear(nn.Module):
        def __init__(self, linear):
            super().__init__()
            self.weight = nn.Parameter(linear.weight.detach().to_sparse())

        def forward(self, x):
            return torch.sparse.mm(self.weight, x.flatten(0, 1).T).T.view(x.shape)

    for module in model.modules():
        if isinstance(module, HandAttention):
            module.k = SparseLinear(module.k)
    return model


def expected_weights(layer, x):
    """Return the weights of the formula, computed from the layer's own projections."""
    q, k = (f(x).view(B, N, H, D).transpose(1, 2).double() for f in (layer.q, layer.k))
    return (q @ k.mT / D**0.5).softmax(-1)


@pytest.mark.parametrize("change", [rounded, sparse])
def test_models_with_parameters_of_a_tensor_subclass_are_recorded(change):
    model, x = change(Layers()), torch.randn(B, N, M)
    with torch.no_grad():
        plain = model(x)
        with regard.capture(model) as seen:
            assert torch.equal(model(x), plain)
        expected = expected_weights(model.layers[0], x)
    assert [record.layer for record in seen] == [0, 1]
    assert torch.allclose(seen[0].map.weights().double(), expected, atol=1e-5)


@pytest.mark.parametrize("by_hand", [True, False])
def test_models_with_inputs_of_a_tensor_subclass_are_recorded(by_hand):
    class Function(HandAttention):
        def forward(self, x):
            q, k, v = (f(x).view(B, N, H, D).transpose(1, 2) for f in (self.q, self.k, self.v))
            return nn.functional.scaled_dot_product_attention(q, k, v)

    plain = HandAttention() if by_hand else Function()
    x = torch.randn(B, N, M)
    expected = expected_weights(plain, x)
    model = wrapped(plain)
    with torch.no_grad(), regard.capture(model) as seen:
        out = model(Wrapping(x))
    assert type(out) is Wrapping
    assert type(seen[0].map.weights()) is torch.Tensor
    assert torch.allclose(seen[0].map.weights().double(), expected, atol=1e-5)


def test_a_product_with_a_wrapped_parameter_is_not_a_score():
    class Router(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.gate = HandAttention(), nn.Linear(M, 11)

        def forward(self, x):
            return self.attention(x) * self.gate(x).softmax(-1).amax(-1, keepdim=True)

    for change in (rounded, wrapped):
        model = change(Router())
        x = torch.randn(B, N, M)
        with torch.no_grad(), regard.capture(model) as seen:  # a warning would be an error
            model(Wrapping(x) if change is wrapped else x)
        assert [record.name for record in seen] == ["attention"]


@pytest.fixture
def mesh():
    """A mesh of this process alone."""
    distributed = pytest.importorskip("torch.distributed", reason="torch was built without distributed")
    if not distributed.is_available() or not distributed.is_gloo_available():
        pytest.skip("torch was built without gloo")
    from torch.distributed.device_mesh import init_device_mesh

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        yield init_device_mesh("cpu", (1,))
    finally:
        distributed.destroy_process_group()


@pytest.mark.parametrize("local", [True, False])
def test_tensor_parallel_models_are_recorded(mesh, local):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    model, x = Layers().eval(), torch.randn(B, N, M)
    expected = expected_weights(model.layers[0], x)
    for layer in model.layers:
        columns = {name: ColwiseParallel(use_local_output=local) for name in "qkv"}
        parallelize_module(layer, mesh, {**columns, "o": RowwiseParallel()})
    with torch.no_grad():
        plain = model(x)
        with regard.capture(model) as seen:
            assert torch.equal(model(x), plain)
    assert [record.layer for record in seen] == [0, 1]
    assert type(seen[0].map.weights()) is torch.Tensor
    assert torch.allclose(seen[0].map.weights().double(), expected, atol=1e-5)


def test_models_with_distributed_token_ids_are_recorded_and_labelled(mesh):
    from torch.distributed.tensor import Replicate, distribute_module, distribute_tensor

    class Language(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(13, M)

        def forward(self, ids):
            x = self.words(ids)[:, None]  # (b,h,n,d)
            return nn.functional.scaled_dot_product_attention(x, x, x)

    model, ids = Language(), torch.randint(0, 13, (B, N))
    x = model.words(ids).detach().double()
    distribute_module(model, mesh)
    # DTensor has no rule for the fused kernel of the CPU.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        given = distribute_tensor(ids, mesh, [Replicate()])
        with regard.capture(model) as seen:
            model(given)
    assert seen[0].tokens == [[str(n) for n in row] for row in ids.tolist()]
    expected = (x @ x.mT / M**0.5).softmax(-1)
    assert torch.allclose(seen[0].map.weights()[:, 0].double(), expected, atol=1e-5)


@pytest.mark.parametrize("config", ["Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig"])
def test_models_quantised_by_torchao_are_recorded(config):
    quantization = pytest.importorskip("torchao.quantization", reason="torchao is not installed")
    model, x = Layers().eval(), torch.randn(B, N, M)
    quantization.quantize_(model, getattr(quantization, config)())
    with torch.no_grad():
        plain = model(x)
        with regard.capture(model) as seen:
            assert torch.equal(model(x), plain)
        expected = expected_weights(model.layers[0], x)
    assert torch.allclose(seen[0].map.weights().double(), expected, atol=1e-5)


@pytest.mark.parametrize("make", [HandAttention, lambda: nn.TransformerEncoderLayer(M, H, batch_first=True)])
def test_tensors_without_data_are_refused(make):
    model, x = make().to("meta").eval(), torch.randn(B, N, M, device="meta")
    with pytest.raises(CaptureError, match="meta device has no numbers"), regard.capture(model):
        model(x)
    with FakeTensorMode():
        model, x = make().eval(), torch.randn(B, N, M)
        with pytest.raises(CaptureError, match="fake tensors has no numbers"), regard.capture(model):
            model(x)
