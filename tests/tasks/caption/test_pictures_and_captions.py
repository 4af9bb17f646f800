"""Tests of the data of captioners: files of pictures, scenes, and bad input."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard import tasks
from regard.errors import ArgumentError, FileError, RegardError
from regard.tasks.caption.data import CaptionRows, PictureReader, SceneSource, prepare
from regard.tasks.caption.settings import CaptionEvaluationSettings, CaptionSettings
from regard.tasks.caption.task import caption_loss
from support.idx_folders import write_classes
from support.pictures import save_picture, small_captioner

SMALL = {"image_height": 16, "image_width": 16, "batch_tokens": 200, "max_caption": 40}


def write_pictures(folder, count=12, caption="a dog {}"):
    """Write pictures and the table of their captions, and return the table."""
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(count):
        save_picture(folder / f"{n}.png", np.full((20, 20, 3), 10 * n, dtype=np.uint8))
    rows = [f"{n}.png\t{caption.format(n)}\n" for n in range(count)]
    (folder / "captions.tsv").write_text("".join(rows), encoding="utf-8")
    return folder / "captions.tsv"


def prepared(folder, **settings):
    complete = CaptionSettings(**CaptionSettings.complete({**SMALL, **settings}))
    return prepare(complete, folder, learn=True)


def test_a_batch_has_the_pixels_and_the_captions_of_its_rows(tmp_path):
    data = prepared(tmp_path / "run", data=str(write_pictures(tmp_path)), channels=3)
    batch = data.train.batch([0, 3])
    assert batch.pixels.shape == (2, 3, 16, 16)
    for row in range(2):
        caption = data.vocabulary.decode(batch.target_output[row].tolist())
        assert int(batch.pixels[row].float().mean()) == 10 * int(caption.split()[-1])
    assert batch.target_input[0].tolist()[1:] == batch.target_output[0].tolist()[:-1]
    assert batch.tokens == 2 * 4


@pytest.mark.parametrize("names", [("image", "caption"), ("Bild", "Titel")])
def test_names_of_columns_are_reported_with_the_option_that_reads_them(names, tmp_path):
    table = write_pictures(tmp_path)
    first, second = names
    table.write_text(f"{first}\t{second}\n" + table.read_text(encoding="utf-8"), encoding="utf-8")
    with (
        pytest.warns(
            UserWarning, match=rf"read as data: {first}, {second}\. .* \(--columns {first},{second}\)"
        ),
        pytest.raises(FileError, match=f"line 1: no file .*{first}"),
    ):
        prepared(tmp_path / "run", data=str(table))
    data = prepared(tmp_path / "run", data=str(table), columns=f"{first},{second}")
    assert len(data.train) + len(data.valid) == 12


def test_a_folder_in_place_of_a_table_names_the_table_in_it(tmp_path):
    write_pictures(tmp_path / "photos")
    for settings in (
        {"data": str(tmp_path / "photos")},
        {"data": str(tmp_path / "photos"), "images": str(tmp_path)},
    ):
        with pytest.raises(
            ArgumentError,
            match=r"data: .*photos is a folder, not a file: name the table in it, such as .*photos/captions\.tsv",
        ):
            tasks.train("caption", {**SMALL, **settings, "steps": 1}, tmp_path / "run", show=False)


def test_no_held_out_picture_is_trained_on(tmp_path):
    data = prepared(tmp_path / "run", data=str(write_pictures(tmp_path)), hold_out=0.3)
    held = {int(caption.split()[-1]) for _, caption in data.valid}
    trained = {
        int(x) // 10 for x in data.train.batch(range(len(data.train))).pixels.float().mean(dim=(1, 2, 3))
    }
    assert len(held) == 3
    assert not held & trained
    assert held | trained == set(range(12))


def test_scenes_are_generated_when_a_batch_needs_them(tmp_path):
    data = prepared(tmp_path / "run", image_height=64, image_width=64, embedded=70, validate_pictures=5)
    source = SceneSource()
    scenes = source.scenes("train")
    batch = data.train.batch([0, 69])
    for row, number in enumerate((0, 69)):
        assert (batch.pixels[row, 0].numpy() == scenes.pixels(scenes[number])).all()
        assert data.vocabulary.decode(batch.target_output[row].tolist()) == scenes[number].caption()
    assert data.valid[0] == ("scene valid 0", source.scenes("valid")[0].caption())
    size = sum(path.stat().st_size for path in (tmp_path / "run" / "cache").iterdir())
    assert size < 20_000  # captions and numbers, not pixels


def test_scenes_of_large_numbers_and_every_split_are_found_again():
    source = SceneSource()
    reader = PictureReader(64, 64, 1, source)
    for split, number in (("valid", 3), ("train", 70_001)):
        (ids,) = reader.encode_batch([f"scene {split} {number}"])
        expected = source.scenes(split).pixels(source.scenes(split)[number])
        assert (reader.decoded(np.array(ids))[..., 0] == expected).all()


def test_scenes_and_pictures_are_mixed(tmp_path):
    table = write_pictures(tmp_path)
    data = prepared(tmp_path / "run", data=str(table), embedded=6, image_height=32, image_width=32)
    assert len(data.train) == 11 + 6
    assert data.train.batch(range(17)).pixels.shape == (17, 1, 32, 32)


def test_the_folder_of_the_pictures_may_be_another(tmp_path):
    table = write_pictures(tmp_path / "pictures")
    table.rename(tmp_path / "captions.tsv")
    settings = {"data": str(tmp_path / "captions.tsv"), "images": str(tmp_path / "pictures")}
    assert len(prepared(tmp_path / "run", **settings).train) == 11


def test_changed_pictures_are_encoded_again(tmp_path):
    table = write_pictures(tmp_path)
    first = prepared(tmp_path / "run", data=str(table))
    assert prepared(tmp_path / "run", data=str(table)).train.manifest == first.train.manifest
    save_picture(tmp_path / "5.png", np.full((20, 20), 255, dtype=np.uint8))
    again = prepared(tmp_path / "run", data=str(table))
    assert again.train.manifest["fingerprint"] != first.train.manifest["fingerprint"]


def test_a_run_does_not_go_on_with_other_pictures(tmp_path):
    settings = {**SMALL, "width": 8, "feed_forward": 8, "steps": 1, "data": str(write_pictures(tmp_path))}
    tasks.train("caption", settings, tmp_path / "run", show=False)
    save_picture(tmp_path / "5.png", np.full((20, 20), 255, dtype=np.uint8))
    with pytest.raises(RegardError, match="data"):
        tasks.resume(tmp_path / "run", {"steps": 2}, show=False)


BAD_FILES = {
    "no file": (None, "line 3: no file .*2.png"),
    "a text": (b"hello", "line 3: .*2.png is no picture"),
    "empty": (b"", "line 3: .*2.png is empty"),
    "truncated": ("cut", "line 3: .*2.png is truncated or damaged"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_bad_pictures_name_their_line_or_are_left_out(kind, tmp_path):
    table, (content, message) = write_pictures(tmp_path), BAD_FILES[kind]
    path = tmp_path / "2.png"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-30] if content == "cut" else content)
    with pytest.raises(FileError, match=f"data: .*{message}"):
        prepared(tmp_path / "run", data=str(table))
    data = prepared(tmp_path / "skipped", data=str(table), skip_bad_rows=True)
    assert (len(data.train) + len(data.valid), data.train.skipped.bad) == (11, 1)


def test_an_animation_is_warned_of_once_in_a_run(tmp_path):
    table = write_pictures(tmp_path)
    for name, first in (("moving.gif", 0), ("valid.gif", 99)):
        frames = [Image.fromarray(np.full((8, 8), first + n, dtype=np.uint8)) for n in range(3)]
        frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:])
    table.write_text(table.read_text() + "moving.gif\ta dog\n")
    (tmp_path / "valid.tsv").write_text("valid.gif\ta cat\n")
    settings = {**SMALL, "width": 8, "feed_forward": 8, "steps": 3, "validate_every": 1}
    files = {"data": str(table), "valid": str(tmp_path / "valid.tsv")}
    with pytest.warns(UserWarning, match="has 3 frames") as told:
        tasks.train("caption", {**settings, **files}, tmp_path / "run", show=False)
    names = [Path(str(one.message).split(" has 3 frames")[0]).name for one in told]
    assert sorted(names) == ["moving.gif", "valid.gif"]


def test_stretched_pictures_are_warned_of_when_they_are_encoded(tmp_path):
    settings = {"data": str(write_pictures(tmp_path)), "image_height": 16, "image_width": 32, "hold_out": 0.2}
    with pytest.warns(
        UserWarning, match=r"\d\.png has 20×20 pixels: it is stretched to 32×16, and so are 9 others$"
    ):
        prepared(tmp_path / "run", **settings)
    prepared(tmp_path / "run", **settings)  # no warning, since the pictures of the cache are used


def test_empty_captions_are_left_out_and_counted(tmp_path):
    table = write_pictures(tmp_path)
    table.write_text(table.read_text().replace("a dog 2\n", " \n"))
    data = prepared(tmp_path / "run", data=str(table))
    assert (len(data.train) + len(data.valid), data.train.skipped.empty) == (11, 1)


def test_each_picture_is_checked_once(tmp_path, monkeypatch):
    from regard.tasks.caption import data

    read, check = [], data.picture_problem
    monkeypatch.setattr(data, "picture_problem", lambda path: read.append(path) or check(path))
    settings = CaptionSettings(data=str(write_pictures(tmp_path)), **SMALL)
    rows = CaptionRows(settings, 3)
    rows.validation()
    assert len(list(rows.training())) == 11
    assert len(read) == 12


WRONG = {
    "images: of no use without data=": {"images": "x"},
    "images: not given, and data=- has no folder": {"data": "-"},
    "score: unknown name 'dott'": {"score": "dott"},
    "language: unknown name 'fr'": {"language": "fr"},
    "doubly_stochastic: expected 0 or more": {"doubly_stochastic": -1.0},
    "doubly_stochastic: of no use without attention": {"doubly_stochastic": 1.0, "score": "none"},
    "input_feeding: of no use without attention": {"input_feeding": True, "score": "none"},
    "embedded: nothing to train on": {"embedded": 0},
    "words: of no use without scenes": {"words": "two,one", "data": "x.tsv"},
    "image_width: scenes are square, got a height of 64 and a width of 32": {"image_width": 32},
    "batch_tokens: 30 tokens hold no caption of max_caption=60": {"batch_tokens": 30},
    "max_caption: expected 1 or more": {"max_caption": 0},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_settings_are_named(message):
    with pytest.raises(ArgumentError, match=message):
        CaptionSettings(**WRONG[message])


def test_wrong_evaluation_settings_are_named():
    with pytest.raises(ArgumentError, match="digits: of no use with data="):
        CaptionEvaluationSettings(data="x.tsv", digits="mnist")
    with pytest.raises(ArgumentError, match="beams: expected 1 or more, got 0"):
        CaptionEvaluationSettings(beams=0)


def test_the_words_of_a_run_that_have_no_pictures_are_an_error(tmp_path):
    digits = write_classes(tmp_path / "digits")
    settings = {"digits": str(digits), "words": "bag,boot", "steps": 1}
    with pytest.raises(ArgumentError, match="words: only none of them have pictures"):
        tasks.train("caption", settings, tmp_path / "run", show=False)
    assert not (tmp_path / "run").exists()


# The loss


def loss_of(captioner, batch, **options):
    return float(caption_loss(captioner.model, batch, **options).detach())


def test_the_loss_is_the_cross_entropy_of_the_tokens(tmp_path):
    data = prepared(tmp_path / "run", data=str(write_pictures(tmp_path)))
    captioner, batch = small_captioner([f"a dog {n}" for n in range(12)]), data.train.batch([0, 1, 4])
    logits = captioner.model(batch.pixels.float() / 255, batch.target_input)
    expected = -logits.log_softmax(dim=-1).gather(2, batch.target_output[..., None]).sum()
    assert loss_of(captioner, batch) == pytest.approx(float(expected.detach()), rel=1e-5)


def test_the_doubly_stochastic_penalty_is_that_of_the_paper(tmp_path):
    captions = ["a dog 1", "a dog", "dog"]
    folder = tmp_path / "p"
    table = write_pictures(folder, 3)
    table.write_text("".join(f"{n}.png\t{caption}\n" for n, caption in enumerate(captions)))
    data = prepared(tmp_path / "run", data=str(table), valid=str(write_pictures(tmp_path / "v", 2)))
    captioner, batch = small_captioner(captions), data.train.batch([0, 1, 2])
    records = []
    captioner.model.hidden(batch.pixels.float() / 255, batch.target_input, records=records)
    weights = records[0].map.weights()[:, 0]  # (b,t,k)
    penalty = 0.0
    for row, length in zip(weights, batch.target_lengths.tolist(), strict=True):
        penalty += float(((1 - row[:length].sum(dim=0)) ** 2).sum())
    added = loss_of(captioner, batch, doubly_stochastic=0.5) - loss_of(captioner, batch)
    assert added == pytest.approx(0.5 * penalty, rel=1e-3)
    assert set(batch.target_lengths.tolist()) == {2, 3, 4}  # padding does not count
    captioner.model.train()
    caption_loss(captioner.model, batch, doubly_stochastic=100.0).backward()
    assert torch.isfinite(captioner.model.attention.v.grad).all()
