"""Tests of the classifier of pictures, of where it looks, and of its files."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from regard import tasks
from regard.errors import ArgumentError, DtypeError, FileError
from regard.images import read_digits, resize_images
from regard.tasks.images import ImageClassifier
from regard.tasks.images.looking import grid_maps
from support.image_classifiers import small_image_classifier

RNG = np.random.default_rng(0)
PICTURE = RNG.integers(0, 256, (8, 12), dtype=np.uint8)


def test_the_probabilities_are_those_of_the_model(tmp_path):
    classifier = small_image_classifier()
    Image.fromarray(PICTURE).save(tmp_path / "a.png")
    pixels = (torch.from_numpy(PICTURE)[None, None] / 255 - 0.25) / 0.5
    expected = (classifier.model(pixels)[0] / 0.5).softmax(dim=-1).tolist()
    (from_file,), (from_array,) = classifier([tmp_path / "a.png"]), classifier([PICTURE])
    for found in (from_file, from_array):
        assert [found.probabilities[name] for name in ("cat", "dog", "hen")] == pytest.approx(
            expected, abs=1e-6
        )
        assert found.label == ("cat", "dog", "hen")[int(np.argmax(expected))]
        shares = list(found.probabilities.values())
        assert shares == sorted(shares, reverse=True)
    assert from_file.source == str(tmp_path / "a.png")
    assert from_array.source == "picture 1"


def test_pictures_are_resized_and_converted_to_those_of_the_model():
    classifier = small_image_classifier()
    large = RNG.integers(0, 256, (16, 30, 3), dtype=np.uint8)
    grey = np.rint(large @ np.array([0.299, 0.587, 0.114])).astype(np.uint8)[..., None]
    (found,) = classifier([large])
    np.testing.assert_array_equal(found.image, resize_images(grey, (8, 12)))
    assert found.size == (16, 30)
    assert classifier.pictures(found)[0].shape == (16, 30, 1)
    assert small_image_classifier(channels=3)([PICTURE])[0].image.shape == (8, 12, 3)


def test_the_batch_size_does_not_change_the_result():
    classifier = small_image_classifier()
    pictures = list(RNG.integers(0, 256, (5, 8, 12), dtype=np.uint8))
    whole, parts = classifier(pictures), classifier(pictures, batch_size=2)
    for one, other in zip(whole, parts, strict=True):
        assert one.source == other.source
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-6)


def test_wrong_pictures_are_a_clear_error(tmp_path):
    classifier = small_image_classifier()
    for given, problem in (("a.png", "got one str: put it in a list"), (PICTURE, r"got one array \(h,w\)")):
        with pytest.raises(DtypeError, match=problem):
            classifier(given)
    with pytest.raises(FileError, match=r"pictures: no file .*none\.png"):
        classifier([tmp_path / "none.png"])
    with pytest.raises(ArgumentError, match="batch_size"):
        classifier([PICTURE], batch_size=0)


def test_the_class_token_map_is_its_row_in_the_last_layer():
    classifier = small_image_classifier()
    (found,) = classifier([PICTURE])
    (shown,) = classifier.word_weights(found)
    records = classifier.attention(found).records
    last = records[-1].map.weights()[0].mean(dim=0)  # (tokens,tokens)
    assert shown.row_words == ["class token", "rollout"]
    assert shown.grid == (2, 3)
    np.testing.assert_allclose(shown.weights[0], last[0, 1:], atol=1e-6)
    mixed = [0.5 * record.map.weights()[0].mean(dim=0).double() + 0.5 * torch.eye(7) for record in records]
    np.testing.assert_allclose(shown.weights[1], (mixed[1] @ mixed[0])[0, 1:], atol=1e-6)
    assert shown.picture.shape == (8, 12, 1)


def test_the_pooling_map_is_that_of_each_head():
    classifier = small_image_classifier(pooling="multihead", pooling_heads=2)
    (found,) = classifier([PICTURE])
    (shown,) = classifier.word_weights(found)
    pooling = classifier.attention(found).records[-1]
    assert shown.row_words == ["pooling, head 0", "pooling, head 1", "rollout"]
    assert pooling.query_tokens == [[found.label]]
    np.testing.assert_allclose(shown.weights[:2], pooling.map.weights()[0, :, 0], atol=1e-6)
    np.testing.assert_allclose(shown.weights.sum(axis=1), 1, atol=1e-6)


def test_the_maps_of_swin_lie_on_its_finest_patches():
    classifier = small_image_classifier("swin")
    (found,) = classifier([PICTURE])
    (shown,) = classifier.word_weights(found)
    assert shown.row_words == ["stage 1", "stage 2", "rollout"]
    assert shown.grid == (8, 12)
    np.testing.assert_allclose(shown.weights.sum(axis=1), 1, atol=1e-6)
    coarse = classifier.attention(found).records[-1]
    assert coarse.key_grid == (4, 6)
    received = coarse.map.weights()[0].mean(dim=(0, 1)).reshape(4, 6).numpy()  # of the 4 × 6 merged patches
    np.testing.assert_allclose(
        shown.weights[1].reshape(8, 12), np.kron(received, np.ones((2, 2))) / 4, atol=1e-6
    )


def test_the_rollout_of_swin_follows_the_merged_patches():
    """With uniform attention inside windows, the whole mass is spread evenly."""
    classifier = small_image_classifier("swin", image_size=8)
    for name, value in classifier.model.named_parameters():
        if "self_attention" in name or "relative_bias" in name:
            torch.nn.init.zeros_(value)
    (found,) = classifier([PICTURE[:, :8]])
    maps = grid_maps(classifier.attention(found).records)
    np.testing.assert_allclose(maps.weights, 1 / 64, atol=1e-6)


def test_a_model_without_attention_says_so():
    assert not small_image_classifier("cnn").attends
    assert small_image_classifier("swin").attends


@pytest.mark.parametrize("kind", ["vit", "swin", "cnn"])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_classifier_is_saved_and_loaded(kind, dtype, tmp_path):
    classifier = small_image_classifier(kind)
    classifier.save(tmp_path, dtype=dtype)
    again = ImageClassifier.load(tmp_path)
    before, after = classifier([PICTURE])[0], again([PICTURE])[0]
    if dtype == "float32":
        assert after == before
    else:
        assert after.probabilities == pytest.approx(before.probabilities, abs=0.1)
    assert json.loads((tmp_path / "config.json").read_text())["labels"] == ["cat", "dog", "hen"]


def test_a_classifier_is_packed_with_a_card(tmp_path):
    small_image_classifier().save(tmp_path / "model")
    small = tasks.pack(tmp_path / "model", tmp_path / "packed", dtype="int8", license="MIT")
    assert small([PICTURE])[0].label in ("cat", "dog", "hen")
    card = (tmp_path / "packed" / "README.md").read_text(encoding="utf-8")
    assert "# Classifier of pictures: cat, dog, hen" in card
    assert "regard classify-image --model FOLDER" in card


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("labels", ["cat", "dog"], "classes is not 2"),
        ("mean", [0.1, 0.2], "mean: expected 1 numbers, one a channel"),
        ("deviation", None, "deviation: expected 1 numbers"),
        ("deviation", [0.0], "temperature and deviation"),
        ("temperature", -1.0, "temperature and deviation"),
    ],
)
def test_settings_that_do_not_fit_the_model_are_refused(name, value, problem, tmp_path):
    small_image_classifier().save(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with pytest.raises(FileError, match=rf"config\.json: .*{problem}"):
        ImageClassifier.load(tmp_path)


def test_digits_for_tests_are_neither_trained_on_nor_validated_on(tmp_path):
    from regard.tasks.images.data import prepare
    from regard.tasks.images.settings import ImageSettings

    data = prepare(ImageSettings(**ImageSettings.complete({})), tmp_path, learn=True)
    parts = [{row.tobytes() for row in one.images} for one in (data.train, data.valid, read_digits("test"))]
    assert not parts[0] & parts[1]
    assert not (parts[0] | parts[1]) & parts[2]
    assert len(data.train) + len(data.valid) == len(read_digits("train"))


def test_evaluation_counts_the_pictures_that_are_right(tmp_path):
    classifier = small_image_classifier()
    pictures = RNG.integers(0, 256, (20, 8, 12), dtype=np.uint8)
    names = [one.label for one in classifier(list(pictures))]
    labels = np.array([("cat", "dog", "hen").index(name) for name in names])
    labels[:5] = (labels[:5] + 1) % 3  # five of twenty are wrong
    np.savez(tmp_path / "a.npz", images=pictures, labels=labels)
    options = {"data": str(tmp_path / "a.npz"), "out": str(tmp_path / "out.txt")}
    report = tasks.evaluate("images", classifier, options)
    values = report.to_json()
    assert values["accuracy"] == 75.0
    assert sum(map(sum, values["confusion"])) == values["pictures"] == 20
    assert (tmp_path / "out.txt").read_text().split() == names
    limited = tasks.evaluate("images", classifier, {"data": str(tmp_path / "a.npz"), "limit": 7})
    assert limited.to_json()["pictures"] == 7
    with pytest.raises(ArgumentError, match="data: not given, and the embedded digits have other classes"):
        tasks.evaluate("images", classifier)
    np.savez(tmp_path / "b.npz", images=pictures, labels=labels + 1)
    with pytest.raises(FileError, match=r"data: .*b\.npz: expected classes from 0 to 2, got 3"):
        tasks.evaluate("images", classifier, {"data": str(tmp_path / "b.npz")})


def test_evaluation_reads_the_test_part_of_the_data(tmp_path):
    classifier = small_image_classifier()
    pictures = RNG.integers(0, 256, (9, 8, 12), dtype=np.uint8)
    labels = np.array([("cat", "dog", "hen").index(one.label) for one in classifier(list(pictures))])
    wrong = (labels + 1) % 3
    parts = {"x_train": pictures, "y_train": wrong, "x_test": pictures[:4], "y_test": labels[:4]}
    np.savez(tmp_path / "a.npz", **parts)
    values = tasks.evaluate("images", classifier, {"data": str(tmp_path / "a.npz")}).to_json()
    assert (values["pictures"], values["accuracy"]) == (4, 100.0)
    options = {"data": str(tmp_path / "a.npz"), "split": "train"}
    assert tasks.evaluate("images", classifier, options).to_json()["accuracy"] == 0.0
