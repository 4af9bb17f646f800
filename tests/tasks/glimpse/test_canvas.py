"""Pictures at random places of a canvas, alone or among parts of others."""

import numpy as np
import pytest

from regard.errors import ArgumentError
from regard.images import ImageSet
from regard.tasks.glimpse import Canvas
from regard.tasks.glimpse.data import batches_of

B, H, W, C, SIDE = 5, 3, 4, 1, 11
PICTURES = np.random.default_rng(0).integers(100, 256, (B, H, W, C), dtype=np.uint8)
KNOWN = {"background": [7], "mean": [0.5]}


def placed(canvas, pictures=PICTURES, seed=0):
    return canvas(pictures, np.random.default_rng(seed), **KNOWN)


def test_a_translated_picture_is_whole_and_the_rest_is_background():
    canvas = Canvas(mode="translated", canvas=SIDE)
    places = set()
    for picture, image in zip(PICTURES, placed(canvas), strict=True):
        rows, columns = np.nonzero((image != 7).any(axis=2))
        top, left = rows.min(), columns.min()
        places.add((top, left))
        assert np.array_equal(image[top : top + H, left : left + W], picture)
        assert (image != 7).sum() == H * W * C
    assert len(places) > 1


def test_every_place_of_the_canvas_is_used():
    canvas = Canvas(mode="translated", canvas=5)
    many = placed(canvas, np.full((200, H, W, C), 255, dtype=np.uint8))
    first = [tuple(np.argwhere(image == 255)[0][:2]) for image in many]
    assert set(first) == {(row, column) for row in range(3) for column in range(2)}


def test_clutter_is_a_part_of_another_picture():
    pictures = np.zeros((2, 4, 4, 1), dtype=np.uint8)
    pictures[0], pictures[1] = 100, 200
    canvas = Canvas(mode="cluttered", canvas=40, clutter=3, clutter_size=2)
    images = canvas(pictures, np.random.default_rng(1), background=[0], mean=[0.0])
    for image, own, other in zip(images, (100, 200), (200, 100), strict=True):
        assert (image == own).sum() == 16
        assert 4 <= (image == other).sum() <= 12
        assert set(np.unique(image)) == {0, own, other}


def test_of_overlapping_pixels_the_one_that_differs_from_the_background_is_seen():
    pictures = np.array([[[[250]]], [[[90]]]], dtype=np.uint8)
    canvas = Canvas(mode="cluttered", canvas=1, clutter=1, clutter_size=1)
    dark = canvas(pictures, np.random.default_rng(0), background=[0], mean=[0.0])
    light = canvas(pictures, np.random.default_rng(0), background=[255], mean=[0.0])
    assert dark.ravel().tolist() == [250, 250]
    assert light.ravel().tolist() == [90, 90]


def test_the_seed_decides_the_places():
    canvas = Canvas(mode="cluttered", canvas=SIDE, clutter_size=2)
    assert np.array_equal(placed(canvas), placed(canvas))
    assert not np.array_equal(placed(canvas), placed(canvas, seed=1))


def test_plain_pictures_stay_as_they_are_and_may_be_shifted():
    assert placed(Canvas()) is PICTURES
    assert placed(Canvas(shift=1)).shape == PICTURES.shape
    assert not np.array_equal(placed(Canvas(shift=1)), PICTURES)


def test_batches_are_on_a_canvas_with_pixels_from_0_to_1():
    pixels = np.zeros((7, 3, 3), dtype=np.uint8)
    pixels[:, 1, 1] = 255
    images = ImageSet.of(pixels, np.arange(7) % 2)
    batches = batches_of(images, Canvas(mode="translated", canvas=6), size=3, seed=0)
    first, again = list(batches.epoch(0)), list(batches.epoch(0))
    assert [tuple(batch.images.shape) for batch in first] == [(3, 1, 6, 6), (3, 1, 6, 6), (1, 1, 6, 6)]
    assert float(first[0].images.max()) == 1.0
    assert all((a.images == b.images).all() for a, b in zip(first, again, strict=True))
    assert not (first[0].images == next(iter(batches.epoch(1))).images).all()


@pytest.mark.parametrize(
    ("canvas", "problem"),
    [
        (Canvas(mode="translated", canvas=3), "canvas: pictures of 4×3 pixels .* do not fit on 3×3"),
        (
            Canvas(mode="cluttered", canvas=9, clutter_size=4),
            "clutter_size: pictures of 4×3 pixels .* have no part",
        ),
    ],
)
def test_a_canvas_that_is_too_small_is_refused(canvas, problem):
    with pytest.raises(ArgumentError, match=problem):
        placed(canvas)
