"""``regard learn``, the exercises and their checker."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.errors import ArgumentError, FileError

if TYPE_CHECKING:
    from regard.learn.exercise import Exercise

__all__ = ["learn"]


def learn(
    exercise: str = typer.Argument(
        None, help="The number or name of an exercise. Without it, all are listed."
    ),
    check: Path = typer.Option(None, "--check", help="Check this file, in a process of its own."),
    hint: bool = typer.Option(False, "--hint", help="Give a hint."),
    watch: bool = typer.Option(False, "--watch", help="Check the file at each save, until it is right."),
    out: Path = typer.Option(
        None, "--out", help="The file to write the exercise to.", show_default="by its name"
    ),
    questions: bool = typer.Option(False, "--questions", help="Answer three questions by measurements."),
    language: str = typer.Option(None, "--language", help="en or zh.", show_default="that of the locale"),
) -> None:
    """Learn attention by exercises. A file to fill in is written, and checked with --check."""
    from regard.learn.files import find_exercise
    from regard.learn.words import choose_language

    language = choose_language(language)
    flags = {"--check": check is not None, "--hint": hint, "--watch": watch, "--out": out is not None}
    if questions:
        _answer(exercise, flags, language)
        return
    if exercise is None:
        _check_nothing_else(flags)
        _list(language)
        return
    if check is not None and out is not None:
        raise ArgumentError("out", "the file to check is given", "leave --out away")
    number, found = find_exercise(exercise)
    hint_text = found.hint.say(language) if hint else ""
    if watch:
        _watch(number, found, check, out, language, hint_text)
    elif check is not None:
        _check(found, check, language, hint_text)
    else:
        # A hint alone writes no file.
        if out is not None or not hint:
            _write(number, found, out, language)
        _say_hint(hint_text)


def _check_nothing_else(flags: Mapping[str, bool]) -> None:
    """Raise ArgumentError if an option needs an exercise and none is given."""
    for flag, is_given in flags.items():
        if is_given:
            raise ArgumentError(
                "exercise", f"{flag} needs the number of an exercise", f"regard learn 1 {flag}"
            )


def _answer(exercise: str | None, flags: Mapping[str, bool], language: str) -> None:
    from regard.learn.questions import answer_questions

    if exercise is not None:
        raise ArgumentError("questions", "the questions belong to no exercise", "leave the exercise away")
    for flag, is_given in flags.items():
        if is_given:
            raise ArgumentError("questions", f"the questions have no {flag}", f"leave {flag} away")
    answer_questions(language, typer.echo)


def _list(language: str) -> None:
    from regard.learn.bank import EXERCISES
    from regard.learn.words import Words

    for number, one in enumerate(EXERCISES, start=1):
        typer.echo(f"{number:3}  {one.name:22}{one.title.say(language)}")
    words = Words(
        "\nregard learn 1 writes the first one as a file to fill in. regard learn --questions answers three questions.",
        "\nregard learn 1 会把第一个练习写成一个待填写的文件。regard learn --questions 回答三个思考题。",
    )
    typer.echo(words.say(language))


def _write(number: int, exercise: Exercise, out: Path | None, language: str) -> Path:
    from regard.learn.files import write_exercise
    from regard.learn.words import Words

    path = write_exercise(number, exercise, language, out)
    typer.echo(exercise.task.say(language) + "\n")
    words = Words(
        "Written to {path}. Fill it in, then: regard learn {number} --check {path}",
        "已写入 {path}。填写之后运行：regard learn {number} --check {path}",
    )
    typer.echo(words.say(language, path=path, number=number))
    return path


def _wrapped(text: str) -> str:
    """Break long lines between words if the output is a terminal."""
    if not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size().columns
    lines = []
    for line in text.splitlines():
        indent = "  " if line.startswith(("- ", "  ")) else ""
        # Lines of a file and numbers in columns stay as they are. A terminal breaks Chinese anywhere by itself.
        wrap = (
            len(line) > width and not line.startswith("  ") and not any(letter > "\u2e80" for letter in line)
        )
        lines += (
            textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False) if wrap else [line]
        )
    return "\n".join(lines)


def _say_hint(hint: str) -> None:
    if hint:
        typer.echo(hint)


def _check(exercise: Exercise, path: Path, language: str, hint: str) -> None:
    """Check a file, print the verdict and the hint, and leave with exit code 1 if the file is wrong."""
    from regard.learn.check import check_file

    verdict = check_file(exercise, path, language=language)
    typer.echo(_wrapped(verdict.text))
    _say_hint(hint)
    if not verdict.right:
        raise typer.Exit(1)


def _watch(
    number: int, exercise: Exercise, check: Path | None, out: Path | None, language: str, hint: str
) -> None:
    """Print the hint, then check a file at each save.

    If no file is named, that of the exercise is written if there is none.
    """
    from regard.learn.check import Verdict, check_file
    from regard.learn.files import file_name, watch
    from regard.learn.words import Words

    path = check or out or Path(file_name(number, exercise))
    if check is not None and not check.is_file():
        raise FileError(f"{check} is not there: write it with  regard learn {number}", argument="check")
    if not path.exists():
        _write(number, exercise, path, language)
    _say_hint(hint)
    words = Words("Watching {path}. Ctrl-C ends it.", "正在监视 {path}。按 Ctrl-C 结束。")
    typer.echo(words.say(language, path=path))

    def show(verdict: Verdict) -> None:
        typer.echo("\n" + _wrapped(f"{time.strftime('%H:%M:%S')}  {verdict.text}"))

    watch(path, lambda: check_file(exercise, path, language=language), show)
