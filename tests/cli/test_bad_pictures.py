"""Pictures that are no pictures, damaged, or of another kind, through the commands that train and use models."""

import gzip
import io
import json
import os
import shutil
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from support.command_line import assert_one_line, run_here
from support.glimpse_models import classifier as glimpse_classifier
from support.idx_folders import write_idx
from support.image_classifiers import small_image_classifier
from support.pictures import small_captioner

SIDE = 8
RNG = np.random.default_rng(0)


def pixels(*channels, dtype=np.uint8, most=256):
    return RNG.integers(0, most, (SIDE, SIDE, *channels)).astype(dtype)


def save_animation(path):
    first, *others = (Image.fromarray(pixels()) for _ in range(3))
    first.save(path, save_all=True, append_images=others)


def save_rotated(path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    Image.fromarray(pixels(3)).save(path, exif=exif)


def save_bomb(path):
    """Write a small file that claims 2.5 thousand million pixels."""

    def chunk(name, content):
        return (
            struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        )

    head = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + parts)


def save_truncated(path):
    Image.fromarray(pixels()).save(path)
    path.write_bytes(path.read_bytes()[:-40])


# What is written, the end of its name, and the error, or None if it is read.
FILES = {
    "opacity": (lambda path: Image.fromarray(pixels(4)).save(path), ".png", None),
    "grey with opacity": (lambda path: Image.fromarray(pixels(2)).save(path), ".png", None),
    "16 bits": (lambda path: Image.fromarray(pixels(dtype=np.uint16, most=65536)).save(path), ".png", None),
    "CMYK": (lambda path: Image.new("CMYK", (SIDE, SIDE), (9, 80, 7, 6)).save(path), ".jpg", None),
    "rotated": (save_rotated, ".jpg", None),
    "an animation": (save_animation, ".gif", None),
    "a text": (lambda path: path.write_text("hello"), ".png", "is no picture in PNG, JPEG"),
    "empty": (lambda path: path.write_bytes(b""), ".png", "is empty: expected a picture"),
    "truncated": (save_truncated, ".png", "is truncated or damaged"),
    "a bomb": (save_bomb, ".png", "claims more than 64,000,000 pixels"),
    "numbers": (
        lambda path: Image.fromarray(pixels(dtype=np.int32, most=99999)).save(path),
        ".tif",
        "save it with 8 or 16 bits a channel",
    ),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Three small models, one for each command that reads pictures."""
    place = tmp_path_factory.mktemp("models")
    small_image_classifier().save(place / "classify-image")
    glimpse_classifier("translated", size=(12, 12)).save(place / "glimpse")
    small_captioner().save(place / "caption")
    return place


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("command", ["classify-image", "glimpse", "caption"])
def test_a_picture_is_read_or_the_error_is_one_line(command, kind, models, tmp_path):
    write, ending, problem = FILES[kind]
    write(tmp_path / f"x{ending}")
    out = tmp_path / "out.txt"
    words = (command, "--model", str(models / command), f"x{ending}", "--out", str(out))
    done = run_here(*words, cwd=tmp_path, warned="default")
    if problem is None:
        assert done.returncode == 0, done.stderr
        assert ("has 3 frames: the first one is used" in done.stderr) == (kind == "an animation")
        assert out.read_text(encoding="utf-8").strip()
    else:
        assert_one_line(done, 1, f"x{ending}", problem)
        assert os.listdir(tmp_path) == [f"x{ending}"]


@pytest.mark.parametrize("command", ["classify-image", "glimpse", "caption"])
def test_a_bad_picture_does_not_lose_the_results_of_the_others(command, models, tmp_path):
    for name in ("a.png", "b.png"):
        Image.fromarray(pixels()).save(tmp_path / name)
    (tmp_path / "bad.png").write_text("hello")
    words = (command, "--model", str(models / command), "bad.png", "a.png", "none.png", "b.png")
    done = run_here(*words, "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert [json.loads(line)["source"] for line in done.stdout.splitlines()] == ["a.png", "b.png"]
    first, second, *others = done.stderr.splitlines()
    assert first.startswith("regard: bad.png is no picture")
    assert second == "regard: no file none.png"
    assert "2 pictures in" in others[0]
    assert "a.png" in others[1], "its size is reported in spite of the others"
    written = run_here(*words, "--out", "out.txt", cwd=tmp_path)
    assert written.returncode == 1
    assert len((tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()) == 2


def test_an_empty_folder_does_not_lose_the_results_of_the_others(models, tmp_path):
    Image.fromarray(pixels()).save(tmp_path / "a.png")
    (tmp_path / "empty").mkdir()
    model = str(models / "classify-image")
    done = run_here("classify-image", "--model", model, "empty", "a.png", "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert json.loads(done.stdout)["source"] == "a.png"
    assert done.stderr.startswith("regard: empty has no pictures: expected files in ")
    alone = run_here("classify-image", "--model", model, "empty", cwd=tmp_path)
    assert_one_line(alone, 1, "empty has no pictures: expected files in ")


def test_a_picture_is_warned_of_once_beside_one_that_cannot_be_read(models, tmp_path):
    save_animation(tmp_path / "a.gif")
    (tmp_path / "bad.png").write_text("hello")
    words = ("classify-image", "--model", str(models / "classify-image"), "a.gif")
    for others in ((), ("bad.png",)):
        done = run_here(*words, *others, cwd=tmp_path, warned="default")
        assert done.stderr.count("a.gif has 3 frames") == 1, done.stderr


def test_no_file_is_written_if_no_picture_can_be_read(models, tmp_path):
    (tmp_path / "list.txt").write_text("none.png\nnowhere.png\n")
    model = str(models / "classify-image")
    done = run_here(
        "classify-image", "--model", model, "--file", "list.txt", "--out", "out.txt", cwd=tmp_path
    )
    assert done.returncode == 1
    assert [line.split()[-1] for line in done.stderr.splitlines()] == ["none.png", "nowhere.png"]
    assert not (tmp_path / "out.txt").exists()


@pytest.mark.parametrize(
    ("words", "option", "name"),
    [
        (("a.png", "--out", "a.png"), "--out", "a.png"),
        (("a.png", "--out", "link.png"), "--out", "link.png"),
        (("a.png", "--save-attention", "a.png"), "--save-attention", "a.png"),
        (("a.png", "a-2.png", "--save-attention", "a.png"), "--save-attention", "a.png"),
        (("b.png", "a-2.png", "--save-attention", "./a.png"), "--save-attention", "a-2.png"),
        ((".", "--out", "b.png"), "--out", "b.png"),
        (("--file", "list.txt", "--out", "b.png"), "--out", "b.png"),
        (("--file", "-", "--save-attention", "b.png"), "--save-attention", "b.png"),
    ],
)
@pytest.mark.parametrize("command", ["classify-image", "glimpse", "caption"])
def test_no_picture_is_overwritten_by_a_result(command, words, option, name, models, tmp_path, monkeypatch):
    for one in ("a.png", "a-2.png", "b.png"):
        Image.fromarray(pixels()).save(tmp_path / one)
    (tmp_path / "link.png").symlink_to("a.png")
    (tmp_path / "list.txt").write_text("a.png\nb.png\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a.png\nb.png\n")))
    done = run_here(command, "--model", str(models / command), *words, cwd=tmp_path)
    assert_one_line(done, 2, f"{option}: {name} is one of the pictures to read: name another file")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_picture_with_a_number_that_no_result_gets_is_not_refused(models, tmp_path):
    Image.fromarray(pixels()).save(tmp_path / "a-2.png")
    words = ("classify-image", "--model", str(models / "classify-image"), "a-2.png")
    done = run_here(*words, "--save-attention", "a.html", "--out", "a-3.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def pictures(tmp_path):
    """A folder with four pictures of each of two classes."""
    for name in ("cat", "dog"):
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(4):
            Image.fromarray(pixels()).save(tmp_path / "data" / name / f"{number}.png")
    return tmp_path


def train(folder, *words):
    always = ("--architecture", "linear", "--steps", "1", "--out", "run")
    return run_here("train", "images", "--data", "data", *always, *words, cwd=folder, warned="default")


@pytest.mark.parametrize("kind", FILES)
def test_a_training_reads_a_picture_or_leaves_nothing(kind, pictures):
    write, ending, problem = FILES[kind]
    write(pictures / "data" / "cat" / f"x{ending}")
    done = train(pictures)
    if problem is None:
        assert done.returncode == 0, done.stderr
        return
    assert_one_line(done, 1, "--data: ", f"x{ending}", problem)
    assert not (pictures / "run").exists()
    left_out = train(pictures, "--skip-bad-rows")
    assert left_out.returncode == 0, left_out.stderr
    assert "left out: 1 that cannot be read" in left_out.stderr


def test_mixed_sizes_are_resized_with_a_line_or_refused(pictures):
    Image.fromarray(pixels()[:5]).save(pictures / "data" / "cat" / "x.png")
    refused = train(pictures, "--mixed-sizes", "refuse")
    assert_one_line(refused, 1, "x.png has 8×5: resize them, or give --image-height")
    done = train(pictures)
    assert done.returncode == 0
    assert "x.png has 8×5: all are resized to 8×8" in done.stderr


def test_stretched_training_pictures_are_told(pictures):
    done = train(pictures, "--image-height", "8", "--image-width", "16")
    assert done.returncode == 0, done.stderr
    assert "0.png has 8×8 pixels: it is stretched to 16×8, and so are 7 others\n" in done.stderr
    assert "stretched" not in train(pictures, "--image-height", "4", "--image-width", "4").stderr


def test_an_empty_class_folder_is_named(pictures):
    (pictures / "data" / "hen").mkdir()
    assert_one_line(train(pictures), 1, "--data: the class 'hen' is empty")
    shutil.rmtree(pictures / "data" / "dog")
    shutil.rmtree(pictures / "data" / "hen")
    assert_one_line(train(pictures), 1, "data has one folder, cat: expected one for each class, two or more")
    assert not (pictures / "run").exists()


def idx_folder(folder, labels, cut=0):
    folder.mkdir()
    write_idx(folder / "train-images-idx3-ubyte", np.stack([pixels() for _ in range(9)]))
    write_idx(folder / "train-labels-idx1-ubyte", np.array(labels))
    if cut:
        path = folder / "train-images-idx3-ubyte"
        path.write_bytes(path.read_bytes()[:-cut])


@pytest.mark.parametrize(
    ("labels", "cut", "words", "problem"),
    [
        ([0, 1, 2] * 3, 7, (), "train-images-idx3-ubyte is truncated: 569 bytes"),
        ([0, 1] * 4, 0, (), "train-labels-idx1-ubyte: expected one label for each of 9 pictures"),
        (
            [0, 1, 2] * 3,
            0,
            ("--class-names", "a,b"),
            "train-labels-idx1-ubyte: expected classes from 0 to 1, got 2",
        ),
    ],
)
def test_damaged_idx_files_are_named(labels, cut, words, problem, tmp_path):
    idx_folder(tmp_path / "data", labels, cut)
    assert_one_line(train(tmp_path, *words), 1, f"--data: data/{problem}")
    assert not (tmp_path / "run").exists()


def test_a_compressed_idx_file_that_claims_too_much_is_not_decompressed(tmp_path):
    idx_folder(tmp_path / "data", [0, 1, 2] * 3)
    (tmp_path / "data" / "train-images-idx3-ubyte").unlink()
    head = struct.pack(">HBB3I", 0, 8, 3, 60_000_000, 28, 28)
    (tmp_path / "data" / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(head + bytes(10**6)))
    assert_one_line(train(tmp_path), 1, "claims 47,040,000,000 bytes")
