"""Files to fill in, one for each exercise, and the check of a file at each save."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from regard.errors import FileError, UnknownNameError
from regard.learn.bank import EXERCISES
from regard.learn.check import Verdict
from regard.learn.exercise import Exercise
from regard.learn.words import Words

__all__ = ["file_name", "find_exercise", "text_to_fill_in", "watch", "write_exercise"]

# Seconds between two looks at a watched file.
PERIOD = 0.3

_HEAD = Words("Exercise {number}: {title}", "练习 {number}：{title}")
_FOOT = Words(
    "Check it:     regard learn {number} --check {file}\nA hint:       regard learn {number} --hint",
    "检查：regard learn {number} --check {file}\n提示：regard learn {number} --hint",
)
_EXISTS = Words(
    "{path} exists already and is not overwritten: check it with --check, or name another file with --out",
    "{path} 已经存在，不会被覆盖：用 --check 检查它，或用 --out 指定另一个文件",
)
_UNWRITABLE = Words("cannot write {path}: {reason}", "无法写入 {path}：{reason}")
_HERE = Words("Your code here.", "在这里写代码。")


def find_exercise(exercise: str) -> tuple[int, Exercise]:
    """Return the number and the exercise of a number or name, or raise UnknownNameError.

    >>> number, exercise = find_exercise("softmax")
    >>> number, exercise.function
    (1, 'softmax')
    """
    for number, one in enumerate(EXERCISES, start=1):
        if exercise in (str(number), f"{number:02}", one.name):
            return number, one
    known = [f"1 to {len(EXERCISES)}", *(one.name for one in EXERCISES)]
    raise UnknownNameError("exercise", exercise, known)


def file_name(number: int, exercise: Exercise) -> str:
    """Return the usual name of the file of an exercise."""
    return f"exercise_{number:02}_{exercise.name}.py"


def text_to_fill_in(number: int, exercise: Exercise, language: str, file: str) -> str:
    """Return the text of a file with the task as a comment and the function to fill in."""
    head = _HEAD.say(language, number=number, title=exercise.title.say(language))
    foot = _FOOT.say(language, number=number, file=file)
    paragraphs = [head, "", *exercise.task.say(language).splitlines(), "", *foot.splitlines()]
    comment = "\n".join(f"# {line}".rstrip() for line in paragraphs)
    body = exercise.start or f"    # {_HERE.say(language)}\n    ...\n"
    signature = f"def {exercise.function}({', '.join(exercise.arguments)}):"
    return f"{comment}\n\nimport numpy as np\n\n\n{signature}\n{body}"


def write_exercise(
    number: int, exercise: Exercise, language: str, out: str | os.PathLike[str] | None
) -> Path:
    """Write the file of an exercise and return its path. An existing file is never changed."""
    path = Path(file_name(number, exercise) if out is None else out)
    text = text_to_fill_in(number, exercise, language, str(path))
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise FileError(_EXISTS.say(language, path=path), argument="out") from None
    except OSError as error:
        reason = error.strerror or error
        raise FileError(_UNWRITABLE.say(language, path=path, reason=reason), argument="out") from error
    return path


def watch(path: Path, check: Callable[[], Verdict], show: Callable[[Verdict], None]) -> Verdict:
    """Check a file now and after each change, show each verdict, and return the first one that is right.

    Raises FileError if a file stays as it is and cannot be read twice.
    """
    seen: tuple[int, int, int] | None = None
    failed: tuple[int, int, int] | None = None
    while True:
        state = _state(path)
        # An editor may replace the file, so that for a moment there is none.
        if state is not None and state != seen:
            try:
                verdict = check()
            except FileError:
                # The moment without a file may also fall between the look and the check.
                if state == failed:
                    raise
                failed = state
            else:
                seen = state
                show(verdict)
                if verdict.right:
                    return verdict
        time.sleep(PERIOD)


def _state(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file is saved, or None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
