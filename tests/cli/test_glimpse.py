"""``regard glimpse``, and training and evaluating from the command line."""

import json

import numpy as np
import pytest
from PIL import Image

from support.command_line import assert_one_line, run_here
from support.glimpse_models import LABELS, classifier, dense_classifier


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("glimpse")
    classifier("translated", size=(12, 12)).save(place / "model")
    dense_classifier((12, 12)).save(place / "dense")
    for name, side in (("a.png", 12), ("b.png", 12), ("small.png", 8)):
        pixels = np.random.default_rng(side).integers(0, 256, (side, side), dtype=np.uint8)
        Image.fromarray(pixels).save(place / name)
    return place


def test_labels_and_places_are_printed(folder):
    result = run_here("glimpse", "--model", "model", "a.png", "--attention", cwd=folder)
    assert result.returncode == 0, result.stderr
    label, *path = result.stdout.splitlines()
    assert label.split("\t")[0] in LABELS
    assert [line.split(":")[0] for line in path] == ["glimpse 1", "glimpse 2", "glimpse 3"]
    assert path[0].startswith("glimpse 1: row 6, column 6: ")


def test_names_of_pictures_are_read_from_a_file(folder):
    (folder / "names.txt").write_text("a.png\n\nb.png\n")
    words = ("glimpse", "--model", "model", "--file", "names.txt", "--json", "--attention", "--samples", "2")
    rows = [json.loads(line) for line in run_here(*words, cwd=folder).stdout.splitlines()]
    assert [row["source"] for row in rows] == ["a.png", "b.png"]
    assert len(rows[0]["glimpses"]) == 3
    assert set(rows[0]["probabilities"]) == set(LABELS)


def test_the_path_of_the_eye_is_saved(folder):
    for name in ("eye.gif", "eye.html", "eye.png"):
        words = ("glimpse", "--model", "model", "a.png", "b.png", "--save-attention", name)
        result = run_here(*words, cwd=folder)
        assert result.returncode == 0, result.stderr
        assert f"eye-2{name[3:]}" in result.stderr
        assert (folder / name).stat().st_size > 500
        assert (folder / f"eye-2{name[3:]}").is_file()


def test_look_writes_the_page(folder):
    result = run_here("glimpse", "--model", "model", "a.png", "--look", cwd=folder, DISPLAY="")
    assert result.returncode == 0, result.stderr
    with open(result.stdout.splitlines()[-1], encoding="utf-8") as page:
        assert "a.png: " in page.read()


def test_a_picture_of_another_size_is_told(folder):
    result = run_here("glimpse", "--model", "model", "small.png", cwd=folder)
    assert "small.png: put on 12×12 pixels" in result.stderr


def test_bad_calls_are_one_line(folder):
    (folder / "no.png").write_text("nothing")
    call = ("glimpse", "--model", "model")
    assert_one_line(run_here(*call, "no.png", cwd=folder), 1, "no.png")
    assert_one_line(run_here(*call, "missing.png", cwd=folder), 1, "missing.png")
    assert_one_line(
        run_here(*call, "a.png", "--save-attention", "eye.svg", cwd=folder), 2, "--save-attention", ".gif"
    )
    assert_one_line(run_here(*call, "a.png", "--file", "names.txt", cwd=folder), 2, "--file")
    assert_one_line(
        run_here("glimpse", "--model", "dense", "a.png", "--look", cwd=folder),
        2,
        "--look",
        "this model has none",
    )
    assert_one_line(
        run_here("train", "glimpse", "--policy", "randm", "--out", "run", cwd=folder),
        2,
        "--policy",
        "'random'",
    )
    assert not (folder / "run").exists()
