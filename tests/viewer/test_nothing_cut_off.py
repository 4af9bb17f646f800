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
