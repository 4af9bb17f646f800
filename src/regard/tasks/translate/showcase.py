"""Sentences that show what a translator can do, and are therefore never trained on."""

from __future__ import annotations

from pathlib import Path

__all__ = ["everyday_sentences"]


def everyday_sentences() -> list[str]:
    """Return fifty English sentences, whose translations stand in the card of a translator."""
    return (Path(__file__).parent / "everyday.txt").read_text(encoding="utf-8").splitlines()
