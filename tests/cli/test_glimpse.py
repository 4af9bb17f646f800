"""``regard glimpse``, and training and evaluating from the command line."""

import json

import numpy as np
import pytest
from PIL import Image

from support.command_line import assert_one_line, run_here
from support.glimpse_models import LABELS, classifier, dense_classifier
from support.idx_folders import write_classes


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
    answer, *path = result.stdout.splitlines()
    source, label, share = answer.split("\t")
    assert (source, label in LABELS, 1 / 3 <= float(share) <= 1) == ("a.png", True, True)
    assert [line.split(":")[0] for line in path] == ["glimpse 1", "glimpse 2", "glimpse 3"]
    assert path[0].startswith("glimpse 1: row 6, column 6: ")


def test_names_of_pictures_are_read_from_a_file(folder):
    (folder / "names.txt").write_text("a.png\n\nb.png\n")
    words = ("glimpse", "--model", "model", "--file", "names.txt", "--json", "--attention", "--samples", "2")
    rows = [json.loads(line) for line in run_here(*words, cwd=folder).stdout.splitlines()]
    assert [row["source"] for row in rows] == ["a.png", "b.png"]
    assert len(rows[0]["glimpses"]) == 3
    assert set(rows[0]["probabilities"]) == set(LABELS)


def test_drawn_paths_do_not_repeat_after_the_pictures_that_are_read_together(folder):
    words = ("glimpse", "--model", "model", *["a.png"] * 70, "--samples", "2", "--json", "--attention")
    rows = [json.loads(line) for line in run_here(*words, cwd=folder).stdout.splitlines()]
    assert len({json.dumps(row["glimpses"]) for row in rows}) == 70


def test_a_seed_without_drawn_places_is_refused(folder):
    words = ("glimpse", "--model", "model", "a.png", "--seed", "1")
    problem = "--seed: of no use with one sample, whose places are not drawn at random: add --samples 10"
    assert_one_line(run_here(*words, cwd=folder), 2, problem)
    assert run_here(*words, "--samples", "2", cwd=folder).returncode == 0


def test_the_path_of_the_eye_is_saved(folder):
    for name in ("eye.gif", "eye.html", "eye.png"):
        words = ("glimpse", "--model", "model", "a.png", "b.png", "--save-attention", name)
        result = run_here(*words, cwd=folder)
        assert result.returncode == 0, result.stderr
        assert f"eye-2{name[3:]}" in result.stderr
        assert (folder / name).stat().st_size > 500
        assert (folder / f"eye-2{name[3:]}").is_file()


def test_the_title_of_a_page_has_the_file_and_its_label(folder):
    done = run_here("glimpse", "--model", "model", "a.png", "--save-attention", "eye.html", cwd=folder)
    label = done.stdout.split("\t")[1]
    assert f"a.png, read as {label}" in (folder / "eye.html").read_text(encoding="utf-8")


def test_look_writes_the_page(folder):
    result = run_here("glimpse", "--model", "model", "a.png", "--look", cwd=folder, DISPLAY="")
    assert result.returncode == 0, result.stderr
    with open(result.stderr.splitlines()[-1], encoding="utf-8") as page:
        assert "a.png, read as " in page.read()


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


# ---- an installed model


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install one model for pictures of 12×12 pixels on 20×20 pixels, with ten pictures, and no other model."""
    shipped = tmp_path / "weights"
    monkeypatch.setattr("regard.tasks.registry.SHIPPED", shipped)
    model = classifier("translated", size=(20, 20), labels=list("0123456789"))
    model.save(shipped / "digits-in-glimpses")
    examples = shipped / "digits-in-glimpses" / "examples"
    examples.mkdir()
    for digit in range(10):
        pixels = np.random.default_rng(digit).integers(0, 256, (20, 20), dtype=np.uint8)
        Image.fromarray(pixels).save(examples / f"{digit}.png")
    return tmp_path


def test_the_installed_model_reads_its_examples_and_other_pictures(installed):
    result = run_here("glimpse", "--examples", cwd=installed)
    assert result.returncode == 0, result.stderr
    found = [line.split("\t") for line in result.stdout.splitlines()]
    assert [name.rpartition("/")[2] for name, _, _ in found] == [f"{digit}.png" for digit in range(10)]
    assert all(label in "0123456789" for _, label, _ in found)
    named = run_here("glimpse", "--model", "digits-in-glimpses", "--examples", cwd=installed)
    assert named.stdout == result.stdout
    alone = run_here("glimpse", found[3][0], cwd=installed)
    assert alone.stdout.splitlines() == ["\t".join(found[3])]


def test_the_installed_model_is_listed_and_measured_by_its_name(installed):
    listed = run_here("models", cwd=installed).stdout
    assert listed.startswith("digits-in-glimpses  glimpse  ")
    write_classes(installed / "mnist")
    words = ("evaluate", "glimpse", "--model", "digits-in-glimpses", "--data", "mnist")
    result = run_here(*words, cwd=installed)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("measured on 50 pictures of mnist, translated\n")
    assert "digits-in-glimpses" in result.stdout
    without_name = run_here("evaluate", "glimpse", "--data", "mnist", cwd=installed)
    assert without_name.stdout.splitlines()[2].split()[1:] == result.stdout.splitlines()[2].split()[1:]


@pytest.mark.parametrize("words", [("--examples",), ("a.png",)])
def test_without_an_installed_model_the_error_says_how_to_train_one(folder, tmp_path, monkeypatch, words):
    monkeypatch.setattr("regard.tasks.registry.SHIPPED", tmp_path)
    told = "--model: no model for glimpse is installed: train one with `regard train glimpse`"
    assert_one_line(run_here("glimpse", *words, cwd=folder), 2, told, "name its folder with --model")
