"""Tests of composed scenes: their captions, the places of their objects, and which pictures they use."""

import itertools
import json

import numpy as np
import pytest

from regard.errors import ArgumentError, FileError, RegardError, UnknownNameError
from regard.images import read_image
from regard.images.scene_captions import DIGITS, GARMENTS, caption_of, checked_words, mentions
from regard.images.scene_files import write_scenes
from regard.images.scene_objects import SPLITS, ObjectPictures
from regard.images.scenes import Scenes
from support.idx_folders import write_classes

pytest.importorskip("sklearn", reason="scikit-learn has the digits: pip install 'regard[images]'")

AXES = {"x": (0, 2), "y": (1, 3)}  # the first and the last pixel of a box
SIDES = {("x", True): "left", ("x", False): "right", ("y", True): "above", ("y", False): "below"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("objects")
    return write_classes(root / "digits", seed=1), write_classes(root / "garments", seed=2)


@pytest.fixture(scope="module")
def scenes():
    return Scenes(ObjectPictures.read(split="test"), seed=7)


# An independent derivation of a caption from boxes alone


def cuts(boxes):
    """Yield every way to separate boxes by a straight line: the axis, and the indices before and after the line."""
    for axis, (start, end) in AXES.items():
        order = sorted(range(len(boxes)), key=lambda n: boxes[n][start])
        for count in range(1, len(order)):
            low, high = order[:count], order[count:]
            if max(boxes[n][end] for n in low) <= min(boxes[n][start] for n in high):
                yield axis, low, high


def overlap(one, other, axis):
    start, end = AXES[axis]
    return min(one[end], other[end]) - max(one[start], other[start])


def described(boxes, group):
    """Return the objects of a group in the order of a caption, their places, and the axis of their line."""
    ((axis, low, high),) = list(cuts([boxes[n] for n in group]))  # one line separates them, and one only
    low, high = [group[n] for n in low], [group[n] for n in high]
    other = "y" if axis == "x" else "x"
    if len(group) == 2:
        (a,), (b,) = low, high
        smaller = min(boxes[n][AXES[other][1]] - boxes[n][AXES[other][0]] for n in group)
        assert overlap(boxes[a], boxes[b], other) >= smaller / 2
        return [a, b], [SIDES[axis, True]], axis
    (single,), rest = (low, high) if len(low) == 1 else (high, low)
    order, places, inner = described(boxes, rest)
    assert inner == other  # a line across
    ((_, first, second),) = list(cuts([boxes[n] for n in rest]))
    for part in (first, second):  # the single object is beside both sides of that line
        assert max(overlap(boxes[single], boxes[rest[n]], other) for n in part) > 0
    return [*order, single], [*places, SIDES[axis, low == [single]]], axis


@pytest.mark.parametrize("size", [64, 96])
def test_captions_are_true_and_the_only_ones(size):
    scenes = Scenes(ObjectPictures.read(split="valid"), seed=3, size=size)
    counts = set()
    for number in range(300):
        scene = scenes[number]
        boxes = [one.box for one in scene.objects]
        order, places, _ = described(boxes, list(range(len(boxes))))
        assert caption_of([scene.objects[n].word for n in order], places) == scene.caption()
        assert order == list(range(len(boxes)))  # objects are in the order of the caption
        counts.add(len(boxes))
    assert counts == {2, 3, 4}


def test_every_place_and_every_word_occurs(scenes):
    many = [scenes[number] for number in range(300)]
    for step, names in enumerate([("above", "left"), *[("above", "below", "left", "right")] * 2]):
        assert {scene.places[step] for scene in many if len(scene.places) > step} == set(names)
    assert {one.word for scene in many for one in scene.objects} == set(DIGITS)


def test_boxes_hold_exactly_the_pixels_of_their_objects(scenes):
    for number in range(60):
        scene = scenes[number]
        pixels = scenes.pixels(scene)
        assert pixels.shape == (64, 64)
        assert pixels.dtype == np.uint8
        for one in scene.objects:
            left, top, right, bottom = one.box
            assert 0 < left < right < 64
            assert 0 < top < bottom < 64
            inside = pixels[top:bottom, left:right]
            assert inside.max() > 100
            pixels[top:bottom, left:right] = 0
        assert not pixels.any()  # nothing is outside of the boxes


def test_boxes_do_not_touch(scenes):
    for number in range(100):
        boxes = [one.box for one in scenes[number].objects]
        for place, one in enumerate(boxes):
            for other in boxes[:place]:
                assert max(-overlap(one, other, axis) for axis in AXES) >= 2


def test_a_scene_depends_on_its_seed_and_number_alone(scenes):
    again = Scenes(ObjectPictures.read(split="test"), seed=7)
    assert again[41] == scenes[41]
    assert (again.pixels(again[41]) == scenes.pixels(scenes[41])).all()
    other = Scenes(ObjectPictures.read(split="test"), seed=8)
    assert [other[n] for n in range(9)] != [scenes[n] for n in range(9)]
    with pytest.raises(IndexError):
        scenes[-1]


def test_no_picture_is_in_two_splits(folders):
    seen = {}
    for split in SPLITS:
        pictures = ObjectPictures.read(*folders, split=split, words=(*DIGITS, *GARMENTS))
        assert pictures.words == [*DIGITS, *GARMENTS]
        for word in pictures.words:
            for number in range(pictures.count(word)):
                content = pictures.picture(word, number).tobytes()
                assert seen.setdefault(content, split) == split
    assert [list(seen.values()).count(split) for split in SPLITS] == [360, 40, 100]


def test_pictures_belong_to_the_classes_of_their_files(folders, tmp_path):
    digits, _ = folders
    pictures = ObjectPictures.read(digits, split="test", words=("three", "eight", "bag"))
    assert pictures.words == ["three", "eight"]  # without garments, there is no bag
    from regard.images import read_image_set

    test = read_image_set(digits, split="test")
    expected = test.images[test.labels == 8][0][2:10, 3:9, 0]
    assert (pictures.picture("eight", 0) == expected).all()


def test_resizing_keeps_the_mean_of_a_picture(folders):
    pictures = ObjectPictures.read(folders[0], split="test")
    for shape in ((4, 3), (16, 12), (8, 6)):
        resized = pictures.resized("two", 0, shape)
        assert resized.shape == shape
        assert abs(resized.mean() - pictures.picture("two", 0).mean()) < 12
    assert (pictures.resized("two", 0, (8, 6)) == pictures.picture("two", 0)).all()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_mentions_find_the_objects_of_every_caption(language):
    scenes = Scenes(ObjectPictures.read(split="test"), seed=2)
    for number in range(60):
        scene = scenes[number]
        found = mentions(scene.caption(language), language)
        assert [one.word for one in found] == [one.word for one in scene.objects]
    words = (*DIGITS, *GARMENTS)
    for a, b in itertools.pairwise(words):
        for places in (["above"], ["left"]):
            caption = caption_of([a, b], places, language)
            assert [one.word for one in mentions(caption, language)] == [a, b]


def test_articles_and_languages():
    assert caption_of(["eight", "trousers"], ["left"]) == "an eight to the left of trousers"
    four = caption_of(["one", "bag", "two", "boot"], ["above", "left", "below"])
    assert four == "a one above a bag, a two to their left, a boot below all of them"
    with pytest.raises(UnknownNameError, match="language: unknown name 'fr'"):
        caption_of(["one", "two"], ["left"], "fr")


def test_scenes_are_written_as_files(scenes, tmp_path):
    write_scenes(scenes, tmp_path / "scenes", 3, first=4)
    rows = (tmp_path / "scenes" / "captions.tsv").read_text(encoding="utf-8").splitlines()
    assert rows[1] == f"scene-00005.png\t{scenes[5].caption()}"
    objects = [json.loads(line) for line in (tmp_path / "scenes" / "objects.jsonl").read_text().splitlines()]
    assert [tuple(one["box"]) for one in objects[1]["objects"]] == [one.box for one in scenes[5].objects]
    picture = read_image(tmp_path / "scenes" / "scene-00005.png")
    assert (picture[..., 0] == scenes.pixels(scenes[5])).all()
    with pytest.raises(FileError, match="scenes is not empty: name a new folder"):
        write_scenes(scenes, tmp_path / "scenes", 3)


def test_bad_arguments_are_named(folders, tmp_path, scenes):
    with pytest.raises(UnknownNameError, match="words: unknown name 'sevn': did you mean 'seven'"):
        checked_words("sevn,two")
    with pytest.raises(ArgumentError, match="words: expected two different words or more, got 'two,two'"):
        checked_words("two,two")
    with pytest.raises(ArgumentError, match="words: only none of them have pictures"):
        ObjectPictures.read(folders[0], words=("bag", "boot"))
    with pytest.raises(UnknownNameError, match="split: unknown name 'tests'"):
        ObjectPictures.read(split="tests")
    with pytest.raises(ArgumentError, match="size: expected a canvas of 32 pixels or more, got 16"):
        Scenes(scenes.pictures, size=16)
    with pytest.raises(RegardError, match="digits: .*nowhere"):
        ObjectPictures.read(tmp_path / "nowhere")
    many = write_classes(tmp_path / "many", classes=12)
    with pytest.raises(FileError, match="garments: expected grey pictures of 10 classes, got 12 classes"):
        ObjectPictures.read(garments=many)
