"""Tests of every view in Chromium by mouse and keyboard, without console messages or network requests.
nothing asked of the network."""

import json

import numpy as np
import pytest
import torch

import regard
from regard.maps import AttentionMap, Record
from support.browser import Watched, colours, put_widget, saved, served, texts_of
from support.viewer_records import WORDS, causal_records, maps, pictured, record


@pytest.fixture(scope="module")
def every(tmp_path_factory):
    """Return a page with every view, for words and for patches of a picture."""
    path = tmp_path_factory.mktemp("pages") / "every.html"
    records = [*causal_records(), pictured(12)]
    regard.viewer.save_html(records, path, title="Seven words", images=[np.full((30, 40, 3), 0.5)])
    return path.as_uri()


# `make test` opens two of the views, and `make test-viewer` all of them.
EVERY_VIEW = [
    *("heat&record=0", "image"),
    *(pytest.param(f"{view}&record=0", marks=pytest.mark.slow) for view in ("grid", "flow", "text", "steps")),
]


def canvas_box(watched):
    return watched.page.locator("canvas").bounding_box()


# ---- each view


def test_the_model_opens_a_heat_map_by_mouse_and_by_keyboard(opened, small):
    watched = opened(small + "#record=0&head=0")
    page = watched.page
    assert page.title() == "Seven words · Regard"
    assert page.get_by_role("tab", selected=True).inner_text() == "Model"
    assert colours(watched) > 10
    page.locator("canvas").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert "layers.1.attention, head 2" in watched.said()
    page.keyboard.press("Enter")
    state = watched.hash()
    assert (state["view"], state["record"], state["head"]) == ("heat", "1", "2")
    page.get_by_role("tab", name="Model").click()
    box = canvas_box(watched)
    page.mouse.move(box["x"] + 150, box["y"] + 90)
    watched.settle()
    assert page.locator(".readout").inner_text() == "layers.0.attention · head 0"
    page.mouse.click(box["x"] + 150, box["y"] + 90)
    assert watched.hash().get("view") == "heat"
    assert watched.hash().get("record", "0") == "0"


def test_the_heat_map_reads_out_the_cell_under_the_pointer(opened, small):
    watched = opened(small + "#view=heat&record=1&head=1")
    page = watched.page
    map = causal_records()[1].map
    seen = set()
    box = canvas_box(watched)
    for x in range(200, 800, 100):
        for y in range(100, 560, 100):
            page.mouse.move(box["x"] + x, box["y"] + y)
            page.wait_for_timeout(40)
            text = page.locator(".readout").inner_text()
            query, rest = text.split(" → ")
            key, _, weight = rest.partition("   ")
            seen.add((query, key, weight))
    assert len(seen) > 15
    for query, key, weight in seen:
        rows = [i for i, word in enumerate(WORDS) if word == query]
        cols = [j for j, word in enumerate(WORDS) if word == key]
        known = [float(map[0, 1, i, j]) for i in rows for j in cols if j <= i]
        if weight == "hidden":
            assert any(j > i for i in rows for j in cols)
        else:
            assert min(abs(float(weight.replace("−", "-")) - w) for w in known) < 2e-3


def test_keys_move_zoom_and_switch_heads_in_the_heat_map(opened, small):
    watched = opened(small + "#view=heat&record=0&head=0&row=4&col=2")
    page = watched.page
    page.locator("canvas").focus()
    map = causal_records()[0].map
    for key, row, col in [
        ("ArrowLeft", 4, 1),
        ("ArrowUp", 3, 1),
        ("ArrowDown", 4, 1),
        ("Home", 4, 0),
        ("End", 4, 6),
    ]:
        page.keyboard.press(key)
        told = watched.said()
        assert told.startswith(f"Query {row} “{WORDS[row]}” to key {col} “{WORDS[col]}”"), told
        weight = float(map[0, 0, row, col])
        assert ("hides this key" if col > row else f"{weight:.3f}"[:4]) in told
    before = watched.hash()
    for _ in range(3):
        page.keyboard.press("+")
    assert float(watched.hash()["zoom"]) > 60
    page.keyboard.press("0")
    assert watched.hash() == before
    page.keyboard.press(".")
    assert watched.hash()["head"] == "1"
    page.keyboard.press("]")
    assert watched.hash()["record"] == "1"
    page.keyboard.press("m")
    assert watched.hash()["head"] == "-1"
    page.keyboard.press("?")
    assert page.locator("dialog").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("dialog").is_visible()


def test_wheel_and_double_click_zoom_and_a_drag_moves_the_map(opened, small):
    watched = opened(small + "#view=heat")
    page = watched.page
    box = canvas_box(watched)
    page.mouse.move(box["x"] + 400, box["y"] + 300)
    for _ in range(4):
        page.mouse.wheel(0, -150)
    zoomed = watched.hash()
    assert float(zoomed["zoom"]) > 52
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 240, steps=6)
    page.mouse.up()
    moved = watched.hash()
    assert float(moved["y"]) > float(zoomed.get("y", 0))
    assert float(moved.get("x", 0)) >= float(zoomed.get("x", 0)), "at the edge a drag moves nothing back"
    assert moved.get("row") == zoomed.get("row"), "a drag chooses nothing"
    for _ in range(8):
        page.mouse.wheel(0, 400)
    assert "zoom" not in watched.hash()
    page.mouse.dblclick(box["x"] + 400, box["y"] + 300)
    assert float(watched.hash()["zoom"]) > 52


def test_the_flow_isolates_a_token_and_chooses_heads(opened, small):
    watched = opened(small + "#view=flow&record=0&head=0&row=6")
    page = watched.page
    box = canvas_box(watched)
    whole = colours(watched)
    page.mouse.move(box["x"] + 40, box["y"] + 100)
    watched.settle()
    assert colours(watched) != whole
    page.mouse.click(box["x"] + 40, box["y"] + 100)
    assert int(watched.hash()["row"]) < len(WORDS) - 1
    page.get_by_role("button", name="head 1").click()
    assert watched.hash()["heads"] == "0.1"
    page.get_by_role("button", name="head 2").click()
    assert watched.hash()["heads"] == "0.1.2"
    page.get_by_role("button", name="all").click()
    assert watched.hash()["heads"] == "all"
    page.get_by_role("button", name="head 2").click()
    assert "heads" not in watched.hash()
    assert watched.hash()["head"] == "2"
    page.get_by_label("Lines from").fill("0.4")
    assert watched.hash()["min"] == "0.4"
    page.locator("canvas").focus()
    page.keyboard.press("ArrowDown")
    assert "Query" in watched.said()


def test_the_steps_show_the_numbers_and_follow_the_keys(opened, small):
    watched = opened(small + "#view=steps&record=0&row=5&col=2&head=1")
    page = watched.page
    label = page.locator("canvas").get_attribute("aria-label")
    map = causal_records()[0].map
    q, k = map._source.ready.q[0, 1, 5].double(), map._source.ready.k[0, 1, 2].double()
    product = float(label.split("Product: q · k ")[1].split(". ")[0].replace("−", "-"))
    assert product == pytest.approx(float(q @ k), abs=2e-2)
    assert "this key may be seen" in label
    page.locator("canvas").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    assert (watched.hash()["row"], watched.hash()["col"]) == ("2", "3")
    assert "hidden from this query" in page.locator("canvas").get_attribute("aria-label")


def test_queries_are_chosen_in_the_picture(opened, tmp_path):
    image = np.zeros((30, 40, 3))
    image[..., 0] = np.linspace(0, 1, 40)
    regard.viewer.save_html([pictured()], tmp_path / "p.html", images=[image])
    watched = opened((tmp_path / "p.html").as_uri())
    page = watched.page
    assert page.get_by_role("tab", selected=True).inner_text() == "Picture"
    assert "weights of the class token" in page.locator("canvas").get_attribute("aria-label")
    box = canvas_box(watched)
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 200)
    assert int(watched.hash()["row"]) >= 1
    assert "the patch in row" in page.locator("canvas").get_attribute("aria-label")
    page.keyboard.press("ArrowLeft")
    assert colours(watched) > 50


def words_over_a_picture(count: int) -> Record:
    """Words that each attend to one of 3 × 4 patches, word n to patch n."""
    weights = torch.full((1, 1, count, 12), 0.01)
    weights[0, 0, torch.arange(count), torch.arange(count) % 12] = 0.89
    words = [["a", "seven", "above", "a", "two", ",", "</s>", *["word"] * count][:count]]
    attention = AttentionMap.from_weights(weights)
    return record(attention, kind="cross", query_tokens=words, key_grid=(3, 4))


def test_words_above_a_picture_show_their_weights(opened, tmp_path):
    one = words_over_a_picture(7)
    regard.viewer.save_html([one], tmp_path / "w.html", images=[np.full((30, 40, 3), 0.5)])
    watched = opened((tmp_path / "w.html").as_uri() + "#view=image&row=1")
    page, box = watched.page, canvas_box(watched)
    assert "Point at a word" in page.locator(".hint").inner_text()
    page.mouse.move(box["x"] + 105, box["y"] + 18)  # the third word
    page.wait_for_function("document.querySelector('.readout').textContent.startsWith('“above”')")
    assert watched.hash()["row"] == "1"  # pointing chooses nothing
    assert colours(watched) > 5
    page.mouse.click(box["x"] + 105, box["y"] + 18)
    assert watched.hash()["row"] == "2"
    page.keyboard.press("ArrowRight")
    assert watched.hash()["row"] == "3"
    assert "Picture with the weights of “a”" in page.locator("canvas").get_attribute("aria-label")


def test_a_long_text_above_a_picture_shows_the_lines_around_the_chosen_word(opened, tmp_path):
    one = words_over_a_picture(400)
    regard.viewer.save_html([one], tmp_path / "w.html", images=[np.full((30, 40, 3), 0.5)])
    watched = opened((tmp_path / "w.html").as_uri() + "#view=image&row=200")
    page, box = watched.page, canvas_box(watched)
    page.mouse.click(box["x"] + 50, box["y"] + 18)
    assert 100 < int(watched.hash()["row"]) < 200  # a word some lines before it


# ---- the page around the views


def test_a_link_opens_the_same_view(opened, small):
    state = "#view=heat&record=1&head=2&row=3&col=1&zoom=96&x=0.5&y=1.25&scale=log&palette=ink&theme=dark"
    watched = opened(small + state, width=800)  # too narrow for seven cells of that size
    watched.page.locator("canvas").focus()
    watched.page.keyboard.press("ArrowUp")
    watched.page.keyboard.press("ArrowDown")
    found = watched.hash()
    for part in state[1:].split("&"):
        name, value = part.split("=")
        assert found[name] == value, name
    watched.page.evaluate("location.hash = '#view=flow&record=0'")
    watched.settle()
    assert watched.page.get_by_role("tab", selected=True).inner_text() == "Flow"


@pytest.mark.parametrize(
    "hash",
    [
        "#record=99&head=-5&row=1e9&col=NaN&zoom=-3&x=Infinity",
        "#%%%",
        *(
            pytest.param(hash, marks=pytest.mark.slow)
            for hash in ("#view=nothing", "#heads=9.8.x", "#zoom=1e300")
        ),
    ],
)
def test_a_broken_link_still_opens(opened, small, hash):
    watched = opened(small + hash)
    assert colours(watched) > 5


def test_the_tabs_work_with_arrow_keys_and_digits(opened, small):
    watched = opened(small)
    page = watched.page
    page.get_by_role("tab", name="Model").focus()
    for name in ("Heat map", "Flow", "Text", "Steps", "Model"):
        page.keyboard.press("ArrowRight")
        assert page.get_by_role("tab", selected=True).inner_text() == name
    page.locator("canvas").focus()
    for digit, name in [("2", "Heat map"), ("5", "Steps"), ("4", "Text"), ("3", "Flow"), ("1", "Model")]:
        page.keyboard.press(digit)
        assert page.get_by_role("tab", selected=True).inner_text() == name


def test_the_page_follows_light_and_dark_mode(opened, small):
    background = "getComputedStyle(document.querySelector('.regard')).backgroundColor"
    dark = opened(small, color_scheme="dark")
    light = opened(small, color_scheme="light")
    assert dark.page.evaluate(background) != light.page.evaluate(background)
    light.page.get_by_role("button", name="Switch between light and dark").click()
    assert light.page.evaluate(background) == dark.page.evaluate(background)
    assert light.hash()["theme"] == "dark"


def test_the_panel_lists_the_largest_weights_of_the_query(opened, small):
    watched = opened(small + "#view=heat&record=0&row=6&col=0&head=2")
    map = causal_records()[0].map
    best = map.topk(3).keys[0, 2, 6].tolist()
    lines = watched.page.locator("tbody tr").all_inner_texts()
    assert [int(line.split()[0]) for line in lines[:3]] == best
    watched.page.locator("tbody button").nth(1).click()
    assert int(watched.hash().get("col", 0)) == best[1]
    watched.page.get_by_label("Query number").fill("3")
    watched.page.get_by_label("Query number").press("Enter")
    assert watched.hash()["row"] == "3"


@pytest.mark.parametrize("view", EVERY_VIEW)
def test_nothing_is_wider_than_a_phone(opened, every, view):
    watched = opened(f"{every}#view={view}", width=360, height=740, device_scale_factor=2, has_touch=True)
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= 360
    assert colours(watched) > 5


@pytest.mark.parametrize("view", EVERY_VIEW)
def test_the_saved_files_show_the_current_view(opened, every, view, tmp_path):
    watched = opened(f"{every}#view={view}")
    view = view.split("&")[0]
    for kind in ("PNG", "SVG"):
        with watched.page.expect_download() as waiting:
            watched.page.get_by_role("button", name=f"as {kind}").click()
        file = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(file)
        assert file.name.startswith(f"attention-{view}-")
        data = file.read_bytes()
        if kind == "PNG":
            assert data.startswith(b"\x89PNG")
            assert len(data) > 4000
        else:
            texts = texts_of(data)
            assert any("Seven words" in text for text in texts)
            assert view not in ("heat", "flow") or "warm" in texts


def test_a_map_of_512_tokens_is_drawn_exactly(opened, tmp_path):
    (map,) = maps(512, layers=1, heads=1, mask=regard.causal())
    words = [f"w{n}" for n in range(512)]
    regard.viewer.save_html([record(map, kind="causal", query_tokens=[words])], tmp_path / "long.html")
    watched = opened((tmp_path / "long.html").as_uri() + "#view=heat&row=400&col=399")
    watched.page.wait_for_timeout(1500)
    assert colours(watched) > 20
    told = watched.page.locator("output.weight").inner_text()
    assert float(told.replace("−", "-")) == pytest.approx(float(map[0, 0, 400, 399]), abs=1e-3)


# ---- the other two homes


def test_the_server_draws_the_same(opened):
    with served(causal_records(), title="From the server") as address:
        watched = opened(address + "#view=heat&record=1&row=6&col=2&head=1", own=(address,))
        watched.page.wait_for_timeout(800)
        told = watched.page.locator("output.weight").inner_text()
        assert float(told) == pytest.approx(float(causal_records()[1].map[0, 1, 6, 2]), abs=6e-4)
        for digit in "13456":
            watched.page.locator("canvas").focus()
            watched.page.keyboard.press(digit)
            watched.page.wait_for_timeout(400)
            assert colours(watched) > 5
        kinds = {url.removeprefix(address).split("?")[0] for url in watched.requests}
        assert {"tile", "row", "cell", "overview"} <= kinds
        assert watched.page.locator("footer").inner_text().startswith("The server computes the weights")


def test_the_widget_draws_the_same(browser):
    context = browser.new_context(viewport={"width": 1000, "height": 700})
    watched = Watched(context)
    watched.page.goto("about:blank")
    put_widget(watched.page, causal_records(), title="In a notebook", height=600)
    watched.settle()
    watched.page.get_by_role("tab", name="Heat map").click()
    watched.settle()
    assert colours(watched) > 10
    assert watched.page.evaluate("location.hash") == "", "a notebook's address is not ours"
    assert watched.page.locator(".regard").bounding_box()["height"] == 600
    assert watched.troubles == []
    assert watched.outside() == []
    context.close()


def test_a_widget_has_a_short_repr_and_its_extra_is_named():
    import sys
    from unittest import mock

    pytest.importorskip("anywidget")
    assert repr(regard.viewer.widget(causal_records())) == "AttentionWidget(2 records: shown in a notebook)"
    with (
        mock.patch.dict(sys.modules, {"anywidget": None}),
        mock.patch("regard.viewer.notebook._made", None),
        pytest.raises(ImportError, match=r"pip install .*\[view\]'"),
    ):
        regard.viewer.widget(causal_records())


# ---- injection


def payloads() -> list[str]:
    """Texts that try to leave a script, an attribute, a style, a URL, a template or a comment, in many forms."""
    act = "window.__ran=1"
    cores = [
        f"<script>{act}</script>", f"</script><script>{act}</script>", f"<img src=x onerror={act}>",
        f"\"><img src=x onerror={act}>", f"'><svg onload={act}>", f"</title><script>{act}</script>",
        f"</textarea><script>{act}</script>", f"</style><script>{act}</script>", f"--><script>{act}</script>",
        f"]]><script>{act}</script>", f"<!--<script>{act}</script>", f"javascript:{act}", f"\" onmouseover=\"{act}",
        f"' onfocus='{act}' autofocus='", "<iframe srcdoc='<script>parent.__ran=1</script>'>", f"${{{act}}}",
        f"{{{{{act}}}}}", f"`+({act})+`", f"\\\";{act};//", f"\\u003cscript\\u003e{act}\\u003c/script\\u003e",
        f"&lt;script&gt;{act}&lt;/script&gt;", f"<a href=javascript:{act}>x</a>", "<base href=//evil.example/>",
        "<link rel=stylesheet href=//evil.example/x.css>", "<meta http-equiv=refresh content=0;url=//evil.example>",
        "<style>@import '//evil.example/x.css';</style>", "<object data=//evil.example>",
        f"<details open ontoggle={act}>",
        f"<math><mtext></mtext><script>{act}</script></math>", f"<template><script>{act}</script></template>",
        f"%3Cscript%3E{act}%3C/script%3E", f"<video><source onerror={act}></video>", f"<form action=javascript:{act}>",
        f"<body onload={act}>", f"</noscript><script>{act}</script>", f"<x onclick={act}>", f"{{% raw %}}{act}",
        "__proto__", "constructor", "toString",
    ]  # fmt: skip
    around = [
        ("", ""), ("\u2028", "\u2029"), ("\0", "\0"), ("\u202e", "\u202c"), ("\u2066", "\u2069"), ("\ufeff", "\u200b"),
        ("\r\n", "\t"), ("猫", "犬"), ("\ud800", "\udfff"), ("<!--", "-->"), ("'\"`", "`\"'"), ("\x1b[31m", "\x7f"),
        ("&#0;", "&nbsp;"), ("a" * 300, ""), ("\ufffe", "\uffff"),
    ]  # fmt: skip
    return [before + core + after for core in cores for before, after in around]


def poisoned_records():
    texts = payloads()
    assert len(texts) >= 500
    pair = AttentionMap.from_weights(torch.tensor([[0.75, 0.25], [0.5, 0.5]]))
    torch.manual_seed(3)
    q, k = torch.randn(2, 1, 1, len(texts), 4).unbind()
    long = regard.attention(q, k, torch.randn(1, 1, len(texts), 2), return_map=True)[1]
    named = [
        record(
            pair,
            text,
            texts[(n + 7) % len(texts)],
            dropped=texts[(n + 3) % len(texts)],
            query_tokens=[[text, text]],
        )
        for n, text in enumerate(texts)
    ]
    return [
        record(long, texts[1], texts[2], query_tokens=[texts], key_tokens=[texts], dropped=texts[0]),
        pictured(name=texts[4], kind=texts[5], query_tokens=[texts[-13:]], key_tokens=[texts[40:53]]),
        *named,
    ]


def assert_untouched(watched, *own):
    """Assert that no text was executed or fetched anything, and that no text became an element."""
    page = watched.page
    for digit in "1234561":
        page.locator("canvas").focus()
        page.keyboard.press(digit)
        watched.settle()
    page.keyboard.press("2")
    page.get_by_role("combobox", name="Layer").select_option("0")
    page.get_by_label("Find a token").fill("<img src=x onerror=window.__ran=1>")
    assert len(texts_of(saved(watched, "SVG"))) > 20
    for row in (0, 14, 101, 333):
        page.get_by_label("Query number").fill(str(row))
        page.get_by_label("Query number").press("Enter")
        watched.settle()
    page.locator("canvas").focus()
    page.keyboard.press("]")
    page.keyboard.press("6")  # the record with patches
    watched.settle()
    assert len(texts_of(saved(watched, "SVG"))) > 3
    assert page.evaluate("window.__ran") is None
    assert watched.troubles == []
    assert watched.outside(*own) == []
    wild = "img, iframe, svg, math, object, video, form, base, a, details, template, x, .regard script, .regard style"
    assert page.locator(wild).count() == 0
    assert page.locator("[onerror], [onload], [onclick], [onmouseover], [onfocus], [ontoggle]").count() == 0


def test_no_text_of_a_record_is_executed_in_the_file(browser, tmp_path):
    context = browser.new_context()
    title = "".join(payloads()[:80])
    path = tmp_path / "<img src=x onerror=window.__ran=1>'\"&{{7}}\u202e.html"
    regard.viewer.save_html(poisoned_records(), path, title=title)
    watched = Watched(context)
    watched.page.goto(path.as_uri())
    watched.page.wait_for_selector(".regard canvas")
    assert_untouched(watched, "file:")
    options = watched.page.locator("select option").count()
    assert options >= len(payloads())
    context.close()


@pytest.mark.slow
def test_no_text_of_a_record_is_executed_in_the_widget(browser):
    context = browser.new_context()
    watched = Watched(context)
    watched.page.goto("about:blank")
    put_widget(watched.page, poisoned_records(), title="".join(payloads()[80:160]))
    assert_untouched(watched)
    context.close()


@pytest.mark.slow
def test_no_text_of_a_record_is_executed_in_the_page_of_the_server(browser):
    context = browser.new_context()
    with served(poisoned_records(), title="".join(payloads()[160:240])) as address:
        watched = Watched(context)
        watched.page.goto(address)
        watched.page.wait_for_selector(".regard canvas")
        watched.page.wait_for_timeout(1000)
        assert_untouched(watched, address)
    context.close()


def test_the_policy_would_stop_a_script_that_got_in(browser, tmp_path):
    path = tmp_path / "altered.html"
    regard.viewer.save_html(causal_records(), path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("</body>", "<script>window.__ran = 1</script></body>"), encoding="utf-8")
    context = browser.new_context()
    watched = Watched(context)
    watched.page.goto(path.as_uri())
    watched.page.wait_for_selector(".regard canvas")
    assert watched.page.evaluate("window.__ran") is None
    assert any("Content Security Policy" in trouble for trouble in watched.troubles)
    context.close()


def test_hostile_labels_are_read_back_unchanged(browser, tmp_path):
    texts = payloads()
    regard.viewer.save_html(poisoned_records()[:1], tmp_path / "x.html")
    context = browser.new_context()
    watched = Watched(context)
    watched.page.goto((tmp_path / "x.html").as_uri())
    read = watched.page.evaluate(
        "JSON.stringify(JSON.parse(document.getElementById('regard-document').textContent).labels)"
    )
    assert json.loads(read)[0] == texts
    context.close()
