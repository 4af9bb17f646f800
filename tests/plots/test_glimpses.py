"""The path of the eye as an animation, a page with a slider and a strip."""

import base64
import hashlib
import re
import warnings

import numpy as np
import pytest
from PIL import Image

from regard.errors import ArgumentError, ShapeError
from regard.plots.glimpse_page import glimpse_page
from regard.plots.glimpses import COLORS, GlimpseFrame, glimpse_animation, glimpse_strip, save_glimpses

PICTURE = np.zeros((12, 18), dtype=np.uint8)


def frames(count=3, labels=("seven", "one"), scales=2):
    views = np.linspace(0, 1, scales * 16).reshape(scales, 4, 4, 1)
    squares = [[(row, 5, 4), (row - 2, 3, 8)][:scales] for row in range(count)]
    return [GlimpseFrame(square, views, list(zip(labels, (0.75, 0.25), strict=True))) for square in squares]


def test_an_animation_has_a_frame_for_each_glimpse(tmp_path):
    save_glimpses(tmp_path / "eye.gif", PICTURE, frames(), title="digit.png")
    with Image.open(tmp_path / "eye.gif") as image:
        assert (image.n_frames, image.info["loop"]) == (3, 0)
        times = []
        for place in range(3):
            image.seek(place)
            times.append(image.info["duration"])
    assert times == [900, 900, 2500]


def test_the_square_is_drawn_around_the_pixels_of_the_glimpse():
    (image,) = glimpse_animation(PICTURE, frames(1))
    orange = np.argwhere((np.asarray(image) == (0xFF, 0x6A, 0x00)).all(axis=2))
    # The picture is enlarged 16 times. A margin of 3 pixels is left of it, because a square reaches out by 2.
    scale, margin, left, top = 16, 3, 14, 48
    assert orange[:, 1].min() == left + (5 + margin) * scale
    assert orange[:, 0].min() in (top + (0 + margin) * scale, top - 2)  # or the frame of what was seen
    rows = orange[orange[:, 1] < left + (9 + margin) * scale][:, 0]
    assert (rows.min(), rows.max()) == (top + margin * scale, top + (4 + margin) * scale - 1)


def test_a_strip_shows_all_glimpses(tmp_path):
    save_glimpses(tmp_path / "strip.png", PICTURE, frames(5), title="digit.png")
    with Image.open(tmp_path / "strip.png") as five:
        wide = five.size[0]
    assert wide > glimpse_strip(PICTURE, frames(3)).size[0]


def test_a_page_has_a_slider_and_needs_no_network(tmp_path):
    save_glimpses(tmp_path / "eye.html", PICTURE, frames(), title="<digit>")
    page = (tmp_path / "eye.html").read_text(encoding="utf-8")
    assert 'type="range" id="step" min="1" max="3"' in page
    assert page.count("<section ") == 3
    assert "<digit>" not in page
    assert "http" not in page.replace("http-equiv", "")
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"sha256-{digest}" in page.replace("&#x27;", "'")
    assert all(color in page for color in COLORS[:2])


def test_labels_are_escaped_and_may_be_long_or_chinese(fonts):
    page = glimpse_page(PICTURE, frames(labels=("<b>七</b>", "one")))
    assert "<b>" not in page
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        image = glimpse_animation(PICTURE, frames(labels=("七", "w" * 300)))[0]
    assert image.size[0] < 900
    if fonts == "matplotlib":
        assert "no installed font has 1 of the characters" in str(caught[0].message)


def test_colours_are_shown():
    picture = np.zeros((12, 18, 3), dtype=np.uint8)
    picture[..., 1] = 255
    image = np.asarray(glimpse_animation(picture, frames(1))[0])
    assert (image == (0, 255, 0)).all(axis=2).sum() > 1000


def test_bad_arguments_are_refused(tmp_path):
    with pytest.raises(ArgumentError, match="path: expected a .gif, .html or .png file, got 'eye.txt'"):
        save_glimpses(tmp_path / "eye.txt", PICTURE, frames())
    with pytest.raises(ArgumentError, match="frames: expected one glimpse or more"):
        save_glimpses(tmp_path / "eye.gif", PICTURE, [])
    with pytest.raises(ShapeError, match=r"picture: expected \(h,w\)"):
        save_glimpses(tmp_path / "eye.png", np.zeros(5), frames())
    with pytest.raises(ArgumentError, match="picture: expected numbers from 0 to 1"):
        save_glimpses(tmp_path / "eye.png", np.full((3, 3), 2.0), frames())
    assert list(tmp_path.iterdir()) == []
