"""The viewer: sizes of pages, and a map of 100,000 tokens behind the server.

Run alone on an idle machine. The overview of the long map is one pass over ten billion weights: minutes, not seconds.
"""

from __future__ import annotations

import argparse
import resource
import time

import torch

import regard
from regard.maps import AttentionMap, Record
from regard.viewer.application import OVERVIEW_SIDE, TILE_SIDE
from regard.viewer.payload import source_of
from regard.viewer.tiles import Overview, pooled_tile


def one_map(heads: int, tokens: int, width: int) -> AttentionMap:
    q, k = torch.randn(2, 1, heads, tokens, width).unbind()
    v = torch.zeros(1, heads, tokens, 1)
    return regard.attention(q, k, v, mask=regard.causal(), return_map=True)[1]


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def pages() -> None:
    for width, limit in ((32, 15), (64, 28)):
        records = [
            Record(name=f"layers.{n}", layer=n, kind="causal", map=one_map(12, 512, width)) for n in range(12)
        ]
        start = time.perf_counter()
        size = len(regard.viewer.html(records).encode()) / 1e6
        took = time.perf_counter() - start
        print(
            f"page, 12 layers x 12 heads x 512 tokens, width {width}: {size:.1f} MB (limit {limit}), {took:.1f} s"
        )


def long_map(tokens: int, overview: bool) -> None:
    source = source_of(one_map(1, tokens, 64))
    times = []
    for n in range(20):
        row = col = (n * 7919) % (tokens // TILE_SIDE)
        start = time.perf_counter()
        rows = slice(row * TILE_SIDE, (row + 1) * TILE_SIDE)
        pooled_tile(source, 0, 0, rows, slice(col * TILE_SIDE, (col + 1) * TILE_SIDE), 1)
        times.append(time.perf_counter() - start)
    print(f"tile of {TILE_SIDE} x {TILE_SIDE} of {tokens:,} tokens: median {1e3 * sorted(times)[10]:.1f} ms")
    if overview:
        start = time.perf_counter()
        for _ in Overview(source, 0, 0, OVERVIEW_SIDE).stream():
            pass
        print(f"overview of {tokens:,} tokens: {time.perf_counter() - start:.0f} s")
    print(f"peak of resident memory: {peak_megabytes():,.0f} MB (limit 2,000)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument("--no-overview", action="store_true", help="leave out the long pass")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    pages()
    for tokens in (arguments.tokens // 10, arguments.tokens):  # the cost of a tile does not grow with the map
        long_map(tokens, tokens == arguments.tokens and not arguments.no_overview)


if __name__ == "__main__":
    main()
