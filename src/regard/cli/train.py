"""``regard train …``."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import typer

from regard.cli.options import with_settings
from regard.errors import Interrupted

__all__ = ["train"]

train = typer.Typer(
    help="Train a model on your files, or on the corpus that comes with Regard.", no_args_is_help=True
)


def translate(
    settings: dict[str, Any],
    out: Path = typer.Option(Path("runs/translate"), "--out", help="The folder of the run."),
    resume: bool = typer.Option(False, "--resume", help="Go on from the newest checkpoint of the folder."),
) -> None:
    """Train a translator; without data, on the embedded corpus.

    The best model is in the folder's best/; use it with `regard translate --model FOLDER`. The same command under
    torchrun trains with many processes. A file with options is named with --options FILE.
    """
    from regard.tasks.translate import (
        TranslationSettings,
        resume_translator,
        train_translator,
        with_defaults,
    )

    if resume:
        outcome = resume_translator(out, settings)
    else:
        outcome = train_translator(TranslationSettings(**with_defaults(settings)), out)
    if os.environ.get("RANK", "0") != "0":  # one of several processes: the first one speaks
        return
    numbers = ", ".join(f"{name} {value:.2f}" for name, value in outcome.best.items())
    if outcome.stopped == "interrupted" and outcome.step == 0:
        told = "interrupted before the first step: there is nothing to save yet"
        raise Interrupted(told, outcome.signal)
    if outcome.stopped == "interrupted":
        command = f"regard train translate --resume --out {shlex.quote(str(out))}"
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            command = f"torchrun … -m {command}"
        told = f"interrupted at step {outcome.step} and saved: go on with  {command}"
        raise Interrupted(told, outcome.signal)
    typer.echo(f"{outcome.stopped} after {outcome.step} steps, {outcome.seconds / 60:.1f} minutes: {numbers}")
    typer.echo(f"the best model is in {out / 'best'}")


def _register() -> None:
    from regard.tasks.translate.settings import TranslationSettings

    train.command("translate")(with_settings(TranslationSettings, translate))


_register()
