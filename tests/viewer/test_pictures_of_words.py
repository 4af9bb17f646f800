"""The Picture view of a vision-language model in a real browser."""

import xml.etree.ElementTree as xml

import numpy as np
import pytest
import torch

import regard
from regard.errors import ArgumentError
from regard.maps import AttentionMap, PatchGrid, PictureLayout, Record
from support.browser import pixels, saved, texts_of

WORDS = ["the", "cat", "and", "a", "dog"]


def patches(picture, grid, first, size, **options):
    box = options.pop("box", (0, 0, size[1], size[0]))
    keys = tuple(range(first, first + grid[0] * grid[1]))
    return PatchGrid(picture=picture, grid=grid, keys=keys, size=size, box=box, **options)


def two_pictures(**options):
    """Return a record of pictures of 2 x 4 and 3 x 2 patches and five words, of which "cat" attends to one patch."""
    first, second = patches(0, (2, 4), 1, (20, 40), **options), patches(1, (3, 2), 10, (30, 20), **options)
    weights = torch.eye(21)
    for word in range(16, 21):
        weights[word] = 0
        weights[word, 1:9] = 0.01
        weights[word, 7] = 0.5  # row 1, column 2 of the first picture, a sink
        weights[word, 0] = 1 - weights[word].sum()
    weights[17, 0], weights[17, 4] = 0.1, 0.33  # row 0, column 3 of the first picture
    weights[20, 0], weights[20, 12] = 0.03, 0.4  # row 1, column 0 of the second picture
    labels = ["<s>", *["<image>"] * 8, "|", *["<image>"] * 6, *WORDS]
    layout = PictureLayout(sequences=((first, second),), words=((0, 9, *range(16, 21)),))
    held = AttentionMap.from_weights(weights / weights.sum(1, True))
    words = {"query_tokens": [labels], "key_tokens": [labels]}
    return Record(name="layers.0.self_attn", layer=0, kind="causal", map=held, pictures=layout, **words)


def page_of(record, tmp_path, sizes=((20, 40), (30, 20))):
    images = [np.zeros((height, width, 3)) for height, width in sizes]
    regard.viewer.save_html([record], tmp_path / "p.html", images=images)
    return (tmp_path / "p.html").as_uri()


def picture_box(watched):
    """Return the left, top, width and height of the picture in the drawing, in pixels of the page."""
    image = next(xml.fromstring(saved(watched, "SVG")).iter("{http://www.w3.org/2000/svg}image"))
    left, top, width, height = (float(image.attrib[name]) for name in ("x", "y", "width", "height"))
    return left, top, width, height


def brightest(watched, rows, columns):
    """Return the (row, column) of the patch that is brightest, off its middle, where a cross may be."""
    drawn = pixels(watched.page).astype(int).sum(axis=2)
    scale = drawn.shape[1] / watched.page.locator("canvas").bounding_box()["width"]
    left, top, width, height = (scale * x for x in picture_box(watched))
    spots = [
        (drawn[int(top + (r + 0.5) * height / rows), int(left + (c + 0.25) * width / columns)], (r, c))
        for r in range(rows)
        for c in range(columns)
    ]
    return max(spots)[1]


def test_each_word_lights_up_its_patch_in_the_right_picture(opened, tmp_path):
    watched = opened(page_of(two_pictures(), tmp_path) + "#view=image&row=17&col=4&theme=light&scale=linear")
    page = watched.page
    drawing = page.locator("canvas")
    assert "weights of “cat”" in drawing.get_attribute("aria-label")
    assert "At the patch in row 0, column 3" in drawing.get_attribute("aria-label")
    _, _, width, height = picture_box(watched)
    assert width / height == pytest.approx(2, rel=1e-3)
    assert brightest(watched, 2, 4) == (1, 2)
    page.get_by_label("Take out sink patches").check()
    assert watched.hash()["sinks"] == "1"
    assert brightest(watched, 2, 4) == (0, 3)
    assert any("1 sink patch taken out" in text for text in texts_of(saved(watched, "SVG")))
    page.get_by_role("combobox", name="Picture").select_option(label="2")
    drawing.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")  # from "cat" to "dog"
    assert watched.hash()["row"] == "20"
    _, _, width, height = picture_box(watched)
    assert width / height == pytest.approx(2 / 3, rel=1e-3)
    assert brightest(watched, 3, 2) == (1, 0)


def test_a_click_on_a_word_chooses_it_and_a_click_on_a_patch_reads_it(opened, tmp_path):
    watched = opened(page_of(two_pictures(), tmp_path) + "#view=image&row=17&col=4&theme=light")
    box = watched.page.locator("canvas").bounding_box()
    x, y, width, height = picture_box(watched)
    watched.page.mouse.click(box["x"] + 24, box["y"] + 18)  # the first word
    assert watched.hash()["row"] == "0"
    # Row 1, column 1.
    watched.page.mouse.click(box["x"] + x + width * 0.375, box["y"] + y + height * 0.75)
    assert watched.hash()["col"] == "6"
    assert "r1 c1" in watched.page.locator(".regard").inner_text()


def test_a_picture_that_was_cropped_for_the_model_is_not_drawn(opened, tmp_path):
    address = page_of(two_pictures(stretched=False), tmp_path, sizes=((20, 20), (30, 20)))
    watched = opened(address + "#view=image&row=17")
    watched.until(
        "document.querySelector('canvas').getAttribute('aria-label').startsWith('The picture has 20 × 20 pixels')"
    )


def test_places_that_are_not_known_are_not_drawn(opened, tmp_path):
    record = two_pictures()
    unknown = PictureLayout(sequences=((),), unplaced="the arrangement is not known")
    record = Record(name="a", layer=0, kind="causal", map=record.map, pictures=unknown)
    with pytest.raises(ArgumentError, match="the arrangement is not known"):
        regard.viewer.html([record], images=[np.zeros((8, 8, 3))])
    regard.viewer.save_html([record], tmp_path / "p.html")
    watched = opened((tmp_path / "p.html").as_uri() + "#view=image")
    assert watched.page.locator("canvas").get_attribute("aria-label") == "the arrangement is not known"


def test_the_number_of_images_is_that_of_the_pictures():
    with pytest.raises(ArgumentError, match="3 images for 2 pictures"):
        regard.viewer.html([two_pictures()], images=[np.zeros((8, 8, 3))] * 3)


def test_a_page_opens_on_a_word_and_the_picture_that_it_attends_to():
    from regard.viewer.payload import embedded

    values = embedded([two_pictures()], images=[np.zeros((8, 8, 3))] * 2).values
    opening = values["opening"]
    assert opening["row"] in range(16, 21)
    assert opening["col"] in (*range(1, 9), *range(10, 16))
    assert [grid["image"] for grid in values["layouts"][0]["sequences"][0]] == [0, 1]
