"""Additive (Bahdanau) attention for one decoder step, for many steps, and for sentences of unequal length.

    python examples/additive_attention.py              writes additive_attention.png into the current folder
    python examples/additive_attention.py --out DIR    writes it into DIR

The layer scores each encoder state h by  v . tanh(query + W h)  and averages the states with the softmax of the
scores. Nothing here is trained, so the weights are random and only show the shapes and the masking.
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
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the figure")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    one_step(out)
    many_steps()
    unequal_lengths()


def one_step(out: Path) -> None:
    """Attend from one decoder state to five encoder states."""
    batch_size, seq_len, hidden_dim = 2, 5, 10
    query = torch.randn(batch_size, hidden_dim)  # the current decoder state
    keys = torch.randn(batch_size, seq_len, hidden_dim)  # all encoder states
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
    """Attend from all decoder steps at once, as in training with teacher forcing."""
    attention = AdditiveAttention(10)
    queries, keys = torch.randn(2, 3, 10), torch.randn(2, 5, 10)
    context, weights = attention(queries, keys)
    print("\nThree queries at once:", context.shape, weights.shape)
    single = [attention(queries[:, n], keys)[0] for n in range(3)]
    difference = (context - torch.stack(single, dim=1)).abs().max().item()
    print("The same as one after the other:", difference < 1e-6)


def unequal_lengths() -> None:
    """Attend to the states of a GRU over a packed batch, with the padding masked."""
    lengths = torch.tensor([5, 3])
    encoder = nn.GRU(input_size=6, hidden_size=10, batch_first=True)
    packed = pack_padded_sequence(torch.randn(2, 5, 6), lengths, batch_first=True)
    states, last = encoder(packed)
    keys, _ = pad_packed_sequence(states, batch_first=True)  # (2,5,10), zeros at the padding
    context, weights = AdditiveAttention(10)(last[0], keys, mask=padding(lengths))
    print("\nPacked batch:", context.shape, weights.shape)
    print("Weights of the shorter sequence:", [round(weight, 4) for weight in weights[1].tolist()])


if __name__ == "__main__":
    main()
