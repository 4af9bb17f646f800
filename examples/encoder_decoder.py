"""Encoder-decoder (cross) attention, from the tokens of the decoder to those of the encoder.

    python examples/encoder_decoder.py              writes alignment.png into the current folder
    python examples/encoder_decoder.py --out DIR    writes it into DIR

The weights are NOT trained here. The figure has a row for each French token and a column for each English token.
After training, large weights in it would show the word alignment.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import torch
from torch import Tensor, nn

from regard import EncoderDecoderAttention, PositionalEncoding, visualize_attention

SOURCE = "The cat sits on the mat."
TARGET = "Le chat est assis sur le tapis."


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the figure")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    shapes()
    sentence(out)


def shapes() -> None:
    """Print the shapes for five encoder states and three decoder states of width 4."""
    encoder_output = torch.rand(1, 5, 4)  # (batch, source length, width)
    decoder_input = torch.rand(1, 3, 4)  # (batch, target length so far, width)
    output, weights = EncoderDecoderAttention(embed_dim=4)(encoder_output, decoder_input)
    print("Attention Output:", tuple(output.shape))
    print(output)
    print("Attention Weights:", tuple(weights.shape))
    print(weights)


def sentence(out: Path) -> None:
    """Print and draw the weights of a pair of sentences with seven and eight tokens."""
    source, target = tokens_of(SOURCE), tokens_of(TARGET)
    print(f"\nSource, {len(source)} tokens:", *source)
    print(f"Target, {len(target)} tokens:", *target)
    width = 16
    attention = EncoderDecoderAttention(width)
    with torch.no_grad():
        _, weights = attention(embed(source, width), embed(target, width))
    print("Weights:", tuple(weights.shape), "- untrained, so they say nothing about the languages yet")
    print_table(weights[0], source, target)
    path = out / "alignment.png"
    visualize_attention(weights[0], source, target, path=path, title="Cross-attention (untrained weights)")
    print(f"Alignment picture saved as '{path}'")


def tokens_of(text: str) -> list[str]:
    """Split a text into words and punctuation marks.

    >>> tokens_of("On the mat.")
    ['On', 'the', 'mat', '.']
    """
    return re.findall(r"\w+|[^\w\s]", text)


def embed(tokens: list[str], width: int) -> Tensor:
    """Return a random vector for each distinct token plus its positional encoding, (1,n,m)."""
    vocabulary = {token: index for index, token in enumerate(dict.fromkeys(tokens))}
    ids = torch.tensor([[vocabulary[token] for token in tokens]])  # (1,n)
    return PositionalEncoding(width)(nn.Embedding(len(vocabulary), width)(ids))  # (1,n,m)


def print_table(weights: Tensor, source: list[str], target: list[str]) -> None:
    print(" " * 8 + "".join(f"{token:>7}" for token in source))
    for token, row in zip(target, weights.tolist(), strict=True):
        print(f"{token:>8}" + "".join(f"{weight:7.2f}" for weight in row))


if __name__ == "__main__":
    main()
