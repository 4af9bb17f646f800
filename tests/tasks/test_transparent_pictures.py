"""Transparent pictures are put on the background of the pictures that a model was trained on."""

import json

import numpy as np
import pytest

from regard import tasks
from regard.errors import FileError
from regard.images import read_image
from support.glimpse_models import classifier as glimpse_classifier
from support.image_classifiers import small_image_classifier
from support.pictures import save_picture, small_captioner

BACK = 37
SMALL = {
    "images": {"architecture": "linear", "batch_size": 4},
    "glimpse": {"glimpses": 2, "glimpse_size": 3, "scales": 1, "width": 8, "glimpse_width": 8},
    "caption": {"width": 8, "feed_forward": 8, "encoder_layers": 1, "image_height": 8, "image_width": 8},
}


def without_background(folder, task, name):
    """Make the background of a picture of an installed model transparent."""
    pixels = read_image(tasks.find_model(task, None) / "examples" / name)  # (h,w,1)
    save_picture(
        folder / name, np.concatenate([pixels, np.where(pixels > 0, 255, 0).astype(np.uint8)], axis=2)
    )
    return folder / name


@pytest.mark.parametrize(
    ("task", "name"), [("images", "ankle-boot.png"), ("glimpse", "7.png"), ("caption", "scene-1.png")]
)
def test_installed_models_read_transparent_pictures_like_their_own(task, name, tmp_path):
    predictor = tasks.find_task(task).load(tasks.find_model(task, None))
    plain, clear = predictor(
        [tasks.find_model(task, None) / "examples" / name, without_background(tmp_path, task, name)]
    )
    assert clear.to_json() == {**plain.to_json(), "source": clear.source}


@pytest.mark.parametrize("task", SMALL)
def test_a_new_model_keeps_the_background_of_its_pictures(task, tmp_path):
    rows = []
    for number in range(12):
        pixels = np.full((8, 8), BACK, dtype=np.uint8)
        pixels[2:6, 2:6] = 20 * number
        save_picture(tmp_path / f"{number}.png", pixels)
        rows.append(f"{number}.png\t{'dark' if number % 2 else 'light'}\n")
    (tmp_path / "data.tsv").write_text("".join(rows), encoding="utf-8")
    settings = {**SMALL[task], "data": str(tmp_path / "data.tsv"), "steps": 1, "warmup": 1}
    tasks.train(task, settings, tmp_path / "run", show=False)
    predictor = tasks.load(tmp_path / "run")
    (found,) = predictor([np.zeros((8, 8, 2), dtype=np.uint8)])
    pixels = {"images": "image", "glimpse": "picture", "caption": "pixels"}[task]
    assert np.unique(getattr(found, pixels)).tolist() == [BACK]


@pytest.mark.parametrize(("mean", "background"), [(0.2, 0), (0.45, 255)])
def test_a_classifier_of_an_earlier_version_has_a_background_like_its_pictures(mean, background):
    model = small_image_classifier()
    model.extra["mean"] = [mean]
    (found,) = model.classify([np.zeros((8, 12, 2), dtype=np.uint8)])
    assert np.unique(found.image).tolist() == [background]
    assert np.unique(model.pictures(found)[0]).tolist() == [background]


def test_a_captioner_of_an_earlier_version_has_the_background_of_scenes_or_white():
    clear = np.zeros((16, 16, 2), dtype=np.uint8)
    for extra, background in (({"words": ["seven"]}, 0), ({"max_caption": 12}, 255)):
        (found,) = small_captioner(extra=extra).caption([clear], beams=1)
        assert np.unique(found.pixels).tolist() == [background]


@pytest.mark.parametrize("background", [[0, 0], [256], [0.5], "black", None])
@pytest.mark.parametrize("make", [small_image_classifier, small_captioner, glimpse_classifier])
def test_a_background_that_does_not_fit_the_channels_is_refused(make, background, tmp_path):
    model = make()
    model.save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**values, "background": background}), encoding="utf-8")
    with pytest.raises(FileError, match="background: expected a byte for each channel, 1, got"):
        type(model).load(tmp_path / "model")
