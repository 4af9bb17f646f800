"""``regard encode`` and ``regard similar``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from regard.cli.streams import DEVICE, Output, check_out, input_chunks, predict_stream
from regard.errors import ArgumentError, renamed

__all__ = ["encode", "similar"]

MODEL = typer.Option(
    None,
    "--model",
    help="A model's name or folder, also of BERT, RoBERTa or DistilBERT.",
    show_default="minilm, where its package is installed",
)
BATCH = typer.Option(None, "--batch-size", min=1, help="Texts encoded together.", show_default="32")
ARRAYS = (".npy", ".safetensors")


def encode(
    text: list[str] = typer.Argument(
        None, help="Texts; or use --file, or pipe lines in.", show_default=False
    ),
    model: str = MODEL,
    file: Path = typer.Option(None, "--file", help="Encode the lines of a file ('-' for standard input)."),
    out: Path = typer.Option(
        None, "--out", help="Write the vectors to a .npy, .safetensors or .jsonl file instead of the screen."
    ),
    batch_size: int = BATCH,
    attention: bool = typer.Option(False, "--attention", help="Draw the attention between the words."),
    save_attention: Path = typer.Option(
        None, "--save-attention", help="Save that picture: .png, .svg, .pdf or .html; more texts, more files."
    ),
    look: bool = typer.Option(False, "--look", help="Open all attention of the model in the viewer."),
    device: str = DEVICE,
) -> None:
    """Give the vector of each text, of the lines of a file or of a pipe, as JSON lines or as one array."""
    title = "Attention between the words, last layer, mean of the heads"
    array = out is not None and out.suffix.lower() in ARRAYS
    asked = {"attention": attention, "save_attention": save_attention, "look": look}
    for name, value in asked.items():
        if array and value:
            raise ArgumentError(name, f"of no use with {out}, which holds vectors only", "leave it out")
    output = Output(False, False, attention, save_attention, look, title)
    chunks = input_chunks(text, file, verb="encode", batch_size=batch_size)
    check_out(out, file, "encode")
    encoder = _loaded(model, device)
    told = _Told(encoder.longest)

    def predict(texts: list[str], _first: int) -> list[Any]:
        return told.count(encoder.encode(texts, batch_size=batch_size))

    if array and out is not None:
        _write_array(out, chunks, predict)
    else:
        predict_stream(encoder, chunks, predict, output, out)
    told.report()


def similar(
    query: str = typer.Argument(..., help="The text to look for."),
    file: Path = typer.Option(None, "--file", help="The lines to search ('-' for standard input)."),
    top: int = typer.Option(5, "--top", min=1, help="How many lines to show, the nearest first."),
    model: str = MODEL,
    batch_size: int = BATCH,
    device: str = DEVICE,
    as_json: bool = typer.Option(False, "--json", help="One JSON object in each line."),
) -> None:
    """Find the lines of a file that are nearest to a text, with the cosine of their vectors."""
    if not query.strip():
        raise ArgumentError("query", "there is nothing to look for", "give a text")
    chunks = input_chunks(None, file, verb="search", batch_size=batch_size)
    output = Output(as_json)
    encoder = _loaded(model, device)
    with renamed(path="file"):
        found = encoder.similar(query, _lines(chunks), top=top, batch_size=batch_size)
    if not found:
        raise ArgumentError("file", "there is no line to search", "name a file with texts")
    for one in found:
        for line in output.lines(encoder, one):
            typer.echo(line)


def _loaded(model: str | None, device: str | None) -> Any:
    from regard.tasks import find_task

    task = find_task("encode")
    return task.load(task.find(model, {}), device)


def _lines(chunks: Iterable[list[str]]) -> Iterator[str]:
    for chunk in chunks:
        yield from chunk


class _Told:
    """Counts texts that were longer than the model reads, and says so once at the end."""

    def __init__(self, longest: int):
        self.longest, self.texts, self.cut = longest, 0, 0

    def count(self, found: list[Any]) -> list[Any]:
        self.texts += len(found)
        self.cut += sum(one.cut_off for one in found)
        return found

    def report(self) -> None:
        if self.cut:
            told = f"{self.cut} of {self.texts} texts have more than {self.longest} tokens: their beginning was read"
            print(told, file=sys.stderr)


def _write_array(out: Path, chunks: Iterable[list[str]], predict: Any) -> None:
    """Write the vectors of all texts as one array (n, m) of float32, under the name ``vectors`` in safetensors."""
    import numpy as np

    from regard.files import write_atomically

    with renamed(path="file"):
        rows = [one.vector for chunk in chunks for one in predict(chunk, 0)]
    if not rows:
        raise ArgumentError("file", "there is nothing to encode", "name a file with texts")
    vectors = np.stack(rows)  # (n,m)

    def write(path: Path) -> None:
        if out.suffix.lower() == ".npy":
            with open(path, "wb") as stream:
                np.save(stream, vectors)
        else:
            from safetensors.numpy import save_file

            save_file({"vectors": vectors}, path)

    with renamed(path="out"):
        write_atomically(out, write)
    print(f"{out}: {len(vectors):,} vectors of {vectors.shape[1]} numbers", file=sys.stderr)
