"""Top-k by blocks equals ``torch.topk``, for every number of rows, columns and results."""

import pytest
import torch

from regard.topk import BLOCK, largest, largest_sums


@pytest.mark.parametrize("size", [7, BLOCK, 8 * BLOCK, 16 * BLOCK, 16 * BLOCK + 5, 67 * BLOCK + 63])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_the_largest_are_those_of_torch(size, n):
    torch.manual_seed(size + n)
    x = torch.randn(2, 3, 5, size)
    values, indices = largest(x, n)
    assert torch.equal(values, x.topk(n, dim=-1).values)
    assert torch.equal(x.gather(-1, indices), values)
    assert all(len(set(row)) == n for row in indices.flatten(0, -2).tolist())


@pytest.mark.parametrize("size", [11, 20 * BLOCK, 20 * BLOCK + 1, 53 * BLOCK + 62])
@pytest.mark.parametrize("n", [1, 4, 10])
def test_the_largest_sums_are_those_of_torch(size, n):
    torch.manual_seed(size + n)
    x, added = torch.randn(2, 5, size), 3 * torch.randn(2, 5)
    values, rows, columns = largest_sums(x, added, n)
    sums = x + added[..., None]
    assert torch.equal(values, sums.flatten(1).topk(n, dim=1).values)
    assert torch.equal(sums.flatten(1).gather(1, rows * size + columns), values)


def test_the_last_numbers_of_a_row_are_found():
    x = torch.zeros(1, 1, 20 * BLOCK + 3)
    x[..., -1], x[..., 5] = 2.0, 1.0
    values, indices = largest(x, 2)
    assert (values.tolist(), indices.tolist()) == ([[[2.0, 1.0]]], [[[20 * BLOCK + 2, 5]]])


def test_nan_and_minus_infinity_are_ranked_as_by_torch():
    x = torch.full((1, 20 * BLOCK), -torch.inf)
    x[0, 7], x[0, 9] = 1.0, torch.nan
    assert largest(x, 3)[1][0, :2].tolist() == [9, 7]
    assert largest(x, 3)[0][0, 2] == -torch.inf
