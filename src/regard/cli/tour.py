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
    """Attention in five minutes: a worked example, then self-, cross- and causal attention drawn."""
    from regard.learn.tour import run

    run(out)
