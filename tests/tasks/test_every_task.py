"""Every task through two steps, a kill, resuming, saving, loading, evaluating, its help, and bad data."""

import json
import pickle
import re
import shutil
import signal
from dataclasses import dataclass, fields, replace

import numpy as np
import pytest

from regard import tasks
from regard.errors import ArgumentError, FileError, RegardError
from regard.settings import flag_of_field
from regard.tasks import TASKS, find_task, run
from regard.tasks.registry import evaluation_of, settings_of
from regard.training import Outcome, loop
from support.command_line import assert_one_line, run_here
from support.forked_commands import CommandHost
from support.paths import ROOT
from support.pictures import save_picture
from support.training_runs import digests

EXAMPLES = ROOT / "examples"
SMALL = {"width": 16, "batch_tokens": 200, "steps": 2, "warmup": 1, "save_every": 1}
PICTURE = {"image_height": 16, "image_width": 16, "feed_forward": 16, "encoder_layers": 1}
BLOCK = {"heads": 2, "feed_forward": 16, "vocabulary_size": 300}


@dataclass
class Case:
    """A task with small settings, and a row of its data for a number."""

    task: str
    settings: dict
    row: str
    texts: list
    ending: str = "tsv"  # of the names of its data files
    bad_row: bytes = b"alone\n"
    pictures: bool = False  # whether a row names the file of a picture


CASES = [
    Case(
        "translate",
        {**SMALL, **BLOCK, "encoder_layers": 1, "decoder_layers": 1, "validate_sentences": 4},
        "a dog {n}\tun chien {n}",
        ["a dog 3"],
    ),
    Case(
        "summarize",
        {**SMALL, **BLOCK, "encoder_layers": 1, "decoder_layers": 1, "validate_texts": 4, "max_tokens": 100},
        "a dog {n}\tdog {n}",
        ["a dog 3"],
    ),
    Case("classify", {**SMALL, "vocabulary_size": 300}, "a dog {n}\tanimal {p}", ["a dog 3"]),
    Case(
        "answer",
        {**SMALL, "vocabulary_size": 300, "max_tokens": 100, "stride": 20},
        '{{"id": "{n}", "question": "What is {n}?", "context": "The {n} is a dog.", '
        '"answers": [{{"text": "a dog", "answer_start": {place}}}]}}',
        [("What is 3?", "The 3 is")],
        "jsonl",
    ),
    Case(
        "encode",
        {**SMALL, **BLOCK, "layers": 1, "max_tokens": 32},
        "a dog {n}",
        ["a dog 3"],
        bad_row=b"nul\x00l\n",  # any text is a row
    ),
    Case(
        "write",
        {**SMALL, "heads": 2, "feed_forward": 16, "layers": 1, "context": 16},
        "a dog {n}",
        ["a dog 3"],
        "txt",
        bad_row=b"nul\x00l\n",  # any text is a row
    ),
    Case(
        "caption",
        {**SMALL, **PICTURE, "vocabulary_size": 300, "max_caption": 20, "validate_pictures": 4},
        "{n}.png\ta dog {n}",
        [np.full((16, 16), 90, dtype=np.uint8)],
        pictures=True,
    ),
    Case(
        "images",
        {"width": 16, "heads": 2, "layers": 1, "batch_size": 32, "steps": 2, "warmup": 1, "save_every": 1},
        "{n}.png\tclass {p}",
        [np.full((16, 16), 90, dtype=np.uint8)],
        pictures=True,
    ),
    Case(
        "glimpse",
        {
            "width": 16,
            "glimpses": 2,
            "samples": 2,
            "batch_size": 20,
            "steps": 2,
            "warmup": 1,
            "save_every": 1,
        },
        "{n}.png\tclass {p}",
        [np.full((16, 16), 90, dtype=np.uint8)],
        pictures=True,
    ),
    Case("tagger:Tagger", SMALL, "a dog {n}\tDET NOUN NUM", ["a dog 3"]),
]


@pytest.fixture(params=CASES, ids=lambda case: case.task)
def case(request, tmp_path, monkeypatch):
    monkeypatch.chdir(EXAMPLES)  # where tagger.py is imported from
    write_rows(request.param, tmp_path, range(60))
    return request.param


def write_rows(case, folder, numbers):
    """Write the rows of a task's data for some numbers."""
    rows = [case.row.format(n=n, p=n % 2, place=len(f"The {n} is ")) + "\n" for n in numbers]
    (folder / f"data.{case.ending}").write_text("".join(rows), encoding="utf-8")
    for n in numbers if case.pictures else ():
        save_picture(folder / f"{n}.png", np.full((16, 16), n, dtype=np.uint8))


def train(case, folder, **changes):
    settings = {**case.settings, "data": str(folder.parent / f"data.{case.ending}"), **changes}
    return tasks.train(case.task, settings, folder, show=False)


def test_every_registered_task_is_tested():
    assert set(TASKS) <= {case.task for case in CASES}


def test_a_task_is_trained_saved_loaded_and_evaluated(case, tmp_path):
    outcome = train(case, tmp_path / "run")
    assert (outcome.step, outcome.stopped) == (2, "finished")
    predictor = tasks.load(tmp_path / "run", task=case.task)
    before = predictor(case.texts)
    predictor.save(tmp_path / "saved")
    again = tasks.load(tmp_path / "saved", task=case.task)
    assert again(case.texts) == before
    names = {path.name for path in (tmp_path / "run" / "best").iterdir()}
    assert {"README.md", "config.json", "model.safetensors"} <= names
    options = {"data": str(tmp_path / f"data.{case.ending}")}
    report = tasks.evaluate(case.task, tmp_path / "run", options)
    assert json.dumps(report.to_json())
    assert str(report)
    if case.task in TASKS:
        assert tasks.load(tmp_path / "run")(case.texts) == before  # the folder names its task
        recording = predictor.attention(before[0])
        assert len(recording) >= 1
        (weights,) = predictor.word_weights(before[0])
        # A writer shows the words that it wrote, and models of pictures the cells or pixels of the picture.
        # A translator reads "A dog 3." as four words.
        columns = {"write": weights.weights.shape[1], "translate": 4}
        columns |= {"caption": 16, "images": 16, "glimpse": 256}
        assert weights.weights.shape[1] == columns.get(case.task, 3)


KILL = """
import os, signal, sys
from regard.training.loop import Trainer
update = Trainer._update
def dying(self, group):
    if self.state.progress.step == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return update(self, group)
Trainer._update = dying
"""


@pytest.fixture(scope="module")
def host():
    held = CommandHost()
    yield held
    held.close()


def test_a_killed_run_resumes_exactly(case, host, tmp_path):
    """A process that is killed by SIGKILL and resumed ends with the weights of one that was not."""
    train(case, tmp_path / "whole", steps=5)
    words = [
        "train",
        case.task,
        "--out",
        str(tmp_path / "killed"),
        "--data",
        str(tmp_path / f"data.{case.ending}"),
    ]
    for name, value in {**case.settings, "steps": 5}.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    ((exit_code, output),) = host.run(words, [EXAMPLES], code=KILL)
    assert exit_code == -signal.SIGKILL, output
    assert not (tmp_path / "killed" / "checkpoints" / "step-00000005").exists()
    outcome = tasks.resume(tmp_path / "killed", task=case.task, show=False)
    assert (outcome.first_step, outcome.step) == (3, 5)
    assert digests(tmp_path / "killed") == digests(tmp_path / "whole")


def test_a_finished_run_that_is_resumed_says_so(case, tmp_path):
    train(case, tmp_path / "run")
    result = run_here("train", case.task, "--resume", "--out", str(tmp_path / "run"), cwd=EXAMPLES)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("nothing was trained: the run had ended at step 2 (finished)")


@pytest.fixture
def begun(monkeypatch):
    """The objective and the options of each run, of which no step is made."""
    runs = []

    def not_trained(model, objective, options, folder, **_):
        runs.append((objective, options))
        return Outcome(0, "finished", {}, 0.0)

    monkeypatch.setattr(run, "run_loop", not_trained)
    return runs


def test_few_rows_get_small_batches_and_the_least_number_of_updates(case, tmp_path, begun, capsys):
    sizes = find_task(case.task).settings.batch_sizes
    settings = {
        name: value for name, value in case.settings.items() if name not in (*sizes, "steps", "warmup")
    }
    # A writer has steps by default, and a task of one's own need not have a length.
    by_epochs = case.task not in ("write", "tagger:Tagger")
    settings |= {"data": str(tmp_path / f"data.{case.ending}")} | ({} if by_epochs else {"steps": 700})
    tasks.train(case.task, settings, tmp_path / "run")
    ((objective, options),) = begun
    batches = objective.batches_per_epoch(1)
    if batches < 8:  # a batch has to hold the longest text that the settings allow
        with pytest.raises(ArgumentError):
            replace(objective.settings, **{name: getattr(objective.settings, name) // 2 for name in sizes})
    total = options.steps or batches * options.epochs
    least = objective.settings.least_steps
    assert total >= least >= 500
    assert options.warmup <= total / 5
    if by_epochs:
        assert total - batches < max(least, batches * 20)  # and no more than are needed
        line = rf"epochs: {options.epochs:g}, so that [\w ]+ give {total:,.0f} updates"
        assert re.search(line, capsys.readouterr().err)
    # The card of the model and a resumed run have the same settings.
    assert (objective.settings.epochs, objective.settings.warmup) == (options.epochs, options.warmup)
    kept = tasks.settings_of_run(tmp_path / "run", task=case.task)
    assert kept == objective.settings
    tasks.resume(tmp_path / "run", task=case.task, show=False)
    assert begun[-1][1] == options
    assert begun[-1][0].batches_per_epoch(1) == batches


def test_a_given_length_batch_and_warmup_are_obeyed(case, tmp_path, begun, capsys):
    sizes = {name: value for name, value in case.settings.items() if name.startswith("batch_")}
    settings = {
        **case.settings,
        **sizes,
        "epochs": 3.0,
        "warmup": 400,
        "data": str(tmp_path / f"data.{case.ending}"),
    }
    del settings["steps"]
    tasks.train(case.task, settings, tmp_path / "run")
    ((objective, options),) = begun
    assert (options.epochs, options.warmup) == (3.0, 400)
    assert {name: getattr(objective.settings, name) for name in sizes} == sizes
    assert "updates" not in capsys.readouterr().err


def test_a_run_that_stopped_early_goes_on_when_more_is_asked_for(case, tmp_path, monkeypatch):
    """The first validation of a run is its best one. Two more without improvement stop it."""
    monkeypatch.setattr(loop, "is_better", lambda task, results, best: not best)
    changes = {"steps": 20, "validate_every": 1, "patience": 2, "least_steps": 0}
    assert train(case, tmp_path / "run", **changes).step == 3

    def resumed(**changes):
        outcome = tasks.resume(tmp_path / "run", changes, task=case.task, show=False)
        return outcome.first_step, outcome.step, outcome.stopped

    assert resumed() == resumed(steps=20) == (3, 3, "no improvement")
    assert resumed(steps=21) == (3, 5, "no improvement")
    assert resumed(epochs=100.0) == (5, 7, "no improvement")
    assert resumed(patience=3) == (7, 8, "no improvement")
    assert resumed(steps=9) == (8, 9, "finished")
    assert "step 1," in (tmp_path / "run" / "best" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_help_lists_every_setting(case, command):
    result = run_here(command, case.task, "--help", cwd=EXAMPLES)
    assert result.returncode == 0
    settings = settings_of(case.task) if command == "train" else evaluation_of(case.task)
    listed = set(re.findall(r"--[a-z][a-z0-9-]*", result.stdout))
    assert [flag for flag in map(flag_of_field, fields(settings)) if flag not in listed] == []


def test_data_is_prepared_once(case, tmp_path, monkeypatch):
    kind, calls = type(find_task(case.task)), []
    prepare = kind.prepare
    monkeypatch.setattr(kind, "prepare", lambda self, *a, **k: calls.append(k) or prepare(self, *a, **k))
    train(case, tmp_path / "run")
    assert len(calls) == 1


BAD = {
    "empty": b"",
    "one column": b"only one\n",
    "not UTF-8": "caf\xe9\tx\n".encode("latin-1"),
    "empty sides": b"\t\n\t\n",
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_bad_data_is_one_line_and_leaves_no_folder(case, tmp_path, content):
    bad = tmp_path / f"bad.{case.ending}"
    bad.write_bytes(content)
    words = ["train", case.task, "--data", str(bad), "--out", str(tmp_path / "run")]
    assert_one_line(run_here(*words, "--steps", "2", cwd=EXAMPLES), 1, bad.name)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("count", [1, 3], ids=["one row", "equal rows"])
def test_data_of_which_no_row_is_left_names_the_flag_and_the_reason(case, tmp_path, count):
    write_rows(case, tmp_path, [7] * count)
    words = [
        "train",
        case.task,
        "--data",
        str(tmp_path / f"data.{case.ending}"),
        "--out",
        str(tmp_path / "run"),
    ]
    reasons = {
        "encode": "too few texts to hold some out",
        "classify": "each class has one text only, which is needed to train on",
        "answer": "have the same context, which cannot be both trained on and validated on",
        "write": "tokens to train on are shorter than the context of 128",
        "images": "there is one class only, 'class 1': expected two or more",
        "glimpse": "there is one class only, 'class 1': expected two or more",
        "caption": "have the same picture, which cannot be both trained on and validated on",
    }
    reason = reasons.get(case.task, "have the same text, which cannot be both trained on and validated on")
    # Equal questions have equal ids, which is a warning of its own.
    result = run_here(*words, "--steps", "2", cwd=EXAMPLES, warned="ignore")
    assert_one_line(result, 1, "--data", reason)
    assert not (tmp_path / "run").exists()


def test_an_encoder_whose_texts_are_all_validated_on_is_an_error(tmp_path):
    for name in ("data.txt", "valid.txt"):
        (tmp_path / name).write_text("a dog\na cat\n", encoding="utf-8")
    places = {"data": str(tmp_path / "data.txt"), "valid": str(tmp_path / "valid.txt")}
    with pytest.raises(FileError, match="data: no row of .* is left to train on: left out are 2 held out"):
        tasks.train("encode", {**places, "steps": 1}, tmp_path / "run", show=False)


def test_a_classifier_needs_two_classes(tmp_path):
    (tmp_path / "one.tsv").write_text("a dog\tx\na cat\tx\na cow\tx\n", encoding="utf-8")
    with pytest.raises(FileError, match="data: there is one class only, 'x': expected two or more"):
        tasks.train("classify", {"data": str(tmp_path / "one.tsv"), "steps": 1}, tmp_path / "run", show=False)


def test_a_model_of_another_task_is_refused(case, tmp_path):
    other = next(one for one in CASES if one.task != case.task and one.task in TASKS)
    write_rows(other, tmp_path, range(60))
    train(other, tmp_path / "run")
    with pytest.raises(ArgumentError, match=f"model: .* is a model for {other.task}, not for"):
        tasks.load(tmp_path / "run", task=case.task)
    with pytest.raises(ArgumentError, match=f"task: .* is a run of {other.task}, not of"):
        tasks.resume(tmp_path / "run", task=case.task, show=False)


@pytest.mark.parametrize("damage", ["cut", "pickle"])
def test_damaged_weights_are_refused(case, tmp_path, damage):
    train(case, tmp_path / "run")
    folder = tmp_path / "copy"
    shutil.copytree(tmp_path / "run" / "best", folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-20] if damage == "cut" else pickle.dumps({"a": 1}))
    with pytest.raises(RegardError, match="model.safetensors"):
        tasks.load(folder, task=case.task)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_guide_shows_the_file_of_the_tagger(language):
    code = (EXAMPLES / "tagger.py").read_text(encoding="utf-8")
    guide = (EXAMPLES.parent / f"docs/{language}/tasks.md").read_text(encoding="utf-8")
    assert code[code.index("from dataclasses") :] in guide
    assert len([line for line in code.splitlines() if line.strip()]) < 80


def test_a_task_that_cannot_be_imported_is_one_line(tmp_path):
    assert_one_line(run_here("train", "no_such:Task", cwd=tmp_path), 2, "no_such:Task cannot be imported")
    assert_one_line(run_here("train", "translat", cwd=tmp_path), 2, "did you mean 'translate'?")


def with_bad_rows(case, path, name):
    """Write the data with two bad rows, after the 10th and the last row."""
    lines = path.read_bytes().splitlines(keepends=True)
    lines[10:10], lines[len(lines) :] = [case.bad_row], [b"caf\xe9\tx\n"]
    (path.parent / name).write_bytes(b"".join(lines))
    return path.parent / name


def test_bad_rows_are_an_error_or_counted(case, tmp_path):
    data = with_bad_rows(case, tmp_path / f"data.{case.ending}", f"bad.{case.ending}")
    with pytest.raises(FileError, match=r"bad\.\w+, line 11: .*2 rows cannot be read \(lines 11, 62\)"):
        train(case, tmp_path / "run", data=str(data))
    assert not (tmp_path / "run").exists()
    train(case, tmp_path / "skipped", data=str(data), skip_bad_rows=True)
    manifest = json.loads((tmp_path / "skipped" / "cache" / "manifest.json").read_text())
    assert manifest["skipped"]["bad"] == 2


def test_bad_rows_in_validation_data_are_warned_of(case, tmp_path):
    valid = with_bad_rows(case, tmp_path / f"data.{case.ending}", f"valid.{case.ending}")
    write_rows(case, tmp_path, range(60, 120))
    with pytest.raises(FileError, match=r"valid: .*valid\.\w+, line 11"):
        train(case, tmp_path / "run", valid=str(valid))
    with pytest.warns(UserWarning, match="valid: left out: 2 that cannot be read"):
        train(case, tmp_path / "run", valid=str(valid), skip_bad_rows=True)


def test_bad_rows_of_an_evaluation_are_an_error_or_counted(case, tmp_path):
    train(case, tmp_path / "run")
    data = str(with_bad_rows(case, tmp_path / f"data.{case.ending}", f"bad.{case.ending}"))
    with pytest.raises(FileError, match=r"2 rows cannot be read \(lines 11, 62\)"):
        tasks.evaluate(case.task, tmp_path / "run", {"data": data})
    report = tasks.evaluate(case.task, tmp_path / "run", {"data": data, "skip_bad_rows": True})
    assert case.task not in TASKS or "2 that cannot be read" in report.notes[0]
    options = {"data": data, "skip_bad_rows": True, "out": str(tmp_path / "out.txt")}
    # Encoders and writers have no prediction for each row, and answers are written by the ids of the questions.
    if case.task not in ("encode", "write", "answer"):
        with pytest.raises(ArgumentError, match="out: its lines would not be those of the data"):
            tasks.evaluate(case.task, tmp_path / "run", options)
    with pytest.raises(ArgumentError, match="skip_bad_rows: of no use without data="):
        tasks.evaluate(case.task, tmp_path / "run", {"skip_bad_rows": True})


@pytest.mark.parametrize("part", ["build", "objective"])
def test_a_start_that_fails_leaves_nothing(case, tmp_path, monkeypatch, part):
    """The vocabulary and the cache are there when it fails, and the next start finds the folder as it was."""
    kind, seen = type(find_task(case.task)), []

    def fail(self, settings, data):
        seen.extend(path.name for path in folder.iterdir())
        raise FileError("no room for the model")

    folder = tmp_path / "runs" / "run"
    whole = getattr(kind, part)
    monkeypatch.setattr(kind, part, fail)
    with pytest.raises(FileError, match="no room"):
        train(case, folder, data=str(tmp_path / f"data.{case.ending}"))
    assert {"cache", "settings.json"} < set(seen)
    assert not (tmp_path / "runs").exists()
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(FileError, match="no room"):
        train(case, folder, data=str(tmp_path / f"data.{case.ending}"))
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    monkeypatch.setattr(kind, part, whole)
    assert train(case, folder, data=str(tmp_path / f"data.{case.ending}")).stopped == "finished"


def test_a_run_that_fails_to_resume_keeps_its_files(case, tmp_path, monkeypatch):
    train(case, tmp_path / "run")
    before = sorted(path.name for path in (tmp_path / "run").iterdir())

    def fail(self, settings, data):
        raise FileError("no room for the model")

    kind = type(find_task(case.task))
    whole = kind.build
    monkeypatch.setattr(kind, "build", fail)
    with pytest.raises(FileError, match="no room"):
        tasks.resume(tmp_path / "run", {"steps": 3}, task=case.task, show=False)
    monkeypatch.setattr(kind, "build", whole)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == before
    assert tasks.resume(tmp_path / "run", {"steps": 3}, task=case.task, show=False).step == 3


def test_a_label_that_is_not_trained_on_leaves_no_folder(tmp_path):
    """The error occurs after the vocabulary has been learnt."""
    (tmp_path / "data.tsv").write_text("a dog\tx\na cat\ty\n" * 9, encoding="utf-8")
    (tmp_path / "valid.tsv").write_text("a cow\tx\na hen\tz\n", encoding="utf-8")
    words = [
        "train",
        "classify",
        "--data",
        "data.tsv",
        "--valid",
        "valid.tsv",
        "--out",
        "run",
        "--steps",
        "1",
    ]
    assert_one_line(run_here(*words, "--vocabulary-size", "300", cwd=tmp_path), 1, "'z'")
    assert not (tmp_path / "run").exists()


# The tasks whose speed is in pictures.
PICTURES = ("images", "glimpse", "caption")
# The tensors of a batch that the model reads, in which padding is 0 and no token is.
READ = {
    "translate": ("source", "target_output"),
    "summarize": ("source", "target_output"),
    "classify": ("tokens",),
    "answer": ("question", "context"),
    "encode": ("tokens",),
    "write": ("tokens",),
    "tagger:Tagger": ("source",),
}


def read_in(task, batch):
    """Return the number of tokens in a batch without padding, or of pictures."""
    if task in PICTURES:
        return len(batch)
    return sum(int((getattr(batch, name) != 0).sum()) for name in READ[task])


def test_the_speed_of_a_run_counts_the_tokens_or_the_pictures_that_are_read(case, tmp_path, monkeypatch):
    clock, update, read = iter(range(1000)), loop.Trainer._update, []

    def counted(self, group):
        read.append(sum(read_in(case.task, batch) for batch in group))
        return update(self, group)

    monkeypatch.setattr(loop, "_REPORT_EVERY", 1)
    monkeypatch.setattr(loop.time, "perf_counter", lambda: float(next(clock)))  # each step takes a second
    monkeypatch.setattr(loop.Trainer, "_update", counted)
    train(case, tmp_path / "run", steps=3)
    lines = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    unit = "pictures" if case.task in PICTURES else "tokens"
    assert [line[f"{unit}_per_second"] for line in lines if "learning_rate" in line] == read
    assert len(set(read)) > 1  # batches of different sizes
