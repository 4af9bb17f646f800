"""Tests of how a file is watched."""

import os

import pytest

from regard.errors import FileError
from regard.learn import files
from regard.learn.check import Verdict

RIGHT = Verdict(True, [frozenset()], "Right.")


def checks_of(path, monkeypatch, failing: int, between) -> list[Verdict]:
    """Watch a file whose first checks fail, and return the verdicts that were shown."""
    monkeypatch.setattr(files, "PERIOD", 0.0)
    left = [FileError("cannot be read", argument="check")] * failing
    shown: list[Verdict] = []

    def check() -> Verdict:
        if left:
            between()
            raise left.pop()
        return RIGHT

    assert files.watch(path, check, shown.append) is RIGHT
    return shown


def test_a_file_that_is_replaced_between_the_look_and_the_check_is_checked_again(tmp_path, monkeypatch):
    path = tmp_path / "my.py"
    path.write_text("x = 1\n")

    def replace() -> None:
        (tmp_path / "part").write_text(path.read_text() + "x = 2\n")
        os.replace(tmp_path / "part", path)

    assert checks_of(path, monkeypatch, 3, replace) == [RIGHT]


def test_a_file_that_an_editor_puts_back_unchanged_is_checked_again(tmp_path, monkeypatch):
    path = tmp_path / "my.py"
    path.write_text("x = 1\n")
    assert checks_of(path, monkeypatch, 1, lambda: None) == [RIGHT]


def test_a_file_that_stays_unreadable_ends_the_watch(tmp_path, monkeypatch):
    path = tmp_path / "my.py"
    path.write_text("x = 1\n")
    with pytest.raises(FileError, match="cannot be read"):
        checks_of(path, monkeypatch, 2, lambda: None)
