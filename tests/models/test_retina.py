"""The retina against a loop over pixels, at random places and at the borders."""

import math

import pytest
import torch

from regard.errors import DtypeError, ShapeError
from regard.models.retina import corners_of_glimpses, glimpses_at, summed_areas

B, C, ROWS, COLUMNS, S, SIZE, SCALES = 2, 3, 11, 17, 5, 4, 3


def slow_glimpse(image, place, size, scale):
    """Return one scale of a glimpse, pixel by pixel."""
    cell = 2**scale
    rows, columns = len(image), len(image[0])
    top = math.floor((place[0] + 1) / 2 * rows - size * cell / 2 + 0.5)
    left = math.floor((place[1] + 1) / 2 * columns - size * cell / 2 + 0.5)
    seen = [[0.0] * size for _ in range(size)]
    for row in range(size * cell):
        for column in range(size * cell):
            r, c = top + row, left + column
            if 0 <= r < rows and 0 <= c < columns:
                seen[row // cell][column // cell] += image[r][c] / cell**2
    return seen


BORDERS = torch.tensor([[-1.0, -1.0], [1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [0.0, 0.0]])


@pytest.mark.parametrize("places", ["random", "borders"])
def test_glimpses_are_those_of_a_loop_over_pixels(places):
    torch.manual_seed(0)
    images = torch.rand(B, C, ROWS, COLUMNS)
    at = torch.rand(B, S, 2) * 2 - 1 if places == "random" else BORDERS.expand(B, S, 2)
    seen = glimpses_at(summed_areas(images), at, size=SIZE, scales=SCALES)
    assert seen.shape == (B, S, SCALES, C, SIZE, SIZE)
    for b in range(B):
        for s in range(S):
            for scale in range(SCALES):
                for c in range(C):
                    slow = slow_glimpse(images[b, c].tolist(), at[b, s].tolist(), SIZE, scale)
                    torch.testing.assert_close(seen[b, s, scale, c].tolist(), slow, atol=1e-12, rtol=0)


def test_bytes_are_read_exactly():
    torch.manual_seed(0)
    images = torch.randint(256, (1, 1, 60, 60), dtype=torch.uint8)
    seen = glimpses_at(summed_areas(images), torch.zeros(1, 1, 2), size=12, scales=2)
    assert torch.equal(seen[0, 0, 0, 0], images[0, 0, 24:36, 24:36].double())
    pooled = torch.nn.functional.avg_pool2d(images[:, :, 18:42, 18:42].double(), 2)
    assert torch.equal(seen[0, 0, 1], pooled[0])


def test_a_glimpse_far_outside_is_empty():
    sums = summed_areas(torch.ones(1, 1, 8, 8))
    assert glimpses_at(sums, torch.full((1, 1, 2), 5.0), size=3, scales=2).abs().max() == 0


def test_the_centre_of_a_glimpse_moves_with_the_place():
    top, left = corners_of_glimpses(torch.tensor([[-1.0, 1.0]]), 10, 20, size=4, scales=2)
    assert (top.tolist(), left.tolist()) == ([[-2, -4]], [[18, 16]])


def test_a_batch_of_places_for_other_pictures_is_refused():
    sums = summed_areas(torch.ones(2, 1, 8, 8))
    with pytest.raises(ShapeError, match=r"places: expected \(b,s,2\) with b = 2, got \(3,1,2\)"):
        glimpses_at(sums, torch.zeros(3, 1, 2), size=3, scales=1)
    with pytest.raises(DtypeError, match="places: expected numbers from -1 to 1"):
        glimpses_at(sums, torch.zeros(2, 1, 2, dtype=torch.long), size=3, scales=1)
    with pytest.raises(ShapeError, match="images: expected"):
        summed_areas(torch.ones(8, 8))
