"""Tests of reading sets of labelled pictures from idx files, arrays, folders and tables."""

import gzip
import struct
import zipfile

import numpy as np
import pytest
from PIL import Image

from regard.errors import ArgumentError, DtypeError, FileError, ShapeError
from regard.images import (
    ImageSet,
    image_files,
    read_digits,
    read_idx,
    read_image_set,
    resize_images,
    sources,
)
from regard.text import Skipped
from support.paths import data_folder

N, H, W = 7, 3, 5
RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (N, H, W), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, 2, 1])


def idx_bytes(array: np.ndarray, kind: int = 8) -> bytes:
    return bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def idx_folder(tmp_path):
    for start, part in (("train", slice(0, 5)), ("t10k", slice(5, 7))):
        (tmp_path / f"{start}-images-idx3-ubyte").write_bytes(idx_bytes(PIXELS[part]))
        labels = idx_bytes(LABELS[part].astype(np.uint8))
        (tmp_path / f"{start}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    return tmp_path


@pytest.fixture
def class_folder(tmp_path):
    for place, (pixels, label) in enumerate(zip(PIXELS, LABELS, strict=True)):
        folder = tmp_path / "pictures" / ("cat", "dog", "hen")[label]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{place}.png")
    (tmp_path / "pictures" / "cat" / ".hidden.png").write_bytes(b"")
    (tmp_path / "pictures" / "cat" / "notes.txt").write_text("not a picture")
    return tmp_path / "pictures"


def test_idx_files_of_every_number_type_are_read(tmp_path):
    values = np.array([[1, -2], [3, 100]])
    types = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
    for kind, dtype in types.items():
        array = np.abs(values).astype(dtype) if kind == 8 else values.astype(dtype)
        path = tmp_path / f"{kind}.idx"
        path.write_bytes(idx_bytes(array, kind))
        np.testing.assert_array_equal(read_idx(path), array)
        path.write_bytes(gzip.compress(idx_bytes(array, kind)))
        np.testing.assert_array_equal(read_idx(path), array)


def test_broken_idx_files_are_a_clear_error(tmp_path):
    path, whole = tmp_path / "a-idx3-ubyte", idx_bytes(PIXELS)
    for content, problem in (
        (whole[:-1], r"is truncated: 104 bytes after the header, expected 105 for the shape \(7, 3, 5\)"),
        (whole + b"x", "is too long"),
        (whole[:9], "is truncated or damaged: its header names 3 axes"),
        (b"", "is no idx file: it begins with nothing"),
        (b"PK\3\4rest", "is no idx file: it begins with 50 4b 03 04"),
        (bytes([0, 0, 8, 2]) + b"\xff" * 8, "claims 18,446,744,065,119,617,025 bytes for the shape"),
        (gzip.compress(bytes([0, 0, 8, 2]) + b"\xff" * 8), "claims .* more than 8 GiB"),
        (gzip.compress(whole)[:-12], "is truncated or damaged"),
        (gzip.compress(whole)[:-8] + bytes(8), "is truncated or damaged"),
    ):
        path.write_bytes(content)
        with pytest.raises(FileError, match=f"path: .*a-idx3-ubyte {problem}"):
            read_idx(path)
    with pytest.raises(FileError, match="no file"):
        read_idx(tmp_path / "none")


def test_a_folder_of_idx_files_has_two_splits(idx_folder):
    train, test = read_image_set(idx_folder), read_image_set(idx_folder, split="test")
    np.testing.assert_array_equal(train.images[..., 0], PIXELS[:5])
    np.testing.assert_array_equal(test.images[..., 0], PIXELS[5:])
    np.testing.assert_array_equal(test.labels, LABELS[5:])
    assert train.classes == ("0", "1", "2")
    beside = read_image_set(idx_folder / "train-images-idx3-ubyte")  # its labels are found by their name
    np.testing.assert_array_equal(beside.labels, LABELS[:5])
    (idx_folder / "t10k-images-idx3-ubyte").unlink()
    with pytest.raises(FileError, match="source: .* has no t10k-images-idx3-ubyte"):
        read_image_set(idx_folder, split="test")


def test_arrays_and_their_files_are_read(tmp_path):
    np.save(tmp_path / "x.npy", PIXELS)
    np.save(tmp_path / "y.npy", LABELS)
    np.savez(tmp_path / "a.npz", x_train=PIXELS, y_train=LABELS, x_test=PIXELS[:2], y_test=LABELS[:2])
    np.savez(tmp_path / "b.npz", images=PIXELS, labels=LABELS, classes=np.array(["cat", "dog", "hen"]))
    for found in (
        read_image_set(PIXELS, LABELS),
        read_image_set(tmp_path / "x.npy", tmp_path / "y.npy"),
        read_image_set(tmp_path / "a.npz"),
        read_image_set(tmp_path / "b.npz"),
    ):
        np.testing.assert_array_equal(found.images[..., 0], PIXELS)
        np.testing.assert_array_equal(found.labels, LABELS)
    assert len(read_image_set(tmp_path / "a.npz", split="test")) == 2
    assert read_image_set(tmp_path / "b.npz").counts() == {"cat": 2, "dog": 3, "hen": 2}


def test_a_damaged_array_file_is_a_clear_error(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, PIXELS)
    whole = path.read_bytes()
    shape = f"({N}, ".encode()
    huge = whole.replace(shape, b"(9000000000000000, ")
    headers = [whole.replace(b"}", b" "), whole.replace(b"'descr': '|", b"'descr': ',")]
    for damaged in (whole[:-1], whole[:70], huge, whole[:9], *headers):
        path.write_bytes(damaged)
        with pytest.raises(FileError, match=r"source: .*x\.npy cannot be read: ") as caught:
            read_image_set(path, LABELS)
        assert (damaged in headers) == ("its header is damaged" in str(caught.value))
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("images.npy", damaged)
            archive.writestr("labels.npy", whole)
        with pytest.raises(FileError, match=r"source: .*a\.npz cannot be read: "):
            read_image_set(tmp_path / "a.npz")


def test_an_archive_that_claims_too_much_is_refused_before_it_is_decompressed(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", images=np.zeros((9, 50, 50), dtype=np.uint8), labels=np.arange(9))
    assert len(read_image_set(tmp_path / "a.npz")) == 9
    monkeypatch.setattr(sources, "MOST_BYTES", 22_000)
    monkeypatch.setattr(sources.ImageSet, "of", lambda *a: pytest.fail("the arrays were read"))
    with pytest.raises(FileError, match=r"source: .*a\.npz claims 22,\d+ bytes, more than 0 GiB"):
        read_image_set(tmp_path / "a.npz")


def test_an_error_about_an_array_of_a_file_names_the_file(idx_folder):
    (idx_folder / "train-labels-idx1-ubyte.gz").write_bytes(idx_bytes(LABELS[:4].astype(np.uint8)))
    problem = "source: .*train-labels-idx1-ubyte.gz: expected one label for each of 5 pictures"
    with pytest.raises(FileError, match=problem):
        read_image_set(idx_folder)
    given = {"source": idx_folder / "train-images-idx3-ubyte", "labels": idx_folder / "t.idx"}
    given["labels"].write_bytes(idx_bytes(np.array([0, 1, 9, 0, 1], dtype=np.uint8)))
    with pytest.raises(
        FileError, match=r"labels: .*t\.idx: expected classes from 0 to 1, got 9 for picture 2"
    ):
        read_image_set(**given, classes=["a", "b"])
    np.savez(idx_folder / "a.npz", images=np.zeros((4, 5, 3, 7)), labels=np.zeros(4, dtype=int))
    with pytest.raises(FileError, match=r"source: .*a\.npz: expected \(n,h,w\)"):
        read_image_set(idx_folder / "a.npz")


def test_a_single_picture_is_no_set_of_pictures(class_folder):
    with pytest.raises(FileError, match=r"source: .*0\.png is one picture: name a folder that has a folder"):
        read_image_set(class_folder / "cat" / "0.png")


def test_a_missing_file_of_labels_says_how_it_may_be_called(idx_folder):
    (idx_folder / "train-labels-idx1-ubyte.gz").unlink()
    problem = (
        "labels: .*: there is no file of its labels: name that file, or put train-labels-idx1-ubyte beside"
    )
    with pytest.raises(FileError, match=problem):
        read_image_set(idx_folder / "train-images-idx3-ubyte")


def test_pickled_arrays_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", images=PIXELS, labels=np.array([None] * N, dtype=object))
    for source in ([tmp_path / "x.npy", LABELS], [tmp_path / "a.npz"]):
        with pytest.raises(FileError, match="allow_pickle=False"):
            read_image_set(*source)


def test_a_folder_by_class_and_a_table_give_the_same_set(class_folder):
    by_folder = read_image_set(class_folder)
    rows = ["path,label"]
    rows += [f"cat/{i}.png,cat" for i in (0, 3)] + [f"dog/{i}.png,dog" for i in (1, 4, 6)]
    rows += [f"hen/{i}.png,hen" for i in (2, 5)]
    (class_folder / "table.csv").write_text("\n".join(rows))
    by_table = read_image_set(class_folder / "table.csv")
    for found in (by_folder, by_table):
        assert found.classes == ("cat", "dog", "hen")
        np.testing.assert_array_equal(found.labels, [0, 0, 1, 1, 1, 2, 2])
        np.testing.assert_array_equal(found.images[..., 0], PIXELS[[0, 3, 1, 4, 6, 2, 5]])
    assert read_image_set(class_folder, channels=3).channels == 3
    assert read_image_set(class_folder, size=(6, 10)).size == (6, 10)
    known = ["hen", "cow", "dog", "cat"]
    assert read_image_set(class_folder, classes=known).counts() == {"hen": 2, "cow": 0, "dog": 3, "cat": 2}
    assert [path.name for path in image_files(class_folder)] == [f"{i}.png" for i in (0, 3, 1, 4, 6, 2, 5)]


def test_folders_of_splits_are_found(class_folder, tmp_path):
    class_folder.rename(tmp_path / "train")
    assert len(read_image_set(tmp_path)) == N
    with pytest.raises(FileError, match="has no folder test"):
        read_image_set(tmp_path, split="test")


def test_an_array_of_too_few_names_of_classes_is_named(tmp_path):
    np.savez(tmp_path / "a.npz", x=PIXELS, y=LABELS, classes=np.array(["cat", "dog"]))
    with pytest.raises(
        FileError, match=r"source: .*a\.npz: its array classes has 2 names, but y has the number 2$"
    ):
        read_image_set(tmp_path / "a.npz")
    assert read_image_set(tmp_path / "a.npz", classes=["cat", "dog", "hen"]).counts()["hen"] == 2


def test_a_class_may_have_the_name_of_a_split(class_folder, tmp_path):
    (class_folder / "cat").rename(class_folder / "train")
    assert read_image_set(class_folder).counts() == {"dog": 3, "hen": 2, "train": 2}
    (class_folder / "hen").rename(class_folder / "valid")
    (class_folder / "dog").rename(class_folder / "test")
    with pytest.raises(FileError, match="is in no class folder: expected .*train/CLASS/picture.png"):
        read_image_set(class_folder)


def test_mixed_sizes_are_resized_with_a_warning_or_refused(class_folder):
    Image.fromarray(np.full((8, 8), 200, dtype=np.uint8)).save(class_folder / "dog" / "large.png")
    with pytest.warns(
        UserWarning,
        match=r"2 sizes: 7 of 8 have 5×3 pixels \(width × height\), .*large\.png has 8×8: all are resized",
    ):
        found = read_image_set(class_folder)
    assert found.size == (H, W)
    assert (found.images[found.labels == 1][-1] == 200).all()
    with pytest.raises(FileError, match="resize them, or give size="):
        read_image_set(class_folder, mixed="refuse")
    with pytest.warns(
        UserWarning,
        match=r"0\.png has 5×3 pixels \(width × height\): it is stretched to 4×4, and so are 6 others$",
    ):
        assert read_image_set(class_folder, size=(4, 4), mixed="refuse").size == (4, 4)


def test_stretched_pictures_are_warned_of(tmp_path):
    np.savez(tmp_path / "a.npz", images=PIXELS, labels=LABELS)
    for source in ([tmp_path / "a.npz"], [PIXELS, LABELS]):
        with pytest.warns(
            UserWarning, match=r"each picture has 5×3 pixels \(width × height\): it is stretched to 5×5$"
        ):
            read_image_set(*source, size=(5, 5))
        assert read_image_set(*source, size=(9, 15)).size == (9, 15)  # no warning


def test_broken_folders_and_tables_are_a_clear_error(class_folder):
    (class_folder / "ant").mkdir()
    with pytest.raises(FileError, match="the class 'ant' is empty: .*has no pictures"):
        read_image_set(class_folder)
    (class_folder / "ant").rmdir()
    with pytest.raises(FileError, match="'hen' is not one of the classes cat, dog"):
        read_image_set(class_folder, classes=["cat", "dog"])
    with pytest.raises(FileError, match="is in no class folder"):
        read_image_set(class_folder / "cat")
    (class_folder / "dog" / "bad.png").write_bytes(b"no picture")
    with pytest.raises(FileError, match=r"source: .*bad\.png is no picture"):
        read_image_set(class_folder)
    table = class_folder / "table.tsv"
    table.write_text("cat/0.png\tcat\ncat/none.png\tdog\n")
    with pytest.raises(FileError, match=r"no file .*none\.png"):
        read_image_set(table)
    with pytest.raises(FileError, match=r"line 2: the label 'dog' is not one of cat, cow"):
        read_image_set(table, classes=["cat", "cow"])
    with pytest.raises(FileError, match="no file or folder"):
        read_image_set(class_folder / "none")


def test_pictures_that_cannot_be_read_are_left_out_and_counted(class_folder):
    whole = (class_folder / "dog" / "1.png").read_bytes()
    (class_folder / "dog" / "bad.png").write_bytes(b"no picture")
    (class_folder / "dog" / "cut.png").write_bytes(whole[: len(whole) // 2])
    skipped = Skipped()
    found = read_image_set(class_folder, skip_bad_rows=True, skipped=skipped)
    assert (len(found), skipped.bad) == (N, 2)
    np.testing.assert_array_equal(found.images[..., 0], PIXELS[[0, 3, 1, 4, 6, 2, 5]])
    (class_folder / "table.tsv").write_text(
        "cat/0.png\tcat\nnone.png\tcat\ndog/1.png\tdog\ndog/bad.png\tdog\n"
    )
    skipped = Skipped()
    found = read_image_set(class_folder / "table.tsv", skip_bad_rows=True, skipped=skipped)
    assert (len(found), skipped.bad) == (2, 2)


def test_the_files_of_mnist_are_read():
    folder = data_folder("mnist")
    test = read_image_set(folder, split="test")
    assert test.images.shape == (10_000, 28, 28, 1)
    assert test.labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert test.counts()["1"] == 1135


@pytest.mark.parametrize(
    ("images", "labels", "problem", "kind"),
    [
        (
            PIXELS,
            [0] * 6,
            r"expected one label for each of 7 pictures, \(n,\) = \(7,\), got \(6,\)",
            ShapeError,
        ),
        (PIXELS, [0, 1, 2, 3, 0, 0, -1], r"from 0 to 2, got 3 for picture 3: 2 labels", ArgumentError),
        (PIXELS, [0.0] * 7, "as integers, got float64", DtypeError),
        (PIXELS.reshape(7, 15), [0] * 7, r"got \(7, 15\)", ShapeError),
        (np.zeros((7, 3, 8, 8)), [0] * 7, r"put the channels last with transpose\(0, 2, 3, 1\)", ShapeError),
        (PIXELS.astype(float) - 300, [0] * 7, "expected pixels from 0 to 1 or to 255", ArgumentError),
    ],
)
def test_wrong_arrays_are_a_clear_error(images, labels, problem, kind):
    with pytest.raises(kind, match=problem):
        read_image_set(images, np.array(labels), classes=["a", "b", "c"])


def test_labels_of_unnamed_classes_have_a_limit():
    with pytest.raises(ArgumentError, match="labels: expected classes from 0 to 9999, got 70000"):
        ImageSet.of(PIXELS, np.array([70_000] * N))


def test_holding_out_depends_on_the_pixels_and_the_seed_alone():
    images = RNG.integers(0, 256, (100, 4, 4), dtype=np.uint8)
    images[50] = images[0]  # equal pictures
    labels = np.arange(100) % 2
    whole = ImageSet.of(images, labels)
    train, held = whole.hold_out(0.3, seed=1)
    assert (len(train), len(held)) in {(70, 30), (69, 31)}
    assert list(held.counts().values()) == [len(held) - 15, 15]
    rows = {row.tobytes() for row in held.images}
    assert not rows & {row.tobytes() for row in train.images}
    order = RNG.permutation(100)
    again = ImageSet.of(images[order], labels[order]).hold_out(0.3, seed=1)[1]
    assert rows == {row.tobytes() for row in again.images}
    assert rows != {row.tobytes() for row in whole.hold_out(0.3, seed=2)[1].images}
    assert len(whole.hold_out(0.3, most=10)[1]) <= 11


def test_mean_deviation_and_background_are_those_of_the_pixels():
    pixels = RNG.integers(0, 256, (5, H, W, 3), dtype=np.uint8)
    pixels[:, 0] = pixels[:, -1] = (7, 8, 9)
    pixels[:, :, 0] = pixels[:, :, -1] = (7, 8, 9)
    images = ImageSet.of(pixels, [0] * 5)
    mean, deviation = images.mean_and_deviation()
    np.testing.assert_allclose(mean, (pixels / 255).mean(axis=(0, 1, 2)), rtol=1e-12)
    np.testing.assert_allclose(deviation, (pixels / 255).std(axis=(0, 1, 2)), rtol=1e-12)
    assert images.background() == [7, 8, 9]
    assert ImageSet.of(np.zeros((2, 2, 2)), [0, 0]).mean_and_deviation() == ([0.0], [1.0])


def test_resizing_equals_that_of_pillow():
    image = RNG.integers(0, 256, (12, 20, 3), dtype=np.uint8)
    for height, width in ((5, 7), (24, 30), (12, 3)):
        expected = Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR)
        difference = resize_images(image, (height, width)).astype(int) - np.asarray(expected)
        assert np.abs(difference).max() <= 1
    assert resize_images(image, (12, 20)) is image


def test_digits_have_fixed_parts_that_do_not_overlap():
    train, test = read_digits("train"), read_digits("test")
    assert train.size == (8, 8)
    assert train.classes == tuple("0123456789")
    assert (train.images.min(), train.images.max()) == (0, 255)
    assert not {row.tobytes() for row in train.images} & {row.tobytes() for row in test.images}


def test_a_file_of_labels_beside_a_source_with_labels_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", images=PIXELS, labels=LABELS)
    (tmp_path / "table.csv").write_text("picture.png,a\n", encoding="utf-8")
    for source in (tmp_path, tmp_path / "table.csv", tmp_path / "a.npz"):
        with pytest.raises(ArgumentError, match="which has its own"):
            read_image_set(source, "labels.npy")
