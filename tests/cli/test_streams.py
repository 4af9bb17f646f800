"""Tests of commands with closed streams, the C locale, warnings of libraries, and results that are cut short."""

import contextlib
import dataclasses
import io
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
import typer

import regard
from regard.cli import streams
from regard.cli.main import app, flag_of, in_flags, main
from regard.cli.option_files import command_of
from regard.decoding import DecodingOptions
from regard.errors import FileError, option
from regard.tasks.translate import TranslationSettings
from regard.training import batch_progress
from regard.training.batch_progress import CountBar
from regard.training.loop import Trainer
from support.command_line import assert_one_line, run, run_here
from support.pictures import save_picture
from support.pretrained_folders import write_encoder

COMMAND = f"{sys.executable} -W error -m regard"


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A line of sh, with ``regard`` for the command."""
    return subprocess.run(
        ["sh", "-c", line.replace("regard", COMMAND, 1)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


# ---- closed streams


@pytest.mark.parametrize(
    ("words", "code", "parts"),
    [
        ("translate", 2, "TEXT: nothing to translate"),
        ("translate --file -", 1, "standard input is closed: name a file, or pipe text in"),
        ("train translate --data - --valid x.tsv", 1, "standard input is closed"),
    ],
)
def test_a_closed_stdin_is_a_one_line_error(tmp_path, monkeypatch, words, code, parts):
    monkeypatch.setattr(sys, "stdin", None)
    assert_one_line(run_here(*words.split(), cwd=tmp_path), code, parts)


@pytest.mark.parametrize("words", ["models", "--help"])
def test_a_closed_stdout_is_a_one_line_error(words):
    assert_one_line(shell(f"regard {words} <&- >&-"), 1, "standard output is closed: write to a file")


def test_messages_for_a_closed_stderr_go_nowhere():
    done = shell("regard no-such-command 2>&-")
    assert (done.returncode, done.stdout) == (2, "")


# ---- signals


@pytest.mark.skipif(os.name == "nt", reason="SIGTERM is sent as a signal")
def test_training_that_receives_sigterm_exits_with_143(tmp_path, monkeypatch):
    steps = Trainer._between_steps
    monkeypatch.setattr(
        Trainer, "_between_steps", lambda self: signal.raise_signal(signal.SIGTERM) or steps(self)
    )
    small = "--embedded 100 --vocabulary-size 300 --width 16 --heads 2 --steps 99 --batch-tokens 500"
    result = run_here("train", "translate", *small.split(), "--out", "run", cwd=tmp_path)
    assert result.returncode == 143, result.stderr
    assert "interrupted at step 0" in result.stderr or "interrupted before the first step" in result.stderr


# ---- the locale, the width


@pytest.mark.skipif(os.name == "nt", reason="the locale of a terminal")
def test_accents_are_written_under_the_c_locale_with_closed_streams(tmp_path):
    settings = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = shell(f"regard translate 'A café.' --json --out '{tmp_path}/été.json' <&- >&-", **settings)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "été.json").read_text(encoding="utf-8"))["source"] == "A café."


def test_an_argument_that_is_not_utf8_is_a_one_line_error():
    assert_one_line(run_here("translate", "caf\udce9"), 2, r"not UTF-8: caf\xe9")


@pytest.mark.parametrize("columns", ["0", "-3", "wide", ""])
def test_an_invalid_terminal_width_is_ignored(columns):
    shown = run_here("--help", COLUMNS=columns).stdout
    assert "translate" in shown
    assert shown == run_here("--help", COLUMNS="80").stdout


# ---- warnings


@pytest.fixture
def said_by():
    """Return a function that runs a command and returns its output and errors, with warnings shown."""

    def run_command(action):
        app.command("test-command")(action)
        try:
            return run_here("test-command", warned="default")
        finally:
            app.registered_commands.pop()

    return run_command


def test_a_warning_is_one_plain_line(said_by):
    def action():
        warnings.warn("this is\nworth knowing", UserWarning, stacklevel=1)
        logging.getLogger("some.library").warning("and %s", "this")
        logging.getLogger("some.library").info("but not this")
        print("done")

    before = warnings.showwarning
    result = said_by(action)
    assert (result.returncode, result.stdout) == (0, "done\n")
    assert result.stderr == "regard: this is worth knowing\nregard: and this\n"
    assert warnings.showwarning is before


def test_the_warning_of_a_missing_font_is_one_line(fonts, said_by):
    def action():
        regard.plot_weights([1.0], ["猫"])

    result = said_by(action)
    if fonts == "matplotlib":
        assert_one_line(result, 0, "no installed font has 1 of the characters to draw (猫)", "[chinese]'")


def test_a_read_only_home_gives_no_warning(tmp_path):
    """Matplotlib logs two lines about it."""
    home = tmp_path / "home"
    home.write_text("a file, so that nothing can be made in it")
    code = """
from regard.cli.main import app, main
@app.command("test-command")
def action():
    import matplotlib.font_manager
main()
"""
    unset = dict.fromkeys(("MPLCONFIGDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), "")
    done = run("test-command", code=code, HOME=str(home), **unset)
    assert (done.returncode, done.stderr) == (0, "")


# ---- messages name flags

TRAIN = command_of(typer.main.get_command(app), ["train", "translate"])[0]
TRANSLATE = command_of(typer.main.get_command(app), ["translate"])[0]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (f"check {option('columns')}, or the line", "check --columns, or the line"),
        (f"no sentence of {option('max_tokens', 100)}", "no sentence of --max-tokens 100"),
        (f"say {option('shared_vocabulary', True)}", "say --shared-vocabulary"),
        (f"or {option('shared_vocabulary', False)}", "or --no-shared-vocabulary"),
        (f"the same as {option('source_language', 'en')}", "the same as --from en"),
        (f"raise {option('no_such_option', 4)}", "raise no_such_option=4"),
        ("there is no column 'max_tokens': its columns are data=3, width", None),
    ],
)
def test_only_options_that_an_error_mentions_are_flags(message, expected):
    assert in_flags(FileError(message), TRAIN) == (expected or message)
    assert in_flags(FileError(message, argument="valid"), TRAIN) == f"--valid: {expected or message}"
    assert str(FileError(message, argument="valid")).startswith("valid: ")


def test_names_of_columns_in_a_file_are_not_turned_into_flags(tmp_path):
    (tmp_path / "x.csv").write_text("batch_tokens,max_tokens\na dog,un chien\n", encoding="utf-8")
    words = ["train", "translate", "--data", "x.csv", "--columns", "en,fr"]
    result = run_here(*words, cwd=tmp_path)
    assert_one_line(result, 1, "there is no column 'en': its columns are batch_tokens, max_tokens")


# Options with which the pipelines decode as Transformers does, or of language models only.
OF_PIPELINES = {"early_stopping", "ended_first", "repetition_penalty"}


def test_every_setting_has_a_flag():
    for command, settings in ((TRAIN, TranslationSettings), (TRANSLATE, DecodingOptions)):
        names = {field.name for field in dataclasses.fields(settings)}
        for name in names - OF_PIPELINES:
            assert flag_of(name, command).startswith("--"), name


@pytest.mark.parametrize(
    ("words", "code", "parts"),
    [
        (
            "evaluate translate --data x.abc",
            2,
            ("--format: cannot be told from the name x.abc", "say it with --format, one of tsv"),
        ),
        ("evaluate translate --data x.tsv --format hf", 2, ("--data: expected hf:x.tsv",)),
        ("evaluate translate --data - --target-data -", 2, ("--target-data: only --data can be read",)),
        ("evaluate translate --columns 0,1", 2, ("--columns: given without --data",)),
        (
            "translate x --beams 2 --n-best 3",
            2,
            ("--n-best: expected at most 2, the number of beams, got 3: raise --beams",),
        ),
        ("translate x --min-length 5 --max-length 3", 2, ("--min-length: 5 is above --max-length 3",)),
        (
            "view x.tsv --host 0.0.0.0",
            2,
            ("--host: '0.0.0.0' can be reached", "or give --allow-network to allow that"),
        ),
        ("translate x --to tlh", 2, ("--to: there is no model for English to 'tlh'", "with --model")),
        ("translate x --from tlh", 2, ("--from: there is no model",)),
        ("translate x --model en-fr --to zh", 2, ("--to: the model en-fr has 'fr' there, not 'zh'",)),
        (
            "train translate --target-data x",
            2,
            ("--target-data: given without --data: name the source side with --data",),
        ),
        (
            "train translate --batch-tokens 50",
            2,
            ("--batch-tokens: 50 tokens hold no sentence of --max-tokens ",),
        ),
        ("train translate --to en", 2, ("--to: the same as --from en",)),
        (
            "train translate --embedded 0",
            2,
            ("--embedded: nothing to train on: got 0", "name pairs with --data"),
        ),
        (
            "train translate --valid - --data x.tsv",
            2,
            ("--valid: only --data can be read from standard input",),
        ),
        (
            "train translate --steps 5 --epochs 5",
            2,
            ("--steps: expected one of --steps, --epochs and --minutes",),
        ),
        (
            "train translate --architecture seq2seq --heads 3",
            2,
            ("--heads: of no use for --architecture seq2seq", "--architecture transformer"),
        ),
    ],
)
def test_messages_name_flags(tmp_path, words, code, parts):
    (tmp_path / "x.tsv").write_text("a\n", encoding="utf-8")
    assert_one_line(run_here(*words.split(), cwd=tmp_path), code, *parts)


def test_a_line_without_the_column_names_the_flag(tmp_path):
    (tmp_path / "x.tsv").write_text("one\n", encoding="utf-8")
    result = run_here("evaluate", "translate", "--data", "x.tsv", cwd=tmp_path)
    assert_one_line(result, 1, "x.tsv, line 1: there is no column 1", "check --columns, or the row")


def test_languages_are_the_same_in_capitals():
    assert run_here("translate", "A dog.", "--to", "FR", "--from", "En").stdout == "Un chien.\n"
    named = run_here("translate", "A dog.", "--model", "en-fr", "--to", "FR")
    assert (named.returncode, named.stdout) == (0, "Un chien.\n")


# ---- results of a command that is stopped

VERBS = {
    "translate": ["--file", "texts.txt", "--n-best", "2"],
    "classify": ["--file", "texts.txt", "--scores"],
    "summarize": ["--file", "texts.txt", "--beams", "1"],
    "encode": ["a dog", "a cat", "a cow", "--model", "encoder"],
    "write": ["--file", "texts.txt", "--max-tokens", "5"],
    "answer": ["--questions", "questions.jsonl"],
    "caption": ["pictures", "--beams", "1"],
    "classify-image": ["pictures", "--model", "mnist"],
    "glimpse": ["pictures"],
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    texts = ["The dog sleeps.", "A cat reads a book.", "Lucy went to the office."]
    (folder / "texts.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    asked = [{"question": "Who is there?", "context": text} for text in texts]
    (folder / "questions.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in asked), encoding="utf-8"
    )
    (folder / "pictures").mkdir()
    for number in range(3):
        save_picture(folder / "pictures" / f"{number}.png", np.full((28, 28), 80 * number, dtype=np.uint8))
    write_encoder(folder / "encoder")
    return folder


def stopped_command(verb, inputs, out, monkeypatch):
    """Run a command that predicts one input after the other and gets a Ctrl-C after the second of three."""
    words = [verb, *VERBS[verb], "--out", str(out)]
    whole = run_here(*words, cwd=inputs)
    assert whole.returncode == 0, whole.stderr

    def stop_at_two(_, done):
        if done == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(streams, "FIRST_INPUTS", 1)
    monkeypatch.setattr(streams, "SHORT", 0.0)
    monkeypatch.setattr(CountBar, "update", stop_at_two)
    content = out.read_bytes()
    return content, run_here(*words, cwd=inputs)


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_done_is_kept_when_a_command_is_stopped(verb, inputs, tmp_path, monkeypatch):
    out = tmp_path / "out.txt"
    whole, stopped = stopped_command(verb, inputs, out, monkeypatch)
    noun = "pictures" if "pictures" in VERBS[verb] else "texts"
    told = f"interrupted: the results of 2 of 3 {noun} are in {out}.partial, and {out} is as it was"
    assert stopped.returncode == 130
    assert told in stopped.stderr
    assert out.read_bytes() == whole
    partial = (tmp_path / "out.txt.partial").read_text(encoding="utf-8")
    assert partial
    assert partial.endswith("\n")
    assert len(partial) < len(whole.decode())
    assert whole.decode().startswith(partial)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.txt", "out.txt.partial"]


@pytest.mark.parametrize("name", ["out.npy", "out.safetensors"])
def test_the_vectors_that_are_done_are_kept(name, inputs, tmp_path, monkeypatch):
    from safetensors.numpy import load_file

    _, stopped = stopped_command("encode", inputs, tmp_path / name, monkeypatch)
    assert_one_line(stopped, 130, f"the results of 2 of 3 texts are in {tmp_path / name}.partial")
    read = load_file if name.endswith("s") else np.load
    kept, vectors = (read(tmp_path / one) for one in (f"{name}.partial", name))
    kept, vectors = (one["vectors"] if isinstance(one, dict) else one for one in (kept, vectors))
    assert len(kept) == 2
    np.testing.assert_array_equal(kept, vectors[:2])


def test_a_result_that_is_not_complete_is_not_kept(inputs, tmp_path, monkeypatch):
    shown = streams.Output.lines

    def half(self, predictor, prediction):
        for line in shown(self, predictor, prediction):
            yield line
            if prediction.source.startswith("Lucy"):
                raise OSError("an error in the middle")

    monkeypatch.setattr(streams, "FIRST_INPUTS", 1)
    monkeypatch.setattr(streams, "SHORT", 0.0)
    monkeypatch.setattr(streams.Output, "lines", half)
    done = run_here("classify", "--file", "texts.txt", "--scores", "--out", str(tmp_path / "a"), cwd=inputs)
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert first == f"regard: the results of 2 of 3 texts are in {tmp_path / 'a.partial'}"
    assert "an error in the middle" in second
    labels = (tmp_path / "a.partial").read_text().splitlines()
    assert len(labels) == 4
    assert not (tmp_path / "a").exists()


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_a_command_with_what_is_done(number, code, tmp_path):
    (tmp_path / "many.txt").write_text("good film\n" * 200_000, encoding="utf-8")
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    command = [sys.executable, "-c", f"{heard}; from regard.cli import main; main()", "classify"]
    command += ["--file", "many.txt", "--out", "out.txt"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        until = time.monotonic() + 100
        while not any(path.stat().st_size > 5000 for path in tmp_path.glob(".out.txt.*.part")):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.01)
        process.send_signal(number)
        errors = process.stderr.read()
        assert process.wait(60) == code
    found = re.fullmatch(
        r"regard: interrupted: the results of ([\d,]+) of 200,000 texts are in (.*)\n", errors
    )
    assert found, errors
    lines = (tmp_path / found[2]).read_text(encoding="utf-8").split("\n")
    assert len(lines) - 1 == int(found[1].replace(",", ""))
    assert lines[-1] == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many.txt", "out.txt.partial"]


def test_the_file_to_read_is_not_replaced_by_what_is_kept(inputs, tmp_path):
    shutil.copy(inputs / "texts.txt", tmp_path / "out.txt.partial")
    done = run_here("classify", "--file", "out.txt.partial", "--out", "out.txt", cwd=tmp_path)
    assert_one_line(done, 2, "--out: out.txt.partial is the file to classify, and would be replaced")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("verb", ["classify", "similar"])
@pytest.mark.parametrize("terminal", [True, False])
def test_the_time_left_is_shown_in_a_terminal_only(verb, terminal, inputs, tmp_path, monkeypatch):
    monkeypatch.setattr(batch_progress, "_BAR_AFTER", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    errors = Terminal() if terminal else io.StringIO()
    words = {
        "classify": ["--out", str(tmp_path / "a")],
        "similar": ["cat", "--model", str(inputs / "encoder")],
    }
    with (
        contextlib.redirect_stderr(errors),
        contextlib.redirect_stdout(io.StringIO()),
        pytest.raises(SystemExit),
    ):
        main([verb, *words[verb], "--file", str(inputs / "texts.txt")])
    assert ("3/3" in errors.getvalue()) == terminal
    assert ("left" in errors.getvalue()) == terminal
