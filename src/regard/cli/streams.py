"""The common options and the common work of the commands that predict.

Texts come from the command line, from a file or from a pipe. They are answered in order, some lines at a time.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import typer

from regard.cli.environment import ClosedStream, say
from regard.errors import ArgumentError, renamed

__all__ = [
    "AS_JSON",
    "ATTENTION",
    "BATCH_SIZE",
    "BEAMS",
    "COVERAGE_PENALTY",
    "DEVICE",
    "FILE",
    "LENGTH_PENALTY",
    "LOOK",
    "MIN_LENGTH",
    "MODEL",
    "N_BEST",
    "OUT",
    "SAVE_ATTENTION",
    "TEXTS",
    "LongTexts",
    "Output",
    "beam_search",
    "check_out",
    "input_chunks",
    "is_file",
    "load_predictor",
    "numbered_path",
    "predict_texts",
]

# Lines of a stream that are answered together. They fill a batch, and the first answers come soon.
LINES_OF_A_STREAM = 64
# Lines of a file that are answered together.
LINES_OF_A_FILE = 1024
# What a command is given, for those that need more than a text.
EXAMPLES = {"answer": '"Who sat?" --context "The cat sat."', "summarize": "paper.txt"}
# The verbs of tasks that are named after their data, for messages.
VERBS = {"images": "classify"}
PICTURES = (".png", ".svg", ".pdf", ".html")
# Takes a predictor, some texts and the number of the texts before them, and returns the predictions.
Predict = Callable[[Any, list[Any], int], list[Any]]

TEXTS = typer.Argument(
    None, help="Texts. Without them, the lines of --file or of a pipe are read.", show_default=False
)
FILE = typer.Option(None, "--file", help="A file with a text in each line ('-' for standard input).")
MODEL = typer.Option(None, "--model", help="A model's name or folder.")
OUT = typer.Option(None, "--out", help="Write the results to a file instead of the screen.")
BEAMS = typer.Option(
    None, "--beams", help="The number of hypotheses in the beam search; 1 is fastest.", show_default="5"
)
LENGTH_PENALTY = typer.Option(
    None, "--length-penalty", help="Above 1 favours long results, below 1 short ones.", show_default="1"
)
COVERAGE_PENALTY = typer.Option(
    None, "--coverage-penalty", help="Penalty for source words without attention.", show_default="0"
)
N_BEST = typer.Option(
    1, "--n-best", help="The number of different results for each text, at most, shown with their scores."
)
MIN_LENGTH = typer.Option(0, "--min-length", help="The smallest number of tokens of a result.")
BATCH_SIZE = typer.Option(
    None,
    "--batch-size",
    min=1,
    help="Texts that are processed together. Fewer take less memory.",
    show_default="as many as have 3000 tokens",
)
ATTENTION = typer.Option(False, "--attention", help="Draw the attention to the words in the terminal.")
SAVE_ATTENTION = typer.Option(
    None, "--save-attention", help="Save that picture as .png, .svg, .pdf or .html, one file for each text."
)
LOOK = typer.Option(False, "--look", help="Open all attention of the model in the viewer.")
DEVICE = typer.Option(None, "--device", help="cpu, cuda, …", show_default="a GPU where there is one")
AS_JSON = typer.Option(False, "--json", help="One JSON object in each line.")


def beam_search(n_best: int, beams: int | None, **others: Any) -> dict[str, Any]:
    """Return the settings of a beam search that are not None, with as many beams as results or more.

    >>> beam_search(1, None, length_penalty=None), beam_search(8, None, length_penalty=0.5)
    ({'beams': 5}, {'beams': 8, 'length_penalty': 0.5})
    """
    given = {name: value for name, value in others.items() if value is not None}
    return {"beams": max(5, n_best) if beams is None else beams, **given}


def input_chunks(
    texts: list[str] | None, file: Path | None, *, verb: str, batch_size: int | None = None
) -> Iterable[list[str]]:
    """Return the texts of the line, or the lines of a file or of standard input, in lists.

    ``verb`` is the name of the command, for messages.
    """
    from regard.text import read_lines

    if texts and file:
        raise ArgumentError("file", "given together with texts", "give one of them")
    if texts:
        for text in texts:
            # An argument that is not UTF-8 raises UnicodeEncodeError, which the command line explains.
            text.encode()
            if is_file(text):
                say(f"{text} is read as a text: to {verb} the lines of the file, say --file {text}")
        return [texts]
    if file is None and (isinstance(sys.stdin, ClosedStream) or sys.stdin.isatty()):
        example = EXAMPLES.get(verb, '"Good morning."')
        fix = f"give a text: regard {verb} {example}"
        raise ArgumentError("text", f"nothing to {verb}", fix)
    from_stream = file is None or str(file) == "-"
    with renamed(path="file"):
        lines = read_lines("-" if from_stream else str(file))
    return _chunks(lines, max(LINES_OF_A_STREAM if from_stream else LINES_OF_A_FILE, batch_size or 0))


def is_file(text: str) -> bool:
    """Return whether a text is the name of a file."""
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or with a null character
        return False


def check_out(out: Path | None, read: Path | None, verb: str) -> None:
    """Raise an error if the output file cannot be written, or is the file that is read."""
    from regard.files import check_writable

    if out is None:
        return
    if read is not None and out.is_file() and read.is_file() and out.samefile(read):
        raise ArgumentError("out", f"{out} is the file to {verb}", "name another file")
    with renamed(path="out"):
        check_writable(out)


def numbered_path(path: Path, number: int) -> Path:
    """Return the file of a saved picture by its number, which all but the first have in their names.

    >>> numbered_path(Path("look.png"), 1).name, numbered_path(Path("look.png"), 2).name
    ('look.png', 'look-2.png')
    """
    return path.with_stem(path.stem + (f"-{number}" if number > 1 else ""))


class LongTexts:
    """Counts texts that the model did not read as a whole, and reports their number."""

    def __init__(self):
        self.texts, self.cut, self.problem = 0, 0, ""

    def count(self, predictions: list[Any], problem: str) -> list[Any]:
        """Count the predictions that are ``cut_off``, and return all. ``problem`` says what was not read."""
        self.texts, self.problem = self.texts + len(predictions), problem
        self.cut += sum(one.cut_off for one in predictions)
        return predictions

    def report(self) -> None:
        """Print how many texts were cut off, on standard error."""
        if self.cut:
            say(f"{self.cut:,} of {self.texts:,} {self.problem}")


@dataclass
class Output:
    """Shows predictions as text or JSON, and their attention in the terminal, in pictures or in the viewer."""

    as_json: bool = False
    scores: bool = False
    attention: bool = False
    picture: Path | None = None
    look: bool = False
    title: str = "Attention"
    drawn: int = field(default=0, init=False)  # the number of pictures so far

    def __post_init__(self):
        from regard.files import check_writable

        if self.picture is None:
            return
        if self.picture.suffix.lower() not in PICTURES:
            problem = f"expected a .png, .svg, .pdf or .html file, got {self.picture.name}"
            raise ArgumentError("save_attention", problem)
        with renamed(path="save_attention"):
            check_writable(self.picture)

    def check(self, predictor: Any) -> None:
        """Raise ArgumentError if attention is asked for and the model has none."""
        asked = {"attention": self.attention, "save_attention": self.picture, "look": self.look}
        for name, value in asked.items():
            if value and not predictor.attends:
                raise ArgumentError(name, "this model has none: it was trained without attention")

    def lines(self, predictor: Any, prediction: Any) -> Iterator[str]:
        """Yield the lines of one prediction, then draw its attention."""
        weights = self._weights(predictor, prediction)
        if self.as_json:
            yield json.dumps(prediction.to_json(weights if self.attention else None), ensure_ascii=False)
        else:
            yield from prediction.lines(scores=self.scores)
        self._show(predictor, prediction, weights)

    def show(self, predictor: Any, prediction: Any) -> None:
        """Draw the attention of a prediction whose text is shown already."""
        self._show(predictor, prediction, self._weights(predictor, prediction))

    def _weights(self, predictor: Any, prediction: Any) -> list[Any]:
        wanted = self.attention or self.picture is not None
        return predictor.word_weights(prediction) if wanted else []

    def _show(self, predictor: Any, prediction: Any, weights: list[Any]) -> None:
        for words in weights:
            self._draw(words)
        if self.picture is not None and not weights:
            say("there is no picture of an empty text")
        if self.look:
            self._look(predictor, prediction, weights)

    def _look(self, predictor: Any, prediction: Any, weights: list[Any]) -> None:
        """Open all attention of a prediction in the viewer."""
        from regard.cli.view import open_page, show_page
        from regard.tasks.word_pages import is_picture, save_word_weights

        found = weights or (predictor.word_weights(prediction) if hasattr(predictor, "pictures") else [])
        if not (found and is_picture(found[0])):
            show_page(predictor.attention(prediction), title=self.title)
            return
        with open_page() as path:
            save_word_weights(found[0], path, title=getattr(found[0], "title", self.title))

    def _draw(self, words: Any) -> None:
        from regard.tasks.word_pages import is_picture, is_text, mean_of_rows

        shown = words
        if self.attention and not self.as_json:
            from regard.terminal import draw_grids, draw_text, draw_weights

            if is_picture(words):
                draw_grids(words.weights, words.row_words, words.grid)
                words = None
            elif is_text(words):
                draw_text(words.text, words.spans, mean_of_rows(words.weights), unread=words.unread)
                for line in shown.lines() if hasattr(shown, "lines") else ():
                    print(line)
                words = getattr(words, "table", None)  # of the words around an answer
            if words is not None and words.column_words:
                marks = getattr(words, "marks", None)
                draw_weights(words.weights, words.row_words, words.column_words, marks=marks)
            elif words is not None:  # nothing was read
                print("  ".join([*words.row_words, *dict.fromkeys(words.marks)]))
            for note in getattr(shown, "notes", ()):
                print(note)
        if self.picture is not None and not shown.column_words:
            say(f"there is no picture of {' '.join(shown.row_words)!r}: the model did not read it")
        elif self.picture is not None:
            from regard.tasks.word_pages import save_word_weights

            self.drawn += 1
            path = numbered_path(self.picture, self.drawn)
            save_word_weights(shown, path, title=getattr(shown, "title", self.title))
            if self.drawn > 1:
                of = "attention to another picture" if is_picture(shown) else "picture of another text"
                say(f"the {of} is in {path}")


def load_predictor(task: str, model: str | None, device: str | None, **options: Any) -> Any:
    """Find a model of a task and load it. ``options`` choose a model where none is named, such as languages."""
    from regard.tasks import find_task

    found = find_task(task)
    return found.load(found.find(model, options), device)


def predict_texts(
    task: str,
    predict: Predict,
    chunks: Iterable[list[Any]],
    output: Output,
    *,
    model: str | None,
    device: str | None,
    out: Path | None,
    read: Path | None,
    noun: str = "texts",
    **options: Any,
) -> None:
    """Load a model, and write its predictions for all texts to the file ``out`` or to standard output.

    ``read`` is the file that the texts come from, if any. ``noun`` names the inputs, such as "pictures". ``options``
    are those of :func:`load_predictor`.
    """
    check_out(out, read, VERBS.get(task, task))
    if out is not None and output.picture is not None and out.absolute() == output.picture.absolute():
        raise ArgumentError("save_attention", f"{out} is the file of the results", "name another file")
    predictor = load_predictor(task, model, device, **options)
    output.check(predictor)
    if out is None:
        _write(predictor, chunks, predict, output, sys.stdout, noun)
        return
    from regard.files import write_atomically

    def write(path: Path) -> None:
        with open(path, "w", encoding="utf-8") as stream:
            _write(predictor, chunks, predict, output, stream, noun)

    with renamed(path="out"):
        write_atomically(out, write)


def _write(
    predictor: Any, chunks: Iterable[list[Any]], predict: Predict, output: Output, stream: Any, noun: str
) -> None:
    began, count, answered = time.perf_counter(), 0, 0
    with renamed(path="file"):
        for texts in chunks:
            predictions = predict(predictor, texts, count)
            for prediction in predictions:
                for line in output.lines(predictor, prediction):
                    print(line, file=stream)
            stream.flush()
            count, answered = count + len(texts), answered + len(predictions)
    if not count:
        say("the input is empty")
    seconds = time.perf_counter() - began
    if answered > 1:
        print(f"{answered} {noun} in {seconds:.1f} s, {answered / seconds:.1f} per second", file=sys.stderr)


def _chunks(lines: Iterable[str], most: int) -> Iterator[list[str]]:
    """Yield the lines that have arrived so far, so that slow lines are answered at once and fast ones in batches."""
    queue: Queue[str | Exception | None] = Queue(maxsize=4 * most)
    Thread(target=_fill, args=(queue, lines), daemon=True).start()
    ended = False
    while not ended:
        some = [queue.get()]
        while some[-1] is not None and len(some) < most and not queue.empty():
            some.append(queue.get())
        ended = some[-1] is None
        ready = [line for line in some if isinstance(line, str)]
        if ready:  # the lines before an error are answered before it is raised
            yield ready
        for one in some:
            if isinstance(one, Exception):
                raise one


def _fill(queue: Queue[str | Exception | None], lines: Iterable[str]) -> None:
    """Put the lines into the queue as they are read, and an error like a line."""
    try:
        for line in lines:
            queue.put(line)
    except Exception as error:
        queue.put(error)
    queue.put(None)
