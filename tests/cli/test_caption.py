"""Tests of ``regard caption`` and ``regard scenes``, their pictures, and their errors."""

import io
import json
import sys

import numpy as np
import pytest
import torch

from support.command_line import assert_one_line, run_here
from support.pictures import save_picture, small_captioner

# The captioner with random weights never ends a caption.
CUT_OFF = "regard: the caption was cut off at 13 tokens: allow more with --max-length\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "small"
    small_captioner().save(folder)
    return str(folder)


@pytest.fixture
def scene(tmp_path):
    save_picture(tmp_path / "scene.png", np.arange(256, dtype=np.uint8).reshape(16, 16))
    return str(tmp_path / "scene.png")


def caption(model, *words, **more):
    return run_here("caption", "--model", model, "--beams", "1", *words, **more)


def test_a_picture_has_a_caption_of_its_own_line(model, scene, tmp_path, monkeypatch):
    done = caption(model, scene)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == CUT_OFF
    (tmp_path / "names.txt").write_text(f"{scene}\n\n{scene}\n")
    several = caption(model, "--file", str(tmp_path / "names.txt"), "--out", str(tmp_path / "out.txt"))
    assert "2 pictures in" in several.stderr
    named = f"{scene}\t{done.stdout}"
    assert (tmp_path / "out.txt").read_text() == 2 * named
    assert caption(model, scene, scene).stdout == 2 * named
    assert caption(model, str(tmp_path)).stdout == named, "a folder stands for its pictures"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{scene}\n".encode())))
    assert caption(model).stdout == named


def test_json_has_the_caption_the_words_and_the_attention(model, scene):
    (line,) = caption(
        model, scene, "--json", "--attention", "--n-best", "2", "--beams", "2"
    ).stdout.splitlines()
    values = json.loads(line)
    assert values["source"] == scene
    assert len(values["alternatives"]) == 1
    assert np.shape(values["attention"]) == (len(values["words"]), 16)


def test_attention_is_drawn_in_the_terminal(model, scene):
    lines = caption(model, scene, "--attention").stdout.splitlines()
    words = lines[0].replace(",", " ").split()
    assert set(words) <= set(" ".join(lines[1:]).split())
    assert len(lines) >= 4  # the caption, then the words above two lines of maps of 4 × 4 cells


@pytest.mark.usefixtures("fonts")
def test_attention_is_saved_as_a_picture(model, scene, tmp_path):
    done = caption(model, scene, "--save-attention", str(tmp_path / "attention.png"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "attention.png").read_bytes().startswith(b"\x89PNG")


def test_attention_is_saved_as_a_page(model, scene, tmp_path):
    done = caption(model, scene, "--save-attention", str(tmp_path / "attention.html"))
    assert done.returncode == 0, done.stderr
    content = (tmp_path / "attention.html").read_bytes()
    document = json.loads(content.split(b'id="regard-document">')[1].split(b"</script>")[0])
    (record,) = document["records"]
    assert record["keyGrid"] == [4, 4]
    assert len(document["pictures"]) == 1
    text = done.stdout.strip()
    assert document["title"] == f"scene.png: {text}"
    assert document["labels"][record["queryTokens"][0]] == [*text.replace(",", " ,").split(), "[end]"]


def test_look_writes_a_page_with_the_picture(model, scene):
    done = caption(model, scene, "--look")
    assert done.returncode == 0, done.stderr
    page = next(line for line in done.stderr.splitlines() if line.endswith(".html"))
    with open(page, encoding="utf-8") as file:
        assert '"keyGrid": [4, 4]' in file.read()


def test_a_resized_or_stretched_picture_is_mentioned(model, tmp_path):
    save_picture(tmp_path / "large.png", np.zeros((40, 30), dtype=np.uint8))
    done = caption(model, str(tmp_path / "large.png"))
    assert done.stderr.splitlines()[0] == (
        f"regard: {tmp_path / 'large.png'} has 30×40 pixels (width × height), the model 16×16: it was stretched: "
        "cut pictures to the proportions of the model"
    )
    save_picture(tmp_path / "square.png", np.zeros((40, 40), dtype=np.uint8))
    done = caption(model, str(tmp_path / "square.png"))
    assert done.stderr == f"{tmp_path / 'square.png'} has 40×40 pixels: resized to 16×16\n{CUT_OFF}"


@pytest.fixture(scope="module")
def shipped():
    from regard.tasks.registry import find_model

    return str(next((find_model("caption", None) / "examples").glob("*.png")))


@pytest.mark.parametrize("most", [1, 2])
def test_a_short_caption_has_the_first_words_and_says_that_it_is_cut_off(shipped, most):
    whole = run_here("caption", shipped)
    done = run_here("caption", shipped, "--max-length", str(most))
    assert done.stdout.split() == whole.stdout.split()[:most]
    assert done.stderr == f"regard: the caption was cut off at --max-length {most}\n"
    assert whole.stderr == "", "a caption that ends is not cut off"
    several = run_here("caption", shipped, shipped, "--max-length", str(most), "--json")
    assert "2 of 2 captions were cut off" in several.stderr
    assert [json.loads(line)["cut_off"] for line in several.stdout.splitlines()] == [True, True]


def test_a_caption_that_is_as_long_as_those_of_the_training_says_how_to_allow_more(scene, tmp_path):
    captioner = small_captioner(extra={"max_caption": 3})
    with torch.no_grad():
        captioner.model.output.bias[captioner.target.eos] = -100.0
    captioner.save(tmp_path / "endless")
    done = caption(str(tmp_path / "endless"), scene)
    assert done.stderr == CUT_OFF.replace("13", "4")


def test_errors_are_one_line(model, scene, tmp_path):
    assert_one_line(caption(model, str(tmp_path / "nothing.png")), 1, "no file")
    (tmp_path / "text.png").write_text("hello")
    assert_one_line(caption(model, str(tmp_path / "text.png")), 1, "is no picture")
    assert_one_line(caption(model, scene, "--file", scene), 2, "--file", "given together with pictures")
    assert_one_line(caption(model, scene, "--save-attention", "x.txt"), 2, "--save-attention")
    assert_one_line(run_here("caption", scene, "--model", str(tmp_path)), 1, "--model")
    small_captioner(attention=None).save(tmp_path / "fixed")
    assert_one_line(caption(str(tmp_path / "fixed"), scene, "--attention"), 2, "trained without attention")


def test_scenes_are_written_and_can_be_trained_on(tmp_path):
    pytest.importorskip("sklearn")
    out = tmp_path / "scenes"
    done = run_here("scenes", "--out", str(out), "--count", "8", "--seed", "3", "--language", "zh")
    assert done.returncode == 0, done.stderr
    rows = (out / "captions.tsv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 8
    assert all("数字" in row for row in rows)
    words = ["train", "caption", "--data", str(out / "captions.tsv"), "--out", str(tmp_path / "run")]
    sizes = ["--width", "8", "--feed-forward", "8", "--encoder-layers", "1", "--steps", "1", "--warmup", "1"]
    done = run_here(*words, *sizes)
    assert done.returncode == 0, done.stderr
    assert_one_line(run_here("scenes", "--out", str(out)), 1, "is not empty")


def test_errors_of_scenes_are_one_line(tmp_path):
    out = ["scenes", "--out", str(tmp_path / "scenes")]
    assert_one_line(run_here(*out, "--words", "sevn,two"), 2, "--words", "did you mean 'seven'?")
    assert_one_line(run_here(*out, "--split", "tests"), 2, "--split")
    assert_one_line(run_here(*out, "--language", "fr"), 2, "--language")
    assert_one_line(run_here(*out, "--size", "16"), 2, "--size")
    assert_one_line(run_here(*out, "--digits", str(tmp_path / "none")), 1, "--digits")
    assert not (tmp_path / "scenes").exists()
