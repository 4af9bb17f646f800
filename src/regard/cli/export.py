"""``regard export``."""

from __future__ import annotations

from pathlib import Path

import typer

__all__ = ["export"]


def export(
    model: str = typer.Argument(..., help="The name of an installed model, or the folder of a model or run."),
    out: Path = typer.Option(..., "--out", help="The folder to write; made if missing."),
    format: str = typer.Option(
        "onnx", "--format", help="onnx, for onnxruntime and others, or torch.export, for torch.export.load."
    ),
    task: str = typer.Option(None, "--task", help="module:Class, for a model of a task of your own."),
) -> None:
    """Write a model as graphs that run without Regard, and check that they give the same results."""
    from regard.errors import renamed
    from regard.exporting import export as write
    from regard.tasks import load

    predictor = load(model, task=task, device="cpu")
    with renamed(path="out"):
        files = write(predictor, out, format=format)
    for file in files:
        typer.echo(str(file))
    typer.echo(str(out / "export.json"))
