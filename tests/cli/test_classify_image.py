"""Tests of ``regard classify-image``, its input, its output and its pictures."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from regard.cli import picture_streams
from regard.images import read_image
from regard.tasks.registry import find_model
from support.command_line import assert_one_line, run_here
from support.image_classifiers import small_image_classifier
from support.pictures import save_picture

RNG = np.random.default_rng(0)


@pytest.fixture
def folder(tmp_path):
    """A model, and a folder with two pictures and a file that is none."""
    small_image_classifier().save(tmp_path / "model")
    (tmp_path / "pictures").mkdir()
    for name in ("b10.png", "b9.png"):
        save_picture(tmp_path / "pictures" / name, RNG.integers(0, 256, (16, 24), dtype=np.uint8))
    (tmp_path / "pictures" / "notes.txt").write_text("not a picture")
    return tmp_path


def classify(folder, *words, **options):
    return run_here("classify-image", *words, "--model", str(folder / "model"), cwd=folder, **options)


def test_files_and_folders_are_classified_in_order(folder):
    one = classify(folder, "pictures/b9.png")
    assert one.returncode == 0, one.stderr
    name, label, share = one.stdout.strip().split("\t")
    assert (name, label) == ("pictures/b9.png", label)
    assert label in ("cat", "dog", "hen")
    assert 1 / 3 <= float(share) <= 1
    both = classify(folder, "pictures")
    assert [line.split("\t")[0] for line in both.stdout.splitlines()] == [
        "pictures/b9.png",
        "pictures/b10.png",
    ]
    assert "2 pictures in" in both.stderr
    scores = classify(folder, "pictures/b9.png", "--scores").stdout.splitlines()
    assert sum(float(line.split("\t")[2]) for line in scores) == pytest.approx(1, abs=0.002)


def test_names_come_from_a_file_and_results_go_to_one(folder):
    (folder / "list.txt").write_text("pictures/b10.png\n\npictures/b9.png\n")
    done = classify(folder, "--file", "list.txt", "--out", "out.txt", "--json")
    assert done.returncode == 0, done.stderr
    values = [json.loads(line) for line in (folder / "out.txt").read_text().splitlines()]
    assert [value["source"] for value in values] == ["pictures/b10.png", "pictures/b9.png"]
    assert_one_line(
        classify(folder, "a.png", "--file", "list.txt"), 2, "--file: given together with pictures"
    )
    assert_one_line(
        classify(folder, "--file", "list.txt", "--out", "list.txt"),
        2,
        "--out: list.txt is the file to classify",
    )


def test_broken_pictures_are_one_line(folder):
    (folder / "bad.png").write_bytes(b"no picture")
    (folder / "empty").mkdir()
    assert_one_line(classify(folder, "bad.png"), 1, "bad.png is no picture")
    assert_one_line(classify(folder, "none.png"), 1, "no file none.png")
    assert_one_line(classify(folder, "empty"), 1, "empty has no pictures")


def test_where_it_looks_is_drawn_and_saved(folder, fonts):
    drawn = classify(folder, "pictures/b9.png", "--attention")
    assert drawn.returncode == 0, drawn.stderr
    assert "class token" in drawn.stdout
    assert "rollout" in drawn.stdout
    values = json.loads(classify(folder, "pictures/b9.png", "--attention", "--json").stdout)
    assert np.array(values["attention"]["rollout"]).shape == (2, 3)
    page = classify(folder, "pictures", "--save-attention", "a.html")
    assert page.returncode == 0, page.stderr
    assert "image/png" in (folder / "a.html").read_text(encoding="utf-8")
    assert (folder / "a-2.html").is_file()
    assert "regard: the attention to another picture is in a-2.html\n" in page.stderr
    pytest.importorskip("matplotlib", reason="matplotlib draws pictures: pip install 'regard[plot]'")
    picture = classify(folder, "pictures/b9.png", "--save-attention", "a.png")
    assert picture.returncode == 0, picture.stderr
    assert (folder / "a.png").read_bytes().startswith(b"\x89PNG")


def page_document(path):
    """The JSON values of a page of the viewer."""
    text = path.read_text(encoding="utf-8")
    return json.loads(text.partition('id="regard-document">')[2].partition("</script>")[0])


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, ["class token", "rollout"]),
        ({"pooling": "multihead", "pooling_heads": 2}, ["pooling, head 0", "pooling, head 1", "rollout"]),
    ],
)
@pytest.mark.parametrize("option", ["--save-attention", "--look"])
def test_the_page_opens_on_the_maps_of_where_the_classifier_looks(
    folder, monkeypatch, settings, names, option
):
    small_image_classifier(**settings).save(folder / "model")
    monkeypatch.setenv("DISPLAY", "")
    done = classify(folder, "pictures/b9.png", option, *(["a.html"] if option != "--look" else []))
    assert done.returncode == 0, done.stderr
    page = (
        folder / "a.html"
        if option != "--look"
        else Path(next(line for line in done.stderr.splitlines() if line.endswith(".html")))
    )
    shown = page_document(page)
    first, *layers = shown["records"]
    assert shown["opening"]["record"] == 0
    assert first["name"] == "where the classifier looks"
    assert shown["labels"][first["queryTokens"][0]] == names
    assert (first["shape"], first["keyGrid"]) == ([1, 1, len(names), 6], [2, 3])
    assert len(layers) >= 2, "the layers follow"
    _, label, share = done.stdout.splitlines()[0].split("\t")
    assert shown["title"] == f"b9.png: {label} {float(share):.2f}"


def test_a_resized_picture_is_told_and_a_stretched_one_is_told_once(folder):
    assert (
        classify(folder, "pictures/b9.png").stderr
        == "pictures/b9.png has 24×16 pixels (width × height): resized to 12×8\n"
    )
    save_picture(folder / "same.png", np.zeros((8, 12), dtype=np.uint8))
    assert classify(folder, "same.png").stderr == ""
    save_picture(folder / "tall.png", np.zeros((48, 12), dtype=np.uint8))
    assert "resized" not in classify(folder, "tall.png").stderr


def test_a_model_without_attention_and_stretched_pictures_are_told(folder):
    small_image_classifier("cnn").save(folder / "model")
    assert_one_line(classify(folder, "pictures/b9.png", "--attention"), 2, "--attention: this model has none")
    save_picture(folder / "tall.png", np.zeros((48, 12), dtype=np.uint8))
    done = classify(folder, "tall.png")
    assert "tall.png has 12×48 pixels (width × height), the model 12×8: it was stretched" in done.stderr
    assert "stretched" not in classify(folder, "pictures").stderr


@pytest.mark.parametrize(
    ("words", "model"),
    [
        (["classify-image", "--model", "mnist"], "mnist"),
        (["glimpse"], "digits-in-glimpses"),
        (["caption", "--beams", "1"], "scenes-en"),
    ],
)
def test_a_picture_on_the_other_ground_is_inverted_and_told(words, model, tmp_path):
    given, turned = find_model("", model) / "examples", tmp_path / "turned"
    turned.mkdir()
    names = [path.name for path in sorted(given.glob("*.png"))[:3]]
    for name in names:
        save_picture(turned / name, 255 - read_image(given / name, channels=1)[..., 0])
    before, after = (run_here(*words, *(str(one / name) for name in names)) for one in (given, turned))
    assert after.stdout.replace(str(turned), str(given)) == before.stdout
    assert "inverted" in after.stderr
    assert "others" in after.stderr
    assert "inverted" not in before.stderr


def test_nothing_to_classify_is_a_usage_error(tmp_path, monkeypatch):
    monkeypatch.setattr(picture_streams, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    assert_one_line(run_here("classify-image", cwd=tmp_path), 2, "PICTURES: nothing to classify")


def test_the_pictures_of_a_model_are_read_with_examples(folder):
    missing = classify(folder, "--examples")
    assert_one_line(missing, 2, "--examples: no pictures come with the model", "name pictures of your own")
    (folder / "pictures").rename(folder / "model" / "examples")
    found = [line.split("\t")[0] for line in classify(folder, "--examples").stdout.splitlines()]
    assert [name.rpartition("/")[2] for name in found] == ["b9.png", "b10.png"]
