"""``regard encode`` and ``regard similar``."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from regard.cli import streams
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
    text: list[str] = streams.TEXTS,
    model: str = MODEL,
    file: Path = streams.FILE,
    out: Path = typer.Option(
        None, "--out", help="Write the vectors to a .npy, .safetensors or .jsonl file instead of the screen."
    ),
    batch_size: int = BATCH,
    attention: bool = streams.ATTENTION,
    save_attention: Path = streams.SAVE_ATTENTION,
    look: bool = streams.LOOK,
    device: str = streams.DEVICE,
) -> None:
    """Print the vector of each text as a line of JSON, or write all of them to a file."""
    title = "Attention between the words, last layer, mean of the heads"
    array = out is not None and out.suffix.lower() in ARRAYS
    asked = {"attention": attention, "save_attention": save_attention, "look": look}
    for name, value in asked.items():
        if array and value:
            raise ArgumentError(name, f"of no use with {out}, which holds vectors only", "leave it out")
    output = streams.Output(False, False, attention, save_attention, look, title)
    chunks = streams.input_chunks(text, file, verb="encode", batch_size=batch_size)
    long_texts = streams.LongTexts()

    def predict(encoder: Any, texts: list[str], _first: int) -> list[Any]:
        problem = f"texts have more than {encoder.longest} tokens: only their beginning was read"
        return long_texts.count(encoder.encode(texts, batch_size=batch_size), problem)

    if array and out is not None:
        streams.check_out(out, file, "encode")
        encoder = streams.load_predictor("encode", model, device)
        total = sum(map(len, chunks)) if isinstance(chunks, list) else streams.counted_lines(file)
        done = streams.Done("texts", total)
        _write_array(out, streams.predicted(encoder, chunks, predict, batch_size, done), done)
    else:
        places: dict[str, Any] = {
            "model": model,
            "device": device,
            "batch_size": batch_size,
            "out": out,
            "read": file,
        }
        streams.predict_texts("encode", predict, chunks, output, **places)
    long_texts.report()


def similar(
    query: str = typer.Argument(..., help="The text to look for."),
    file: Path = typer.Option(None, "--file", help="The lines to search ('-' for standard input)."),
    top: int = typer.Option(5, "--top", min=1, help="How many lines to show, the nearest first."),
    model: str = MODEL,
    batch_size: int = BATCH,
    device: str = streams.DEVICE,
    as_json: bool = streams.AS_JSON,
) -> None:
    """Find the lines of a file that are nearest to a text, with the cosine of their vectors."""
    if not query.strip():
        raise ArgumentError("query", "there is nothing to look for", "give a text")
    chunks = streams.input_chunks(None, file, verb="search", batch_size=batch_size)
    output = streams.Output(as_json)
    encoder = streams.load_predictor("encode", model, device)
    done = streams.Done("lines", streams.counted_lines(file))

    def counted() -> Iterator[str]:
        for line in itertools.chain.from_iterable(chunks):
            yield line
            done.count(1)

    with renamed(path="file"), contextlib.closing(done.bar):
        found = encoder.similar(query, counted(), top=top, batch_size=batch_size)
    if not found:
        raise ArgumentError("file", "there is no line to search", "name a file with texts")
    for one in found:
        for line in output.lines(encoder, one):
            typer.echo(line)


def _write_array(out: Path, predictions: Iterable[list[Any]], done: streams.Done) -> None:
    """Write the vectors of all texts as one array (n, m) of float32, under the name ``vectors`` in safetensors."""
    import numpy as np

    from regard.files import write_atomically

    rows: list[Any] = []

    def write(path: Path) -> None:
        vectors = np.stack(rows[: done.number])  # (n,m)
        if out.suffix.lower() == ".npy":
            with open(path, "wb") as stream:
                np.save(stream, vectors)
        else:
            from safetensors.numpy import save_file

            save_file({"vectors": vectors}, path)

    with streams.kept(out, done, write):
        for some in predictions:
            rows += [one.vector for one in some]
    if not rows:
        raise ArgumentError("file", "there is nothing to encode", "name a file with texts")
    with renamed(path="out"):
        write_atomically(out, write)
    print(f"{out}: {len(rows):,} vectors of {len(rows[0])} numbers", file=sys.stderr)
