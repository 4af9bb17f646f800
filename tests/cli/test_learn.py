"""Tests of ``regard learn``: the list, the file to fill in, hints, checks and watching."""

import os
import subprocess
import sys
import threading

import pytest

from regard.learn.bank import EXERCISES
from support.command_line import assert_one_line, run_here

RIGHT = """
import numpy as np

def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
"""
OVERFLOWS = RIGHT.replace(" - x.max(-1, keepdims=True)", "")


@pytest.mark.parametrize(("language", "locale"), [("en", "C"), ("zh", "zh_CN.UTF-8"), ("en", "de_DE.UTF-8")])
def test_the_exercises_are_listed_in_the_language_of_the_locale(language, locale):
    result = run_here("learn", LANGUAGE="", LC_ALL=locale)
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    for number, exercise in enumerate(EXERCISES, start=1):
        assert lines[number - 1] == f"{number:3}  {exercise.name:22}{exercise.title.say(language)}"


def test_an_exercise_is_written_once_and_never_overwritten(tmp_path):
    result = run_here("learn", "1", "--language", "en", cwd=tmp_path)
    assert result.returncode == 0
    path = tmp_path / "exercise_01_softmax.py"
    assert "def softmax(x):" in path.read_text(encoding="utf-8")
    assert "regard learn 1 --check exercise_01_softmax.py" in result.stdout
    path.write_text("mine")
    assert_one_line(run_here("learn", "1", cwd=tmp_path), 1, "--out: exercise_01_softmax.py exists already")
    assert path.read_text() == "mine"
    written = run_here("learn", "softmax", "--out", "other.py", "--language", "zh", cwd=tmp_path)
    assert written.returncode == 0
    assert "练习 1" in (tmp_path / "other.py").read_text(encoding="utf-8")


def test_a_hint_writes_nothing(tmp_path):
    result = run_here("learn", "1", "--hint", "--language", "zh", cwd=tmp_path)
    assert result.returncode == 0
    assert result.stdout == EXERCISES[0].hint.zh + "\n"
    assert list(tmp_path.iterdir()) == []


def test_a_hint_comes_with_a_file_or_a_verdict_that_is_asked_for(tmp_path):
    hint = EXERCISES[0].hint.en + "\n"
    written = run_here("learn", "1", "--hint", "--out", "my.py", "--language", "en", cwd=tmp_path)
    assert (written.returncode, written.stdout.endswith(hint)) == (0, True)
    assert "def softmax(x):" in (tmp_path / "my.py").read_text(encoding="utf-8")
    (tmp_path / "my.py").write_text(OVERFLOWS)
    checked = run_here("learn", "1", "--hint", "--check", "my.py", "--language", "en", cwd=tmp_path)
    assert (checked.returncode, checked.stdout.endswith(hint)) == (1, True)
    assert checked.stdout.startswith("Not yet.")


@pytest.mark.parametrize(
    ("source", "language", "code", "said"),
    [
        (RIGHT, "en", 0, "Right."),
        (OVERFLOWS, "en", 1, "exp(1000) is inf"),
        (OVERFLOWS, "zh", 1, "exp 溢出了"),
    ],
)
def test_a_file_is_checked(source, language, code, said, tmp_path):
    (tmp_path / "my.py").write_text(source)
    result = run_here("learn", "1", "--check", "my.py", "--language", language, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (code, "")
    assert said in result.stdout
    assert (tmp_path / "my.py").read_text() == source


@pytest.mark.parametrize(
    ("words", "code", "parts"),
    [
        (["99"], 2, ["EXERCISE: unknown name '99'", f"1 to {len(EXERCISES)}"]),
        (["sofmax"], 2, ["did you mean 'softmax'?"]),
        (["--hint"], 2, ["EXERCISE: --hint needs the number of an exercise"]),
        (["1", "--check", "none.py"], 1, ["--check: none.py cannot be read"]),
        (["1", "--check", "."], 1, ["is a folder"]),
        (["1", "--check", "a.py", "--out", "b.py"], 2, ["--out: the file to check is given"]),
        (["1", "--watch", "--check", "none.py"], 1, ["--check: none.py is not there"]),
        (["1", "--language", "fr"], 2, ["--language: unknown name 'fr'", "en, zh"]),
        (["1", "--out", "none/my.py"], 1, ["--out: cannot write none/my.py"]),
        (["--questions", "--hint"], 2, ["--questions: the questions have no --hint"]),
        (["--questions", "--watch"], 2, ["--questions: the questions have no --watch"]),
        (["--questions", "--check", "my.py"], 2, ["--questions: the questions have no --check"]),
        (["--questions", "--out", "my.py"], 2, ["--questions: the questions have no --out"]),
    ],
)
def test_wrong_calls_are_one_line(words, code, parts, tmp_path):
    assert_one_line(run_here("learn", *words, cwd=tmp_path), code, *parts)
    assert list(tmp_path.iterdir()) == []


def test_watching_checks_at_each_save_until_the_file_is_right(tmp_path):
    path = tmp_path / "exercise_01_softmax.py"
    command = [sys.executable, "-u", "-m", "regard", "learn", "1", "--watch", "--hint", "--language", "en"]
    with subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ}, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        # Without the line that is waited for, the process would watch the file for ever.
        limit = threading.Timer(120, process.kill)
        limit.daemon = True
        limit.start()
        said = []
        for source, end in ((OVERFLOWS, "Nothing is filled in yet"), (RIGHT, "inf / inf is NaN")):
            while end not in (said[-1] if said else ""):
                line = process.stdout.readline()
                assert line, said
                said.append(line)
            # Editors write a new file and put it in place of the old one.
            part = tmp_path / "part"
            part.write_text(source)
            part.replace(path)
        assert "Right." in process.stdout.read()
        assert process.wait(60) == 0
        limit.cancel()
    # The hint comes before the first verdict.
    watching = next(n for n, line in enumerate(said) if "Watching exercise_01_softmax.py" in line)
    assert said[watching - 1] == EXERCISES[0].hint.en + "\n"
