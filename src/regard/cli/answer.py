"""``regard answer``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

from regard.cli import streams
from regard.cli.environment import say
from regard.errors import ArgumentError, FileError, option, renamed

__all__ = ["answer"]


def answer(
    text: list[str] = typer.Argument(
        None,
        help="A question. Without one, JSON lines are read from a pipe.",
        show_default=False,
    ),
    question: str = typer.Option(None, "--question", help="The question."),
    context: str = typer.Option(None, "--context", help="The text that has the answer."),
    file: Path = typer.Option(
        None, "--file", "--context-file", help="A file with the text that has the answer."
    ),
    questions: Path = typer.Option(
        None, "--questions", help="A file of JSON lines with question and context ('-' for standard input)."
    ),
    model: str = streams.MODEL,
    top: int = typer.Option(
        1, "--top", min=1, help="The number of answers to show, the most probable first."
    ),
    threshold: float = typer.Option(
        None, "--threshold", help="Confidence below which no answer is given.", show_default="the model's own"
    ),
    out: Path = streams.OUT,
    batch_size: int = typer.Option(
        None, "--batch-size", min=1, help="Windows of a context that are read together.", show_default="32"
    ),
    attention: bool = streams.ATTENTION,
    save_attention: Path = streams.SAVE_ATTENTION,
    look: bool = streams.LOOK,
    device: str = streams.DEVICE,
    as_json: bool = streams.AS_JSON,
) -> None:
    """Answer a question with words of a text, each answer with its confidence."""
    title = "Attention of the question to each word of the context"
    output = streams.Output(as_json, top > 1, attention, save_attention, look, title)
    chunks = _asked(text, question, context, file, questions)
    options: dict[str, Any] = {"top": top, "threshold": threshold, "batch_size": batch_size}
    long_questions = streams.LongTexts()

    def predict(reader: Any, lines: list[Any], first: int) -> list[Any]:
        found = reader.answer(_parsed(lines, first), **options)
        return long_questions.count(found, "questions are too long: their end was not read")

    places: dict[str, Any] = {
        "model": model,
        "device": device,
        "batch_size": batch_size,
        "out": out,
        "read": questions or file,
    }
    with renamed(**({} if text or question else {"file": "questions"})):
        streams.predict_texts("answer", predict, chunks, output, **places)
    long_questions.report()


def _asked(
    text: list[str] | None,
    question: str | None,
    context: str | None,
    file: Path | None,
    questions: Path | None,
) -> Iterable[list[Any]]:
    """Return the questions of the command line with their context, or the JSON lines of a file or pipe."""
    asked = [*(text or []), *([question] if question is not None else [])]
    if not asked:
        for name, value in (("context", context), ("file", file)):
            if value is not None:
                fix = f'add {option("question")}, such as --question "Who wrote it?"'
                raise ArgumentError(name, "given without a question", fix)
        with renamed(file="questions"):
            return streams.input_chunks(None, questions, verb="answer")
    if questions is not None:
        raise ArgumentError("questions", "given together with a question", "give one of them")
    if (context is None) == (file is None):
        problem = (
            "given together with a file" if context is not None else "not given: a question needs a text"
        )
        raise ArgumentError("context", problem, f"give either {option('context')} or {option('file')}")
    if context is not None and streams.is_file(context):
        say(f"{context} is read as the text itself: to read the file, say --file {context}")
    passage = context if context is not None else _read(file)
    for name, values in (("question", asked), ("context" if context is not None else "file", [passage])):
        if not all(value.strip() for value in values):
            raise ArgumentError(name, "is empty")
    return [[{"question": one, "context": passage} for one in asked]]


def _read(file: Path | None) -> str:
    """Return the text of a file."""
    from regard.text.lines import check_readable, whole_text

    with renamed(path="file"):
        check_readable("path", str(file))
        return whole_text("path", str(file))


def _parsed(lines: list[Any], first: int) -> list[Any]:
    """Return the questions of JSON lines. ``first`` lines of the input are before them, for the number in an error."""
    from regard.text.questions import question_of

    found = []
    for number, line in enumerate(lines, start=first + 1):
        value = line
        if isinstance(line, str):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                problem = f"not JSON: {error}: expected an object with question and context in each line"
                raise FileError(f"line {number}: {problem}") from None
        found.append(question_of(value, f"line {number}", answered=False))
    return found
