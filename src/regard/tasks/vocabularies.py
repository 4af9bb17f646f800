"""The vocabulary of a run, learnt from a bounded number of its rows."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from regard.tasks.sampling import reservoir
from regard.tasks.settings import TokenSettings
from regard.text import Vocabulary, train_vocabulary
from regard.training.progress import Counted, in_terminal

__all__ = ["learn_vocabulary"]

# Rows that a vocabulary is learnt from, at most.
VOCABULARY_ROWS = 400_000


def learn_vocabulary(
    settings: TokenSettings,
    rows: Iterable[tuple[str, str]],
    sides: Sequence[int] = (0,),
    *,
    seed: int = 0,
    show: bool = False,
    specials: Sequence[str] = (),
    copyable: bool = False,
) -> Vocabulary:
    """Learn a vocabulary from the texts on some sides of the rows.

    ``specials`` are the names of further special tokens. ``copyable`` is that of
    :func:`regard.text.train_vocabulary`. Of more than 400,000 rows a random sample is used, so that
    memory does not grow with the data.
    """
    counted = Counted(rows, "rows read for the vocabulary", wanted=show)
    kept = reservoir(counted, VOCABULARY_ROWS, seed)
    if show and in_terminal():
        print("learning the vocabulary …", file=sys.stderr)
    texts = (row[side] for row in kept for side in sides)
    return train_vocabulary(
        settings.vocabulary,
        texts,
        settings.vocabulary_size,
        lowercase=settings.lowercase,
        specials=specials,
        copyable=copyable,
    )
