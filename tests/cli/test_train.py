"""The words of ``regard train`` about values, files and runs that it cannot use."""

import re

import pytest

from regard import tasks
from regard.training import loop
from support.command_line import assert_one_line, run_here

SMALL = {"embedded": 60, "vocabulary_size": 300, "width": 16, "steps": 3}


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    tasks.train("classify", SMALL, folder, show=False)
    return folder


@pytest.mark.parametrize(
    ("flag", "value", "reason"),
    [
        ("--steps", "2", "--steps 2 is below step 3, which the run has reached"),
        ("--epochs", "0.01", "the run has reached step 3, and --epochs 0.01 ends there or before"),
        ("--steps", "3", "the run had ended at step 3 (finished)"),
    ],
)
def test_resuming_with_too_few_steps_names_them(run_folder, flag, value, reason):
    result = run_here("train", "classify", "--resume", "--out", str(run_folder), flag, value)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(f"nothing was trained: {reason}: ")


def test_a_run_that_stopped_early_says_so_and_how_to_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "is_better", lambda task, results, best: not best)
    early = {**SMALL, "steps": None, "epochs": 90.0, "validate_every": 1, "patience": 2, "least_steps": 0}
    assert tasks.train("classify", early, tmp_path, show=False).stopped == "no improvement"
    command = ("train", "classify", "--resume", "--out", str(tmp_path))
    for words in ((), ("--epochs", "90")):
        same = run_here(*command, *words).stdout.splitlines()
        stopped = "the run had stopped at step 3, because validations no longer improved"
        assert same[0].startswith(f"nothing was trained: {stopped}: ")
        assert same[1] == "to train further, give more --steps, --epochs or --minutes, or more --patience"
    assert run_here(*command, "--epochs", "100").stdout.startswith("no improvement after 5 steps")


def test_a_run_of_few_steps_says_how_to_train_longer(tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"a dog {n}\tun chien {n}\n" for n in range(40)))
    small = ("--data", "pairs.tsv", "--width", "16", "--vocabulary-size", "300", "--out", "run")
    short = run_here("train", "translate", *small, "--epochs", "2", cwd=tmp_path)
    assert re.search(
        r"^\d+ steps are few: train longer with  regard train translate --resume", short.stdout, re.M
    )
    again = run_here("train", "translate", *small[:-1], "again", "--steps", "2", cwd=tmp_path)
    assert again.returncode == 0
    assert "steps are few" not in again.stdout


def test_resuming_a_run_of_another_task_names_the_command(run_folder):
    result = run_here("train", "translate", "--resume", "--out", str(run_folder))
    assert_one_line(result, 2, "is a run of classify, not of translate: use `regard train classify --resume`")


@pytest.mark.parametrize("words", [["--steps", "abc"], ["--steps=abc"]])
def test_a_value_that_is_not_a_number_is_quoted(words):
    assert_one_line(run_here("train", "translate", *words), 2, "'--steps'", "got 'abc'")


def test_an_option_file_of_another_format_is_not_read(tmp_path):
    (tmp_path / "bin.tsv").write_bytes(b"\x80")
    result = run_here("train", "translate", "--options", "bin.tsv", cwd=tmp_path)
    assert_one_line(result, 2, "--options: expected a .yaml, .toml or .json file, got bin.tsv")


@pytest.mark.parametrize("ending", ["yaml", "toml", "json"])
def test_an_option_file_that_is_not_utf8_names_its_byte(tmp_path, ending):
    (tmp_path / f"bin.{ending}").write_bytes(b'{"steps":\n \xe9}')
    result = run_here("train", "translate", "--options", f"bin.{ending}", cwd=tmp_path)
    assert_one_line(
        result, 1, f"bin.{ending}, line 2: byte 0xe9 at offset 11 of the file is not UTF-8", "iconv"
    )


def test_an_empty_file_of_labelled_texts_asks_for_labels(run_folder, tmp_path):
    (tmp_path / "empty.tsv").write_bytes(b"")
    words = ["evaluate", "classify", "--model", str(run_folder), "--data", "empty.tsv"]
    assert_one_line(
        run_here(*words, cwd=tmp_path), 1, "empty.tsv is empty: expected rows of a text and a label"
    )


ROWS = [f"{word} {n},{label},{n % 3}" for n in range(20) for word, label in (("good", "yes"), ("bad", "no"))]
TABLES = {
    "mood.csv": "\n".join(['"what, if any?",mood?,day', *ROWS]),
    "lines.txt": "\n".join(ROWS),
    "pairs.tsv": "\n".join(["de\tfr", *(row.replace(",", "\t") for row in ROWS)]),
}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["classify", "--data", "mood.csv", "--columns", '"what, if any?",mood?'],
            'read: text = column "what, if any?", label = column "mood?", 2 labels',
        ),
        (
            ["classify", "--data", "mood.csv", "--columns", "0,1"],
            'read: text = column "what, if any?", label = column "mood?", 2 labels',
        ),
        (
            ["translate", "--data", "pairs.tsv", "--from", "fr", "--to", "de", "--heads", "2"],
            'read: source = column "fr", target = column "de"',
        ),
        (
            ["summarize", "--data", "lines.txt", "--format", "csv", "--columns", "1,0", "--heads", "2"],
            "read: text = column 1, summary = column 0 (counted from 0)",
        ),
        (["encode", "--data", "lines.txt", "--heads", "2"], "read: text = each line"),
    ],
)
def test_the_columns_that_are_trained_on_are_told(tmp_path, words, told):
    for name, text in TABLES.items():
        (tmp_path / name).write_text(text + "\n", encoding="utf-8")
    small = ["--width", "16", "--vocabulary-size", "300", "--steps", "1", "--out", "run"]
    done = run_here("train", *words, *small, cwd=tmp_path, warned="ignore")
    assert done.returncode == 0, done.stderr
    assert told in done.stderr.splitlines()
    # It is fitted for the probabilities, and measures nothing.
    assert "temperature" not in done.stderr + done.stdout
    metrics = (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8")
    assert ("temperature" in metrics) == (words[0] == "classify")


def test_columns_are_two(tmp_path):
    (tmp_path / "mood.csv").write_text(TABLES["mood.csv"], encoding="utf-8")
    for columns in ("mood?", "a,b,c", '"a,b', ""):
        done = run_here("train", "classify", "--data", "mood.csv", "--columns", columns, cwd=tmp_path)
        assert_one_line(done, 2, "--columns: expected ")
    missing = run_here("train", "classify", "--data", "mood.csv", cwd=tmp_path)
    assert_one_line(missing, 2, "3 columns", """as in --columns 0,1 or --columns '"what, if any?",mood?'""")


@pytest.mark.parametrize("kept", [False, True])
def test_an_interruption_while_the_data_is_read_says_how_to_go_on(tmp_path, monkeypatch, kept):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(tasks, "train", interrupted)
    monkeypatch.setattr(tasks, "resume", interrupted)
    words = ["train", "classify", "--out", str(tmp_path / "run")]
    if kept:
        (tmp_path / "run" / "checkpoints" / "step-00000003").mkdir(parents=True)
        assert_one_line(
            run_here(*words, "--resume"), 130, f"with regard train classify --resume --out {tmp_path}"
        )
    else:
        assert_one_line(run_here(*words), 130, "before the first step", "start again with the same command")


def test_training_on_pictures_ends_with_where_the_model_looks(tmp_path):
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn: pip install 'regard[images]'")
    small = ("--width", "16", "--heads", "2", "--layers", "1", "--steps", "2")
    done = run_here("train", "images", *small, "--out", "my digits", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    _, _, example = done.stderr.partition("a validation picture of ")
    first, names, *lines = example.splitlines()
    assert re.fullmatch(r"\d is classified as \d \(0\.\d\d\)", first)
    assert re.split(r"  +", names) == ["picture", "class token", "rollout"]
    assert len(lines) == 8, "16 rows of cells, two in each line"
    assert done.stdout.endswith(
        "use it with  regard classify-image --model 'my digits' PICTURE --attention\n"
    )
    again = run_here("train", "images", "--resume", "--out", "my digits", cwd=tmp_path)
    assert "nothing was trained" in again.stdout
    assert "a validation picture" not in again.stderr


def test_a_network_without_attention_ends_with_a_prediction(tmp_path):
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn: pip install 'regard[images]'")
    done = run_here(
        "train", "images", "--architecture", "linear", "--steps", "2", "--out", "run", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert " is classified as " in done.stderr.splitlines()[-1]
    assert done.stdout.endswith("use it with  regard classify-image --model run PICTURE\n")


@pytest.mark.parametrize(
    ("task", "changes", "command"),
    [
        ("caption", {}, "regard caption --model run PICTURE --attention"),
        ("caption", {"score": "none"}, "regard caption --model run PICTURE"),
        ("glimpse", {}, "regard glimpse --model run PICTURE --attention"),
        ("glimpse", {"architecture": "dense"}, "regard glimpse --model run PICTURE"),
        ("images", {"architecture": "swin"}, "regard classify-image --model run PICTURE --attention"),
        ("translate", {}, ""),
    ],
)
def test_a_trained_model_of_pictures_has_a_next_command(task, changes, command):
    found = tasks.find_task(task)
    assert found.next_command(found.settings(**found.settings.complete(changes)), "run") == command
