"""A resumed run notices pictures that have changed since it was started, those of a table too."""

import json
import shutil

import numpy as np
import pytest

from regard import tasks
from regard.errors import FileError
from support.pictures import save_picture

SMALL = {
    "images": {"architecture": "linear", "batch_size": 4},
    "glimpse": {"glimpses": 2, "glimpse_size": 3, "scales": 1, "width": 8, "glimpse_width": 8},
    "caption": {"width": 8, "feed_forward": 8, "encoder_layers": 1, "image_height": 8, "image_width": 8},
}


def write_table(folder, name, first, count):
    """Write pictures of two kinds, and a table of their files and kinds."""
    rows = []
    for number in range(first, first + count):
        pixels = np.random.default_rng(number).integers(0, 256, (8, 8), dtype=np.uint8)
        save_picture(folder / f"{number}.png", pixels)
        rows.append(f"{number}.png\t{'dark' if number % 2 else 'light'}\n")
    (folder / name).write_text("".join(rows), encoding="utf-8")


@pytest.fixture(params=SMALL)
def begun(request, tmp_path):
    """A run of one step with a table to train on and one to validate on."""
    (tmp_path / "data").mkdir()
    write_table(tmp_path / "data", "train.tsv", 0, 8)
    write_table(tmp_path / "data", "valid.tsv", 8, 4)
    files = {"data": str(tmp_path / "data" / "train.tsv"), "valid": str(tmp_path / "data" / "valid.tsv")}
    settings = {**SMALL[request.param], **files, "steps": 1, "warmup": 1}
    tasks.train(request.param, settings, tmp_path / "run", show=False)
    return tmp_path


@pytest.mark.parametrize(("number", "name", "what"), [(3, "data", "training"), (9, "valid", "validation")])
def test_a_changed_picture_of_a_table_is_noticed(begun, number, name, what):
    save_picture(begun / "data" / f"{number}.png", np.zeros((8, 8), dtype=np.uint8))
    problem = f"{name}: .*: a picture of the {what} data is not what the run was started with"
    with pytest.raises(FileError, match=problem):
        tasks.resume(begun / "run", {"steps": 2}, show=False)


def test_a_missing_validation_picture_is_noticed(begun):
    (begun / "data" / "9.png").unlink()
    with pytest.raises(FileError, match="valid: .*: a picture of the validation data is not what"):
        tasks.resume(begun / "run", {"steps": 2}, show=False)


def test_data_that_was_moved_with_its_pictures_is_the_same(begun):
    shutil.move(begun / "data", begun / "moved")
    moved = {"data": str(begun / "moved" / "train.tsv"), "valid": str(begun / "moved" / "valid.tsv")}
    assert tasks.resume(begun / "run", {"steps": 2, **moved}, show=False).step == 2


def test_a_run_without_hashes_of_pictures_goes_on(begun):
    """Earlier versions did not write them."""
    path = begun / "run" / "settings.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["contents"] = {name: settings["contents"][name] for name in ("data", "valid")}
    path.write_text(json.dumps(settings), encoding="utf-8")
    assert tasks.resume(begun / "run", {"steps": 2}, show=False).step == 2
