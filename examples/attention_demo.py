"""A demonstration of attention in plain NumPy, in five parts.

    python examples/attention_demo.py              figures into the current folder
    python examples/attention_demo.py --out DIR    figures into DIR

The figures are saved and their paths printed. If there is a display, they are also shown.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from deep_learning.activations import softmax
from deep_learning.attention import (
    MultiHeadAttention,
    create_causal_mask,
    create_padding_mask,
    scaled_dot_product_attention,
)

WORDS = ["the", "cat", "slept", "because", "it", "was", "tired"]
# Hand-made features of each word. The columns are living thing, action, state and function word. A trained model
# learns such features.
MEANING = np.array(
    [
        [0.0, 0.0, 0.0, 2.0],  # the
        [3.0, 0.0, 0.0, 0.0],  # cat
        [0.0, 3.0, 1.0, 0.0],  # slept
        [0.0, 0.0, 0.0, 2.0],  # because
        [2.0, 0.0, 0.0, 0.0],  # it, which refers to a living thing
        [0.0, 0.0, 1.0, 1.0],  # was
        [0.0, 0.0, 3.0, 0.0],  # tired
    ]
)

# The matplotlib backends that cannot open a window.
SILENT_BACKENDS = {"agg", "cairo", "pdf", "pgf", "ps", "svg", "template"}


def heading(number: int, title: str) -> None:
    print(f"\n{number}. {title}\n{'-' * (len(title) + 3)}")


def print_weights(weights: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Print a table of weights (q,k)."""
    width = max(6, *(len(name) for name in columns))
    margin = max(len(name) for name in rows)
    print(" " * margin, *(f"{name:>{width}}" for name in columns))
    for name, row in zip(rows, weights, strict=True):
        print(f"{name:<{margin}}", *(f"{weight:{width}.3f}" for weight in row))


def self_attention() -> np.ndarray:
    heading(1, "Self-attention: every word attends to every word")
    _, weights = scaled_dot_product_attention(MEANING, MEANING, MEANING)  # (q,k)
    print_weights(weights, WORDS, WORDS)
    it = WORDS.index("it")
    most = WORDS[int(weights[it].argmax())]
    print(f"\n'it' attends most to {most!r}, because of its features and not because of its position.")
    print("each row sums to", weights.sum(axis=-1).round(6).tolist())
    return weights


def query_key_value() -> None:
    heading(2, "Query, key, value: one query over three keys, by hand")
    Q = np.array([[1.0, 0.0]])  # (1,d)
    K = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])  # (k,d)
    V = np.array([[10.0, 0.0], [0.0, 20.0], [30.0, 0.0]])  # (k,d)
    scores = Q @ K.T
    scaled = scores / np.sqrt(K.shape[-1])
    weights = softmax(scaled)
    output = weights @ V
    print("scores  = Q K^T            ", scores[0].tolist())
    print("scaled  = scores / sqrt(2) ", scaled[0].round(4).tolist())
    print("weights = softmax(scaled)  ", weights[0].round(4).tolist())
    print("output  = weights V        ", output[0].round(4).tolist())
    print("\nThe middle key does not match but gets a fifth. Softmax gives no unmasked key a weight of 0.")
    output, _ = scaled_dot_product_attention(Q, K, V)
    print("the same in one call       ", output[0].round(4).tolist())


def causal_mask() -> np.ndarray:
    heading(3, "The causal mask: no word attends to a later one")
    mask = create_causal_mask(len(WORDS))  # (q,k)
    _, weights = scaled_dot_product_attention(MEANING, MEANING, MEANING, mask)
    print("the mask for four words:")
    print(create_causal_mask(4))
    print("\nweights under the mask:")
    print_weights(weights, WORDS, WORDS)
    print(f"\nweight on later words: {np.triu(weights, k=1).sum():.1f}")

    tokens = np.array([[5, 8, 3, 0, 0]])  # the last two are padding
    padding = create_padding_mask(tokens)  # (b,1,k)
    x = np.ones((1, 5, 4))
    _, padded = scaled_dot_product_attention(x, x, x, padding)
    print(
        f"a padding mask works the same way: tokens {tokens[0].tolist()} get", padded[0, 0].round(3).tolist()
    )
    return weights


def compare_heads() -> np.ndarray:
    heading(4, "Heads: several attentions over the same sentence")
    angle = np.arange(len(WORDS))[:, None] / np.array([1.0, 4.0])  # positions at two frequencies
    x = np.concatenate([MEANING, np.sin(angle), np.cos(angle)], axis=-1)[None]  # (b,q,m) with m = 8
    layers = [MultiHeadAttention(d_model=8, num_heads=num_heads, seed=0) for num_heads in (1, 2, 4)]
    for layer in layers:
        print(f"{layer.num_heads} head(s) of width {layer.d_k}: {x.shape} -> {layer.forward(x, x, x).shape}")
    weights = layers[-1].attention_weights(x, x)[0]  # (h,q,k)
    it = WORDS.index("it")
    for head, rows in enumerate(weights):
        print(f"head {head}: 'it' attends most to {WORDS[int(rows[it].argmax())]!r} ({rows[it].max():.3f})")
    print("\nThese heads are not trained. They differ because of their random weights.")
    return weights


def heat_map(axes: Any, weights: np.ndarray, title: str) -> Any:
    """Draw weights (q,k) as a heat map with a row for each query and a column for each key."""
    image = axes.imshow(weights, cmap="viridis", vmin=0, vmax=1)
    axes.set_xticks(range(len(WORDS)), WORDS, rotation=45, ha="right")
    axes.set_yticks(range(len(WORDS)), WORDS)
    axes.set_xlabel("key")
    axes.set_ylabel("query")
    axes.set_title(title)
    return image


def draw(free: np.ndarray, causal: np.ndarray, heads: np.ndarray, out: Path) -> None:
    heading(5, "The weights, drawn")
    screen = has_screen()
    if not screen:
        matplotlib.use("Agg")
    # Imported here because the backend has to be chosen first.
    import matplotlib.pyplot as plt

    out.mkdir(parents=True, exist_ok=True)
    figure, row = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
    heat_map(row[0], free, "self-attention")
    figure.colorbar(heat_map(row[1], causal, "with the causal mask"), ax=row, label="weight")
    save(figure, out / "attention_masks.png")

    figure, row = plt.subplots(1, len(heads), figsize=(4 * len(heads), 4), layout="constrained")
    for number, (axes, weights) in enumerate(zip(row, heads, strict=True)):
        heat_map(axes, weights, f"head {number}")
    save(figure, out / "attention_heads.png")
    if screen and plt.get_backend().lower() not in SILENT_BACKENDS:
        plt.show()
    plt.close("all")


def has_screen() -> bool:
    if os.environ.get("MPLBACKEND", "").lower() in SILENT_BACKENDS:
        return False
    if sys.platform.startswith("linux"):
        return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return True


def save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=120)
    print(f"saved {path}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="A demonstration of attention in plain NumPy, in five parts."
    )
    parser.add_argument(
        "--out", type=Path, default=Path("."), help="folder for the figures (default: this one)"
    )
    out = parser.parse_args(arguments).out
    free = self_attention()
    query_key_value()
    causal = causal_mask()
    heads = compare_heads()
    draw(free, causal, heads, out)


if __name__ == "__main__":
    main()
