"""Tests of the layer numbers of records."""

import torch
from torch import nn

from regard.capture.reading.layer_numbers import LayerNumbers
from support.capture_cases import B, H, K, M, Q, seen_of


class TwoStreams(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(M, H, batch_first=True)

    def forward(self, x, y):
        return self.attn(x, x, x)[0], self.attn(y, y, y)[0]


class Streams(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(TwoStreams() for _ in range(2))

    def forward(self, x, y):
        for layer in self.layers:
            x, y = layer(x, y)
        return x, y


def test_two_calls_of_one_layer_have_the_same_layer_number():
    x, y = torch.randn(B, Q, M), torch.randn(B, K, M)
    seen, _ = seen_of(Streams(), x, y)
    assert [(r.layer, r.map.shape[2]) for r in seen] == [(0, Q), (0, K), (1, Q), (1, K)]
    seen, _ = seen_of(Streams(), x, y, options={"layers": [1]})
    assert [r.name for r in seen] == ["layers.1.attn"] * 2
    numbers = LayerNumbers(dict.fromkeys(["layers.3.attn"], nn.Module))
    # A single attention that is called again counts as the next layer.
    assert [numbers.call("layers.3.attn", 1)[0] for _ in range(2)] == [3, 4]


def test_layers_are_numbered_from_their_names():
    names = [f"stages.{s}.blocks.{b}.attn" for s in (0, 1) for b in (0, 1)]
    swin = LayerNumbers(dict.fromkeys(names, nn.Module))
    assert [swin.call(name, 1)[0] for name in names] == [0, 1, 2, 3]
    albert = LayerNumbers(dict.fromkeys(["groups.0.layers.0.attention"], nn.Module))
    for step in (1, 2):
        assert [albert.call("groups.0.layers.0.attention", step) for _ in range(3)] == [
            (0, 0),
            (1, 1),
            (2, 2),
        ]
    twice = LayerNumbers(dict.fromkeys(["layer.0.attention", "layer.1.attention"], nn.Module))
    calls = [twice.call(f"layer.{n}.attention", 1)[0] for n in (0, 1, 0, 1)]
    assert calls == [0, 1, 0, 1]  # a model that runs over two inputs
    lists = LayerNumbers(
        {f"layers.{n}.{part}": (nn.Linear, nn.Identity)[part] for n in (0, 1) for part in (0, 1)}
    )
    assert [lists.call(f"layers.{n}.0", 1)[0] for n in (0, 1)] == [0, 1]
    assert lists.from_end("layers.1.0", 1) == -1
    hybrid = LayerNumbers(dict.fromkeys(["layers.3.attn", "layers.7.attn"], nn.Module))
    assert [hybrid.call(n, 1)[0] for n in ("layers.3.attn", "layers.7.attn")] == [3, 7]
    assert LayerNumbers(dict.fromkeys(["attn"], nn.Module)).call("attn", 1) == (None, 0)
