"""The tour of ``regard tour``, with attention computed by hand and shown in three sentences.

Nothing here is trained. The vectors are made by hand from named features, so that every weight can be explained.
The tour needs only NumPy and rich. The figures also need matplotlib.
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

# A factor on the queries. Without it, features from 0 to 1 would give nearly uniform weights.
SHARPNESS = 6.0


class Scene(NamedTuple):
    """Attention weights with their labels, from ``targets`` (rows) to ``sources`` (columns)."""

    targets: list[str]
    sources: list[str]
    weights: np.ndarray  # (q,k)


def run(out: str | os.PathLike[str] = "regard-tour", console: Console | None = None) -> list[Path]:
    """Print the tour, write its figures into the folder ``out`` and return their paths.

    Without matplotlib there are no figures, and the list is empty.
    """
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
    """Compute the attention of one query over three keys, small enough to check by hand.

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
    """Compute the self-attention of a sentence.

    The key of a word describes the word, and its query describes the words it attends to.
    """
    #            being place action
    key = {
        "the": (0.0, 0.0, 0.0),
        "cat": (1.0, 0.0, 0.0),
        "sat": (0.0, 0.0, 1.0),
        "on": (0.0, 0.2, 0.0),
        "mat": (0.0, 1.0, 0.0),
    }
    query = {
        "the": (0.8, 0.8, 0.0),  # attends to a noun, which is a being or a place
        "cat": (0.5, 0.0, 0.9),  # attends to its action
        "sat": (1.0, 0.7, 0.0),  # attends to the being that sat, and to the place
        "on": (0.0, 1.0, 0.4),  # attends to the place, and to the action
        "mat": (0.3, 0.6, 0.7),
    }
    words = ["The", "cat", "sat", "on", "the", "mat"]
    return _scene(words, words, [query[w.lower()] for w in words], [key[w.lower()] for w in words])


def cross_scene() -> Scene:
    """Compute the cross-attention of a French sentence to the English sentence it translates."""
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
    """Compute the causal self-attention of a sentence, in which the mask hides all later words."""
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
        "The": (1.0, 0.0, 0.0, 0.0),  # attends to its noun, which comes later
        "cat": (0.6, 0.6, 0.0, 0.2),
        "slept": (1.0, 0.2, 0.0, 0.0),  # attends to the being that slept
        "because": (0.1, 1.0, 0.0, 0.2),  # attends to the deed that is explained
        "it": (1.0, 0.0, 0.0, 0.0),  # attends to its antecedent
        "was": (0.3, 0.0, 1.0, 0.0),
        "tired": (0.6, 0.0, 0.6, 0.0),  # attends to the being that is tired
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
    """Draw one figure and print its path, or print a note if matplotlib is not installed."""
    try:
        draw()
    except MissingExtraError as error:
        _verbatim(console, f"(no picture: {error})")
        return
    pictures.append(path)
    _verbatim(console, f"Picture: {path}")


def _say(console: Console, text: str, style: str = "") -> None:
    """Print a paragraph, wrapped to the width of the terminal."""
    console.print(Text(" ".join(text.split()), style=style))
    console.print()


def _verbatim(console: Console, text: str) -> None:
    """Print lines without wrapping, so that tables stay aligned and a path can be copied."""
    console.print(Text(text), soft_wrap=True)
    console.print()


# ---- the texts -----------------------------------------------------------------------------------

_WORKED_TITLE = "Attention by hand"
_WORKED = """
A query is compared with the key of every position. The output is the mean of the values, weighted by how well
the keys match the query. Here are one query q = [1, 0], three keys [1, 0], [0, 1], [1, 0], and three values
[10, 0], [0, 20], [30, 0].
"""
_WORKED_AFTER = """
Two keys match the query and one does not, but that one still gets 0.1978. A softmax weight is never 0, because
the exponential of a score is always positive. So the output is [16.0445, 3.9555], a mixture of all three values.
(Some tutorials print [0.5, 0, 0.5] and [20, 0] here. A hard choice would give that, not softmax.)
"""
_SELF_TITLE = "Self-attention: each word attends to its own sentence"
_SELF = """
Each row is a query word and each column a key word. A row sums to 1. No model was trained for this. Every word
has a key made by hand that describes it (a being, a place, an action), and a query that describes the words it
attends to ("sat" attends to a being and a place). A trained model learns such vectors, with more features that
have no names.
"""
_SELF_AFTER = """
"sat" attends most to "cat", then to "mat". The rows of "The" and "the" are equal, because both words have the same
vectors and attention does not depend on the position of a word. Positional encodings add that information.
"""
_CROSS_TITLE = "Cross-attention: a translation attends to its source"
_CROSS = """
Now the queries come from the French words and the keys from the English words. Again the vectors are made by
hand.
"""
_CROSS_AFTER = """
"est" and "assis" both attend to "sits", because two French words translate one English word. "Le" and "le" each
attend to the right article, because these vectors, unlike those above, also encode the noun of the article.
"""
_CAUSAL_TITLE = "Causal attention: no word attends to later words"
_CAUSAL = """
A model that generates one word after the other may attend only to earlier words. The mask sets the scores of
later words to -inf before the softmax, so all weights above the diagonal are exactly 0.
"""
_CAUSAL_AFTER = """
The noun of "The" comes later and is masked, so "The" attends only to itself, with weight 1.00. "it" attends
most to "cat".
"""
_END = "This is the end of the tour. Change a vector in the module regard.learn.tour and run it again."
