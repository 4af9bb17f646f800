"""The output layer and its loss in one step, against the two steps torch has for them."""

import itertools

import pytest
import torch
from torch.nn import functional as F

from regard.training import losses, output_cross_entropy

N, M, V = 17, 5, 11


def inputs(dtype=torch.float64, *, bias=True, frozen=()):
    torch.manual_seed(3)
    made = {
        "hidden": torch.randn(N, M, dtype=dtype),
        "weight": torch.randn(V, M, dtype=dtype),
        "bias": torch.randn(V, dtype=dtype) if bias else None,
    }
    for name, x in made.items():
        if x is not None and name not in frozen:
            x.requires_grad_()
    return made, torch.randint(V, (N,))


def plain(x, targets, smoothing):
    scores = F.linear(x["hidden"], x["weight"], x["bias"])
    return F.cross_entropy(scores, targets, reduction="sum", label_smoothing=smoothing)


def gradients(loss, x):
    leaves = [one for one in x.values() if one is not None and one.requires_grad]
    return torch.autograd.grad(2.5 * loss, leaves)


def assert_same(x, targets, smoothing, tolerance):
    ours = output_cross_entropy(**x, targets=targets, smoothing=smoothing)
    theirs = plain(x, targets, smoothing)
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
    for mine, other in zip(gradients(ours, x), gradients(theirs, x), strict=True):
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)


def test_losses_are_those_computed_by_hand():
    # scores log 3 and 0: probabilities 3/4 and 1/4
    hidden, weight = torch.tensor([[3.0]]).log(), torch.tensor([[1.0], [0.0]])
    right, wrong = (output_cross_entropy(hidden, weight, None, torch.tensor([t])) for t in (0, 1))
    assert float(right) == pytest.approx(0.28768207)  # log 4/3
    assert float(wrong) == pytest.approx(1.38629436)  # log 4
    spread = output_cross_entropy(hidden, weight, None, torch.tensor([0]), smoothing=0.5)
    assert float(spread) == pytest.approx(0.75 * 0.28768207 + 0.25 * 1.38629436)


CASES = list(itertools.product([1, V, 3 * V, 5 * V + 2, 2**20], [0.0, 0.1], [True, False]))


@pytest.mark.parametrize(("numbers", "smoothing", "bias"), CASES)
def test_value_and_gradients_equal_cross_entropy_in_float64_for_any_block_size(
    monkeypatch, numbers, smoothing, bias
):
    monkeypatch.setattr(losses, "_NUMBERS", numbers)
    x, targets = inputs(bias=bias)
    assert_same(x, targets, smoothing, 1e-12)


@pytest.mark.parametrize("numbers", [3 * V, 2**20])
def test_value_and_gradients_equal_cross_entropy_in_float32(monkeypatch, numbers):
    monkeypatch.setattr(losses, "_NUMBERS", numbers)
    x, targets = inputs(torch.float32)
    assert_same(x, targets, 0.1, 1e-5)


NAMES = ("hidden", "weight", "bias")
FROZEN = [frozen for k in (1, 2) for frozen in itertools.combinations(NAMES, k)]


@pytest.mark.parametrize("frozen", FROZEN, ids="+".join)
def test_frozen_inputs_get_no_gradient(frozen):
    x, targets = inputs(frozen=frozen)
    assert_same(x, targets, 0.1, 1e-12)


def test_without_gradients_nothing_is_kept_for_the_backward_pass(monkeypatch):
    x, targets = inputs()
    expected = plain(x, targets, 0.1)
    asked = []
    whole = losses._loss_and_slope
    monkeypatch.setattr(losses, "_loss_and_slope", lambda *a: asked.append(a[3]) or whole(*a))
    with torch.no_grad():
        loss = output_cross_entropy(**x, targets=targets, smoothing=0.1)
    assert not loss.requires_grad
    assert asked == [False]
    torch.testing.assert_close(loss, expected.detach(), rtol=1e-12, atol=1e-12)


def test_inputs_are_left_as_they_are():
    x, targets = inputs()
    before = {name: value.detach().clone() for name, value in x.items()}
    output_cross_entropy(**x, targets=targets, smoothing=0.1).backward()
    for name, value in before.items():
        assert torch.equal(x[name].detach(), value)


def test_large_scores_do_not_overflow():
    hidden = torch.tensor([[1000.0]], requires_grad=True)
    loss = output_cross_entropy(hidden, torch.tensor([[1.0], [-1.0]]), None, torch.tensor([1]))
    assert loss.item() == 2000.0
    assert float(torch.autograd.grad(loss, hidden)[0]) == 2.0


def test_no_tokens_give_a_loss_of_zero():
    x, _ = inputs()
    hidden = torch.empty(0, M, dtype=torch.float64, requires_grad=True)
    loss = output_cross_entropy(hidden, x["weight"], x["bias"], torch.empty(0, dtype=torch.long))
    loss.backward()
    assert loss.item() == 0
    assert not x["weight"].grad.any()


@pytest.mark.parametrize("numbers", [3 * V, 2**20])
def test_under_autocast_the_loss_equals_cross_entropy(monkeypatch, numbers):
    monkeypatch.setattr(losses, "_NUMBERS", numbers)
    x, targets = inputs(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours = output_cross_entropy(**x, targets=targets, smoothing=0.1)
        theirs = F.cross_entropy(
            F.linear(x["hidden"], x["weight"], x["bias"]).float(),
            targets,
            reduction="sum",
            label_smoothing=0.1,
        )
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=0.0)
    for mine, other in zip(gradients(ours, x), gradients(theirs, x), strict=True):
        # Both round the derivatives of the logits to bfloat16, which has 8 bits.
        torch.testing.assert_close(mine, other, rtol=0.02, atol=0.02)
        assert mine.dtype == torch.float32
    exact = plain(x, targets, 0.1)
    torch.testing.assert_close(ours, exact, rtol=0.02, atol=0.0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_agrees_with_float32(dtype):
    x, targets = inputs(dtype)
    wide = {name: value.detach().float().requires_grad_() for name, value in x.items()}
    ours, exact = output_cross_entropy(**x, targets=targets), plain(wide, targets, 0.0)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, exact, rtol=0.02, atol=0.0)
    for mine, other in zip(gradients(ours, x), gradients(exact, wide), strict=True):
        assert mine.dtype == dtype
        torch.testing.assert_close(mine.float(), other, rtol=0.05, atol=0.15)


def test_the_loss_works_on_the_meta_device():
    x, targets = inputs(torch.float32)
    moved = {name: value.detach().to("meta").requires_grad_() for name, value in x.items()}
    loss = output_cross_entropy(**moved, targets=targets.to("meta"), smoothing=0.1)
    loss.backward()
    assert loss.shape == ()
    assert moved["weight"].grad.shape == (V, M)
    assert moved["weight"].grad.device.type == "meta"


def test_second_derivatives_are_refused_rather_than_wrong():
    x, targets = inputs()
    loss = output_cross_entropy(**x, targets=targets)
    (slope,) = torch.autograd.grad(loss, x["hidden"], create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        slope.sum().backward()
