"""Tests of where vision models look, against products of matrices written out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.analysis import class_token_map, image_rollout, patch_map, pooling_map, rollout, to_pixels
from regard.errors import ArgumentError, DtypeError, ShapeError
from regard.maps import AttentionMap, Record
from regard.models import Swin, SwinConfig, VisionTransformer, VisionTransformerConfig

B, ROWS, COLUMNS = 2, 3, 5
N = ROWS * COLUMNS


def vit_records(**settings) -> list[Record]:
    torch.manual_seed(0)
    config = VisionTransformerConfig(
        classes=3, image_size=(ROWS * 2, COLUMNS * 2), patch_size=2, width=12, heads=3, layers=3, **settings
    )
    records: list[Record] = []
    model = VisionTransformer(config).double().eval()
    for name, value in model.named_parameters():
        if name.endswith("W_q.weight"):
            torch.nn.init.normal_(value)  # sharper weights
    model(torch.rand(B, 1, ROWS * 2, COLUMNS * 2, dtype=torch.float64), records=records)
    return records


def swin_records(rows: int, columns: int) -> list[Record]:
    torch.manual_seed(0)
    config = SwinConfig(
        classes=3, image_size=(rows * 2, columns * 2), width=8, depths=(2, 1, 1), heads=(2, 2, 2), window=3
    )
    records: list[Record] = []
    Swin(config).double().eval()(
        torch.rand(B, 1, rows * 2, columns * 2, dtype=torch.float64), records=records
    )
    return records


def test_the_class_token_map_is_its_row_on_the_patches():
    records = vit_records(distillation="token")
    weights = records[1].map.weights().numpy()
    assert weights.shape == (B, 3, N + 2, N + 2)
    for token in (0, 1):
        expected = weights[:, :, token, 2:]
        found = class_token_map(records[1], token=token)
        np.testing.assert_allclose(found, expected.mean(1).reshape(B, ROWS, COLUMNS), atol=1e-7)
        one = class_token_map(records[1], token=token, head=2)
        np.testing.assert_allclose(one, expected[:, 2].reshape(B, ROWS, COLUMNS), atol=1e-7)


@pytest.mark.parametrize("pooling", ["additive", "multihead"])
def test_the_pooling_map_is_the_row_of_the_pooling(pooling):
    record = vit_records(pooling=pooling, pooling_heads=2)[-1]
    expected = record.map.weights().numpy()[:, :, 0].mean(1)
    found = pooling_map(record)
    np.testing.assert_allclose(found.reshape(B, N), expected, atol=1e-7)
    np.testing.assert_allclose(found.sum((1, 2)), 1, atol=1e-6)


def test_the_map_of_a_patch_of_a_swin_is_its_window():
    records = swin_records(6, 9)
    first, shifted = patch_map(records[0], 2, 4), patch_map(records[1], 2, 4)
    assert np.argwhere(first[0] > 0).tolist() == [[i, j] for i in range(3) for j in range(3, 6)]
    assert np.argwhere(shifted[0] > 0).tolist() == [[i, j] for i in range(1, 4) for j in range(4, 7)]


def test_the_rollout_of_a_class_token_is_its_row_of_the_rollout():
    records = vit_records()
    whole = rollout(records, residual=0.3)
    found = image_rollout(records, residual=0.3)
    np.testing.assert_allclose(found.reshape(B, N), whole[:, 0, 1:], atol=1e-12)


def test_the_rollout_of_a_pooling_begins_with_its_weights():
    records = vit_records(pooling="additive")
    weights = records[-1].map.weights().numpy()[:, 0, 0]
    expected = np.einsum("bq,bqk->bk", weights, rollout(records[:-1]))
    np.testing.assert_allclose(image_rollout(records).reshape(B, N), expected, atol=1e-12)
    mean = rollout(records[:-1]).mean(1)
    np.testing.assert_allclose(image_rollout(records[:-1]).reshape(B, N), mean, atol=1e-12)


@pytest.mark.parametrize(("rows", "columns"), [(8, 12), (7, 5)])
def test_the_rollout_of_a_swin_divides_merged_patches_among_their_parts(rows, columns):
    records = swin_records(rows, columns)
    total = np.eye(rows * columns)[None].repeat(
        B, axis=0
    )  # the share of each first patch in each patch of a layer
    grid = (rows, columns)
    for record in records:
        if record.query_grid != grid:
            coarse = record.query_grid or (0, 0)
            merging = np.zeros((coarse[0] * coarse[1], grid[0] * grid[1]))
            for i in range(grid[0]):
                for j in range(grid[1]):
                    merging[(i // 2) * coarse[1] + j // 2, i * grid[1] + j] = 1
            total = merging / merging.sum(1, keepdims=True) @ total
            grid = coarse
        mean = record.map.weights().numpy().mean(1)
        total = (0.5 * mean + 0.5 * np.eye(mean.shape[-1])) @ total
    found = image_rollout(records)
    assert found.shape == (B, rows, columns)
    np.testing.assert_allclose(found.reshape(B, -1), total.mean(1), atol=1e-12)
    np.testing.assert_allclose(found.sum((1, 2)), 1, atol=1e-12)


def test_pixels_have_the_number_of_their_patch():
    maps = np.arange(6.0).reshape(1, 2, 3)
    found = to_pixels(maps, (4, 9))
    assert found.shape == (1, 4, 9)
    for y in range(4):
        for x in range(9):
            assert found[0, y, x] == maps[0, y // 2, x // 3]


def test_records_that_do_not_fit_are_rejected_by_name():
    records = vit_records()
    without = replace(records[0], key_grid=None, query_grid=None)
    cross = Record(
        name="c", layer=0, kind="cross", map=AttentionMap.from_weights(torch.eye(4)), key_grid=(2, 2)
    )
    for call, error, words in [
        (lambda: class_token_map(without), ArgumentError, "are not known to be patches"),
        (lambda: class_token_map(np.eye(4)), DtypeError, "expected a record"),
        (lambda: class_token_map(records[0], token=1), ArgumentError, "1 tokens before its patches"),
        (lambda: class_token_map(records[0], head=3), ArgumentError, "head: expected 0 to 2, got 3"),
        (lambda: class_token_map(cross), ArgumentError, "expected self-attention"),
        (lambda: pooling_map(cross), ShapeError, "with one query, got 4"),
        (lambda: patch_map(records[0], 0, 5), ArgumentError, "column: expected 0 to 4, got 5"),
        (lambda: image_rollout([]), ArgumentError, "got none"),
        (lambda: image_rollout(records[::2]), ArgumentError, "layers 1 between 0 and 2 are missing"),
        (lambda: image_rollout([*records, *records]), ArgumentError, "ran more than once"),
        (lambda: image_rollout(records, residual=1.0), ArgumentError, "residual"),
        (lambda: image_rollout([swin_records(6, 9)[0], swin_records(6, 9)[3]]), ArgumentError, "missing"),
        (lambda: to_pixels(np.ones((3, 3)), (2, 9)), ArgumentError, "fewer pixels"),
    ]:
        with pytest.raises(error, match=words):
            call()
