"""``regard tour``."""

from __future__ import annotations

from pathlib import Path

import typer

__all__ = ["tour"]


def tour(
    out: Path = typer.Option(
        Path("regard-tour"), "--out", help="The folder for the pictures; made if missing."
    ),
) -> None:
    """Explain attention with a worked example, and draw self-, cross- and causal attention."""
    from regard.learn.tour import run

    run(out)
