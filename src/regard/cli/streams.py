"""The common options and the common work of the commands that predict.

Texts come from the command line, from a file or from a pipe. They are answered in order, some lines at a time.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import typer

from regard.cli.environment import ClosedStream, say
from regard.errors import ArgumentError, Interrupted, RegardError, renamed

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
    "Done",
    "LongTexts",
    "Output",
    "Results",
    "beam_search",
    "check_out",
    "counted_lines",
    "input_chunks",
    "is_file",
    "kept",
    "load_predictor",
    "numbered_path",
    "predict_texts",
    "predicted",
    "write_results",
]

# Lines of a stream that are answered together. They fill a batch, and the first answers come soon.
LINES_OF_A_STREAM = 64
# Lines of a file that are answered together.
LINES_OF_A_FILE = 1024
# Inputs that are predicted together at first, which become more if they take less than so many seconds, and fewer if
# they take more. More are faster, and fewer are lost by Ctrl-C.
FIRST_INPUTS, SHORT, LONG = 64, 10.0, 60.0
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
    with renamed(path="out"):
        check_writable(out)
    for path in (out, partial_of(out)):
        if read is not None and path.is_file() and read.is_file() and path.samefile(read):
            problem = f"{path} is the file to {verb}"
            if path != out:
                problem += ", and would be replaced if the command is stopped"
            raise ArgumentError("out", problem, "name another file")


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
    batch_size: int | None = None,
    total: int | None = None,
    **options: Any,
) -> None:
    """Load a model, and write its predictions for all texts to the file ``out`` or to standard output.

    ``read`` is the file that the texts come from, if any. ``noun`` names the inputs, such as "pictures", of which at
    least ``batch_size`` are predicted together, and ``total`` their number where neither ``chunks`` nor ``read`` has
    it. ``options`` are those of :func:`load_predictor`.
    """
    check_out(out, read, VERBS.get(task, task))
    if out is not None and output.picture is not None and out.absolute() == output.picture.absolute():
        raise ArgumentError("save_attention", f"{out} is the file of the results", "name another file")
    predictor = load_predictor(task, model, device, **options)
    output.check(predictor)
    if total is None:
        total = sum(map(len, chunks)) if isinstance(chunks, list) else counted_lines(read)

    def write(results: Results) -> None:
        began, answered = time.perf_counter(), 0
        for predictions in predicted(predictor, chunks, predict, batch_size, results):
            for prediction in predictions:
                for line in output.lines(predictor, prediction):
                    print(line, file=results.stream)
            answered += len(predictions)
        if not results.number:
            say("the input is empty")
        seconds = time.perf_counter() - began
        if answered > 1:
            print(
                f"{answered} {noun} in {seconds:.1f} s, {answered / seconds:.1f} per second", file=sys.stderr
            )

    write_results(out, write, noun=noun, total=total)


def predicted(
    predictor: Any,
    chunks: Iterable[list[Any]],
    predict: Predict,
    batch_size: int | None,
    done: Done,
) -> Iterator[list[Any]]:
    """Yield the predictions of some inputs after the other, and count these inputs as done afterwards.

    More inputs are predicted together if they take a few seconds only, and fewer if they take long, but ``batch_size``
    at least.
    """
    least = batch_size or 1
    size = max(least, FIRST_INPUTS)
    with renamed(path="file"):
        for chunk in chunks:
            start = 0
            while start < len(chunk):
                some, began = chunk[start : start + size], time.perf_counter()
                yield predict(predictor, some, done.number)
                done.count(len(some))
                start, seconds = start + len(some), time.perf_counter() - began
                if seconds < SHORT and len(some) == size:
                    size *= 2
                elif seconds > LONG:
                    size = max(least, size // 2)


def counted_lines(file: Path | None) -> int | None:
    """Return the number of lines of a file, or None for a stream, a pipe and a file that cannot be read."""
    from regard.text.lines import lines_of

    if file is None or not file.is_file():
        return None
    try:
        return sum(1 for _ in lines_of("file", str(file)))
    except RegardError:  # it is raised again when the lines are read
        return None


class Done:
    """The number of inputs whose results are written, with a bar on standard error that has the time left.

    ``noun`` names the inputs, and ``total`` is their number if it is known. Without ``shown`` there is no bar.
    """

    def __init__(self, noun: str, total: int | None, *, shown: bool = True):
        from regard.training.batch_progress import CountBar

        self.noun, self.total, self.number = noun, total, 0
        self.bar = CountBar(total, noun, lines=False, wanted=shown)

    def count(self, number: int) -> None:
        """Note that ``number`` more inputs are done."""
        self.number += number
        self.bar.update(self.number)

    @property
    def written(self) -> bool:
        """Whether there is a result that is complete."""
        return self.number > 0

    def __str__(self) -> str:
        of = "" if self.total is None else f" of {max(self.total, self.number):,}"
        return f"{self.number:,}{of} {self.noun}"


class Results(Done):
    """The stream that results are written to, with the number of inputs whose results are complete.

    There is no bar where the results are seen in the terminal.
    """

    def __init__(self, stream: Any, noun: str, total: int | None):
        super().__init__(noun, total, shown=stream is not sys.stdout or not stream.isatty())
        self.stream = stream
        self.end = 0  # of the results that are complete, in bytes

    def count(self, number: int) -> None:
        """Flush the stream, and note that it has the results of ``number`` more inputs."""
        self.stream.flush()
        if self.stream is not sys.stdout and self.stream.seekable():
            self.end = self.stream.tell()
        super().count(number)

    @property
    def written(self) -> bool:
        """Whether there is a result that is complete."""
        return self.end > 0

    def copy(self, path: Path) -> None:
        """Write the results that are complete into another file."""
        self.stream.flush()
        self.stream.truncate(self.end)
        shutil.copyfile(self.stream.name, path)


def write_results(
    out: Path | None, write: Callable[[Results], None], *, noun: str, total: int | None
) -> None:
    """Call ``write`` with the results, which go to standard output or to the file ``out`` (see :func:`kept`)."""
    from regard.files import write_atomically

    if out is None:
        results = Results(sys.stdout, noun, total)
        with contextlib.closing(results.bar):
            write(results)
        return

    def save(path: Path) -> None:
        with open(path, "w", encoding="utf-8") as stream:
            results = Results(stream, noun, total)
            with kept(out, results, results.copy):
                write(results)

    with renamed(path="out"):
        write_atomically(out, save)


def partial_of(out: Path) -> Path:
    """Return the file of the results that were complete when the writing of ``out`` was stopped."""
    return out.with_name(f"{out.name}.partial")


@contextlib.contextmanager
def kept(out: Path, done: Done, save: Callable[[Path], object]) -> Iterator[None]:
    """Return a context manager that keeps what is done after an error or an interruption by Ctrl-C or SIGTERM.

    ``save`` writes it to the path of a file beside ``out``, with ``.partial`` after its name. The file ``out`` itself
    is replaced only after the block.
    """
    from regard.files import write_atomically

    with _sigterm_as_interrupt() as received, contextlib.closing(done.bar):
        try:
            yield
        except BaseException as error:
            told = "no result was complete"
            if done.written:
                # A full disk or a pipe keeps nothing, and then the first error counts.
                told = ""
                with contextlib.suppress(RegardError, OSError):
                    write_atomically(partial_of(out), save)
                    told = f"the results of {done} are in {partial_of(out)}"
            if isinstance(error, KeyboardInterrupt):
                unchanged = f", and {out} is as it was" if told and out.is_file() else ""
                message = f"interrupted: {told}{unchanged}" if told else "interrupted"
                raise Interrupted(message, received[0] if received else None) from None
            if done.written and told:
                say(told)
            raise


@contextlib.contextmanager
def _sigterm_as_interrupt() -> Iterator[list[int]]:
    """Return a context manager in which SIGTERM raises KeyboardInterrupt, and which gives the signals received.

    Python allows this in the main thread only. In other threads it does nothing.
    """
    received: list[int] = []

    def interrupt(number: int, frame: Any) -> None:
        received.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = signal.signal(signal.SIGTERM, interrupt) or signal.SIG_DFL
    try:
        yield received
    finally:
        signal.signal(signal.SIGTERM, before)


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
