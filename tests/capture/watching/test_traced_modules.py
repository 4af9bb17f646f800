"""Tests of which modules and products are traced operation by operation."""

import pytest
import torch
from torch import nn

import regard
from support.capture_cases import Chain, Manual, ManualAttention


def test_modules_of_one_class_with_other_settings_are_each_recorded():
    model = Chain(*(ManualAttention(fused) for fused in (True, True, False, True, False)))
    with regard.capture(model) as seen:
        model(torch.randn(2, 3, 4))
    assert [record.layer for record in seen] == [0, 1, 2, 3, 4]


def test_a_handwritten_softmax_in_a_later_module_is_warned_of():
    model = Chain(ManualAttention(True), ManualAttention(True), Manual(True), Manual(False))
    with (
        pytest.warns(UserWarning, match=r"a softmax in 'layers.3'"),
        regard.capture(model) as seen,
    ):
        model(torch.randn(2, 3, 4))
    assert len(seen) == 3


class Changing(ManualAttention):
    """Attention by torch's function in the first call and by hand afterwards, without a visible setting."""

    def forward(self, x):
        self.fused = True  # as it looks from outside
        self.calls = getattr(self, "calls", 0) + 1
        q = self.made(x)
        if self.calls == 1:
            return super().forward(x)
        return (q @ x.mT / 2).softmax(-1) @ x


def test_a_module_that_switches_to_attention_by_hand_is_warned_of():
    model = Chain(Changing(True))
    told = r"a softmax in 'layers.0'"
    with pytest.warns(UserWarning, match=told), regard.capture(model):
        model(model(torch.randn(2, 3, 4)))
    model.layers[0].calls = 0
    with regard.capture(model, modules=["layers.0"]) as seen:  # as it advises
        model(model(torch.randn(2, 3, 4)))
    assert len(seen) == 2


def test_known_functions_are_not_traced_operation_by_operation(monkeypatch):
    from regard.capture.watching.modes import OperationMode

    shown, real = [], OperationMode.__torch_dispatch__

    def counted(self, func, *rest, **options):
        shown.append(func)
        return real(self, func, *rest, **options)

    monkeypatch.setattr(OperationMode, "__torch_dispatch__", counted)
    model = Chain(*(ManualAttention(fused) for fused in (True, True, False, True)))
    with regard.capture(model) as seen:
        model(torch.randn(2, 3, 4))
    assert len(seen) == 4
    names = [str(op) for op in shown]
    # Small calls of torch's attention, products, scalings and softmaxes are known by their functions.
    assert names == []
    with regard.capture(model) as seen:
        model(torch.randn(2, 400, 4))
    assert len(seen) == 4
    names = [str(op) for op in shown]
    assert sum("scaled_dot_product" in name for name in names) == 3  # they give their log-sum-exp
    assert not {"aten.addmm.default", "aten._softmax.default"} & set(names)


class ByOperators(nn.Module):
    """Attention by operators or unusual functions of torch."""

    def __init__(self, way):
        super().__init__()
        self.way = way

    def forward(self, x):
        # A product of two sequences by the function of a layer.
        if self.way == "linear":
            return torch.softmax(nn.functional.linear(x[0], x[0]) / 2, -1) @ x[0]
        if self.way == "operators":
            return torch.ops.aten._softmax(torch.ops.aten.bmm.default(x, x.mT) / 2, -1, False) @ x
        if self.way == "einsum":
            return torch.einsum("bqk,bkd->bqd", torch.einsum("bqd,bkd->bqk", x, x).div(2).softmax(-1), x)
        return ByGradient.apply(x) if self.way == "gradient" else from_elsewhere(x)


def from_elsewhere(x):
    """Compute attention in a function that passes itself to the function modes, as functions of other libraries do."""
    if torch.overrides.has_torch_function_unary(x):
        return torch.overrides.handle_torch_function(from_elsewhere, (x,), x)
    return (x @ x.mT / 2).softmax(-1) @ x


class ByGradient(torch.autograd.Function):
    """Attention as an autograd function."""

    @staticmethod
    def forward(ctx, x):
        return torch.special.softmax(x @ x.mT / 2, -1) @ x


@pytest.mark.parametrize("way", ["linear", "operators", "einsum", "gradient", "elsewhere"])
def test_attention_by_operators_and_unusual_functions_is_traced(way):
    model = Chain(ByOperators(way))
    x = torch.randn(2, 3, 4)
    with regard.capture(model, modules=["layers.0"]) as seen:
        model(x)
    held = x[:1] if way == "linear" else x
    expected = (held @ held.mT / 2).softmax(-1)
    assert torch.allclose(seen[0].map[:][:, 0], expected, atol=1e-6)
    # Computed from the queries and keys, not stored.
    assert "recomputed" in repr(seen[0].map)
