"""Readers of questions about contexts, from SQuAD's JSON, JSON lines and Hugging Face data sets.

>>> row = {"question": "Who sat?", "context": "The cat sat.", "answers": [{"text": "The cat", "answer_start": 0}]}
>>> question = question_of(row, "line 1")
>>> question.answers[0].text, question.context[slice(*question.answers[0].span)]
('The cat', 'The cat')
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, NamedTuple

from regard.errors import ArgumentError, FileError, UnknownNameError, option
from regard.text.bad_rows import BadRowError, BadRows, Skipped
from regard.text.huggingface_datasets import rows_of
from regard.text.lines import Line, check_readable, lines_of, name_of, whole_text
from regard.text.pair_hashes import Hashes, hash_of

__all__ = ["Question", "ReferenceAnswer", "question_of", "read_questions"]

_FORMATS = {".json": "squad", ".jsonl": "jsonl", ".ndjson": "jsonl"}
LONGEST_CONTEXT = 2_000_000  # characters


class ReferenceAnswer(NamedTuple):
    """An answer that a person gave, and the character ``start`` of the context at which it begins.

    ``occurrences`` is above 1 if the text of the answer occurs so many times from ``start`` on and it is not known
    which is meant.
    """

    text: str
    start: int
    occurrences: int = 1

    @property
    def span(self) -> tuple[int, int]:
        """The index of the first character of the answer in the context, and the index after its last."""
        return self.start, self.start + len(self.text)


@dataclass(frozen=True)
class Question:
    """A question about a context.

    ``answers`` is empty if the context does not answer the question, or if the answers are not known. ``id`` is the
    name of the question in its file, and ``article`` the title of the article that the context is a part of. Both are
    empty if the file has none.
    """

    question: str
    context: str
    answers: tuple[ReferenceAnswer, ...] = ()
    id: str = ""
    article: str = ""

    @property
    def texts(self) -> list[str]:
        """The texts of the answers."""
        return [answer.text for answer in self.answers]

    def spans(self) -> list[tuple[int, int]]:
        """Return the distinct character spans of the answers in the context, in the order of the answers.

        All occurrences of an answer count where it is not known which of them is meant.
        """
        found: list[tuple[int, int]] = []
        for answer in self.answers:
            found.append(answer.span)
            start = answer.start
            for _ in range(answer.occurrences - 1):
                start = self.context.find(answer.text, start + 1)
                if start < 0:
                    break
                found.append((start, start + len(answer.text)))
        return list(dict.fromkeys(found))


def read_questions(
    source: str | os.PathLike,
    *,
    format: str | None = None,
    split: str = "train",
    config: str | None = None,
    skip_bad_rows: bool = False,
    skipped: Skipped | None = None,
) -> Iterator[Question]:
    """Yield the questions of a file, of standard input (``-``) or of a Hugging Face data set (``hf:…``).

    - ``squad`` is the JSON of SQuAD 1.1 and 2.0, ``{"data": [{"title", "paragraphs": [{"context", "qas"}]}]}``.
    - ``jsonl`` is an object in each line, with ``question``, ``context`` and ``answers``. The answers are a list of
      ``{"text", "answer_start"}``, or ``{"text": [...], "answer_start": [...]}`` as in data sets of Hugging Face.

    The format is known by the name of the file (``.json`` or ``.jsonl``, each also with ``.gz``) or given as
    ``format``. Standard input is ``jsonl`` by default. ``split`` and ``config`` are those of a Hugging Face data set.

    Bad rows raise FileError at the end of the file, which names the first of them. With ``skip_bad_rows`` they are left
    out and counted in ``skipped``. A source without a single question raises FileError too. Questions with the id of
    an earlier question give a warning.
    """
    bad = BadRows(skipped if skipped is not None else Skipped(), skip=skip_bad_rows, argument="source")
    kind = _format_of(source, format)
    if kind != "hf":
        check_readable("source", source)
    if kind == "squad":
        rows = _squad_rows(source)
    elif kind == "jsonl":
        rows = _json_lines(lines_of("source", source), bad)
    else:
        rows = rows_of(os.fspath(source)[3:], split=split, config=config)
    return _checked(rows, name_of(source), bad)


def question_of(row: Any, place: str, *, answered: bool = True) -> Question:
    """Return the question of a JSON object with question, context and answers.

    ``place`` is the file and line of the row. A bad row raises FileError, which names it. With ``answered=False`` the
    row needs no answers, and those that it has are ignored.
    """
    try:
        return _question(row, answered)
    except BadRowError as error:
        raise FileError(f"{_place(row, place)}: {error}") from None


def _place(row: Any, place: str) -> str:
    """Return the place of a row with the id of its question, if it has one."""
    name = row.get("id") if isinstance(row, dict) else None
    return f"{place}, question {name}" if isinstance(name, str) and name else place


def _question(row: Any, answered: bool) -> Question:
    if not isinstance(row, dict):
        raise BadRowError(f"expected an object, got {json.dumps(row, default=str):.40}")
    name, title = row.get("id"), row.get("title")
    question, context = _text(row, "question"), _text(row, "context")
    if len(context) > LONGEST_CONTEXT:
        told = f"the context has {len(context):,} characters, expected {LONGEST_CONTEXT:,} or fewer"
        raise BadRowError(f"{told}: cut it into parts")
    answers: tuple[ReferenceAnswer, ...] = ()
    if answered and row.get("is_impossible") is not True:
        answers = tuple(_answers(row.get("answers"), context))
    return Question(question, context, answers, str(name or ""), title if isinstance(title, str) else "")


def _text(row: dict[str, Any], name: str) -> str:
    """Return the text of the field ``name``, or raise BadRowError if it is missing, empty or not text."""
    if name not in row:
        raise BadRowError(f"{name!r} is missing: the keys are {', '.join(map(str, row)) or 'none'}")
    value = row[name]
    if not isinstance(value, str):
        raise BadRowError(f"{name!r} is not text, but {json.dumps(value, default=str):.40}")
    if not value.strip():
        raise BadRowError(f"the {name} is empty")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadRowError(f"{name!r} holds half of a surrogate pair: correct its \\u…") from None
    return value


def _answers(value: Any, context: str) -> Iterator[ReferenceAnswer]:
    if value is None:
        raise BadRowError("'answers' is missing: expected a list, empty where there is no answer")
    if isinstance(value, dict):  # lists of texts and starts
        texts, starts = value.get("text"), value.get("answer_start")
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise BadRowError("'answers' needs lists 'text' and 'answer_start' of the same length")
        value = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
    if not isinstance(value, list):
        raise BadRowError(f"'answers' is not a list, but {json.dumps(value, default=str):.40}")
    for answer in value:
        yield _answer(answer, context)


def _answer(value: Any, context: str) -> ReferenceAnswer:
    if not isinstance(value, dict) or "text" not in value or "answer_start" not in value:
        told = f"an answer needs 'text' and 'answer_start', got {json.dumps(value, default=str):.60}"
        raise BadRowError(f"{told}")
    text, start = _text(value, "text"), value["answer_start"]
    if not isinstance(start, int) or isinstance(start, bool) or start < 0:
        raise BadRowError(f"'answer_start' is not a number from 0, but {start!r}")
    if context[start : start + len(text)] != text:
        there = context.find(text)
        fix = f"it begins at {there}" if there >= 0 else "it is nowhere in the context"
        found = context[start : start + len(text)]
        raise BadRowError(f"the answer {text!r:.60} is not at {start}, where {found!r:.60} is: {fix}")
    count = value.get("occurrences", 1)
    known = isinstance(count, int) and not isinstance(count, bool) and count >= 1
    return ReferenceAnswer(text, start, count if known else 1)


# -- the formats -----------------------------------------------------------------------------------------------------

Row = tuple[str, Any]  # where it stands, and the object


def _format_of(source: str | os.PathLike, format: str | None) -> str:
    name = os.fspath(source)
    if format is not None and format not in ("squad", "jsonl"):
        raise UnknownNameError("format", format, ("squad", "jsonl"))
    if name.startswith("hf:"):
        if format is not None:
            raise ArgumentError("format", f"of no use with {name}, which is no file", "leave it out")
        return "hf"
    if format or name == "-":
        return format or "jsonl"
    suffix = PurePath(name.removesuffix(".gz")).suffix.lower()
    if suffix not in _FORMATS:
        fix = f"say it with {option('format')}, squad (SQuAD's JSON) or jsonl (an object in each line)"
        raise ArgumentError("format", f"cannot be told from the name {name}", fix)
    return _FORMATS[suffix]


def _squad_rows(source: str | os.PathLike) -> Iterator[Row]:
    """Yield the place and the object of each question of a file in SQuAD's JSON.

    The context and the title are added to each object.
    """
    name = name_of(source)
    for article_number, article in enumerate(_items(_document(source), "data", name), start=1):
        title = article.get("title") if isinstance(article, dict) else None
        place = f"{name}, article {title if isinstance(title, str) and title else article_number}"
        for number, paragraph in enumerate(_items(article, "paragraphs", place), start=1):
            inner = f"{place}, paragraph {number}"
            for qa_number, question in enumerate(_items(paragraph, "qas", inner), start=1):
                named = isinstance(question, dict) and isinstance(question.get("id"), str) and question["id"]
                at = inner if named else f"{inner}, question {qa_number}"
                if not isinstance(question, dict):
                    yield at, question
                    continue
                common = {"title": title} | (
                    {"context": paragraph["context"]} if "context" in paragraph else {}
                )
                yield at, common | question


def _document(source: str | os.PathLike) -> Any:
    """Read a whole file as one JSON value, or raise FileError if it is empty or not JSON."""
    text, name = whole_text("source", source), name_of(source)
    if not text.strip():
        raise FileError(f"{name} is empty: expected questions", argument="source")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{name}, line {error.lineno}, column {error.colno}"
        hint = (
            f": for an object in each line say {option('format', 'jsonl')}"
            if error.msg == "Extra data"
            else ""
        )
        raise FileError(f"{place}: not JSON, or cut short: {error.msg}{hint}", argument="source") from None
    except RecursionError:
        raise FileError(f"{name}: not SQuAD's JSON: nested too deeply", argument="source") from None


def _items(value: Any, key: str, place: str) -> list[Any]:
    """Return the list under a key of an object in SQuAD's JSON, or raise FileError if there is none."""
    if not isinstance(value, dict):
        raise FileError(f"{place}: expected an object with {key!r}, got {json.dumps(value):.40}")
    if key not in value:
        told = f"{key!r} is missing: the keys are {', '.join(value) or 'none'}"
        raise FileError(f"{place}: {told}: expected SQuAD's JSON, data, paragraphs and qas")
    if not isinstance(value[key], list):
        raise FileError(f"{place}: {key!r} is not a list, but {json.dumps(value[key]):.40}")
    return value[key]


def _json_lines(lines: Iterator[Line], bad: BadRows) -> Iterator[Row]:
    for line in lines:
        if line.text is None:
            bad.add(line.place, line.problem or "too long to read: is there an object in each line?")
        elif line.text.strip():
            try:
                value = json.loads(line.text)
            except (ValueError, RecursionError) as error:
                bad.add(line.place, f"not JSON: {error}: expected one object a line")
                continue
            yield line.place, value


def _checked(rows: Iterable[Row], name: str, bad: BadRows) -> Iterator[Question]:
    """Yield the questions of rows, and warn at their end if some have the id of an earlier question."""
    kept = repeated = 0
    first, ids = "", Hashes()
    for place, row in rows:
        try:
            question = _question(row, True)
        except BadRowError as error:
            bad.add(_place(row, place), str(error))
            continue
        if question.id and not ids.add(hash_of(question.id, "")):
            repeated += 1
            first = first or f"{place}, {question.id!r:.60}"
        if not bad.failed:
            kept += 1
            yield question
    bad.check()
    if repeated:
        many = "1 question has" if repeated == 1 else f"{repeated:,} questions have"
        warnings.warn(f"{many} the id of an earlier question (the first: {first})", stacklevel=2)
    if not kept:
        told = f"there is no question to use in {name}: {bad.skipped}" if bad.number else f"{name} is empty"
        raise FileError(f"{told}: expected questions with contexts", argument="source")
