"""The rows that a model is measured on, and a file of its predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from regard.errors import ArgumentError, option, renamed
from regard.files import check_writable, write_atomically
from regard.tasks.pairs import Pair, parsed_columns
from regard.tasks.sampling import sample
from regard.tasks.settings import EvaluationSettings
from regard.text import Skipped, read_pairs

__all__ = ["check_out", "rows_to_measure", "scores_as_json", "write_predictions"]


def scores_as_json(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of the first model, with those of the others under ``compared``.

    ``scores`` are those of each model by its name, with a method ``to_json``.
    """
    (name, first), *others = scores.items()
    values = {"model": name, **first.to_json()}
    return values | ({"compared": {name: one.to_json() for name, one in others}} if others else {})


def rows_to_measure(
    options: EvaluationSettings,
    skipped: Skipped | None = None,
    *,
    embedded: Callable[[], Iterable[Pair]] | None = None,
    **reading: Any,
) -> list[Pair]:
    """Return the rows of the data that the options name, or a sample of them.

    ``embedded`` gives the rows to measure on if no data is named. ``reading`` are further arguments of
    :func:`regard.text.read_pairs`, such as ``fields``. No row is left out for its length. Rows that are left out
    for other reasons are counted in ``skipped``, and are an error if the predictions are to be written line by line.
    """
    if options.data is None and embedded is None:
        raise ArgumentError("data", "not given", "name the data to measure on")
    skipped = skipped if skipped is not None else Skipped()
    rows = _read(options, skipped, reading) if embedded is None or options.data else embedded()
    if skipped.total and options.out is not None:
        problem = f"its lines would not be those of the data, of which cannot be measured: {skipped}"
        raise ArgumentError("out", problem, "take these rows out of the data first")
    return sample(rows, options.limit, options.seed or 0, key=lambda row: row[0])


def _read(options: EvaluationSettings, skipped: Skipped, reading: dict[str, Any]) -> list[Pair]:
    given = options.reader_settings()
    if given.get("target_data") == "-":
        problem = f"only {option('data')} can be read from standard input"
        raise ArgumentError("target_data", problem, "name a file")
    given["target"], given["config"] = given.pop("target_data", None), given.pop("dataset_config", None)
    given["columns"] = parsed_columns(given.pop("columns", None))
    place: Any = options.data
    with renamed(source="data", target="target_data"):
        return list(read_pairs(place, **given, max_words=None, skipped=skipped, **reading))


def check_out(options: Any, *names: str) -> None:
    """Raise an error if a file that is written after the measuring cannot be written."""
    for name in names or ("out",):
        if getattr(options, name) is not None:
            with renamed(path=name):
                check_writable(getattr(options, name))


def write_predictions(options: Any, lines: Iterable[str]) -> None:
    """Write one line for each row to the file that the options name as ``out``, if they name one."""
    if options.out is not None:
        text = "".join(line.replace("\n", " ") + "\n" for line in lines)
        write_atomically(options.out, lambda part: part.write_text(text, encoding="utf-8"))
