"""Tests that the expected results of exercises outside of ``regard.reference`` are those of torch and of Regard."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import regard
from regard.learn.bank import EXERCISES
from regard.shapes import Grid
from support.exercise_files import BY_NAME


def layer_norm(x, gain, bias, eps):
    return F.layer_norm(x, x.shape[-1:], gain, bias, eps)


def feed_forward(x, W_1, W_2):
    return x + F.relu(F.layer_norm(x, x.shape[-1:]) @ W_1.T) @ W_2.T


def rotary(x):
    return regard.Rotary(x.shape[-1])(x[None, None], x[None, None])[0][0, 0]


def warmup(step, warmup, total, peak):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=peak)
    schedule = regard.get_linear_schedule_with_warmup(optimizer, warmup, total)
    rates = []
    for _ in step:
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return torch.tensor(rates)


def window(size, window):
    return regard.window(window - 1).dense(Grid(1, 1, size, size))[0, 0]


def beam_step(scores, log_probs, width):
    best = (scores[:, None] + log_probs).flatten().topk(width).indices
    return best // log_probs.shape[1], best % log_probs.shape[1]


ORACLES = {
    "layer_norm": layer_norm,
    "pre_norm_block": feed_forward,
    "rotary_positions": rotary,
    "next_token_loss": lambda logits, tokens: F.cross_entropy(logits[:-1], tokens[1:]),
    "label_smoothing": lambda logits, targets, epsilon: F.cross_entropy(
        logits, targets, label_smoothing=epsilon
    ),
    "warmup": warmup,
    "window_mask": window,
    "beam_step": beam_step,
}


def test_every_exercise_has_an_oracle():
    assert {exercise.name for exercise in EXERCISES if exercise.oracle is None} == set(ORACLES)


@pytest.mark.parametrize("name", ORACLES)
def test_the_expected_results_are_those_of_torch(name):
    exercise = BY_NAME[name]
    for case, expected in zip(exercise.cases, exercise.expected, strict=True):
        values = {
            key: torch.as_tensor(v) if isinstance(v, np.ndarray) else v for key, v in case.copies().items()
        }
        given = ORACLES[name](**values)
        for one, right in zip(given if isinstance(given, tuple) else (given,), expected, strict=True):
            np.testing.assert_allclose(one.numpy(), right, atol=1e-6)
