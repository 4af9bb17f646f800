"""Tests of batches of pictures, their order and their random changes."""

import numpy as np
import pytest
import torch

from regard.errors import ArgumentError
from regard.images import Augmentation, ImageBatches, ImageSet, to_model_input

N, H, W, C = 11, 5, 7, 3
RNG = np.random.default_rng(0)
IMAGES = ImageSet.of(RNG.integers(0, 256, (N, H, W, C), dtype=np.uint8), np.arange(N) % 2)


def test_batches_are_normalised_with_the_numbers_of_the_data():
    whole = next(ImageBatches(IMAGES, size=N, shuffle=False).epoch(0))
    assert whole.images.shape == (N, C, H, W)
    torch.testing.assert_close(whole.images.mean(dim=(0, 2, 3)), torch.zeros(C), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        whole.images.std(dim=(0, 2, 3), correction=0), torch.ones(C), atol=1e-5, rtol=0
    )
    np.testing.assert_array_equal(whole.labels, IMAGES.labels)
    given = to_model_input(IMAGES.images, [0.1, 0.2, 0.3], [0.5, 0.6, 0.7])
    expected = (IMAGES.images[3, 4, 2, 1] / 255 - 0.2) / 0.6
    assert given[3, 1, 4, 2].item() == pytest.approx(expected, abs=1e-6)


def test_an_epoch_has_every_picture_once_in_an_order_of_its_own():
    batches = ImageBatches(IMAGES, size=4, seed=1)
    orders = [np.concatenate([batch.indices.numpy() for batch in batches.epoch(epoch)]) for epoch in (0, 1)]
    assert all(sorted(order) == list(range(N)) for order in orders)
    assert not np.array_equal(*orders)
    assert len(batches) == len(list(batches.epoch(0))) == 3


@pytest.mark.parametrize("augmentation", [None, Augmentation(shift=2, flip=True, erase=0.5)])
def test_an_epoch_goes_on_from_any_batch(augmentation):
    batches = ImageBatches(IMAGES, size=4, seed=3, augmentation=augmentation)
    again = ImageBatches(IMAGES, size=4, seed=3, augmentation=augmentation)
    whole, rest = list(batches.epoch(5)), list(again.epoch(5, start=1))
    for one, other in zip(whole[1:], rest, strict=True):
        torch.testing.assert_close(one.images, other.images, atol=0, rtol=0)
        torch.testing.assert_close(one.labels, other.labels)


def test_processes_share_the_batches_of_a_single_one():
    given = {"size": 5, "seed": 3, "augmentation": Augmentation(shift=1, erase=0.5)}
    single = list(ImageBatches(IMAGES, **given).epoch(2))
    shares = [list(ImageBatches(IMAGES, **given, rank=rank, world=2).epoch(2)) for rank in (0, 1)]
    assert len(single) == 3
    assert [len(batch) for batch in single] == [5, 5, 1]
    # With two processes the last batch has two pictures.
    assert [len(batch) for batch in shares[0]] == [3, 2, 1]
    assert [len(b) for b in shares[1]] == [2, 2, 1]
    first = torch.empty_like(single[0].images)
    first[0::2], first[1::2] = shares[0][0].images, shares[1][0].images
    torch.testing.assert_close(first, single[0].images, atol=0, rtol=0)


def test_shifts_move_every_pixel_by_the_same_step():
    image = np.zeros((200, H, W, 1), dtype=np.uint8)
    image[:, 2, 3] = 255
    moved = Augmentation(shift=2)(image, np.random.default_rng(0), background=[9], mean=[0.0])
    places = {tuple(np.argwhere(one[..., 0] == 255)[0]) for one in moved}
    assert places == {(2 + down, 3 + right) for down in range(-2, 3) for right in range(-2, 3)}
    corner = next(one for one in moved if one[0, 1, 0] == 255)  # moved by two up and left
    assert (corner[-2:] == 9).all()
    assert (corner[:, -2:] == 9).all()


def test_flips_reflect_about_half_of_the_pictures():
    images = np.repeat(IMAGES.images[:1], 200, axis=0)
    flipped = Augmentation(flip=True)(images, np.random.default_rng(0), background=[0] * C, mean=[0.0] * C)
    reflected = [np.array_equal(one, images[0][:, ::-1]) for one in flipped]
    unchanged = [np.array_equal(one, images[0]) for one in flipped]
    assert all(a != b for a, b in zip(reflected, unchanged, strict=True))
    assert 70 < sum(reflected) < 130


def test_erasing_fills_one_rectangle_with_the_mean():
    images = np.full((200, 20, 30, 1), 200, dtype=np.uint8)
    erased = Augmentation(erase=0.5)(images, np.random.default_rng(0), background=[0], mean=[0.2])
    changed = 0
    for one in erased[..., 0]:
        rows, columns = np.nonzero(one != 200)
        if len(rows):
            changed += 1
            box = one[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
            assert (box == 51).all()
            assert 3 <= box.shape[0] <= 10
            assert 4 <= box.shape[1] <= 15
    assert 70 < changed < 130
    assert (images == 200).all()  # the data is not changed


def test_wrong_arguments_are_a_clear_error():
    for given, problem in (
        ({"size": 1, "world": 2}, "size: expected at least one picture for each of 2 processes, got 1"),
        ({"size": 4, "rank": 2, "world": 2}, "rank: expected a number from 0 to 1, got 2"),
        ({"size": 20, "world": 12}, "data: expected at least 12 pictures"),
    ):
        with pytest.raises(ArgumentError, match=problem):
            ImageBatches(IMAGES, **given)
    with pytest.raises(ArgumentError, match="erase: expected a share from 0 to 1, got 2"):
        Augmentation(erase=2)
    with pytest.raises(ArgumentError, match="shift: expected 0 or more pixels, got -1"):
        Augmentation(shift=-1)
