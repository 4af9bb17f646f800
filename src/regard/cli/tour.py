"""``regard tour``."""

from __future__ import annotations

from pathlib import Path

import typer

__all__ = ["tour"]


def tour(
    out: Path = typer.Option(
        Path("regard-tour"), "--out", help="The folder for the page and the pictures; made if missing."
    ),
    quick: bool = typer.Option(False, "--quick", help="Leave out the training: half a minute, not three."),
    language: str = typer.Option(
        None, "--language", help="en or zh.", show_default="that of the locale, else en"
    ),
    open_browser: bool = typer.Option(
        True, "--open/--no-open", help="Open the page in the browser, if there is a screen."
    ),
) -> None:
    """See what attention is and what Regard does, from a worked example to a trained translator."""
    from regard.cli.view import show_in_browser
    from regard.learn.tour import run

    path = run(out, quick=quick, language=language)
    if open_browser:
        show_in_browser(path)
