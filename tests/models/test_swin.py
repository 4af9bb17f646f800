"""Tests of Swin against plain versions that know each patch by its place, and of its windows, files and records."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from regard import capture, reference
from regard.errors import ArgumentError, DtypeError, FileError, UnknownNameError
from regard.models import Swin, SwinConfig, load_model
from regard.models.swin import PatchMerging
from regard.models.windows import from_windows, relative_index, to_windows, window_mask

B, CHANNELS, CLASSES, PATCH = 2, 3, 7, 2
CONFIG = SwinConfig(
    classes=CLASSES,
    image_size=(6 * PATCH, 9 * PATCH),
    channels=CHANNELS,
    patch_size=PATCH,
    width=8,
    depths=(2, 2),
    heads=(2, 4),
    window=3,
    feed_forward_ratio=1.5,
    dropout=0.0,
)
# Rows and columns of the first stage that windows of 3 divide, and that they do not divide.
GRIDS = [(6, 9), (7, 5)]


def build(grid=(6, 9), **settings) -> Swin:
    torch.manual_seed(0)
    size = (grid[0] * PATCH, grid[1] * PATCH)
    model = Swin(replace(CONFIG, image_size=size, **settings)).double().eval()
    for name, value in model.named_parameters():
        if name.endswith("relative_bias"):
            torch.nn.init.normal_(value)
    return model


def pictures(grid=(6, 9)) -> torch.Tensor:
    size = (grid[0] * PATCH, grid[1] * PATCH)
    return torch.rand(B, CHANNELS, *size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def window_of(place: int, size: int, side: int, shift: int) -> tuple[int, bool]:
    """Return the number of the window of a row or column, and whether the roll moved it there from the other end.

    Shifted windows begin at ``shift - side``, ``shift`` and so on. The roll puts the first of them, which is cut by the
    edge, into the window of the last.
    """
    padded = -(-size // side) * side
    moved = (place - shift) % padded
    return moved // side, place < shift


def may_attend(query, key, grid, side, shift) -> bool:
    """Return whether two patches, each (row, column), are in the same window and were neighbours before the roll."""
    return all(window_of(q, n, side, shift) == window_of(k, n, side, shift)
               for q, k, n in zip(query, key, grid, strict=True))  # fmt: skip


@pytest.mark.parametrize("grid", [(6, 9), (4, 4), (7, 5)])
@pytest.mark.parametrize(("side", "shift"), [(2, 1), (3, 1), (3, 2), (3, 0), (4, 2)])
def test_the_mask_of_shifted_windows_keeps_neighbours_only(grid, side, shift):
    rows, columns = (n + -n % side for n in grid)
    mask = window_mask(grid, side, shift, padding=True)
    places = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij"), dim=-1)
    cut = to_windows(places[None].double(), side, shift).long()  # (windows,side²,2)
    if mask is None:
        assert (shift, (rows, columns)) == (0, grid)
        mask = torch.ones(len(cut), side**2, side**2, dtype=torch.bool)
    for window, pairs in zip(cut.tolist(), mask.tolist(), strict=True):
        for query, row in zip(window, pairs, strict=True):
            for key, kept in zip(window, row, strict=True):
                real = key[0] < grid[0] and key[1] < grid[1]
                assert kept == (real and may_attend(query, key, (rows, columns), side, shift))


def test_a_shifted_window_covers_the_corners_of_four_windows():
    """Windows of 2 that are shifted by 1 hold the patches 5, 6, 9 and 10 of a grid of 4 x 4 together."""
    x = torch.arange(16.0).reshape(1, 4, 4, 1)
    assert to_windows(x, 2, 1)[0, :, 0].tolist() == [5, 6, 9, 10]
    assert to_windows(x, 2, 1)[3, :, 0].tolist() == [15, 12, 3, 0]
    mask = window_mask((4, 4), 2, 1, padding=True)
    assert mask is not None
    assert mask[0].all()
    assert mask[3].equal(torch.eye(4, dtype=torch.bool))
    assert from_windows(to_windows(x, 2, 1), (4, 4), 2, 1).equal(x)


def test_the_relative_index_depends_on_the_distance_from_key_to_query():
    side = 3
    index = relative_index(side)
    for q in range(side**2):
        for k in range(side**2):
            down, across = q // side - k // side, q % side - k % side
            assert index[q, k] == (down + side - 1) * (2 * side - 1) + (across + side - 1)
    assert index[0, 1] != index[1, 0]


def test_patches_are_merged_column_by_column():
    merging = PatchMerging(1).double()
    merging.norm = torch.nn.Identity()
    merging.reduction = torch.nn.Identity()
    x = torch.arange(6.0, dtype=torch.float64).reshape(1, 2, 3, 1)
    assert merging(x).tolist() == [[[[0, 3, 1, 4], [2, 5, 0, 0]]]]


def plain_logits(model: Swin, image: torch.Tensor) -> np.ndarray:
    """Return the logits of one image, where each patch attends to the patches that it may attend to, one by one."""
    config, state = model.config, {name: value.detach().numpy() for name, value in model.state_dict().items()}

    def linear(x, name):
        return x @ state[f"{name}.weight"].T + state.get(f"{name}.bias", 0.0)

    def norm(x, name):
        scaled = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return scaled * state[f"{name}.weight"] + state[f"{name}.bias"]

    patches = functional.conv2d(image[None], model.patches.weight, model.patches.bias, stride=PATCH)[0]
    x = norm(patches.detach().numpy().transpose(1, 2, 0), "patch_norm")  # (rows,columns,m)
    for stage, depth in enumerate(config.depths):
        rows, columns = x.shape[:2]
        side = min(config.window, rows, columns)
        for number in range(depth):
            name = f"stages.{stage}.layers.{number}"
            shift = config.window // 2 if number % 2 and min(rows, columns) > config.window else 0
            y = norm(x, f"{name}.self_norm")
            x = x + plain_attention(y, state, name, linear, config.heads[stage], side, shift)
            hidden = linear(norm(x, f"{name}.feed_norm"), f"{name}.feed_forward.widen")
            hidden = functional.gelu(torch.from_numpy(hidden)).numpy()
            x = x + linear(hidden, f"{name}.feed_forward.narrow")
        if stage + 1 < len(config.depths):
            x = np.pad(x, ((0, rows % 2), (0, columns % 2), (0, 0)))
            four = [x[0::2, 0::2], x[1::2, 0::2], x[0::2, 1::2], x[1::2, 1::2]]
            x = linear(norm(np.concatenate(four, axis=-1), f"stages.{stage}.merging.norm"),
                       f"stages.{stage}.merging.reduction")  # fmt: skip
    return linear(norm(x, "norm").reshape(-1, x.shape[-1]).mean(0), "output.linear")


def plain_attention(y, state, name, linear, heads, side, shift):
    rows, columns, width = y.shape
    q, k, v = (
        linear(y, f"{name}.self_attention.W_{part}").reshape(rows, columns, heads, -1) for part in "qkv"
    )
    out = np.zeros((rows, columns, heads, width // heads))
    places = [(i, j) for i in range(rows) for j in range(columns)]
    for at in places:
        keys = [key for key in places if may_attend(at, key, (rows, columns), side, shift)]
        for head in range(heads):
            scores = []
            for key in keys:
                row = (at[0] - key[0] + side - 1) * (2 * side - 1) + at[1] - key[1] + side - 1
                product = q[at][head] @ k[key][head] / np.sqrt(width // heads)
                scores.append(product + state[f"{name}.relative_bias"][row, head])
            weights = reference.softmax(np.array(scores))
            out[at][head] = sum(w * v[key][head] for w, key in zip(weights, keys, strict=True))
    return linear(out.reshape(rows, columns, width), f"{name}.self_attention.W_o")


@pytest.mark.parametrize("grid", GRIDS)
def test_the_logits_are_those_of_a_plain_version_patch_by_patch(grid):
    model, images = build(grid), pictures(grid)
    logits = model(images).detach().numpy()
    np.testing.assert_allclose(logits[1], plain_logits(model, images[1]), rtol=0, atol=1e-11)


@pytest.mark.parametrize(("blocks", "reached"), [(1, 3), (2, 4)])
def test_a_change_of_one_patch_spreads_to_its_window_and_then_to_the_shifted_one(blocks, reached):
    """Patch (0,0) is in the first window of 3, whose patches are in four shifted windows, up to row and column 3."""
    model, images = build(depths=(blocks,), heads=(2,)), pictures()
    changed = images.clone()
    changed[:, :, :PATCH, :PATCH] += 1
    apart = (model.patch_states(changed) - model.patch_states(images)).abs().amax(dim=(0, 2)) > 1e-9
    expected = [[i, j] for i in range(reached) for j in range(reached)]
    assert apart.reshape(6, 9).nonzero().tolist() == expected


@pytest.mark.parametrize("masked", [True, False])
def test_padding_gets_no_weight_if_it_is_masked(masked):
    records: list = []
    build((7, 5), masked_padding=masked)(pictures((7, 5)), records=records)
    least = min(float(record.map.weights().sum(-1).min()) for record in records)
    assert least == pytest.approx(1) if masked else least < 0.9


@pytest.mark.parametrize("grid", GRIDS)
def test_every_parameter_has_a_gradient(grid):
    model = build(grid, positions="learned")
    model(pictures(grid)).square().sum().backward()
    without = [name for name, value in model.named_parameters() if value.grad is None or not value.grad.any()]
    # The softmax over the keys does not depend on what is added to all of them.
    assert [name for name in without if not name.endswith("W_k.bias")] == []


def test_the_gradient_of_the_relative_bias_is_that_of_central_differences():
    model, images = build(), pictures()
    table = model.stages[0].layers[1].relative_bias
    model(images).square().sum().backward()
    step = 1e-6
    for row, head in ((0, 0), (7, 1), (24, 0)):
        values = []
        with torch.no_grad():
            for sign in (1, -2):
                table[row, head] += sign * step
                values.append(model(images).square().sum().item())
            table[row, head] += step
        assert table.grad[row, head].item() == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-4)


@pytest.mark.parametrize("grid", GRIDS)
def test_records_are_maps_between_all_patches_of_a_stage(grid):
    model, records = build(grid), []
    images = pictures(grid)
    torch.testing.assert_close(model(images, records=records), model(images), rtol=0, atol=1e-12)
    halved = (-(-grid[0] // 2), -(-grid[1] // 2))
    assert [(r.name, r.layer) for r in records] == [
        (f"stages.{s}.layers.{n}.self_attention", 2 * s + n) for s in range(2) for n in range(2)
    ]
    for record, sides in zip(records, [grid, grid, halved, halved], strict=True):
        count = sides[0] * sides[1]
        assert record.query_grid == record.key_grid == sides
        assert (record.query_extra, record.key_extra, record.kind) == (0, 0, "self")
        weights = record.map.weights()
        assert weights.shape == (B, 2 if sides == grid else 4, count, count)
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]), rtol=0, atol=1e-12)
    shift = model.stages[0].layers[1].shift_size
    shown = records[1].map.weights()[0, 0] > 0
    places = [(i, j) for i in range(grid[0]) for j in range(grid[1])]
    for q, query in enumerate(places):
        for k, key in enumerate(places):
            assert bool(shown[q, k]) == may_attend(query, key, grid, 3, shift)


@pytest.mark.parametrize("grid", GRIDS)
def test_a_capture_finds_the_same_weights_and_grids_as_the_records(grid):
    model, records = build(grid).float(), []
    images = pictures(grid).float()
    model(images, records=records)
    with torch.no_grad(), capture(model) as seen:
        model(images)
    assert len(seen) == len(records)
    for found, record in zip(seen, records, strict=True):
        assert (found.name, found.layer, found.key_grid) == (record.name, record.layer, record.key_grid)
        torch.testing.assert_close(found.map.weights(), record.map.weights(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("settings", [{}, {"positions": "learned", "embedding": "convolution"}])
def test_a_saved_model_loads_with_the_same_outputs(tmp_path, settings):
    model = build(**settings).float()
    model.save_pretrained(tmp_path)
    loaded = load_model(tmp_path)
    assert type(loaded) is Swin
    assert loaded.config == model.config
    torch.testing.assert_close(loaded(pictures().float()), model(pictures().float()), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("depths", [2, 3], r"depths is \(2, 3\), but the file of weights has \(2, 2\)"),
        ("depths", [10**9, 2], "depths"),
        ("window", 4, r"relative_bias is \(25, 2\), the settings say \(49, 2\)"),
        ("heads", [4, 4], r"relative_bias is \(25, 2\), the settings say \(25, 4\)"),
        ("heads", [3, 4], "3 heads do not divide width = 8"),
    ],
)
def test_a_folder_with_other_sizes_is_rejected_by_name(tmp_path, name, value, words):
    build().float().save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    values = json.loads(file.read_text())
    values["model"][name] = value
    file.write_text(json.dumps(values))
    with pytest.raises(FileError, match=words):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"patch_size": 5}, ArgumentError, "patches of 5 pixels do not divide an image of 12 x 18"),
        ({"depths": 2}, DtypeError, "expected one whole number for each stage"),
        ({"depths": (2, 0)}, ArgumentError, r"depths\[1\]"),
        ({"heads": (2,)}, ArgumentError, "one number for each of 2 stages"),
        ({"heads": (3, 4)}, ArgumentError, "3 heads do not divide width = 8"),
        ({"window": 0}, ArgumentError, "window"),
        ({"feed_forward_ratio": 0.01}, ArgumentError, "feed_forward"),
        ({"positions": "sinusoidal"}, UnknownNameError, "positions"),
        ({"masked_padding": 1}, DtypeError, "masked_padding"),
    ],
)
def test_settings_that_do_not_fit_are_rejected_by_name(settings, error, words):
    with pytest.raises(error, match=words):
        replace(CONFIG, **settings)
