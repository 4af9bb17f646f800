"""Scores and weights that NumPy changes are recorded as the model uses them."""

import ctypes

import numpy as np
import pytest
import torch

from support.capture_cases import D, seen_of
from support.own_attention import CHANGED, OwnAttention, inputs, softmax

ROW = 1  # no row of those that are recomputed


def by_numpy(x):
    x.detach().numpy()[..., ROW, :] *= 3


def by_array(x):
    np.asarray(x)[..., ROW, :] *= 3


def by_dlpack(x):
    array: np.ndarray = np.from_dlpack(x)
    array[..., ROW, :] *= 3.0


def by_view_of_numpy(x):
    torch.from_numpy(x.mT.numpy())[..., ROW] *= 3


def by_address(x):
    kind = ctypes.c_double * x.numel()
    np.frombuffer(kind.from_address(x.data_ptr())).reshape(x.shape)[..., ROW, :] *= 3


WAYS = [by_numpy, by_array, by_dlpack, by_view_of_numpy, by_address]


@pytest.mark.parametrize("change", WAYS)
def test_scores_changed_by_numpy(change):
    def attend(q, k, v):
        scores = q @ k.mT * D**-0.5
        change(scores)
        return scores.softmax(-1) @ v

    q, k, v = inputs()
    with torch.no_grad():
        (record,), _ = seen_of(OwnAttention(attend), q, k, v)
    scores = q @ k.mT * D**-0.5
    scores[..., ROW, :] *= 3
    assert torch.allclose(record.map.weights(), scores.softmax(-1))


def test_queries_changed_by_numpy_behind_their_product():
    def attend(q, k, v):
        scores = q @ k.mT * D**-0.5
        q.numpy()[:, :, ROW] = 0
        return scores.softmax(-1) @ v

    q, k, v = inputs()
    (record,), _ = seen_of(OwnAttention(attend), q.clone(), k, v)
    assert torch.allclose(record.map.weights(), softmax(q, k))


@pytest.mark.parametrize("change", WAYS)
@pytest.mark.parametrize("heads_apart", [False, True])
def test_weights_changed_by_numpy(change, heads_apart):
    def attend(q, k, v):
        weights = softmax(q, k)
        change(weights)
        if heads_apart:
            return torch.stack([weights[:, n] @ v[:, n] for n in range(v.shape[1])], 1)
        return weights @ v

    q, k, v = inputs()
    (record,), _ = seen_of(OwnAttention(attend), q, k, v)
    expected = softmax(q, k)
    expected[..., ROW, :] *= 3
    assert torch.allclose(record.map.weights(), expected)
    assert record.note == CHANGED


def test_weights_that_numpy_only_reads_have_no_note():
    def attend(q, k, v):
        scores = q @ k.mT * D**-0.5
        largest = scores.numpy().max()
        weights = scores.softmax(-1)
        return weights @ v + 0 * weights.detach().cpu().numpy().sum() + 0 * largest

    q, k, v = inputs()
    (record,), _ = seen_of(OwnAttention(attend), q, k, v)
    assert torch.allclose(record.map.weights(), softmax(q, k))
    assert record.note is None
