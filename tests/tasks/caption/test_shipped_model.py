"""The shipped model that describes scenes, on the pictures that come with it."""

from __future__ import annotations

import pytest

from regard.tasks.caption import Captioner
from regard.tasks.registry import find_model
from support.command_line import run_here

pytest.importorskip("PIL", reason="reading pictures needs pip install 'regard[images]'")


def test_it_takes_less_than_three_megabytes_and_is_the_default():
    folder = find_model("caption")
    assert folder.name == "scenes-en"
    assert sum(path.stat().st_size for path in folder.rglob("*")) <= 3e6


def test_it_describes_the_scenes_that_come_with_it(tmp_path):
    done = run_here("caption", "--examples", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = done.stdout.splitlines()
    assert len(found) == 8
    assert found[1].endswith("scene-2.png\ta shirt above a three, a nine to their left")
    assert found[4].endswith("scene-5.png\ta five to the left of a sneaker, a seven above them")


def test_its_words_look_at_their_objects():
    captioner = Captioner.load("scenes-en")
    (found,) = captioner.caption([find_model("caption") / "examples" / "scene-7.png"])
    assert found.text == "a zero above an eight"
    (shown,) = captioner.word_weights(found)
    peaks = dict(zip(shown.row_words, shown.weights.argmax(axis=-1) // shown.grid[1], strict=True))
    assert peaks["zero"] < peaks["eight"]  # the zero is in higher rows of cells
