"""Tests of the settings of a classifier of pictures, and of what is refused before anything long starts."""

import numpy as np
import pytest

from regard import tasks
from regard.errors import ArgumentError, FileError, UnknownNameError
from regard.tasks.images.settings import ARCHITECTURES, ImageSettings
from support.command_line import assert_one_line, run_here
from support.pictures import save_picture


def complete(**given):
    return ImageSettings(**ImageSettings.complete(given))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("data", [None, "folder"])
def test_the_defaults_of_every_architecture_make_a_network(architecture, data):
    from regard.tasks.images.networks import network, network_config

    settings = complete(architecture=architecture, **({"data": data} if data else {}))
    size = (28, 28) if data else (8, 8)
    model = network(network_config(settings, size, 1, 10))
    count = sum(p.numel() for p in model.parameters())
    assert count < 1_000_000
    if data and architecture != "linear":
        assert 250_000 < count < 350_000  # of about the same size, to be compared


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"architecture": "cnn", "heads": 2}, "heads: of no use for architecture=cnn"),
        ({"architecture": "linear", "width": 8}, "width: of no use for architecture=linear"),
        ({"architecture": "vit", "depths": "2"}, "depths: of no use for architecture=vit"),
        ({"architecture": "swin", "depths": "2,x"}, "depths: expected the blocks of each stage"),
        ({"architecture": "resnet"}, "architecture: unknown name 'resnet'"),
        ({"erase": 1.5}, "erase: expected a share from 0 to 1, got 1.5"),
        ({"shift": -1}, "shift: expected 0 or more pixels, got -1"),
        ({"batch_size": 0}, "batch_size: expected 1 or more"),
        ({"channels": 2}, "channels: expected 1 or 3, got 2"),
        ({"image_height": 8}, "image_width: height and width are given together"),
        ({"data": "-"}, "data: the paths of a table are relative to its folder"),
        ({"data": "x", "valid": "x"}, "valid: the same as data=x"),
        ({"class_names": "a,b"}, "class_names: of no use without data="),
        ({"columns": "1,0"}, "columns: of no use without data="),
        ({"mixed_sizes": "refuse"}, "mixed_sizes: of no use without data="),
        ({"data": "x", "valid_labels_file": "y"}, "valid_labels_file: of no use without valid="),
        ({"data": "x", "class_names": "a"}, "class_names: expected two or more different names"),
        ({"data": "x", "mixed_sizes": "crop"}, "mixed_sizes: unknown name 'crop'"),
    ],
)
def test_settings_that_cannot_work_are_refused(given, problem):
    with pytest.raises((ArgumentError, UnknownNameError)) as error:
        complete(**given)
    assert str(error.value).startswith(problem)


def test_the_labels_of_validation_arrays_have_a_file_of_their_own(tmp_path):
    rng = np.random.default_rng(0)
    for name, number in (("train", 20), ("valid", 7)):
        np.save(tmp_path / f"{name}.npy", rng.integers(0, 256, (number, 8, 8), dtype=np.uint8))
        np.save(tmp_path / f"{name}-classes.npy", np.arange(number) % 2)
    options = {"data": str(tmp_path / "train.npy"), "valid": str(tmp_path / "valid.npy"), "steps": 1}
    options["labels_file"] = str(tmp_path / "train-classes.npy")
    with pytest.raises(FileError, match=r"valid_labels_file: .*valid\.npy: there is no file of its labels"):
        tasks.train("images", options, tmp_path / "run")
    labels = str(tmp_path / "valid-classes.npy")
    tasks.train("images", {**options, "valid_labels_file": labels}, tmp_path / "run")
    assert (tmp_path / "run" / "best" / "model.safetensors").is_file()


@pytest.mark.parametrize("task", ["images", "glimpse"])
def test_a_shift_that_moves_pictures_out_of_themselves_is_refused(task, tmp_path):
    with pytest.raises(ArgumentError, match="shift: 8 pixels can move a picture of 8×8 out of itself"):
        tasks.train(task, {"shift": 8, "steps": 1}, tmp_path / "run")


def test_the_default_shift_is_lowered_for_tiny_pictures(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (20, 2, 2), dtype=np.uint8)
    np.savez(tmp_path / "x.npz", images=images, labels=np.arange(20) % 2)
    options = {"data": str(tmp_path / "x.npz"), "patch_size": 2, "steps": 1}
    tasks.train("images", options, tmp_path / "run", show=False)
    with pytest.raises(ArgumentError, match="shift: 3 pixels can move a picture of 2×2 out of itself"):
        tasks.train("images", {**options, "shift": 3}, tmp_path / "other", show=False)


def test_patches_that_do_not_divide_the_picture_are_refused_before_the_data_is_read(tmp_path, monkeypatch):
    from regard.tasks.images import task

    monkeypatch.setattr(task, "prepare", lambda *a, **k: pytest.fail("the data was read"))
    for name in ("cat", "dog"):
        (tmp_path / "data" / name).mkdir(parents=True)
        save_picture(tmp_path / "data" / name / "a.png", np.zeros((10, 10), dtype=np.uint8))
    folder = {"data": str(tmp_path / "data"), "steps": 1}
    for given in ({"patch_size": 3, "embedding": "patch", "steps": 1}, folder):
        with pytest.raises(ArgumentError, match="patch_size: patches of . pixels do not divide an image of"):
            tasks.train("images", given, tmp_path / "run", show=False)
    sizes = {"image_height": 9, "image_width": 8}
    with pytest.raises(ArgumentError, match="patch_size: patches of 4 pixels do not divide"):
        tasks.train("images", {**folder, **sizes}, tmp_path / "run", show=False)
    assert not (tmp_path / "run").exists()


def test_the_command_names_the_flag_of_the_patch_size(tmp_path):
    done = run_here(
        "train", "images", "--patch-size", "5", "--embedding", "patch", "--out", str(tmp_path / "run")
    )
    assert_one_line(done, 2, "--patch-size: patches of 5 pixels do not divide an image of 8 x 8")


def test_data_that_cannot_be_trained_on_names_the_flag_and_leaves_nothing(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros((6, 8, 8), dtype=np.uint8), labels=np.arange(6))
    np.savez(tmp_path / "b.npz", images=np.zeros((6, 8, 8)), labels=np.array([0, 1, 2, 3, 4, 9]))
    names = np.array([*range(19), 0])
    np.savez(tmp_path / "c.npz", images=np.zeros((20, 8, 8), dtype=np.uint8), labels=names)
    common = {"steps": 1, "patch_size": 4}
    for given, problem in (
        ({"data": str(tmp_path / "none")}, "data: no file or folder"),
        ({"data": str(tmp_path / "c.npz")}, "data: there are 19 different labels in 20 rows, such as '0': a"),
        ({"data": str(tmp_path / "a.npz")}, "data: each class has one picture only"),
    ):
        with pytest.raises(FileError, match=problem):
            tasks.train("images", {**common, **given}, tmp_path / "run", show=False)
    given = {"data": str(tmp_path / "b.npz"), "class_names": "a,b,c,d,e,f"}
    with pytest.raises(FileError, match=r"data: .*b\.npz: expected classes from 0 to 5, got 9"):
        tasks.train("images", {**common, **given}, tmp_path / "run", show=False)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("task", ["images", "glimpse"])
def test_classes_without_a_picture_are_named(task, tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (16, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "data.npz", images=images, labels=np.array([0, 1, 2, 7] * 4))
    small = {"images": {"architecture": "linear"}, "glimpse": {"glimpses": 2, "glimpse_size": 3, "width": 8}}[
        task
    ]
    with pytest.warns(UserWarning, match=r"data\.npz: 4 of 8 classes have no picture: 3, 4, 5, 6\. "):
        tasks.train(
            task, {**small, "data": str(tmp_path / "data.npz"), "steps": 1}, tmp_path / "run", show=False
        )
    assert len(tasks.load(tmp_path / "run").labels) == 8
