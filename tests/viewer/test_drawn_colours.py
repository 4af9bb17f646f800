"""Tests of the colours of known cells on the screen, from the server, over a picture, and in saved files."""

import base64

import numpy as np
import pytest
import torch

import regard
from regard.maps import AttentionMap
from support.browser import pixels, saved, served, texts_of
from support.viewer_records import READ, record, run_javascript

ROWS, COLS = 3, 4
WEIGHTS = np.random.default_rng(5).permutation(np.linspace(0.08, 1, ROWS * COLS)).reshape(ROWS, COLS)


@pytest.fixture(scope="module")
def table():
    """The 256 colours from violet to yellow."""
    source = (
        READ
        + 'import { colorTable } from "STATIC/color.js"; console.log(JSON.stringify([...colorTable("bright", false)]));'
    )
    return np.array(run_javascript(source)).reshape(256, 3)


def assert_drawn(image, weights, table, least=300):
    """Each cell stands where its row and column say, in the colour of its weight."""
    places = np.zeros((*weights.shape, 2))
    for (i, j), weight in np.ndenumerate(weights):
        found = np.argwhere((image == table[round(255 * weight)]).all(-1))
        assert len(found) >= least, f"cell {i}, {j}: {len(found)} pixels of its colour"
        # The few pixels of the bar of colours do not move it.
        places[i, j] = np.median(found, axis=0)
    assert np.ptp(places[:, :, 0], axis=1).max() < 6, "rows are level"
    assert np.ptp(places[:, :, 1], axis=0).max() < 6, "columns are upright"
    across, down = np.diff(places[0, :, 1]), np.diff(places[:, 0, 0])
    assert across.min() > 10
    assert down.min() > 10
    assert np.ptp(across) < 0.08 * across.mean()
    assert np.ptp(down) < 0.08 * down.mean()
    return places


def as_address(data: bytes, kind: str) -> str:
    media = {"PNG": "image/png", "SVG": "image/svg+xml"}[kind]
    return f"data:{media};base64,{base64.b64encode(data).decode()}"


def file_of(records, folder, **options) -> str:
    regard.viewer.save_html(records, folder / "page.html", **options)
    return (folder / "page.html").as_uri()


def test_the_heat_map_and_its_files_show_each_weight_in_its_place(opened, browser, table, tmp_path):
    words = {"query_tokens": [["q0", "q1", "q2"]], "key_tokens": [["k0", "k1", "k2", "k3"]]}
    address = file_of(
        [record(AttentionMap.from_weights(torch.tensor(WEIGHTS)[None, None], unnormalized=True), **words)],
        tmp_path,
    )
    watched = opened(address + "#view=heat&row=0&col=0")
    places = assert_drawn(pixels(watched.page), WEIGHTS, table)
    box = watched.page.locator("canvas").bounding_box()
    # And the pointer finds the cell that is drawn there.
    for i, j in ((0, 0), (1, 3), (2, 1)):
        watched.page.mouse.move(box["x"] + places[i, j, 1], box["y"] + places[i, j, 0])
        watched.settle()
        assert watched.page.locator(".readout").inner_text().startswith(f"q{i} → k{j} ")
    # No policy of ours stops it from opening the files.
    plain = browser.new_page()
    for kind in ("PNG", "SVG"):
        assert_drawn(pixels(plain, as_address(saved(watched, kind), kind)), WEIGHTS, table)
    plain.close()


def test_tiles_of_the_server_show_each_weight_in_its_place(opened, table):
    weights = torch.zeros(1, 1, 1100, 1100)
    weights[0, 0, 1030 : 1030 + ROWS, 1040 : 1040 + COLS] = torch.tensor(WEIGHTS)
    with served([record(AttentionMap.from_weights(weights, unnormalized=True))]) as address:
        watched = opened(address + "#view=heat&zoom=20&x=1030&y=1025&scale=linear", own=(address,))
        watched.page.wait_for_timeout(1500)
        places = assert_drawn(pixels(watched.page), WEIGHTS, table)
        box = watched.page.locator("canvas").bounding_box()
        watched.page.mouse.move(box["x"] + places[1, 2, 1], box["y"] + places[1, 2, 0])
        watched.settle()
        assert watched.page.locator(".readout").inner_text().startswith("1031 → 1042 ")
        assert any("/tile?" in url for url in watched.requests)


def test_the_picture_shows_each_weight_in_its_place(opened, table, tmp_path):
    weights = torch.zeros(1, 2, 13, 13)
    weights[0, 1, 5, 1:] = torch.tensor(WEIGHTS.flatten())
    grid = {"query_grid": (ROWS, COLS), "key_grid": (ROWS, COLS), "query_extra": 1, "key_extra": 1}
    address = file_of([record(AttentionMap.from_weights(weights, unnormalized=True), **grid)], tmp_path)
    watched = opened(address + "#view=image&row=5&head=1&scale=linear")
    places = assert_drawn(pixels(watched.page), WEIGHTS, table, least=3000)
    box = watched.page.locator("canvas").bounding_box()
    watched.page.mouse.move(box["x"] + places[2, 3, 1], box["y"] + places[2, 3, 0])
    watched.settle()
    told = watched.page.locator(".readout").inner_text()
    assert told == f"the patch in row 1, column 0 → the patch in row 2, column 3   {WEIGHTS[2, 3]:.3f}"


# ---- maps of more cells than pixels

LINES = 12


def striped(n):
    """Return two heads, one whose queries all attend to the same twelve keys, and its transpose."""
    weights = torch.zeros(1, 2, n, n)
    stripes = 5 + torch.arange(LINES) * (n // LINES)
    weights[0, 0, :, stripes] = 1 / LINES
    weights[0, 1, stripes, :] = 1 / LINES
    return record(AttentionMap.from_weights(weights, unnormalized=True))


def stripes_in(image, table, head):
    """Return the number of lines of the brightest colour that cross the middle of the map."""
    bright = (image == table[255]).all(-1)
    lines = bright.mean(axis=head) > 0.3  # as long as a good part of the drawing
    return int((np.diff(lines.astype(int)) == 1).sum())


@pytest.mark.parametrize(
    ("n", "width"),
    [(700, 1200), *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in ((700, 390), (1500, 1200)))],
)
def test_no_row_or_column_is_lost_between_pixels(opened, browser, table, tmp_path, n, width):
    address = file_of([striped(n)], tmp_path)
    for head in (0, 1):
        watched = opened(f"{address}#view=heat&head={head}&scale=linear&row={n - 3}&col={n - 3}", width=width)
        watched.page.wait_for_timeout(1500)
        assert stripes_in(pixels(watched.page), table, head) == LINES
    if (n, width) == (700, 1200):
        plain = browser.new_page()
        for kind in ("PNG", "SVG"):
            assert stripes_in(pixels(plain, as_address(saved(watched, kind), kind)), table, head) == LINES
        plain.close()


@pytest.mark.parametrize("n", [1000, pytest.param(3000, marks=pytest.mark.slow)])
def test_no_column_from_the_server_is_lost_between_pixels(opened, table, n):
    with served([striped(n)]) as address:
        watched = opened(f"{address}#view=heat&head=0&scale=linear&row={n - 3}&col={n - 3}", own=(address,))
        watched.until("!document.querySelector('footer.problem')")
        for _ in range(40):
            if stripes_in(pixels(watched.page), table, 0) == LINES:
                break
            watched.page.wait_for_timeout(200)
        watched.settle()
        assert stripes_in(pixels(watched.page), table, 0) == LINES


def test_the_mark_of_the_chosen_cell_does_not_hide_small_cells(opened, table, tmp_path):
    weights = torch.zeros(1, 1, 300, 300)
    # All look at the first key, which is also the chosen one.
    weights[..., 0] = 1
    watched = opened(
        file_of([record(AttentionMap.from_weights(weights, unnormalized=True))], tmp_path)
        + "#view=heat&col=0&row=299&scale=linear"
    )
    bright = (pixels(watched.page) == table[255]).all(-1)
    assert bright.sum(axis=0).max() > 450, "the column is seen from top to bottom"


def test_the_map_in_the_corner_makes_way_and_is_not_saved(opened, tmp_path):
    address = file_of([striped(100)], tmp_path)
    watched = opened(address + "#view=heat&zoom=24&row=99&col=0")
    corner = "surface frame"

    def framed(image):
        """Return whether the right part of the drawing has the light frame of the corner map."""
        half = image[60:200, image.shape[1] // 2 :]
        return int((half == 255).all(-1).sum()) > 600

    assert framed(pixels(watched.page)), corner
    box = watched.page.locator("canvas").bounding_box()
    watched.page.mouse.move(box["x"] + box["width"] - 60, box["y"] + 120)
    watched.settle()
    assert not framed(pixels(watched.page)[:, :-20]), "it went to the other side of the pointer"
    svg = saved(watched, "SVG")
    assert b"<image" not in svg


# ---- labels


def test_labels_are_whole_where_there_is_room(opened, tmp_path):
    long = "Donaudampfschifffahrtsgesellschaftskapitän"
    seven = [long, *"abcdef"]
    torch.manual_seed(0)
    maps = [AttentionMap.from_weights(torch.rand(1, 1, n, n).softmax(-1)) for n in (7, 402)]
    many = ["w"] * 402
    # Between those that a sample of every second label would see.
    many[201] = "internationalisation"
    records = [record(maps[0], query_tokens=[seven]), record(maps[1], query_tokens=[many])]
    address = file_of(records, tmp_path)
    for state, word in (
        ("view=heat", long),
        ("view=flow&row=0", long),
        ("view=heat&record=1&row=201", many[201]),
    ):
        texts = texts_of(saved(opened(f"{address}#{state}"), "SVG"))
        assert word in texts, state
    bold = ["mmmmmmmmmmmmmmmmmmmmm", "b"]  # wider when it is chosen
    address = file_of(
        [record(AttentionMap.from_weights(torch.eye(2)[None, None]), query_tokens=[bold])], tmp_path
    )
    assert bold[0] in texts_of(saved(opened(f"{address}#view=flow&row=0"), "SVG"))


def test_the_steps_show_every_number_of_a_wide_head(opened, tmp_path):
    width = 64
    q, k = (torch.arange(2 * width).reshape(1, 1, 2, width) - 70) / 8, torch.ones(1, 1, 2, width) / 8
    _, map = regard.attention(q, k, torch.ones(1, 1, 2, 1), return_map=True)
    address = file_of([record(map)], tmp_path)
    watched = opened(address + "#view=steps&row=1&col=0")
    numbers = [f"{x:.3f}" if abs(x) < 10 else f"{x:.2f}" for x in q[0, 0, 1].tolist()]
    numbers = [text.replace("-", "−") for text in numbers]
    assert ", ".join(numbers) in watched.page.locator("canvas").get_attribute("aria-label")
    texts = texts_of(saved(watched, "SVG"))
    assert set(numbers) <= set(texts)
    narrow = opened(address + "#view=steps&row=1&col=0", width=390)
    assert set(numbers) <= set(texts_of(saved(narrow, "SVG")))
