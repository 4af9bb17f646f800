"""``regard train …``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from regard.cli.options import read_option_file, with_settings

__all__ = ["train"]

train = typer.Typer(
    help="Train a model on your files, or on the corpus that comes with Regard.", no_args_is_help=True
)


def translate(
    settings: dict[str, Any],
    out: Path = typer.Option(Path("runs/translate"), "--out", help="The folder of the run."),
    options: Path = typer.Option(
        None, "--options", help="A YAML, TOML or JSON file with any of these options."
    ),
    resume: bool = typer.Option(False, "--resume", help="Go on from the newest checkpoint of the folder."),
) -> None:
    """Train a translator; without data, on the embedded corpus.

    The best model is in the folder's best/; use it with `regard translate --model FOLDER`. The same command under
    torchrun trains with many processes.
    """
    from regard.tasks.translate import DEFAULTS, TranslationSettings, settings_of_run, train_translator

    if resume:
        chosen = settings_of_run(out, settings | read_option_file(options, TranslationSettings))
    else:
        given = {**read_option_file(options, TranslationSettings), **settings}
        chosen = TranslationSettings(**{**({} if given.get("data") else DEFAULTS), **given})
    outcome = train_translator(chosen, out, resume=resume)
    if outcome is None:  # not the first of several processes
        return
    numbers = ", ".join(f"{name} {value:.2f}" for name, value in outcome.best.items())
    if outcome.stopped == "interrupted":
        print(
            f"interrupted at step {outcome.step} and saved: go on with  --resume --out {out}", file=sys.stderr
        )
        raise typer.Exit(130)
    typer.echo(f"{outcome.stopped} after {outcome.step} steps, {outcome.seconds / 60:.1f} minutes: {numbers}")
    typer.echo(f"the best model is in {out / 'best'}")


def _register() -> None:
    from regard.tasks.translate.settings import TranslationSettings

    train.command("translate")(with_settings(TranslationSettings, translate))


_register()
