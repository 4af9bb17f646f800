"""Benchmarks of the viewer, which measure the size and time of pages and the server with a map of 100,000 tokens.

Run it alone on an idle machine. The overview of the long map computes ten billion weights, which takes minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import torch
from harness import seconds

import regard
from regard.maps import AttentionMap, Record
from regard.maps.sources import Recomputed
from regard.viewer.application import OVERVIEW_SIDE, TILE_SIDE
from regard.viewer.tiles import Overview


def one_map(heads: int, tokens: int, width: int, *, causal: bool = True) -> AttentionMap:
    q, k = torch.randn(2, 1, heads, tokens, width).unbind()
    v = torch.zeros(1, heads, tokens, 1)
    mask = regard.causal() if causal else None
    return regard.attention(q, k, v, mask=mask, return_map=True)[1]


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


def long_page(tokens: int, *, causal: bool) -> None:
    """Compare a page of one long map with two passes over its scores."""
    weights = one_map(1, tokens, 64, causal=causal)
    kind = "causal" if causal else "self"
    record = Record(name="long", layer=0, kind=kind, map=weights)
    page, twice = seconds(
        lambda: regard.viewer.html([record]), lambda: two_passes(weights._source, OVERVIEW_SIDE), turns=2
    )
    print(
        f"page of {tokens:,} tokens, {kind}: {page:.1f} s, two passes over its scores {twice / page:.1f}x that"
    )


def two_passes(source: Any, side: int) -> None:
    """Take the log-sum-exp of every row, then every weight for the overview."""
    _ = Recomputed(source.ready, source.grid, source.mask, source.bias, None, None).lse
    list(Overview(source, 0, 0, side).stream())


def small_maps(layers: int, tokens: int) -> None:
    names = range(layers)
    records = [Record(name=f"layers.{n}", layer=n, kind="causal", map=one_map(9, tokens, 64)) for n in names]
    (took,) = seconds(lambda: regard.viewer.html(records), turns=3)
    print(f"page of {layers} layers x 9 heads x {tokens} tokens: {took:.2f} s (limit 3)")


@contextlib.contextmanager
def served(record: Record) -> Iterator[Callable[[str], float]]:
    """Run a server as `regard view` does, and yield a function that sends a request and returns the finished share."""
    import uvicorn

    from regard.viewer import server
    from regard.viewer.application import Viewer

    listening = server.free_socket("127.0.0.1", 0)
    port = listening.getsockname()[1]
    viewer = Viewer([record], token="bench", hosts=server._names("127.0.0.1", port))
    running = uvicorn.Server(server._limited(viewer))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()

    def ask(what: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/bench/{what}") as reply:
            reply.read()
            return float(reply.headers.get("X-Regard-Done", 1))

    try:
        yield ask
    finally:
        running.should_exit = True
        thread.join()
        viewer.close()
        listening.close()


def long_map(tokens: int, overview: bool) -> None:
    record = Record(name="long", layer=0, kind="causal", map=one_map(1, tokens, 64))
    with served(record) as ask:
        times = []
        for n in range(20):
            at = (n * 7919) % (tokens // TILE_SIDE)
            start = time.perf_counter()
            ask(f"tile?record=0&b=0&h=0&pool=1&row={at}&col={at}")
            times.append(time.perf_counter() - start)
        print(
            f"tile of {TILE_SIDE} x {TILE_SIDE} of {tokens:,} tokens: median {1e3 * sorted(times)[10]:.1f} ms"
        )
        start = time.perf_counter()
        while overview and ask(f"overview?record=0&b=0&h=0&side={OVERVIEW_SIDE}") < 1:
            time.sleep(0.6)  # the interval of the page
        if overview:
            print(f"overview of {tokens:,} tokens, through the server: {time.perf_counter() - start:.0f} s")
    print(f"peak of resident memory: {peak_megabytes():,.0f} MB (limit 2,000)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument("--no-overview", action="store_true", help="leave out the long pass")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    pages()
    small_maps(30, 80)
    long_page(20_000, causal=True)
    long_page(20_000, causal=False)
    for tokens in (arguments.tokens // 10, arguments.tokens):  # the cost of a tile does not depend on the map
        long_map(tokens, tokens == arguments.tokens and not arguments.no_overview)


if __name__ == "__main__":
    main()
