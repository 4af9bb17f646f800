"""Tests of the data that a page stores, and of the weights that the browser computes from it."""

import base64
import io
import json

import numpy as np
import pytest
import torch

import regard
from regard.errors import ArgumentError, DtypeError, FileError, ShapeError
from regard.maps import AttentionMap, Record
from regard.maps.image_windows import ImageWindows
from regard.positions import ALiBi
from regard.scores import Additive
from regard.viewer.blobs import rounded_to_half
from regard.viewer.page import as_inert_json
from regard.viewer.payload import embedded, remote
from regard.viewer.pictures import as_pictures
from regard.viewer.tiles import HIDDEN, Overview, pooled_tile, visible_weights
from support.viewer_records import (
    BIASES,
    MASKS,
    READ,
    B,
    D,
    H,
    K,
    Q,
    hidden_of,
    pictured,
    read_by_javascript,
    recomputed,
    record,
    run_javascript,
)


@pytest.mark.parametrize("name", MASKS)
def test_the_page_computes_the_weights_under_every_mask(name):
    map = recomputed(MASKS[name])
    document = embedded([record(map)])
    (found,) = read_by_javascript(document)
    hidden = hidden_of(map)
    assert ((found["weights"] < 0) == hidden).all()
    apart = np.abs(np.maximum(found["weights"], 0) - map.numpy()).max()
    stated = document.values["records"][0]["error"]
    assert apart <= stated * 1.01 + 2e-6, "the page is further off than it says"
    assert stated < 2e-3


@pytest.mark.parametrize("name", BIASES)
def test_the_page_adds_every_bias(name):
    bias, kind = BIASES[name]
    map = recomputed(regard.causal(), bias)
    document = embedded([record(map)])
    assert document.values["records"][0]["source"]["bias"]["kind"] == kind
    (found,) = read_by_javascript(document)
    assert np.abs(np.maximum(found["weights"], 0) - map.numpy()).max() < 2e-3


def test_the_page_computes_every_kind_of_map():
    torch.manual_seed(3)
    grouped = recomputed(regard.causal(), ALiBi(heads=H), kv_heads=1)
    additive = recomputed(score=Additive(D, D, 13))
    whole = recomputed(MASKS["dense of three axes"], BIASES["dense"][0])
    maps = {
        "grouped": grouped,
        "additive": additive,
        "mean": whole.mean_heads(),
        "selected": whole.select(batch=1, heads=slice(1, 3)),
        "selected of grouped": grouped.select(heads=slice(1, 3)),
        "mean of selected": whole.select(heads=slice(0, 2)).mean_heads(),
        "selected of mean": whole.mean_heads().select(batch=1),
        "weights": AttentionMap.from_weights(whole.weights()),
        "callable": recomputed(score=lambda q, k: q @ k.transpose(-2, -1)),
    }
    document = embedded([record(map, name) for name, map in maps.items()])
    kinds = [one["source"]["type"] for one in document.values["records"]]
    assert kinds == ["recomputed"] * 2 + ["mean"] + ["recomputed"] * 2 + ["mean"] * 2 + ["weights"] * 2
    for name, found in zip(maps, read_by_javascript(document), strict=True):
        apart = np.abs(np.maximum(found["weights"], 0) - maps[name].numpy()).max()
        assert apart < 2e-3, name


@pytest.mark.parametrize(("rows", "columns"), [(4, 6), (3, 5)], ids=["whole windows", "padded windows"])
def test_the_page_computes_windows_of_a_picture(rows, columns):
    torch.manual_seed(4)
    side, shift = 2, 1
    inner = torch.softmax(torch.randn(2 * 6, H, 4, 4), dim=-1)
    source = ImageWindows(AttentionMap.from_weights(inner)._source, (rows, columns), side, shift)
    map = AttentionMap(source)
    document = embedded([record(map), record(map.select(batch=1))])
    assert [one["source"]["type"] for one in document.values["records"]] == ["windows", "windows"]
    whole, second = read_by_javascript(document)
    assert np.abs(np.maximum(whole["weights"], 0) - map.numpy()).max() < 1e-4
    assert np.abs(whole["weights"][1:] - second["weights"]).max() < 1e-9
    shown = visible_weights(source, regard.maps.sources.Tile(*[slice(0, n) for n in map.shape])).numpy()
    assert ((whole["weights"] < 0) == (shown < 0)).all()
    assert (shown < 0).any()


def test_rows_of_the_page_sum_to_one_even_where_the_numbers_are_large():
    map = recomputed(regard.causal(), spread=4.0)
    (found,) = read_by_javascript(embedded([record(map)]))
    assert np.abs(np.maximum(found["weights"], 0).sum(-1) - 1).max() < 1e-5


def test_a_vector_that_all_keys_share_costs_no_precision():
    torch.manual_seed(5)
    q, k = torch.randn(1, 1, 64, 16), torch.randn(1, 1, 64, 16)
    errors = []
    for shared in (0.0, 100.0):
        _, map = regard.attention(q, k + shared, torch.randn(1, 1, 64, 2), return_map=True)
        errors.append(embedded([record(map)]).values["records"][0]["error"])
    assert errors[1] < 4 * errors[0], "an offset of all keys was rounded with them"


def test_the_steps_are_the_ones_of_the_formula():
    map = recomputed(regard.causal(), BIASES["alibi"][0])
    (found,) = read_by_javascript(embedded([record(map)]))
    cell, ready = found["cell"], map._source.ready
    q, k = ready.q[-1, -1, -1].numpy(), ready.k[-1, -1, 1].numpy()
    np.testing.assert_allclose(cell["q"], q, atol=3e-3)
    np.testing.assert_allclose(cell["k"], k, atol=3e-3)
    assert cell["product"] == pytest.approx(float(q @ k), abs=2e-2)
    assert cell["scale"] == pytest.approx(D**-0.5)
    i, j = torch.tensor(Q - 1), torch.tensor(1)
    assert cell["bias"] == pytest.approx(float(ALiBi(H).tile(i, j, map._source.grid)[0, -1]), abs=1e-4)
    assert cell["weight"] == pytest.approx(
        np.exp(cell["product"] * cell["scale"] + cell["bias"] - cell["lse"]), rel=1e-4
    )
    assert cell["weight"] == pytest.approx(float(map[-1, -1, -1, 1]), abs=2e-3)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_values_of_any_size_are_stored_in_half_precision(scale):
    torch.manual_seed(6)
    x = torch.randn(7, 11) * scale
    apart = (rounded_to_half(x).numbers() - x.double()).abs() / x.double().abs()
    assert float(apart.max()) <= 2**-11


def test_stored_weights_say_how_far_off_they_are():
    torch.manual_seed(7)
    weights = torch.softmax(3 * torch.randn(1, 2, 13, 17), dim=-1)
    document = embedded([record(AttentionMap.from_weights(weights))])
    (found,) = read_by_javascript(document)
    apart = np.abs(found["weights"] - weights.double().numpy()).max()
    assert apart == pytest.approx(document.values["records"][0]["error"], rel=0.05)
    assert apart < 1e-5


def page_bytes(width: int) -> float:
    """Compute the size of a page of 12 layers, 12 heads and 512 tokens from three layers of equal size."""
    torch.manual_seed(8)
    words = [f"word{n}" for n in range(512)]
    records = []
    for n in range(3):
        q, k = torch.randn(2, 1, 12, 512, width).unbind()
        _, map = regard.attention(q, k, torch.randn(1, 12, 512, 2), mask=regard.causal(), return_map=True)
        records.append(record(map, f"layers.{n}", "causal", query_tokens=[words]))
    page = regard.viewer.html(records)
    blobs = sum(part.index("</script>") for part in page.split('id="regard-blob-')[1:])
    assert blobs > 3 * 12 * 512 * width * 2 * 2, "q and k are in it"
    return len(page.encode()) + 3 * blobs


@pytest.mark.parametrize(("width", "most"), [(32, 15e6), (64, 28e6)])
def test_a_page_of_twelve_layers_and_512_tokens_has_a_bounded_size(width, most):
    assert page_bytes(width) <= most


def test_tensors_shared_by_layers_are_stored_once():
    keep = torch.rand(1, 1, 31, 31) > 0.5
    torch.manual_seed(9)
    records = []
    for n in range(6):
        q, k = torch.randn(2, 1, 1, 31, 5).unbind()
        _, map = regard.attention(q, k, torch.randn(1, 1, 31, 2), mask=keep, return_map=True)
        records.append(record(map, f"layer {n}", query_tokens=[["a"] * 31]))
    document = embedded(records)
    assert len(document.values["labels"]) == 1
    used = {one["source"]["mask"]["keep"]["array"]["blob"] for one in document.values["records"]}
    assert len(used) == 1


# ---- tiles, overviews


@pytest.mark.parametrize("name", ["none", "causal", "and", "dense of three axes"])
@pytest.mark.parametrize("head", [0, 2, -1])
def test_tiles_and_overviews_are_the_largest_of_their_cells(name, head):
    map = recomputed(MASKS[name])
    weights = map.weights()[1].mean(0) if head < 0 else map.weights()[1, head]
    shown = np.where(
        hidden_of(map)[1].all(0) if head < 0 else hidden_of(map)[1, head], HIDDEN, weights.numpy()
    )
    tile = pooled_tile(map._source, 1, head, slice(1, 5), slice(0, 7), 2)
    for r in range(2):
        for c in range(4):
            block = shown[1 + 2 * r : min(5, 3 + 2 * r), 2 * c : 2 * c + 2]
            assert tile[r, c] == pytest.approx(block.max(), abs=1e-6)
    overview = Overview(map._source, 1, head, side=3)
    while overview.done < 1:
        overview.advance()
    for r in range(3):
        for c in range(3):
            rows = [i for i in range(Q) if i * 3 // Q == r]
            cols = [j for j in range(K) if j * 3 // K == c]
            assert overview.values[r, c] == pytest.approx(shown[np.ix_(rows, cols)].max(), abs=1e-6)


# ---- errors


def test_wrong_records_are_refused():
    map = recomputed()
    good = record(map)
    for given, error, part in [
        ([], ArgumentError, "expected at least one record, got none"),
        ([good, "a"], DtypeError, r"records\[1\]: expected a regard.maps.Record"),
        ([record(map, query_tokens=[["a"] * Q])], ShapeError, "labels of 1 sequences, but the map has 2"),
        ([record(map, key_tokens=[["a"] * Q] * B)], ShapeError, f"{Q} labels for {K} keys"),
        ([record(map, key_grid=(3, 3))], ShapeError, "key_grid"),
        (
            [record(AttentionMap.from_weights(torch.zeros(1, 0, 2, 2)))],
            ShapeError,
            "expected a map that is not empty",
        ),
    ]:
        with pytest.raises(error, match=part):
            embedded(given)
        with pytest.raises(error, match=part):
            remote(given)


def test_a_page_that_would_be_too_large_is_refused():
    with pytest.raises(ArgumentError, match="regard view"):
        embedded([record(recomputed())], max_bytes=500)
    with pytest.raises(ArgumentError, match="regard view"):
        embedded([record(AttentionMap.from_weights(torch.rand(1, 1, 40, 40) / 40))], max_bytes=500)


def test_a_path_that_is_no_html_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="ends in .html"):
        regard.viewer.save_html([record(recomputed())], tmp_path / "x.png")
    with pytest.raises(FileError, match="does not exist"):
        regard.viewer.save_html([record(recomputed())], tmp_path / "no" / "x.html")


# ---- pictures


def test_arrays_tensors_and_files_become_pictures_and_others_are_refused(tmp_path):
    pixels = np.linspace(0, 1, 4 * 5 * 3).reshape(4, 5, 3)
    (kind, png), *_ = as_pictures(pixels)
    assert kind == "image/png"
    same = [np.rint(pixels * 255).astype(np.uint8), torch.tensor(pixels).permute(2, 0, 1), [pixels]]
    assert all(as_pictures(one)[0][1] == png for one in same)
    (tmp_path / "x.png").write_bytes(png)
    assert as_pictures(tmp_path / "x.png") == as_pictures(png) == [("image/png", png)]
    assert len(as_pictures(np.zeros((3, 4, 5, 3)))) == 3
    for wrong, part in [
        (pixels * 2, "between 0 and 1"),
        (np.zeros((4, 5, 7)), "rows, columns"),
        (pixels - 1, "0 and 1"),
    ]:
        with pytest.raises(ArgumentError, match=part):
            as_pictures(wrong)
    for wrong in (b"<svg onload=alert(1)>", b"", tmp_path / "none.png"):
        with pytest.raises(FileError):
            as_pictures(wrong)


def test_a_picture_is_a_png_that_others_can_read():
    image = pytest.importorskip("PIL.Image")
    pixels = (np.arange(4 * 7 * 3) % 251).astype(np.uint8).reshape(4, 7, 3)
    ((_, data),) = as_pictures(pixels)
    np.testing.assert_array_equal(np.asarray(image.open(io.BytesIO(data))), pixels)
    ((_, again),) = as_pictures(image.fromarray(pixels))
    np.testing.assert_array_equal(np.asarray(image.open(io.BytesIO(again))), pixels)


def drawn(picture):
    """The pixels that a page shows for a picture."""
    from PIL import Image

    ((_, data),) = as_pictures([picture])
    return np.asarray(Image.open(io.BytesIO(data)))


def test_pillow_images_of_16_bits_and_floats_are_scaled_to_bytes():
    image = pytest.importorskip("PIL.Image")
    ramp = np.array([[0, 257, 257 * 100, 65535]], dtype=np.uint16)
    for one in (ramp, ramp.astype(np.int32), ramp.astype(np.float32) / 65535):
        assert drawn(image.fromarray(one))[..., 0].tolist() == [[0, 1, 100, 255]]
    small = np.array([[0, 1, 255]], dtype=np.int32)
    assert drawn(image.fromarray(small))[..., 0].tolist() == [[0, 1, 255]]
    assert drawn(image.fromarray(small.astype(np.float32)))[..., 0].tolist() == [[0, 1, 255]]
    for wrong in (ramp.astype(np.int32) + 9, -ramp.astype(np.float32), np.array([[np.nan]], np.float32)):
        with pytest.raises(ArgumentError, match=r"images\[0\]: expected pixels from 0 to (255|65535), found"):
            as_pictures([image.fromarray(wrong)])


def test_transparent_pillow_images_are_put_on_white():
    image = pytest.importorskip("PIL.Image")
    opacity = np.array([[255, 128, 0]], dtype=np.uint8)
    for channels in (1, 3):
        black = [np.zeros_like(opacity)] * channels
        shown = drawn(image.fromarray(np.stack([*black, opacity], axis=-1)))
        assert shown.shape == (1, 3, 3)
        assert shown[0].tolist() == [[0] * 3, [127] * 3, [255] * 3]
    palette = image.new("P", (1, 1), 0)
    palette.info["transparency"] = 0
    assert drawn(palette).tolist() == [[[255, 255, 255]]]


# ---- the text of the page


def test_the_json_of_a_page_cannot_leave_its_element():
    text = as_inert_json({"a": "</script><script>\u2028\u2029&<!--\ud800\0猫"})
    assert text.isascii()
    assert not set("<>&") & set(text)
    assert json.loads(text) == {"a": "</script><script>\u2028\u2029&<!--\ud800\0猫"}


def test_the_page_asks_for_nothing_outside_itself():
    page = regard.viewer.html([record(recomputed())])
    policy = page.split('http-equiv="Content-Security-Policy" content="')[1].split('"')[0]
    assert "default-src &#x27;none&#x27;" in policy
    assert "unsafe" not in policy
    assert "http:" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https:" not in page
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "import(",
    ):
        assert word not in page, word


def test_blobs_are_read_back_from_the_page_unchanged():
    document = embedded([record(recomputed())])
    page = regard.viewer.html([record(recomputed())])
    for n, data in enumerate(document.blobs):
        text = page.split(f'id="regard-blob-{n}">')[1].split("</script>")[0]
        assert base64.b64decode(text) == data


def test_records_without_tokens_are_accepted():
    map = recomputed()
    one = Record(name="x", layer=None, kind="self", map=map)
    assert embedded([one]).values["records"][0]["queryTokens"] is None


def test_a_single_token_before_the_patches_is_called_the_class_token():
    source = READ + (
        'import { labelOf } from "STATIC/text.js";'
        'const label = ([record, n]) => labelOf(given.doc, { ...given.doc.records[0], ...record }, "key", 0, n);'
        "console.log(JSON.stringify(given.cases.map(label)));"
    )
    doc = embedded([pictured()]).values
    cases = [[{}, 0], [{}, 1], [{"keyExtra": 2}, 1]]
    assert run_javascript(source, {"doc": doc, "cases": cases}) == ["class token", "r0 c0", "extra 1"]
