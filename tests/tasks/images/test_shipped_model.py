"""The shipped models that classify garments and digits, on the pictures that come with them."""

from __future__ import annotations

import json

import pytest

from regard.tasks.images import ImageClassifier
from regard.tasks.registry import find_model
from support.command_line import run_here

pytest.importorskip("PIL", reason="reading pictures needs pip install 'regard[images]'")


def test_it_takes_less_than_three_megabytes_and_is_the_default():
    folder = find_model("images")
    assert folder.name == "garments"
    assert sum(path.stat().st_size for path in folder.rglob("*")) <= 3e6


def test_it_names_the_garments_that_come_with_it(tmp_path):
    done = run_here("classify-image", "--examples", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    named = {one["source"].rpartition("/")[2].removesuffix(".png"): one["label"] for one in found}
    assert len(named) == 10
    wrong = {name: label for name, label in named.items() if name != label.lower().replace(" ", "-")}
    assert wrong == {}


def test_the_model_of_digits_names_those_that_come_with_it(tmp_path):
    done = run_here("classify-image", "--model", "mnist", "--examples", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = [line.split("\t")[:2] for line in done.stdout.splitlines()]
    assert [label for _, label in found] == list("0123456789")
    assert all(name.endswith(f"/{label}.png") for name, label in found)


def test_where_it_looks_covers_the_picture():
    classifier = ImageClassifier.load("garments")
    pictures = sorted((find_model("images") / "examples").glob("*.png"))
    (found,) = classifier.classify(pictures[:1])
    (shown,) = classifier.word_weights(found)
    assert shown.row_words == [*(f"pooling, head {n}" for n in range(4)), "rollout"]
    assert shown.grid == (7, 7)
