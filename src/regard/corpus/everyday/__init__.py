"""Everyday phrases in English, French and Chinese, such as greetings, thanks, apologies and questions.

>>> phrases = everyday_phrases()
>>> phrases[0]
('Hello.', 'Bonjour.', '你好。')
"""

from __future__ import annotations

import functools
from pathlib import Path

__all__ = ["everyday_phrases"]


@functools.cache
def everyday_phrases() -> tuple[tuple[str, str, str], ...]:
    """Return the phrases of ``phrases.txt`` as (English, French, Chinese), one for each English wording."""
    lines = (Path(__file__).parent / "phrases.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split(" | ") for line in lines if line and not line.startswith("#")]
    return tuple(
        (wording, french, chinese) for several, french, chinese in rows for wording in several.split(" / ")
    )
