"""Tests of the viewer with the keyboard, touch, screen readers, narrow windows and a lost server."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import regard
from regard.errors import ShapeError
from regard.maps import AttentionMap
from support.browser import Watched, pixels, put_widget, saved, served, texts_of
from support.viewer_records import causal_records, pictured, record


def random_record(heads, n, name="layer", **fields):
    torch.manual_seed(heads)
    q, k = torch.randn(2, 1, heads, n, 4).unbind()
    return record(regard.attention(q, k, torch.ones(1, heads, n, 1), return_map=True)[1], name, **fields)


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "picture.html"
    regard.viewer.save_html([pictured(12)], path, images=[np.full((30, 40, 3), 0.5)])
    return path.as_uri()


# ---- keys


def test_keys_work_from_the_start_but_not_while_typing(opened, small):
    watched = opened(small)
    watched.page.keyboard.press("2")
    assert watched.hash()["view"] == "heat"
    watched.page.get_by_label("Query number").fill("3")
    watched.page.keyboard.press("4")
    assert watched.hash()["view"] == "heat"


def test_a_view_that_is_not_there_cannot_be_opened(opened, small):
    watched = opened(small + "#view=image")
    selected = watched.page.get_by_role("tab", selected=True)
    assert selected.inner_text() == "Model"
    watched.page.keyboard.press("6")
    assert selected.inner_text() == "Model"
    watched.page.keyboard.press("?")
    assert watched.page.locator("dialog dt").first.inner_text() == "1 … 5"


def test_the_model_follows_the_keys_out_of_sight(opened, tmp_path):
    records = [random_record(2, 3, f"layers.{n}") for n in range(30)]
    regard.viewer.save_html(records, tmp_path / "deep.html")
    watched = opened((tmp_path / "deep.html").as_uri() + "#record=0&head=0")
    for _ in range(25):
        watched.page.keyboard.press("ArrowDown")
    watched.settle()
    stage = watched.page.evaluate(
        "(s => [s.scrollTop, s.clientHeight, s.scrollHeight])(document.querySelector('.stage'))"
    )
    share = 25.5 / 30 * stage[2]
    assert stage[0] < share < stage[0] + stage[1]
    watched.page.keyboard.press("m")
    assert "mean of heads" in watched.said()
    assert "-1" not in watched.said()


# ---- the flow


def test_a_token_of_the_flow_is_pinned_by_click_tap_and_keys(opened, small):
    watched = opened(small + "#view=flow&record=0&head=0&row=6&col=0&min=0.05", has_touch=True)
    page = watched.page
    lines = saved(watched, "SVG").count(b"<path")
    box = page.locator("canvas").bounding_box()
    page.touchscreen.tap(box["x"] + 40, box["y"] + 130)
    pin = watched.hash()["pin"]
    assert re.fullmatch(r"q[1-6]", pin)
    assert 0 < saved(watched, "SVG").count(b"<path") < lines, "what is saved shows the pinned token alone"
    assert f"Only query {pin[1:]}" in page.locator("canvas").get_attribute("aria-label")
    page.mouse.click(box["x"] + 40, box["y"] + 130)
    assert "pin" not in watched.hash(), "a second click lets it go"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert (watched.hash()["pin"], watched.hash()["col"]) == ("k1", "1")
    page.keyboard.press("ArrowDown")
    assert watched.hash()["pin"] == "k2"
    again = opened(page.url)
    assert "Only key 2 “sat”" in again.page.locator("canvas").get_attribute("aria-label")
    page.keyboard.press("Enter")
    assert "pin" not in watched.hash()


def test_selected_heads_keep_the_numbers_of_the_model(opened, tmp_path):
    some = [replace(random_record(2, 6, f"layers.{n}"), heads=(3, 7)) for n in range(2)]
    regard.viewer.save_html(some, tmp_path / "some.html")
    watched = opened((tmp_path / "some.html").as_uri() + "#view=heat&head=1")
    page = watched.page
    assert "head 7" in page.locator("canvas").get_attribute("aria-label")
    listed = page.locator("select", has_text="mean of heads").locator("option")
    assert listed.all_inner_texts() == ["head 3", "head 7", "mean of heads"]
    page.keyboard.press("3")
    assert page.locator(".chip").all_inner_texts() == ["3", "7"]
    with pytest.raises(ShapeError, match="heads: 1 numbers for 2 heads"):
        regard.viewer.html([replace(some[0], heads=(3,))])


def requests_end(watched, seconds=90):
    """Wait until the page sends no more requests, and return False if it never stops."""
    before = -1
    for _ in range(seconds):
        if before == len(watched.requests):
            return True
        before = len(watched.requests)
        watched.page.wait_for_timeout(1000)
    return False


@pytest.mark.slow
def test_views_of_many_heads_send_a_bounded_number_of_requests(opened):
    records = [random_record(72, 600, f"layers.{n}") for n in range(2)]
    with served(records) as address:
        watched = opened(address + "#view=flow&scroll=0.1", own=(address,))
        assert requests_end(watched)
        assert not any("/tile?" in url for url in watched.requests), "a flow needs no megabytes"
        pieces = [url for url in watched.requests if "/square?" in url or "/row?" in url]
        assert len(pieces) == len(set(pieces)), "nothing is asked for twice"
        watched.page.keyboard.press("1")
        assert requests_end(watched)
        asked = [url for url in watched.requests if "/overview?" in url]
        assert len({url for url in asked if url.endswith("side=64")}) >= 72
        assert not any(url.endswith("side=1024") for url in asked)


# ---- scrolling


def test_the_wheel_scrolls_the_page_while_the_map_fits(opened, small):
    watched = opened(small + "#view=heat", width=500, height=500)
    page = watched.page
    canvas = page.locator("canvas")
    assert canvas.evaluate("node => node.style.touchAction") == "pan-y"
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 100)
    page.mouse.wheel(0, 200)
    watched.until("scrollY > 0")
    assert "zoom" not in watched.hash()
    page.keyboard.press("+")
    watched.settle()
    assert canvas.evaluate("node => node.style.touchAction") == "none"


# ---- the picture


def test_patches_are_read_and_chosen_as_queries_and_as_keys(opened, picture):
    weights = pictured(12).map.weights()
    watched = opened(picture + "#view=image&row=9&col=6&head=7")
    page = watched.page
    read = page.locator(".readout").inner_text()
    assert float(read.split()[-1].replace("−", "-")) == pytest.approx(float(weights[0, 7, 9, 6]), abs=1e-3)
    box = page.locator("canvas").bounding_box()
    middle = (box["x"] + box["width"] / 2 + 20, box["y"] + 60)
    page.mouse.click(*middle)
    row = int(watched.hash()["row"])
    assert 1 <= row <= 4  # in the first line of patches
    page.get_by_role("combobox", name="Choose").select_option("key")
    page.mouse.click(box["x"] + box["width"] / 2 - 60, box["y"] + 60)
    state = watched.hash()
    assert (int(state["row"]), state["col"] != "6", state["side"]) == (row, True, "key")
    page.locator("canvas").focus()
    page.keyboard.press("ArrowDown")
    assert int(watched.hash()["col"]) == int(state["col"]) + 4
    page.keyboard.press("s")
    page.keyboard.press("ArrowDown")
    assert int(watched.hash()["row"]) == row + 4


def test_all_heads_of_a_picture_fit_a_phone(opened, picture):
    watched = opened(picture + "#view=image", width=390, height=780)
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert {str(head) for head in range(12)} <= set(texts_of(saved(watched, "SVG")))


# ---- words


def test_words_from_right_to_left_do_not_turn_the_arrow(opened, tmp_path):
    words = ["אבג", "דהו"]
    map = AttentionMap.from_weights(torch.tensor([[[[0.75, 0.25], [0.5, 0.5]]]]))
    regard.viewer.save_html([record(map, query_tokens=[words])], tmp_path / "rtl.html")
    watched = opened((tmp_path / "rtl.html").as_uri() + "#view=heat&row=0&col=1")
    assert watched.page.locator(".readout bdi").all_inner_texts() == words
    left, right = (watched.page.locator(".readout bdi").nth(n).bounding_box()["x"] for n in (0, 1))
    assert left < right


def test_a_weight_that_arrives_late_is_announced(opened):
    with served(causal_records()) as address:
        watched = opened(address + "#view=heat&record=0&head=0&row=5&col=0", own=(address,))

        def later(route):
            watched.page.wait_for_timeout(900)
            route.continue_()

        watched.page.route("**/row?*", later)
        watched.page.keyboard.press("ArrowUp")
        watched.page.wait_for_timeout(2500)
        assert f"{float(causal_records()[0].map[0, 0, 4, 0]):.3f}"[:4] in watched.said()
        watched.page.unroute("**/row?*")


def test_elements_have_accessible_roles_and_names(opened, small):
    page = opened(small + "#view=flow").page
    panel = page.get_by_role("tabpanel", name="Flow")
    assert panel.locator("canvas").count() == 1
    for tab in page.get_by_role("tab").all():
        assert tab.get_attribute("aria-controls") == panel.get_attribute("id")
    assert page.get_by_role("columnheader").all_inner_texts() == ["number", "key", "share", "weight"]
    assert page.get_by_role("rowheader").count() >= 1


CONTRASTS = """() => [...document.querySelectorAll(".chip")].map((chip) => {
  const light = (text) => { const [r, g, b] = text.match(/[\\d.]+/g).map((x) => x / 255).map((x) =>
    x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05; };
  const style = getComputedStyle(chip);
  const [a, b] = [light(style.color), light(style.backgroundColor)];
  return Math.max(a, b) / Math.min(a, b);
})"""


def test_head_numbers_contrast_with_their_colours(opened, tmp_path):
    regard.viewer.save_html([random_record(24, 3)], tmp_path / "heads.html")
    for scheme in ("light", "dark"):
        watched = opened((tmp_path / "heads.html").as_uri() + "#view=flow&heads=all", color_scheme=scheme)
        found = watched.page.evaluate(CONTRASTS)
        assert len(found) == 24
        assert min(found) >= 4.5


# ---- other homes


def test_a_widget_takes_the_width_of_its_place_and_is_removed_completely(browser):
    context = browser.new_context(viewport={"width": 1200, "height": 700})
    watched = Watched(context)
    page = watched.page
    page.goto("about:blank")
    page.evaluate(
        """() => { document.body.style.width = "500px"; window.ended = 0;
        const end = ResizeObserver.prototype.disconnect;
        ResizeObserver.prototype.disconnect = function () { window.ended += 1; end.call(this); }; }"""
    )
    put_widget(page, causal_records(), height=600)
    watched.settle()
    assert page.locator(".regard.narrow").count() == 1
    page.evaluate("window.cleanUp()")
    assert page.locator(".regard").count() == 0
    assert page.evaluate("window.ended") == 1
    page.emulate_media(color_scheme="dark")
    watched.settle()
    assert watched.troubles == []
    context.close()


@pytest.mark.parametrize("dark", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_widget_has_its_colours_although_it_is_attached_later(browser, dark):
    context = browser.new_context(viewport={"width": 1000, "height": 700})
    watched = Watched(context)
    page = watched.page
    page.goto("about:blank")
    page.evaluate("(dark) => { document.body.style.backgroundColor = dark ? '#111' : '#fff'; }", dark)
    put_widget(page, causal_records(), late=True)
    watched.settle()
    assert (pixels(page)[2, 2].mean() < 60) == dark, "the paper is that of the notebook around it"
    assert page.locator(".regard").get_attribute("data-theme") == ("dark" if dark else "light")
    page.evaluate("(dark) => { document.body.style.backgroundColor = dark ? '#fff' : '#111'; }", dark)
    watched.settle()
    assert (pixels(page)[2, 2].mean() > 60) == dark, "and follows it"
    assert watched.troubles == []
    context.close()


def test_a_lost_server_is_reported(opened):
    with served(causal_records()) as address:
        watched = opened(address + "#view=heat", own=(address,))
    watched.page.keyboard.press("ArrowUp")
    watched.page.wait_for_selector("footer.problem")
    assert "Is it still running?" in watched.page.locator("footer").inner_text()
    # The browser's own words on the lost connection.
    watched.troubles.clear()
