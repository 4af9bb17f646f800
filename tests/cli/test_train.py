"""The words of ``regard train`` about values, files and runs that it cannot use."""

import pytest

from regard import tasks
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
