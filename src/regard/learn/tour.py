"""The tour: attention worked out by hand, then seen at work in three sentences.

Nothing here is trained. The vectors are made by hand, with features a reader can name, so that each number
in the pictures can be traced back to a reason. It runs on NumPy alone; the pictures want matplotlib.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.text import Text

from regard import plots, reference
from regard.errors import FileError, MissingExtraError
from regard.terminal import draw_weights

__all__ = ["Scene", "causal_scene", "cross_scene", "run", "self_scene", "worked_example"]

SHARPNESS = 6.0  # hand-made features are 0 to 1; this makes the softmax choose rather than average


class Scene(NamedTuple):
    """Weights with the words they stand between: ``targets`` (rows) look at ``sources`` (columns)."""

    targets: list[str]
    sources: list[str]
    weights: np.ndarray  # (q,k)


def run(out: str | os.PathLike[str] = "regard-tour", console: Console | None = None) -> list[Path]:
    """Print the tour and write its pictures into ``out``; returns their paths (none without matplotlib)."""
    console = console or Console(highlight=False)
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"--out: cannot make the folder '{folder}': {error.strerror or error}") from error
    pictures: list[Path] = []
    for number, stop in enumerate((_stop_worked, _stop_self, _stop_cross, _stop_causal), start=1):
        stop(console, f"{number}. ", folder, pictures)
    _say(console, _END)
    return pictures


# ---- the four stops ------------------------------------------------------------------------------


def worked_example() -> reference.Explanation:
    """One query over three keys, small enough to check on paper.

    >>> worked_example().weights.round(4).tolist()
    [[0.4011, 0.1978, 0.4011]]
    >>> worked_example().output.round(4).tolist()
    [[16.0445, 3.9555]]
    """
    q = [[1.0, 0.0]]
    k = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    v = [[10.0, 0.0], [0.0, 20.0], [30.0, 0.0]]
    return reference.explain(q, k, v)


def self_scene() -> Scene:
    """A sentence looks at itself: each word has a query (what it seeks) and a key (what it is)."""
    #            being place action
    key = {
        "the": (0.0, 0.0, 0.0),
        "cat": (1.0, 0.0, 0.0),
        "sat": (0.0, 0.0, 1.0),
        "on": (0.0, 0.2, 0.0),
        "mat": (0.0, 1.0, 0.0),
    }
    query = {
        "the": (0.8, 0.8, 0.0),  # an article seeks a noun, a being or a place
        "cat": (0.5, 0.0, 0.9),  # what does it do?
        "sat": (1.0, 0.7, 0.0),  # who sat, and where?
        "on": (0.0, 1.0, 0.4),  # on what? what happened there?
        "mat": (0.3, 0.6, 0.7),
    }
    words = ["The", "cat", "sat", "on", "the", "mat"]
    return _scene(words, words, [query[w.lower()] for w in words], [key[w.lower()] for w in words])


def cross_scene() -> Scene:
    """A French sentence looks at the English one it translates: all of it, both articles too."""
    #                      article cat  sit  on   mat  stop
    source = {
        "The": (1.0, 0.5, 0.0, 0.0, 0.0, 0.0),  # the article of the cat
        "cat": (0.0, 1.0, 0.2, 0.0, 0.0, 0.0),
        "sits": (0.0, 0.0, 1.0, 0.2, 0.0, 0.0),
        "on": (0.0, 0.0, 0.1, 1.0, 0.1, 0.0),
        "the": (1.0, 0.0, 0.0, 0.0, 0.5, 0.0),  # the article of the mat
        "mat": (0.0, 0.0, 0.0, 0.1, 1.0, 0.0),
        ".": (0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
    }
    target = {
        "Le": (1.0, 0.6, 0.0, 0.0, 0.0, 0.0),
        "chat": (0.0, 1.2, 0.0, 0.0, 0.0, 0.0),
        "est": (0.0, 0.3, 1.0, 0.0, 0.0, 0.0),  # "est assis" is one verb, "sits"
        "assis": (0.0, 0.0, 1.2, 0.2, 0.0, 0.0),
        "sur": (0.0, 0.0, 0.0, 1.2, 0.0, 0.0),
        "le": (1.0, 0.0, 0.0, 0.0, 0.6, 0.0),
        "tapis": (0.0, 0.0, 0.0, 0.0, 1.2, 0.0),
        ".": (0.0, 0.0, 0.0, 0.0, 0.0, 1.2),
    }
    return _scene(list(target), list(source), list(target.values()), list(source.values()))


def causal_scene() -> Scene:
    """A sentence read from left to right: the mask hides every word that has not been read yet."""
    #           being deed pronoun link
    key = {
        "The": (0.0, 0.0, 0.0, 0.5),
        "cat": (1.0, 0.0, 0.0, 0.0),
        "slept": (0.0, 1.0, 0.0, 0.0),
        "because": (0.0, 0.0, 0.0, 1.0),
        "it": (0.4, 0.0, 1.0, 0.0),
        "was": (0.0, 0.4, 0.0, 0.2),
        "tired": (0.0, 0.6, 0.0, 0.0),
    }
    query = {
        "The": (1.0, 0.0, 0.0, 0.0),  # seeks its noun, which is still to come
        "cat": (0.6, 0.6, 0.0, 0.2),
        "slept": (1.0, 0.2, 0.0, 0.0),  # who slept?
        "because": (0.1, 1.0, 0.0, 0.2),  # what is being explained?
        "it": (1.0, 0.0, 0.0, 0.0),  # who is "it"?
        "was": (0.3, 0.0, 1.0, 0.0),
        "tired": (0.6, 0.0, 0.6, 0.0),  # who is tired?
    }
    words = list(key)
    mask = reference.causal_mask(len(words), len(words))
    return _scene(words, words, list(query.values()), list(key.values()), mask)


def _scene(
    targets: list[str],
    sources: list[str],
    queries: list[tuple[float, ...]],
    keys: list[tuple[float, ...]],
    mask: np.ndarray | None = None,
) -> Scene:
    k = np.array(keys)
    _, weights = reference.scaled_dot_product_attention(SHARPNESS * np.array(queries), k, k, mask)
    return Scene(targets, sources, weights)


def _stop_worked(console: Console, number: str, folder: Path, pictures: list[Path]) -> None:
    explained = worked_example()
    _say(console, f"{number}{_WORKED_TITLE}", style="bold")
    _say(console, _WORKED)
    _verbatim(console, str(explained))
    _say(console, _WORKED_AFTER)
    path = folder / "1-worked-example.png"
    labels = ["key 0", "key 1", "key 2"]
    _picture(
        console,
        pictures,
        path,
        lambda: plots.plot_weights(explained.weights[0], labels, title="The query's weights", path=path),
    )


def _stop_self(console: Console, number: str, folder: Path, pictures: list[Path]) -> None:
    scene = self_scene()
    _say(console, f"{number}{_SELF_TITLE}", style="bold")
    _say(console, _SELF)
    _table(console, scene)
    _say(console, _SELF_AFTER)
    _heat_map(
        console, pictures, folder / "2-self-attention.png", scene, "Self-attention (vectors made by hand)"
    )


def _stop_cross(console: Console, number: str, folder: Path, pictures: list[Path]) -> None:
    scene = cross_scene()
    _say(console, f"{number}{_CROSS_TITLE}", style="bold")
    _say(console, _CROSS)
    _table(console, scene)
    _say(console, _CROSS_AFTER)
    path, title = folder / "3-cross-attention.png", "Cross-attention (vectors made by hand)"
    _picture(
        console,
        pictures,
        path,
        lambda: plots.visualize_attention(
            scene.weights, scene.sources, scene.targets, path=path, title=title
        ),
    )


def _stop_causal(console: Console, number: str, folder: Path, pictures: list[Path]) -> None:
    scene = causal_scene()
    _say(console, f"{number}{_CAUSAL_TITLE}", style="bold")
    _say(console, _CAUSAL)
    _table(console, scene)
    _say(console, _CAUSAL_AFTER)
    _heat_map(
        console, pictures, folder / "4-causal-attention.png", scene, "Causal attention (vectors made by hand)"
    )


def _table(console: Console, scene: Scene) -> None:
    draw_weights(scene.weights, scene.targets, scene.sources, console=console)
    console.print()


def _heat_map(console: Console, pictures: list[Path], path: Path, scene: Scene, title: str) -> None:
    _picture(
        console,
        pictures,
        path,
        lambda: plots.visualize_attention(
            scene.weights, scene.sources, scene.targets, path=path, title=title, axes=("Key", "Query")
        ),
    )


def _picture(console: Console, pictures: list[Path], path: Path, draw: Callable[[], object]) -> None:
    """Draw one picture and print where it is; without matplotlib say so and go on."""
    try:
        draw()
    except MissingExtraError as error:
        _verbatim(console, f"(no picture: {error})")
        return
    pictures.append(path)
    _verbatim(console, f"Picture: {path}")


def _say(console: Console, text: str, style: str = "") -> None:
    """A paragraph, wrapped to the width of the window."""
    console.print(Text(" ".join(text.split()), style=style))
    console.print()


def _verbatim(console: Console, text: str) -> None:
    """Lines as they are, so that tables stay straight and a path can be copied."""
    console.print(Text(text), soft_wrap=True)
    console.print()


# ---- the words -----------------------------------------------------------------------------------

_WORKED_TITLE = "Attention by hand"
_WORKED = """
A query asks; each key says what its position is about; each value is what the position has to give. Here
are one query q = [1, 0], three keys [1, 0], [0, 1], [1, 0], and three values [10, 0], [0, 20], [30, 0].
"""
_WORKED_AFTER = """
Two keys match the query and one does not, yet the one that does not still gets 0.1978: softmax never gives
a weight of 0, because exp(0) is 1. So the output is [16.0445, 3.9555], a mixture of all three values. (Some
tutorials print [0.5, 0, 0.5] and [20, 0] here. That is what a hard choice would give, not softmax.)
"""
_SELF_TITLE = "Self-attention: a sentence looks at itself"
_SELF = """
Each row is a word that looks, each column a word that is looked at; a row adds up to 1. No model was trained
for this: every word was given, by hand, a key that says what it is (a being, a place, an action) and a query
that says what it seeks ("sat" seeks who, and where). A trained model learns such vectors, with more features,
and without names for them.
"""
_SELF_AFTER = """
"sat" finds the cat first, then the mat. The rows of "The" and "the" are the same: with the same vectors they
ask the same question, and attention alone does not know where a word stands. That is what positional
encodings are for.
"""
_CROSS_TITLE = "Cross-attention: a translation looks at its source"
_CROSS = """
Now the queries come from the French words and the keys from the English ones. Again the vectors are made by
hand.
"""
_CROSS_AFTER = """
"est" and "assis" both look at "sits": two words for one. "Le" and "le" find each its own article, because
these vectors, unlike those above, also say which noun the article belongs to.
"""
_CAUSAL_TITLE = "Causal attention: no looking ahead"
_CAUSAL = """
A model that writes one word after the other may only look back. The mask sets the scores of later words to
-inf before the softmax, so their weights are exactly 0: everything above the diagonal.
"""
_CAUSAL_AFTER = """
"The" seeks its noun, but the noun has not come yet: only itself is left, with weight 1.00. "it" looks back
and finds the cat.
"""
_END = "That was the tour. Change a vector in regard/learn/tour.py, run it again, and see what moves."
