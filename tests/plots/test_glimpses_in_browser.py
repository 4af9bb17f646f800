"""The page with a slider in a real Chromium."""

import numpy as np

from regard.plots.glimpses import GlimpseFrame, save_glimpses
from support.browser import Watched, launched

FRAMES = [
    GlimpseFrame([(row, 5, 4)], np.full((1, 4, 4, 1), row / 3), [(f"label {row}", 0.75)]) for row in range(3)
]


def test_the_slider_shows_one_glimpse_and_play_goes_on(tmp_path):
    save_glimpses(tmp_path / "eye.html", np.zeros((12, 18), dtype=np.uint8), FRAMES)
    with launched() as browser:
        watched = Watched(browser.new_context(viewport={"width": 1000, "height": 700}))
        page = watched.page
        page.goto((tmp_path / "eye.html").as_uri())

        def shown():
            return [place for place in range(3) if page.locator("section").nth(place).is_visible()]

        assert shown() == [2]
        page.locator("#step").fill("1")
        assert shown() == [0]
        assert page.locator("#number").inner_text() == "1 of 3"
        assert page.locator("section:not([hidden])").inner_text().startswith("Glimpse 1: row 2, column 7")
        page.locator("#play").click()
        watched.until("() => document.getElementById('number').value !== '1 of 3'")
        page.locator("#play").click()
        assert shown() == [int(page.locator("#number").inner_text()[0]) - 1]
        assert page.locator("#play").inner_text() == "Play"
        assert watched.troubles == []
        assert watched.outside("file:") == []
