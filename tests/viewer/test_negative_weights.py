"""Maps with negative weights, as models have that mix heads after the softmax, are drawn as such and not as hidden."""

import json

import numpy as np
import pytest
import torch

import regard
from regard.maps import AttentionMap
from regard.maps.sources import Stored
from regard.viewer.application import Viewer
from regard.viewer.payload import embedded, remote
from regard.viewer.tiles import HIDDEN, Overview, pooled_tile
from support.viewer_records import needs, read_by_javascript, record, run_javascript
from support.viewer_requests import TOKEN, ask, floats


def mixed(q=5, k=7, heads=3) -> AttentionMap:
    """A map whose heads were mixed with signs. Its first weight is -1, its second -2."""
    torch.manual_seed(7)
    weights = torch.softmax(3 * torch.randn(1, heads, q, k), dim=-1)
    signed = torch.einsum("gh,bhqk->bgqk", torch.randn(heads, heads), weights)
    signed[0, 0, 0, :2] = torch.tensor([-1.0, -2.0])
    return AttentionMap(Stored(signed))


@pytest.mark.parametrize("size", [(5, 7), (5, 2**13)])  # stored in 16 bits, and in 8 bits
def test_the_page_stores_negative_weights(size, monkeypatch):
    monkeypatch.setattr(regard.viewer.payload, "EIGHT_BITS_BEYOND", 2**12)
    map = mixed(*size)
    document = embedded([record(map)])
    (entry,) = document.values["records"]
    assert entry["signed"]
    (found,) = read_by_javascript(document)
    largest = np.abs(map.numpy()).max(axis=-1, keepdims=True)
    assert (np.abs(found["weights"] - map.numpy()) <= largest / 200).all()
    assert np.abs(found["weights"] - map.numpy()).max() <= entry["error"] * 1.01 + 1e-7
    assert not found["cell"]["hidden"]


def test_maps_without_negative_weights_keep_their_scale():
    weights = AttentionMap.from_weights(torch.softmax(torch.randn(1, 3, 5, 7), dim=-1))
    for document in (embedded([record(weights)]), remote([record(weights)])):
        assert not document.values["records"][0]["signed"]
    assert remote([record(mixed())]).values["records"][0]["signed"]


def test_pooling_keeps_the_largest_magnitude_with_its_sign():
    map = AttentionMap(Stored(torch.tensor([[[[0.1, -0.6, 0.2, 0.3], [0.2, 0.4, -0.1, -0.2]]]])))
    np.testing.assert_allclose(
        pooled_tile(map._source, 0, 0, slice(0, 2), slice(0, 4), 2), [[-0.6, 0.3]], rtol=1e-6
    )
    overview = Overview(map._source, 0, 0, side=2)
    overview.advance()
    np.testing.assert_allclose(overview.values, [[-0.6, 0.3], [0.4, -0.2]], rtol=1e-6)


def test_the_stored_overview_of_a_page_keeps_negative_weights():
    map = mixed(300, 300, heads=2)
    entry = embedded([record(map)]).values["records"][0]
    assert entry["overview"]["codes"]["shape"] == [1, 2, 256, 256]
    source = (
        'import { readFileSync } from "node:fs"; import { Blobs, bytesOf } from "STATIC/arrays.js";'
        'import { LocalSource } from "STATIC/sources.js";'
        'const { document, blobs } = JSON.parse(readFileSync(0, "utf8"));'
        "const source = new LocalSource(document, new Blobs((n) => bytesOf(blobs[n])));"
        "console.log(JSON.stringify([...source.overview(0, 0, 1).values]));"
    )
    import base64

    document = embedded([record(map)])
    blobs = [base64.b64encode(data).decode("ascii") for data in document.blobs]
    found = np.array(run_javascript(source, {"document": document.values, "blobs": blobs})).reshape(256, 256)
    overview = Overview(map._source, 0, 1, side=256)
    list(overview.stream())
    assert (overview.values < -0.1).any()
    assert np.abs(found - overview.values).max() < 0.02 * np.abs(overview.values).max()


def test_the_server_sends_negative_weights_and_hidden_pairs_apart():
    map = mixed()
    viewer = Viewer([record(map)], token=TOKEN, hosts=frozenset({"here"}))
    row = floats(ask(viewer, f"/{TOKEN}/row", query="record=0&b=0&h=0&i=0"))
    np.testing.assert_allclose(row[0], map.numpy()[0, 0, 0], rtol=1e-6)
    cell = json.loads(ask(viewer, f"/{TOKEN}/cell", query="record=0&b=0&h=0&i=0&j=0")[2])
    assert (cell["hidden"], cell["weight"]) == (False, -1.0)
    received = floats(ask(viewer, f"/{TOKEN}/received", query="record=0&b=0&h=0&from=0&to=5"))
    np.testing.assert_allclose(received[0], map.numpy()[0, 0].mean(axis=0), rtol=1e-5)


def test_colours_of_both_signs_are_far_apart_and_zero_is_in_the_middle():
    needs("node")
    source = (
        'import { colorTable, place } from "STATIC/color.js";'
        "console.log(JSON.stringify([[...colorTable('signed', false)], [...colorTable('signed', true)],"
        " [-1, -0.25, 0, 0.25, 1].map((w) => place(w, 1, 'linear', true)), place(-0.25, 1, 'root', true)]));"
    )
    light, dark, places, rooted = run_javascript(source, None)
    assert places == [0, 0.375, 0.5, 0.625, 1]
    assert rooted == 0.25
    for table in (np.array(light).reshape(256, 3), np.array(dark).reshape(256, 3)):
        assert table[0][2] > table[0][0] + 80, "blue"
        assert table[255][0] > table[255][2] + 80, "red"
        assert np.ptp(table[127].astype(int)) < 12, "grey"


def test_hidden_and_pending_values_are_not_weights():
    assert HIDDEN < -1e20
    needs("node")
    source = (
        'import { HIDDEN, PENDING, isWeight, stronger } from "STATIC/arrays.js";'
        "console.log(JSON.stringify([HIDDEN, PENDING, isWeight(-1), isWeight(-2), isWeight(HIDDEN),"
        " stronger(0.2, -0.5), stronger(HIDDEN, -0.5), stronger(PENDING, HIDDEN) === HIDDEN]));"
    )
    assert run_javascript(source, None) == [
        HIDDEN, regard.viewer.tiles.PENDING, True, True, False, -0.5, -0.5, True,
    ]  # fmt: skip
