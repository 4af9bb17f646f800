"""``regard models`` and ``regard pack``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from regard.cli.streams import AS_JSON
from regard.errors import ArgumentError

__all__ = ["models", "pack"]


def models(as_json: bool = AS_JSON) -> None:
    """List the models that are installed, and those in the folders that REGARD_MODELS names."""
    from regard.tasks import installed_models

    found = installed_models()
    if not found and not as_json:
        typer.echo("no models are installed: train one with `regard train`")
    wide = max((len(one.name) for one in found), default=0)
    for one in found:
        size = one.bytes / 1e6
        if as_json:
            languages = dict(zip(("from", "to"), one.languages, strict=True)) if any(one.languages) else {}
            values = {"name": one.name, "task": one.task, **languages, "megabytes": round(size, 1)}
            others = {"instead_of": [str(path) for path in one.instead_of]} if one.instead_of else {}
            typer.echo(json.dumps({**values, "folder": str(one.folder), **others}, ensure_ascii=False))
        else:
            parts = [one.task, " to ".join(filter(None, one.languages)), one.kind, f"{size:.1f} MB"]
            instead = f"  in {one.folder}, not {one.others}" if one.instead_of else ""
            typer.echo(f"{one.name:{wide}}  {'  '.join(filter(None, parts))}{instead}")


def pack(
    run: Path = typer.Argument(..., help="The folder of a training run, or of a model."),
    out: Path = typer.Option(..., "--out", help="The folder to write."),
    task: str = typer.Option(None, "--task", help="module:Class, for a task of your own."),
    dtype: str = typer.Option(
        "float16", "--dtype", help="float16, bfloat16, float32, or int8, int6, int5, int4."
    ),
    vocabulary_size: int = typer.Option(
        None,
        "--vocabulary-size",
        help="Keep so many pieces of the vocabulary, the most frequent ones (answer with --start).",
    ),
    license: str = typer.Option("", "--license", help="The licence, for the card."),
    data: str = typer.Option("", "--data", help="A description of the data, for the card."),
    notes: str = typer.Option("", "--notes", help="The limits of the model, for the card."),
    preparation: str = typer.Option("", "--preparation", help="Commands to run before the training."),
    result: list[str] = typer.Option([], "--result", help="A line of the card's table: NAME=RESULT."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace a model that is in the folder."),
) -> None:
    """Make a trained model ready to be given away, with small weights and a card."""
    from regard.tasks import pack as make

    pairs = []
    for one in result:
        name, sign, value = one.partition("=")
        if not sign:
            raise ArgumentError("result", f"expected NAME=RESULT, got {one!r}")
        pairs.append((name, value))
    facts: dict[str, Any] = {"license": license, "data": data, "notes": notes, "preparation": preparation}
    sizes: dict[str, Any] = {"dtype": dtype, "vocabulary_size": vocabulary_size}
    make(run, out, task=task, results=pairs, overwrite=overwrite, **sizes, **facts)
    size = sum(path.stat().st_size for path in out.iterdir() if path.is_file())
    typer.echo(f"{out}: {size / 1e6:.1f} MB")
