"""Labels, titles and pictures of the Model view and the Picture view are in sight, at any width and scroll position."""

import numpy as np
import pytest
import torch

import regard
from regard.maps import AttentionMap, Record
from support.browser import pixels
from support.viewer_records import record

PHONE = {"width": 390, "height": 844}
HEADER = 22  # pixels that the head numbers take


def layers(count: int, heads: int) -> list[Record]:
    """Layers whose last head has the largest weight, so that the page opens there."""
    generator = torch.Generator().manual_seed(3)
    maps = [torch.softmax(2 * torch.randn(1, heads, 6, 6, generator=generator), -1) for _ in range(count)]
    words = {"query_tokens": [list("abcdef")], "kind": "causal"}
    return [
        Record(name=f"layers.{n}.attention", layer=n, map=AttentionMap.from_weights(map), **words)
        for n, map in enumerate(maps)
    ]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The address of a page of 40 layers with 32 heads, which is longer and wider than a phone."""
    path = tmp_path_factory.mktemp("pages") / "model.html"
    regard.viewer.save_html(layers(40, 32), path, title="What a long title of a model looks like")
    return path.as_uri()


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    """The address of a page with a picture twice as wide as high, in 4 rows of 8 patches."""
    path = tmp_path_factory.mktemp("pages") / "picture.html"
    weights = torch.softmax(torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(1)), -1)
    grid = {"query_grid": (4, 8), "key_grid": (4, 8)}
    image = np.full((112, 224, 3), 0.5)
    regard.viewer.save_html([record(AttentionMap.from_weights(weights), **grid)], path, images=[image])
    return path.as_uri()


def scroll(watched, top: int, left: int) -> None:
    watched.page.evaluate("(to) => document.querySelector('.stage').scrollTo(to)", {"top": top, "left": left})
    watched.settle()


def scrolled(watched) -> tuple[int, int]:
    top, left = watched.page.evaluate(
        "() => { const stage = document.querySelector('.stage'); return [stage.scrollTop, stage.scrollLeft]; }"
    )
    return int(top), int(left)


def alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two parts of a drawing show the same text, up to smoothed edges."""
    assert int(other.max()) - int(other.min()) > 128, "there is no text"
    return int(np.abs(one.astype(int) - other).max()) < 128


def test_head_numbers_stay_in_sight(opened, model):
    watched = opened(model + "#record=0&head=0", **PHONE)
    scroll(watched, 0, 0)
    at_top = pixels(watched.page)[:HEADER]
    scroll(watched, 10_000, 0)
    top, _ = scrolled(watched)
    assert top > 10
    assert alike(pixels(watched.page)[top : top + HEADER, 60:], at_top[:, 60:])


def test_layer_numbers_stay_in_sight(opened, model):
    watched = opened(model + "#record=39&head=0", **PHONE)
    scroll(watched, 0, 0)
    at_left = pixels(watched.page)[40:300, :50]
    scroll(watched, 0, 300)
    _, left = scrolled(watched)
    assert left == 300
    assert alike(pixels(watched.page)[40:300, left : left + 50], at_left)


def test_the_chosen_head_is_beside_the_labels_and_not_below_them(opened, model):
    """Moving up and left by keys scrolls so far that the labels do not cover the chosen head."""
    watched = opened(model + "#record=39&head=31", **PHONE)
    watched.page.locator("canvas").focus()
    for key in ["ArrowUp"] * 39 + ["ArrowLeft"] * 31:
        watched.page.keyboard.press(key)
    watched.settle()
    assert watched.hash()["record"] == "0"
    assert scrolled(watched) == (0, 0)


def test_a_press_on_a_label_opens_no_heat_map(opened, model):
    watched = opened(model + "#record=0&head=0", **PHONE)
    scroll(watched, 10_000, 200)
    box = watched.page.locator(".stage").bounding_box()
    watched.page.mouse.click(box["x"] + 150, box["y"] + 8)
    watched.page.mouse.click(box["x"] + 20, box["y"] + 80)
    assert watched.hash().get("view", "grid") == "grid"
    watched.page.mouse.click(box["x"] + 150, box["y"] + 80)
    assert watched.hash()["view"] == "heat"


def test_the_label_of_the_chosen_layer_is_whole(opened, tmp_path):
    """A bold label is wider than a plain one."""
    from support.browser import saved, texts_of

    regard.viewer.save_html(layers(24, 4), tmp_path / "model.html")
    watched = opened((tmp_path / "model.html").as_uri() + "#record=21&head=0")
    assert "21 causal" in texts_of(saved(watched, "SVG"))


CUT = """(name) => {
  const { scrollWidth, clientWidth, scrollHeight, clientHeight } = document.querySelector(name);
  return scrollWidth > clientWidth || scrollHeight > clientHeight + 1;
}"""


def test_the_words_above_a_picture_are_whole_on_a_phone(opened, picture):
    watched = opened(picture, **PHONE)
    assert "0." in watched.page.locator(".readout").inner_text()
    assert not watched.page.evaluate(CUT, ".readout")


def test_a_title_has_two_lines_on_a_phone(opened, tmp_path):
    regard.viewer.save_html(layers(1, 2), tmp_path / "title.html", title="BERT reads a sentence")
    watched = opened((tmp_path / "title.html").as_uri(), **PHONE)
    assert not watched.page.evaluate(CUT, "h1")


@pytest.mark.parametrize(
    "size", [PHONE, pytest.param({"width": 1200, "height": 760}, marks=pytest.mark.slow)]
)
def test_the_small_pictures_have_the_proportions_of_the_picture(opened, picture, size):
    """The picture without weights is grey, and twice as wide as high in the large picture and in the small ones."""
    watched = opened(picture + "#opacity=0", **size)
    grey = (np.abs(pixels(watched.page).astype(int) - 128).max(-1) <= 2).astype(int)
    rows = np.flatnonzero(grey.sum(1) > 60)
    pictures = np.split(rows, np.flatnonzero(np.diff(rows) > 20) + 1)
    assert len(pictures) == 2
    large, small = ((len(part), int(grey[part].sum(1).max())) for part in pictures)
    assert large[1] / large[0] == pytest.approx(2, rel=0.05)
    assert small[1] / 3 / small[0] == pytest.approx(2, rel=0.1)
    # The small pictures follow below the colour bar, without an empty strip between them.
    assert pictures[1][0] - pictures[0][-1] < 100


# ---- labels of tokens, and names

TOKENS = ["The", "Ġcat", "Ġsat", "Ċ", "ä½", "ł", "Ġ" + "x" * 100_000]
NAME = "model.vision_tower.vision_model.encoder.layers.11.self_attn.attention.core.scaled_dot_product"


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    """The address of a page of stored causal weights between tokens of byte-level BPE, of a layer with a long name."""
    path = tmp_path_factory.mktemp("pages") / "pieces.html"
    scores = torch.randn(1, 2, 7, 7, generator=torch.Generator().manual_seed(2))
    hidden = torch.ones(7, 7).triu(1).bool()
    weights = AttentionMap.from_weights(scores.masked_fill(hidden, -torch.inf).softmax(-1))
    records = [
        Record(name=name, layer=n, kind="causal", map=weights, query_tokens=[TOKENS])
        for n, name in enumerate([NAME, NAME[:20]])
    ]
    regard.viewer.save_html(records, path, title="Pieces")
    return path.as_uri()


@pytest.mark.parametrize("view", ["heat", "flow"])
def test_tokens_are_shown_as_the_text_they_stand_for(opened, pieces, view):
    from support.browser import saved, texts_of

    watched = opened(pieces + f"#view={view}&record=0&head=0&row=2&col=1")
    svg = saved(watched, "SVG")
    assert {"The", "␣cat", "␣sat", "⏎", "\ufffd", "你"} < set(texts_of(svg))
    panel = watched.page.locator(".panel").inner_text()
    assert "␣cat" in panel
    assert "Ġ" not in panel + watched.page.locator(".readout").inner_text()


def test_a_very_long_label_is_cut_and_whole_in_its_title(opened, pieces):
    import xml.etree.ElementTree as xml

    from support.browser import saved

    watched = opened(pieces + "#view=heat&record=0&head=0&row=6&col=1")
    svg = xml.fromstring(saved(watched, "SVG"))
    assert float(svg.attrib["width"]) < 1200
    texts = list(svg.iter("{http://www.w3.org/2000/svg}text"))
    assert max(len(node.text or "") for node in texts) < 120
    titles = [title.text for title in svg.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["␣" + "x" * 100_000] * 2
    word = watched.page.locator(".pair .word").first
    assert len(word.inner_text()) <= 100
    assert len(word.get_attribute("title")) == 100_001
    assert "→ ␣cat" in watched.page.locator(".readout").inner_text()


def test_the_name_of_a_layer_can_be_read_in_full(opened, pieces):
    watched = opened(pieces + "#view=heat&record=0&head=0")
    layers = watched.page.locator("select").first
    shown = layers.locator("option").first.inner_text()
    assert shown.startswith("Layer 0 · causal · model.vision_tower")
    assert shown.endswith("scaled_dot_product")
    assert "…" in shown
    assert layers.get_attribute("title") == f"Layer 0 · causal · {NAME}"
    room = layers.evaluate(
        """(node) => {
          const style = getComputedStyle(node);
          const context = document.createElement("canvas").getContext("2d");
          context.font = style.font;
          return node.clientWidth - context.measureText(node.selectedOptions[0].textContent).width;
        }"""
    )
    assert room > 0, "the chosen name is cut"
    layers.select_option("1")
    assert layers.get_attribute("title") == f"Layer 1 · causal · {NAME[:20]}"


def test_a_key_is_ranked_among_the_keys_that_its_query_may_attend_to(opened, pieces):
    watched = opened(pieces + "#view=heat&record=0&head=0&row=2&col=1")
    panel = watched.page.locator(".panel")
    assert "of 3\n" in panel.inner_text()
    assert panel.locator("tbody tr").count() == 3
    watched.page.locator("canvas").focus()
    watched.page.keyboard.press("End")
    # The page draws the new state in its next frame.
    panel.get_by_text("The mask hides this key").wait_for(timeout=5000)
    assert "of 3\n" not in panel.inner_text()
