"""The shipped model that reads digits in glimpses, on the pictures that come with it."""

from __future__ import annotations

import json

import pytest

from regard.tasks.glimpse import GlimpseClassifier
from regard.tasks.registry import SHIPPED, find_model
from support.command_line import run_here

pytest.importorskip("PIL", reason="reading pictures needs pip install '.[images]'")

NAME = "digits-in-glimpses"
pytestmark = pytest.mark.skipif(not (SHIPPED / NAME).is_dir(), reason=f"{NAME} is not shipped")


def test_it_takes_less_than_three_megabytes_and_is_the_default():
    folder = find_model("glimpse")
    assert folder == SHIPPED / NAME
    assert sum(path.stat().st_size for path in folder.rglob("*")) <= 3e6


def test_it_names_the_digits_that_come_with_it(tmp_path):
    done = run_here("glimpse", "--examples", "--json", "--attention", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "put on" not in done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["label"] for one in found] == list("0123456789")
    assert all(one["source"].endswith(f"/{one['label']}.png") for one in found)
    assert {len(one["glimpses"]) for one in found} == {8}


def test_it_reads_pictures_of_60_pixels_in_glimpses_of_three_scales():
    classifier = GlimpseClassifier.load(NAME)
    assert classifier.size == (60, 60)
    assert classifier.canvas.mode == "translated"
    config = classifier.model.config
    assert (config.glimpses, config.glimpse_size, config.scales, config.policy) == (8, 12, 3, "learned")
