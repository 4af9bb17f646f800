"""The command ``regard``: a small file for each group of commands; the help loads no torch."""

from regard.cli.main import main

__all__ = ["main"]
