"""Additive (Bahdanau) attention: one step of a decoder, many steps at once, and sentences of unequal length.

    python examples/additive_attention.py              writes additive_attention.png into the current folder
    python examples/additive_attention.py --out DIR    writes it into DIR

The layer scores each encoder state h by  v . tanh(query + W h),  takes the softmax and sums the states up.
Nothing here is trained: the numbers show the shapes and the rules, not a skill.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard import AdditiveAttention, padding, plot_weights


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    one_step(out)
    many_steps()
    unequal_lengths()


def one_step(out: Path) -> None:
    """One decoder state asks, five encoder states answer."""
    batch_size, seq_len, hidden_dim = 2, 5, 10
    query = torch.randn(batch_size, hidden_dim)  # the decoder's state now
    keys = torch.randn(batch_size, seq_len, hidden_dim)  # all states of the encoder
    attention = AdditiveAttention(hidden_dim)
    context, weights = attention(query, keys)
    print("Context shape:", context.shape)
    print("Weights shape:", weights.shape)
    print("Weights:\n", weights)
    print("Each row sums to", weights.sum(dim=1).tolist())
    path = out / "additive_attention.png"
    plot_weights(weights[0], path=path)
    print(f"Bar chart of the first sequence saved as '{path}'")


def many_steps() -> None:
    """While training, all steps of the decoder are known: ask them together."""
    attention = AdditiveAttention(10)
    queries, keys = torch.randn(2, 3, 10), torch.randn(2, 5, 10)
    context, weights = attention(queries, keys)
    print("\nThree queries at once:", context.shape, weights.shape)
    alone = [attention(queries[:, n], keys)[0] for n in range(3)]
    difference = (context - torch.stack(alone, dim=1)).abs().max().item()
    print("The same as one after the other:", difference < 1e-6)


def unequal_lengths() -> None:
    """A GRU reads a packed batch: padding never enters its state, and the mask keeps it unattended."""
    lengths = torch.tensor([5, 3])
    encoder = nn.GRU(input_size=6, hidden_size=10, batch_first=True)
    packed = pack_padded_sequence(torch.randn(2, 5, 6), lengths, batch_first=True)
    states, last = encoder(packed)
    keys, _ = pad_packed_sequence(states, batch_first=True)  # (2,5,10), zeros after the third of the second
    context, weights = AdditiveAttention(10)(last[0], keys, mask=padding(lengths))
    print("\nPacked batch:", context.shape, weights.shape)
    print("Weights of the shorter sequence:", [round(weight, 4) for weight in weights[1].tolist()])


if __name__ == "__main__":
    main()
