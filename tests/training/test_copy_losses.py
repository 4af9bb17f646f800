"""The loss of a mixture of generated and copied tokens, against the plain formula in float64."""

import itertools

import pytest
import torch

from regard.copying import CopyStates
from regard.training import copy_cross_entropy, copy_losses

B, T, S, M, V = 2, 5, 7, 3, 11


def inputs(dtype=torch.float64, *, bias=True):
    """Return the leaves, the source and the targets. Some targets are in the source, some twice, and some are not."""
    torch.manual_seed(3)
    x = {
        "hidden": torch.randn(B, T, M, dtype=dtype),
        "gate": torch.randn(B, T, dtype=dtype),
        "scores": torch.randn(B, T, S, dtype=dtype),
        "weight": torch.randn(V, M, dtype=dtype),
    }
    if bias:
        x["bias"] = torch.randn(V, dtype=dtype)
    source, targets = torch.randint(V - 3, (B, S)), torch.randint(V, (B, T))
    source[:, 1], targets[:, 0], targets[0, 1] = source[:, 0], source[:, 0], V - 1
    return {name: tensor.requires_grad_() for name, tensor in x.items()}, source, targets


def states_of(x, source) -> CopyStates:
    weights = x["scores"].softmax(dim=-1) * (torch.arange(S) < S - 1)  # the last position is padding
    return CopyStates(x["hidden"], x["gate"], weights, source)


def plain(x, source, targets, counted, smoothing):
    """Return the same loss from the whole matrix of probabilities."""
    states = states_of(x, source)
    generated = torch.nn.functional.linear(states.hidden, x["weight"], x.get("bias")).softmax(dim=-1)
    gate = states.gate.sigmoid()[..., None]
    copied = torch.zeros_like(generated).scatter_add(-1, source[:, None].expand(B, T, S), states.weights)
    log_p = (gate * generated + (1 - gate) * copied).log()  # (b,t,v)
    right = log_p.gather(-1, targets[..., None])[..., 0]
    return -((1 - smoothing) * right + smoothing * log_p.mean(dim=-1))[counted].sum()


def ours(x, source, targets, counted, smoothing):
    states = states_of(x, source)
    output = (x["weight"], x.get("bias"))
    return copy_cross_entropy(states, *output, targets, counted=counted, smoothing=smoothing)


def assert_same(x, source, targets, smoothing, tolerance=1e-10):
    counted = torch.rand(B, T) < 0.7
    leaves = list(x.values())
    found, expected = (f(x, source, targets, counted, smoothing) for f in (ours, plain))
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    gradients = (torch.autograd.grad(2.5 * loss, leaves) for loss in (found, expected))
    for mine, other in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)


CASES = list(itertools.product([1, V, 3 * V, 2**20], [0.0, 0.1], [True, False]))


@pytest.mark.parametrize(("numbers", "smoothing", "bias"), CASES)
def test_value_and_gradients_equal_the_formula_for_any_block_size(monkeypatch, numbers, smoothing, bias):
    monkeypatch.setattr(copy_losses, "_NUMBERS", numbers)
    assert_same(*inputs(bias=bias), smoothing)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_form_without_blocks_is_the_same(monkeypatch, smoothing):
    monkeypatch.setattr(copy_losses, "is_in_blocks", lambda hidden: False)
    assert_same(*inputs(), smoothing)


def test_every_target_counts_by_default():
    x, source, targets = inputs()
    everything = torch.ones(B, T, dtype=torch.bool)
    states, output = states_of(x, source), (x["weight"], x["bias"])
    assert copy_cross_entropy(states, *output, targets) == ours(x, source, targets, everything, 0.0)


def test_the_loss_is_the_negative_log_of_the_output_of_a_model():
    from regard.models.heads import CopyHead

    x, source, targets = inputs()
    head = CopyHead(M, V).double()
    head.weight, head.bias = torch.nn.Parameter(x["weight"].detach()), torch.nn.Parameter(x["bias"].detach())
    log_p = head(states_of(x, source)).gather(-1, targets[..., None]).sum()
    loss = copy_cross_entropy(states_of(x, source), head.weight, head.bias, targets)
    torch.testing.assert_close(loss, -log_p)


@pytest.mark.parametrize("gate", [-1e4, -90.0, 90.0, 1e4])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("in_blocks", [True, False])
def test_extreme_gates_and_logits_give_finite_losses_and_gradients(monkeypatch, gate, smoothing, in_blocks):
    monkeypatch.setattr(copy_losses, "is_in_blocks", lambda hidden: in_blocks)
    x, source, targets = inputs(torch.float32)
    with torch.no_grad():
        x["gate"].fill_(gate)
        x["weight"].mul_(100)  # probabilities of 0 in float32
        x["scores"].mul_(60)
        x["scores"][0, 0] = torch.linspace(0, -101, S)  # weights down to subnormal numbers
    loss = ours(x, source, targets, torch.ones(B, T, dtype=torch.bool), smoothing)
    assert bool(loss.isfinite())
    for gradient in torch.autograd.grad(loss, list(x.values())):
        assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("numbers", [3 * V, 2**20])
def test_autocast_gives_nearly_the_same_in_float32(monkeypatch, numbers):
    monkeypatch.setattr(copy_losses, "_NUMBERS", numbers)
    x, source, targets = inputs(torch.float32)
    counted = torch.ones(B, T, dtype=torch.bool)
    exact = ours(x, source, targets, counted, 0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = ours(x, source, targets, counted, 0.1)
    assert rounded.dtype == torch.float32
    torch.testing.assert_close(rounded, exact, rtol=0.02, atol=0.0)
    gradients = (torch.autograd.grad(loss, list(x.values())) for loss in (rounded, exact))
    for mine, other in zip(*gradients, strict=True):
        assert mine.dtype == torch.float32
        torch.testing.assert_close(mine, other, rtol=0.05, atol=0.05)


def test_no_gradients_are_computed_where_none_are_wanted():
    x, source, targets = inputs()
    with torch.no_grad():
        loss = ours(x, source, targets, torch.ones(B, T, dtype=torch.bool), 0.1)
    assert not loss.requires_grad
    x["weight"].requires_grad_(False)
    ours(x, source, targets, torch.ones(B, T, dtype=torch.bool), 0.1).backward()
    assert x["weight"].grad is None
    assert x["gate"].grad is not None


def test_no_counted_tokens_give_a_loss_of_zero():
    x, source, targets = inputs()
    loss = ours(x, source, targets, torch.zeros(B, T, dtype=torch.bool), 0.1)
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert float(x["hidden"].grad.abs().sum()) == 0.0
