"""Tests of captioners: captions, attention, files, evaluation and packing."""

import json

import numpy as np
import pytest
import torch

from regard import tasks
from regard.errors import ArgumentError, DtypeError, FileError
from regard.tasks.caption import Captioner, CaptionWeights, evaluation
from regard.tasks.caption.data import SceneSource
from regard.tasks.caption.evaluation import cells_by_box, evaluate_captioners, on_objects
from regard.tasks.caption.settings import CaptionEvaluationSettings
from support.pictures import save_picture, small_captioner

PICTURE = np.arange(256, dtype=np.uint8).reshape(16, 16)
SCENE = {"max_caption": 30, "language": "en", "words": ["two", "seven", "eight"], "objects": []}


def test_a_picture_has_the_same_caption_in_every_form(tmp_path):
    captioner = small_captioner()
    save_picture(tmp_path / "p.png", PICTURE)
    image = pytest.importorskip("PIL.Image").open(tmp_path / "p.png")
    forms = [
        PICTURE,
        PICTURE[..., None],
        torch.from_numpy(PICTURE),
        str(tmp_path / "p.png"),
        tmp_path / "p.png",
    ]
    found = captioner([*forms, (tmp_path / "p.png").read_bytes(), image], beams=2)
    assert len({one.text for one in found}) == 1
    assert [one.source for one in found[3:5]] == [str(tmp_path / "p.png")] * 2
    assert all((one.pixels[..., 0] == PICTURE).all() for one in found)


def test_pictures_are_resized_and_say_so():
    captioner = small_captioner()
    (found,) = captioner([np.zeros((40, 30, 3), dtype=np.uint8)])
    assert (found.size, found.pixels.shape) == ((40, 30), (16, 16, 1))


def test_batches_do_not_change_captions():
    captioner = small_captioner()
    random = np.random.default_rng(0)
    pictures = list(random.integers(0, 256, (5, 16, 16), dtype=np.uint8))
    together = captioner(pictures)
    assert [one.text for one in captioner(pictures, batch_size=2)] == [one.text for one in together]
    assert captioner([]) == []


def test_a_vocabulary_without_capitals_is_compared_without_them():
    (found,) = small_captioner()([PICTURE], beams=1)
    written = type(found)("", "a dog", 0.0, [], found.pixels)
    assert not small_captioner().is_exact(written, "A dog")
    assert small_captioner(lowercase=True).is_exact(written, "A dog")
    assert not small_captioner(lowercase=True).is_exact(written, "A cat")


def test_n_best_and_json():
    captioner = small_captioner()
    (found,) = captioner([PICTURE], n_best=3)
    assert len(found.alternatives) == 2
    assert len(found.lines(scores=True)) == 3
    values = json.loads(json.dumps(found.to_json(captioner.word_weights(found))))
    assert values["caption"] == found.text
    assert values["grid"] == [4, 4]
    assert np.shape(values["attention"]) == (len(values["words"]), 16)


def test_wrong_pictures_are_named(tmp_path):
    captioner = small_captioner()
    with pytest.raises(DtypeError, match="pictures: expected a list of pictures, got one str"):
        captioner("scene.png")
    with pytest.raises(DtypeError, match="pictures: expected a list of pictures, got one array"):
        captioner(PICTURE)
    with pytest.raises(FileError, match="pictures: no file .*nothing.png"):
        captioner([tmp_path / "nothing.png"])
    (tmp_path / "text.png").write_text("hello")
    with pytest.raises(FileError, match=r"pictures: .*text\.png is no picture"):
        captioner([tmp_path / "text.png"])


# Attention


def test_rows_of_attention_are_those_that_write_the_tokens():
    captioner = small_captioner()
    (found,) = captioner([PICTURE], beams=1)
    (record,) = captioner.attention(found)
    assert record.key_grid == (4, 4)
    assert record.query_tokens == [[*found.text.replace(",", " ,").split(), "[end]"]]
    (weights,) = captioner.weights_of([found])
    expected = step_by_step(captioner, found)
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    np.testing.assert_allclose(record.map.weights()[0, 0], expected, atol=1e-6)


@torch.no_grad()
def step_by_step(captioner, found):
    """Return the weights while the caption is written token by token."""
    model, rows = captioner.model, []
    state = model.start(model.encode(torch.from_numpy(found.pixels).permute(2, 0, 1)[None].float() / 255))
    for token in [captioner.target.bos, *found.target_ids]:
        records = []
        model.step(torch.tensor([[token]]), state, records=records)
        rows.append(records[0].map.weights()[0, 0, 0])
    return torch.stack(rows).numpy()


def test_words_of_several_tokens_have_the_mean_of_their_weights():
    captioner = small_captioner(["a t-shirt"])
    (found,) = captioner([PICTURE], beams=1)
    ids = captioner.target.encode("a t-shirt")
    found = type(found)("", "a t-shirt", 0.0, ids, found.pixels)
    (tokens,) = captioner.weights_of([found])
    (words,) = captioner.word_weights(found)
    assert isinstance(words, CaptionWeights)
    assert len(ids) == 4
    assert words.row_words[0] == "a"
    np.testing.assert_allclose(words.weights[0], tokens[0], atol=1e-6)
    joined = words.row_words.index("t-shirt") if "t-shirt" in words.row_words else None
    if joined is not None:
        np.testing.assert_allclose(words.weights[joined], tokens[1:4].mean(axis=0), atol=1e-6)


def test_an_empty_caption_has_the_attention_of_its_end():
    captioner = small_captioner()
    (found,) = captioner([PICTURE])
    empty = type(found)("", "", 0.0, [], found.pixels)
    (words,) = captioner.word_weights(empty)
    assert (words.row_words, words.weights.shape) == (["[end]"], (1, 16))


def test_a_model_without_attention_has_none_to_show():
    captioner = small_captioner(attention=None)
    (found,) = captioner([PICTURE])
    assert not captioner.attends
    with pytest.raises(ArgumentError, match="model: it was trained without attention"):
        captioner.attention(found)


# Evaluation


def test_cells_belong_to_the_box_that_covers_most_of_them():
    boxes = [(1, 1, 6, 5), (7, 1, 11, 12)]
    covers = cells_by_box(boxes, (3, 3), (12, 12)).reshape(3, 3)
    # Of the second column of cells (pixels 4 to 7), the first box covers 2 × 3 pixels, the second 1 × 3.
    assert covers.tolist() == [[0, 0, 1], [0, 1, 1], [-1, 1, 1]]
    assert cells_by_box([(0, 0, 3, 3)], (2, 2), (8, 8)).tolist() == [0, -1, -1, -1]


def test_a_peak_counts_for_the_object_of_its_mention_only():
    covers = np.array([0, 1, -1, 2])
    assert on_objects([0, 1, 3], covers) == [True, True, True]
    assert on_objects([1, 0], covers) == [False, False]
    assert on_objects([2], covers) == [False]
    assert on_objects([0, 1, 3, 3], covers) == [True, True, True, False]  # a mention without an object


class Scripted(Captioner):
    """A captioner that writes given captions, and attends to given cells at each of their tokens."""

    def script(self, captions, cells):
        self.captions, self.cells = captions, cells
        return self

    def caption(self, pictures, options=None, **settings):
        found = super().caption(pictures, options, beams=1)
        changed = []
        for one, text in zip(found, self.captions, strict=True):
            changed.append(type(one)(one.source, text, 0.0, self.target.encode(text), one.pixels))
        return changed

    def weights_of(self, predictions):
        several = []
        for one, cells in zip(predictions, self.cells, strict=True):
            weights = np.full((len(one.target_ids) + 1, 256), 1e-3)
            for token, cell in enumerate(cells):
                weights[token, cell] = 1.0
            several.append(weights)
        return several


def test_evaluation_counts_exact_captions_and_peaks(monkeypatch):
    """Three scenes of 2, 3 and 4 objects: one right, one with a wrong word, and one that looks at the wrong object."""
    source = SceneSource(words=("two", "seven", "eight"))
    scenes = [source.scenes("test")[number] for number in range(3)]
    captions = [scene.caption() for scene in scenes]
    written = [captions[0], captions[1].replace("two", "eight").replace("seven", "two"), captions[2]]
    size = {"image_height": 64, "image_width": 64}
    small = small_captioner([*captions, *written, "an eight"], extra=SCENE, **size)
    scripted = Scripted(small.model, small.target, SCENE)
    cells = [looked_at(scripted, text, scene) for text, scene in zip(written, scenes, strict=True)]
    swapped = scenes[2].objects[1].box
    first = scripted.target.encode(written[2]).index(scripted.target.encode(scenes[2].objects[0].word)[0])
    cells[2][first] = cell_of(swapped)
    scripted.script(written, cells)
    monkeypatch.setattr(evaluation, "SCENES", 3)
    report = evaluate_captioners({"scripted": scripted}, CaptionEvaluationSettings(limit=3))
    values = report.to_json()
    assert written[1] != captions[1]
    assert values["by_objects"] == {"2": 100.0, "3": 0.0, "4": 100.0}
    assert values["exact"] == pytest.approx(100 * 2 / 3)
    assert values["mentions"] == 9
    assert values["on_object"] == pytest.approx(100 * 8 / 9)
    assert 0 < values["at_random"] < 30
    text = str(report)
    assert "66.67 %" in text
    assert "88.89 %" in text


def cell_of(box):
    """Return the cell of 4 × 4 pixels in the middle of a box."""
    left, top, right, bottom = box
    return (top + bottom) // 2 // 4 * 16 + (left + right) // 2 // 4


def looked_at(captioner, text, scene):
    """Return a cell for each token of a caption, that of its object for the word of an object, else cell 0."""
    objects = iter(scene.objects)
    words = [captioner.target.decode([number]) for number in captioner.target.encode(text)]
    return [cell_of(next(objects).box) if word in SCENE["words"] else 0 for word in words]


def test_a_baseline_is_compared_without_peaks():
    size = {"image_height": 64, "image_width": 64}
    models = {
        "attends": small_captioner(extra=SCENE, **size),
        "fixed": small_captioner(extra=SCENE, attention=None, **size),
    }
    report = evaluate_captioners(models, CaptionEvaluationSettings(limit=6))
    values = report.to_json()
    assert "on_object" not in values["compared"]["fixed"]
    assert list(values["compared"]["fixed"]["by_objects"]) == list(values["by_objects"])
    assert "fixed" in str(report)


def test_what_cannot_be_measured_is_an_error():
    plain, size = small_captioner(), {"image_height": 64, "image_width": 64}
    with pytest.raises(ArgumentError, match="data: not given, and the model was not trained on scenes"):
        evaluate_captioners({"plain": plain}, CaptionEvaluationSettings())
    real = small_captioner(extra={**SCENE, "objects": ["digits"]}, **size)
    with pytest.raises(
        ArgumentError, match="digits: not given, but the model was trained on scenes with such"
    ):
        evaluate_captioners({"real": real}, CaptionEvaluationSettings())
    models = {"a": small_captioner(extra=SCENE, **size), "b": real}
    with pytest.raises(ArgumentError, match="compare: b was trained on scenes of other objects than a"):
        evaluate_captioners(models, CaptionEvaluationSettings())


# Training on scenes, and packing


def test_scenes_are_trained_on_measured_and_packed(tmp_path):
    pytest.importorskip("sklearn")
    settings = {"embedded": 12, "width": 16, "feed_forward": 16, "encoder_layers": 1, "steps": 2, "warmup": 1}
    settings |= {"validate_pictures": 3, "batch_tokens": 100, "precision": "float32", "language": "zh"}
    outcome = tasks.train("caption", settings, tmp_path / "run", show=False)
    assert set(outcome.best) >= {"exact", "perplexity", "on_object"}
    small = tasks.pack(tmp_path / "run", tmp_path / "packed", dtype="int8")
    assert (small.extra["language"], small.extra["objects"]) == ("zh", [])
    assert "regard train caption" in (tmp_path / "packed" / "README.md").read_text(encoding="utf-8")
    report = tasks.evaluate("caption", tmp_path / "packed", {"limit": 3}, compare=[tmp_path / "run"])
    assert report.to_json()["pictures"] == 3
