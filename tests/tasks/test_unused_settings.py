"""Settings of data that would have no effect are refused, in every task that has them."""

import pytest

from regard import tasks
from regard.errors import ArgumentError
from regard.tasks.registry import find_task

TEXTS = ("translate", "classify", "summarize", "caption")


@pytest.mark.parametrize("task", TEXTS)
@pytest.mark.parametrize(("name", "value"), [("columns", "1,0"), ("format", "csv")])
def test_settings_for_reading_files_need_a_file(task, name, value):
    settings = find_task(task).settings
    with pytest.raises(ArgumentError, match=f"{name}: of no use without data=: leave it out"):
        settings(**settings.complete({name: value}))
    settings(**settings.complete({name: value, "data": "rows.csv"}))


@pytest.mark.parametrize("task", [*TEXTS, "answer"])
@pytest.mark.parametrize("name", ["split", "valid_split", "dataset_config"])
def test_parts_of_data_sets_need_a_data_set(task, name):
    settings = find_task(task).settings
    for data in ({}, {"data": "rows.tsv"}):
        with pytest.raises(ArgumentError, match=f"{name}: of no use without a Hugging Face data set"):
            settings(**settings.complete({name: "part", **data}))
    images = {"images": "pictures"} if task == "caption" else {}
    settings(**settings.complete({name: "part", "data": "hf:name", **images}))


@pytest.mark.parametrize(
    ("task", "name", "value"), [("caption", "language", "zh"), ("classify", "language", "fr")]
)
def test_the_language_of_generated_rows_needs_them(task, name, value):
    settings = find_task(task).settings
    settings(**settings.complete({name: value}))
    with pytest.raises(ArgumentError, match=f"{name}: of no use with"):
        settings(**settings.complete({name: value, "data": "rows.tsv"}))


@pytest.mark.parametrize("task", TEXTS)
def test_the_seed_of_generated_rows_needs_them(task):
    settings = find_task(task).settings
    settings(**settings.complete({"embedded_seed": 3}))
    with pytest.raises(ArgumentError, match="embedded_seed: of no use without embedded data"):
        settings(**settings.complete({"embedded_seed": 3, "data": "rows.tsv"}))


def test_the_seed_also_chooses_the_changes_of_translation_pairs():
    settings = find_task("translate").settings
    for name, value in (("noise", 0.1), ("joined", 0.1), ("particulars", 9)):
        given = {"embedded_seed": 3, "data": "rows.tsv", name: value}
        assert settings(**settings.complete(given)).embedded_seed == 3


def test_a_classifier_of_generated_rows_is_validated_on_a_file(tmp_path):
    valid = tmp_path / "valid.tsv"
    valid.write_text("The cat sleeps\tstatement\nGo home\tcommand\n")
    tasks.train("classify", {"valid": str(valid), "steps": 1, "embedded": 200}, tmp_path / "run")
    assert (tmp_path / "run" / "best" / "model.safetensors").is_file()


@pytest.mark.parametrize("task", [*TEXTS, "answer", "encode", "write", "images", "glimpse"])
def test_nothing_is_held_out_of_data_with_validation_data(task):
    settings, files = find_task(task).settings, {"data": "rows.tsv", "valid": "other.tsv"}
    names = ["hold_out", "hold_out_most"] if task in ("images", "glimpse") else ["hold_out"]
    for name, value in zip(names, (0.2, 50), strict=False):
        with pytest.raises(ArgumentError, match=f"{name}: of no use with valid=: leave one of them out"):
            settings(**settings.complete({**files, name: value}))
        settings(**settings.complete({"data": "rows.tsv", name: value}))
    settings(**settings.complete(files))


@pytest.mark.parametrize("task", ["images", "glimpse"])
def test_mixed_sizes_are_not_refused_if_all_pictures_are_resized(task):
    settings, given = find_task(task).settings, {"data": "pictures", "mixed_sizes": "refuse"}
    settings(**settings.complete(given))
    with pytest.raises(ArgumentError, match="mixed_sizes: of no use with image_height="):
        settings(**settings.complete({**given, "image_height": 8, "image_width": 8}))


@pytest.mark.parametrize("task", ["images", "glimpse"])
@pytest.mark.parametrize("part", ["settings", "evaluation"])
def test_settings_for_reading_pictures_need_such_files(task, part, tmp_path):
    (tmp_path / "mnist").mkdir()
    (tmp_path / "classes").mkdir()
    for name in ("mnist/train-images-idx3-ubyte", "x.npz", "x.npy", "table.csv"):
        (tmp_path / name).touch()
    settings = getattr(find_task(task), part)
    for name, value, fitting in (
        ("columns", "7,8", ["table.csv"]),
        ("skip_bad_rows", True, ["table.csv", "classes"]),
    ):
        for source in ("mnist", "classes", "x.npz", "x.npy", "table.csv", "missing"):
            given = {"data": str(tmp_path / source), name: value}
            if source in (*fitting, "missing"):
                settings(**given)
                continue
            with pytest.raises(ArgumentError, match=f"{name}: of no use for .*{source}, which is not "):
                settings(**given)


@pytest.mark.parametrize(
    ("name", "value"), [("place_std", 0.5), ("learned_std", True), ("reward", "correct")]
)
def test_settings_of_places_need_a_second_glimpse(name, value):
    settings = find_task("glimpse").settings
    settings(glimpses=2, **{name: value})
    with pytest.raises(
        ArgumentError, match=f"{name}: of no use with glimpses=1, after which no place is chosen"
    ):
        settings(glimpses=1, **{name: value})
