"""The command ``regard``, with a small file for each group of commands. The help loads no torch."""

from regard.cli.main import main

__all__ = ["main"]
