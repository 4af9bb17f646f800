"""Tests of the first view of a page, which head it opens on, and its hints."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import regard
from regard.analysis import received
from regard.maps import AttentionMap
from regard.maps.sources import Stored
from regard.viewer.opening import opening
from regard.viewer.payload import embedded, remote
from regard.viewer.tiles import HIDDEN, PENDING, Overview
from support.browser import pixels, saved, served, texts_of
from support.viewer_records import READ, pictured, record, run_javascript

PAIR = ["[CLS]", "a", "big", "cat", "[SEP]", "it", "is", "big", "[SEP]"]


def weights_of(rows: dict[int, dict[int, float]], n: int, heads: int = 1) -> torch.Tensor:
    """A map ``(1,h,n,n)`` whose queries look at key 0, but for these of the last head."""
    weights = torch.zeros(1, heads, n, n)
    weights[..., 0] = 1
    for i, given in rows.items():
        weights[0, -1, i] = 0
        for j, weight in given.items():
            weights[0, -1, i, j] = weight
        weights[0, -1, i, 0] += 1 - sum(given.values())
    return weights


def page_of(records, folder, **options) -> str:
    regard.viewer.save_html(records, folder / "page.html", **options)
    return (folder / "page.html").as_uri()


# ---- the first view


def test_a_page_opens_on_a_head_and_a_query_that_look_at_a_word():
    n = len(PAIR)
    dull = AttentionMap.from_weights(weights_of({}, n, heads=2))
    beside = AttentionMap.from_weights(weights_of({i: {i - 1: 1.0} for i in range(2, n)}, n, heads=2))
    marks = AttentionMap.from_weights(weights_of({i: {4: 0.9} for i in range(1, n)}, n, heads=2))
    words = AttentionMap.from_weights(
        weights_of({1: {3: 0.4}, 2: {6: 0.5}, 3: {7: 0.3}, 5: {3: 0.7}}, n, heads=2)
    )
    records = [
        record(map, f"layers.{at}", query_tokens=[PAIR])
        for at, map in enumerate((dull, beside, marks, words))
    ]
    found = {"record": 3, "head": 1, "row": 5, "col": 3}
    assert opening(records) == found
    assert embedded(records).values["opening"] == found == remote(records).values["opening"]


def test_a_map_without_a_telling_query_opens_on_its_last_query():
    one = record(AttentionMap.from_weights(torch.ones(1, 1, 1, 1)))
    assert opening([one]) == {"record": 0, "head": 0, "row": 0, "col": 0}
    causal = record(AttentionMap.from_weights(weights_of({}, 5)), kind="causal")
    assert opening([causal]) == {"record": 0, "head": 0, "row": 4, "col": 0}
    pictures = [causal, pictured()]
    assert opening(pictures, pictured=True)["record"] == 1
    assert opening(pictures, pictured=True)["row"] == 0, "the class token makes the vector of the picture"
    assert opening(pictures, pictured=True)["col"] >= 1, "it looks at a patch"


def test_a_page_with_pictures_opens_on_the_record_with_the_most_queries_that_are_no_patches():
    torch.manual_seed(0)
    weights = {n: torch.softmax(9 * torch.randn(1, 1, n, 6), -1) for n in (1, 2, 6)}
    maps = {n: AttentionMap.from_weights(one) for n, one in weights.items()}
    layer = record(maps[6], query_grid=(2, 3), key_grid=(2, 3))
    pooling = record(maps[1], kind="cross", key_grid=(2, 3))
    named = record(maps[2], kind="cross", key_grid=(2, 3), query_tokens=[["pooling", "rollout"]])
    assert opening([layer, pooling], pictured=True)["record"] == 1
    for records in ([layer, pooling, named], [named, pooling, layer]):
        assert records[opening(records, pictured=True)["record"]] is named
    first = torch.tensor([[[[1.0, 0, 0, 0, 0, 0], [0.5, 0, 0, 0.5, 0, 0]]]])
    sure = record(AttentionMap.from_weights(first.flip(-1)), kind="cross", key_grid=(2, 3))
    assert opening([sure], pictured=True)["row"] == 0, "the first map counts like the others"
    said = record(sure.map, kind="cross", key_grid=(2, 3), query_tokens=[[",", "two"]])
    assert opening([said], pictured=True)["row"] == 1, "punctuation is no word"


def test_a_page_opens_on_a_word_and_not_on_a_punctuation_mark():
    words = ["a", "cat", ",", "a", "dog"]
    weights = weights_of({1: {4: 0.4}, 2: {4: 0.9}, 3: {1: 0.3}}, len(words))
    named = record(AttentionMap.from_weights(weights), query_tokens=[words])
    assert opening([named]) == {"record": 0, "head": 0, "row": 1, "col": 4}
    marks = record(AttentionMap.from_weights(weights), query_tokens=[[",", ".", "?", "!", "…"]])
    assert opening([marks]) == {"record": 0, "head": 0, "row": 2, "col": 4}


def test_the_only_query_of_a_pooling_opens_on_its_largest_weight():
    weights = torch.tensor([0.2, 0.1, 0.1, 0.5, 0.1]).reshape(1, 1, 1, 5)
    pooling = record(
        AttentionMap.from_weights(weights),
        kind="cross",
        query_tokens=[["positive"]],
        key_tokens=[list("abcde")],
    )
    assert opening([pooling]) == {"record": 0, "head": 0, "row": 0, "col": 3}


def test_the_page_shows_the_cell_it_opens_on(opened, tmp_path):
    weights = weights_of({5: {3: 0.7}}, len(PAIR), heads=3)
    records = [
        record(AttentionMap.from_weights(torch.ones(1, 2, 9, 9) / 9), f"l.{n}", query_tokens=[PAIR])
        for n in range(20)
    ]
    records.append(record(AttentionMap.from_weights(weights), "l.20", query_tokens=[PAIR]))
    watched = opened(page_of(records, tmp_path), height=600)
    assert watched.page.locator(".readout").inner_text() == "l.20 · head 2"
    assert watched.page.locator(".word").all_inner_texts() == ["it", "cat"]
    assert watched.page.locator("output.weight").inner_text() == "0.700"
    inside = "(s => s.scrollTop + s.clientHeight >= s.scrollHeight - 12)(document.querySelector('.stage'))"
    assert watched.page.evaluate(inside), "the last layer is scrolled into sight"
    watched.page.keyboard.press("2")
    assert watched.page.locator(".readout").inner_text() == "it → cat   0.700"


# ---- long causal maps are not dark


# The brightness of the colour of a weight of 0.
DARKEST = 42


def causal_map(n=300, heads=2):
    """Head 0 has uniform weights, and head 1 has most of its weight at the first key."""
    torch.manual_seed(0)
    q, k, v = torch.randn(1, heads, n, 16), torch.randn(1, heads, n, 16), torch.randn(1, heads, n, 1)
    q[0, 1, :, 0] = 9
    k[0, 1, :, 0] = 0
    k[0, 1, 0, 0] = 3
    return regard.attention(q, k, v, mask=regard.causal(), return_map=True)[1]


def brightness_below_diagonal(watched):
    """Return the brightness of the visible pairs of a causal map, without background and hidden pairs."""
    image = pixels(watched.page).astype(float)
    hidden = (image == (0xE3, 0xE6, 0xEC)).all(-1)
    rows, cols = np.nonzero(hidden & (hidden.sum(1) > 20)[:, None])  # not the square of the legend
    top, bottom, left, right = rows.min(), rows.max(), cols.min(), cols.max()
    side = right - left
    points = [
        (top + int(y * (bottom - top)), left + int(x * y * side))
        for y in np.linspace(0.3, 0.95, 40)
        for x in np.linspace(0.1, 0.9, 40)
    ]
    return np.array([image[at].mean() for at in points])


def test_a_long_causal_map_has_bright_cells(opened, tmp_path):
    watched = opened(page_of([record(causal_map(), kind="causal")], tmp_path) + "#view=heat&row=1&col=1")
    for head in (0, 1):
        found = {}
        for top in ("auto", "largest"):  # before, the largest weight set the scale
            watched.page.evaluate(f"location.hash = '#view=heat&head={head}&row=1&col=1&top={top}'")
            watched.page.wait_for_timeout(700)
            found[top] = np.median(brightness_below_diagonal(watched)) - DARKEST
        assert found["auto"] > 2 * found["largest"]
        assert found["auto"] > 30


BLOCK = {
    "doc": {
        "labels": [["[CLS]", "a", "b", "c"]],
        "records": [
            {"kind": "causal", "shape": [1, 1, 100, 100], "keyTokens": None, "queryTokens": None},
            {"kind": "self", "shape": [1, 1, 4, 4], "keyTokens": [0], "queryTokens": [0]},
        ],
    },
    "rows": [1, *[HIDDEN] * 3, 0.5, 0.3, *[HIDDEN] * 2, 0.2, 0.1, 0.4, HIDDEN, 0.9, 0.04, 0.03, 0.02],
}


def tops(record=1, **state):
    source = READ + (
        'import { topsOf, topMode } from "STATIC/scales.js"; const { doc, rows, state, record } = given;'
        "const scene = { doc, state: { batch: 0, aside: 0, top: 'auto', ...state } };"
        "const block = { rows: 4, cols: 4, values: Float32Array.from(rows), max: 1, done: 1 };"
        "const found = [topMode(doc.records[record], scene.state.top), ...topsOf(scene, record, block).values];"
        "console.log(JSON.stringify(found));"
    )
    mode, *values = run_javascript(source, BLOCK | {"state": state, "record": record})
    return mode, pytest.approx(values, abs=1e-6)


def test_the_end_of_the_colour_scale_follows_its_setting():
    assert tops() == ("largest", [1])
    assert tops(record=0)[0] == "percentile"
    assert tops(top="row") == ("row", [1, 0.5, 0.4, 0.9])
    assert tops(top="row", aside=1) == ("row", [0, 0.3, 0.4, 0.04])
    assert tops(top="largest", aside=1) == ("largest", [0.4])
    # of ten visible cells the ninth; of the six without the first key the fifth
    assert tops(top="percentile") == ("percentile", [0.9])
    assert tops(top="percentile", aside=1) == ("percentile", [0.3])


def test_tiles_and_cells_have_the_scale_of_their_row(opened, tmp_path):
    weights = torch.zeros(1, 1, 64, 64)
    weights[0, 0, :, 1] = torch.linspace(0.01, 1, 64)
    address = page_of([record(AttentionMap.from_weights(weights))], tmp_path)
    watched = opened(address + "#view=heat&top=row&row=60&col=60&zoom=30")
    source = (
        'import { colorTable } from "STATIC/color.js";'
        'console.log(JSON.stringify([...colorTable("bright", false)].slice(-3)));'
    )
    brightest = f'fill="rgb({",".join(map(str, run_javascript(source)))})"'
    svg = saved(watched, "SVG")
    assert svg.decode().count(brightest) >= 15, "the largest weight of each row has the brightest colour"


def test_leaving_out_sinks_is_on_request_and_named(opened, tmp_path):
    weights = torch.full((1, 1, 9, 9), 0.01)
    weights[..., 0] = 0.9
    weights[0, 0, 3, 0], weights[0, 0, 3, 6] = 0.8, 0.09
    address = page_of([record(AttentionMap.from_weights(weights), query_tokens=[PAIR])], tmp_path)
    watched = opened(address + "#view=heat")
    assert "0.900" in texts_of(saved(watched, "SVG"))
    watched.page.get_by_label("Scale without [CLS], [SEP], first token").check()
    assert watched.hash()["aside"] == "1"
    texts = texts_of(saved(watched, "SVG"))
    assert any(text.startswith("0.0900 or more") for text in texts)


# ---- the flow


def lines(watched) -> int:
    return saved(watched, "SVG").count(b"<path")


def random_record(n=40, heads=4, **fields):
    torch.manual_seed(1)
    map = AttentionMap.from_weights(torch.softmax(2 * torch.randn(1, heads, n, n), -1))
    return record(map, **fields)


def test_the_flow_opens_with_the_strongest_lines_of_one_head(opened, tmp_path):
    watched = opened(page_of([random_record()], tmp_path) + "#view=flow")
    assert 20 <= lines(watched) <= 33
    pressed = watched.page.locator(".chip[aria-pressed='true']")
    assert pressed.count() == 1
    shows = watched.page.locator(".shows").inner_text()
    assert f"head {pressed.inner_text()}: the 30 strongest of " in shows
    more = re.search(r", and (\d) more of the chosen query", shows)
    assert lines(watched) == 30 + (int(more[1]) if more else 0)
    watched.page.get_by_role("button", name="all").click()
    assert watched.hash()["heads"] == "all"
    assert 33 < lines(watched) <= 66
    assert (
        "4 heads" in watched.page.locator(".shows").inner_text()
        or "head 0, head 1" in watched.page.locator(".shows").inner_text()
    )


def test_the_flow_hides_marks_and_the_first_token_on_request(opened, tmp_path):
    weights = torch.full((1, 1, 9, 9), 0.02)
    weights[..., 0] = 0.5
    weights[..., 4] = 0.3
    address = page_of([record(AttentionMap.from_weights(weights), query_tokens=[PAIR])], tmp_path)
    watched = opened(address + "#view=flow&row=5&min=0.1")
    assert lines(watched) == 18
    watched.page.get_by_label("Hide [CLS], [SEP], first token").check()
    assert lines(watched) == 0
    assert "without [CLS], [SEP], first token" in watched.page.locator(".shows").inner_text()


def test_the_chosen_query_is_in_sight_in_flow_and_text(opened, tmp_path):
    words = [f"word{n}" for n in range(900)]
    address = page_of([random_record(900, 1, query_tokens=[words])], tmp_path)
    for view in ("flow", "text"):
        watched = opened(f"{address}#view={view}&row=450")
        assert "word450" in texts_of(saved(watched, "SVG"))
        watched.page.get_by_label("Query number").fill("800")
        watched.page.get_by_label("Query number").press("Enter")
        assert "word800" in texts_of(saved(watched, "SVG"))
        box = watched.page.locator("canvas").bounding_box()
        watched.page.mouse.move(box["x"] + 300, box["y"] + 200)
        watched.page.mouse.wheel(0, -3000)
        assert "word800" not in texts_of(saved(watched, "SVG")), "who scrolls sees what was scrolled to"


def test_pointing_at_a_line_isolates_it(opened, tmp_path):
    weights = torch.zeros(1, 1, 5, 5)
    for i, j in enumerate((4, 2, 0, 1, 3)):
        weights[0, 0, i, j] = 0.8
    words = ["v", "w", "x", "y", "z"]
    watched = opened(
        page_of([record(AttentionMap.from_weights(weights), query_tokens=[words])], tmp_path)
        + "#view=flow&row=3"
    )
    page = watched.page
    before = pixels(page)
    box = page.locator("canvas").bounding_box()
    row = next(y for y in range(30, int(box["height"])) if (before[y, 180] != before[3, 3]).any())
    page.mouse.move(box["x"] + 180, box["y"] + row + 1)
    watched.settle()
    assert page.locator(".readout").inner_text() == "v → z   0.800"
    after = pixels(page)
    assert (np.abs(after.astype(int) - 255).sum(-1) > 200).sum() < (
        np.abs(before.astype(int) - 255).sum(-1) > 200
    ).sum()
    page.mouse.move(box["x"] + 400, box["y"] + 15)
    watched.settle()
    assert page.locator(".readout").inner_text() == ""


def test_every_view_has_a_line_of_help(opened, tmp_path):
    watched = opened(page_of([pictured()], tmp_path))
    told = {}
    for digit, view in enumerate(("grid", "heat", "flow", "text", "steps", "image"), 1):
        watched.page.keyboard.press(str(digit))
        watched.settle()
        assert watched.page.locator(".hint").is_visible()
        told[view] = watched.page.locator(".hint").inner_text()
    expected = {
        "grid": ["Click one"], "heat": ["Point at a cell", "click"], "flow": ["token or a line", "pin"],
        "text": ["Click a token", "Point at"], "steps": ["Arrow keys"], "image": ["Point at a patch", "click"],
    }  # fmt: skip
    for view, words in expected.items():
        assert all(word in told[view] for word in words), told[view]


# ---- progress


def test_pending_and_hidden_pairs_of_an_overview_have_different_values():
    map = causal_map(64)
    overview = Overview(map._source, 0, 0, side=16)
    assert (overview.values == PENDING).all()
    for _ in overview.stream():
        pass
    assert (overview.values == HIDDEN).sum() == 120, "above the diagonal"
    assert not (overview.values == PENDING).any()


def test_an_overview_that_grows_shows_how_far_it_is(opened):
    n = 2000
    half = np.full((100, 100), PENDING, dtype="<f4")
    half[:40] = np.where(np.tri(40, 100, dtype=bool), 0.5, HIDDEN)

    def reply(route):
        headers = {"X-Regard-Rows": "100", "X-Regard-Done": "0.4", "Content-Type": "application/octet-stream"}
        route.fulfill(status=200, headers=headers, body=half.tobytes())

    with served([record(causal_map(n, 2), kind="causal")]) as address:
        watched = opened(address + "#view=steps", own=(address,))
        watched.page.route("**/overview?*", reply)
        watched.page.route("**/tile?*", lambda route: None)
        watched.page.keyboard.press("2")
        pending, hidden = pending_and_hidden(watched.page)
        for _ in range(40):  # a loaded machine draws late
            if pending.sum() > 20_000 and hidden.sum() > 5_000:
                break
            watched.page.wait_for_timeout(250)
            pending, hidden = pending_and_hidden(watched.page)
        assert pending.sum() > 20_000
        assert hidden.sum() > 5_000
        assert np.nonzero(pending.sum(1) > 200)[0].min() > np.nonzero(hidden.sum(1) > 100)[0].min()
        texts = texts_of(saved_now(watched))
        assert "not computed yet (40 % done)" in texts
        assert "hidden by the mask" in texts
        watched.page.unroute_all(behavior="ignoreErrors")


def pending_and_hidden(page) -> tuple[np.ndarray, np.ndarray]:
    """Return which pixels have the colour of pairs not computed yet, and which that of hidden pairs."""
    image = pixels(page)
    return (image == (0xF6, 0xE7, 0xC8)).all(-1), (image == (0xE3, 0xE6, 0xEC)).all(-1)


def saved_now(watched) -> bytes:
    """Save an SVG with faster timers, so that the save soon stops waiting for tiles that never come."""
    watched.page.evaluate(
        "() => { window.later = setTimeout; window.setTimeout = (f, n) => window.later(f, n / 100); }"
    )
    found = saved(watched, "SVG")
    watched.page.evaluate("() => { window.setTimeout = window.later; }")
    return found


# ---- encoder and decoder


def test_grids_of_encoder_and_decoder_say_so(opened, tmp_path):
    map = AttentionMap.from_weights(torch.ones(1, 1, 3, 3) / 3)
    names = [
        ("model.encoder.layers.0.self_attn", "self"), ("model.decoder.layers.0.self_attn", "causal"),
        ("model.decoder.layers.0.encoder_attn", "cross"), ("blocks.7", "self"), ("blocks.8", "causal"),
    ]  # fmt: skip
    records = [
        replace(record(map, name, kind), layer=layer)
        for (name, kind), layer in zip(names, (0, 0, 0, 7, 8), strict=True)
    ]
    roles = [entry["role"] for entry in embedded(records).values["records"]]
    assert roles == ["encoder", "decoder", "cross", "encoder", "decoder"]
    assert [entry["role"] for entry in embedded(records[:2]).values["records"]] == ["encoder", "decoder"]
    assert [entry["role"] for entry in embedded(records[2:3]).values["records"]] == [None]
    watched = opened(page_of(records[:3], tmp_path))
    assert {"encoder 0", "decoder 0", "cross 0"} <= set(texts_of(saved(watched, "SVG")))
    watched.page.keyboard.press("2")
    assert "Layer 0 · cross · model.decoder" in watched.page.locator("select").first.inner_text()


# ---- the text


def test_pieces_become_running_text():
    source = (
        READ
        + 'import { runningText } from "STATIC/tokens.js"; console.log(JSON.stringify(given.map(runningText)));'
    )
    cases = [
        ["[CLS]", "play", "##ing", "cards", ".", "[SEP]"], ["The", " cat", "s", "\n", " ", "  ##"],
        [" Das", " ist", "es"], ["a", "b", "!"],
    ]  # fmt: skip
    found = run_javascript(source, cases)
    written = [
        "".join((" " if one["gap"] else "") + one["text"] for one in pieces).strip() for pieces in found
    ]
    assert written == ["[CLS] playing cards. [SEP]", "The cats⏎␣ ␣##", "Das istes", "a b!"]


def test_sentences_of_a_pair_are_found():
    source = (
        READ
        + 'import { sentencesOf } from "STATIC/tokens.js";'
        + "console.log(JSON.stringify(given.map((x) => sentencesOf(x) && [...sentencesOf(x)])));"
    )
    roberta = ["<s>", "a", "</s>", "</s>", "b", "c", "</s>"]
    cases = [PAIR, roberta, ["[CLS]", "a", "[SEP]"], ["a", "b"], None, ["a", "[SEP]", "[SEP]"]]
    found = run_javascript(source, cases)
    assert found == [[1, 1, 1, 1, 1, 2, 2, 2, 2], [1, 1, 1, 2, 2, 2, 2], None, None, None, None]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    torch.manual_seed(5)
    map = AttentionMap.from_weights(torch.softmax(2 * torch.randn(1, 2, 9, 9), -1))
    records = [record(map, f"layers.{n}", query_tokens=[PAIR]) for n in range(2)]
    return page_of(records, tmp_path_factory.mktemp("pages")), map


def boxes(svg: bytes) -> dict[str, str]:
    """The colour behind each token of the text, by its number and word."""
    import xml.etree.ElementTree as xml

    found, fill, n = {}, None, 0
    for node in xml.fromstring(svg).iter():
        kind = node.tag.rsplit("}")[-1]
        if kind == "rect" and node.get("rx") and node.get("fill", "none").startswith("rgb"):
            fill = node.get("fill")
        elif kind == "text" and node.get("font-size") == "16":
            found[f"{n} {node.text}"] = fill
            fill, n = None, n + 1
    return found


def test_the_text_is_coloured_by_what_the_query_looks_at(opened, pair):
    address, map = pair
    watched = opened(address + "#view=text&head=1&row=3")
    found = boxes(saved(watched, "SVG"))
    assert list(found) == [f"{n} {word}" for n, word in enumerate(PAIR)]
    dark = [sum(map_rgb(color)) for color in found.values()]
    order = map[0, 1, 3].argsort(descending=True).tolist()
    assert np.argsort(dark, kind="stable")[0] == order[0]
    assert [dark[n] for n in order] == sorted(dark), "the more weight, the darker"
    box = watched.page.locator("canvas").bounding_box()
    watched.page.mouse.click(box["x"] + 30, box["y"] + 26)
    assert watched.hash()["row"] == "0"
    watched.page.keyboard.press("ArrowRight")
    assert watched.hash()["row"] == "1"
    assert "Query 1 “a”" in watched.said()


def map_rgb(color):
    return [int(part) for part in color[4:-1].split(",")]


def test_the_text_can_be_coloured_by_all_queries(opened, pair):
    address, map = pair
    mean = received(map)[0, 1]
    watched = opened(address + "#view=text&head=1&col=6")
    watched.page.get_by_label("Coloured by").select_option("all")
    watched.settle()
    assert watched.page.locator(".readout").inner_text() == f"all queries → is   {mean[6]:.3f}"
    with served([record(map, query_tokens=[PAIR])]) as server:
        far = opened(server + "#view=text&head=1&col=6&by=all", own=(server,))
        far.until("document.querySelector('.readout').innerText.includes('0.')")
        assert far.page.locator(".readout").inner_text() == f"all queries → is   {mean[6]:.3f}"
    watched.page.get_by_label("Sentences").select_option("BA")
    watched.settle()
    some = map[0, 1, 5:, 3].mean()
    watched.page.get_by_label("Key number").fill("3")
    watched.page.get_by_label("Key number").press("Enter")
    watched.settle()
    assert watched.page.locator(".readout").inner_text() == f"all queries → cat   {some:.3f}"


def test_a_token_is_found_by_search(opened, pair):
    watched = opened(pair[0] + "#view=text&row=0")
    page = watched.page
    page.keyboard.press("f")
    page.keyboard.type("BIG")
    assert watched.hash()["find"] == "BIG"
    assert page.locator("label", has_text="Find").locator("output").inner_text() == "2 tokens"
    page.keyboard.press("Enter")
    assert watched.hash()["row"] == "2"
    page.keyboard.press("Enter")
    assert watched.hash()["row"] == "7"
    page.keyboard.press("Enter")
    assert watched.hash()["row"] == "2", "and from the start again"
    page.get_by_role("tab", name="Heat map").click()
    page.get_by_label("Find a token").fill("it")
    page.get_by_label("Find a token").press("Enter")
    assert watched.hash()["row"] == "5"


def test_sentences_are_filtered_in_text_and_flow(opened, pair):
    sentence = {"A": range(5), "B": range(5, 9)}
    watched = opened(pair[0] + "#view=text&row=2")
    flow = opened(pair[0] + "#view=flow&min=0")
    for queries, keys in ("AA", "AB", "BA", "BB"):
        for page in (watched.page, flow.page):
            page.get_by_label("Sentences").select_option(queries + keys)
        assert int(watched.hash()["row"]) in sentence[queries], "the query is one of that sentence"
        coloured = [int(name.split()[0]) for name, fill in boxes(saved(watched, "SVG")).items() if fill]
        assert coloured == list(sentence[keys])
        assert lines(flow) == len(sentence[queries]) * len(sentence[keys])
        assert f"from sentence {queries} to sentence {keys}" in flow.page.locator(".shows").inner_text()


def test_the_filter_of_sentences_is_hidden_without_a_pair(opened, tmp_path):
    watched = opened(page_of([random_record(5)], tmp_path) + "#view=text&pair=AB")
    assert not watched.page.get_by_label("Sentences").is_visible()
    assert "pair" not in watched.hash()


def test_cross_attention_has_two_texts(opened, tmp_path):
    weights = torch.tensor([[[[0.1, 0.9], [0.8, 0.2], [0.5, 0.5]]]])
    fields = {"query_tokens": [["le", "chat", "dort"]], "key_tokens": [["cat", "the"]]}
    watched = opened(
        page_of([record(AttentionMap.from_weights(weights), kind="cross", **fields)], tmp_path)
        + "#view=text&row=1"
    )
    texts = texts_of(saved(watched, "SVG"))
    assert [text for text in texts if text in ("le", "chat", "dort", "cat", "the")] == [
        "le",
        "chat",
        "dort",
        "cat",
        "the",
    ]
    assert "Queries (click one)" in texts
    assert "chat → " in watched.page.locator(".readout").inner_text()


def test_a_nearly_even_row_is_not_coloured_and_says_so(opened, tmp_path):
    words = ["a", "big", "cat", "sat"]
    even = torch.tensor([[[[0.25, 0.26, 0.24, 0.25], [0.1, 0.7, 0.1, 0.1]]]]).repeat(1, 1, 2, 1)
    watched = opened(
        page_of([record(AttentionMap.from_weights(even), query_tokens=[words])], tmp_path)
        + "#view=text&row=0"
    )
    svg = saved(watched, "SVG")
    assert set(boxes(svg).values()) == {None}
    assert "Not coloured: the weights are nearly even, about 0.250 each." in texts_of(svg)
    assert "are nearly even" in watched.page.locator(".shows").inner_text()
    watched.page.keyboard.press("ArrowRight")
    svg = saved(watched, "SVG")
    assert None not in boxes(svg).values()
    assert "Not coloured" not in watched.page.locator(".shows").inner_text()


def test_words_of_several_tokens_are_underlined(opened, tmp_path):
    words = ["[CLS]", "un", "##believ", "##able", "cat", "##s", "!"]
    address = page_of([random_record(7, query_tokens=[words])], tmp_path)
    svg = saved(opened(address + "#view=text"), "SVG").decode()
    assert svg.count('stroke-width="1.5"') == 5, "un believ able, cat s"
    assert "underlined: one word" in svg


def test_negative_weights_are_blue_and_the_legend_says_so(opened, tmp_path):
    signed = torch.tensor([[[[1.5, -0.5], [0.25, 0.75]]]])
    fields = {"query_tokens": [["a", "b"]], "note": "heads are mixed"}
    address = page_of([record(AttentionMap(Stored(signed)), **fields)], tmp_path)
    watched = opened(address + "#view=heat&row=0&col=1")
    svg = saved(watched, "SVG")
    assert {"−0.500", "1.500", "−1.500", "0", "blue: negative weights"} <= set(texts_of(svg))
    assert watched.page.locator(".weight").inner_text() == "−0.500"
    assert "a negative weight, rank 2 of 2 by size" in watched.page.locator(".panel").inner_text()
    assert watched.page.locator("footer").inner_text().startswith("Note: heads are mixed.")
    assert not watched.page.get_by_label("Colours").is_visible()
    watched = opened(address + "#view=flow")
    assert "dashed lines are negative weights" in watched.page.locator(".shows").inner_text()
    assert b"stroke-dasharray" in saved(watched, "SVG")
