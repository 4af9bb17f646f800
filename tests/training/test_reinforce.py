"""The gradient of REINFORCE against exact gradients of the expected reward."""

import itertools

import pytest
import torch

from regard.errors import ShapeError
from regard.training.reinforce import advantages, baseline_loss, policy_loss

REWARDS = torch.tensor(
    [[1.0, -2.0, 0.5], [0.3, 3.0, -1.0]], dtype=torch.float64
)  # (first choice, second choice)


def log_policy(weights):
    """Return the log probabilities of two choices, where those of the second depend on the first."""
    first = weights[:2].log_softmax(0)  # (2,)
    second = weights[2:].reshape(2, 3).log_softmax(1)  # (2,3)
    return first, second


def exact_gradient(weights):
    weights = weights.clone().requires_grad_()
    first, second = log_policy(weights)
    (first[:, None] + second).exp().mul(REWARDS).sum().backward()
    return weights.grad


def expected_estimate(weights, samples, baseline, rewards=REWARDS):
    """Return the expectation and the variance of the estimate, over all outcomes of all samples of one input."""
    weights = weights.clone().requires_grad_()
    first, second = log_policy(weights)
    mean, square = torch.zeros_like(weights), torch.zeros(())
    for outcome in itertools.product(itertools.product(range(2), range(3)), repeat=samples):
        a, b = torch.tensor(outcome).T
        returns = rewards[a, b][None, :, None].expand(1, samples, 2)  # one reward after both choices
        logs = torch.stack([first[a], second[a, b]], dim=-1)[None]  # (1,s,2)
        gains = advantages(returns, torch.full_like(returns, baseline), normalised=False)
        (gradient,) = torch.autograd.grad(policy_loss(logs, gains), weights, retain_graph=True)
        chance = logs.sum().exp().detach()
        mean -= chance * gradient
        square = square + chance * gradient.square().sum()
    return mean, square - mean.square().sum()


@pytest.mark.parametrize(("samples", "baseline"), [(1, 0.0), (1, 0.7), (2, 0.0), (3, 0.7)])
def test_the_expected_estimate_is_the_exact_gradient(samples, baseline):
    torch.manual_seed(1)
    weights = torch.randn(8, dtype=torch.float64)
    exact = exact_gradient(weights)
    torch.testing.assert_close(expected_estimate(weights, samples, baseline)[0], exact)
    assert exact.abs().max() > 0.2


def test_other_samples_as_a_baseline_reduce_the_variance():
    torch.manual_seed(1)
    weights = torch.randn(8, dtype=torch.float64)
    _, alone = expected_estimate(weights, 1, 0.0, REWARDS + 5)
    _, together = expected_estimate(weights, 2, 0.0, REWARDS + 5)
    # The mean of two independent samples has half of the variance.
    assert together < 0.5 * alone / 2


def test_normalised_advantages_do_not_depend_on_the_size_of_rewards():
    torch.manual_seed(0)
    returns = torch.randn(7, 3, 5)
    gains = advantages(returns, torch.zeros(7, 3, 5))
    torch.testing.assert_close(gains, advantages(returns * 100, torch.zeros(7, 3, 5)))
    torch.testing.assert_close(gains.square().mean(dim=(0, 1)), torch.ones(5))


def test_neither_loss_trains_through_the_returns():
    returns = torch.randn(2, 3, 5, requires_grad=True)
    baselines, logs = torch.randn(2, 3, 5, requires_grad=True), torch.randn(2, 3, 5, requires_grad=True)
    (policy_loss(logs, advantages(returns, baselines)) + baseline_loss(baselines, returns)).backward()
    assert returns.grad is None
    torch.testing.assert_close(baselines.grad, 2 * (baselines - returns).detach() / 3)
    assert logs.grad.abs().sum() > 0


def test_returns_of_another_shape_are_refused():
    with pytest.raises(ShapeError, match="returns: expected returns and baselines of one shape"):
        advantages(torch.zeros(2, 3, 5), torch.zeros(2, 3, 4))
